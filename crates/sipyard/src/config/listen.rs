//! The sections `[[listen]]`.

use node::{
    LISTENERS_MAX, Transport,
    config::{IpNet, Listener},
};
use settings::{
    At, Place, Read, Section,
    value::{choice, list, text},
};

use super::{
    address::{address, sent_by},
    secure::{Secured, secured},
    trust::network,
};

/// All listeners, in their order.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    pub(super) listeners: Vec<Listener>,
    /// The place of each one's address in the file.
    pub(super) places: Vec<Place>,
    /// Where the address of the first secure one is in the file, in bytes.
    pub(super) first_secure: Option<usize>,
    /// Those before each one who speak the PROXY protocol.
    pub(super) balancers: Vec<Vec<IpNet>>,
    /// What secure ones have besides.
    pub(super) secured: Vec<Option<Secured>>,
}

/// Reads all `[[listen]]`.
pub(super) fn listeners(root: &mut Section<'_>) -> Listeners {
    let sections = root.tables("listen");
    if sections.is_empty() {
        root.problem("there is no listener: add [[listen]] with transport, address and advertise");
    }
    let mut found = Listeners::default();
    for mut section in sections {
        if let Some((listener, at)) = listener(&mut section) {
            let place = section.place(at);
            let mut others = found.listeners.iter().zip(&found.places);
            if let Some((_, first)) = others.find(|(other, _)| collide(other, &listener)) {
                let message = format!(
                    "the listener at {first} already has {}: choose another address or port",
                    listener.address
                );
                section.problem_of("address", at, &message);
            } else {
                let is_secure = listener.transport.is_secure();
                if is_secure {
                    found.first_secure.get_or_insert(at);
                }
                let secured = is_secure.then(|| secured(&mut section)).flatten();
                found.secured.push(secured);
                found
                    .balancers
                    .push(balancers(&mut section, listener.transport));
                found.listeners.push(listener);
                found.places.push(place);
            }
        }
        section.finish();
    }
    if found.listeners.len() > LISTENERS_MAX {
        root.problem(&format!(
            "there are more than {LISTENERS_MAX} listeners: remove some"
        ));
    }
    found
}

fn listener(section: &mut Section<'_>) -> Option<(Listener, usize)> {
    let transport = section.require(
        "transport",
        "write transport = \"udp\", \"tcp\", \"tls\", \"ws\" or \"wss\"",
        |value| transport(text(value)?),
    );
    let At { value: address, at } =
        section.require("address", "write address = \"IP:PORT\"", address)?;
    let advertise = section.get("advertise", sent_by);
    if !section.has("advertise") && address.ip().is_unspecified() {
        section.problem_of(
            "address",
            at,
            &format!(
                "{address} stands for every address of this machine: add advertise = \
                 \"HOST:PORT\", at which others reach this listener"
            ),
        );
    }
    let advertise = advertise.map_or_else(|| address.to_string(), |found| found.value.to_owned());
    let listener = Listener {
        transport: transport?.value,
        address,
        advertise,
    };
    Some((listener, at))
}

/// Reads who speaks the PROXY protocol to a listener.
fn balancers(section: &mut Section<'_>, transport: Transport) -> Vec<IpNet> {
    let found = section.get("proxy_protocol", list(network));
    if let Some(At { at, .. }) = found.as_ref().filter(|_| !transport.is_stream()) {
        let message = "only listeners of connections know the PROXY protocol: remove it";
        section.problem_of("proxy_protocol", *at, message);
    }
    found.map(|found| found.value).unwrap_or_default()
}

/// Whether two listeners can't both be bound.
fn collide(one: &Listener, other: &Listener) -> bool {
    let is_same = one.transport.is_stream() == other.transport.is_stream();
    is_same && one.address == other.address
}

/// A transport by its name.
pub(super) fn transport(name: &str) -> Read<Transport> {
    let all = Transport::ALL.map(|transport| (transport.label(), transport));
    choice("transport", name, &all)
}

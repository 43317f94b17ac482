//! Where a user's bindings lead: RFC 3261 §16.5, RFC 3327 §5.4.

use std::net::{IpAddr, SocketAddr};

use location::Binding;
use sip::{NameAddr, Param, Scheme, Uri};

use super::{bindings, reach};
use crate::{
    context::Context,
    question::{Name, Record},
    snapshot::Snapshot,
    stats::Event,
    wire::reply::Reply,
};

/// A place that a request may go to: RFC 3261 §16.5.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The Request-URI that it gets.
    pub(crate) uri: Vec<u8>,
    /// What the DNS has to be asked for first.
    pub(crate) name: Option<Name>,
    /// The next hop, in the order in which its addresses are to be tried.
    pub(crate) addresses: Vec<SocketAddr>,
    /// Where it ends, if that is elsewhere.
    pub(crate) far_end: Option<SocketAddr>,
    /// Where its REGISTER came from.
    pub(crate) source: SocketAddr,
    /// What its Route begins with; may be empty.
    pub(crate) path: Vec<u8>,
    /// Its preference in thousandths: higher ones come first, equal ones together.
    pub(crate) q: u16,
}

impl Target {
    /// Leaves out the addresses that a contact may not lead to, and returns how many there were. A Path is
    /// of those who are trusted, and leads anywhere.
    pub(crate) fn keep_allowed(&mut self, snapshot: &Snapshot) -> usize {
        let before = self.addresses.len();
        if self.path.is_empty() {
            let source = self.source;
            self.addresses
                .retain(|&to| reach::allows(snapshot, to, source));
        }
        before - self.addresses.len()
    }
}

/// The targets of a record of bindings. What is forbidden by now has no address.
pub(crate) fn targets(cx: Context<'_>, record: &Record) -> Result<Vec<Target>, Reply> {
    let location = bindings::read(Some(record), cx.wall())?;
    let targets = location.bindings.iter();
    let mut targets: Vec<_> = targets
        .filter_map(|known| target(cx.snapshot, known))
        .collect();
    let forbidden = targets
        .iter_mut()
        .map(|target| target.keep_allowed(cx.snapshot));
    cx.stats.count(Event::ForbiddenTarget, forbidden.sum());
    Ok(targets)
}

fn target(snapshot: &Snapshot, binding: &Binding<'_>) -> Option<Target> {
    let contact = Uri::parse(binding.contact.as_bytes()).ok()?;
    let has_path = !binding.path.is_empty();
    if contact.scheme != Scheme::Sip || (!has_path && reach::names_us(snapshot, &contact)) {
        return None;
    }
    let (name, addresses) = if has_path {
        let first = NameAddr::first(binding.path.as_bytes())?;
        let next_hop = Uri::parse(first.uri).ok()?;
        let address = next_hop.address();
        (Name::of(&next_hop), address.into_iter().collect())
    } else {
        let address = address_of(&contact, binding.received);
        (name_of(&contact), vec![address])
    };
    let far_end = contact
        .address()
        .filter(|&to| has_path && reach::allows(snapshot, to, binding.received));
    let mut uri = Vec::with_capacity(binding.contact.len());
    contact.write_as_request_uri(&mut uri);
    Some(Target {
        uri,
        name,
        addresses,
        far_end,
        source: binding.received,
        path: binding.path.into(),
        q: binding.q,
    })
}

/// A contact's name, unless it is one that phones make up. RFC 2606 §2
pub(super) fn name_of(contact: &Uri<'_>) -> Option<Name> {
    Name::of(contact).filter(|name| !name.host.to_ascii_lowercase().ends_with(".invalid"))
}

/// A contact's address as long as its name, if it has one, is not resolved: the one that it says, or
/// the one its REGISTER came from when it can't be reached there, behind a NAT or by a transport that is
/// not spoken here.
pub(super) fn address_of(contact: &Uri<'_>, received: SocketAddr) -> SocketAddr {
    let is_udp = match contact.param(b"transport") {
        Param::Value(transport) => transport.eq_ignore_ascii_case(b"udp"),
        Param::Flag => false,
        Param::Absent => true,
    };
    let is_behind_nat =
        |address: &SocketAddr| is_private(address.ip()) && !is_private(received.ip());
    contact
        .address()
        .filter(|address| is_udp && !is_behind_nat(address))
        .unwrap_or(received)
}

/// RFC 1918, RFC 6598, RFC 4193, and what means this host or this link.
fn is_private(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let [a, b, ..] = ip.octets();
            ip.is_private()
                || ip.is_loopback()
                || ip.is_link_local()
                || ip.is_unspecified()
                || (a == 100 && b & 0xc0 == 64)
        }
        IpAddr::V6(ip) => {
            ip.is_loopback()
                || ip.is_unspecified()
                || ip.is_unique_local()
                || ip.is_unicast_link_local()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contact_is_reached_where_it_is() {
        let cases = [
            (
                "sip:a@198.51.100.7:5070",
                "203.0.113.1:9",
                "198.51.100.7:5070",
            ),
            ("sip:a@198.51.100.7", "203.0.113.1:9", "198.51.100.7:5060"),
            ("sip:a@10.0.0.7:5070", "203.0.113.1:9", "203.0.113.1:9"),
            ("sip:a@100.64.0.7:5070", "203.0.113.1:9", "203.0.113.1:9"),
            ("sip:a@10.0.0.7:5070", "10.0.0.1:9", "10.0.0.7:5070"),
            ("sip:a@[fd00::7]:5070", "[2001:db8::1]:9", "[2001:db8::1]:9"),
            (
                "sip:a@198.51.100.7;transport=tcp",
                "203.0.113.1:9",
                "203.0.113.1:9",
            ),
            (
                "sip:a@198.51.100.7;transport=UDP",
                "203.0.113.1:9",
                "198.51.100.7:5060",
            ),
            ("sip:a@x7f3.invalid", "203.0.113.1:9", "203.0.113.1:9"),
        ];
        for (contact, received, expected) in cases {
            let uri = Uri::parse(contact.as_bytes()).unwrap();
            let address = address_of(&uri, received.parse().unwrap());
            assert_eq!(address.to_string(), expected, "{contact}");
        }
    }
}

//! The origins of a pool's servers: the file itself, the DNS, or the announcements of nodes.

use std::{
    collections::HashMap,
    fmt,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use node::{
    Transport,
    config::{Listener, PoolServer},
};
use settings::{
    At, Item, Place, Read, Section, Value,
    value::{expected, integer, number, text},
};

use super::{
    address::{address_of, host, is_host},
    listen::transport,
};

/// One entry of `servers`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Source {
    pub(crate) origin: Origin,
    /// What carries messages to each server.
    pub(crate) transport: Transport,
    /// The capacity of each server. It multiplies a capacity that the origin states.
    pub(crate) capacity: f64,
    /// What each server is called, for its certificate.
    pub(crate) host: Option<Arc<str>>,
    /// The cluster of each server. The servers of a cluster share a store of bindings.
    pub(crate) cluster: Option<Arc<str>>,
    /// A server is used while none before it is live; 0 is first. It counts for addresses
    /// and hosts.
    pub(crate) priority: u16,
}

/// Where a server's address comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    /// `IP:PORT`: the file itself.
    Address(SocketAddr),
    /// `HOST:PORT`: the addresses of a host.
    Host(String, u16),
    /// `srv:NAME`: SRV records.
    Service(String),
    /// `pool:NAME`: the nodes that announce themselves.
    Pool(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "{address}"),
            Self::Host(name, port) => write!(f, "{name}:{port}"),
            Self::Service(name) => write!(f, "srv:{name}"),
            Self::Pool(name) => write!(f, "pool:{name}"),
        }
    }
}

/// The server that the file itself names by address.
pub(crate) fn fixed(source: &Source) -> Option<PoolServer> {
    match source.origin {
        Origin::Address(address) => Some(PoolServer {
            transport: source.transport,
            address,
            host: source.host.clone(),
            capacity: source.capacity,
            cluster: source.cluster.clone(),
            priority: source.priority,
        }),
        Origin::Host(..) | Origin::Service(_) | Origin::Pool(_) => None,
    }
}

/// How many servers the file names by address, and how many other origins.
pub(crate) fn summary(sources: &[Source]) -> String {
    let fixed = sources.iter().filter_map(fixed).count();
    let others = sources
        .iter()
        .filter(|source| self::fixed(source).is_none());
    let others = others.map(|source| source.origin.to_string());
    let number = (fixed > 0).then(|| fixed.to_string());
    let all: Vec<String> = number.into_iter().chain(others).collect();
    all.join(" + ")
}

/// What carries messages to the servers of a service, by how its name begins. RFC 3263 §4.1
const SERVICES: [(&str, Transport); 3] = [
    ("_sip._udp.", Transport::Udp),
    ("_sip._tcp.", Transport::Tcp),
    ("_sips._tcp.", Transport::Tls),
];

/// Reads `servers`: one entry, or a list of them. `pool:NAME` needs a `[cluster]`.
pub(crate) fn sources(
    section: &mut Section<'_>,
    listeners: &[Listener],
    has_cluster: bool,
) -> Vec<Source> {
    let items = section.items("servers");
    if items.is_empty() {
        section.problem(
            "no servers: write servers = [ { address = \"IP:PORT\" }, ... ], \
             or servers = \"srv:NAME\"",
        );
    }
    let mut seen: HashMap<(Transport, Origin), Place> = HashMap::new();
    let mut sources = Vec::new();
    for item in items {
        let (key, found) = match item {
            Item::Table(table) => ("servers.address", detailed(table)),
            Item::Value(value) => ("servers", plain(section, &value)),
        };
        let Some((source, at)) = found else {
            continue;
        };
        if let Some(message) = misplaced(&source, listeners) {
            section.problem_of(key, at, &message);
        }
        if matches!(source.origin, Origin::Pool(_)) && !has_cluster {
            let message = "there is no [cluster]: add it with the store in which nodes announce \
                           themselves";
            section.problem_of(key, at, message);
        }
        let place = section.place(at);
        let named = (source.transport, source.origin.clone());
        if let Some(first) = seen.get(&named) {
            let message = format!("{} is already in this pool, at {first}", source.origin);
            section.problem_of(key, at, &message);
        } else {
            seen.insert(named, place);
        }
        sources.push(source);
    }
    sources
}

fn detailed(mut table: Section<'_>) -> Option<(Source, usize)> {
    let found = table.require("address", "write address = \"IP:PORT\"", origin);
    let capacity = table.get_or("capacity", 1.0, number(balance::CAPACITY));
    let cluster = table.get("cluster", cluster).map(|found| found.value);
    let priority = table.get("priority", integer(0..=usize::from(u16::MAX)));
    let is_one =
        |it: &At<(Transport, Origin)>| matches!(it.value.1, Origin::Address(_) | Origin::Host(..));
    if let Some(priority) = priority
        .as_ref()
        .filter(|_| !found.as_ref().is_none_or(is_one))
    {
        let message = "only an address or a host has a priority here; SRV records have their own";
        table.problem_of("priority", priority.at, message);
    }
    let host = table.get("host", host).map(|found| found.value.into());
    table.finish();
    let At {
        value: (transport, origin),
        at,
    } = found?;
    let source = Source {
        host: host.or_else(|| host_of(&origin)),
        origin,
        transport,
        capacity,
        cluster,
        priority: priority.map_or(0, |found| found.value as u16),
    };
    Some((source, at))
}

fn plain(section: &Section<'_>, value: &At<&Value<'_>>) -> Option<(Source, usize)> {
    match origin(value.value) {
        Ok((transport, origin)) => {
            let source = Source {
                host: host_of(&origin),
                origin,
                transport,
                capacity: 1.0,
                cluster: None,
                priority: 0,
            };
            Some((source, value.at))
        }
        Err(message) => {
            section.problem_of("servers", value.at, &message);
            None
        }
    }
}

/// The name in a server's certificate: what was asked for, not what the DNS makes of it. RFC 5922 §4
fn host_of(origin: &Origin) -> Option<Arc<str>> {
    match origin {
        Origin::Host(name, _) => Some(name.as_str().into()),
        Origin::Service(name) => Some(name.splitn(3, '.').nth(2)?.into()),
        Origin::Address(_) | Origin::Pool(_) => None,
    }
}

fn cluster(value: &Value<'_>) -> Read<Arc<str>> {
    match text(value)? {
        "" => Err("the cluster has an empty name: choose one".to_owned()),
        name => Ok(name.into()),
    }
}

/// What carries messages to the servers of an entry, and where they come from.
fn origin(value: &Value<'_>) -> Read<(Transport, Origin)> {
    let advice = "a server in quotes, such as \"10.0.0.11:5060\", \"tcp:10.0.0.11:5060\", \
                  \"sip1.example.com:5060\", \"srv:_sip._udp.example.com\" or \"pool:core\"";
    let text = value.as_str().ok_or_else(|| expected(advice, value))?;
    if let Some(name) = text.strip_prefix("srv:") {
        return service(name);
    }
    if let Some(name) = text.strip_prefix("pool:").filter(|name| !name.is_empty()) {
        return Ok((Transport::Udp, Origin::Pool(name.to_owned())));
    }
    let named = text.split_once(':').filter(|(name, _)| is_transport(name));
    let (transport, text) = match named {
        Some((name, rest)) => (transport(name)?, rest),
        None => (Transport::Udp, text),
    };
    if text.parse::<IpAddr>().is_ok() || text.parse::<SocketAddr>().is_ok() {
        return Ok((transport, Origin::Address(address_of(text)?)));
    }
    match host_and_port(text) {
        Some((host, port)) => Ok((transport, Origin::Host(host.to_ascii_lowercase(), port))),
        None => Err(format!("expected {advice}, found \"{text}\"")),
    }
}

/// Whether a word before a colon is a transport: no host has such a name.
fn is_transport(word: &str) -> bool {
    Transport::ALL.iter().any(|known| known.label() == word)
}

fn service(name: &str) -> Read<(Transport, Origin)> {
    let name = name.to_ascii_lowercase();
    let mut labels = name.splitn(3, '.');
    let is_service =
        |label: Option<&str>| label.is_some_and(|label| label.len() > 1 && label.starts_with('_'));
    let is_whole = is_service(labels.next())
        && is_service(labels.next())
        && labels.next().is_some_and(is_host);
    match is_whole {
        false => Err(format!(
            "\"srv:{name}\" names no SRV records, as \"srv:_sip._udp.example.com\" does"
        )),
        true => {
            let named = SERVICES.iter().find(|(prefix, _)| name.starts_with(prefix));
            match named {
                Some((_, transport)) => Ok((*transport, Origin::Service(name))),
                None => Err(format!(
                    "\"srv:{name}\": only \"_sip._udp\", \"_sip._tcp\" and \"_sips._tcp\" are \
                     supported"
                )),
            }
        }
    }
}

fn host_and_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port != 0)?;
    is_host(host).then_some((host, port))
}

/// Why these listeners can't send requests there, or should not.
fn misplaced(source: &Source, listeners: &[Listener]) -> Option<String> {
    let transport = source.transport;
    let is_of_transport = |listener: &&Listener| listener.transport == transport;
    if !listeners.is_empty() && !listeners.iter().any(|it| is_of_transport(&it)) {
        let name = transport.label();
        return Some(format!(
            "no listener can send over {name}: add a [[listen]] with transport = \"{name}\""
        ));
    }
    let Origin::Address(address) = &source.origin else {
        return None;
    };
    let reaches = |listener: &Listener| {
        listener.transport == transport && listener.address.is_ipv4() == address.is_ipv4()
    };
    if address.ip().is_unspecified() {
        Some(format!(
            "{address} is not the address of one server: write the server's address"
        ))
    } else if listeners
        .iter()
        .any(|listener| listener.transport == transport && listener.address == *address)
    {
        Some(format!(
            "{address} is this node's own listener: it would send calls to itself; write the \
             address of another server"
        ))
    } else if !listeners.is_empty() && !listeners.iter().any(reaches) {
        let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
        Some(format!(
            "no listener can send to {address}: add one with an {family} address"
        ))
    } else {
        None
    }
}

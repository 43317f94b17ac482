//! Finds the nodes and their roles in a call.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

use crate::{merge::Sent, read::Map, trace::Trace};

/// The role of a node in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Starts calls.
    Driver,
    /// Forwards messages; the first balancer is next to the driver.
    Balancer(u8),
    /// Accepts calls, or sends them back.
    Server,
}

/// A role that the operator assigned to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    role: Role,
    address: IpAddr,
    /// None: all ports.
    port: Option<u16>,
}

/// The nodes of a trace, each with its addresses.
#[derive(Debug)]
pub(crate) struct Nodes {
    /// The node of each address.
    node: Vec<usize>,
    /// Its assigned role, and its addresses.
    pub(crate) nodes: Vec<(Option<Role>, Vec<SocketAddr>)>,
}

impl Nodes {
    /// An address belongs to the node of its host. If a host sends messages to itself, each address
    /// with its port is a node; a connection's port counts as the port on which its owner listens.
    pub(crate) fn new(trace: &Trace, sent: &[Sent], told: &[Told]) -> Self {
        let addresses = trace.addresses.all();
        let mut talks_to_itself: Map<IpAddr, ()> = Map::default();
        for message in sent {
            let (source, destination) = message.seen.ends;
            let source = addresses[source as usize].ip();
            if source == addresses[destination as usize].ip() {
                talks_to_itself.insert(source, ());
            }
        }
        let mut numbers: Map<Key, usize> = Map::default();
        let mut nodes: Vec<(Option<Role>, Vec<SocketAddr>)> = Vec::new();
        let mut node = Vec::new();
        for &address in addresses {
            let port = trace
                .listening
                .get(&address)
                .copied()
                .unwrap_or_else(|| address.port());
            let owner = SocketAddr::new(address.ip(), port);
            let role = told
                .iter()
                .find(|told| told.is_of(owner))
                .map(|told| told.role);
            let key = match role {
                // A driver is one node, whatever it calls from.
                Some(Role::Driver) => Key::Driver,
                _ if talks_to_itself.contains_key(&address.ip()) => Key::Port(owner),
                _ => Key::Host(address.ip()),
            };
            let number = *numbers.entry(key).or_insert_with(|| {
                nodes.push((role, Vec::new()));
                nodes.len() - 1
            });
            nodes[number].1.push(owner);
            nodes[number].0 = nodes[number].0.or(role);
            node.push(number);
        }
        for (_, addresses) in &mut nodes {
            addresses.sort_unstable();
            addresses.dedup();
        }
        Self { node, nodes }
    }

    pub(crate) fn of(&self, address: u32) -> usize {
        self.node[address as usize]
    }

    pub(crate) fn ends(&self, message: &Sent) -> (usize, usize) {
        let (source, destination) = message.seen.ends;
        (self.of(source), self.of(destination))
    }
}

#[derive(PartialEq, Eq, Hash)]
enum Key {
    Driver,
    Host(IpAddr),
    Port(SocketAddr),
}

impl Told {
    fn is_of(&self, address: SocketAddr) -> bool {
        self.address == address.ip() && self.port.is_none_or(|port| port == address.port())
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Driver => f.write_str("driver"),
            Self::Balancer(1) => f.write_str("balancer"),
            Self::Balancer(place) => write!(f, "balancer{place}"),
            Self::Server => f.write_str("server"),
        }
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "driver" => Ok(Self::Driver),
            "balancer" => Ok(Self::Balancer(1)),
            "server" => Ok(Self::Server),
            _ => Err(format!(
                "`{text}` is not a role: write driver, balancer or server"
            )),
        }
    }
}

impl FromStr for Told {
    type Err = String;

    /// `ROLE=ADDRESS` or `ROLE=ADDRESS:PORT`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (role, address) = text
            .split_once('=')
            .ok_or("write ROLE=ADDRESS or ROLE=ADDRESS:PORT")?;
        let role = role.parse()?;
        if let Ok(address) = address.parse() {
            return Ok(Self {
                role,
                address,
                port: None,
            });
        }
        let address: SocketAddr = address.parse().map_err(|_| {
            format!("`{address}` is not an IP address: write one, with or without a port")
        })?;
        Ok(Self {
            role,
            address: address.ip(),
            port: Some(address.port()),
        })
    }
}

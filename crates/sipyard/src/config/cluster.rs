//! The section `[cluster]`: how nodes find each other.

use std::time::Duration;

use ::store::Address;
use node::{
    Transport,
    config::{Listener, PoolServer},
};
use settings::{
    Read, Section, Value,
    value::{duration, name, number, text},
};

use super::{address::address, sections::ms};

/// The settings of `[cluster]`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cluster {
    /// The store in which nodes announce themselves.
    pub(crate) store: Address,
    /// How long a node counts as a server after its last announcement.
    pub(crate) lease: Duration,
    /// What this node announces, if it does.
    pub(crate) announced: Option<Announced>,
}

/// This node's entry in the `pool:NAME` of other nodes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Announced {
    pub(crate) pool: String,
    pub(crate) server: PoolServer,
}

/// Reads `[cluster]`; none if it is absent or has a mistake.
pub(crate) fn cluster(root: &mut Section<'_>, listeners: &[Listener]) -> Option<Cluster> {
    let mut section = root.given_table("cluster")?;
    let advice = "write store = \"redis://HOST:PORT\", which all nodes share";
    let store = section.require("store", advice, shared);
    let lease = section.get_or("lease", ms(3_000), duration(ms(1_000)..=ms(60_000)));
    let announced = announced(&mut section, listeners);
    section.finish();
    Some(Cluster {
        store: store?.value,
        lease,
        announced,
    })
}

fn shared(value: &Value<'_>) -> Read<Address> {
    match text(value)?.parse()? {
        address @ Address::Redis(_) => Ok(address),
        address => Err(format!(
            "no other node can use {address}: write \"redis://HOST:PORT\", which all nodes share"
        )),
    }
}

fn announced(section: &mut Section<'_>, listeners: &[Listener]) -> Option<Announced> {
    let pool = section.get("announce", name);
    let address = section.get("address", address);
    let capacity = section.get_or("capacity", 1.0, number(balance::CAPACITY));
    let pool = pool?;
    let first = listeners.first().map(|listener| listener.address);
    let address = address.map(|found| found.value).or(first)?;
    if address.ip().is_unspecified() {
        let message = format!(
            "{address} stands for every address of this machine: add address = \"IP:PORT\", at \
             which other nodes reach this node"
        );
        section.problem_of("announce", pool.at, &message);
    }
    Some(Announced {
        pool: pool.value.to_owned(),
        server: PoolServer {
            transport: Transport::Udp,
            address,
            host: None,
            capacity,
            cluster: None,
            priority: 0,
        },
    })
}

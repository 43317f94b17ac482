//! What hangs and concerns a call not at all: two nodes side by side, one with a DNS server or a store that never
//! answers, and the waits of calls that need neither.

use std::{
    io,
    net::{Ipv4Addr, UdpSocket},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use testbed::Redis;

use super::{
    dns::{Dns, SERVICE},
    nodes::{Death, Node, servers},
    redis,
    run::{PATIENCE, PER_S},
    traffic::{Calls, Traffic, Users},
};
use crate::load_program::Callees;

/// Before, and while it hangs.
const PHASE: Duration = Duration::from_secs(20);

type Plan = (&'static str, fn() -> io::Result<Hang>);

pub(super) const PLANS: [Plan; 2] = [
    ("a DNS server that never answers", dns),
    ("a store that hangs", store),
];

/// Calls through a node whose DNS server or store is well, and through one whose own hangs, at the same time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Hang {
    pub(super) name: String,
    pub(super) rows: Vec<Waits>,
}

/// From INVITE to 200, in milliseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Waits {
    pub(super) node: String,
    pub(super) phase: String,
    pub(super) calls: u64,
    pub(super) lost: u64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) max_ms: f64,
}

/// Pools of names beside the one that is called. The server that hangs takes questions and never answers.
fn dns() -> io::Result<Hang> {
    let callees = Callees::start(2, &[])?;
    let well = Dns::start(&callees.addresses)?;
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let node = |server| {
        Node::start(&format!(
            "[dns]\nservers = [\"{server}\"]\n[pool.named]\nservers = \"{SERVICE}\"\n[pool.app]\n{}\n\
             [[route]]\nhosts = [\"named.example\"]\nto = \"named\"\n[[route]]\nto = \"app\"\n",
            servers(&callees.addresses)
        ))
    };
    let nodes = [node(well.address)?, node(silent.local_addr()?)?];
    let mut traffic = Traffic::new(1);
    let records = call_both(&mut traffic, &nodes)?;
    let began = traffic.now();
    traffic.run(PHASE)?;
    let phases = [("all the time", began, traffic.now())];
    finish("a DNS server that never answers", traffic, records, &phases)
}

/// Users register at both nodes, calls go to servers.
fn store() -> io::Result<Hang> {
    let callees = Callees::start(2, &[])?;
    let stores = [redis::start(&[])?, redis::start(&[])?];
    let node = |store: &Redis| {
        Node::start(&format!(
            "[registrar]\nauth = false\ndomains = [\"example.net\"]\nstore = \"{}\"\n[pool.app]\n{}\n\
             [[route]]\nhosts = [\"example.net\"]\nto = \"registrar\"\n[[route]]\nto = \"app\"\n",
            store.url(),
            servers(&callees.addresses)
        ))
    };
    let nodes = [node(&stores[0])?, node(&stores[1])?];
    let mut traffic = Traffic::new(1);
    for node in &nodes {
        traffic.register(Users {
            registrar: node.sip,
            contacts: callees.addresses.clone(),
            domain: "example.net",
            number: 10_000,
            per_s: PER_S,
        })?;
    }
    let records = call_both(&mut traffic, &nodes)?;
    let began = traffic.now();
    traffic.run(PHASE)?;
    let failed = traffic.now();
    Death::Silent.strike(stores[1].id());
    traffic.run(PHASE)?;
    let phases = [
        ("before", began, failed),
        ("while it hangs", failed, traffic.now()),
    ];
    finish("a store that hangs", traffic, records, &phases)
}

fn call_both(traffic: &mut Traffic, nodes: &[Node; 2]) -> io::Result<[usize; 2]> {
    let mut call = |node: &Node| traffic.call(&Calls::through(node.sip, PER_S));
    Ok([call(&nodes[0])?, call(&nodes[1])?])
}

fn finish(
    name: &str,
    mut traffic: Traffic,
    records: [usize; 2],
    phases: &[(&str, Duration, Duration)],
) -> io::Result<Hang> {
    traffic.finish(PATIENCE)?;
    let mut rows = Vec::new();
    for &(phase, from, to) in phases {
        for (node, number) in ["all is well", "its own hangs"].into_iter().zip(records) {
            let record = traffic.record(number);
            let (calls, lost) = record.counts(from, to);
            rows.push(Waits {
                node: node.to_owned(),
                phase: phase.to_owned(),
                calls,
                lost,
                p50_ms: record.quantile_ms(0.5, from, to),
                p99_ms: record.quantile_ms(0.99, from, to),
                max_ms: record.quantile_ms(1.0, from, to),
            });
        }
    }
    println!("{name}: {rows:?}");
    Ok(Hang {
        name: name.to_owned(),
        rows,
    })
}

//! Nodes in series, in trees and in diamonds, before servers that are prompt.

use std::{net::SocketAddr, time::Duration};

use load::{Arrivals, CallerConfig, Law, Rate, Retransmission, ServerConfig, Stream};
use node::{
    Config, CustodyFigures,
    config::{Destination, Mode, Pool, PoolServer, Route},
};
use sim::{Link, Machine, Pace, PartyId, World, edge_address, server_address};
use topology::{Node, Path, Topology};

use crate::common::setup;

/// Calls per second, without and with state: §2.2.
pub(crate) const PAPER: (f64, f64) = (5700.0, 4700.0);

/// Messages of a call at a node that passes it: INVITE, 180, 200, ACK, BYE, 200.
const MESSAGES: f64 = 6.0;

/// Transactions of a call.
const TRANSACTIONS: f64 = 2.0;

pub(crate) struct Farm {
    pub(crate) world: World,
    pub(crate) nodes: Vec<PartyId>,
    callers: Vec<PartyId>,
    topology: Topology,
}

pub(crate) fn topology(nodes: &[(f64, f64)], paths: &[(&[usize], f64)]) -> Topology {
    let node = |(index, &(stateless, stateful)): (usize, &(f64, f64))| Node {
        name: format!("n{index}"),
        stateless,
        stateful,
    };
    let path = |(nodes, share): &(&[usize], f64)| Path {
        nodes: nodes.to_vec(),
        share: *share,
    };
    Topology {
        nodes: nodes.iter().enumerate().map(node).collect(),
        paths: paths.iter().map(path).collect(),
    }
}

pub(crate) fn series(nodes: &[(f64, f64)]) -> Topology {
    let all: Vec<usize> = (0..nodes.len()).collect();
    topology(nodes, &[(&all, 1.0)])
}

fn machine(node: &Node) -> Machine {
    let serve = 1.0 / node.stateless / MESSAGES;
    let hold = (1.0 / node.stateful - 1.0 / node.stateless) / TRANSACTIONS;
    let part = |share: f64| Duration::from_secs_f64(serve * share);
    Machine {
        pace: Some(Pace {
            read: part(0.18),
            serve: part(1.0),
            refuse: part(0.5),
            filter: Duration::from_millis(15),
            buffer: 4096,
            tells_delay: true,
        }),
        hold: Duration::from_secs_f64(hold),
        ..Machine::default()
    }
}

fn pool(name: &str, servers: impl Iterator<Item = SocketAddr>) -> Pool {
    let servers = servers.map(|address| PoolServer {
        address,
        capacity: 1.0,
        cluster: None,
        priority: 0,
    });
    Pool {
        name: name.to_owned(),
        servers: servers.collect(),
        overload_control: true,
        ..setup().pool
    }
}

impl Farm {
    /// Each path has a server of its own, and its calls have its number as their domain.
    pub(crate) fn new(topology: &Topology, mode: Mode, seed: u64) -> Self {
        Self::with_link(
            topology,
            &|_| mode,
            seed,
            Link::clean(Duration::from_millis(1)),
        )
    }

    pub(crate) fn with_link(
        topology: &Topology,
        mode: &dyn Fn(usize) -> Mode,
        seed: u64,
        link: Link,
    ) -> Self {
        let mut world = World::new(seed, link);
        for path in 0..topology.paths.len() {
            world.add_server(ServerConfig::prompt(server_address(path)));
        }
        let nodes = topology.nodes.iter().enumerate().map(|(index, node)| {
            let config = config(topology, index, mode(index));
            world.add_node("edge", config, 1, machine(node)).unwrap()
        });
        Self {
            nodes: nodes.collect(),
            world,
            callers: Vec::new(),
            topology: topology.clone(),
        }
    }

    /// More callers on each path, for so long.
    pub(crate) fn call(&mut self, per_s: f64, time: Duration) {
        for (number, path) in self.topology.paths.iter().enumerate() {
            let rate = per_s * self.topology.share(path);
            let last = self.callers.len() as u8;
            let sockets = (0..16).map(|port| ([198, 51, 100, last], 5060 + port).into());
            let arrivals = Arrivals::Open(Rate::Constant(rate), Stream::Poisson);
            let to = edge_address(path.nodes[0]);
            let config = CallerConfig {
                domain: domain(number),
                calls_max: (rate * time.as_secs_f64()) as u64,
                holding: Law::ZERO,
                retransmission: Retransmission::Rfc3261,
                ..CallerConfig::plain(sockets.collect(), to, arrivals)
            };
            self.callers.push(self.world.add_caller(config));
        }
    }

    /// Calls carried per second.
    pub(crate) fn run(&mut self, time: Duration) -> f64 {
        self.stats(time).carried as f64 / time.as_secs_f64()
    }

    /// What the callers have counted in so long.
    pub(crate) fn stats(&mut self, time: Duration) -> load::Stats {
        let end = self.world.now() + time;
        self.world.run_until(end, &mut ());
        let mut all = load::Stats::default();
        for &caller in &self.callers {
            all.add(&self.world.caller_mut(caller).stats_mut().take());
        }
        all
    }

    pub(crate) fn custody(&self) -> Vec<CustodyFigures> {
        let of = |&node: &PartyId| self.world.edge(node).nodes()[0].custody();
        self.nodes.iter().map(of).collect()
    }

    pub(crate) fn figures(&self) -> Vec<String> {
        let text = |it: CustodyFigures| {
            format!(
                "busy {:.3}, {:.0}/s, open {:.0}, held {:.0}, room {:.0}, {:.1}+{:.1} us",
                it.busy,
                it.requests_per_s,
                it.open_per_s,
                it.held_per_s,
                it.room_per_s,
                it.pass_s * 1e6,
                it.hold_s * 1e6
            )
        };
        self.custody().into_iter().map(text).collect()
    }
}

fn domain(path: usize) -> String {
    format!("p{path}.example.com")
}

/// A node sends the calls of each path to the next node on it.
fn config(topology: &Topology, node: usize, mode: Mode) -> Config {
    let bare = setup().node(node);
    let mut config = Config {
        routes: Vec::new(),
        pools: Vec::new(),
        ..bare
    };
    let networks = topology.nodes.iter().enumerate().map(|(index, _)| {
        let ip = edge_address(index).ip();
        node::config::IpNet::from(ip)
    });
    config.trust.peers = networks.collect();
    config.limits.sessions = 1 << 20;
    config.limits.transactions = 1 << 20;
    config.limits.held_transactions = 1 << 21;
    for (number, path) in topology.paths.iter().enumerate() {
        let Some(place) = path.nodes.iter().position(|&other| other == node) else {
            continue;
        };
        let next = path.nodes.get(place + 1);
        let to = next.map_or_else(|| server_address(number), |&next| edge_address(next));
        let name = format!("p{number}");
        config.pools.push(pool(&name, std::iter::once(to)));
        config.routes.push(Route {
            hosts: vec![domain(number)],
            ..Route::of_all(Destination::Pool(name), mode)
        });
    }
    config
}

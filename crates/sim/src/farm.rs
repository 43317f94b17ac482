//! Nodes in series, in trees and in diamonds, before servers that are prompt: who holds the state of a call?

mod checks;
mod controller;
mod holders;

pub use self::{
    checks::{Checks, Users},
    controller::Controller,
    holders::{Holders, Tally},
};

use std::{net::SocketAddr, time::Duration};

use balance::Policy;
use load::{Arrivals, CallerConfig, Law, Rate, Retransmission, ServerConfig, Stats, Stream};
use node::{
    Config, CustodyFigures, ReloadError, Transport,
    config::{
        Destination, IpNet, Limits, Listener, Mode, Pool, PoolServer, Registrar, Route, Timers,
        Trust, WhenFull,
    },
};
use sip::digest::Algorithm;
use topology::{Node, Topology};

use crate::{Link, Machine, Pace, PartyId, Watch, World, edge_address, server_address};

/// Messages of a call at a node that passes it: INVITE, 180, 200, ACK, BYE, 200.
const MESSAGES: f64 = 6.0;

/// Transactions of a call.
const TRANSACTIONS: f64 = 2.0;

/// A world of nodes on paths. Each path has a server and a caller of its own.
#[derive(Debug)]
pub struct Farm {
    /// The world.
    pub world: World,
    nodes: Vec<PartyId>,
    servers: Vec<PartyId>,
    callers: Vec<PartyId>,
    topology: Topology,
    users: Option<Users>,
}

fn machine(node: &Node, users: Option<&Users>) -> Machine {
    let serve = 1.0 / node.stateless / MESSAGES;
    let hold = (1.0 / node.stateful - 1.0 / node.stateless) / TRANSACTIONS;
    Machine {
        pace: Some(Pace::of(Duration::from_secs_f64(serve))),
        hold: Duration::from_secs_f64(hold),
        check: users.map_or(Duration::ZERO, |users| users.check),
        store: users.map(|users| users.store.clone()).unwrap_or_default(),
        ..Machine::default()
    }
}

fn pool(name: &str, servers: impl Iterator<Item = SocketAddr>) -> Pool {
    let servers = servers.map(|address| PoolServer {
        transport: Transport::Udp,
        address,
        host: None,
        capacity: 1.0,
        cluster: None,
        priority: 0,
    });
    Pool {
        name: name.to_owned(),
        servers: servers.collect(),
        overload_control: true,
        learn_room: false,
        policy: Policy::RoundRobin,
        costs: Vec::new(),
        learn_costs: false,
        probe: None,
        slow_start: Duration::ZERO,
        answer_timeout: Duration::from_secs(1),
    }
}

impl Farm {
    /// The nodes of a topology, each with its costs and this mode.
    ///
    /// # Errors
    /// If a node refuses its configuration.
    pub fn new(
        topology: &Topology,
        mode: impl Fn(usize) -> Mode,
        seed: u64,
        link: Link,
    ) -> Result<Self, ReloadError> {
        Self::of_users(topology, mode, seed, link, None)
    }

    /// The same, and callers have to prove who they are if there are users.
    ///
    /// # Errors
    /// If a node refuses its configuration.
    pub fn of_users(
        topology: &Topology,
        mode: impl Fn(usize) -> Mode,
        seed: u64,
        link: Link,
        users: Option<Users>,
    ) -> Result<Self, ReloadError> {
        let mut world = World::new(seed, link);
        let paths = 0..topology.paths.len();
        let servers = paths
            .map(|path| world.add_server(ServerConfig::prompt(server_address(path))))
            .collect();
        let nodes = topology.nodes.iter().enumerate().map(|(index, node)| {
            let mut config = config(topology, index, mode(index));
            if users.is_some() {
                ask(&mut config, topology);
            }
            world.add_node("node", config, 1, machine(node, users.as_ref()))
        });
        Ok(Self {
            nodes: nodes.collect::<Result<_, _>>()?,
            world,
            servers,
            callers: Vec::new(),
            topology: topology.clone(),
            users,
        })
    }

    /// The topology.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The nodes.
    #[must_use]
    pub fn nodes(&self) -> &[PartyId] {
        &self.nodes
    }

    /// The servers, one for each path.
    #[must_use]
    pub fn servers(&self) -> &[PartyId] {
        &self.servers
    }

    /// Adds callers to each path, who together begin so many calls per second for so long.
    pub fn call(&mut self, per_s: f64, time: Duration) {
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
                password: self.users.as_ref().map(|users| users.password.clone()),
                ..CallerConfig::plain(sockets.collect(), to, arrivals)
            };
            self.callers.push(self.world.add_caller(config));
        }
    }

    /// Lets time pass, and returns the calls that were carried in each second of it.
    pub fn run(&mut self, time: Duration) -> f64 {
        self.stats(time, &mut ()).carried as f64 / time.as_secs_f64()
    }

    /// Lets time pass, and returns what the callers have counted in it.
    pub fn stats(&mut self, time: Duration, watch: &mut impl Watch) -> Stats {
        let end = self.world.now() + time;
        self.world.run_until(end, watch);
        let mut all = Stats::default();
        for &caller in &self.callers {
            all.add(&self.world.caller_mut(caller).stats_mut().take());
        }
        all
    }

    /// Where each node stands.
    #[must_use]
    pub fn custody(&self) -> Vec<CustodyFigures> {
        let of = |&node: &PartyId| self.world.edge(node).nodes()[0].custody();
        self.nodes.iter().map(of).collect()
    }

    /// Has a node leave this share of what comes open to others, or as it finds.
    pub fn fix(&mut self, node: usize, share: Option<f64>) {
        let node = self.world.edge_mut(self.nodes[node]);
        for worker in node.nodes_mut() {
            worker.fix_share_left_open(share);
        }
    }

    /// Sets the speed of a node's processor, which is 1 at first.
    pub fn set_speed(&mut self, node: usize, speed: f64) {
        self.world.edge_mut(self.nodes[node]).set_speed(speed);
    }
}

/// The domain of a path's callers.
fn domain(path: usize) -> String {
    format!("p{path}.example.com")
}

/// A node sends the calls of each path to the next node on it.
fn config(topology: &Topology, node: usize, mode: Mode) -> Config {
    let mut config = bare_node(topology, node);
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

/// Has a node ask those who call for their passwords. All of a path's calls come from one address.
fn ask(config: &mut Config, topology: &Topology) {
    for route in &mut config.routes {
        route.auth = true;
    }
    (config.abuse.rules.rate, config.abuse.rules.burst) = (1 << 20, 1 << 20);
    config.registrar = Some(Registrar {
        domains: (0..topology.paths.len()).map(domain).collect(),
        expires_min: Duration::from_secs(60),
        expires_default: Duration::from_secs(3600),
        expires_max: Duration::from_secs(7200),
        contacts_max: 1,
        when_full: WhenFull::Refuse,
        algorithms: vec![Algorithm::Sha256],
        service_route: Vec::new(),
        removes_dead: true,
        keep_alive: None,
    });
}

fn bare_node(topology: &Topology, node: usize) -> Config {
    let address = edge_address(node);
    let all = 0..topology.nodes.len();
    Config {
        name: topology.nodes[node].name.clone(),
        secret: b"a secret that no simulation keeps".to_vec().into(),
        accepted_secret: None,
        listeners: vec![Listener {
            transport: Transport::Udp,
            address,
            advertise: address.to_string(),
        }],
        routes: Vec::new(),
        pools: Vec::new(),
        limits: Limits {
            sessions: 1 << 20,
            transactions: 1 << 20,
            held_transactions: 1 << 21,
            registrations: 1_000,
            retained_requests: 32_768,
            message_bytes: 16_384,
            headers: 128,
            handover_queue: 4_096,
            strangers: 1_024,
        },
        timers: Timers {
            t1: Duration::from_millis(500),
            timer_c: Duration::from_secs(181),
            call_max: Duration::from_secs(12 * 3600),
            drain: Duration::from_secs(10),
        },
        exchange: Default::default(),
        connections: Default::default(),
        trust: Trust {
            peers: all
                .map(|node| IpNet::from(edge_address(node).ip()))
                .collect(),
            ..Trust::default()
        },
        abuse: Default::default(),
        registrar: None,
    }
}

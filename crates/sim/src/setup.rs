//! A pool of servers behind one or more edges, and callers: the world of most experiments.

use std::{net::SocketAddr, time::Duration};

use fastrand::Rng;
use load::{Arrivals, CallerConfig, Law, Rate, Retransmission, ServerConfig, Stall, Stream};
use node::{
    Config, ReloadError, Transport,
    config::{Destination, Exchange, Limits, Listener, Mode, Pool, PoolServer, Route, Timers},
};

use crate::{
    Capacity, Duty, Link, Machine, PartyId, Second, World,
    stages::{add_nodes, add_phones},
};

/// The addresses that each caller calls from, in turn.
pub(crate) const SOCKETS: u16 = 8;

/// The domain of all users.
pub(crate) const DOMAIN: &str = "example.com";

/// The parts of the world.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The number of edges before the servers. Each has a caller of its own with an equal part of
    /// the calls. If 0, the callers call the nodes of the second stage.
    pub edges: usize,
    /// The capacity of each edge; none: processing takes no time.
    pub edge_capacity: Option<Capacity>,
    /// Nodes between the edges and the servers.
    pub second: Option<Second>,
    /// The workers of each edge.
    pub workers: usize,
    /// How each edge places the calls, on the second stage if there is one. The servers in this
    /// pool are ignored.
    pub pool: Pool,
    /// The servers.
    pub servers: Vec<ServerSetup>,
    /// How often the edges report their open calls to each other, if they do.
    pub exchange: Option<Duration>,
    /// All calls together.
    pub calls: Calls,
    /// The network.
    pub link: Link,
}

/// A server, and the edges' view of it.
#[derive(Clone, Copy, Debug)]
pub struct ServerSetup {
    /// What it emulates. Its index determines its address.
    pub config: ServerConfig,
    /// The speed of its processor.
    pub speed: f64,
    /// Its share relative to the others, in the edges' view.
    pub capacity: f64,
    /// Whether the edges don't know it until an event adds it.
    pub is_spare: bool,
}

/// The calls to make.
#[derive(Clone, Copy, Debug)]
pub struct Calls {
    /// How many start per second.
    pub rate: f64,
    /// How they are spaced.
    pub stream: Stream,
    /// The time from the answer to the BYE.
    pub holding: Law,
    /// Whether messages are retransmitted.
    pub retransmission: Retransmission,
}

/// A world, with the indices of its parties.
#[derive(Debug)]
pub struct Cluster {
    /// The world.
    pub world: World,
    /// The edges.
    pub edges: Vec<PartyId>,
    /// The nodes of the second stage.
    pub nodes: Vec<PartyId>,
    /// The servers.
    pub servers: Vec<PartyId>,
    /// The callers: one for each edge, or for each node if there are no edges.
    pub callers: Vec<PartyId>,
    /// Phones that register.
    pub phones: Vec<PartyId>,
}

/// The address of the edge with this number, from 0.
#[must_use]
pub fn edge_address(number: usize) -> SocketAddr {
    address(0, number)
}

/// The address of the server with this number, from 0.
#[must_use]
pub fn server_address(number: usize) -> SocketAddr {
    address(1, number)
}

pub(crate) fn address(kind: u8, number: usize) -> SocketAddr {
    let [.., high, low] = (number as u64 + 1).to_be_bytes();
    SocketAddr::from(([10, kind, high, low], 5060))
}

impl Cluster {
    /// Makes the world of a setup, at time zero, or at the time when all users that calls need have
    /// registered.
    ///
    /// # Errors
    /// If a node refuses its configuration.
    pub fn new(setup: &Setup, seed: u64) -> Result<Self, ReloadError> {
        let mut world = World::new(seed, setup.link);
        let calls_first = setup.second.is_none();
        let mut callers = Vec::new();
        if calls_first {
            callers = add_callers(&mut world, setup);
        }
        let mut phases = Rng::with_seed(!seed);
        let servers = setup.servers.iter().enumerate().map(|(number, server)| {
            let id = world.add_server(ServerConfig {
                address: server_address(number),
                retransmission: setup.calls.retransmission,
                stall: server.config.stall.map(|stall| begun(stall, &mut phases)),
                ..server.config
            });
            world.server_mut(id).set_speed(Duration::ZERO, server.speed);
            id
        });
        let servers = servers.collect();
        let nodes = add_nodes(&mut world, setup)?;
        let edges = (0..setup.edges).map(|number| {
            let machine = Machine {
                capacity: setup.edge_capacity,
                ..Machine::default()
            };
            world.add_node("edge", setup.node(number), setup.workers, machine)
        });
        let edges = edges.collect::<Result<_, _>>()?;
        let phones = add_phones(&mut world, setup);
        if !calls_first {
            callers = add_callers(&mut world, setup);
        }
        Ok(Self {
            world,
            edges,
            nodes,
            servers,
            callers,
            phones,
        })
    }
}

fn add_callers(world: &mut World, setup: &Setup) -> Vec<PartyId> {
    let registers = |second: &Second| second.duty == Duty::Register;
    if setup.second.as_ref().is_some_and(registers) {
        return Vec::new();
    }
    (0..setup.entrances().len())
        .map(|number| world.add_caller(setup.caller(number)))
        .collect()
}

/// The same stalls, begun at random: otherwise all servers would stall at once.
fn begun(stall: Stall, phases: &mut Rng) -> Stall {
    match stall {
        Stall::Calls { every, lasting, .. } => Stall::Calls {
            first: phases.u64(1..=every.max(1)),
            every,
            lasting,
        },
        Stall::Periodic { every, lasting, .. } => Stall::Periodic {
            first: every.mul_f64(phases.f64()),
            every,
            lasting,
        },
    }
}

impl Setup {
    /// The most calls per second that all processors together carry.
    #[must_use]
    pub fn capacity(&self) -> f64 {
        let known = self.servers.iter().filter(|server| !server.is_spare);
        known.map(ServerSetup::calls_per_s).sum()
    }

    /// The configuration of this edge's caller.
    #[must_use]
    pub fn caller(&self, edge: usize) -> CallerConfig {
        let entrances = self.entrances();
        let ip = address(2, edge).ip();
        let rate = self.calls.rate / entrances.len() as f64;
        let usual = CallerConfig::plain(
            (0..SOCKETS).map(|port| (ip, 5060 + port).into()).collect(),
            entrances[edge],
            Arrivals::Open(Rate::Constant(rate), self.calls.stream),
        );
        CallerConfig {
            domain: DOMAIN.to_owned(),
            users: self.second.as_ref().map_or(usual.users, |it| it.users),
            holding: self.calls.holding,
            retransmission: self.calls.retransmission,
            ..usual
        }
    }

    /// The configuration of the edge with this number.
    #[must_use]
    pub fn node(&self, number: usize) -> Config {
        let servers = match &self.second {
            Some(second) => second.pool_servers(),
            None => self.pool_servers(),
        };
        let pool = Pool {
            servers,
            ..self.pool.clone()
        };
        Config {
            routes: vec![Route::of_all(
                Destination::Pool(pool.name.clone()),
                Mode::Stateless,
            )],
            pools: vec![pool],
            exchange: self.exchange(number),
            trust: Default::default(),
            ..self.bare_node(format!("edge-{}", number + 1), edge_address(number))
        }
    }

    /// The servers that are known from the beginning.
    pub(crate) fn pool_servers(&self) -> Vec<PoolServer> {
        let servers = self.servers.iter().enumerate();
        servers
            .filter(|(_, server)| !server.is_spare)
            .map(|(number, server)| PoolServer {
                transport: Transport::Udp,
                address: server_address(number),
                host: None,
                capacity: server.capacity,
                cluster: None,
                priority: 0,
            })
            .collect()
    }

    /// A node at an address, without pools and routes.
    pub(crate) fn bare_node(&self, name: String, address: SocketAddr) -> Config {
        Config {
            name,
            secret: b"a secret that no simulation keeps".to_vec().into(),
            accepted_secret: None,
            listeners: vec![Listener {
                transport: Transport::Udp,
                address,
                advertise: address.to_string(),
            }],
            routes: Vec::new(),
            pools: Vec::new(),
            limits: self.limits(),
            timers: Timers {
                t1: Duration::from_millis(500),
                timer_c: Duration::from_secs(181),
                call_max: Duration::from_secs(12 * 3600),
                drain: Duration::from_secs(10),
            },
            exchange: Exchange::default(),
            trust: Default::default(),
            connections: Default::default(),
            abuse: Default::default(),
            registrar: None,
        }
    }

    fn exchange(&self, number: usize) -> Exchange {
        let others = (0..self.edges).filter(|other| *other != number);
        match self.exchange {
            Some(interval) => Exchange {
                peers: others.map(edge_address).collect(),
                interval,
            },
            None => Exchange::default(),
        }
    }

    /// Room for twice the calls that are there on average, ended ones too: those stay for 64*T1.
    fn limits(&self) -> Limits {
        let lasting = self.calls.holding.mean().as_secs_f64() + 40.0;
        let calls = 2.0 * self.calls.rate * lasting;
        Limits {
            sessions: (calls as usize).max(10_000),
            transactions: (calls as usize).clamp(10_000, 1_000_000),
            held_transactions: self.held_transactions(),
            registrations: 1_000,
            retained_requests: 32_768,
            message_bytes: 16_384,
            headers: 128,
            handover_queue: 4_096,
            strangers: 1_024,
        }
    }
}

impl Setup {
    /// Of a call that is held, INVITE and BYE and a branch of each, for 64*T1 and more.
    fn held_transactions(&self) -> usize {
        const USUAL: usize = 65_536;
        let holds = |second: &Second| second.duty == Duty::LookUp;
        match &self.second {
            Some(second) if holds(second) => USUAL.max((200.0 * self.calls.rate) as usize),
            _ => USUAL,
        }
    }
}

impl ServerSetup {
    /// The calls per second that its processor carries at most; infinite if a call takes no time.
    #[must_use]
    pub fn calls_per_s(&self) -> f64 {
        let service = self.config.service;
        let work = (service.invite.mean() + service.bye.mean()).as_secs_f64() / self.speed;
        match self.config.stall {
            Some(Stall::Calls { every, lasting, .. }) => {
                1.0 / (work + lasting.as_secs_f64() / every as f64)
            }
            Some(Stall::Periodic { every, lasting, .. }) => {
                (1.0 - lasting.div_duration_f64(every)) / work
            }
            None => 1.0 / work,
        }
    }
}

#[cfg(test)]
mod tests {
    use load::Service;

    use super::*;

    #[test]
    fn the_servers_of_the_paper_carry_300_calls_a_second() {
        let us = Duration::from_micros;
        let server = ServerSetup {
            config: ServerConfig {
                service: Service {
                    invite: Law::Constant(us(1_450)),
                    bye: Law::Constant(us(830)),
                    other: Law::ZERO,
                },
                stall: Some(Stall::Calls {
                    first: 1,
                    every: 950,
                    lasting: Duration::from_secs(1),
                }),
                ..ServerConfig::prompt(server_address(0))
            },
            speed: 1.0,
            capacity: 1.0,
            is_spare: false,
        };
        assert!((server.calls_per_s() - 300.06).abs() < 0.01);
    }
}

//! A pool of servers behind one or more edges, and callers: the world of most experiments.

use std::{net::SocketAddr, time::Duration};

use fastrand::Rng;
use load::{Arrivals, CallerConfig, Law, Rate, ServerConfig, Stall, Stream};
use node::{
    Config, ReloadError,
    config::{Destination, Exchange, Limits, Listener, Mode, Pool, PoolServer, Route, Timers},
};

use crate::{Link, PartyId, World};

/// The addresses that each caller calls from, in turn.
const CALLER_SOCKETS: u16 = 8;

/// What the world consists of.
#[derive(Clone, Debug)]
pub struct Setup {
    /// How many edges stand before the servers. Each has a caller of its own with an equal part of
    /// the calls.
    pub edges: usize,
    /// The workers of each edge.
    pub workers: usize,
    /// How each edge places the calls. The servers listed here don't matter.
    pub pool: Pool,
    /// The servers.
    pub servers: Vec<ServerSetup>,
    /// How often the edges tell each other what they have open, if they do.
    pub exchange: Option<Duration>,
    /// All calls together.
    pub calls: Calls,
    /// The network.
    pub link: Link,
}

/// A server and what the edges are told about it.
#[derive(Clone, Copy, Debug)]
pub struct ServerSetup {
    /// What it emulates; its address is set by its place.
    pub config: ServerConfig,
    /// How fast its processor is.
    pub speed: f64,
    /// What the edges take for its share relative to the others.
    pub capacity: f64,
    /// The edges do not know it until they are told.
    pub is_spare: bool,
}

/// Which calls are made.
#[derive(Clone, Copy, Debug)]
pub struct Calls {
    /// How many a second begin.
    pub rate: f64,
    /// How regularly.
    pub stream: Stream,
    /// The time from the answer to the BYE.
    pub holding: Law,
}

/// A world, and who is who in it.
#[derive(Debug)]
pub struct Cluster {
    /// The world.
    pub world: World,
    /// The edges.
    pub edges: Vec<PartyId>,
    /// The servers.
    pub servers: Vec<PartyId>,
    /// The callers: one for each edge.
    pub callers: Vec<PartyId>,
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

fn address(kind: u8, number: usize) -> SocketAddr {
    let [.., high, low] = (number as u64 + 1).to_be_bytes();
    SocketAddr::from(([10, kind, high, low], 5060))
}

impl Cluster {
    /// The world of a setup at time zero.
    ///
    /// # Errors
    /// When a node refuses its configuration.
    pub fn new(setup: &Setup, seed: u64) -> Result<Self, ReloadError> {
        let mut world = World::new(seed, setup.link);
        let callers = (0..setup.edges)
            .map(|number| world.add_caller(setup.caller(number)))
            .collect();
        let mut phases = Rng::with_seed(!seed);
        let servers = setup.servers.iter().enumerate().map(|(number, server)| {
            let id = world.add_server(ServerConfig {
                address: server_address(number),
                stall: server.config.stall.map(|stall| begun(stall, &mut phases)),
                ..server.config
            });
            world.server_mut(id).set_speed(Duration::ZERO, server.speed);
            id
        });
        let servers = servers.collect();
        let edges = (0..setup.edges)
            .map(|number| world.add_edge(setup.node(number), setup.workers))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            world,
            edges,
            servers,
            callers,
        })
    }
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
    /// The calls per second that the processors carry at most, all together.
    #[must_use]
    pub fn capacity(&self) -> f64 {
        let known = self.servers.iter().filter(|server| !server.is_spare);
        known.map(ServerSetup::calls_per_s).sum()
    }

    /// What the caller of the edge with this number does.
    #[must_use]
    pub fn caller(&self, edge: usize) -> CallerConfig {
        let [.., high, low] = (edge as u64 + 1).to_be_bytes();
        let rate = self.calls.rate / self.edges as f64;
        let socket = |port| SocketAddr::from(([10, 2, high, low], 5060 + port));
        CallerConfig {
            holding: self.calls.holding,
            ..CallerConfig::plain(
                (0..CALLER_SOCKETS).map(socket).collect(),
                edge_address(edge),
                Arrivals::Open(Rate::Constant(rate), self.calls.stream),
            )
        }
    }

    /// The configuration of the edge with this number.
    #[must_use]
    pub fn node(&self, number: usize) -> Config {
        let address = edge_address(number);
        let servers = self.servers.iter().enumerate();
        let pool = Pool {
            servers: servers
                .filter(|(_, server)| !server.is_spare)
                .map(|(number, server)| PoolServer {
                    address: server_address(number),
                    capacity: server.capacity,
                    cluster: None,
                })
                .collect(),
            ..self.pool.clone()
        };
        Config {
            name: format!("edge-{}", number + 1),
            secret: b"a secret that no simulation keeps".to_vec().into(),
            listeners: vec![Listener {
                address,
                advertise: address.to_string(),
            }],
            routes: vec![Route {
                methods: Vec::new(),
                hosts: Vec::new(),
                to: Destination::Pool(pool.name.clone()),
                state: Mode::Stateless,
            }],
            pools: vec![pool],
            limits: self.limits(),
            timers: Timers {
                t1: Duration::from_millis(500),
                timer_c: Duration::from_secs(181),
                call_max: Duration::from_secs(12 * 3600),
                drain: Duration::from_secs(10),
            },
            exchange: self.exchange(number),
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
            held_transactions: 65_536,
            registrations: 1_000,
            retained_requests: 32_768,
            message_bytes: 16_384,
            headers: 128,
            handover_queue: 4_096,
        }
    }
}

impl ServerSetup {
    /// The calls per second that its processor carries at most; infinite if a call is no work.
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

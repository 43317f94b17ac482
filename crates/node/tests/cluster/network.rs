//! Callers and servers of their own through the node, over a network that loses, repeats and
//! reorders: every call ends, and nothing stays counted.

use std::{cmp::Reverse, collections::BinaryHeap, net::SocketAddr, time::Duration};

use balance::Policy;
use load::{Arrivals, Caller, CallerConfig, Law, Outbox, Server, ServerConfig, Service, Stall};
use node::config::Mode;
use proptest::prelude::*;

use crate::harness::{
    ALICE, BOB, Cluster, EDGE, ONE, Sent, THREE, TRANSACTION_MAX, TWO, config, ms, s,
};

const SERVERS: [&str; 3] = [ONE, TWO, THREE];
const CALLERS: [&str; 2] = [ALICE, BOB];
const CALLS: u64 = 40;

#[derive(Clone, Copy, Debug)]
struct Faults {
    loss: f64,
    duplication: f64,
    /// Each datagram takes up to this long, so that they overtake each other.
    jitter: Duration,
}

struct Flight {
    at: Duration,
    from: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
}

struct Network {
    rng: fastrand::Rng,
    faults: Faults,
    flights: Vec<Flight>,
    /// When each flight arrives, and its place.
    due: BinaryHeap<Reverse<(Duration, usize)>>,
}

impl Network {
    fn put(&mut self, now: Duration, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        let copies = 1 + usize::from(self.rng.f64() < self.faults.duplication);
        for _ in 0..copies {
            if self.rng.f64() < self.faults.loss {
                continue;
            }
            let at = now + ms(1) + self.faults.jitter.mul_f64(self.rng.f64());
            self.due.push(Reverse((at, self.flights.len())));
            let bytes = bytes.to_vec();
            self.flights.push(Flight {
                at,
                from,
                to,
                bytes,
            });
        }
    }

    fn post(&mut self, now: Duration, sockets: &[SocketAddr], out: &mut Outbox) {
        for (socket, to, bytes) in out.datagrams() {
            self.put(now, sockets[socket], to, bytes);
        }
        out.clear();
    }

    fn relay(&mut self, now: Duration, sent: Vec<Sent>) {
        for sent in sent {
            self.put(now, EDGE.parse().unwrap(), sent.to, &sent.bytes);
        }
    }
}

struct World {
    cluster: Cluster,
    caller: Caller,
    callers: Vec<SocketAddr>,
    servers: Vec<(SocketAddr, Server)>,
    network: Network,
    out: Outbox,
}

impl World {
    fn new(seed: u64, workers: usize, policy: Policy, state: Mode, faults: Faults) -> Self {
        let mut config = config(&SERVERS);
        config.routes[0].state = state;
        config.pools[0].policy = policy;
        let cluster = Cluster::with_workers(config, workers);
        let mut rng = fastrand::Rng::with_seed(seed);
        let callers: Vec<SocketAddr> = CALLERS.map(|text| text.parse().unwrap()).to_vec();
        let caller = CallerConfig {
            holding: Law::Exponential(s(2)),
            calls_max: CALLS,
            ..CallerConfig::plain(
                callers.clone(),
                EDGE.parse().unwrap(),
                Arrivals::poisson(20.0),
            )
        };
        let server = |text: &str| text.parse().unwrap();
        let servers = SERVERS.map(server).map(|address| {
            (
                address,
                Server::new(emulated(address), rng.fork(), Duration::ZERO),
            )
        });
        Self {
            caller: Caller::new(caller, rng.fork(), cluster.now),
            callers,
            servers: servers.into(),
            network: Network {
                rng,
                faults,
                flights: Vec::new(),
                due: BinaryHeap::new(),
            },
            cluster,
            out: Outbox::default(),
        }
    }

    /// Runs until nobody has anything more to send.
    fn run(&mut self) {
        while let Some(next) = self.next_event() {
            let wait = next.saturating_sub(self.cluster.now);
            let sent = self.cluster.wait(wait);
            let now = self.cluster.now;
            self.network.relay(now, sent);
            self.caller.handle_timeout(now, &mut self.out);
            self.network.post(now, &self.callers, &mut self.out);
            for (address, server) in &mut self.servers {
                server.handle_timeout(now, &mut self.out);
                self.network.post(now, &[*address], &mut self.out);
            }
            while let Some(&Reverse((at, place))) = self.network.due.peek()
                && at <= now
            {
                self.network.due.pop();
                self.arrive(now, place);
            }
        }
    }

    fn next_event(&self) -> Option<Duration> {
        let arrival = self.network.due.peek().map(|Reverse((at, _))| *at);
        let servers = self
            .servers
            .iter()
            .filter_map(|(_, server)| server.deadline());
        servers.chain(self.caller.deadline()).chain(arrival).min()
    }

    fn arrive(&mut self, now: Duration, place: usize) {
        let flight = &mut self.network.flights[place];
        let (from, to, bytes) = (flight.from, flight.to, std::mem::take(&mut flight.bytes));
        debug_assert!(flight.at <= now);
        if to == EDGE.parse().unwrap() {
            let sent = self.cluster.send_bytes(0, from, &bytes);
            self.network.relay(now, sent);
        } else if let Some(socket) = self.callers.iter().position(|caller| *caller == to) {
            self.caller
                .handle_input(now, socket, from, &bytes, &mut self.out);
            self.network.post(now, &self.callers, &mut self.out);
        } else {
            let (_, server) = self
                .servers
                .iter_mut()
                .find(|(server, _)| *server == to)
                .unwrap();
            server.handle_input(now, from, &bytes, &mut self.out);
            self.network.post(now, &[to], &mut self.out);
        }
    }
}

/// A server that rings for a while and stalls now and then, for longer than callers are patient.
fn emulated(address: SocketAddr) -> ServerConfig {
    ServerConfig {
        service: Service {
            invite: Law::Exponential(ms(5)),
            bye: Law::Exponential(ms(3)),
            other: Law::ZERO,
        },
        ringing: Law::Exponential(ms(500)),
        stall: Some(Stall::Calls {
            first: 10,
            every: 10,
            lasting: ms(3_000),
        }),
        ..ServerConfig::prompt(address)
    }
}

fn faults() -> impl Strategy<Value = Faults> {
    (0.0..0.2, 0.0..0.2, 0_u64..700).prop_map(|(loss, duplication, jitter)| Faults {
        loss,
        duplication,
        jitter: ms(jitter),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn every_call_ends_and_nothing_stays_counted(
        seed in any::<u64>(),
        workers in prop::sample::select(vec![1_usize, 3]),
        policy in prop::sample::select(Policy::ALL.to_vec()),
        state in prop::sample::select(vec![Mode::Stateless, Mode::Stateful]),
        faults in faults(),
    ) {
        let mut world = World::new(seed, workers, policy, state, faults);
        world.run();
        prop_assert!(world.caller.is_done());
        let stats = world.caller.stats();
        prop_assert_eq!(stats.carried + stats.failures(), CALLS);
        world.cluster.wait(TRANSACTION_MAX + ms(20));
        prop_assert_eq!(world.cluster.total(), (0, 0, 0.0));
        world.cluster.wait(TRANSACTION_MAX + ms(20));
        prop_assert_eq!(world.cluster.sizes(), (0, 0, 0));
        world.cluster.wait(s(300));
        prop_assert_eq!(world.cluster.held(), 0);
    }
}

#[test]
fn a_faultless_network_carries_every_call() {
    carries_every_call(Mode::Stateless);
    carries_every_call(Mode::Stateful);
}

fn carries_every_call(state: Mode) {
    let faults = Faults {
        loss: 0.0,
        duplication: 0.0,
        jitter: Duration::ZERO,
    };
    let mut world = World::new(1, 3, Policy::Tlwl, state, faults);
    world.run();
    assert_eq!(world.caller.stats().carried, CALLS);
    let byes: u64 = world
        .servers
        .iter()
        .map(|(_, server)| server.stats().byes)
        .sum();
    assert!(byes >= CALLS);
    assert_eq!(world.cluster.total(), (0, 0, 0.0));
}

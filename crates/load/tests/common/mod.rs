//! A network in virtual time between a caller, servers and, if wanted, a proxy.

use std::{cmp::Reverse, collections::BinaryHeap, net::SocketAddr, time::Duration};

use fastrand::Rng;
use load::{Caller, CallerConfig, Failure, Outbox, Server, ServerConfig};
use sip::{Edits, Message};

pub(crate) const PROXY: &str = "192.0.2.1:5060";

pub(crate) fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

pub(crate) struct World {
    pub(crate) now: Duration,
    pub(crate) caller: Caller,
    pub(crate) servers: Vec<Server>,
    pub(crate) datagrams: u64,
    sockets: Vec<SocketAddr>,
    server_addresses: Vec<SocketAddr>,
    network: Network,
    out: Outbox,
}

/// A datagram: when it arrives, which was sent first, from, to, bytes.
type Flying = (Duration, u64, SocketAddr, SocketAddr, Vec<u8>);

struct Network {
    rng: Rng,
    loss: f64,
    latency: Duration,
    jitter: Duration,
    sequence: u64,
    flying: BinaryHeap<Reverse<Flying>>,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Faults {
    pub(crate) loss: f64,
    pub(crate) latency: Duration,
    /// At most this much more latency, drawn for each datagram: they overtake each other.
    pub(crate) jitter: Duration,
}

impl World {
    pub(crate) fn new(
        seed: u64,
        caller: CallerConfig,
        servers: Vec<ServerConfig>,
        faults: Faults,
    ) -> Self {
        let mut rng = Rng::with_seed(seed);
        Self {
            now: Duration::ZERO,
            sockets: caller.sockets.clone(),
            server_addresses: servers.iter().map(|server| server.address).collect(),
            caller: Caller::new(caller, rng.fork(), Duration::ZERO),
            servers: servers
                .into_iter()
                .map(|server| Server::new(server, rng.fork(), Duration::ZERO))
                .collect(),
            datagrams: 0,
            network: Network {
                rng,
                loss: faults.loss,
                latency: faults.latency,
                jitter: faults.jitter,
                sequence: 0,
                flying: BinaryHeap::new(),
            },
            out: Outbox::default(),
        }
    }

    /// Runs until nothing more happens or the time is over.
    pub(crate) fn run(&mut self, until: Duration) {
        while let Some(next) = self.next_event()
            && next <= until
        {
            self.now = self.now.max(next);
            self.step();
        }
    }

    fn next_event(&self) -> Option<Duration> {
        let arrival = self
            .network
            .flying
            .peek()
            .map(|Reverse(datagram)| datagram.0);
        let servers = self.servers.iter().filter_map(Server::deadline);
        servers.chain(self.caller.deadline()).chain(arrival).min()
    }

    fn step(&mut self) {
        self.caller.handle_timeout(self.now, &mut self.out);
        self.network.post(self.now, &self.sockets, &mut self.out);
        for (server, address) in self.servers.iter_mut().zip(&self.server_addresses) {
            server.handle_timeout(self.now, &mut self.out);
            self.network.post(self.now, &[*address], &mut self.out);
        }
        while let Some((from, to, bytes)) = self.network.arrived(self.now) {
            self.deliver(from, to, &bytes);
        }
    }

    fn deliver(&mut self, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        self.datagrams += 1;
        if to == address(PROXY) {
            let (to, bytes) = forward(bytes, &self.server_addresses);
            self.network.put(self.now, address(PROXY), to, &bytes);
        } else if let Some(socket) = self.sockets.iter().position(|socket| *socket == to) {
            self.caller
                .handle_input(self.now, socket, from, bytes, &mut self.out);
            self.network.post(self.now, &self.sockets, &mut self.out);
        } else {
            let index = self
                .server_addresses
                .iter()
                .position(|server| *server == to)
                .unwrap();
            self.servers[index].handle_input(self.now, from, bytes, &mut self.out);
            self.network.post(self.now, &[to], &mut self.out);
        }
    }
}

impl Network {
    fn post(&mut self, now: Duration, sockets: &[SocketAddr], out: &mut Outbox) {
        for (socket, to, bytes) in out.datagrams() {
            self.put(now, sockets[socket], to, bytes);
        }
        out.clear();
    }

    fn put(&mut self, now: Duration, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        if self.rng.f64() < self.loss {
            return;
        }
        let at = now + self.latency + self.jitter.mul_f64(self.rng.f64());
        self.sequence += 1;
        self.flying
            .push(Reverse((at, self.sequence, from, to, bytes.to_vec())));
    }

    fn arrived(&mut self, now: Duration) -> Option<(SocketAddr, SocketAddr, Vec<u8>)> {
        let due = self
            .flying
            .peek()
            .is_some_and(|Reverse(datagram)| datagram.0 <= now);
        let Reverse((_, _, from, to, bytes)) = due.then(|| self.flying.pop()).flatten()?;
        Some((from, to, bytes))
    }
}

/// A stateless proxy that records two routes; in a dialog it goes by Route alone.
fn forward(bytes: &[u8], servers: &[SocketAddr]) -> (SocketAddr, Vec<u8>) {
    let message = Message::parse(bytes, 128).unwrap();
    let mut edits = Edits::default();
    let mut out = Vec::new();
    let to = if message.is_request() {
        message.validate().unwrap();
        let branch = message.top_via().unwrap().branch.unwrap();
        edits.push_via(&message, |out| {
            out.extend_from_slice(b"SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK-p-");
            out.extend_from_slice(branch);
        });
        let routes: Vec<_> = message.routes().map(|route| route.unwrap().uri).collect();
        if routes.is_empty() {
            edits.push_record_route(&message, |out| {
                out.extend_from_slice(b"<sip:192.0.2.1:5060;lr;side=out>")
            });
            edits.push_record_route(&message, |out| {
                out.extend_from_slice(b"<sip:192.0.2.1:5060;lr;side=in>")
            });
            let hash: usize = message
                .call_id()
                .unwrap()
                .iter()
                .map(|byte| usize::from(*byte))
                .sum();
            servers[hash % servers.len()]
        } else {
            let recorded = [
                b"sip:192.0.2.1:5060;lr;side=in".as_slice(),
                b"sip:192.0.2.1:5060;lr;side=out",
            ];
            assert!(
                routes.iter().copied().eq(recorded)
                    || routes.iter().copied().eq(recorded.into_iter().rev())
            );
            edits.pop_routes(&message, 2);
            sip::Uri::parse(message.request_uri().unwrap())
                .unwrap()
                .address()
                .unwrap()
        }
    } else {
        edits.pop_via(&message, &message.top_via().unwrap());
        message
            .vias()
            .nth(1)
            .unwrap()
            .unwrap()
            .response_address()
            .unwrap()
    };
    edits.apply(message.bytes(), &mut out);
    (to, out)
}

/// Every call was carried, and the servers saw the same.
pub(crate) fn assert_carried(world: &World, calls: u64) {
    assert_ended(world, calls);
    assert_eq!(world.caller.stats().carried, calls);
    assert_eq!(
        world
            .servers
            .iter()
            .map(|server| server.stats().byes)
            .sum::<u64>(),
        calls
    );
}

/// No call is left anywhere, and each was counted once.
pub(crate) fn assert_ended(world: &World, calls: u64) {
    assert_counted(world, calls);
    assert!(world.servers.iter().all(|server| server.open_calls() == 0));
}

/// Each call was counted once. None is left but those of whose end a server heard nothing.
pub(crate) fn assert_counted(world: &World, calls: u64) {
    let stats = world.caller.stats();
    assert!(world.caller.is_done());
    assert_eq!(stats.offered, calls);
    assert_eq!(stats.successes() + stats.failures(), calls);
    let mut left = 0;
    for server in &world.servers {
        let (open, stats) = (server.open_calls() as u64, server.stats());
        let ended = stats.byes + stats.cancelled + stats.unconfirmed;
        assert_eq!(stats.invites, ended + open, "{stats:?}");
        left += open;
    }
    let unheard = stats.failed.get(&Failure::ByeSilence).copied();
    assert!(left <= unheard.unwrap_or(0), "{left} of {unheard:?}");
}

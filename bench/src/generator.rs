//! The load: callers and callees in one thread, on real sockets.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use fastrand::Rng;
use load::{Arrivals, Caller, CallerConfig, Server, ServerConfig, Service};
use socket::{Clock, udp::Socket};
use traffic::{Buffers, Endpoint};

/// Callees, and as many sockets to call from: the floor relays between pairs of them.
pub(crate) const SERVERS: usize = 4;

/// Callers and callees. It never sleeps, so that it measures the others' latency and not its own.
pub(crate) struct Generator {
    clock: Clock,
    rng: Rng,
    buffers: Buffers,
    calling: Endpoint<Caller>,
    callees: Vec<Endpoint<Server>>,
    /// The callee whose turn comes first. They take turns in that, as the last to look finds more.
    first: usize,
}

impl Generator {
    /// A generator whose callees work on their requests as `service` says.
    pub(crate) fn new(seed: u64, service: Service) -> io::Result<Self> {
        let sockets = (0..SERVERS).map(|_| traffic::bind(traffic::LOOPBACK));
        Self::calling_from(sockets.collect::<io::Result<_>>()?, seed, service)
    }

    /// The same, with these sockets to call from.
    pub(crate) fn calling_from(
        sockets: Vec<Socket>,
        seed: u64,
        service: Service,
    ) -> io::Result<Self> {
        let mut rng = Rng::with_seed(seed);
        let callee = |_| {
            let socket = traffic::bind(traffic::LOOPBACK)?;
            let config = ServerConfig {
                service,
                ..ServerConfig::prompt(socket.local_addr())
            };
            Ok(Endpoint::new(
                Server::new(config, rng.fork(), Duration::ZERO),
                vec![socket],
            ))
        };
        let callees = (0..SERVERS).map(callee).collect::<io::Result<_>>()?;
        let config = CallerConfig {
            calls_max: 0,
            ..CallerConfig::plain(
                sockets.iter().map(|socket| socket.local_addr()).collect(),
                SocketAddr::from((Ipv4Addr::LOCALHOST, 9)),
                Arrivals::Window(0),
            )
        };
        let clock = Clock::start();
        let nobody = Caller::new(config, rng.fork(), clock.now());
        Ok(Self {
            clock,
            rng,
            buffers: Buffers::new(),
            calling: Endpoint::new(nobody, sockets),
            callees,
            first: 0,
        })
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    pub(crate) fn callee_addresses(&self) -> Vec<SocketAddr> {
        self.callees.iter().flat_map(Endpoint::addresses).collect()
    }

    /// INVITEs that each callee has taken so far.
    pub(crate) fn placed(&self) -> Vec<u64> {
        let placed = |callee: &Endpoint<Server>| callee.agent().stats().invites;
        self.callees.iter().map(placed).collect()
    }

    /// Begins to make calls without a holding time through `proxy`.
    pub(crate) fn call(&mut self, proxy: SocketAddr, arrivals: Arrivals, calls_max: u64) {
        let plain = CallerConfig::plain(self.addresses(), proxy, arrivals);
        self.call_as(CallerConfig { calls_max, ..plain });
    }

    /// Begins to make calls. The former calls are forgotten.
    pub(crate) fn call_as(&mut self, config: CallerConfig) {
        let caller = Caller::new(config, self.rng.fork(), self.clock.now());
        self.calling.replace(caller);
    }

    /// Where calls come from.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.calling.addresses()
    }

    /// Datagrams that the callers' side lost.
    pub(crate) fn lost(&self) -> u64 {
        self.calling.lost()
    }

    pub(crate) fn caller(&mut self) -> &mut Caller {
        self.calling.agent_mut()
    }

    /// Carries calls until the time is over or all calls are done.
    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.clock.now() + time;
        while !self.caller().is_done() && self.clock.now() < end {
            self.turn();
        }
    }

    /// Takes what has come in, does what is due.
    pub(crate) fn turn(&mut self) {
        self.calling.turn(self.clock, &mut self.buffers);
        self.first = (self.first + 1) % SERVERS;
        let (before, from) = self.callees.split_at_mut(self.first);
        for callee in from.iter_mut().chain(before) {
            callee.turn(self.clock, &mut self.buffers);
        }
    }
}

//! Callers and phones that a node does not know, and the servers behind it.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

use fastrand::Rng;
use load::{
    Accounts, Arrivals, CallerConfig, Cohort, Law, Phones, PhonesConfig, Rate, Retransmission,
    Service, Stats, Stream, Turns,
};
use traffic::{Buffers, Endpoint};

use super::subject::Work;
use crate::generator::Generator;

/// Servers are on 127.0.0.1, and who has a server's address is no stranger.
const STRANGERS: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// Sockets to call from.
const CALLERS: usize = 16;

/// Sockets to register from: a phone each would be best, but all are polled each turn.
const PHONES: usize = 128;

/// Users who register and who are called.
const USERS: u32 = 2_000;

/// REGISTERs per second before the measurement.
const USERS_PER_S: f64 = 4_000.0;

const HOLDING: Duration = Duration::from_secs(1);

/// Longer than a run.
const EXPIRES: Duration = Duration::from_secs(3600);

/// How long a node may take until it carries its first calls.
const START_MAX: Duration = Duration::from_secs(10);

/// Callers with the timers of RFC 3261, or phones with them, and servers that answer at once.
pub(crate) struct Crowd {
    generator: Generator,
    phones: Endpoint<Phones>,
    buffers: Buffers,
    rng: Rng,
    work: Work,
    /// Another crowd, which takes its turns in turn with this one.
    beside: Option<Box<Self>>,
}

impl Crowd {
    pub(crate) fn new(seed: u64, work: Work) -> io::Result<Self> {
        let bind = |_| traffic::bind(SocketAddr::new(STRANGERS, 0));
        let callers = (0..CALLERS).map(bind).collect::<io::Result<_>>()?;
        let generator = Generator::calling_from(callers, seed, Service::NONE)?;
        let phones = match work {
            Work::Calls | Work::CallsToUsers => 1,
            Work::Registers => PHONES,
        };
        let sockets: Vec<_> = (0..phones).map(bind).collect::<io::Result<_>>()?;
        let mut rng = Rng::with_seed(seed);
        let nobody = PhonesConfig {
            rate: Rate::Constant(0.0),
            ..phones_config(
                sockets.iter().map(|socket| socket.local_addr()).collect(),
                &generator,
            )
        };
        let nobody = Phones::new(nobody, rng.fork(), generator.clock().now());
        Ok(Self {
            generator,
            phones: Endpoint::new(nobody, sockets),
            buffers: Buffers::new(),
            rng,
            work,
            beside: None,
        })
    }

    pub(crate) fn servers(&self) -> Vec<SocketAddr> {
        self.generator.callee_addresses()
    }

    pub(super) fn now(&self) -> Duration {
        self.generator.clock().now()
    }

    /// Has another crowd take its turns beside it.
    pub(super) fn put_beside(&mut self, crowd: Self) {
        self.beside = Some(Box::new(crowd));
    }

    /// What that one had carried until now.
    pub(super) fn carried_beside(&mut self) -> u64 {
        let beside = self.beside.as_mut();
        beside.map_or(0, |crowd| crowd.stats().carried)
    }

    /// Registers the users that are called, and makes a call from each socket.
    pub(crate) fn settle(&mut self, node: SocketAddr) -> io::Result<()> {
        if self.work != Work::Calls {
            self.register(node, Turns::Once, USERS_PER_S);
            self.run_until("no registrations", |crowd| {
                crowd.phones.agent().registered() as u64 >= u64::from(USERS)
            })?;
        }
        if self.work != Work::Registers {
            const CALLS: u64 = 2 * CALLERS as u64;
            self.call(node, Arrivals::Window(1), Law::ZERO);
            self.run_until("no calls", |crowd| {
                crowd.generator.caller().stats().carried >= CALLS
            })?;
        }
        Ok(())
    }

    /// Offers so much in a second, as a Poisson stream.
    pub(super) fn offer(&mut self, node: SocketAddr, per_s: f64) {
        match self.work {
            Work::Calls | Work::CallsToUsers => {
                let holding = Law::Constant(HOLDING);
                self.call(node, Arrivals::poisson(per_s), holding);
            }
            Work::Registers => self.register(node, Turns::Drawn, per_s),
        }
    }

    /// Goes on at another rate.
    pub(super) fn change_rate(&mut self, per_s: f64) {
        let now = self.now();
        match self.work {
            Work::Calls | Work::CallsToUsers => {
                let arrivals = Arrivals::poisson(per_s);
                self.generator.caller().set_arrivals(now, arrivals);
            }
            Work::Registers => self.phones.agent_mut().set_rate(now, Rate::Constant(per_s)),
        }
    }

    /// Keeps so many calls in progress, each without a holding time.
    pub(super) fn keep_calling(&mut self, node: SocketAddr, window: usize) {
        self.call(node, Arrivals::Window(window), Law::ZERO);
    }

    pub(super) fn begin_cohort(&mut self) {
        match self.work {
            Work::Calls | Work::CallsToUsers => self.generator.caller().begin_cohort(),
            Work::Registers => self.phones.agent_mut().begin_cohort(),
        }
    }

    pub(super) fn cohorts(&mut self) -> &[Cohort] {
        match self.work {
            Work::Calls | Work::CallsToUsers => self.generator.caller().cohorts(),
            Work::Registers => self.phones.agent().cohorts(),
        }
    }

    pub(super) fn stats(&mut self) -> &Stats {
        match self.work {
            Work::Calls | Work::CallsToUsers => self.generator.caller().stats(),
            Work::Registers => self.phones.agent().stats(),
        }
    }

    /// 2xx so far, to INVITEs or REGISTERs.
    pub(super) fn answered(&mut self) -> u64 {
        let work = self.work;
        let stats = self.stats();
        match work {
            Work::Calls | Work::CallsToUsers => stats.answer_ns.len(),
            Work::Registers => stats.register_ns.len(),
        }
    }

    /// Datagrams that this side lost.
    pub(super) fn lost(&self) -> u64 {
        self.generator.lost() + self.phones.lost()
    }

    pub(super) fn run(&mut self, time: Duration) {
        self.run_to(self.now() + time);
    }

    pub(super) fn run_to(&mut self, end: Duration) {
        while self.now() < end {
            self.turn();
        }
    }

    fn turn(&mut self) {
        self.generator.turn();
        if self.work != Work::Calls {
            let clock = self.generator.clock();
            self.phones.turn(clock, &mut self.buffers);
        }
        if let Some(crowd) = &mut self.beside {
            crowd.turn();
        }
    }

    fn run_until(&mut self, problem: &str, holds: impl Fn(&mut Self) -> bool) -> io::Result<()> {
        let end = self.now() + START_MAX;
        while !holds(self) {
            if self.now() > end {
                return Err(io::Error::other(problem));
            }
            self.turn();
        }
        Ok(())
    }

    fn call(&mut self, node: SocketAddr, arrivals: Arrivals, holding: Law) {
        self.generator.call_as(CallerConfig {
            holding,
            users: USERS,
            ..CallerConfig::plain(self.generator.addresses(), node, arrivals)
        });
    }

    fn register(&mut self, registrar: SocketAddr, turns: Turns, per_s: f64) {
        let config = PhonesConfig {
            registrar,
            turns,
            rate: Rate::Constant(per_s),
            ..phones_config(self.phones.addresses(), &self.generator)
        };
        let phones = Phones::new(config, self.rng.fork(), self.now());
        self.phones.replace(phones);
    }
}

/// Phones whose contacts are the servers.
fn phones_config(sockets: Vec<SocketAddr>, generator: &Generator) -> PhonesConfig {
    PhonesConfig {
        sockets,
        transport: load::Transport::Udp,
        contacts: generator.callee_addresses(),
        registrar: SocketAddr::from((Ipv4Addr::LOCALHOST, 9)),
        domain: "example.com".to_owned(),
        accounts: Accounts::open(USERS),
        turns: Turns::Once,
        rate: Rate::Constant(0.0),
        stream: Stream::Poisson,
        expires: EXPIRES,
        refresh: 0.9,
        retransmission: Retransmission::Rfc3261,
    }
}

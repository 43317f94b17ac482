//! The load of one fail-over: callers and phones on one thread, and when what became of each call.

use std::{io, net::SocketAddr, time::Duration};

use fastrand::Rng;
use load::{
    Accounts, Arrivals, Caller, CallerConfig, Law, Outbox, Phones, PhonesConfig, Rate,
    Retransmission, Stats, Stream, Turns,
};
use socket::Clock;
use traffic::{Agent, Endpoint, Group, LOOPBACK};

use super::{fate::Record, hosts::on_host};

/// The longest sleep between two looks.
const SLEEP_MAX: Duration = Duration::from_millis(20);

/// How long calls last from their answer: so many per second of rate are in progress.
const HOLDING: Law = Law::Exponential(Duration::from_secs(1));

/// How long registrations are to last: longer than any run, so that none is refreshed.
const EXPIRES: Duration = Duration::from_secs(3600);

/// Who offers what.
#[derive(Debug)]
enum Source {
    Callers(Caller),
    Phones(Phones),
}

/// Callers and phones that run together.
#[derive(Debug)]
pub(super) struct Traffic {
    clock: Clock,
    rng: Rng,
    group: Group<Source>,
    /// Of each source, in the order in which they were added.
    records: Vec<Record>,
    /// How many there are in all.
    phones: u64,
}

/// Phones to bring up.
pub(super) struct Users {
    pub(super) registrar: SocketAddr,
    /// Where calls to them go.
    pub(super) contacts: Vec<SocketAddr>,
    pub(super) domain: &'static str,
    pub(super) number: u32,
    pub(super) per_s: f64,
}

/// Calls to make.
pub(super) struct Calls {
    pub(super) proxy: SocketAddr,
    pub(super) domain: &'static str,
    /// How many users are called.
    pub(super) users: u32,
    pub(super) per_s: f64,
    /// The address to call from.
    pub(super) from: SocketAddr,
    /// The network namespace of that address, if it is another one.
    pub(super) host: Option<String>,
}

impl Calls {
    /// Calls from this machine through `proxy`, to anybody.
    pub(super) fn through(proxy: SocketAddr, per_s: f64) -> Self {
        Self {
            proxy,
            domain: "example.com",
            users: 10_000,
            per_s,
            from: LOOPBACK,
            host: None,
        }
    }
}

impl Traffic {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            clock: Clock::start(),
            rng: Rng::with_seed(seed),
            group: Group::new(Vec::new()),
            records: Vec::new(),
            phones: 0,
        }
    }

    pub(super) fn now(&self) -> Duration {
        self.clock.now()
    }

    /// Begins to call; the number of the record of it.
    pub(super) fn call(&mut self, calls: &Calls) -> io::Result<usize> {
        let bind = || traffic::bind(calls.from);
        let socket = match &calls.host {
            Some(host) => on_host(host, bind)?,
            None => bind()?,
        };
        let arrivals = Arrivals::poisson(calls.per_s);
        let config = CallerConfig {
            domain: calls.domain.to_owned(),
            users: calls.users,
            holding: HOLDING,
            ..CallerConfig::plain(vec![socket.local_addr()], calls.proxy, arrivals)
        };
        let caller = Caller::new(config, self.rng.fork(), self.clock.now());
        Ok(self.add(Source::Callers(caller), socket))
    }

    /// Begins to bring phones up; the number of the record of it.
    pub(super) fn register(&mut self, users: Users) -> io::Result<usize> {
        let socket = traffic::bind(LOOPBACK)?;
        self.phones += u64::from(users.number);
        let config = PhonesConfig {
            sockets: vec![socket.local_addr()],
            transport: load::Transport::Udp,
            contacts: users.contacts,
            registrar: users.registrar,
            domain: users.domain.to_owned(),
            accounts: Accounts::open(users.number),
            turns: Turns::Once,
            rate: Rate::Constant(users.per_s),
            stream: Stream::Poisson,
            expires: EXPIRES,
            refresh: 1.0,
            retransmission: Retransmission::Rfc3261,
        };
        let phones = Phones::new(config, self.rng.fork(), self.clock.now());
        Ok(self.add(Source::Phones(phones), socket))
    }

    fn add(&mut self, source: Source, socket: socket::udp::Socket) -> usize {
        self.group
            .endpoints
            .push(Endpoint::new(source, vec![socket]));
        self.records.push(Record::default());
        self.records.len() - 1
    }

    /// Carries on for so long.
    pub(super) fn run(&mut self, time: Duration) -> io::Result<()> {
        let end = self.now() + time;
        self.run_until(time * 2, |traffic| traffic.now() >= end)
    }

    /// Carries on until all phones are registered.
    pub(super) fn run_until_registered(&mut self, patience: Duration) -> io::Result<()> {
        self.run_until(patience, |traffic| traffic.registered() == traffic.phones)
    }

    /// Begins no more calls and carries on until all have ended.
    pub(super) fn finish(&mut self, patience: Duration) -> io::Result<()> {
        for endpoint in &mut self.group.endpoints {
            match endpoint.agent_mut() {
                Source::Callers(caller) => caller.stop(),
                Source::Phones(phones) => phones.stop(),
            }
        }
        self.run_until(patience, |traffic| {
            traffic.sources().all(|source| match source {
                Source::Callers(caller) => caller.is_done(),
                Source::Phones(phones) => phones.is_done(),
            })
        })
    }

    /// What became of what one source began.
    pub(super) fn record(&self, number: usize) -> &Record {
        &self.records[number]
    }

    /// Registrations that phones believe to have.
    pub(super) fn registered(&self) -> u64 {
        let registered = self.sources().map(|source| match source {
            Source::Callers(_) => 0,
            Source::Phones(phones) => phones.registered() as u64,
        });
        registered.sum()
    }

    fn sources(&self) -> impl Iterator<Item = &Source> {
        self.group.endpoints.iter().map(Endpoint::agent)
    }

    /// Carries on until it `is_so`.
    pub(super) fn run_until(
        &mut self,
        patience: Duration,
        mut is_so: impl FnMut(&Self) -> bool,
    ) -> io::Result<()> {
        let end = self.now() + patience;
        while !is_so(self) {
            if self.now() > end {
                return Err(io::Error::other(format!("not within {patience:?}")));
            }
            self.group.turn(self.clock, self.now() + SLEEP_MAX);
            let now = self.now();
            let sources = self.group.endpoints.iter_mut();
            for (endpoint, record) in sources.zip(&mut self.records) {
                record.take(now, endpoint.agent_mut().stats_mut());
            }
        }
        Ok(())
    }
}

impl Source {
    fn stats_mut(&mut self) -> &mut Stats {
        match self {
            Self::Callers(caller) => caller.stats_mut(),
            Self::Phones(phones) => phones.stats_mut(),
        }
    }
}

impl Agent for Source {
    fn handle_input(
        &mut self,
        now: Duration,
        socket: usize,
        from: SocketAddr,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        match self {
            Self::Callers(caller) => caller.handle_input(now, socket, from, bytes, out),
            Self::Phones(phones) => phones.handle_input(now, socket, from, bytes, out),
        }
    }

    fn handle_timeout(&mut self, now: Duration, out: &mut Outbox) {
        match self {
            Self::Callers(caller) => caller.handle_timeout(now, out),
            Self::Phones(phones) => phones.handle_timeout(now, out),
        }
    }

    fn deadline(&self) -> Option<Duration> {
        match self {
            Self::Callers(caller) => caller.deadline(),
            Self::Phones(phones) => phones.deadline(),
        }
    }
}

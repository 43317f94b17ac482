//! The callers and the emulated servers, and the results of their calls.

use std::{collections::VecDeque, io, net::SocketAddr, time::Duration};

use fastrand::Rng;
use load::{Arrivals, Caller, CallerConfig, Law, Server, ServerConfig, Service, Stall, Stats};
use socket::Clock;
use traffic::{Buffers, Endpoint};

use super::schedule::POLICIES;

/// Calls per second: 60 % of the capacity of four servers. With its stalls, a server carries 300.
pub(super) const CALLS_PER_S: f64 = 720.0;
/// Processing time of an INVITE.
pub(super) const INVITE: Duration = Duration::from_micros(1_450);
/// Processing time of a BYE.
pub(super) const BYE: Duration = Duration::from_micros(830);
/// How long a stall lasts, such as one of a garbage collector.
pub(super) const STALL: Duration = Duration::from_secs(1);
/// Calls between two stalls of a server.
pub(super) const STALL_EVERY: u64 = 950;
/// The number of servers. They stall in turn.
const SERVERS: u64 = 4;
/// How long a caller waits for strays after the answer to its BYE. It is short, so that a short
/// demo completes its calls.
const HOLDING: Law = Law::Normal {
    mean: Duration::from_millis(2_500),
    deviation: Duration::from_millis(500),
};
/// How often the demo takes a sample.
pub(super) const SAMPLE: Duration = Duration::from_millis(500);
/// Samples kept: more than a wide screen has columns.
const MOMENTS_MAX: usize = 512;

/// All callers and servers.
#[derive(Debug)]
pub(super) struct UserAgents {
    rng: Rng,
    buffers: Buffers,
    servers: Vec<Uas>,
    /// The callers, each with the index of the policy under which it started its calls.
    callings: Vec<(usize, Endpoint<Caller>)>,
    tallies: Vec<Tally>,
    moments: VecDeque<Moment>,
    policy: usize,
}

/// A server, and its latest stall.
#[derive(Debug)]
pub(super) struct Uas {
    answering: Endpoint<Server>,
    stalls: u64,
    stalled_until: Duration,
}

/// The results of the calls that started under one policy.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) stats: Stats,
    /// Stalls of any server while the policy was in force.
    pub(super) stalls: u64,
}

/// The figures of one interval of [`SAMPLE`].
#[derive(Clone, Debug)]
pub(super) struct Moment {
    /// The index of the policy in force at the end of the interval.
    pub(super) policy: usize,
    /// The mean time to the first response, if there was one.
    pub(super) response: Option<Duration>,
    /// Calls that each server accepted since the start.
    pub(super) taken: Vec<u64>,
}

impl UserAgents {
    /// Four servers and no callers.
    pub(super) fn new(seed: u64) -> io::Result<Self> {
        let mut rng = Rng::with_seed(seed);
        let servers = (1..=SERVERS)
            .map(|place| Uas::new(STALL_EVERY * place / SERVERS, rng.fork()))
            .collect::<io::Result<_>>()?;
        Ok(Self {
            rng,
            buffers: Buffers::new(),
            servers,
            callings: Vec::new(),
            tallies: POLICIES.iter().map(|_| Tally::default()).collect(),
            moments: VecDeque::new(),
            policy: 0,
        })
    }

    /// Starts new calls under another policy. Calls in progress stay with their own callers, so
    /// each counts for the policy that placed it.
    pub(super) fn call(
        &mut self,
        policy: usize,
        proxy: SocketAddr,
        now: Duration,
    ) -> io::Result<()> {
        self.hush();
        let socket = traffic::bind(traffic::LOOPBACK)?;
        let config = CallerConfig {
            holding: HOLDING,
            ..CallerConfig::plain(
                vec![socket.local_addr()],
                proxy,
                Arrivals::poisson(CALLS_PER_S),
            )
        };
        let caller = Caller::new(config, self.rng.fork(), now);
        self.callings
            .push((policy, Endpoint::new(caller, vec![socket])));
        self.policy = policy;
        Ok(())
    }

    /// Starts no more calls.
    pub(super) fn hush(&mut self) {
        for (_, calling) in &mut self.callings {
            calling.agent_mut().stop();
        }
    }

    /// Calls in progress.
    pub(super) fn open_calls(&self) -> usize {
        let open = |(_, calling): &(_, Endpoint<Caller>)| calling.agent().open_calls();
        self.callings.iter().map(open).sum()
    }

    /// The servers.
    pub(super) fn servers(&self) -> &[Uas] {
        &self.servers
    }

    /// The results by policy, in the order of [`POLICIES`].
    pub(super) fn tallies(&self) -> &[Tally] {
        &self.tallies
    }

    /// The latest samples, the newest last.
    pub(super) fn moments(&self) -> &VecDeque<Moment> {
        &self.moments
    }

    /// Takes a sample of the figures since the last one.
    pub(super) fn sample(&mut self) {
        let (mut answered, mut sum_ns) = (0, 0.0);
        for (policy, calling) in &mut self.callings {
            let stats = calling.agent_mut().stats_mut().take();
            let responses = &stats.first_response_ns;
            answered += responses.len();
            sum_ns += responses.mean() * responses.len() as f64;
            self.tallies[*policy].stats.add(&stats);
        }
        self.callings
            .retain(|(_, calling)| !calling.agent().is_done());
        let mean = Duration::from_nanos((sum_ns / answered.max(1) as f64) as u64);
        if self.moments.len() == MOMENTS_MAX {
            self.moments.pop_front();
        }
        self.moments.push_back(Moment {
            policy: self.policy,
            response: (answered > 0).then_some(mean),
            taken: self.servers.iter().map(Uas::taken).collect(),
        });
    }

    /// Handles the datagrams that arrived and the timers that are due.
    pub(super) fn turn(&mut self, clock: Clock) {
        for (_, calling) in &mut self.callings {
            calling.turn(clock, &mut self.buffers);
        }
        for server in &mut self.servers {
            server.answering.turn(clock, &mut self.buffers);
            if server.notice_stall(clock.now()) {
                self.tallies[self.policy].stalls += 1;
            }
        }
    }
}

impl Uas {
    fn new(first_stall: u64, rng: Rng) -> io::Result<Self> {
        let socket = traffic::bind(traffic::LOOPBACK)?;
        let config = ServerConfig {
            service: Service {
                invite: Law::Constant(INVITE),
                bye: Law::Constant(BYE),
                other: Law::ZERO,
            },
            stall: Some(Stall::Calls {
                first: first_stall,
                every: STALL_EVERY,
                lasting: STALL,
            }),
            ..ServerConfig::prompt(socket.local_addr())
        };
        Ok(Self {
            answering: Endpoint::new(Server::new(config, rng, Duration::ZERO), vec![socket]),
            stalls: 0,
            stalled_until: Duration::ZERO,
        })
    }

    /// The address at which it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.answering.addresses()[0]
    }

    /// Calls that it accepted since the start.
    pub(super) fn taken(&self) -> u64 {
        self.answering.agent().stats().invites
    }

    /// Its stalls since the start.
    pub(super) fn stalls(&self) -> u64 {
        self.stalls
    }

    /// Whether it has no work at the moment.
    pub(super) fn is_stalled(&self, now: Duration) -> bool {
        now < self.stalled_until
    }

    fn notice_stall(&mut self, now: Duration) -> bool {
        let stalls = self.answering.agent().stats().stalls;
        let begins = stalls > self.stalls;
        if begins {
            self.stalls = stalls;
            self.stalled_until = now + STALL;
        }
        begins
    }
}

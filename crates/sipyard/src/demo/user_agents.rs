//! The callers and the emulated servers, and what becomes of the calls.

use std::{collections::VecDeque, io, net::SocketAddr, time::Duration};

use fastrand::Rng;
use load::{Arrivals, Caller, CallerConfig, Law, Server, ServerConfig, Service, Stall, Stats};
use socket::Clock;
use traffic::{Buffers, Endpoint};

use super::schedule::POLICIES;

/// Calls per second: 60 % of what four servers can carry. With its stalls, a server carries 300.
pub(super) const CALLS_PER_S: f64 = 720.0;
/// Work on an INVITE.
pub(super) const INVITE: Duration = Duration::from_micros(1_450);
/// Work on a BYE.
pub(super) const BYE: Duration = Duration::from_micros(830);
/// A stall, such as a garbage collector's.
pub(super) const STALL: Duration = Duration::from_secs(1);
/// Calls from one stall of a server to its next.
pub(super) const STALL_EVERY: u64 = 950;
/// So many servers, which stall in turn.
const SERVERS: u64 = 4;
/// From the answer to the BYE. Short, so that a short demo completes its calls.
const HOLDING: Law = Law::Normal {
    mean: Duration::from_millis(2_500),
    deviation: Duration::from_millis(500),
};
/// How often the figures of an interval are taken.
pub(super) const SAMPLE: Duration = Duration::from_millis(500);
/// Samples kept: more than a wide screen has columns.
const MOMENTS_MAX: usize = 512;

/// All callers and servers.
#[derive(Debug)]
pub(super) struct UserAgents {
    rng: Rng,
    buffers: Buffers,
    servers: Vec<Uas>,
    /// Callers, with the place of the policy that they began their calls under.
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

/// What became of the calls that began under one policy.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) stats: Stats,
    /// Stalls of any server while it was in force.
    pub(super) stalls: u64,
}

/// The figures of one interval of [`SAMPLE`].
#[derive(Clone, Debug)]
pub(super) struct Moment {
    /// The place of the policy in force at its end.
    pub(super) policy: usize,
    /// The mean time to the first response, if any came.
    pub(super) response: Option<Duration>,
    /// Calls that each server has taken since the start.
    pub(super) taken: Vec<u64>,
}

impl UserAgents {
    /// Four servers and nobody who calls.
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

    /// New calls begin under another policy. Those in progress stay with their own callers, so
    /// that each counts for the policy that placed it.
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

    /// No more calls begin.
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

    /// By policy, in the order of [`POLICIES`].
    pub(super) fn tallies(&self) -> &[Tally] {
        &self.tallies
    }

    /// The latest intervals, the newest last.
    pub(super) fn moments(&self) -> &VecDeque<Moment> {
        &self.moments
    }

    /// Takes the figures since the last sample.
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

    /// Takes what has come in, does what is due.
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

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.answering.addresses()[0]
    }

    /// Calls it has taken since the start.
    pub(super) fn taken(&self) -> u64 {
        self.answering.agent().stats().invites
    }

    /// Its stalls since the start.
    pub(super) fn stalls(&self) -> u64 {
        self.stalls
    }

    /// Whether it does nothing at the moment.
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

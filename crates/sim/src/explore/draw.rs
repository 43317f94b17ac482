use std::{fmt, time::Duration};

use balance::Policy;
use fastrand::Rng;
use load::{Discipline, Habits, Law, Retransmission, ServerConfig, Service, Stall, Stream};
use node::config::{Limits, Mode, Pool, Probe, Timers};

use super::{
    fault::{Fault, Faults},
    overload,
    public::{Deed, NatPlan, Public},
    streams::Streams,
};
use crate::{Bottleneck, Calls, Death, Link, Pace, ServerSetup, Setup, server_address};

/// The plan of one seed: a world, and its faults.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed of the plan and of the world.
    pub seed: u64,
    /// The world.
    pub setup: Setup,
    /// The shares of special calls.
    pub habits: Habits,
    /// The edges' limits.
    pub limits: Limits,
    /// Whether the edges hold transactions.
    pub state: Mode,
    /// The edges' timers.
    pub timers: Timers,
    /// The faults and their times, sorted by time.
    pub faults: Vec<(Duration, Fault)>,
    /// What a public network adds; none: all who take part are reached directly and mean well.
    pub public: Option<Public>,
    /// Who comes over connections; none: all is sent in datagrams.
    pub streams: Option<Streams>,
    /// The edges' processors; none: processing takes no time.
    pub pace: Option<Pace>,
    /// When faults and calls end.
    pub faulty_until: Duration,
}

/// Room that no run fills.
const LIMIT: usize = 10_000;

/// One run in this many has no fault. The system must then carry every call.
const FAULTLESS: u32 = 8;

impl Plan {
    /// Draws the plan of a seed.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let rng = &mut rng;
        let faultless = rng.u32(..FAULTLESS) == 0;
        let faulty_until = Duration::from_secs(rng.u64(10..60));
        let (edges, servers) = (rng.usize(1..=3), rng.usize(1..=6));
        let rate = between(rng, 2.0, 40.0);
        let stalling = !faultless && rng.u8(..3) == 0;
        let setup = Setup {
            edges,
            edge_capacity: None,
            second: None,
            workers: rng.usize(1..=3),
            pool: pool(rng),
            servers: (0..servers).map(|_| server(rng, stalling)).collect(),
            exchange: None,
            calls: Calls {
                rate,
                stream: Stream::Poisson,
                holding: holding(rng),
                retransmission: Retransmission::Rfc3261,
            },
            link: if faultless {
                Link::clean(ms(rng, 0, 20))
            } else {
                link(rng, 0.1)
            },
        };
        let faults = if faultless {
            Vec::new()
        } else {
            faults(rng, edges, servers, faulty_until)
        };
        Self {
            seed,
            habits: Habits {
                reinvite: between(rng, 0.0, 0.2),
                cancel: between(rng, 0.0, 0.2),
                abandon: if faultless {
                    0.0
                } else {
                    between(rng, 0.0, 0.1)
                },
            },
            limits: limits(rng, faultless),
            state: if rng.bool() {
                Mode::Stateful
            } else {
                Mode::Stateless
            },
            timers: Timers {
                t1: Duration::from_millis(500),
                timer_c: Duration::from_secs(181),
                call_max: Duration::from_secs(rng.u64(120..600)),
                drain: Duration::from_secs(10),
            },
            public: Public::draw(seed, edges, faulty_until),
            setup,
            faults,
            streams: None,
            pace: None,
            faulty_until,
        }
        .with_streams()
        .with_surges()
    }

    fn with_streams(mut self) -> Self {
        let parties = (self.setup.edges, self.setup.servers.len());
        let (is_public, until) = (self.public.is_some(), self.faulty_until);
        self.streams = Streams::draw(self.seed, is_public, parties, until, &mut self.faults);
        // Else nobody sends again what a datagram has lost.
        if self
            .streams
            .is_some_and(|it| it.of_callers && !it.of_servers)
        {
            self.state = Mode::Stateful;
        }
        self
    }

    /// Not where tables are small, which is another reason to refuse calls, nor beside strangers.
    fn with_surges(mut self) -> Self {
        if self.faults.is_empty() || self.public.is_some() || self.has_small_tables() {
            return self;
        }
        let (edges, until) = (self.setup.edges, self.faulty_until);
        self.pace = overload::draw(self.seed, edges, until, &mut self.faults);
        if self.pace.is_some() {
            self.setup.workers = 1;
        }
        self
    }

    /// Whether the plan has no faults, not even random losses.
    #[must_use]
    pub fn is_faultless(&self) -> bool {
        let clean = Link::clean(Duration::ZERO);
        let link = Link {
            latency: clean.latency,
            ..self.setup.link
        };
        self.faults.is_empty() && link == clean
    }

    /// The NAT before a caller.
    pub(super) fn nat(&self, caller: usize) -> Option<NatPlan> {
        self.public.as_ref()?.nats[caller]
    }

    /// Whether the edges' tables can be full.
    #[must_use]
    pub fn has_small_tables(&self) -> bool {
        self.limits.sessions < LIMIT
    }

    /// Whether no server stops by itself.
    #[must_use]
    pub fn is_prompt(&self) -> bool {
        let mut servers = self.setup.servers.iter();
        servers.all(|server| server.config.stall.is_none())
    }
}

fn pool(rng: &mut Rng) -> Pool {
    let probe = Probe {
        interval: Duration::from_secs(2),
        timeout: Duration::from_secs(1),
        fall: rng.u32(1..4),
        rise: rng.u32(1..3),
    };
    Pool {
        name: "app".to_owned(),
        policy: Policy::ALL[rng.usize(..Policy::ALL.len())],
        costs: vec![("INVITE".to_owned(), between(rng, 1.0, 4.0))],
        learn_costs: false,
        servers: Vec::new(),
        probe: rng.bool().then_some(probe),
        slow_start: ms(rng, 0, 10_000),
        answer_timeout: ms(rng, 500, 4_000),
        overload_control: false,
        learn_room: true,
    }
}

fn server(rng: &mut Rng, stalling: bool) -> ServerSetup {
    let ringing = ms(rng, 0, 3_000);
    let stall = Stall::Calls {
        first: rng.u64(1..50),
        every: rng.u64(20..200),
        lasting: ms(rng, 100, 2_000),
    };
    let config = ServerConfig {
        service: Service {
            invite: Law::Exponential(ms(rng, 0, 8)),
            bye: Law::Exponential(ms(rng, 0, 4)),
            other: Law::Exponential(ms(rng, 0, 2)),
        },
        discipline: if rng.bool() {
            Discipline::Fifo
        } else {
            Discipline::ProcessorSharing
        },
        trying: rng.bool(),
        ringing: Law::Normal {
            mean: ringing,
            deviation: ringing / 4,
        },
        stall: (stalling && rng.bool()).then_some(stall),
        ..ServerConfig::prompt(server_address(0))
    };
    ServerSetup {
        config,
        speed: 1.0,
        is_spare: false,
        capacity: [0.5, 1.0, 1.0, 1.0, 4.0][rng.usize(..5)],
    }
}

fn holding(rng: &mut Rng) -> Law {
    let mean = ms(rng, 0, 15_000);
    match rng.u8(..3) {
        0 => Law::Constant(mean),
        1 => Law::Exponential(mean),
        _ => Law::Normal {
            mean,
            deviation: mean / 2,
        },
    }
}

/// Full tables are worth a look too.
fn limits(rng: &mut Rng, faultless: bool) -> Limits {
    let small = !faultless && rng.u8(..4) == 0;
    let mut limit = |small_at_least: usize| {
        if small {
            rng.usize(small_at_least..4 * small_at_least)
        } else {
            LIMIT
        }
    };
    Limits {
        sessions: limit(100),
        transactions: limit(100),
        held_transactions: limit(600),
        registrations: 1_000,
        retained_requests: limit(4),
        message_bytes: 16_384,
        headers: 128,
        handover_queue: 4_096,
        strangers: 1_024,
    }
}

fn link(rng: &mut Rng, worst: f64) -> Link {
    let mut share = || {
        if rng.bool() { rng.f64() * worst } else { 0.0 }
    };
    let (loss, duplication, reordering) = (share(), share(), share());
    Link {
        latency: Law::Exponential(ms(rng, 0, 20)),
        loss,
        duplication,
        reordering,
        held_back: if reordering > 0.0 {
            ms(rng, 1, 2_000)
        } else {
            Duration::ZERO
        },
        ..Link::clean(Duration::ZERO)
    }
}

fn faults(rng: &mut Rng, edges: usize, servers: usize, until: Duration) -> Vec<(Duration, Fault)> {
    let mean = between(rng, 1.0, 10.0);
    let pause = Law::Exponential(Duration::from_secs_f64(mean));
    let mut at = pause.sample(rng);
    let mut faults = Vec::new();
    while at < until {
        faults.push((at, fault(rng, edges, servers)));
        at += pause.sample(rng);
    }
    faults
}

fn fault(rng: &mut Rng, edges: usize, servers: usize) -> Fault {
    let (edge, server) = (rng.usize(..edges), rng.usize(..servers));
    let death = if rng.bool() {
        Death::Process
    } else {
        Death::Machine
    };
    let lasting = ms(rng, 50, 15_000);
    match rng.u8(..10) {
        0 => Fault::Edge(edge, death, lasting.min(Duration::from_secs(5))),
        1 | 2 => Fault::Server(server, death, lasting),
        3 => Fault::Cut(edge, server, lasting),
        4 => Fault::CutCaller(edge, lasting.min(Duration::from_secs(5))),
        5 => Fault::Links(link(rng, 0.5), lasting),
        6 => Fault::Links(
            Link {
                bottleneck: Some(Bottleneck {
                    per_s: between(rng, 50.0, 1_000.0),
                    waiting_max: rng.u32(1..100),
                }),
                ..Link::clean(ms(rng, 0, 20))
            },
            lasting,
        ),
        7 => Fault::Stall(server, lasting),
        8 if rng.bool() => Fault::Speed(server, between(rng, 0.1, 2.0), lasting),
        8 => Fault::Drain(edge, server, lasting),
        _ => Fault::Reload(edge, server, lasting),
    }
}

fn ms(rng: &mut Rng, from: u64, to: u64) -> Duration {
    Duration::from_millis(rng.u64(from..=to))
}

fn between(rng: &mut Rng, from: f64, to: f64) -> f64 {
    from + (to - from) * rng.f64()
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Setup {
            edges,
            workers,
            pool,
            servers,
            calls,
            link,
            ..
        } = &self.setup;
        writeln!(
            f,
            "seed {}: {edges} edges of {workers} workers, {} servers, {}, {:.1} calls/s of {:?} until {:.0} s",
            self.seed,
            servers.len(),
            pool.policy,
            calls.rate,
            calls.holding,
            self.faulty_until.as_secs_f64()
        )?;
        writeln!(f, "links {}; {:?}", Faults(link), self.habits)?;
        writeln!(
            f,
            "{pool:?}\n{:?}, {:?}\n{:?}",
            self.state, self.limits, self.timers
        )?;
        for server in servers {
            writeln!(f, "{server:?}")?;
        }
        if let Some(streams) = &self.streams {
            writeln!(f, "{streams}")?;
        }
        for (at, fault) in &self.faults {
            writeln!(f, "{:8.3} s  {fault}", at.as_secs_f64())?;
        }
        let Some(public) = &self.public else {
            return Ok(());
        };
        writeln!(
            f,
            "{:?}, hang up {:?}, tapped {}",
            public.nats, public.hang_up, public.is_tapped
        )?;
        for (at, deed) in &public.deeds {
            writeln!(f, "{:8.3} s  {}", at.as_secs_f64(), Deed::text(*deed))?;
        }
        Ok(())
    }
}

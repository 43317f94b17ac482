//! The registrar and the stateful proxy with look-up beside Kamailio's: CPU, latency, and what is on disk.

mod page;
pub(crate) mod queue;

use std::{io, net::SocketAddr, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    load_program::{Callees, Outcome, call, register},
    process::micros,
    subject::{self, KAMAILIO, Running},
};

pub(crate) use page::page;
pub(crate) use queue::register as queue;

const ROUNDS: u32 = 5;

/// Users that are registered, and those of them that are called.
const USERS: u32 = 40_000;
const CALLED: u32 = 5_000;

/// REGISTERs per second.
const PACE: u32 = 10_000;

/// REGISTERs in a row when the next only waits for an answer.
const QUEUED: u32 = 120_000;

/// Those that wait at once: no socket's buffer overflows.
const QUEUE: u32 = 64;

/// A REGISTER in a row that gets no answer for so long is lost.
const PATIENCE: Duration = Duration::from_secs(2);

/// REGISTERs per second that are offered to the store on disk.
const RATES: [u32; 4] = [10_000, 20_000, 25_000, 30_000];

/// How long each rate is offered.
const SECONDS: u32 = 8;

/// Calls in progress at saturation.
const WINDOW: u32 = 256;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Program {
    Kamailio,
    Memory,
    File,
}

/// What is asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Work {
    /// REGISTERs of users that had no binding.
    NewBindings,
    /// REGISTERs of users that are registered.
    Refreshes,
    /// The same, [`QUEUE`] at once.
    Queued,
    /// Calls to registered users, [`WINDOW`] at once.
    Saturated,
    /// Calls to registered users, 1000 a second.
    Paced,
}

/// One program at one work, once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    round: u32,
    program: Program,
    work: Work,
    /// CPU time of the program for each REGISTER or call.
    cpu_us: f64,
    #[serde(flatten)]
    done: Done,
}

/// What became of the REGISTERs or calls.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Done {
    /// Granted, or carried.
    count: u64,
    failed: u64,
    retransmissions: u64,
    per_s: f64,
    /// From the request to its 200.
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
}

/// The store on disk at one rate, once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct OnDisk {
    round: u32,
    /// REGISTERs offered in a second.
    rate: u32,
    /// REGISTERs answered with 200, each with its binding on disk.
    acknowledged_per_s: f64,
    failed: u64,
    retransmissions: u64,
    busy: f64,
    p50_ms: f64,
    p99_ms: f64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Results {
    runs: Vec<Run>,
    on_disk: Vec<OnDisk>,
}

impl Program {
    const ALL: [Self; 3] = [Self::Kamailio, Self::Memory, Self::File];

    fn title(self) -> &'static str {
        match self {
            Self::Kamailio => "Kamailio, memory",
            Self::Memory => "Sipyard, memory",
            Self::File => "Sipyard, file, each answer durable",
        }
    }

    fn is_here(self) -> bool {
        self != Self::Kamailio || std::path::Path::new(KAMAILIO).exists()
    }

    fn start(self) -> io::Result<Running> {
        let running = match self {
            Self::Kamailio => subject::kamailio_registrar(),
            Self::Memory => subject::registrar(false),
            Self::File => subject::registrar(true),
        }?;
        subject::wait_for_sockets(&[running.address])?;
        Ok(running)
    }
}

impl Work {
    const ALL: [Self; 5] = [
        Self::NewBindings,
        Self::Refreshes,
        Self::Queued,
        Self::Saturated,
        Self::Paced,
    ];

    fn title(self) -> String {
        match self {
            Self::NewBindings => format!("REGISTER, new bindings, {PACE}/s"),
            Self::Refreshes => format!("REGISTER, refreshes, {PACE}/s"),
            Self::Queued => "REGISTER, refreshes, saturated".to_owned(),
            Self::Saturated => "call with look-up, saturated".to_owned(),
            Self::Paced => "call with look-up, 1000 calls/s".to_owned(),
        }
    }
}

pub(crate) fn measure() -> io::Result<Results> {
    let mut results = Results::default();
    for round in 1..=ROUNDS {
        for program in Program::ALL.into_iter().filter(|program| program.is_here()) {
            measure_program(round, program, &mut results.runs)?;
        }
        for rate in RATES {
            let run = on_disk(round, rate)?;
            println!("{run:?}");
            results.on_disk.push(run);
        }
    }
    Ok(results)
}

fn measure_program(round: u32, program: Program, runs: &mut Vec<Run>) -> io::Result<()> {
    let callees = Callees::start(4, &[])?;
    let running = program.start()?;
    let contacts: Vec<_> = callees.addresses.iter().map(ToString::to_string).collect();
    let contacts = contacts.join(",");
    for work in Work::ALL {
        let before = running.process.cpu();
        let done = offer(work, &running, &contacts)?;
        let cpu = running.process.cpu() - before;
        let run = Run {
            round,
            program,
            work,
            cpu_us: micros(cpu) / done.count.max(1) as f64,
            done,
        };
        println!("{run:?}");
        runs.push(run);
    }
    Ok(())
}

fn offer(work: Work, running: &Running, contacts: &str) -> io::Result<Done> {
    let registers = |users: u32, pace: u32| {
        let (users, pace) = (users.to_string(), pace.to_string());
        let arguments = ["--users", &users, "--rate", &pace, "--contact", contacts];
        register(running.address, &arguments).map(Done::from)
    };
    let calls = |pace: [&str; 2]| {
        let called = CALLED.to_string();
        let own = [
            "--users",
            &called,
            "--from",
            "127.0.0.1",
            "--duration",
            "4s",
        ];
        let arguments = [&own[..], &pace].concat();
        call(running.address, &arguments, || {}).map(|(outcome, _)| outcome.into())
    };
    match work {
        Work::NewBindings => registers(USERS, PACE),
        Work::Refreshes => registers(USERS, PACE),
        Work::Queued => queued(running.address),
        Work::Saturated => calls(["--window", &WINDOW.to_string()]),
        Work::Paced => calls(["--rate", "1000"]),
    }
}

/// Registers users again without a pause.
fn queued(registrar: SocketAddr) -> io::Result<Done> {
    let answered = queue(registrar, USERS, QUEUE, PATIENCE, |sent| sent < QUEUED)?;
    Ok(Done {
        count: answered.granted,
        failed: answered.refused + answered.lost,
        retransmissions: 0,
        per_s: answered.granted as f64 / answered.took.as_secs_f64(),
        p50_ms: None,
        p99_ms: None,
    })
}

impl From<Outcome> for Done {
    fn from(outcome: Outcome) -> Self {
        let (p50_ms, p99_ms) = outcome.answer_ms();
        Self {
            count: outcome.carried,
            failed: outcome.failed,
            retransmissions: outcome.retransmissions,
            per_s: outcome.carried as f64 / outcome.offering_s,
            p50_ms: Some(p50_ms),
            p99_ms: Some(p99_ms),
        }
    }
}

/// Offers REGISTERs to a registrar that answers when they are on disk.
fn on_disk(round: u32, rate: u32) -> io::Result<OnDisk> {
    let running = Program::File.start()?;
    let (users, pace) = ((rate * SECONDS).to_string(), rate.to_string());
    let before = running.process.cpu();
    let outcome = register(running.address, &["--users", &users, "--rate", &pace])?;
    let cpu = running.process.cpu() - before;
    let (p50_ms, p99_ms) = outcome.answer_ms();
    Ok(OnDisk {
        round,
        rate,
        acknowledged_per_s: outcome.carried as f64 / outcome.lasted_s,
        failed: outcome.failed,
        retransmissions: outcome.retransmissions,
        busy: cpu.as_secs_f64() / outcome.lasted_s,
        p50_ms,
        p99_ms,
    })
}

//! The registrar and the stateful proxy with look-up beside Kamailio's: CPU, latency, and what is on disk.

mod page;

use std::{io, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    load_program::{Callees, Outcome, call, register},
    subject::{self, KAMAILIO, Running},
};

pub(crate) use page::page;

const ROUNDS: u32 = 5;

/// Users that register, one after another, in each run.
const USERS: u32 = 40_000;

/// Those that are called.
const CALLED: u32 = 10_000;

/// REGISTERs per second at which programs are compared: none is busy for more than two thirds of its time.
const PACE: u32 = 10_000;

/// REGISTERs per second that are offered to the store on disk.
const RATES: [u32; 4] = [10_000, 20_000, 25_000, 30_000];

/// How long each rate is offered.
const SECONDS: u32 = 8;

/// Calls in progress at saturation.
const WINDOW: &str = "256";

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
    /// REGISTERs granted, or calls carried.
    done: u64,
    failed: u64,
    retransmissions: u64,
    per_s: f64,
    /// CPU time of the program for each.
    cpu_us: f64,
    /// From the request to its 200.
    p50_ms: f64,
    p99_ms: f64,
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
    const ALL: [Self; 4] = [
        Self::NewBindings,
        Self::Refreshes,
        Self::Saturated,
        Self::Paced,
    ];

    fn title(self) -> &'static str {
        match self {
            Self::NewBindings => "REGISTER, new binding",
            Self::Refreshes => "REGISTER, refresh",
            Self::Saturated => "call with look-up, saturated",
            Self::Paced => "call with look-up, 1000 calls/s",
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
        let outcome = offer(work, &running, &contacts)?;
        let cpu = running.process.cpu() - before;
        let run = Run::of(round, program, work, &outcome, cpu);
        println!("{run:?}");
        runs.push(run);
    }
    Ok(())
}

fn offer(work: Work, running: &Running, contacts: &str) -> io::Result<Outcome> {
    let (users, pace, called) = (USERS.to_string(), PACE.to_string(), CALLED.to_string());
    let registers = ["--users", &users, "--rate", &pace, "--contact", contacts];
    let calls = [
        "--users",
        &called,
        "--from",
        "127.0.0.1",
        "--duration",
        "4s",
    ];
    let pace = match work {
        Work::NewBindings | Work::Refreshes => return register(running.address, &registers),
        Work::Saturated => ["--window", WINDOW],
        Work::Paced => ["--rate", "1000"],
    };
    let (outcome, _) = call(running.address, &[&calls[..], &pace].concat(), || {})?;
    Ok(outcome)
}

impl Run {
    fn of(round: u32, program: Program, work: Work, outcome: &Outcome, cpu: Duration) -> Self {
        let (p50_ms, p99_ms) = outcome.answer_ms();
        Self {
            round,
            program,
            work,
            done: outcome.carried,
            failed: outcome.failed,
            retransmissions: outcome.retransmissions,
            per_s: outcome.carried as f64 / outcome.offering_s,
            cpu_us: crate::micros(cpu) / outcome.carried.max(1) as f64,
            p50_ms,
            p99_ms,
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

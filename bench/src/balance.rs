//! CPU per call and latency: all subjects in turn, round after round.

use std::{collections::BTreeMap, io, time::Duration};

use load::{Arrivals, Caller, Service, Stats};
use serde::{Deserialize, Serialize};

use crate::{
    generator::Generator,
    process::micros,
    subject::{Running, Subject},
};

/// Calls in progress at saturation: enough that the program never waits for the load, and few
/// enough that no queue overflows.
pub(crate) const WINDOW: usize = 256;
/// Calls per second of the paced load.
const PACE: f64 = 1000.0;
/// How long a program may take until it carries its first calls.
const START_MAX: Duration = Duration::from_secs(10);
/// How long calls may take to end after a run.
const END_MAX: Duration = Duration::from_secs(5);

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    rounds: u32,
    warm_up: Duration,
    measured: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Load {
    /// A closed loop of [`WINDOW`] calls.
    Saturated,
    /// A Poisson stream of [`PACE`] calls per second.
    Paced,
}

/// One subject under one load, once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    pub round: u32,
    pub subject: Subject,
    pub load: Load,
    /// Calls carried from INVITE to the 200 of the BYE.
    pub calls: u64,
    /// Calls that failed, by reason.
    pub failed: BTreeMap<String, u64>,
    pub retransmissions: u64,
    pub calls_per_s: f64,
    /// CPU time of the program by the scheduler's account.
    pub cpu_us_per_call: f64,
    /// The share of its core that the program used.
    pub busy: f64,
    pub answer_us_p50: f64,
    pub answer_us_p99: f64,
    /// Calls at each server since the program's start.
    pub placed: Vec<u64>,
}

impl Effort {
    pub(crate) const FULL: Self = Self {
        rounds: 5,
        warm_up: Duration::from_secs(1),
        measured: Duration::from_secs(4),
    };
    pub(crate) const QUICK: Self = Self {
        rounds: 2,
        warm_up: Duration::from_millis(300),
        measured: Duration::from_secs(1),
    };
}

impl Load {
    pub(crate) const ALL: [Self; 2] = [Self::Saturated, Self::Paced];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Saturated => "saturated",
            Self::Paced => "1000 calls/s",
        }
    }

    fn arrivals(self) -> Arrivals {
        match self {
            Self::Saturated => Arrivals::Window(WINDOW),
            Self::Paced => Arrivals::poisson(PACE),
        }
    }
}

pub(crate) fn measure(effort: Effort) -> io::Result<Vec<Run>> {
    let mut subjects = Subject::ALL.to_vec();
    subjects.retain(|subject| {
        let missing = subject.missing();
        if let Some(missing) = &missing {
            println!("{}: left out, {missing}", subject.title());
        }
        missing.is_none()
    });
    let mut runs = Vec::new();
    for round in 1..=effort.rounds {
        for &subject in &subjects {
            measure_subject(effort, round, subject, &mut runs)?;
        }
    }
    Ok(runs)
}

fn measure_subject(
    effort: Effort,
    round: u32,
    subject: Subject,
    runs: &mut Vec<Run>,
) -> io::Result<()> {
    let mut generator = Generator::new(u64::from(round), Service::NONE)?;
    let running = start(subject, &mut generator)?;
    for load in Load::ALL {
        let run = measure_load(effort, round, subject, load, &running, &mut generator);
        println!(
            "round {round}  {:33} {:12} {:6.1} us/call {:7.0} calls/s  busy {:3.0} %  \
             p50 {:6.0} us  p99 {:6.0} us  failed {:?}  retransmissions {}",
            subject.title(),
            load.title(),
            run.cpu_us_per_call,
            run.calls_per_s,
            run.busy * 100.0,
            run.answer_us_p50,
            run.answer_us_p99,
            run.failed,
            run.retransmissions,
        );
        runs.push(run);
    }
    Ok(())
}

/// Starts a subject and waits until it carries calls from each of the generator's sockets.
pub(crate) fn start(subject: Subject, generator: &mut Generator) -> io::Result<Running> {
    let running = subject.start(&generator.callee_addresses())?;
    started(running, subject.title(), generator)
}

/// Waits until a program carries calls from each of the generator's sockets.
pub(crate) fn started(
    mut running: Running,
    title: &str,
    generator: &mut Generator,
) -> io::Result<Running> {
    const CALLS: u64 = crate::generator::SERVERS as u64;
    generator.call(running.address, Arrivals::Window(1), CALLS);
    let mut waited = Duration::ZERO;
    while generator.caller().stats().carried < CALLS {
        const STEP: Duration = Duration::from_millis(50);
        generator.run(STEP);
        waited += STEP;
        if running.process.has_ended() || waited > START_MAX {
            let log = running.process.log();
            return Err(io::Error::other(format!(
                "{title} carries no calls:\n{log}"
            )));
        }
    }
    Ok(running)
}

fn measure_load(
    effort: Effort,
    round: u32,
    subject: Subject,
    load: Load,
    running: &Running,
    generator: &mut Generator,
) -> Run {
    generator.call(running.address, load.arrivals(), u64::MAX);
    generator.run(effort.warm_up);
    let _warm_up = generator.caller().stats_mut().take();
    let cpu_before = running.process.cpu();
    generator.run(effort.measured);
    let cpu = running.process.cpu() - cpu_before;
    let stats = generator.caller().stats_mut().take();
    generator.caller().stop();
    generator.run(END_MAX);
    let failed = failures(&stats, generator.caller());
    let seconds = effort.measured.as_secs_f64();
    Run {
        round,
        subject,
        load,
        calls: stats.carried,
        failed,
        retransmissions: stats.retransmissions,
        calls_per_s: stats.carried as f64 / seconds,
        cpu_us_per_call: micros(cpu) / stats.carried as f64,
        busy: cpu.as_secs_f64() / seconds,
        answer_us_p50: answer_us(&stats, 0.5),
        answer_us_p99: answer_us(&stats, 0.99),
        placed: generator.placed(),
    }
}

/// What failed in the run, after it, and what has not ended even now.
fn failures(stats: &Stats, caller: &Caller) -> BTreeMap<String, u64> {
    let mut failures = BTreeMap::new();
    for (reason, count) in stats.failed.iter().chain(&caller.stats().failed) {
        *failures.entry(reason.to_string()).or_default() += count;
    }
    if caller.open_calls() > 0 {
        failures.insert("not ended".to_owned(), caller.open_calls() as u64);
    }
    failures
}

fn answer_us(stats: &Stats, quantile: f64) -> f64 {
    stats.answer_ns.value_at_quantile(quantile) as f64 / 1e3
}

//! One node driven in five ways: section 6 of "Failover, load sharing and server architecture in SIP telephony".
//!
//! A CFS quota gives a program a part of the time, and any number of its threads may share that. So two things are
//! measured: what it carries with a quota, and what it carries in turns in which it has one core or both for itself.

mod load;
mod models;
mod page;
mod paper;
mod turns;

use std::{
    fs, io, thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

pub(crate) use self::page::{write, write_again};
use self::{
    load::{Load, Mode},
    turns::Turns,
};
use crate::{
    overload::Cage,
    process::micros,
    subject::{self, CORE, CORE_OF_LOAD, Running},
};

/// The share of a core that stands for a core where there is a quota.
const SHARE: f64 = 0.1;

/// Calls or REGISTERs in progress under a quota, and in turns: one turn does about half of what waits.
const WINDOW: u32 = 16;
const WINDOW_IN_TURNS: u32 = 256;

/// How long a run counts, after a quarter of that which does not.
const MEASURED: Duration = Duration::from_millis(500);
const MEASURED_IN_TURNS: Duration = Duration::from_millis(800);

/// The time of the cores in a program's turn, for all cores together, and the turn of the load.
const TURN: Duration = Duration::from_millis(3);
const TURN_OF_LOAD: Duration = Duration::from_millis(4);

/// Ports that send, unless there is but one.
const SENDERS: usize = 16;

/// Workers before which one sender stands.
const TEAMS: [usize; 3] = [2, 4, 8];

/// A run in which other programs took more of the machine is made again, and the less disturbed counts. So many may be
/// made again.
const OTHERS_MAX: f64 = 0.05;
const AGAIN_MAX: usize = 40;

/// How long a program may take until it carries its first calls.
const START_MAX: Duration = Duration::from_secs(5);

/// How the node is driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Architecture {
    EventLoop,
    Processes,
    TwoStage,
    Shared,
    ThreadPerTransaction,
}

/// What a program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Means {
    /// A tenth of the time of so many cores.
    Quota,
    /// The cores, in turns.
    Turns,
}

/// A program that is to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Case {
    architecture: Architecture,
    mode: Mode,
    means: Means,
    cores: usize,
    workers: usize,
    senders: usize,
}

/// What it did, once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    round: u32,
    #[serde(flatten)]
    case: Case,
    /// Calls or REGISTERs; in turns, in a second of the program's turns.
    per_s: f64,
    /// CPU time of the program for each.
    cpu_us: f64,
    /// CPU time of its first thread for each, which is the one that reads where only one does.
    first_us: f64,
    /// CPU time in user mode for each: the work of the node, but for little.
    user_us: f64,
    /// The share of what it had that it used.
    busy: f64,
    /// From the request to its 2xx; in turns that includes the load's turns.
    answer_ms_p99: f64,
    /// Calls and REGISTERs that failed or had to be repeated.
    failed: u64,
    /// What other programs took of the machine meanwhile.
    others: f64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Results {
    rounds: u32,
    runs: Vec<Run>,
}

impl Architecture {
    const ALL: [Self; 5] = [
        Self::EventLoop,
        Self::Processes,
        Self::TwoStage,
        Self::Shared,
        Self::ThreadPerTransaction,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::EventLoop => "event-loop",
            Self::Processes => "processes",
            Self::TwoStage => "two-stage",
            Self::Shared => "shared",
            Self::ThreadPerTransaction => "thread-per-transaction",
        }
    }

    /// A worker for each core; a pool has more threads than cores, as some of them wait.
    fn workers(self, cores: usize) -> usize {
        match self {
            Self::Shared => 2 * cores,
            _ => cores,
        }
    }
}

impl Case {
    fn new(architecture: Architecture, mode: Mode, means: Means, cores: usize) -> Self {
        Self {
            architecture,
            mode,
            means,
            cores,
            workers: architecture.workers(cores),
            senders: SENDERS,
        }
    }

    /// Workers with a socket each on both cores, to whom so many ports send.
    fn of_team(workers: usize, senders: usize) -> Self {
        Self {
            workers,
            senders,
            ..Self::new(Architecture::Processes, Mode::Stateful, Means::Turns, 2)
        }
    }

    /// All of the architectures whose names hold `only`; if that is none, those about one sender, too.
    fn all(only: Option<&str>) -> Vec<Self> {
        let mut cases = Vec::new();
        let is_wanted = |it: &Architecture| only.is_none_or(|only| it.name().contains(only));
        for mode in Mode::ALL {
            for means in [Means::Quota, Means::Turns] {
                for cores in [1, 2] {
                    let architectures = Architecture::ALL.into_iter().filter(is_wanted);
                    cases.extend(architectures.map(|it| Self::new(it, mode, means, cores)));
                }
            }
        }
        if only.is_none() {
            let teams = TEAMS.map(|workers| [1, SENDERS].map(|it| Self::of_team(workers, it)));
            cases.extend(
                teams
                    .concat()
                    .into_iter()
                    .filter(|it| !cases.contains(it))
                    .collect::<Vec<_>>(),
            );
        }
        cases
    }
}

/// A program with its load.
struct Scene {
    load: Load,
    node: Running,
    cage: Option<Cage>,
}

impl Scene {
    fn new(case: Case, seed: u64) -> io::Result<Self> {
        let mut load = Load::new(case.mode, case.senders, seed)?;
        let cores = &[CORE, CORE_OF_LOAD][..case.cores];
        let mut node = subject::architecture(
            case.architecture.name(),
            case.mode.name(),
            case.workers,
            &load.servers(),
            (cores, case.means == Means::Turns),
        )?;
        subject::wait_for_sockets(&[node.address])?;
        load.begin(node.address, WINDOW);
        let began = Instant::now();
        while load.done().carried < u64::from(WINDOW) {
            if began.elapsed() > START_MAX {
                let log = node.process.log();
                return Err(io::Error::other(format!(
                    "{case:?} carries nothing:\n{log}"
                )));
            }
            load.turn();
            if case.means == Means::Turns {
                thread::sleep(Duration::from_micros(100));
            }
        }
        let cage = match case.means {
            Means::Turns => None,
            Means::Quota => {
                let cage = Cage::new(SHARE * case.cores as f64)?;
                cage.hold(&node.process.processes())?;
                Some(cage)
            }
        };
        Ok(Self { load, node, cage })
    }

    /// The CPU time of the node, of its first thread, and in user mode.
    fn cpu(&self, case: Case) -> [Duration; 3] {
        let process = &self.node.process;
        let [user, kernel] = process.cpu_by_mode();
        let all = match case.architecture {
            // Most of its threads have ended.
            Architecture::ThreadPerTransaction => user + kernel,
            _ => process.cpu(),
        };
        [all, process.cpu_of_first(), user]
    }

    /// What it had of the cores in this time of the clock.
    fn run(&mut self, case: Case, turns: Option<&Turns>, time: Duration) -> Duration {
        let began = Instant::now();
        let mut had = Duration::ZERO;
        while began.elapsed() < time {
            if let Some(turns) = turns {
                had += turns.give(TURN / case.cores as u32);
            }
            let turn = Instant::now();
            while turn.elapsed() < TURN_OF_LOAD {
                self.load.turn();
            }
        }
        match turns {
            Some(_) => had,
            None => began.elapsed().mul_f64(SHARE),
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if let Some(cage) = &self.cage {
            cage.open();
        }
        self.node.process.kill();
    }
}

pub(crate) fn measure(quick: bool, only: Option<&str>) -> io::Result<Results> {
    let rounds = if quick { 1 } else { 3 };
    let cases = Case::all(only);
    let (mut runs, mut again) = (Vec::new(), 0);
    for round in 1..=rounds {
        for &case in &cases {
            let mut run = run(round, case)?;
            if run.others > OTHERS_MAX && again < AGAIN_MAX {
                again += 1;
                let other = self::run(round, case)?;
                if other.others < run.others {
                    run = other;
                }
            }
            println!("{run:?}");
            runs.push(run);
        }
    }
    Ok(Results { rounds, runs })
}

fn run(round: u32, case: Case) -> io::Result<Run> {
    let mut scene = Scene::new(case, u64::from(round))?;
    let turns = (case.means == Means::Turns).then(Turns::new);
    let (window, measured) = match case.means {
        Means::Quota => (WINDOW, MEASURED),
        Means::Turns => (WINDOW_IN_TURNS, MEASURED_IN_TURNS),
    };
    let address = scene.node.address;
    scene.load.begin(address, window);
    scene.run(case, turns.as_ref(), measured / 4);
    let (before, cpu, machine) = (scene.load.done(), scene.cpu(case), busy()?);
    let began = Instant::now();
    let had = scene.run(case, turns.as_ref(), measured);
    let passed = began.elapsed();
    let (after, machine) = (scene.load.done(), busy()?.saturating_sub(machine));
    let after_cpu = scene.cpu(case);
    let [cpu, first, user] = std::array::from_fn(|place| after_cpu[place] - cpu[place]);
    let carried = (after.carried - before.carried).max(1) as f64;
    let in_use = match case.means {
        Means::Quota => passed,
        Means::Turns => had,
    };
    Ok(Run {
        round,
        case,
        per_s: carried / in_use.as_secs_f64(),
        cpu_us: micros(cpu) / carried,
        first_us: micros(first) / carried,
        user_us: micros(user) / carried,
        busy: cpu.div_duration_f64(had) / case.cores as f64,
        answer_ms_p99: scene.load.answer_ms_p99(),
        failed: after.failed - before.failed,
        others: others(case, machine, cpu, had, passed),
    })
}

/// The CPU time that the machine has used since it was started.
fn busy() -> io::Result<Duration> {
    const TICKS_PER_S: u64 = 100;
    let stat = fs::read_to_string("/proc/stat")?;
    let all = stat.lines().next().unwrap_or_default();
    let ticks = all.split_whitespace().skip(1);
    let ticks: Vec<u64> = ticks.filter_map(|ticks| ticks.parse().ok()).collect();
    // Of user, nice, system, idle, iowait, irq, softirq and steal.
    let idle = ticks.iter().skip(3).take(2).sum::<u64>();
    let busy = ticks.iter().take(8).sum::<u64>() - idle;
    Ok(Duration::from_millis(busy * 1000 / TICKS_PER_S))
}

/// The share of the machine's time that neither the program nor the load took.
fn others(case: Case, machine: Duration, cpu: Duration, had: Duration, passed: Duration) -> f64 {
    const CORES: f64 = 2.0;
    let of_load = match case.means {
        Means::Quota => passed,
        Means::Turns => 2 * passed.saturating_sub(had),
    };
    let others = machine.saturating_sub(cpu).saturating_sub(of_load);
    others.div_duration_f64(passed) / CORES
}

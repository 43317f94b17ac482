//! `sipyard sim explore`: random worlds, until one shows what must not be.

use std::{
    fs,
    io::{self, Write},
    num::NonZero,
    panic::{self, AssertUnwindSafe},
    path::PathBuf,
    process::ExitCode,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use clap::Args;
use settings::refuse;
use sim::explore::{self, Kind, Outcome, Plan};

use crate::{load::values, progress::Progress};

/// More events than a person reads.
const TRACED_MAX: usize = 1_000_000;

/// Try random worlds and faults until something happens that must not
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard sim explore                                     a minute's worth of seeds
  sipyard sim explore --duration 1h --first 1             an hour from seed 1 on
  sipyard sim explore --first 334 --runs 1 --trace -      one seed again, with all its messages

A seed draws edges, workers, servers, a policy, calls, limits and faults: loss, copies, reordering,
cuts, full queues, stalls, crashes, drains, reloads. While they last, no request may reach a wrong
server and every ledger must equal what is open; then every call must end, every count go, and new
calls be carried.

Exit code: 0, 3 if something wrong happened, 4 if something right did not, 101 if a node panicked.")]
pub(super) struct Explore {
    /// The first seed; the others follow it. Otherwise drawn at random
    #[arg(long, value_name = "SEED")]
    first: Option<u64>,
    /// How long to go on
    #[arg(long, default_value = "60s", value_parser = values::positive_duration)]
    duration: Duration,
    /// Stop after so many seeds
    #[arg(long, value_name = "N")]
    runs: Option<u64>,
    /// Write the first seed's events to this file; -: to standard output
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

/// What all threads have done.
#[derive(Default)]
struct Done {
    runs: AtomicU64,
    calls: AtomicU64,
    failed: AtomicU64,
    datagrams: AtomicU64,
    lasted_s: AtomicU64,
}

/// The first seed that went wrong, and how.
struct Finding {
    seed: u64,
    what: String,
    code: u8,
}

impl Explore {
    pub(super) fn run(&self) -> ExitCode {
        let first = self.first.unwrap_or_else(socket::seed);
        if let Some(path) = &self.trace
            && let Err(error) = trace(first, path)
        {
            return refuse([format!("{}: {error}", path.display())]);
        }
        let (done, finding) = self.explore(first);
        print(&done.text());
        match finding {
            None => ExitCode::SUCCESS,
            Some(Finding { seed, what, code }) => {
                let plan = Plan::draw(seed);
                print(&format!(
                    "\n{plan}\n{what}\n\nAgain, with its messages: \
                     sipyard sim explore --first {seed} --runs 1 --trace -"
                ));
                ExitCode::from(code)
            }
        }
    }

    fn explore(&self, first: u64) -> (Done, Option<Finding>) {
        let (done, next) = (Done::default(), AtomicU64::new(first));
        let finding: Mutex<Option<Finding>> = Mutex::new(None);
        let (clock, stop) = (socket::Clock::start(), AtomicBool::new(false));
        let end = self
            .runs
            .map_or(u64::MAX, |runs| first.saturating_add(runs));
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        thread::scope(|scope| {
            let explorers: Vec<_> = (0..threads)
                .map(|_| {
                    scope.spawn(|| {
                        while !stop.load(Ordering::Relaxed) && clock.now() < self.duration {
                            let seed = next.fetch_add(1, Ordering::Relaxed);
                            if seed >= end {
                                break;
                            }
                            if let Some(found) = done.explore(seed) {
                                stop.store(true, Ordering::Relaxed);
                                let mut finding =
                                    finding.lock().unwrap_or_else(PoisonError::into_inner);
                                finding.get_or_insert(found);
                            }
                        }
                    })
                })
                .collect();
            let progress = Progress::new();
            while explorers.iter().any(|explorer| !explorer.is_finished()) {
                progress.show(&done.text());
                thread::park_timeout(Duration::from_millis(200));
            }
        });
        let finding = finding.into_inner().unwrap_or_else(PoisonError::into_inner);
        (done, finding)
    }
}

impl Done {
    /// Runs one seed.
    fn explore(&self, seed: u64) -> Option<Finding> {
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| explore::explore(seed, &mut ())));
        let Ok(outcome) = outcome else {
            let what = "a panic: its message stands above".to_owned();
            let code = 101;
            return Some(Finding { seed, what, code });
        };
        let Outcome {
            calls,
            failed,
            datagrams,
            lasted,
            violation,
            ..
        } = outcome;
        for (sum, value) in [
            (&self.runs, 1),
            (&self.calls, calls),
            (&self.failed, failed),
            (&self.datagrams, datagrams),
            (&self.lasted_s, lasted.as_secs()),
        ] {
            sum.fetch_add(value, Ordering::Relaxed);
        }
        violation.map(|violation| Finding {
            seed,
            what: violation.to_string(),
            code: match violation.kind {
                Kind::Safety => 3,
                Kind::Liveness => 4,
            },
        })
    }

    fn text(&self) -> String {
        let [runs, calls, failed, datagrams, seconds] = [
            &self.runs,
            &self.calls,
            &self.failed,
            &self.datagrams,
            &self.lasted_s,
        ]
        .map(|sum| sum.load(Ordering::Relaxed));
        format!(
            "{runs} worlds: {calls} calls, {failed} of them failed by the faults, {datagrams} datagrams, {} h of virtual time",
            seconds / 3600
        )
    }
}

/// A reader that has gone away wants no more lines.
fn print(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}

/// Runs a seed once and writes what happened.
fn trace(seed: u64, path: &PathBuf) -> io::Result<()> {
    let trace = explore::trace(seed, TRACED_MAX);
    if path.as_os_str() == "-" {
        io::stdout().write_all(trace.text().as_bytes())
    } else {
        fs::write(path, trace.text())
    }
}

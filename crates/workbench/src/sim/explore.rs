//! `sipyard sim explore`: runs random worlds until a check fails.

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

use crate::{
    output::{self, STDOUT},
    progress::Progress,
};

/// The most events of a trace.
const TRACED_MAX: usize = 1_000_000;

/// Run random worlds with faults until a check fails
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard sim explore                                     a minute's worth of seeds
  sipyard sim explore --duration 1h --first 1             an hour from seed 1 on
  sipyard sim explore --first 334 --runs 1 --trace -      one seed again, with all its messages

A seed draws edges, workers, servers, a policy, calls, limits and faults: loss, copies, reordering,
cuts, full queues, stalls, crashes, drains, reloads. In a quarter of the worlds callers or servers come
over connections with little room, which break or are not read for a while. While there are faults, no request may reach a
wrong server, and every ledger must equal the open calls and transactions. After the faults, every
call must end, every count must return to 0, and the system must carry new calls.

Every second world is on a public network: NATs that rebind, servers that hang up, strangers who
forge, replay and scan. No edge may send to a third address, no server may go down by that, and
honest callers must lose nothing.

Every eighth seed also draws a chain or a tree of nodes with dynamic state: one node on its path must
hold each transaction.

Exit code: 0 if no check failed, 3 if a safety check failed, 4 if a liveness check failed, 101 if a
node panicked.")]
pub(super) struct Explore {
    /// The first seed; each next seed is one higher [default: random]
    #[arg(long, value_name = "SEED")]
    first: Option<u64>,
    /// How long to start worlds, such as 1h
    #[arg(long, default_value = "60s", value_parser = settings::duration)]
    duration: Duration,
    /// Number of seeds
    #[arg(long, value_name = "N")]
    runs: Option<u64>,
    /// Write the first seed's events to this file; - writes them to standard output
    #[arg(long, value_name = "FILE", value_parser = output::file_or_stdout)]
    trace: Option<PathBuf>,
}

/// The totals of all threads.
#[derive(Default)]
struct Done {
    runs: AtomicU64,
    calls: AtomicU64,
    failed: AtomicU64,
    messages: AtomicU64,
    lasted_s: AtomicU64,
}

/// The first seed that failed, and why.
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
                    "\n{plan}\n{what}\n\nTo repeat it with its messages: \
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
            let what = "a node panicked; see its message above".to_owned();
            let code = 101;
            return Some(Finding { seed, what, code });
        };
        let Outcome {
            calls,
            failed,
            messages,
            lasted,
            violation,
            ..
        } = outcome;
        for (sum, value) in [
            (&self.runs, 1),
            (&self.calls, calls),
            (&self.failed, failed),
            (&self.messages, messages),
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
        let [runs, calls, failed, messages, seconds] = [
            &self.runs,
            &self.calls,
            &self.failed,
            &self.messages,
            &self.lasted_s,
        ]
        .map(|sum| sum.load(Ordering::Relaxed));
        format!(
            "{runs} worlds: {calls} calls, {failed} of them failed by the faults, {messages} messages, {} h of virtual time",
            seconds / 3600
        )
    }
}

/// A reader that has closed its end needs no more lines.
fn print(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}

/// Runs a seed once and writes its events.
fn trace(seed: u64, path: &PathBuf) -> io::Result<()> {
    let trace = explore::trace(seed, TRACED_MAX);
    if path.as_os_str() == STDOUT {
        io::stdout().write_all(trace.text().as_bytes())
    } else {
        fs::write(path, trace.text())
    }
}

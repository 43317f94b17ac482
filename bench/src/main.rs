//! Benchmarks of whole programs, side by side: the program on one core, the load on another.
#![allow(clippy::print_stdout, reason = "progress and results are printed")]
#![allow(clippy::disallowed_methods, reason = "it measures time")]

mod agree;
mod architectures;
mod balance;
mod failover;
mod figures;
mod generator;
mod live;
mod load_program;
mod machine;
mod memory;
mod modes;
mod overload;
mod process;
mod public;
mod range;
mod register;
mod series;
mod sockets;
mod spread;
mod subject;

use std::{
    env, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Parser, Subcommand};
use rustix::thread::{CpuSet, sched_setaffinity};

use report::Page;
use serde::Serialize;

use self::figures::{Report, Stamped};

/// Measures Sipyard beside its peers and writes the figures to docs/results.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    what: Option<What>,
    /// Where the report goes.
    #[arg(long, global = true, default_value = "docs/results")]
    results: PathBuf,
}

#[derive(Clone, Debug, Subcommand)]
enum What {
    /// Balance, spread and memory (the default).
    All,
    /// CPU, latency and spread in half a minute, too short for the record: goes to target/bench.
    Quick,
    /// CPU per call and latency of each program.
    Balance,
    /// How evenly 100,000 calls are placed.
    Spread,
    /// Memory of a million open calls, and what finding one of them costs.
    Memory,
    /// Calls per second that one core of `sipyard load` carries, caller and callee.
    Load,
    /// Whether SIPp and `sipyard load` find the same of Kamailio.
    Agree,
    /// Whether real sockets show what the simulator does, at three points.
    Sockets,
    /// CPU per REGISTER and per call to a registered user, beside Kamailio.
    Register,
    /// CPU per call of each mode, from stateless to dialogs with digest authentication, beside Kamailio. With perf: by
    /// function group.
    Modes {
        /// How often each mode is measured; fewer than five are too few for the record and go to target/bench.
        #[arg(long, default_value_t = 5)]
        rounds: u32,
    },
    /// What an edge that all may reach loses to attacks. As root, for forged ICMP.
    Public,
    /// The peak that a model of one call a second predicts, and the one that is measured.
    Model,
    /// The same in a few minutes, too short for the record: goes to target/bench.
    ModelQuick,
    /// What is completed when up to 12.5 times the capacity is offered; over an hour. As root, for a CPU quota.
    Overload {
        /// Only the subjects whose names hold this: goes to target/bench.
        only: Option<String>,
        /// How often each is measured; fewer than five are too few for the record and go to target/bench.
        #[arg(long, default_value_t = 5)]
        rounds: u32,
        /// One round in four minutes, too short for the record: goes to target/bench.
        #[arg(long, conflicts_with = "rounds")]
        quick: bool,
    },
    /// Goodput of two nodes in series, of which the first, the second, both or whoever has room hold the calls. As root,
    /// for a CPU quota.
    Series {
        /// How often each is measured; fewer than three are too few for the record and go to target/bench.
        #[arg(long, default_value_t = 3)]
        rounds: u32,
    },
    /// One node driven in five ways, from an event loop to a thread for each transaction. As root, for a CPU quota.
    Architectures {
        /// Only the architectures whose names hold this: goes to target/bench.
        only: Option<String>,
        /// One round instead of three, too few for the record: goes to target/bench.
        #[arg(long)]
        quick: bool,
        /// Measure nothing: write the pages of the last record again.
        #[arg(long, conflicts_with_all = ["only", "quick"])]
        again: bool,
    },
    /// What each way of failing over costs, with Redis, NSD, Kamailio and keepalived; half an hour.
    Failover {
        /// Only the ways whose names hold this: goes to target/bench.
        only: Option<String>,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> io::Result<()> {
    env::set_current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))?;
    subject::build()?;
    let mut core = CpuSet::new();
    core.set(subject::CORE_OF_LOAD);
    sched_setaffinity(None, &core)?;
    let what = arguments.what.unwrap_or(What::All);
    match what {
        What::Load => {
            let rounds = figures::stamped(load_program::measure()?)?;
            return write(
                &arguments.results,
                "load",
                &rounds,
                &load_program::page(&rounds),
            );
        }
        What::Agree => {
            let runs = figures::stamped(agree::measure()?)?;
            return write(&arguments.results, "agree", &runs, &agree::page(&runs));
        }
        What::Sockets => {
            let points = figures::stamped(sockets::measure()?)?;
            return write(
                &arguments.results,
                "sockets",
                &points,
                &sockets::page(&points),
            );
        }
        What::Register => {
            let measured = figures::stamped(register::measure()?)?;
            let page = register::page(&measured);
            return write(&arguments.results, "register", &measured, &page);
        }
        What::Modes { rounds } => return modes(rounds, &arguments.results),
        What::Series { rounds } => return series(rounds, &arguments.results),
        What::Public => return public(&arguments.results),
        What::Model => {
            let checks = figures::stamped(live::measure(live::Effort::FULL)?)?;
            return write(&arguments.results, "model", &checks, &live::page(&checks));
        }
        What::ModelQuick => {
            let checks = figures::stamped(live::measure(live::Effort::QUICK)?)?;
            let folder = Path::new("target/bench");
            return write(folder, "model", &checks, &live::page(&checks));
        }
        What::Overload {
            only,
            rounds,
            quick,
        } => return overload(only.as_deref(), rounds, quick, &arguments.results),
        What::Architectures { again: true, .. } => {
            return architectures::write_again(&arguments.results);
        }
        What::Architectures { only, quick, .. } => {
            return architectures(only.as_deref(), quick, &arguments.results);
        }
        What::Failover { only } => {
            let ways = figures::stamped(failover::measure(only.as_deref())?)?;
            let folder = match only {
                Some(_) => Path::new("target/bench"),
                None => &arguments.results,
            };
            return write(folder, "failover", &ways, &failover::page(&ways));
        }
        What::All | What::Quick | What::Balance | What::Spread | What::Memory => {}
    }
    balancing(what, arguments.results)
}

fn modes(rounds: u32, results: &Path) -> io::Result<()> {
    let measured = figures::stamped(modes::measure(rounds)?)?;
    let folder = match rounds {
        0..5 => Path::new("target/bench"),
        _ => results,
    };
    write(folder, "modes", &measured, &modes::page(&measured))
}

fn series(rounds: u32, results: &Path) -> io::Result<()> {
    let measured = figures::stamped(series::measure(rounds)?)?;
    let folder = match rounds {
        0..3 => Path::new("target/bench"),
        _ => results,
    };
    write(folder, "series", &measured, &series::page(&measured))
}

fn public(results: &Path) -> io::Result<()> {
    let measured = figures::stamped(public::measure()?)?;
    write(results, "public", &measured, &public::page(&measured))
}

fn overload(only: Option<&str>, rounds: u32, quick: bool, results: &Path) -> io::Result<()> {
    let (effort, rounds) = match quick {
        true => (overload::Effort::QUICK, 1),
        false => (overload::Effort::FULL, rounds),
    };
    let folder = match (rounds, only) {
        (5.., None) => results,
        _ => Path::new("target/bench"),
    };
    let outcomes = figures::stamped(overload::measure(effort, rounds, only)?)?;
    let page = overload::page(&outcomes);
    write(folder, "overload", &outcomes, &page)
}

fn architectures(only: Option<&str>, quick: bool, results: &Path) -> io::Result<()> {
    let measured = figures::stamped(architectures::measure(quick, only)?)?;
    let is_for_record = !quick && only.is_none();
    let folder = match is_for_record {
        true => results,
        false => Path::new("target/bench"),
    };
    architectures::write(folder, &measured, is_for_record)
}

/// Measures what is in the report about balancing, or a part of it.
fn balancing(what: What, results: PathBuf) -> io::Result<()> {
    let (results, effort, calls) = match what {
        What::Quick => (
            PathBuf::from("target/bench"),
            balance::Effort::QUICK,
            20_000,
        ),
        _ => (results, balance::Effort::FULL, 100_000),
    };
    let mut report = Report::open(&results)?;
    if matches!(what, What::All | What::Quick | What::Balance) {
        report.balance = Some(figures::stamped(balance::measure(effort)?)?);
        report.write(&results)?;
    }
    if matches!(what, What::All | What::Quick | What::Spread) {
        report.spread = Some(figures::stamped(spread::measure(calls)?)?);
        report.write(&results)?;
    }
    if matches!(what, What::All | What::Memory)
        && let Some(memory) = memory::measure()?
    {
        report.memory = Some(figures::stamped(memory)?);
        report.write(&results)?;
    }
    println!("\n{}\nwritten to {}", report.markdown(), results.display());
    Ok(())
}

fn write<T: Serialize>(
    folder: &Path,
    name: &str,
    results: &Stamped<T>,
    page: &Page,
) -> io::Result<()> {
    figures::write(folder, name, results, page)?;
    println!("\n{}\nwritten to {}", page.plain(), folder.display());
    Ok(())
}

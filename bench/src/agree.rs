//! Whether SIPp and `sipyard load` find the same of a third program, below SIPp's own limit.

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use report::{Page, Table};
use serde::{Deserialize, Serialize};

use crate::{
    figures::Stamped,
    load_program::{Callees, call},
    process::{Process, micros},
    range::median,
    subject::{self, CORE_OF_LOAD, Subject},
};

/// Calls per second; SIPp's own limit is about 1000.
const RATES: [u32; 3] = [200, 400, 800];

const ROUNDS: u32 = 3;

/// How long calls begin in a run.
const SECONDS: u32 = 10;

/// Longer than any run takes.
const RUN_MAX: Duration = Duration::from_secs(90);

/// How far the two may be apart.
const BAR: f64 = 0.05;

/// One load program before Kamailio, once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    round: u32,
    rate: u32,
    program: Program,
    /// Calls begun in a second.
    calls_per_s: f64,
    carried: u64,
    failed: u64,
    /// The median from INVITE to answer.
    answer_ms: f64,
    kamailio_us_per_call: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Program {
    Sipp,
    Sipyard,
}

pub(crate) fn measure() -> io::Result<Vec<Run>> {
    let mut runs = Vec::new();
    for round in 1..=ROUNDS {
        for rate in RATES {
            for program in [Program::Sipp, Program::Sipyard] {
                let run = measure_run(round, rate, program)?;
                println!("{run:?}");
                runs.push(run);
            }
        }
    }
    Ok(runs)
}

fn measure_run(round: u32, rate: u32, program: Program) -> io::Result<Run> {
    let folder = tempfile::tempdir()?;
    let callee = match program {
        Program::Sipp => sipp_callee(folder.path())?,
        Program::Sipyard => {
            let callees = Callees::start(1, &["--ring", "200ms"])?;
            (callees.process, callees.addresses[0])
        }
    };
    let kamailio = Subject::KamailioStateless.start(&[callee.1])?;
    subject::wait_for_sockets(&[kamailio.address])?;
    let before = kamailio.process.cpu();
    let run = match program {
        Program::Sipp => run_sipp(folder.path(), kamailio.address, rate)?,
        Program::Sipyard => run_ours(kamailio.address, rate)?,
    };
    let cpu = kamailio.process.cpu() - before;
    Ok(Run {
        round,
        rate,
        program,
        kamailio_us_per_call: micros(cpu) / run.carried.max(1) as f64,
        ..run
    })
}

fn run_ours(kamailio: SocketAddr, rate: u32) -> io::Result<Run> {
    let (rate, calls) = (rate.to_string(), (rate * SECONDS).to_string());
    let arguments = [
        "--from",
        "127.0.0.1",
        "--arrivals",
        "even",
        "--rate",
        &rate,
        "--calls",
        &calls,
    ];
    let (outcome, _) = call(kamailio, &arguments, || {})?;
    let answer = outcome.latencies_ms.get("answer");
    Ok(Run {
        round: 0,
        rate: 0,
        program: Program::Sipyard,
        calls_per_s: outcome.offered_per_s,
        carried: outcome.carried,
        failed: outcome.failed,
        answer_ms: answer.map_or(f64::NAN, |answer| answer.p50),
        kamailio_us_per_call: 0.0,
    })
}

/// A scenario of bench/peers, in a folder of the run's own.
fn scenario(folder: &Path, name: &str) -> io::Result<String> {
    let path = folder.join(name);
    let peers = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("peers");
    fs::copy(peers.join(name), &path)?;
    Ok(path.display().to_string())
}

fn sipp(folder: &Path, arguments: &[&str]) -> io::Result<Process> {
    let folder = folder.display().to_string();
    let own = ["-C", &folder, "sipp", "-nostdin", "-i", "127.0.0.1"];
    Process::start(
        CORE_OF_LOAD,
        Path::new("/usr/bin/env"),
        &[&own, arguments].concat(),
    )
}

fn sipp_callee(folder: &Path) -> io::Result<(Process, SocketAddr)> {
    let address = subject::free_addresses(1)?;
    let (file, port) = (
        scenario(folder, "sipp-callee.xml")?,
        address.port().to_string(),
    );
    let process = sipp(folder, &["-sf", &file, "-p", &port])?;
    subject::wait_for_sockets(&[address])?;
    Ok((process, address))
}

fn run_sipp(folder: &Path, kamailio: SocketAddr, rate: u32) -> io::Result<Run> {
    let file = scenario(folder, "sipp-caller.xml")?;
    let (to, port) = (
        kamailio.to_string(),
        subject::free_addresses(1)?.port().to_string(),
    );
    let (rate, calls) = (rate.to_string(), (rate * SECONDS).to_string());
    let arguments = [
        "-sf",
        &file,
        "-p",
        &port,
        "-r",
        &rate,
        "-m",
        &calls,
        "-l",
        "10000",
        "-trace_stat",
        "-stf",
        "stats.csv",
        "-fd",
        "1",
        "-trace_rtt",
        "-rtt_freq",
        "1",
        &to,
    ];
    let mut process = sipp(folder, &arguments)?;
    let began = Instant::now();
    while !process.has_ended() {
        if began.elapsed() > RUN_MAX {
            return Err(io::Error::other(format!("no end:\n{}", process.log())));
        }
        thread::sleep(Duration::from_millis(20));
    }
    let stats = fs::read_to_string(folder.join("stats.csv"))?;
    let number = |column: &str| last(&stats, column).unwrap_or(f64::NAN);
    Ok(Run {
        round: 0,
        rate: 0,
        program: Program::Sipp,
        calls_per_s: peak_of(&stats, "CallRate(P)"),
        carried: number("SuccessfulCall(C)") as u64,
        failed: number("FailedCall(C)") as u64,
        answer_ms: median(response_times(folder)?),
        kamailio_us_per_call: 0.0,
    })
}

fn values<'a>(table: &'a str, column: &str) -> impl Iterator<Item = f64> + 'a {
    let mut lines = table.lines();
    let mut names = lines.next().unwrap_or_default().split(';');
    let place = names.position(|name| name == column);
    lines.filter_map(move |line| line.split(';').nth(place?)?.parse().ok())
}

/// The last value of a column of SIPp's statistics.
fn last(table: &str, column: &str) -> Option<f64> {
    values(table, column).last()
}

/// The median of a column while calls began.
fn peak_of(table: &str, column: &str) -> f64 {
    median(values(table, column).filter(|value| *value > 0.0))
}

/// What SIPp measured in milliseconds, each call by itself.
fn response_times(folder: &Path) -> io::Result<Vec<f64>> {
    let mut times = Vec::new();
    for file in fs::read_dir(folder)? {
        let path = file?.path();
        if path.to_string_lossy().ends_with("_rtt.csv") {
            let text = fs::read_to_string(path)?;
            times.extend(values(&text, "response_time_ms"));
        }
    }
    Ok(times)
}

/// The page about it.
pub(crate) fn page(results: &Stamped<Vec<Run>>) -> Page {
    let columns = ["calls/s", "figure", "SIPp", "sipyard load", "apart, %"];
    let mut table = Table::new("", columns);
    let mut farthest = 0.0_f64;
    for rate in RATES {
        for (name, figure) in FIGURES {
            let of = |program| {
                let runs = results.results.iter();
                let runs = runs.filter(|run| run.rate == rate && run.program == program);
                median(runs.map(figure))
            };
            let (theirs, ours) = (of(Program::Sipp), of(Program::Sipyard));
            let apart = ours / theirs - 1.0;
            farthest = farthest.max(apart.abs());
            table.push([
                rate.to_string(),
                name.to_owned(),
                format!("{theirs:.1}"),
                format!("{ours:.1}"),
                format!("{:+.1}", apart * 100.0),
            ]);
        }
    }
    let failed: u64 = results.results.iter().map(|run| run.failed).sum();
    let verdict = if farthest <= BAR { "met" } else { "missed" };
    Page::new("SIPp and sipyard load before Kamailio")
        .text(&format!(
            "The same calls of both through a stateless Kamailio: the same header fields and \
             bodies, 200 ms of ringing (SIPp's clock ticks every 4 ms), callers and callees on one \
             core, Kamailio on the other. Medians over {ROUNDS} rounds in turns; {failed} calls \
             failed. {}",
            results.note()
        ))
        .table(table)
        .text(&format!(
            "The two are {:.1} % apart at most; the bar of {:.0} % is {verdict}.",
            farthest * 100.0,
            BAR * 100.0
        ))
}

/// A figure's name, and where it stands.
type Figure = (&'static str, fn(&Run) -> f64);

const FIGURES: [Figure; 3] = [
    ("calls begun in a second", |run| run.calls_per_s),
    ("INVITE to answer, ms", |run| run.answer_ms),
    ("Kamailio's CPU, us a call", |run| run.kamailio_us_per_call),
];

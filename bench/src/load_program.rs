//! Our load program as users run it: `sipyard load call` and `sipyard load serve` on one core.

use std::{
    fs, io,
    net::SocketAddr,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use report::{Page, Table};
use serde::{Deserialize, Serialize};

use crate::{
    figures::Stamped,
    process::{Process, micros},
    range::{median, verdict},
    subject::{self, CORE_OF_LOAD, Running, Subject},
};

/// Servers, and ports to call from: the floor relays between pairs of them.
const SERVERS: u16 = 4;

/// Calls in progress.
const WINDOW: u32 = 512;

const ROUNDS: u32 = 5;

/// How long one round makes calls.
const MEASURED: Duration = Duration::from_secs(5);

/// Longer than any run takes.
const RUN_MAX: Duration = Duration::from_secs(240);

/// What one core must carry, calls per second.
const BAR: f64 = 25_000.0;

/// Caller and callee against the floor, once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Round {
    calls_per_s: f64,
    calls: u64,
    failed: u64,
    retransmissions: u64,
    /// CPU time of the callers' process.
    caller_us_per_call: f64,
    /// CPU time of the callees' process.
    callee_us_per_call: f64,
}

/// Emulated servers that answer at once, on the load's core.
pub(crate) struct Callees {
    pub process: Process,
    pub addresses: Vec<SocketAddr>,
}

/// What `sipyard load call` or `register` says of itself.
#[derive(Deserialize)]
pub(crate) struct Outcome {
    pub offered: u64,
    pub carried: u64,
    pub failed: u64,
    pub retransmissions: u64,
    pub offering_s: f64,
    pub lasted_s: f64,
    pub offered_per_s: f64,
    pub latencies_ms: std::collections::BTreeMap<String, Latency>,
}

/// Of one kind, in milliseconds.
#[derive(Deserialize)]
pub(crate) struct Latency {
    pub mean: f64,
    pub p50: f64,
    pub p99: f64,
}

impl Round {
    /// What a core carries that nobody else has a part of.
    fn calls_per_cpu_s(&self) -> f64 {
        1e6 / (self.caller_us_per_call + self.callee_us_per_call)
    }
}

impl Outcome {
    /// The median and the 99 % quantile from the request to its answer.
    pub(crate) fn answer_ms(&self) -> (f64, f64) {
        let kinds = ["register", "answer"].map(|kind| self.latencies_ms.get(kind));
        let latency = kinds.into_iter().flatten().next();
        latency.map_or((f64::NAN, f64::NAN), |it| (it.p50, it.p99))
    }
}

impl Callees {
    /// `sipyard load serve` with these arguments beside its address.
    pub(crate) fn start(servers: u16, arguments: &[&str]) -> io::Result<Self> {
        let first = subject::free_addresses(servers)?;
        let (address, number) = (first.to_string(), servers.to_string());
        let own = ["load", "serve", "--address", &address, "--servers", &number];
        let process = Process::start(
            CORE_OF_LOAD,
            &subject::sipyard(),
            &[&own, arguments].concat(),
        )?;
        let place = |place| SocketAddr::new(first.ip(), first.port() + place);
        let addresses: Vec<_> = (0..servers).map(place).collect();
        subject::wait_for_sockets(&addresses)?;
        Ok(Self { process, addresses })
    }
}

/// Runs `sipyard load call` to its end; its outcome, and its CPU time.
pub(crate) fn call(
    to: SocketAddr,
    arguments: &[&str],
    meanwhile: impl FnMut(),
) -> io::Result<(Outcome, Duration)> {
    run("call", to, arguments, meanwhile)
}

/// Runs `sipyard load register` to its end; registrations stay.
pub(crate) fn register(to: SocketAddr, arguments: &[&str]) -> io::Result<Outcome> {
    let arguments = [&["--stay"], arguments].concat();
    Ok(run("register", to, &arguments, || {})?.0)
}

fn run(
    what: &str,
    to: SocketAddr,
    arguments: &[&str],
    mut meanwhile: impl FnMut(),
) -> io::Result<(Outcome, Duration)> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("load.json").display().to_string();
    let to = to.to_string();
    let own = ["load", what, "--to", &to, "--json", &file, "--success", "0"];
    let mut process = Process::start(
        CORE_OF_LOAD,
        &subject::sipyard(),
        &[&own, arguments].concat(),
    )?;
    let (began, mut cpu) = (Instant::now(), Duration::ZERO);
    while !process.has_ended() {
        if began.elapsed() > RUN_MAX {
            return Err(io::Error::other(format!("no end:\n{}", process.log())));
        }
        meanwhile();
        thread::sleep(Duration::from_millis(20));
        cpu = cpu.max(process.cpu());
    }
    let text = fs::read_to_string(Path::new(&file))
        .map_err(|error| io::Error::other(format!("{error}:\n{}", process.log())))?;
    Ok((serde_json::from_str(&text)?, cpu))
}

pub(crate) fn measure() -> io::Result<Vec<Round>> {
    (1..=ROUNDS).map(measure_round).collect()
}

fn measure_round(round: u32) -> io::Result<Round> {
    let callees = Callees::start(SERVERS, &[])?;
    let Running { address, .. } = &Subject::Floor.start(&callees.addresses)?;
    subject::wait_for_sockets(&[*address])?;
    let (ports, window) = (SERVERS.to_string(), WINDOW.to_string());
    let duration = format!("{}s", MEASURED.as_secs());
    let arguments = [
        "--from",
        "127.0.0.1",
        "--ports",
        &ports,
        "--window",
        &window,
        "--duration",
        &duration,
    ];
    let before = callees.process.cpu();
    let (outcome, caller_cpu) = call(*address, &arguments, || {})?;
    let callee_cpu = callees.process.cpu() - before;
    let per_call = |cpu: Duration| micros(cpu) / outcome.carried.max(1) as f64;
    let round_figures = Round {
        calls_per_s: outcome.offered as f64 / outcome.offering_s,
        calls: outcome.carried,
        failed: outcome.failed,
        retransmissions: outcome.retransmissions,
        caller_us_per_call: per_call(caller_cpu),
        callee_us_per_call: per_call(callee_cpu),
    };
    println!("round {round}: {round_figures:?}");
    Ok(round_figures)
}

/// The page about it.
pub(crate) fn page(results: &Stamped<Vec<Round>>) -> Page {
    let rounds = &results.results;
    let columns = [
        "round",
        "calls/s",
        "failed",
        "sent again",
        "caller, us/call",
        "callee, us/call",
        "calls per second of CPU time",
    ];
    let row = |(number, round): (usize, &Round)| {
        [
            number.to_string(),
            format!("{:.0}", round.calls_per_s),
            round.failed.to_string(),
            round.retransmissions.to_string(),
            format!("{:.1}", round.caller_us_per_call),
            format!("{:.1}", round.callee_us_per_call),
            format!("{:.0}", round.calls_per_cpu_s()),
        ]
    };
    let table = Table::new("", columns);
    let table = (1..)
        .zip(rounds)
        .fold(table, |table, round| table.row(row(round)));
    let per_cpu_s = median(rounds.iter().map(Round::calls_per_cpu_s));
    let per_s = median(rounds.iter().map(|round| round.calls_per_s));
    let verdict = verdict(per_s >= BAR);
    Page::new("The load program: figures")
        .text(&format!(
            "sipyard load call and sipyard load serve share one core, {WINDOW} calls in progress, \
             {SERVERS} callees; the relay that reads no byte has the other core. {}",
            results.note()
        ))
        .table(table)
        .text(&format!(
            "Median {per_s:.0} calls/s, {per_cpu_s:.0} in a second of CPU time; the bar of {BAR:.0} \
             calls/s is {verdict}."
        ))
}

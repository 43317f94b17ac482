//! A model made of one call a second, held against the peak that is measured afterwards.
//!
//! A capture of single calls shows what a call costs a proxy that sleeps between two messages: several times of what it
//! costs a busy one. So the proxy gets nearly the load that the model predicts, the model is told the processor time of
//! a call, and so on in steps. A virtual machine's speed comes and goes: the time is measured before
//! each search and after it. Emulated servers work by sleeping, and a core that is halted meanwhile takes half a
//! millisecond to come back: idle cores are kept awake.

use std::{
    collections::BTreeMap,
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
    time::{Duration, Instant},
};

use report::{Page, Table};
use serde::{Deserialize, Serialize};

use crate::{
    figures::Stamped,
    load_program::{Callees, call},
    process::Process,
    range::{Range, median, verdict},
    subject::{self, CORE_OF_LOAD, Running, Subject},
};

const SUBJECTS: [Subject; 2] = [Subject::KamailioCallLoad, Subject::Sipyard];

/// How long a proxy's processor time is measured at a time.
const PERIOD: &str = "3s";

/// Of the rate that is predicted, while it is measured.
const BUSY: f64 = 0.95;

/// After a search: 64*T1 and a little, when nothing that it left behind is done any more.
const SETTLED: Duration = Duration::from_secs(40);

/// How far the prediction may be from the peak.
const BAR: f64 = 0.1;

const PATIENCE: Duration = Duration::from_secs(30);

const ENDLESS: &str = "while :; do :; done";

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    captured_calls: u32,
    /// Of load and prediction, from the capture's own: the later half is near where it stays.
    steps: usize,
    /// Of processor time before a search, and again after it.
    periods: u32,
    /// Searches where the proxy is the limit.
    rounds: u32,
    /// How long the search tries each rate, as `--duration` takes it. What 30 s of calls may
    /// be too many is 3 %: then half of them wait for longer than 500 ms.
    probe: &'static str,
}

/// What ends the throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Limit {
    /// Two servers that take 30 ms for a call: what they sleep too long is little beside it.
    Servers,
    /// Four servers that answer at once.
    Proxy,
    /// The same, and the proxy shares its core with a program that is never idle: what would be
    /// too fast for callees and callers on the other core is not then.
    HalfProxy,
}

/// A prediction and what was measured of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Check {
    subject: Subject,
    limit: Limit,
    /// Of the capture, whole calls of the flow that was modelled.
    calls: u64,
    /// What the capture alone says of the proxy, waking included, in milliseconds a call.
    captured_ms: f64,
    /// Calls per second that the capture alone predicts.
    captured_per_s: f64,
    rounds: Vec<Round>,
}

/// A search, and the prediction for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Round {
    /// Of the proxy's processor for a call, the median of the periods, the least and the greatest.
    processor_ms: f64,
    processor_least_ms: f64,
    processor_greatest_ms: f64,
    /// Calls per second meanwhile.
    load_per_s: f64,
    /// Calls per second that the capture predicts with it.
    predicted_per_s: f64,
    measured_per_s: f64,
    /// What became of the lowest rate that was not carried.
    beyond: Option<Probe>,
}

impl Check {
    fn median(&self, figure: fn(&Round) -> f64) -> f64 {
        median(self.rounds.iter().map(figure))
    }

    /// The callers could not offer more: the peak is theirs.
    fn are_callers_the_limit(&self) -> bool {
        let mut beyond = self.rounds.iter().filter_map(|round| round.beyond.as_ref());
        beyond.any(|probe| probe.late_p99_ms >= LATE_MS)
    }
}

impl Effort {
    pub(crate) const FULL: Self = Self {
        captured_calls: 40,
        steps: 20,
        periods: 5,
        rounds: 1,
        probe: "30s",
    };
    pub(crate) const QUICK: Self = Self {
        captured_calls: 12,
        steps: 6,
        periods: 2,
        rounds: 1,
        probe: "4s",
    };
}

impl Limit {
    /// What is tried with a subject.
    fn of(subject: Subject) -> [Self; 2] {
        match subject {
            Subject::Sipyard => [Self::Servers, Self::HalfProxy],
            _ => [Self::Servers, Self::Proxy],
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Servers => "two servers of 30 ms a call",
            Self::Proxy => "the proxy's core",
            Self::HalfProxy => "half of the proxy's core",
        }
    }

    fn callees(self) -> io::Result<Callees> {
        match self {
            Self::Servers => Callees::start(2, &["--service", "INVITE=20ms,BYE=10ms"]),
            Self::Proxy | Self::HalfProxy => Callees::start(4, &[]),
        }
    }

    /// The part of its core that the proxy has.
    fn share(self) -> f64 {
        match self {
            Self::Servers | Self::Proxy => 1.0,
            Self::HalfProxy => 0.5,
        }
    }

    /// Who has the rest.
    fn rival(self) -> io::Result<Option<Process>> {
        let is_shared = self == Self::HalfProxy;
        is_shared
            .then(|| Process::start(subject::CORE, Path::new("sh"), &["-c", ENDLESS]))
            .transpose()
    }
}

/// Work that takes what nobody else wants, on both cores.
fn keep_awake() -> io::Result<Vec<Process>> {
    let idle_class = ["--idle", "0", "sh", "-c", ENDLESS];
    let start = |core| Process::start(core, Path::new("chrt"), &idle_class);
    [subject::CORE, CORE_OF_LOAD]
        .into_iter()
        .map(start)
        .collect()
}

pub(crate) fn measure(effort: Effort) -> io::Result<Vec<Check>> {
    let mut checks = Vec::new();
    let _awake = keep_awake()?;
    for subject in SUBJECTS {
        if let Some(reason) = subject.missing() {
            println!("{}: left out, {reason}", subject.title());
            continue;
        }
        for limit in Limit::of(subject) {
            let check = check(subject, limit, effort)?;
            println!("{check:?}");
            checks.push(check);
        }
    }
    Ok(checks)
}

fn check(subject: Subject, limit: Limit, effort: Effort) -> io::Result<Check> {
    let callees = limit.callees()?;
    let folder = tempfile::tempdir()?;
    let running = start(subject, &callees)?;
    let capture = capture(folder.path(), &running, &callees.addresses, effort)?;
    drop(running);
    // What `sipyard load serve` emulates takes no time for an ACK.
    let known = ["--unseen-ms", "server=0"];
    let alone = model(&capture, &known)?;
    let rounds = match limit {
        Limit::Servers => 1,
        Limit::Proxy | Limit::HalfProxy => effort.rounds,
    };
    // A new proxy each time: what one search has left behind is not the next round's.
    let round = |_| {
        let running = start(subject, &callees)?;
        round(&running, limit, &capture, &known, alone.per_s, effort)
    };
    let rounds = (0..rounds).map(round);
    Ok(Check {
        subject,
        limit,
        calls: alone.calls,
        captured_ms: alone.balancer_ms,
        captured_per_s: alone.per_s,
        rounds: rounds.collect::<io::Result<_>>()?,
    })
}

/// A proxy that has carried some calls.
fn start(subject: Subject, callees: &Callees) -> io::Result<Running> {
    let running = subject.start(&callees.addresses)?;
    subject::wait_for_sockets(&[running.address])?;
    call(running.address, &["--window", "1", "--calls", "20"], || {})?;
    Ok(running)
}

fn round(
    running: &Running,
    limit: Limit,
    capture: &Path,
    known: &[&str],
    captured_per_s: f64,
    effort: Effort,
) -> io::Result<Round> {
    let idle = idle_share(running);
    let _rival = limit.rival()?;
    let predict = |processor_ms| {
        let balancer = format!("balancer={:.6}", processor_ms / limit.share());
        let mut arguments = [known, &["--processor-ms", &*balancer]].concat();
        if limit != Limit::Servers {
            // They share the callers' core, which is no part of the model: waiting, and no work.
            arguments.extend(["--processor-ms", "server=0.000001"]);
        }
        model(capture, &arguments)
    };
    let processor_ms = |rate| paced_load(running, rate, idle);
    let load_per_s = settle(captured_per_s, effort.steps, processor_ms, predict)?;
    let periods = || (0..effort.periods).map(|_| processor_ms(load_per_s));
    let before = periods().collect::<io::Result<Vec<_>>>()?;
    let expected = predict(median(before.iter().copied()))?;
    let (measured_per_s, beyond) = peak(running.address, expected.per_s, effort)?;
    thread::sleep(SETTLED);
    let after = periods().collect::<io::Result<Vec<_>>>()?;
    let processor_ms =
        Range::over([before, after].concat()).ok_or_else(|| io::Error::other("no periods"))?;
    let predicted = predict(processor_ms.median)?;
    let round = Round {
        processor_ms: processor_ms.median,
        processor_least_ms: processor_ms.min,
        processor_greatest_ms: processor_ms.max,
        load_per_s,
        predicted_per_s: predicted.per_s,
        measured_per_s,
        beyond,
    };
    println!("{round:?}");
    Ok(round)
}

/// One call a second, seen on the loopback interface.
fn capture(
    folder: &Path,
    running: &Running,
    servers: &[SocketAddr],
    effort: Effort,
) -> io::Result<PathBuf> {
    let file = folder.join("lo.pcap");
    let ports = servers.iter().chain([&running.address]);
    let ports: Vec<_> = ports
        .map(|server| format!("port {}", server.port()))
        .collect();
    let filter = format!("udp and ({})", ports.join(" or "));
    let written = file.display().to_string();
    let arguments = [
        "-i",
        "lo",
        "-s",
        "0",
        "-U",
        "--immediate-mode",
        "-w",
        &written,
        &filter,
    ];
    let mut tcpdump = Process::start(CORE_OF_LOAD, Path::new("tcpdump"), &arguments)?;
    wait_for("tcpdump to listen", || {
        tcpdump.log().contains("listening on")
    })?;
    let calls = effort.captured_calls.to_string();
    // Calls that overlap show all servers: Kamailio sends one that meets no other to the first.
    let pace = ["--arrivals", "even", "--rate", "1", "--holding", "3s"];
    let arguments = [&pace[..], &["--calls", &calls]].concat();
    call(running.address, &arguments, || {})?;
    drop(tcpdump);
    Ok(file)
}

/// What a model says.
struct Answer {
    calls: u64,
    balancer_ms: f64,
    per_s: f64,
}

/// `sipyard model from-pcap` and `sipyard model solve`, as users run them.
fn model(capture: &Path, arguments: &[&str]) -> io::Result<Answer> {
    let file = capture.with_extension("lqn");
    let [capture, file] = [capture, &file].map(|path| path.display().to_string());
    let own = ["from-pcap", &capture, "--json", "--out", &file];
    let told = answer(&[&own, arguments].concat())?;
    let solved = answer(&["solve", &file, "--json"])?;
    let number = |value: &serde_json::Value| {
        let number = value.as_f64();
        number.ok_or_else(|| io::Error::other(format!("not as expected: {told:#}")))
    };
    let demand = |station: &str| {
        let demands = told["demands"].as_array().into_iter().flatten();
        let mut demands = demands.filter(|demand| demand["station"] == station);
        number(&demands.next().unwrap_or_default()["demand_ms"])
    };
    Ok(Answer {
        calls: told["flows"][0]["calls"].as_u64().unwrap_or_default(),
        balancer_ms: demand("Pbalancer")?,
        per_s: 1e3 * number(&solved["tasks"]["driver"]["throughput"])?,
    })
}

fn answer(arguments: &[&str]) -> io::Result<serde_json::Value> {
    let mut command = Command::new(subject::sipyard());
    let Output {
        status,
        stdout,
        stderr,
    } = command.arg("model").args(arguments).output()?;
    if !status.success() {
        let problem = String::from_utf8_lossy(&stderr).into_owned();
        return Err(io::Error::other(format!("sipyard model: {problem}")));
    }
    Ok(serde_json::from_slice(&stdout)?)
}

/// The rate that makes the proxy nearly as busy as it can be: in steps from below, the median of the later half.
fn settle(
    mut predicted_per_s: f64,
    steps: usize,
    processor_ms: impl Fn(f64) -> io::Result<f64>,
    predict: impl Fn(f64) -> io::Result<Answer>,
) -> io::Result<f64> {
    let mut rates = Vec::with_capacity(steps);
    for _ in 0..steps {
        predicted_per_s = predict(processor_ms(BUSY * predicted_per_s)?)?.per_s;
        rates.push(BUSY * predicted_per_s);
    }
    Ok(median(rates.drain(steps / 2..)))
}

/// The proxy's processor time of a call at this rate, in milliseconds.
fn paced_load(running: &Running, rate: f64, idle: f64) -> io::Result<f64> {
    let rate = format!("{rate:.1}");
    let (began, before) = (Instant::now(), running.process.cpu());
    let (outcome, _) = call(
        running.address,
        &["--rate", &rate, "--duration", PERIOD],
        || {},
    )?;
    let used = running.process.cpu() - before;
    let of_calls = used.as_secs_f64() - idle * began.elapsed().as_secs_f64();
    let processor_ms = 1e3 * of_calls / outcome.carried as f64;
    println!("{rate} calls/s: {processor_ms:.4} ms a call");
    Ok(processor_ms)
}

/// The share of a core that the proxy uses without calls.
fn idle_share(running: &Running) -> f64 {
    let (began, before) = (Instant::now(), running.process.cpu());
    thread::sleep(Duration::from_secs(4));
    (running.process.cpu() - before).div_duration_f64(began.elapsed())
}

/// What `sipyard load call --find-peak` finds, and the lowest rate that was too high.
fn peak(to: SocketAddr, predicted: f64, effort: Effort) -> io::Result<(f64, Option<Probe>)> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("peak.json").display().to_string();
    let (to, first) = (
        to.to_string(),
        format!("{:.0}", (0.85 * predicted).max(1.0)),
    );
    let arguments = [
        "load",
        "call",
        "--to",
        &to,
        "--find-peak",
        "--step",
        "10%",
        "--rate",
        &first,
        "--duration",
        effort.probe,
        "--json",
        &file,
    ];
    let mut process = Process::start(CORE_OF_LOAD, &subject::sipyard(), &arguments)?;
    let began = Instant::now();
    while !process.has_ended() {
        if began.elapsed() > 40 * PATIENCE {
            return Err(io::Error::other(format!("no peak:\n{}", process.log())));
        }
        thread::sleep(Duration::from_millis(100));
    }
    let text = fs::read_to_string(&file)
        .map_err(|error| io::Error::other(format!("{error}:\n{}", process.log())))?;
    let found: Found = serde_json::from_str(&text)?;
    let not_carried = found.probes.into_iter().filter(|probe| !probe.is_carried);
    let lowest = not_carried.min_by(|one, other| one.rate.total_cmp(&other.rate));
    Ok((found.peak_per_s.unwrap_or(0.0), lowest))
}

/// From here on `--find-peak` says that the callers' machine was too slow.
const LATE_MS: f64 = 50.0;

#[derive(Deserialize)]
struct Found {
    peak_per_s: Option<f64>,
    probes: Vec<Probe>,
}

/// A rate that was tried.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Probe {
    rate: f64,
    success: f64,
    failed_by_reason: BTreeMap<String, u64>,
    answer_p50_ms: f64,
    late_p99_ms: f64,
    is_carried: bool,
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) -> io::Result<()> {
    let began = Instant::now();
    while !holds() {
        if began.elapsed() > PATIENCE {
            return Err(io::Error::other(format!("waited in vain for {what}")));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// The page about it.
pub(crate) fn page(results: &Stamped<Vec<Check>>) -> Page {
    let columns = [
        "through",
        "limited by",
        "captured calls",
        "proxy as captured, ms/call",
        "loaded with, calls/s",
        "its processor then, ms/call",
        "predicted by the capture alone, calls/s",
        "predicted with the processor time, calls/s",
        "measured peak, calls/s",
        "off by, %",
        "bar",
    ];
    let mut table = Table::new("", columns);
    for check in &results.results {
        let predicted = check.median(|round| round.predicted_per_s);
        let measured = check.median(|round| round.measured_per_s);
        let off = check.median(|round| round.predicted_per_s / round.measured_per_s) - 1.0;
        let verdict = match check.are_callers_the_limit() {
            true => "the callers were the limit",
            false => verdict(off.abs() <= BAR),
        };
        table.push([
            check.subject.title().to_owned(),
            check.limit.title().to_owned(),
            check.calls.to_string(),
            format!("{:.3}", check.captured_ms),
            format!("{:.0}", check.median(|round| round.load_per_s)),
            format!(
                "{:.4} ({:.4}-{:.4})",
                check.median(|round| round.processor_ms),
                check.median(|round| round.processor_least_ms),
                check.median(|round| round.processor_greatest_ms)
            ),
            format!("{:.0}", check.captured_per_s),
            format!("{predicted:.0}"),
            format!("{measured:.0}"),
            format!("{:+.1}", 100.0 * off),
            verdict.to_owned(),
        ]);
    }
    let searches = results.results.iter().map(|check| check.rounds.len());
    let searches = searches.max().unwrap_or(0);
    Page::new("A model of one call a second, and the peak")
        .text(&format!(
            "One call a second is captured on the loopback interface and modelled (`sipyard model from-pcap`, `solve`), then \
             `sipyard load call --find-peak` searches the highest rate. The proxy has one core, callers and servers the other; \
             where they can't offer enough, it shares its core evenly with a program that is never idle. Idle cores are kept awake. \
             The capture alone counts a sleeping process's wake-up with each message; the prediction takes the proxy's \
             processor time (`--processor-ms`) at {:.0} % of the rate that is predicted with it, found in steps from what the \
             capture alone predicts: the median over periods of {PERIOD}, before the search and after it. A virtual \
             machine's speed comes and goes; searches for a peak that is the proxy's: {searches}. {}",
            100.0 * BUSY,
            results.note()
        ))
        .table(table)
        .text(&format!("The bar: within {:.0} % of the measured peak.", 100.0 * BAR))
}

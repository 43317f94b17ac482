//! Three points of a simulated figure, once more on real sockets.

use std::{collections::BTreeMap, fs, io, process::Command};

use report::{Page, Table};
use serde::{Deserialize, Serialize};

use crate::{
    figures::Stamped,
    load_program::{Callees, call},
    subject,
};

/// What says the rate, the policies and the servers; [`SERVERS`] and [`CALLS`] say the same.
const SCENARIO: &str = "experiments/sockets.toml";

const SERVERS: [&str; 4] = [
    "--service",
    "INVITE=1.45ms,BYE=0.83ms",
    "--stall",
    "calls:950:1s",
];

const CALLS: [&str; 8] = [
    "--rate",
    "1000",
    "--duration",
    "60s",
    "--holding",
    "normal:20s,10s",
    "--from",
    "127.0.0.1",
];

/// A policy's mean from INVITE to 200, in milliseconds, simulated and measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Point {
    policy: String,
    carried: u64,
    failed: u64,
    simulated: f64,
    /// One more simulated run is within this of the mean, with 95 % confidence.
    half: f64,
    measured: f64,
}

impl Point {
    fn agrees(&self) -> bool {
        (self.measured - self.simulated).abs() <= self.half
    }
}

/// What `sipyard sim` writes, as far as it is read here.
#[derive(Deserialize)]
struct Results {
    scenarios: Vec<Scenario>,
}

#[derive(Deserialize)]
struct Scenario {
    points: Vec<Simulated>,
    seeds: u32,
}

#[derive(Deserialize)]
struct Simulated {
    at: BTreeMap<String, String>,
    values: BTreeMap<String, Interval>,
}

/// A mean over several seeds, and half of its 95 % confidence interval.
#[derive(Clone, Copy, Deserialize)]
struct Interval {
    mean: f64,
    half: f64,
}

pub(crate) fn measure() -> io::Result<Vec<Point>> {
    let Scenario { points, seeds } = simulate()?;
    points
        .iter()
        .map(|simulated| {
            let point = measure_point(simulated, seeds)?;
            println!("{point:?}");
            Ok(point)
        })
        .collect()
}

fn simulate() -> io::Result<Scenario> {
    let folder = tempfile::tempdir()?;
    let status = Command::new(subject::sipyard())
        .args(["sim", SCENARIO, "--out"])
        .arg(folder.path())
        .status()?;
    if !status.success() {
        return Err(io::Error::other(format!(
            "sipyard sim {SCENARIO}: {status}"
        )));
    }
    let results = fs::read(folder.path().join("results.json"))?;
    let results: Results = serde_json::from_slice(&results)?;
    let first = results.scenarios.into_iter().next();
    first.ok_or_else(|| io::Error::other("nothing was simulated"))
}

fn measure_point(simulated: &Simulated, seeds: u32) -> io::Result<Point> {
    let policy = &simulated.at["policy"];
    let callees = Callees::start(8, &SERVERS)?;
    let edge = subject::edge(policy, &callees.addresses)?;
    subject::wait_for_sockets(&[edge.address])?;
    let (outcome, _) = call(edge.address, &CALLS, || {})?;
    let Interval { mean, half } = simulated.values["invite_mean_ms"];
    let answer = outcome.latencies_ms.get("answer");
    Ok(Point {
        policy: policy.clone(),
        carried: outcome.carried,
        failed: outcome.failed,
        simulated: mean,
        half: half * f64::from(seeds + 1).sqrt(),
        measured: answer.map_or(f64::NAN, |answer| answer.mean),
    })
}

/// The page about it.
pub(crate) fn page(results: &Stamped<Vec<Point>>) -> Page {
    let columns = ["policy", "simulated, ms", "measured, ms", "agree"];
    let mut table = Table::new("", columns);
    for point in &results.results {
        table.push([
            point.policy.clone(),
            format!("{:.2} ± {:.2}", point.simulated, point.half),
            format!("{:.2}", point.measured),
            if point.agrees() { "yes" } else { "no" }.to_owned(),
        ]);
    }
    let failed: u64 = results.results.iter().map(|point| point.failed).sum();
    let carried: u64 = results.results.iter().map(|point| point.carried).sum();
    Page::new("Three points of Figure 5 on real sockets")
        .text(&format!(
            "Mean time from INVITE to 200 at 1000 calls/s through `sipyard serve` on one core, to the servers of \
             `{SCENARIO}` emulated by `sipyard load serve` and from `sipyard load call` on the other: one run of 60 s \
             each, {carried} calls carried, {failed} failed. A measurement agrees if it lies where one more simulated run \
             would with 95 % confidence. {}",
            results.note()
        ))
        .table(table)
}

//! The results of a load: tables for people, JSON for programs.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    path::{Path, PathBuf},
};

use hdrhistogram::Histogram;
use load::Stats;
use report::{Table, figures::count};
use serde::Serialize;

use super::{
    Refusal,
    drive::{Record, Sample},
};
use crate::output::{self, STDOUT};

/// A quantile's name and its share.
pub(super) const QUANTILES: [(&str, f64); 5] = [
    ("p50", 0.5),
    ("p90", 0.9),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("max", 1.0),
];

/// A record as JSON.
#[derive(Serialize)]
pub(super) struct Outcome<'a> {
    /// Seconds in which calls or registrations were started.
    offering_s: f64,
    /// Seconds until the last one ended.
    lasted_s: f64,
    offered: u64,
    offered_per_s: f64,
    carried: u64,
    cancelled: u64,
    abandoned: u64,
    failed: u64,
    failed_by_reason: BTreeMap<String, u64>,
    cut_off: usize,
    success: f64,
    /// Challenges that were answered with credentials.
    challenges: u64,
    retransmissions: u64,
    strays: u64,
    /// Datagrams that this machine lost.
    lost: u64,
    latencies_ms: BTreeMap<&'static str, Latencies>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    connections: BTreeMap<&'static str, u64>,
    samples: &'a [Sample],
}

/// Latencies of one kind, in milliseconds.
#[derive(Serialize)]
struct Latencies {
    count: u64,
    mean: f64,
    p50: f64,
    p90: f64,
    p99: f64,
    #[serde(rename = "p99.9")]
    p999: f64,
    max: f64,
}

impl<'a> Outcome<'a> {
    /// The tables of a record.
    pub(super) fn of(record: &'a Record) -> Self {
        let stats = &record.stats;
        let reasons = stats.failed.iter();
        Self {
            offering_s: record.offering.as_secs_f64(),
            lasted_s: record.lasted.as_secs_f64(),
            offered: stats.offered,
            offered_per_s: record.offered_per_s(),
            carried: stats.carried,
            cancelled: stats.cancelled,
            abandoned: stats.abandoned,
            failed: stats.failures(),
            failed_by_reason: reasons
                .map(|(reason, &count)| (reason.to_string(), count))
                .collect(),
            cut_off: record.cut_off,
            success: record.success(),
            challenges: stats.challenges,
            retransmissions: stats.retransmissions,
            strays: stats.strays,
            lost: record.lost,
            latencies_ms: kinds(stats)
                .map(|(_, key, histogram)| (key, Latencies::of(histogram)))
                .collect(),
            connections: record
                .connections
                .iter()
                .map(|&(name, count)| (name.trim_start(), count))
                .collect(),
            samples: &record.samples,
        }
    }
}

impl Latencies {
    fn of(histogram: &Histogram<u64>) -> Self {
        Self {
            count: histogram.len(),
            mean: histogram.mean() / 1e6,
            p50: quantile_ms(histogram, 0.5),
            p90: quantile_ms(histogram, 0.9),
            p99: quantile_ms(histogram, 0.99),
            p999: quantile_ms(histogram, 0.999),
            max: quantile_ms(histogram, 1.0),
        }
    }
}

/// The kinds of latencies: their names in words and in JSON.
pub(super) fn kinds(
    stats: &Stats,
) -> impl Iterator<Item = (&'static str, &'static str, &Histogram<u64>)> {
    [
        (
            "INVITE to first response",
            "first_response",
            &stats.first_response_ns,
        ),
        ("INVITE to answer", "answer", &stats.answer_ns),
        ("re-INVITE to answer", "reinvite", &stats.reinvite_ns),
        ("BYE to answer", "bye", &stats.bye_ns),
        ("REGISTER to answer", "register", &stats.register_ns),
        ("scheduled to actual start", "late", &stats.late_ns),
    ]
    .into_iter()
    .filter(|(.., histogram)| !histogram.is_empty())
}

/// A quantile in milliseconds.
pub(super) fn quantile_ms(histogram: &Histogram<u64>, quantile: f64) -> f64 {
    histogram.value_at_quantile(quantile) as f64 / 1e6
}

/// A number with three digits.
pub(super) fn figure(value: f64) -> String {
    match value {
        ..0.995 => format!("{value:.3}"),
        ..9.995 => format!("{value:.2}"),
        ..99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// A table of numbers of events.
pub(super) fn counts(record: &Record) -> Table {
    let stats = &record.stats;
    let seconds = record.offering.as_secs_f64().max(1e-9);
    let share = |part: u64| format!("{:.2}", part as f64 * 100.0 / stats.offered.max(1) as f64);
    let mut table = Table::new(
        "",
        [
            &*record.units.to_string(),
            "number",
            "per second",
            "% of offered",
        ],
    );
    let mut row = |name: &str, number: u64| {
        let per_s = number as f64 / seconds;
        table.push([
            name.to_owned(),
            count(number),
            format!("{per_s:.1}"),
            share(number),
        ]);
    };
    row("offered", stats.offered);
    row("carried", stats.carried);
    for (name, number) in [
        ("cancelled as planned", stats.cancelled),
        ("abandoned as planned", stats.abandoned),
        ("cut off at the end", record.cut_off as u64),
    ] {
        if number > 0 {
            row(name, number);
        }
    }
    row("failed", stats.failures());
    for (reason, &number) in &stats.failed {
        row(&format!("  {reason}"), number);
    }
    row("retransmissions", stats.retransmissions);
    for (name, number) in [
        ("challenges answered with a password", stats.challenges),
        ("late or repeated responses", stats.strays),
        ("datagrams lost by this machine", record.lost),
    ] {
        if number > 0 {
            row(name, number);
        }
    }
    for &(name, number) in &record.connections {
        row(name, number);
    }
    table
}

/// A table of times.
pub(super) fn latencies(record: &Record) -> Table {
    let names = QUANTILES.map(|(name, _)| name);
    let columns = ["milliseconds", "number", "mean"].into_iter().chain(names);
    let mut table = Table::new("", columns);
    for (name, _, histogram) in kinds(&record.stats) {
        let quantiles = QUANTILES.map(|(_, share)| figure(quantile_ms(histogram, share)));
        let cells = [
            name.to_owned(),
            count(histogram.len()),
            figure(histogram.mean() / 1e6),
        ];
        table.push(cells.into_iter().chain(quantiles));
    }
    table
}

/// The results to write in addition to the tables.
#[derive(clap::Args)]
pub(super) struct Files {
    /// Write all measurements as JSON to this file; "-" writes them to standard output in place of
    /// the tables
    #[arg(long, value_name = "FILE", value_parser = output::file_or_stdout)]
    json: Option<PathBuf>,
    /// Write a page with plots to this file
    #[arg(long, value_name = "FILE", value_parser = output::file)]
    html: Option<PathBuf>,
}

impl Files {
    /// Whether standard output gets JSON, for a program.
    pub(super) fn is_json_on_stdout(&self) -> bool {
        self.json.as_deref() == Some(Path::new(STDOUT))
    }

    /// Writes the tables, and the files that the arguments name.
    pub(super) fn write(
        &self,
        tables: &[&Table],
        json: &impl Serialize,
        html: impl FnOnce() -> String,
    ) -> Result<(), Refusal> {
        let json = || serde_json::to_string_pretty(json).map(|text| text + "\n");
        if self.is_json_on_stdout() {
            io::stdout().write_all(json().map_err(io::Error::from)?.as_bytes())?;
        } else {
            let texts: Vec<_> = tables.iter().map(|table| table.text()).collect();
            writeln!(io::stdout(), "{}", texts.join("\n"))?;
            if let Some(path) = &self.json {
                write_file(path, &json().map_err(io::Error::from)?)?;
            }
        }
        match &self.html {
            Some(path) => write_file(path, &html()),
            None => Ok(()),
        }
    }
}

fn write_file(path: &Path, text: &str) -> Result<(), Refusal> {
    output::write(path, text).map_err(|problem| Refusal::File(vec![problem]))
}

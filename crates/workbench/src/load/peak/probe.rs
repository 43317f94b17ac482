//! The rates that were tried, in a table and on a page.

use std::{collections::BTreeMap, iter};

use load::Stats;
use report::{Axis, Page, Plot, Series, Table, figures::count};
use serde::Serialize;

use super::Search;
use crate::{
    finished,
    load::{
        drive::{Record, Units},
        outcome::{figure, quantile_ms},
    },
};

/// One rate that was tried.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Probe {
    /// The rate to offer, per second.
    pub(super) rate: f64,
    offered: u64,
    offered_per_s: f64,
    carried_per_s: f64,
    pub(super) success: f64,
    failed_by_reason: BTreeMap<String, u64>,
    cut_off: usize,
    retransmissions: u64,
    lost: u64,
    answer_p50_ms: f64,
    answer_p99_ms: f64,
    late_p99_ms: f64,
    /// Whether this machine was fast enough to offer the rate.
    pub(super) is_offered: bool,
    pub(super) is_carried: bool,
    /// Why it was not, if it was offered.
    failure: Option<String>,
}

impl Probe {
    pub(super) fn of(search: &Search, rate: f64, record: &Record) -> Self {
        let stats = &record.stats;
        let reasons = stats.failed.iter();
        let answers = search.units.answers(stats);
        let (is_offered, failure) = (search.is_offered(record), search.failure(record));
        Self {
            rate,
            offered: stats.offered,
            offered_per_s: record.offered_per_s(),
            carried_per_s: record.carried_per_s(),
            success: record.success(),
            failed_by_reason: reasons
                .map(|(reason, &count)| (reason.to_string(), count))
                .collect(),
            cut_off: record.cut_off,
            retransmissions: stats.retransmissions,
            lost: record.lost,
            answer_p50_ms: quantile_ms(answers, 0.5),
            answer_p99_ms: quantile_ms(answers, 0.99),
            late_p99_ms: late_ms(stats),
            is_offered,
            is_carried: is_offered && failure.is_none(),
            failure,
        }
    }

    pub(super) fn verdict(&self) -> String {
        if self.is_carried {
            return "carried".to_owned();
        }
        if !self.is_offered {
            return "this machine was too slow to offer this rate".to_owned();
        }
        format!(
            "not carried: {}",
            self.failure.as_deref().unwrap_or_default()
        )
    }
}

/// The delay of the latest start in a hundred.
pub(super) fn late_ms(stats: &Stats) -> f64 {
    quantile_ms(&stats.late_ns, 0.99)
}

/// Probes in the order in which they were made.
pub(super) fn table(units: Units, probes: &[Probe]) -> Table {
    let table = Table::new(
        "",
        [
            &*format!("{units}/s"),
            "begun/s",
            "carried/s",
            &*units.to_string(),
            "success, %",
            "retransmitted",
            "answer p50, ms",
            "answer p99, ms",
            "verdict",
        ],
    );
    let row = |probe: &Probe| {
        [
            format!("{:.0}", probe.rate),
            format!("{:.0}", probe.offered_per_s),
            format!("{:.0}", probe.carried_per_s),
            count(probe.offered),
            format!("{:.3}", probe.success * 100.0),
            count(probe.retransmissions),
            figure(probe.answer_p50_ms),
            figure(probe.answer_p99_ms),
            probe.verdict(),
        ]
    };
    probes
        .iter()
        .fold(table, |table, probe| table.row(row(probe)))
}

/// Throughput, failures and times over the rate.
pub(super) fn page(search: &Search, verdict: &str, probes: &[Probe]) -> String {
    let mut sorted = probes.to_vec();
    sorted.sort_by(|one, other| one.offered_per_s.total_cmp(&other.offered_per_s));
    let points = |value: fn(&Probe) -> f64| {
        let points = sorted.iter();
        points.map(move |probe| (probe.offered_per_s, value(probe)))
    };
    let from_zero = |value| iter::once((0.0, 0.0)).chain(points(value));
    let axis = || Axis::linear(format!("{} started per second", search.units));
    let throughput = Plot::new("Throughput", axis(), Axis::linear("per second"))
        .with(Series::line("offered", from_zero(|p| p.offered_per_s)))
        .with(Series::line("carried", from_zero(|p| p.carried_per_s)));
    let failures = Plot::new("Failures", axis(), Axis::linear("% of offered"))
        .with(Series::line("failed", from_zero(|p| 100.0 * (1.0 - p.success))).of_failures());
    let times = Plot::new("Time to the answer", axis(), Axis::log("milliseconds"))
        .with(Series::marks("p99", points(|p| p.answer_p99_ms)))
        .with(Series::marks("p50", points(|p| p.answer_p50_ms)));
    let page = Page::new(&search.title)
        .text(verdict)
        .table(table(search.units, probes))
        .plot(throughput)
        .plot(failures)
        .plot(times);
    finished::html(&page)
}

//! `--find-peak`: the highest rate that is carried.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    time::Duration,
};

use clap::ValueEnum;
use load::Stats;
use report::{Axis, Page, Plot, Series, Table};
use serde::Serialize;

use super::{
    Refusal,
    drive::{Limits, Record, Units},
    outcome::{Files, figure, quantile_ms},
};
use crate::{progress::Progress, text::count};

/// How long each rate is tried unless something else is wanted. What is offered above the capacity
/// makes a queue that grows: in a minute, one part in sixty delays half of the calls by 500 ms.
pub(super) const DURATION: Duration = Duration::from_secs(60);

/// The bisection ends when the rates above and below the peak are so close.
const CLOSE: f64 = 1.02;

/// Where half of the callers hear nothing for T1, requests are sent again and queues grow: what is
/// offered is not carried, even if all calls of a short probe are in the end.
const FIRST_RESPONSE_MS_MAX: f64 = 500.0;

/// SIPstone's rates rise until so many tests fail.
const HALF: f64 = 0.5;

/// A rate at which one call in a hundred begins so late was not offered.
const LATE_MS_MAX: f64 = 50.0;

/// When a rate is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Criterion {
    /// Enough calls go as planned.
    Success,
    /// 50,000 calls without an error, rates rising and falling by a tenth (RFC 7502 §4.10).
    Rfc7502,
    /// Enough tests succeed; rates rise until half of them fail.
    #[value(skip)]
    Sipstone,
}

/// What is searched for.
pub(super) struct Search {
    /// Of the page.
    pub(super) title: String,
    pub(super) units: Units,
    pub(super) criterion: Criterion,
    pub(super) success: f64,
    /// The first rate to try.
    pub(super) first: f64,
    /// How many times the last rate is the next, as long as it rises.
    pub(super) growth: f64,
    /// How long a rate is tried.
    pub(super) duration: Duration,
}

/// One rate that was tried.
#[derive(Clone, Debug, Serialize)]
struct Probe {
    /// How many were to begin in a second.
    rate: f64,
    offered: u64,
    offered_per_s: f64,
    carried_per_s: f64,
    success: f64,
    failed_by_reason: BTreeMap<String, u64>,
    cut_off: usize,
    retransmissions: u64,
    lost: u64,
    answer_p50_ms: f64,
    answer_p99_ms: f64,
    late_p99_ms: f64,
    is_carried: bool,
}

/// A search as JSON.
#[derive(Serialize)]
struct Found<'a> {
    units: Units,
    criterion: Criterion,
    /// The highest rate that was carried; none: not even the lowest was.
    peak_per_s: Option<f64>,
    probes: &'a [Probe],
}

/// Whether a rate was found. `run` offers a rate within limits.
pub(super) fn find(
    search: &Search,
    files: &Files,
    mut run: impl FnMut(f64, Limits, &Progress) -> Result<Record, Refusal>,
) -> Result<bool, Refusal> {
    let progress = Progress::new();
    let mut probes = Vec::new();
    let mut rates = search.rates();
    while let Some(rate) = rates.next_rate() {
        let record = run(rate, search.limits(rate), &progress)?;
        if record.is_interrupted {
            break;
        }
        let probe = Probe::of(search, rate, &record);
        progress.leave(&search.line(&probe));
        rates.tell(probe.is_carried, search.is_enough(&probe));
        probes.push(probe);
    }
    drop(progress);
    search.report(&probes, files)
}

impl Search {
    /// How many tests a rate needs at most.
    pub(super) fn tests_max(&self) -> u64 {
        const RFC7502_CALLS: u64 = 50_000;
        match self.criterion {
            Criterion::Success | Criterion::Sipstone => u64::MAX,
            Criterion::Rfc7502 => RFC7502_CALLS,
        }
    }

    fn limits(&self, rate: f64) -> Limits {
        match self.criterion {
            Criterion::Success => {
                let failures = rate * self.duration.as_secs_f64() * (1.0 - self.success);
                Limits {
                    duration: self.duration,
                    failures_max: failures as u64 + 1,
                }
            }
            Criterion::Rfc7502 => Limits {
                failures_max: 1,
                ..Limits::NONE
            },
            Criterion::Sipstone => Limits {
                duration: self.duration,
                ..Limits::NONE
            },
        }
    }

    fn rates(&self) -> Rates {
        match self.criterion {
            Criterion::Success | Criterion::Sipstone => Rates::Bisection {
                rate: self.first,
                growth: Some(self.growth),
                carried: None,
                not_carried: None,
            },
            Criterion::Rfc7502 => Rates::Rfc7502 {
                rate: self.first,
                highest: 0.0,
                repeated: 0,
            },
        }
    }

    fn is_carried(&self, record: &Record) -> bool {
        let is_offered = late_ms(&record.stats) < LATE_MS_MAX;
        let median_ms = quantile_ms(&record.stats.first_response_ns, 0.5);
        let keeps_up = median_ms <= FIRST_RESPONSE_MS_MAX && record.cut_off == 0;
        is_offered
            && match self.criterion {
                Criterion::Success => keeps_up && record.success() >= self.success,
                Criterion::Rfc7502 => keeps_up && record.success() >= 1.0,
                Criterion::Sipstone => record.success() >= self.success,
            }
    }

    /// Whether no higher rate is of interest.
    fn is_enough(&self, probe: &Probe) -> bool {
        match self.criterion {
            Criterion::Success | Criterion::Rfc7502 => !probe.is_carried,
            Criterion::Sipstone => probe.success <= HALF || probe.late_p99_ms >= LATE_MS_MAX,
        }
    }

    fn line(&self, probe: &Probe) -> String {
        format!("{:.0} {}/s: {}", probe.rate, self.units, probe.verdict())
    }

    fn report(&self, probes: &[Probe], files: &Files) -> Result<bool, Refusal> {
        let carried = probes.iter().filter(|probe| probe.is_carried);
        let peak = carried.map(|probe| probe.rate).reduce(f64::max);
        let table = self.table(probes);
        let found = Found {
            units: self.units,
            criterion: self.criterion,
            peak_per_s: peak,
            probes,
        };
        let verdict = match peak {
            Some(peak) => {
                let units = self.units;
                format!("The highest rate that was carried: {peak:.0} {units}/s")
            }
            None => "No rate was carried".to_owned(),
        };
        let page = || self.page(&verdict, probes, table.clone());
        files.write(&[&table], &found, page)?;
        if !files.is_json_on_stdout() {
            writeln!(io::stdout(), "{verdict}")?;
        }
        Ok(peak.is_some())
    }

    fn table(&self, probes: &[Probe]) -> Table {
        let units = self.units;
        let table = Table::new(
            "",
            [
                &*format!("{units}/s"),
                "carried/s",
                &*units.to_string(),
                "success, %",
                "sent again",
                "answer p50, ms",
                "answer p99, ms",
                "verdict",
            ],
        );
        let row = |probe: &Probe| {
            [
                format!("{:.0}", probe.rate),
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

    fn page(&self, verdict: &str, probes: &[Probe], table: Table) -> String {
        let mut probes = probes.to_vec();
        probes.sort_by(|one, other| one.rate.total_cmp(&other.rate));
        let points = |value: fn(&Probe) -> f64| probes.iter().map(move |p| (p.rate, value(p)));
        let axis = || Axis::linear(format!("offered {}/s", self.units));
        let throughput = Plot::new("Throughput", axis(), Axis::linear("per second"))
            .with(Series::line("offered", points(|p| p.rate)))
            .with(Series::line("carried", points(|p| p.carried_per_s)));
        let failures = Plot::new("Failures", axis(), Axis::linear("% of offered")).with(
            Series::line("failed", points(|p| 100.0 * (1.0 - p.success))),
        );
        let times = Plot::new("Time to the answer", axis(), Axis::log("milliseconds"))
            .with(Series::marks("p99", points(|p| p.answer_p99_ms)))
            .with(Series::marks("p50", points(|p| p.answer_p50_ms)));
        Page::new(&self.title)
            .verbatim(&std::env::args().collect::<Vec<_>>().join(" "))
            .text(verdict)
            .table(table)
            .plot(throughput)
            .plot(failures)
            .plot(times)
            .html()
    }
}

/// Which rate is tried next.
enum Rates {
    /// The rate rises as long as there is a growth, and then comes close to the peak from either side.
    Bisection {
        rate: f64,
        growth: Option<f64>,
        carried: Option<f64>,
        not_carried: Option<f64>,
    },
    /// RFC 7502 §4.10: `repeated` counts the successes that were no new maximum.
    Rfc7502 {
        rate: f64,
        highest: f64,
        repeated: u32,
    },
}

impl Rates {
    fn next_rate(&self) -> Option<f64> {
        const REPEATED_MAX: u32 = 10;
        match *self {
            Self::Bisection {
                rate,
                growth: None,
                carried: Some(carried),
                not_carried: Some(not_carried),
            } => (not_carried / carried > CLOSE).then_some(rate),
            Self::Bisection { rate, .. } => (rate >= 1.0).then_some(rate),
            Self::Rfc7502 { rate, repeated, .. } => {
                (repeated < REPEATED_MAX && rate >= 1.0).then_some(rate)
            }
        }
    }

    /// Tells what became of the rate, and whether no higher one is of interest.
    fn tell(&mut self, is_carried: bool, is_enough: bool) {
        match self {
            Self::Bisection {
                rate,
                growth,
                carried,
                not_carried,
            } => {
                if is_carried {
                    *carried = Some(rate.max(carried.unwrap_or(0.0)));
                    // A failure at a lower rate was chance.
                    *not_carried = not_carried.filter(|high| *high > *rate);
                } else {
                    *not_carried = Some(rate.min(not_carried.unwrap_or(f64::MAX)));
                }
                *growth = growth.filter(|_| !is_enough);
                *rate = match *growth {
                    Some(growth) => *rate * growth,
                    None => (carried.unwrap_or(0.0) + not_carried.unwrap_or(*rate)) / 2.0,
                };
            }
            Self::Rfc7502 {
                rate,
                highest,
                repeated,
            } => {
                if !is_carried {
                    *rate = (*rate * 0.9).floor();
                    return;
                }
                if *rate > *highest {
                    *highest = *rate;
                } else {
                    *repeated += 1;
                }
                *rate = (*rate * 1.1).floor();
            }
        }
    }
}

impl Probe {
    fn of(search: &Search, rate: f64, record: &Record) -> Self {
        let stats = &record.stats;
        let reasons = stats.failed.iter();
        let answers = search.units.answers(stats);
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
            is_carried: search.is_carried(record),
        }
    }

    fn verdict(&self) -> String {
        if self.is_carried {
            return "carried".to_owned();
        }
        if self.late_p99_ms >= LATE_MS_MAX {
            return "this machine was too slow to offer it".to_owned();
        }
        let most = self
            .failed_by_reason
            .iter()
            .max_by_key(|(_, count)| **count);
        let most = most.map_or_else(String::new, |(reason, _)| format!(": {reason}"));
        format!("not carried{most}")
    }
}

fn late_ms(stats: &Stats) -> f64 {
    quantile_ms(&stats.late_ns, 0.99)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(criterion: Criterion, first: f64, growth: f64) -> Search {
        Search {
            title: String::new(),
            units: Units::Calls,
            criterion,
            success: 0.95,
            first,
            growth,
            duration: DURATION,
        }
    }

    /// The rates that are tried when `capacity` is carried and no more, and `enough` is.
    fn tried(search: &Search, capacity: f64, enough: f64) -> Vec<f64> {
        let mut rates = search.rates();
        let mut tried = Vec::new();
        while let Some(rate) = rates.next_rate() {
            tried.push(rate);
            rates.tell(rate <= capacity, rate > enough);
        }
        tried
    }

    fn highest(tried: &[f64], capacity: f64) -> f64 {
        let carried = tried.iter().copied().filter(|rate| *rate <= capacity);
        carried.fold(0.0, f64::max)
    }

    #[test]
    fn bisection_comes_close_from_either_side() {
        for first in [100.0, 10_000.0] {
            let search = search(Criterion::Success, first, 2.0);
            let tried = tried(&search, 2_345.0, 2_345.0);
            assert!(highest(&tried, 2_345.0) > 2_345.0 / CLOSE, "{tried:?}");
            assert!(tried.len() < 16, "{tried:?}");
        }
        let search = search(Criterion::Success, 100.0, 2.0);
        assert!(tried(&search, 0.0, 0.0).len() < 10);
    }

    #[test]
    fn sipstone_rises_until_half_fails_and_comes_back() {
        let search = search(Criterion::Sipstone, 100.0, 1.25);
        let tried = tried(&search, 345.0, 690.0);
        let top = tried.iter().position(|rate| *rate > 690.0).unwrap();
        assert_eq!(&tried[..3], [100.0, 125.0, 156.25]);
        assert!(tried[..=top].is_sorted(), "{tried:?}");
        assert!(
            tried[top + 1..].iter().all(|rate| *rate < 400.0),
            "{tried:?}"
        );
        assert!(highest(&tried, 345.0) > 345.0 / CLOSE, "{tried:?}");
        assert!(tried.len() < 20, "{tried:?}");
    }

    /// A failure by chance, below rates that are carried, does not end the search.
    #[test]
    fn the_highest_rate_that_is_carried_counts() {
        let mut rates = search(Criterion::Sipstone, 100.0, 2.0).rates();
        for (rate, is_carried, is_enough) in [
            (100.0, true, false),
            (200.0, false, false),
            (400.0, true, false),
            (800.0, false, false),
            (1_600.0, false, true),
            (600.0, true, false),
            (700.0, false, false),
        ] {
            assert_eq!(rates.next_rate(), Some(rate));
            rates.tell(is_carried, is_enough);
        }
        assert_eq!(rates.next_rate(), Some(650.0));
    }

    #[test]
    fn rfc_7502_rises_and_falls_by_a_tenth() {
        let search = search(Criterion::Rfc7502, 100.0, 2.0);
        let tried = tried(&search, 345.0, 345.0);
        assert_eq!(&tried[..4], [100.0, 110.0, 121.0, 133.0]);
        assert!(highest(&tried, 345.0) > 300.0, "{tried:?}");
        assert!(tried.len() < 60, "{tried:?}");
    }
}

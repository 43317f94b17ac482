//! `--find-peak`: the highest rate that is carried.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    time::Duration,
};

use clap::ValueEnum;
use load::{Arrivals, Caller, CallerConfig, Rate, Stats, Stream};
use net::{Clock, udp::Socket};
use report::{Axis, Page, Plot, Series, Table};
use serde::Serialize;

use super::{
    Refusal,
    drive::{Drive, Limits, Record},
    outcome::{Files, figure, quantile_ms},
    signals::Signals,
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
}

/// What is searched for.
pub(super) struct Search {
    pub(super) criterion: Criterion,
    pub(super) success: f64,
    /// The first rate to try.
    pub(super) first: f64,
    /// How long a rate is tried.
    pub(super) duration: Duration,
    pub(super) stream: Stream,
}

/// One rate that was tried.
#[derive(Clone, Debug, Serialize)]
struct Probe {
    /// Calls per second that were to begin.
    rate: f64,
    offered: u64,
    offered_per_s: f64,
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
    criterion: Criterion,
    /// The highest rate that was carried; none: not even the lowest was.
    peak_per_s: Option<f64>,
    probes: &'a [Probe],
}

/// Whether a rate was found.
pub(super) fn find(
    search: Search,
    config: CallerConfig,
    mut caller: impl FnMut(CallerConfig, Duration) -> Caller,
    sockets: Vec<Socket>,
    clock: Clock,
    signals: &Signals,
    files: &Files,
) -> Result<bool, Refusal> {
    let nobody = CallerConfig {
        calls_max: 0,
        ..config.clone()
    };
    let mut drive = Drive::new(caller(nobody, clock.now()), sockets, clock);
    let progress = Progress::new();
    let mut probe = |rate: f64| {
        let rate = Rate::Constant(rate);
        let config = CallerConfig {
            arrivals: Arrivals::Open(rate, search.stream),
            calls_max: search.calls_max(config.calls_max),
            ..config.clone()
        };
        drive.replace(caller(config, clock.now()));
        drive.run(search.limits(rate), signals, &progress)
    };
    let mut probes = Vec::new();
    let mut rates = search.rates();
    while let Some(rate) = rates.next_rate() {
        let record = probe(rate);
        if record.is_interrupted {
            break;
        }
        let probe = Probe::of(&search, rate, &record);
        progress.leave(&probe.line());
        rates.tell(probe.is_carried);
        probes.push(probe);
    }
    drop(progress);
    report(search.criterion, &probes, files)
}

fn report(criterion: Criterion, probes: &[Probe], files: &Files) -> Result<bool, Refusal> {
    let carried = probes.iter().filter(|probe| probe.is_carried);
    let peak = carried.map(|probe| probe.rate).reduce(f64::max);
    let table = table(probes);
    let found = Found {
        criterion,
        peak_per_s: peak,
        probes,
    };
    let verdict = match peak {
        Some(peak) => format!("The highest rate that was carried: {peak:.0} calls/s"),
        None => "No rate was carried".to_owned(),
    };
    files.write(&[&table], &found, || page(&verdict, probes, table.clone()))?;
    if !files.is_json_on_stdout() {
        writeln!(io::stdout(), "{verdict}")?;
    }
    Ok(peak.is_some())
}

impl Search {
    fn calls_max(&self, wanted: u64) -> u64 {
        const RFC7502_CALLS: u64 = 50_000;
        match self.criterion {
            Criterion::Success => wanted,
            Criterion::Rfc7502 => wanted.min(RFC7502_CALLS),
        }
    }

    fn limits(&self, rate: Rate) -> Limits {
        match self.criterion {
            Criterion::Success => {
                let (per_s, _) = rate.at(Duration::ZERO);
                let failures = per_s * self.duration.as_secs_f64() * (1.0 - self.success);
                Limits {
                    duration: self.duration,
                    failures_max: failures as u64 + 1,
                }
            }
            Criterion::Rfc7502 => Limits {
                failures_max: 1,
                ..Limits::NONE
            },
        }
    }

    fn rates(&self) -> Rates {
        match self.criterion {
            Criterion::Success => Rates::Bisection {
                rate: self.first,
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
        let least = match self.criterion {
            Criterion::Success => self.success,
            Criterion::Rfc7502 => 1.0,
        };
        let is_offered = late_ms(&record.stats) < LATE_MS_MAX;
        let median_ms = quantile_ms(&record.stats.first_response_ns, 0.5);
        let keeps_up = median_ms <= FIRST_RESPONSE_MS_MAX && record.cut_off == 0;
        is_offered && keeps_up && record.success() >= least
    }
}

/// Which rate is tried next.
enum Rates {
    Bisection {
        rate: f64,
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
                carried: Some(carried),
                not_carried: Some(not_carried),
            } => (not_carried / carried > CLOSE).then_some(rate),
            Self::Bisection { rate, .. } => (rate >= 1.0).then_some(rate),
            Self::Rfc7502 { rate, repeated, .. } => {
                (repeated < REPEATED_MAX && rate >= 1.0).then_some(rate)
            }
        }
    }

    fn tell(&mut self, is_carried: bool) {
        match self {
            Self::Bisection {
                rate,
                carried,
                not_carried,
            } => {
                let bound = if is_carried {
                    &mut *carried
                } else {
                    &mut *not_carried
                };
                *bound = Some(*rate);
                *rate = match (*carried, *not_carried) {
                    (Some(low), Some(high)) => (low + high) / 2.0,
                    (None, Some(high)) => high / 2.0,
                    (low, None) => low.unwrap_or(*rate) * 2.0,
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
        Self {
            rate,
            offered: stats.offered,
            offered_per_s: record.offered_per_s(),
            success: record.success(),
            failed_by_reason: reasons
                .map(|(reason, &count)| (reason.to_string(), count))
                .collect(),
            cut_off: record.cut_off,
            retransmissions: stats.retransmissions,
            lost: record.lost,
            answer_p50_ms: quantile_ms(&stats.answer_ns, 0.5),
            answer_p99_ms: quantile_ms(&stats.answer_ns, 0.99),
            late_p99_ms: late_ms(stats),
            is_carried: search.is_carried(record),
        }
    }

    fn verdict(&self) -> &'static str {
        match self {
            Self {
                is_carried: true, ..
            } => "carried",
            _ if self.late_p99_ms >= LATE_MS_MAX => "this machine was too slow to offer it",
            _ => "not carried",
        }
    }

    fn line(&self) -> String {
        format!("{:.0} calls/s: {}", self.rate, self.verdict())
    }
}

fn late_ms(stats: &Stats) -> f64 {
    quantile_ms(&stats.late_ns, 0.99)
}

fn table(probes: &[Probe]) -> Table {
    let columns = [
        "calls/s",
        "calls",
        "success, %",
        "sent again",
        "answer p50, ms",
        "answer p99, ms",
        "verdict",
    ];
    let row = |probe: &Probe| {
        [
            format!("{:.0}", probe.rate),
            count(probe.offered),
            format!("{:.3}", probe.success * 100.0),
            count(probe.retransmissions),
            figure(probe.answer_p50_ms),
            figure(probe.answer_p99_ms),
            probe.verdict().to_owned(),
        ]
    };
    let table = Table::new("", columns);
    probes
        .iter()
        .fold(table, |table, probe| table.row(row(probe)))
}

fn page(verdict: &str, probes: &[Probe], table: Table) -> String {
    let points = |value: fn(&Probe) -> f64| probes.iter().map(move |p| (p.rate, value(p)));
    let success = Plot::new("Success", Axis::linear("calls/s"), Axis::linear("%"))
        .with(Series::marks("success", points(|p| p.success * 100.0)));
    let times = Plot::new(
        "Time to the answer",
        Axis::linear("calls/s"),
        Axis::log("milliseconds"),
    )
    .with(Series::marks("p99", points(|p| p.answer_p99_ms)))
    .with(Series::marks("p50", points(|p| p.answer_p50_ms)));
    Page::new("The highest rate")
        .verbatim(&std::env::args().collect::<Vec<_>>().join(" "))
        .text(verdict)
        .table(table)
        .plot(success)
        .plot(times)
        .html()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rates that are tried when `capacity` is carried and no more.
    fn tried(criterion: Criterion, first: f64, capacity: f64) -> Vec<f64> {
        let search = Search {
            criterion,
            success: 0.9999,
            first,
            duration: DURATION,
            stream: Stream::Poisson,
        };
        let mut rates = search.rates();
        let mut tried = Vec::new();
        while let Some(rate) = rates.next_rate() {
            tried.push(rate);
            rates.tell(rate <= capacity);
        }
        tried
    }

    #[test]
    fn bisection_comes_close_from_either_side() {
        for first in [100.0, 10_000.0] {
            let tried = tried(Criterion::Success, first, 2_345.0);
            let peak = tried.iter().copied().filter(|rate| *rate <= 2_345.0);
            let peak = peak.fold(0.0, f64::max);
            assert!(peak > 2_345.0 / CLOSE, "{tried:?}");
            assert!(tried.len() < 16, "{tried:?}");
        }
        assert!(tried(Criterion::Success, 100.0, 0.0).len() < 10);
    }

    #[test]
    fn rfc_7502_rises_and_falls_by_a_tenth() {
        let tried = tried(Criterion::Rfc7502, 100.0, 345.0);
        assert_eq!(&tried[..4], [100.0, 110.0, 121.0, 133.0]);
        let peak = tried.iter().copied().filter(|rate| *rate <= 345.0);
        assert!(peak.fold(0.0, f64::max) > 300.0, "{tried:?}");
        assert!(tried.len() < 60, "{tried:?}");
    }
}

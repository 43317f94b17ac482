//! `--find-peak`: the highest rate that is carried.

mod probe;
mod rates;

use std::{
    io::{self, Write},
    time::Duration,
};

use clap::ValueEnum;
use serde::Serialize;

use self::{
    probe::{Probe, late_ms},
    rates::Rates,
};
use super::{
    Refusal,
    drive::{Limits, Record, Units},
    outcome::{Files, quantile_ms},
};
use crate::progress::Progress;

/// How long each rate is tried unless something else is wanted. What is offered above the capacity
/// makes a queue that grows: in a minute, one part in sixty delays half of the calls by 500 ms.
pub(super) const DURATION: Duration = Duration::from_secs(60);

/// Where half of the callers hear nothing for T1, requests are sent again and queues grow: what is
/// offered is not carried, even if all calls of a short probe are in the end.
const FIRST_RESPONSE_MS_MAX: f64 = 500.0;

/// SIPstone's rates rise until so many tests fail.
const HALF: f64 = 0.5;

/// How many a second show whether a system has recovered, and how long each time.
const RECOVERED_PER_S: f64 = 10.0;
const RECOVERED_FOR: Duration = Duration::from_secs(1);

/// 64*T1: then nothing is sent again any more.
const RECOVERING_MAX: Duration = Duration::from_secs(32);

/// A rate at which one call in a hundred begins so late was not offered.
const LATE_MS_MAX: f64 = 50.0;

/// The same for SIPstone's tests, whose success does not hang on a pause of this machine.
const SIPSTONE_LATE_MS_MAX: f64 = 500.0;

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
        if !probe.is_carried {
            let few = rate.min(RECOVERED_PER_S);
            recover(search, |limits| run(few, limits, &progress))?;
        }
        probes.push(probe);
    }
    drop(progress);
    search.report(&probes, files)
}

/// Waits until a few at a time go as planned, for as long as a rate is tried: what one rate has left behind
/// is not the next one's.
fn recover(
    search: &Search,
    mut run: impl FnMut(Limits) -> Result<Record, Refusal>,
) -> Result<(), Refusal> {
    let limits = Limits {
        duration: RECOVERED_FOR,
        ..Limits::NONE
    };
    let wait = search.duration.min(RECOVERING_MAX);
    for _ in 0..wait.div_duration_f64(RECOVERED_FOR).ceil() as u32 {
        let record = run(limits)?;
        let is_well = record.stats.offered > 0 && search.is_carried(&record);
        if is_well || record.is_interrupted {
            break;
        }
    }
    Ok(())
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
            Criterion::Success | Criterion::Sipstone => Rates::bisection(self.first, self.growth),
            Criterion::Rfc7502 => Rates::rfc_7502(self.first),
        }
    }

    fn is_carried(&self, record: &Record) -> bool {
        let median_ms = quantile_ms(&record.stats.first_response_ns, 0.5);
        let keeps_up = median_ms <= FIRST_RESPONSE_MS_MAX && record.cut_off == 0;
        self.is_offered(record)
            && match self.criterion {
                Criterion::Success => keeps_up && record.success() >= self.success,
                Criterion::Rfc7502 => keeps_up && record.success() >= 1.0,
                Criterion::Sipstone => record.success() >= self.success,
            }
    }

    fn is_offered(&self, record: &Record) -> bool {
        let late_ms_max = match self.criterion {
            Criterion::Success | Criterion::Rfc7502 => LATE_MS_MAX,
            Criterion::Sipstone => SIPSTONE_LATE_MS_MAX,
        };
        late_ms(&record.stats) < late_ms_max
    }

    /// Whether no higher rate is of interest.
    fn is_enough(&self, probe: &Probe) -> bool {
        match self.criterion {
            Criterion::Success | Criterion::Rfc7502 => !probe.is_carried,
            Criterion::Sipstone => probe.success <= HALF || !probe.is_offered,
        }
    }

    fn line(&self, probe: &Probe) -> String {
        format!("{:.0} {}/s: {}", probe.rate, self.units, probe.verdict())
    }

    fn report(&self, probes: &[Probe], files: &Files) -> Result<bool, Refusal> {
        let carried = probes.iter().filter(|probe| probe.is_carried);
        let peak = carried.map(|probe| probe.rate).reduce(f64::max);
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
        let table = probe::table(self.units, probes);
        files.write(&[&table], &found, || probe::page(self, &verdict, probes))?;
        if !files.is_json_on_stdout() {
            writeln!(io::stdout(), "{verdict}")?;
        }
        Ok(peak.is_some())
    }
}

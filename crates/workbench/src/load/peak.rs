//! `--find-peak`: finds the highest rate that a system carries.

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

/// The default time to try each rate. A load above the capacity makes a queue grow: in a minute, an
/// excess of one part in sixty delays half of the calls by 500 ms.
pub(super) const DURATION: Duration = Duration::from_secs(60);

/// If half of the callers get no response within T1, they retransmit and queues grow. The system
/// then does not carry the rate, even if all calls of a short probe succeed in the end.
const FIRST_RESPONSE_MS_MAX: f64 = 500.0;

/// SIPstone's rates rise until this share of the tests fails.
const HALF: f64 = 0.5;

/// The rate of the calls that show if a system has recovered, and how long each attempt lasts.
const RECOVERED_PER_S: f64 = 10.0;
const RECOVERED_FOR: Duration = Duration::from_secs(1);

/// 64*T1: no retransmissions come after this time.
const RECOVERING_MAX: Duration = Duration::from_secs(32);

/// If one call in a hundred starts later than this, this machine did not offer the rate.
const LATE_MS_MAX: f64 = 50.0;

/// The same limit for SIPstone's tests, whose success does not depend on a pause of this machine.
const SIPSTONE_LATE_MS_MAX: f64 = 500.0;

/// When a system carries a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Criterion {
    /// The share of calls that go as planned is at least --success.
    Success,
    /// 50,000 calls have no error; rates rise and fall by a tenth (RFC 7502 §4.10), which takes long.
    Rfc7502,
    /// Enough tests succeed; rates rise until half of them fail.
    #[value(skip)]
    Sipstone,
}

/// The parameters of a search.
pub(super) struct Search {
    /// The title of the page.
    pub(super) title: String,
    pub(super) units: Units,
    pub(super) criterion: Criterion,
    pub(super) success: f64,
    /// The first rate to try.
    pub(super) first: f64,
    /// The factor from one rate to the next while rates rise.
    pub(super) growth: f64,
    /// How long to try a rate.
    pub(super) duration: Duration,
}

/// A search as JSON.
#[derive(Serialize)]
struct Found<'a> {
    units: Units,
    criterion: Criterion,
    /// The highest rate that was carried; none if the system did not carry the lowest.
    peak_per_s: Option<f64>,
    probes: &'a [Probe],
}

/// Searches for the rate. `run` offers a rate within limits.
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

/// Waits until a few calls at a time go as planned, at most as long as a rate is tried. This way,
/// the load of one rate does not affect the next.
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
    /// The most tests that a rate needs.
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
        self.is_offered(record) && self.failure(record).is_none()
    }

    /// Why a rate that was offered was not carried.
    fn failure(&self, record: &Record) -> Option<String> {
        let success_min = match self.criterion {
            Criterion::Success | Criterion::Sipstone => self.success,
            Criterion::Rfc7502 => 1.0,
        };
        if record.success() < success_min {
            let most = record.stats.failed.iter().max_by_key(|(_, count)| **count);
            return Some(most.map_or_else(
                || "too few were answered".to_owned(),
                |(reason, count)| format!("{reason} ({count} of {})", record.stats.offered),
            ));
        }
        if self.criterion == Criterion::Sipstone {
            return None;
        }
        if record.cut_off > 0 {
            return Some(format!("{} were not over in time", record.cut_off));
        }
        let median_ms = quantile_ms(&record.stats.first_response_ns, 0.5);
        (median_ms > FIRST_RESPONSE_MS_MAX).then(|| {
            format!(
                "half waited over {FIRST_RESPONSE_MS_MAX} ms for a response ({median_ms:.0} ms)"
            )
        })
    }

    fn is_offered(&self, record: &Record) -> bool {
        let late_ms_max = match self.criterion {
            Criterion::Success | Criterion::Rfc7502 => LATE_MS_MAX,
            Criterion::Sipstone => SIPSTONE_LATE_MS_MAX,
        };
        late_ms(&record.stats) < late_ms_max
    }

    /// Whether the search needs no higher rate.
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
                format!("The highest rate carried: {peak:.0} {units}/s")
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

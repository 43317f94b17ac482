//! What became of calls and REGISTERs, told from the moment of a failure.

use std::{collections::BTreeMap, iter::repeat_n, mem, time::Duration};

use load::{Failure, Stats};
use serde::{Deserialize, Serialize};

/// Whoever waits longer for an answer has sent its request more than once (RFC 3261's T1).
const T1: Duration = Duration::from_millis(500);

/// When a request without any answer is given up.
const GIVEN_UP: Duration = T1.saturating_mul(64);

/// What one source of load saw.
#[derive(Debug, Default)]
pub(super) struct Record {
    offered: u64,
    good: Vec<Good>,
    bad: Vec<Bad>,
}

/// An INVITE or a REGISTER that was granted.
#[derive(Clone, Copy, Debug)]
struct Good {
    at: Duration,
    waited: Duration,
}

/// Something that failed.
#[derive(Clone, Copy, Debug)]
struct Bad {
    at: Duration,
    why: Failure,
}

/// Calls or REGISTERs around a failure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Fate {
    pub(crate) offered: u64,
    /// INVITEs or REGISTERs that were refused or never answered.
    pub(crate) lost: u64,
    /// Answered calls whose BYE was refused or never answered.
    pub(crate) cut: u64,
    /// From the failure to the first answer to what began after it; none came if absent.
    pub(crate) first_good_s: Option<f64>,
    /// From the failure until the last began that was lost or had to wait for longer than T1. Of what was refused,
    /// the refusal's time stands for its beginning.
    pub(crate) all_good_s: f64,
    /// The longest wait of what was granted.
    pub(crate) longest_wait_s: f64,
    pub(crate) reasons: BTreeMap<String, u64>,
}

impl Record {
    /// Takes over what was counted since the last look.
    pub(super) fn take(&mut self, at: Duration, stats: &mut Stats) {
        self.offered += mem::take(&mut stats.offered);
        for (why, count) in mem::take(&mut stats.failed) {
            self.bad.extend(repeat_n(Bad { at, why }, count as usize));
        }
        for granted in [&mut stats.answer_ns, &mut stats.register_ns] {
            if granted.is_empty() {
                continue;
            }
            for step in granted.iter_recorded() {
                let waited = Duration::from_nanos(step.value_iterated_to());
                let times = step.count_at_value() as usize;
                self.good.extend(repeat_n(Good { at, waited }, times));
            }
            granted.reset();
        }
    }

    pub(super) fn fate(&self, failed: Duration) -> Fate {
        let (cut, lost): (Vec<&Bad>, Vec<&Bad>) =
            self.bad.iter().partition(|bad| bad.is_of_dialog());
        let after = |good: &&Good| good.began() >= failed;
        let first = self.good.iter().filter(after).map(|good| good.at).min();
        let slow = self.good.iter().filter(|good| good.waited > T1);
        let slow = slow.map(Good::began);
        let disturbed = slow.chain(lost.iter().map(|bad| bad.began())).max();
        let longest = self.good.iter().map(|good| good.waited).max();
        let mut reasons = BTreeMap::new();
        for bad in &self.bad {
            *reasons.entry(bad.why.to_string()).or_default() += 1;
        }
        Fate {
            offered: self.offered,
            lost: lost.len() as u64,
            cut: cut.len() as u64,
            first_good_s: first.map(|at| at.saturating_sub(failed).as_secs_f64()),
            all_good_s: disturbed
                .unwrap_or_default()
                .saturating_sub(failed)
                .as_secs_f64(),
            longest_wait_s: longest.unwrap_or_default().as_secs_f64(),
            reasons,
        }
    }

    /// How many that began between two times were granted, and how many were not.
    pub(super) fn counts(&self, from: Duration, to: Duration) -> (u64, u64) {
        let (good, lost) = (self.good_between(from, to), self.lost_between(from, to));
        (good.count() as u64, lost.count() as u64)
    }

    /// The wait in milliseconds that so many of those who began between two times did not exceed; whoever was
    /// lost waited for ever.
    pub(super) fn quantile_ms(&self, share: f64, from: Duration, to: Duration) -> f64 {
        let granted = self.good_between(from, to);
        let lost = self.lost_between(from, to).map(|_| f64::INFINITY);
        let mut waits: Vec<f64> = granted
            .map(|good| 1e3 * good.waited.as_secs_f64())
            .chain(lost)
            .collect();
        waits.sort_by(f64::total_cmp);
        let place = (waits.len() as f64 * share).ceil() as usize;
        let wait = waits.get(place.saturating_sub(1));
        wait.copied().unwrap_or(f64::NAN)
    }

    fn good_between(&self, from: Duration, to: Duration) -> impl Iterator<Item = &Good> {
        let is_within = move |good: &&Good| (from..to).contains(&good.began());
        self.good.iter().filter(is_within)
    }

    fn lost_between(&self, from: Duration, to: Duration) -> impl Iterator<Item = &Bad> {
        let is_within = move |bad: &&Bad| (from..to).contains(&bad.began());
        self.bad
            .iter()
            .filter(|bad| !bad.is_of_dialog())
            .filter(is_within)
    }
}

impl Good {
    fn began(&self) -> Duration {
        self.at.saturating_sub(self.waited)
    }
}

impl Bad {
    /// It had been answered.
    fn is_of_dialog(&self) -> bool {
        matches!(
            self.why,
            Failure::ByeSilence | Failure::ByeRejected(_) | Failure::HungUp
        )
    }

    fn began(&self) -> Duration {
        match self.why {
            Failure::Silence | Failure::RegisterSilence => self.at.saturating_sub(GIVEN_UP),
            _ => self.at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn a_failure_is_told_by_who_began_after_it() {
        let good = |at, waited| Good {
            at: s(at),
            waited: s(waited),
        };
        let bad = |at, why| Bad { at: s(at), why };
        let record = Record {
            offered: 6,
            // The second began before the failure, the third found the way at its second attempt.
            good: vec![
                good(9.0, 0.1),
                good(10.1, 0.2),
                good(12.5, 1.5),
                good(13.0, 0.1),
            ],
            bad: vec![bad(42.5, Failure::Silence), bad(43.0, Failure::ByeSilence)],
        };
        let fate = record.fate(s(10.0));
        assert_eq!((fate.lost, fate.cut), (1, 1));
        assert_eq!(fate.first_good_s, Some(2.5));
        assert_eq!(fate.all_good_s, 1.0);
        assert_eq!(fate.longest_wait_s, 1.5);
        assert_eq!(fate.reasons["no response to BYE"], 1);
        assert_eq!(record.quantile_ms(0.5, s(10.0), s(20.0)), 1500.0);
        assert_eq!(record.quantile_ms(1.0, s(10.0), s(20.0)), f64::INFINITY);
    }
}

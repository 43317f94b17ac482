//! The highest rate that a cluster carries.

use std::time::Duration;

use node::ReloadError;

use crate::{Experiment, Outcome, experiment::Run};

/// How often a run is asked whether it has failed already.
const SLICE: Duration = Duration::from_secs(1);

/// When a rate counts as carried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Criterion {
    /// A request succeeds if its 2xx comes within this time.
    pub within: Duration,
    /// This share of all requests must succeed, 0 to 1.
    pub share: f64,
}

/// The parameters of a search for the peak.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Search {
    /// A rate in calls per second that the cluster surely carries. It is also the least result.
    pub low: f64,
    /// A rate in calls per second that the cluster surely does not carry.
    pub high: f64,
    /// The precision of the result, in calls per second.
    pub step: f64,
    /// When a rate counts as carried.
    pub criterion: Criterion,
}

impl Criterion {
    /// The share of the requests that did not succeed.
    #[must_use]
    pub fn missed(&self, outcome: &Outcome) -> f64 {
        let calls = &outcome.calls;
        let limit_ns = u64::try_from(self.within.as_nanos()).unwrap_or(u64::MAX);
        let histograms = [&calls.answer_ns, &calls.bye_ns];
        let late: u64 = histograms
            .iter()
            .map(|histogram| histogram.len() - histogram.count_between(0, limit_ns))
            .sum();
        let answered: u64 = histograms.iter().map(|histogram| histogram.len()).sum();
        let missed = late + calls.failures();
        missed as f64 / (answered + calls.failures()).max(1) as f64
    }
}

impl Search {
    /// Finds the highest rate at which the experiment succeeds, by bisection. The rate in the
    /// experiment's setup is ignored.
    ///
    /// # Errors
    /// If an edge refuses its configuration.
    pub fn run(&self, experiment: &Experiment, seed: u64) -> Result<f64, ReloadError> {
        let steps = ((self.high - self.low) / self.step).round();
        let (mut carried, mut missed) = (0.0, steps.max(1.0));
        while missed - carried > 1.0 {
            let middle = ((carried + missed) / 2.0_f64).floor();
            let mut probe = experiment.clone();
            probe.setup.calls.rate = self.low + middle * self.step;
            if self.is_carried(&probe, seed)? {
                carried = middle;
            } else {
                missed = middle;
            }
        }
        Ok(self.low + carried * self.step)
    }

    /// Whether one run succeeds; gives up once more has failed than may fail in all.
    fn is_carried(&self, experiment: &Experiment, seed: u64) -> Result<bool, ReloadError> {
        let mut run = Run::new(experiment, seed)?;
        let (begin, end) = (run.begin(), run.end());
        let mut now = begin;
        while now < end {
            now = end.min(now + SLICE);
            run.advance(now)?;
            let passed = (now - begin).as_secs_f64() / (end - begin).as_secs_f64();
            if self.criterion.missed(&run.outcome()) * passed > 1.0 - self.criterion.share {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

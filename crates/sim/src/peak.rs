//! The highest rate that a cluster carries.

use std::time::Duration;

use node::ReloadError;

use crate::{Experiment, Outcome, experiment::Run};

/// How often a run is asked whether it has failed already.
const SLICE: Duration = Duration::from_secs(1);

/// What counts as carried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Criterion {
    /// A request succeeds if its 2xx comes within this time.
    pub within: Duration,
    /// So many of all requests must, 0 to 1.
    pub share: f64,
}

/// Where to look for the peak.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Search {
    /// Calls per second that are surely carried, and the least answer.
    pub low: f64,
    /// Calls per second that are surely not carried.
    pub high: f64,
    /// How exact the answer is to be, in calls per second.
    pub step: f64,
    /// What counts as carried.
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
    /// The highest rate at which the experiment still succeeds, by bisection; the rate that the
    /// experiment's setup names does not matter.
    ///
    /// # Errors
    /// When an edge refuses its configuration.
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

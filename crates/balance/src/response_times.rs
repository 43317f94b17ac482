//! Weighted means of recent response times.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const SAMPLES: usize = 20;

/// The last 20 samples and their mean with linear weights: the newest counts 20, the oldest 1.
///
/// Writers only store; the mean is computed when asked for, as few policies ask. A reader beside a
/// writer may see one sample more or less, which a mean forgives.
#[derive(Debug, Default)]
pub(crate) struct ResponseTimes {
    /// How many samples there have been.
    recorded: AtomicU64,
    /// Microseconds, written in a circle.
    samples: [AtomicU32; SAMPLES],
}

impl ResponseTimes {
    pub(crate) fn record(&self, sample: Duration) {
        let micros = u32::try_from(sample.as_micros()).unwrap_or(u32::MAX);
        let slot = self.recorded.fetch_add(1, Relaxed) as usize % SAMPLES;
        self.samples[slot].store(micros, Relaxed);
    }

    /// The weighted mean, `None` before the first sample. Fewer than 20 samples take the highest
    /// weights.
    pub(crate) fn mean(&self) -> Option<Duration> {
        let recorded = self.recorded.load(Relaxed);
        let oldest = recorded as usize % SAMPLES;
        let (newer, older) = (&self.samples[..oldest], &self.samples[oldest..]);
        let sum: u64 = (1..)
            .zip(older.iter().chain(newer))
            .map(|(weight, sample)| weight * u64::from(sample.load(Relaxed)))
            .sum();
        let known = recorded.min(SAMPLES as u64);
        let weights = known * (2 * SAMPLES as u64 + 1 - known) / 2;
        (sum * 1_000).checked_div(weights).map(Duration::from_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_of(millis: impl IntoIterator<Item = u64>) -> Option<Duration> {
        let times = ResponseTimes::default();
        for sample in millis {
            times.record(Duration::from_millis(sample));
        }
        times.mean()
    }

    #[test]
    fn the_newest_sample_counts_most() {
        fn check(millis: impl IntoIterator<Item = u64>, expected_ns: Option<u64>) {
            assert_eq!(mean_of(millis), expected_ns.map(Duration::from_nanos));
        }
        check([], None);
        check([0], Some(0));
        check([7], Some(7_000_000));
        // Weights 19 and 20.
        check([39, 0], Some(19_000_000));
        check([0, 39], Some(20_000_000));
        // 1..=20 with weights 1..=20: sum of squares 2870 over 210.
        check(1..=20, Some(2_870_000_000 / 210));
        // The first of 21 is forgotten.
        check([1_000_000].into_iter().chain([5; 20]), Some(5_000_000));
        check((0..1_000).map(|i| i % 2), Some(110_000_000 / 210));
    }

    #[test]
    fn samples_beyond_an_hour_saturate() {
        assert!(mean_of([u64::MAX / 1_000_000]).is_some());
    }
}

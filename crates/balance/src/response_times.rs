//! Weighted means of recent response times.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

const SAMPLES: usize = 20;

/// The last 20 samples and their mean with linear weights: the newest counts 20, the oldest 1.
///
/// Writers only store; the mean is computed when asked for, as few policies ask. A reader beside a
/// writer may see one sample more or less, which a mean forgives.
#[derive(Debug, Default)]
pub(crate) struct ResponseTimes {
    /// Microseconds plus one; zero means no sample yet.
    samples: [AtomicU32; SAMPLES],
    /// The slot that is written next; it holds the oldest sample.
    next: AtomicU32,
}

impl ResponseTimes {
    pub(crate) fn record(&self, sample: Duration) {
        let micros = u32::try_from(sample.as_micros()).unwrap_or(u32::MAX);
        let slot = self.next_slot();
        self.samples[slot].store(micros.saturating_add(1), Relaxed);
    }

    /// The slot to write, which is also the oldest sample; moves on by one.
    fn next_slot(&self) -> usize {
        let next = |slot: u32| (slot + 1) % SAMPLES as u32;
        self.next
            .fetch_update(Relaxed, Relaxed, |slot| Some(next(slot)))
            .map_or(0, |slot| slot as usize)
    }

    /// The weighted mean, `None` before the first sample. Fewer than 20 samples take the highest
    /// weights.
    pub(crate) fn mean(&self) -> Option<Duration> {
        let oldest = self.next.load(Relaxed) as usize;
        let (newer, older) = (&self.samples[..oldest], &self.samples[oldest..]);
        let (mut sum, mut weights) = (0_u64, 0_u64);
        for (weight, sample) in (1_u64..).zip(older.iter().chain(newer)) {
            if let Some(micros) = sample.load(Relaxed).checked_sub(1) {
                sum += weight * u64::from(micros);
                weights += weight;
            }
        }
        (weights > 0).then(|| Duration::from_nanos(sum * 1_000 / weights))
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

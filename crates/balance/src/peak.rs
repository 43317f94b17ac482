//! Response times that rise at once and fall slowly.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// In this time a peak is forgotten: that of Finagle, which had the idea.
const DECAY_MS: f32 = 10_000.0;

/// A peak-sensitive, exponentially weighted moving average. A sample above it replaces it; one
/// below draws it down by the time that has passed since the last, in parts of ten seconds.
///
/// Finagle, `PeakEwma`, 2014. Time and mean share a word, so that a reader sees both of one sample;
/// of two writers at once one may be lost, which a mean forgives.
#[derive(Debug, Default)]
pub(crate) struct PeakEwma(AtomicU64);

impl PeakEwma {
    pub(crate) fn record(&self, now_ns: u64, sample: Duration) {
        let (decayed, kept) = self.at(now_ns);
        let sample = sample.as_secs_f32();
        let mean = f32::max(sample, decayed + sample * (1.0 - kept));
        let word = u64::from(millis(now_ns)) << 32 | u64::from(mean.to_bits());
        self.0.store(word, Relaxed);
    }

    /// Seconds; zero before the first sample. It falls while no samples come.
    pub(crate) fn seconds(&self, now_ns: u64) -> f64 {
        f64::from(self.at(now_ns).0)
    }

    /// What is left of the mean, and which part that is.
    fn at(&self, now_ns: u64) -> (f32, f32) {
        let word = self.0.load(Relaxed);
        let passed = millis(now_ns).wrapping_sub((word >> 32) as u32);
        let kept = (1.0 - passed as f32 / DECAY_MS).max(0.0);
        (f32::from_bits(word as u32) * kept, kept)
    }
}

/// Differences are right while they are below 49 days.
fn millis(now_ns: u64) -> u32 {
    (now_ns / 1_000_000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rises_at_once_and_falls_slowly() {
        const MS: u64 = 1_000_000;
        let mean = PeakEwma::default();
        let check = |at_ms: u64, expected: f64| {
            let found = mean.seconds(at_ms * MS);
            assert!((found - expected).abs() < 1e-4, "{found} at {at_ms} ms");
        };
        check(0, 0.0);
        mean.record(50_000 * MS, Duration::from_millis(1));
        check(50_000, 0.001);
        mean.record(50_010 * MS, Duration::from_millis(1_000));
        check(50_010, 1.0);
        check(52_010, 0.8);
        mean.record(52_010 * MS, Duration::from_millis(100));
        check(52_010, 0.82);
        for ms in 52_011..82_010 {
            mean.record(ms * MS, Duration::from_millis(100));
        }
        check(82_009, 0.1 + 0.72 * (-3.0_f64).exp());
        check(1_000_000, 0.0);
    }
}

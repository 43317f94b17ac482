//! How long calls last.

use std::time::Duration;

/// A call is asked after when it is older than this quantile of the calls seen.
const QUANTILE: f64 = 0.99;
/// After so many calls each the quantile is taken anew.
const CALLS_KNOWN: u64 = 100;
const BOUND_UNKNOWN: Duration = Duration::from_secs(30 * 60);
const BOUND_MIN: Duration = Duration::from_secs(60);

/// Lengths of the calls that ended, in classes that grow by a quarter.
#[derive(Debug)]
pub(super) struct CallLengths {
    classes: [u64; 64],
    count: u64,
    /// The age from which on a call may have leaked.
    bound: Duration,
}

impl Default for CallLengths {
    fn default() -> Self {
        Self {
            classes: [0; 64],
            count: 0,
            bound: BOUND_UNKNOWN,
        }
    }
}

impl CallLengths {
    pub(super) fn record(&mut self, length: Duration) {
        let class = (length.as_secs_f64().max(1.0).ln() / 1.25_f64.ln()).ceil() as usize;
        self.classes[class.min(63)] += 1;
        self.count += 1;
        if self.count.is_multiple_of(CALLS_KNOWN) {
            self.bound = self.quantile().max(BOUND_MIN);
        }
    }

    /// The age from which on a call may have leaked.
    pub(super) fn bound(&self) -> Duration {
        self.bound
    }

    /// The length that few calls exceed.
    fn quantile(&self) -> Duration {
        let mut left = (self.count as f64 * (1.0 - QUANTILE)) as u64;
        let mut class = 63;
        while self.classes[class] <= left && class > 0 {
            left -= self.classes[class];
            class -= 1;
        }
        Duration::from_secs_f64(1.25_f64.powi(class as i32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_follows_the_lengths_seen() {
        let mut lengths = CallLengths::default();
        assert_eq!(lengths.bound, BOUND_UNKNOWN);
        for second in 1..=1_000 {
            lengths.record(Duration::from_secs(second));
        }
        let bound = lengths.bound.as_secs();
        assert!((990..=1_240).contains(&bound), "{bound}");
        for _ in 0..1_000_000 {
            lengths.record(Duration::from_secs(5));
        }
        assert_eq!(lengths.bound, BOUND_MIN);
    }
}

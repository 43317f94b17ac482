//! How many calls are left out while more passes than memory has room for.

use std::time::Duration;

/// Memory shall reach back for so long.
const REACH_S: f64 = 10.0;
/// What passed in this time counts most.
const LATELY: Duration = Duration::from_secs(2);
/// More calls are kept only if memory would reach back for twice as long then.
const SLACK: f64 = 2.0;

/// Of how many calls one is kept, so that memory reaches back for ten seconds. A worker copies nothing of the others.
///
/// It is a power of two: who is kept while few are is kept while more are, too.
#[derive(Debug)]
pub struct Thinning {
    at: Duration,
    bytes_per_s: f64,
    one_in: u32,
}

impl Default for Thinning {
    fn default() -> Self {
        Self {
            at: Duration::ZERO,
            bytes_per_s: 0.0,
            one_in: 1,
        }
    }
}

impl Thinning {
    /// Of so many calls one is to be kept.
    #[must_use]
    pub fn one_in(&self) -> u32 {
        self.one_in
    }

    /// So many bytes of messages have passed since this was told last, whether they were kept or not. There is room for
    /// `bytes_max`.
    pub fn note(&mut self, now: Duration, bytes: u64, bytes_max: usize) {
        let elapsed = now.saturating_sub(self.at);
        if elapsed.is_zero() {
            return;
        }
        self.at = now;
        let weight = elapsed.div_duration_f64(LATELY).min(1.0);
        let per_s = bytes as f64 / elapsed.as_secs_f64();
        self.bytes_per_s += (per_s - self.bytes_per_s) * weight;
        let wanted = self.bytes_per_s * REACH_S / bytes_max as f64;
        if wanted > f64::from(self.one_in) {
            self.one_in = (wanted.ceil() as u32).next_power_of_two();
        } else if self.one_in > 1 && wanted * SLACK <= f64::from(self.one_in / 2) {
            self.one_in /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of how many calls one is kept after so many seconds, in which so many bytes pass in each. There is room for 1,000.
    fn after(thinning: &mut Thinning, seconds: u32, bytes_per_s: u64) -> u32 {
        for _ in 0..10 * seconds {
            let now = thinning.at + Duration::from_millis(100);
            thinning.note(now, bytes_per_s / 10, 1_000);
        }
        thinning.one_in()
    }

    #[test]
    fn memory_reaches_back_for_ten_seconds() {
        let mut thinning = Thinning::default();
        for (bytes_per_s, one_in) in [(90, 1), (110, 2), (900, 16), (1_500, 16), (10_000, 128)] {
            assert_eq!(after(&mut thinning, 20, bytes_per_s), one_in);
        }
    }

    #[test]
    fn more_are_kept_when_there_is_room_for_twice_as_many() {
        let mut thinning = Thinning::default();
        for (bytes_per_s, one_in) in [(700, 8), (300, 8), (190, 4), (90, 2), (40, 1)] {
            assert_eq!(after(&mut thinning, 20, bytes_per_s), one_in);
        }
    }

    #[test]
    fn a_burst_leaves_nothing_out() {
        let mut thinning = Thinning::default();
        after(&mut thinning, 10, 20);
        thinning.note(thinning.at + Duration::from_millis(100), 80, 1_000);
        assert_eq!(thinning.one_in(), 1);
    }
}

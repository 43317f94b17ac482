//! What waits in a listener's own socket: responses, what belongs to calls, and what known hosts send.

use std::time::Duration;

use super::backlog::Late;

/// Neighbours are told less by this part, in each look, while the queue is long.
const PART_TAKEN: f64 = 0.1;
/// They are told no less than this part of the most that was served without a queue. Strangers may be why there is one.
const LEAST: f64 = 0.25;
/// What remains of that most after each look.
const FORGETS: f64 = 0.999;

/// Whether too much waits, and what neighbours are told then.
///
/// Their requests have no lane, so too many of them wait where all that belongs to calls waits, too. What is served then
/// are copies in part, so that the figure of what is served does not fall.
#[derive(Debug, Default)]
pub(super) struct Queue {
    late: Late,
    told_per_s: f64,
    best_per_s: f64,
}

impl Queue {
    /// What was read had waited for too long, or was lost as there was no room.
    pub(super) fn note(&mut self, now: Duration) {
        self.late.note(now);
    }

    /// Whether it is so, and not by a burst.
    pub(super) fn is_long(&self, now: Duration) -> bool {
        self.late.is_long(now)
    }

    /// How much of what is served neighbours are told: less and less, until nothing waits for too long.
    pub(super) fn allows(&mut self, now: Duration, served_per_s: f64) -> f64 {
        if !self.late.is_now(now) {
            self.best_per_s = served_per_s.max(self.best_per_s * FORGETS);
            self.told_per_s = served_per_s;
        } else if self.is_long(now) {
            let told = self.told_per_s.min(served_per_s) * (1.0 - PART_TAKEN);
            self.told_per_s = told.max(self.best_per_s * LEAST);
        }
        self.told_per_s.min(served_per_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A node that lost half of what came told its neighbours nothing, and served copies.
    #[test]
    fn neighbours_are_told_less_until_nothing_waits() {
        let mut queue = Queue::default();
        assert!((queue.allows(ms(0), 100.0) - 100.0).abs() < 1e-9);
        let mut told = 100.0;
        for at in 1..=20 {
            queue.note(ms(50 * at));
            let now = queue.allows(ms(50 * at), 150.0);
            assert!(now <= told, "{now} after {told}");
            told = now;
        }
        assert!(queue.is_long(ms(1_000)));
        assert!((told - 25.0).abs() < 1e-9, "{told}");
        assert!((queue.allows(ms(1_200), 80.0) - 80.0).abs() < 1e-9);
    }

    #[test]
    fn a_burst_counts_for_nothing() {
        let mut queue = Queue::default();
        for at in [0, 1_000, 2_000] {
            queue.note(ms(at));
            assert!(!queue.is_long(ms(at)));
        }
    }
}

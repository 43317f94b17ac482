//! How much of the worker's time handshakes may take.

use std::{mem, time::Duration};

/// While there is other work, handshakes may take this part of the time that it takes: a fifth of all.
const PART: f64 = 0.25;

/// What they may save of it. Other work waits for that time at once.
const SAVED_MAX: f64 = 0.001;

/// The processor time that handshakes may take while there is other work.
#[derive(Debug, Default)]
pub(super) struct Allowance {
    /// The worker's processor time when something was told last.
    told_at: Duration,
    /// In seconds. Less than nothing: they have taken too much.
    left: f64,
    /// What they took while there was no other work, until somebody asked last.
    idle: Duration,
}

impl Allowance {
    pub(super) fn has_some(&self) -> bool {
        self.left > 0.0
    }

    /// Other work has taken the processor time until now.
    pub(super) fn earn_until(&mut self, now: Duration) {
        let earned = self.pass(now).as_secs_f64() * PART;
        self.left = (self.left + earned).min(SAVED_MAX);
    }

    /// Handshakes have taken it.
    pub(super) fn spend_until(&mut self, now: Duration) {
        self.left -= self.pass(now).as_secs_f64();
    }

    /// Handshakes have taken it while there was no other work.
    pub(super) fn idle_until(&mut self, now: Duration) {
        let passed = self.pass(now);
        self.idle += passed;
    }

    /// What handshakes took while there was no other work, since this was called last.
    pub(super) fn take_idle(&mut self) -> Duration {
        mem::take(&mut self.idle)
    }

    /// The processor time since the last call.
    fn pass(&mut self, now: Duration) -> Duration {
        let passed = now.saturating_sub(self.told_at);
        self.told_at = now;
        passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    /// How often handshakes of 100 us went on in 100 turns, in each of which other work takes so long.
    fn number_beside(others: Duration) -> usize {
        let (mut allowance, mut now, mut number) = (Allowance::default(), Duration::ZERO, 0);
        for _ in 0..100 {
            now += others;
            allowance.earn_until(now);
            while allowance.has_some() {
                now += us(100);
                allowance.spend_until(now);
                number += 1;
            }
        }
        number
    }

    /// Two handshakes went on in each turn, however short it was: in a storm of phones calls had what those left.
    #[test]
    fn beside_other_work_they_have_a_fifth_of_the_time() {
        assert!((5..=6).contains(&number_beside(us(20))));
        assert!((250..=252).contains(&number_beside(us(1_000))));
        // What they may save bounds how long other work waits for them.
        assert!((1_000..=1_002).contains(&number_beside(us(5_000))));
    }

    #[test]
    fn what_they_take_while_there_is_no_other_work_is_free() {
        let mut allowance = Allowance::default();
        allowance.earn_until(us(300));
        allowance.idle_until(us(900));
        assert_eq!(allowance.take_idle(), us(600));
        assert!(allowance.has_some());
        allowance.spend_until(us(1_100));
        assert!(!allowance.has_some());
    }
}

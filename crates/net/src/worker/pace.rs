//! How often a busy worker wakes up.

use std::{mem, time::Duration};

/// A busy worker wakes up once in this time: to wake up, and to wake up others, costs more than a message does.
const PACE: Duration = Duration::from_millis(1);

/// If fewer than [`BUSY_UNTIL`] messages come in [`PACE`], a busy worker waits until so many should have come. This is the longest wait.
const PACE_MAX: Duration = Duration::from_millis(4);

/// How often it is looked how busy it is.
const INTERVAL: Duration = Duration::from_millis(100);

/// It is busy from so many messages in [`PACE`] on, and until they are so few: then there is little to save.
const BUSY_FROM: f64 = 8.0;
const BUSY_UNTIL: f64 = 6.0;

/// It is busy, too, from this utilisation on, and until this one: under a CPU quota few messages can take it all.
const FULL_FROM: f64 = 0.8;
const FULL_UNTIL: f64 = 0.2;

/// When a worker woke up, and whether it is to wait before it does again.
#[derive(Debug)]
pub(super) struct Pace {
    woke_at: Duration,
    looked_at: Duration,
    /// Messages until then.
    received: u64,
    is_busy: bool,
    /// For how long messages gather while it is busy.
    pace: Duration,
}

impl Pace {
    pub(super) fn new(now: Duration) -> Self {
        Self {
            woke_at: now,
            looked_at: now,
            received: 0,
            is_busy: false,
            pace: PACE,
        }
    }

    /// The worker is awake.
    pub(super) fn wake(&mut self, now: Duration) {
        self.woke_at = now;
    }

    /// So many messages came since the start.
    pub(super) fn look(&mut self, now: Duration, received: u64, utilisation: f64) {
        if now < self.looked_at + INTERVAL {
            return;
        }
        let passed = now - mem::replace(&mut self.looked_at, now);
        let came = received - mem::replace(&mut self.received, received);
        let (from, full) = match self.is_busy {
            true => (BUSY_UNTIL, FULL_UNTIL),
            false => (BUSY_FROM, FULL_FROM),
        };
        self.is_busy = PACE.mul_f64(came as f64) >= passed.mul_f64(from) || utilisation >= full;
        let enough = passed.mul_f64(BUSY_UNTIL / came.max(1) as f64);
        self.pace = enough.clamp(PACE, PACE_MAX);
    }

    /// How long messages may gather now, if nothing is left to do.
    pub(super) fn rest(&self, now: Duration) -> Duration {
        match self.is_busy {
            true => (self.woke_at + self.pace).saturating_sub(now),
            false => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(time: u64) -> Duration {
        Duration::from_millis(time)
    }

    #[test]
    fn only_a_busy_worker_lets_messages_gather() {
        let mut pace = Pace::new(ms(0));
        pace.look(ms(100), 799, 0.0);
        pace.wake(ms(100));
        assert_eq!(pace.rest(ms(100)), ms(0));
        pace.look(ms(150), 10_000, 0.0);
        assert_eq!(pace.rest(ms(150)), ms(0));
        pace.look(ms(200), 799 + 800, 0.0);
        pace.wake(ms(200));
        assert_eq!(pace.rest(ms(200)), PACE);
        assert_eq!(pace.rest(ms(200) + PACE / 4), PACE * 3 / 4);
        assert_eq!(pace.rest(ms(202)), ms(0));
        pace.look(ms(300), 1_599 + 600, 0.0);
        assert_eq!(pace.rest(ms(200)), PACE);
        pace.look(ms(400), 2_199 + 599, 0.0);
        assert_eq!(pace.rest(ms(200)), ms(0));
        for (at, utilisation, rest) in [
            (500, 0.8, PACE_MAX),
            (600, 0.2, PACE_MAX),
            (700, 0.19, ms(0)),
        ] {
            pace.look(ms(at), 2_798, utilisation);
            assert_eq!(pace.rest(ms(200)), rest, "{utilisation}");
        }
    }

    /// A worker that was full with few messages woke up for one or two of them at a time, and a call cost twice as much.
    #[test]
    fn the_fewer_messages_fill_a_worker_the_longer_they_gather() {
        let mut pace = Pace::new(ms(0));
        let mut received = 0;
        for (at, came, rest) in [(100, 1_000, ms(1)), (200, 300, ms(2)), (300, 100, ms(4))] {
            received += came;
            pace.look(ms(at), received, 0.9);
            pace.wake(ms(at));
            assert_eq!(pace.rest(ms(at)), rest, "{came}");
        }
    }
}

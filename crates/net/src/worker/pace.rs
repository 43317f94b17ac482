//! How often a busy worker wakes up.

use std::{mem, time::Duration};

/// A busy worker wakes up once in this time: to wake up, and to wake up others, costs more than a message does.
const PACE: Duration = Duration::from_millis(1);

/// It is busy if it gets so many messages in that time.
const BUSY: f64 = 4.0;

/// When a worker woke up, and whether it is to wait before it does again.
#[derive(Debug)]
pub(super) struct Pace {
    woke_at: Duration,
    looked_at: Duration,
    /// Messages until then.
    received: u64,
    is_busy: bool,
}

impl Pace {
    pub(super) fn new(now: Duration) -> Self {
        Self {
            woke_at: now,
            looked_at: now,
            received: 0,
            is_busy: false,
        }
    }

    /// The worker is awake.
    pub(super) fn wake(&mut self, now: Duration) {
        self.woke_at = now;
    }

    /// So many messages came since the start.
    pub(super) fn look(&mut self, now: Duration, received: u64) {
        let passed = now.saturating_sub(mem::replace(&mut self.looked_at, now));
        let came = received - mem::replace(&mut self.received, received);
        self.is_busy = passed.mul_f64(BUSY) <= PACE.mul_f64(came as f64);
    }

    /// How long messages may gather now, if nothing is left to do.
    pub(super) fn rest(&self, now: Duration) -> Duration {
        match self.is_busy {
            true => (self.woke_at + PACE).saturating_sub(now),
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
        pace.wake(ms(9));
        assert_eq!(pace.rest(ms(9)), ms(0));
        pace.look(ms(10), 40);
        pace.wake(ms(10));
        assert_eq!(pace.rest(ms(10)), PACE);
        assert_eq!(pace.rest(ms(10) + PACE / 4), PACE * 3 / 4);
        assert_eq!(pace.rest(ms(12)), ms(0));
        pace.look(ms(20), 79);
        assert_eq!(pace.rest(ms(20)), ms(0));
    }
}

//! When a worker did not run, though it had work.

use std::time::Duration;

/// Who stands still for so long has used up a quota, or another program has the processor.
const STILL: Duration = Duration::from_millis(5);
/// The longest part of a standstill that counts: the usual period of a quota. Who stood still for longer has old requests to
/// serve, whatever the reason.
const LONGEST: Duration = Duration::from_millis(100);

/// The last standstill of a worker. A CPU quota has it stand still for the rest of each period.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standstill {
    began: Duration,
    ended: Duration,
}

impl Standstill {
    /// Until now the worker was busy for so long by the clock, and ran for so long. Whether it has stood still.
    pub(crate) fn note(&mut self, now: Duration, busy: Duration, ran: Duration) -> bool {
        let still = busy.saturating_sub(ran);
        let has_stood = still >= STILL;
        if has_stood {
            (self.began, self.ended) = (now.saturating_sub(still.min(LONGEST)), now);
        }
        has_stood
    }

    /// How much of a delay until now is due to other work. What comes during a standstill is no queue.
    #[must_use]
    pub fn beyond(&self, now: Duration, delay: Duration) -> Duration {
        let came = now.saturating_sub(delay).max(self.began);
        delay.saturating_sub(self.ended.saturating_sub(came))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A node with 10 ms in 100 took what came while it stood still for a queue, and told a neighbour a third of what it could serve.
    #[test]
    fn what_comes_during_a_standstill_is_no_queue() {
        let mut standstill = Standstill::default();
        assert!(standstill.note(ms(200), ms(92), ms(2)));
        assert!(!standstill.note(ms(210), ms(10), ms(6)));
        for (now, delay, beyond) in [
            (200, 90, 0),
            (200, 150, 60),
            (210, 50, 10),
            (210, 10, 10),
            (300, 50, 50),
        ] {
            let is = standstill.beyond(ms(now), ms(delay));
            assert_eq!(is, ms(beyond), "{delay} ms at {now} ms");
        }
        assert!(standstill.note(ms(5_300), ms(5_000), ms(2)));
        assert_eq!(standstill.beyond(ms(5_300), ms(4_000)), ms(3_900));
    }
}

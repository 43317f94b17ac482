//! How long requests wait in connections until they are read.

use std::{ops::RangeInclusive, time::Duration};

/// What waits in a connection for longer is too much. What was read with it has waited longer.
const LONG: Duration = Duration::from_millis(10);
/// The same for so long is more than a burst.
const BURST: Duration = Duration::from_millis(200);
/// For how long it counts.
const MEMORY: Duration = Duration::from_millis(100);
/// What is taken from what can be served, so that the backlog ends: its length in seconds,
/// within these bounds.
const PART_TAKEN: RangeInclusive<f64> = 0.1..=0.5;

/// What waits in connections. It costs nothing until it is read, and who isn't read from soon sends less. So it does not
/// wait a second time here, and is refused only if it has waited too long.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// How long what was read last has waited.
    delay: Duration,
    /// Since when, and until when, it counts as long.
    since: Duration,
    until: Duration,
}

impl Backlog {
    /// What was read has waited for so long.
    pub(super) fn note(&mut self, now: Duration, delay: Duration) {
        self.delay = delay;
        if delay <= LONG {
            return;
        }
        if self.until <= now {
            self.since = now;
        }
        self.until = now + MEMORY;
    }

    /// Whether it is more than a burst.
    pub(super) fn is_long(&self, now: Duration) -> bool {
        now < self.until && self.since + BURST <= now
    }

    /// Whether what was read last has waited longer than this, and not by a burst.
    pub(super) fn waits_longer(&self, now: Duration, patience: Duration) -> bool {
        self.is_long(now) && self.delay > patience
    }

    /// The part of what can be served that may come, so that it is served.
    pub(super) fn part(&self, now: Duration) -> f64 {
        if self.until <= now {
            return 1.0;
        }
        let seconds = self.delay.as_secs_f64();
        1.0 - seconds.clamp(*PART_TAKEN.start(), *PART_TAKEN.end())
    }
}

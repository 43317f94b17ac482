//! How long requests wait in connections until they are read.

use std::{ops::RangeInclusive, time::Duration};

use super::class::Class;

/// What waits in a connection for longer is too much. What was read with it has waited longer.
const LONG: Duration = Duration::from_millis(10);
/// The same for so long is more than a burst.
const BURST: Duration = Duration::from_millis(200);
/// For how long it counts.
const MEMORY: Duration = Duration::from_millis(100);
/// Neighbours are told less than is served, so that the backlog ends: less by this part. It grows with the delay, a second
/// for all of it.
const PART_TAKEN: RangeInclusive<f64> = 0.1..=0.5;

/// Neighbours are told no less than this part of the most that was served lately. Strangers may be why the node is late.
const LEAST: f64 = 0.6;
/// What remains after each look of that most, and of its lead over what is served while the worker is busy: then it can't serve
/// more.
const FORGETS: f64 = 0.999;
const FORGETS_LEAD: f64 = 0.8;

/// What waits in connections. It costs nothing until it is read, and a sender that is not read from sends less. So it
/// does not wait a second time in the lobby, and is refused only if it has waited too long.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// How long what was read last has waited.
    delay: Duration,
    of_all: Late,
    /// Of neighbours who obey.
    of_neighbours: Late,
    best_per_s: f64,
}

/// Whether requests are late, time and again.
#[derive(Debug, Default)]
pub(super) struct Late {
    since: Duration,
    until: Duration,
}

impl Late {
    pub(super) fn note(&mut self, now: Duration) {
        if self.until <= now {
            self.since = now;
        }
        self.until = now + MEMORY;
    }

    /// Whether it is so still.
    pub(super) fn is_now(&self, now: Duration) -> bool {
        now < self.until
    }

    /// Whether it is more than a burst.
    pub(super) fn is_long(&self, now: Duration) -> bool {
        self.is_now(now) && self.since + BURST <= now
    }
}

impl Backlog {
    /// What was read has waited for so long.
    pub(super) fn note(&mut self, now: Duration, delay: Duration) {
        self.delay = delay;
        if self.is_late() {
            self.of_all.note(now);
        }
    }

    /// Whether what was read last is late.
    pub(super) fn is_late(&self) -> bool {
        self.delay > LONG
    }

    /// What was read last is a neighbour's who obeys.
    pub(super) fn note_neighbour(&mut self, now: Duration) {
        self.of_neighbours.note(now);
    }

    /// Whether what neighbours who obey send is late.
    pub(super) fn has_neighbours(&self, now: Duration) -> bool {
        self.of_neighbours.is_now(now)
    }

    /// Whether neighbours who obey send too much, and not by a burst.
    pub(super) fn is_long(&self, now: Duration) -> bool {
        self.of_neighbours.is_long(now)
    }

    /// Whether a request of this class that was read last has waited too long, and not by a burst.
    pub(super) fn is_too_late_for(&self, now: Duration, class: Class) -> bool {
        let patience = class.patience(false);
        class != Class::Emergency && self.of_all.is_long(now) && self.delay > patience
    }

    /// How much of what is served neighbours are told, so that the backlog ends.
    pub(super) fn allows(&mut self, now: Duration, served_per_s: f64, is_busy: bool) -> f64 {
        let known = match is_busy {
            true => served_per_s + FORGETS_LEAD * (self.best_per_s - served_per_s),
            false => self.best_per_s * FORGETS,
        };
        self.best_per_s = served_per_s.max(known);
        if !self.has_neighbours(now) {
            return served_per_s;
        }
        let seconds = self.delay.as_secs_f64();
        let taken = seconds.clamp(*PART_TAKEN.start(), *PART_TAKEN.end());
        (served_per_s * (1.0 - taken)).max(self.best_per_s * LEAST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A stranger who kept the node from reading had its neighbours send half as much, time and again.
    #[test]
    fn strangers_restrict_nobody_and_are_refused() {
        let mut backlog = Backlog::default();
        for at in 0..100 {
            backlog.note(ms(10 * at), ms(500));
        }
        assert!(backlog.is_too_late_for(ms(1_000), Class::Call));
        assert!(!backlog.is_too_late_for(ms(1_000), Class::Emergency));
        // Its phone waits for longer, and the handshake would have been in vain.
        assert!(!backlog.is_too_late_for(ms(1_000), Class::Register));
        assert!(!backlog.is_long(ms(1_000)));
        let told = backlog.allows(ms(1_000), 100.0, false);
        assert!((told - 100.0).abs() < 1e-9);
    }

    #[test]
    fn neighbours_are_left_a_part_of_what_they_had() {
        let (mut backlog, mut per_s) = (Backlog::default(), 100.0);
        for at in 0..50 {
            backlog.note(ms(50 * at), ms(500));
            backlog.note_neighbour(ms(50 * at));
            per_s = backlog.allows(ms(50 * at), per_s, false);
        }
        assert!(backlog.is_long(ms(2_450)));
        assert!((55.0..65.0).contains(&per_s), "{per_s}");
    }

    /// When the capacity halved, neighbours were told 0.6 of what it had been, so that ten of them kept a queue of 0.4 s for 20 s.
    #[test]
    fn a_busy_worker_that_serves_less_tells_less() {
        let mut backlog = Backlog::default();
        assert!((backlog.allows(ms(0), 100.0, true) - 100.0).abs() < 1e-9);
        let mut told = 0.0;
        for at in 1..=20 {
            backlog.note(ms(100 * at), ms(400));
            backlog.note_neighbour(ms(100 * at));
            told = backlog.allows(ms(100 * at), 50.0, true);
        }
        assert!((30.0..35.0).contains(&told), "{told}");
    }

    #[test]
    fn a_burst_counts_for_nothing() {
        let mut backlog = Backlog::default();
        for at in [0, 1_000, 2_000] {
            backlog.note(ms(at), ms(500));
            backlog.note_neighbour(ms(at));
            assert!(!backlog.is_too_late_for(ms(at), Class::Call) && !backlog.is_long(ms(at)));
        }
    }
}

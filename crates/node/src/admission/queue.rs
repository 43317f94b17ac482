//! What waits in a listener's own socket: while there are lanes, what known hosts send.

use std::{mem, time::Duration};

use overload::{BEHIND, SURPLUS};

use super::{backlog::Late, lane::Lane};

/// So long what is read may have waited: a CFS quota has a node stand still for as long.
const USUAL: Duration = Duration::from_millis(10);
/// What waits beyond that is to be gone after so long. It takes 0.2 s until what neighbours are told shows: a shorter time
/// has the queue swing.
const GONE_AFTER: f64 = 0.6;
/// Much is to be gone sooner: what neighbours are told falls with the square of what waits, too.
const MUCH: f64 = 0.3;
/// Neighbours are told no less than this part of what is served, and than this part of the most that was served without a
/// queue. Strangers may be why there is one.
const LEAST: f64 = 0.3;
const LEAST_OF_BEST: f64 = 0.25;
/// What is served is copies in part while something is lost. Then neighbours are told less by this part in each look.
const PART_TAKEN: f64 = 0.2;
/// While the queue is behind and goes first, a batch is read from each lane in this time.
const LANES_PAUSE: Duration = Duration::from_millis(500);
/// What remains of that most after each look.
const FORGETS: f64 = 0.999;

/// Whether too much waits, and what neighbours are told then.
///
/// Their requests have no lane, so too many of them wait where all that belongs to calls waits, too.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// The longest that something has waited since the last look: what is read last has waited for less.
    delay: Duration,
    /// How long what was read last has waited.
    last: Duration,
    /// When something was read from each lane last.
    lanes_read_at: [Duration; Lane::ALL.len()],
    late: Late,
    /// Something was lost since the last look.
    has_lost: bool,
    told_per_s: f64,
    best_per_s: f64,
}

impl Queue {
    /// What was read has waited for so long.
    pub(super) fn note(&mut self, now: Duration, delay: Duration) {
        (self.last, self.delay) = (delay, self.delay.max(delay));
        if delay > BEHIND {
            self.late.note(now);
        }
    }

    /// Something was lost, as there was no room.
    pub(super) fn note_lost(&mut self, now: Duration) {
        self.has_lost = true;
        self.late.note(now);
    }

    /// Something was read, from a lane or not.
    pub(super) fn note_lane(&mut self, now: Duration, lane: Option<Lane>) {
        if let Some(lane) = lane {
            self.lanes_read_at[lane as usize] = now;
        }
    }

    /// Whether a lane is to wait: what was read last has waited too long, so there is more.
    pub(super) fn goes_first(&self, now: Duration, lane: Lane) -> bool {
        !matches!(lane, Lane::Urgent | Lane::OfCalls)
            && self.is_behind()
            && now < self.lanes_read_at[lane as usize] + LANES_PAUSE
    }

    /// Whether what was read last has waited too long.
    pub(super) fn is_behind(&self) -> bool {
        self.last > BEHIND
    }

    /// Whether too much waits.
    pub(super) fn is_late(&self, now: Duration) -> bool {
        self.late.is_now(now)
    }

    /// The same, and not by a burst.
    pub(super) fn is_long(&self, now: Duration) -> bool {
        self.late.is_long(now)
    }

    /// How much of what is served neighbours are told: the less, the longer the queue is.
    pub(super) fn allows(&mut self, now: Duration, served_per_s: f64) -> f64 {
        if !self.late.is_now(now) {
            self.best_per_s = served_per_s.max(self.best_per_s * FORGETS);
        }
        let (delay, has_lost) = (mem::take(&mut self.delay), mem::take(&mut self.has_lost));
        if delay.is_zero() && !has_lost {
            return served_per_s;
        }
        let beyond = delay.as_secs_f64() - USUAL.as_secs_f64();
        let part = 1.0 - beyond / GONE_AFTER - (beyond.max(0.0) / MUCH).powi(2);
        let mut told = served_per_s / SURPLUS * part.max(LEAST);
        if has_lost {
            told = told.min(self.told_per_s * (1.0 - PART_TAKEN));
        }
        let least = (self.best_per_s * LEAST_OF_BEST).min(served_per_s);
        self.told_per_s = told.max(least);
        self.told_per_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// What neighbours are told when what is read has waited for so long.
    fn allowed(queue: &mut Queue, at: u64, delay: u64, served: f64) -> f64 {
        queue.note(ms(at), ms(delay));
        queue.allows(ms(at), served)
    }

    /// A node that lost half of what came told its neighbours nothing. Later it told them less only while the queue was
    /// long for 0.2 s, and then so much less that it was idle: the queue swung between 0 and 150 ms.
    #[test]
    fn neighbours_are_told_the_less_the_longer_the_queue_is() {
        let mut queue = Queue::default();
        for (at, delay, part) in [
            (0, 0, SURPLUS),
            (100, 10, 1.0),
            (200, 70, 0.86),
            (300, 310, LEAST),
            (400, 0, SURPLUS),
        ] {
            let told = SURPLUS * allowed(&mut queue, at, delay, 100.0);
            assert!((told - 100.0 * part).abs() < 1e-9, "{delay} ms: {told}");
        }
    }

    /// What is served while something is lost are copies in part, so that it does not fall.
    #[test]
    fn what_is_lost_has_neighbours_told_less_and_less() {
        let mut queue = Queue::default();
        let calm = allowed(&mut queue, 0, 10, 100.0);
        queue.note_lost(ms(100));
        let first = allowed(&mut queue, 100, 20, 100.0);
        queue.note_lost(ms(200));
        let second = allowed(&mut queue, 200, 20, 100.0);
        assert!((first - 0.8 * calm).abs() < 1e-9, "{first} of {calm}");
        assert!((second - 0.8 * first).abs() < 1e-9, "{second} of {first}");
    }

    #[test]
    fn neighbours_keep_a_part_of_what_was_served_in_calm_times() {
        let mut queue = Queue::default();
        assert!((allowed(&mut queue, 0, 0, 100.0) - 100.0).abs() < 1e-9);
        let told = allowed(&mut queue, 50, 2_000, 60.0);
        assert!((told - 25.0).abs() < 1e-9, "{told}");
        assert!((allowed(&mut queue, 100, 2_000, 10.0) - 10.0).abs() < 1e-9);
    }

    /// A neighbour that does not obey waits in lanes. They were read as often as the socket of those who do, so these carried
    /// little more than half of their share.
    #[test]
    fn lanes_are_read_now_and_then_while_the_queue_goes_first() {
        let mut queue = Queue::default();
        queue.note_lane(ms(1_000), Some(Lane::Calls));
        for (at, delay, goes_first) in [(1_001, 21, true), (1_499, 300, true), (1_500, 300, false)]
        {
            queue.note(ms(at), ms(delay));
            assert_eq!(queue.goes_first(ms(at), Lane::Calls), goes_first, "{at} ms");
        }
        queue.note_lane(ms(1_500), Some(Lane::Calls));
        assert!(queue.goes_first(ms(1_501), Lane::Calls));
        assert!(!queue.goes_first(ms(1_501), Lane::Registers));
        queue.note(ms(1_502), ms(20));
        assert!(!queue.goes_first(ms(1_502), Lane::Calls), "it is short");
    }

    #[test]
    fn a_burst_counts_for_nothing() {
        let mut queue = Queue::default();
        for at in [0, 1_000, 2_000] {
            queue.note(ms(at), ms(100));
            assert!(!queue.is_long(ms(at)));
        }
        for at in 0..5 {
            queue.note_lost(ms(3_000 + 50 * at));
        }
        assert!(queue.is_long(ms(3_200)));
    }
}

//! Requests that wait at a server, and which of them it has lost.

use std::{
    array,
    sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// When a request is answered that was sent so long after another, the other one is lost. By then it goes again: RFC 3261's
/// T1.
pub(super) const LOST: Duration = Duration::from_millis(500);
/// Requests are counted by when they were sent. A part of the time has so many nanoseconds, as a power of two: 134 ms.
const PART_LOG2: u32 = 27;
/// What was sent before the last so many parts is taken for lost, too.
const PARTS: usize = 64;

/// Requests that were sent and wait, shared by all threads.
#[derive(Debug)]
pub(super) struct InFlight {
    count: AtomicU32,
    /// Of each part its number, and how many of its requests are counted.
    parts: [AtomicU64; PARTS],
    /// What was sent in parts before this one is lost.
    lost_before: AtomicU32,
    /// When the latest one of those was sent that are answered.
    answered: AtomicU64,
}

impl Default for InFlight {
    fn default() -> Self {
        Self {
            count: AtomicU32::new(0),
            parts: array::from_fn(|_| AtomicU64::new(0)),
            lost_before: AtomicU32::new(0),
            answered: AtomicU64::new(0),
        }
    }
}

impl InFlight {
    /// How many wait, without those that are lost.
    pub(super) fn count(&self) -> u32 {
        self.count.load(Relaxed)
    }

    /// How many of them were sent between these times.
    pub(super) fn count_within(&self, from: Duration, until: Duration) -> u32 {
        let of = |part| match unpack(self.slot(part).load(Relaxed)) {
            (number, counted) if number == part => counted,
            _ => 0,
        };
        (part_of(from)..=part_of(until)).map(of).sum()
    }

    /// A request is sent.
    pub(super) fn begin(&self, at: Duration) {
        let part = part_of(at);
        let add = |packed| match unpack(packed) {
            (number, counted) if number == part => Some(pack(part, counted + 1)),
            _ => Some(pack(part, 1)),
        };
        let before = self.slot(part).fetch_update(Relaxed, Relaxed, add);
        let (number, counted) = unpack(before.unwrap_or_default());
        if number != part {
            self.take(counted);
        }
        self.count.fetch_add(1, Relaxed);
    }

    /// A request that was sent then waits no longer.
    pub(super) fn end(&self, at: Duration) {
        let part = part_of(at);
        let less = |packed| {
            let (number, counted) = unpack(packed);
            let is_counted = number == part && counted > 0;
            is_counted.then(|| pack(part, counted - 1))
        };
        if self.slot(part).fetch_update(Relaxed, Relaxed, less).is_ok() {
            self.take(1);
        }
    }

    /// A request that was sent then is answered.
    pub(super) fn answer(&self, at: Duration) {
        self.answered.fetch_max(at.as_nanos() as u64, Relaxed);
        let part = part_of(at.saturating_sub(LOST));
        let from = self.lost_before.fetch_max(part, Relaxed);
        let from = from.max(part.saturating_sub(PARTS as u32));
        (from..part).for_each(|part| self.lose(part));
    }

    /// Whether a request that was sent then is lost, unless it is answered.
    pub(super) fn is_lost(&self, at: Duration) -> bool {
        self.answered.load(Relaxed) > (at + LOST).as_nanos() as u64
    }

    fn lose(&self, part: u32) {
        let all = |packed| (unpack(packed).0 == part).then(|| pack(part, 0));
        let before = self.slot(part).fetch_update(Relaxed, Relaxed, all);
        self.take(before.map_or(0, |packed| unpack(packed).1));
    }

    fn take(&self, number: u32) {
        let less = |count: u32| Some(count.saturating_sub(number));
        let _ = self.count.fetch_update(Relaxed, Relaxed, less);
    }

    fn slot(&self, part: u32) -> &AtomicU64 {
        &self.parts[part as usize % PARTS]
    }
}

fn part_of(at: Duration) -> u32 {
    (at.as_nanos() >> PART_LOG2) as u32
}

fn pack(part: u32, counted: u32) -> u64 {
    u64::from(part) << 32 | u64::from(counted)
}

fn unpack(packed: u64) -> (u32, u32) {
    ((packed >> 32) as u32, packed as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn what_is_lost_ends_without_effect() {
        let waiting = InFlight::default();
        [0, 10, 1_000, 1_010]
            .iter()
            .for_each(|&at| waiting.begin(ms(at)));
        assert_eq!(waiting.count(), 4);
        waiting.end(ms(0));
        waiting.answer(ms(1_010));
        assert_eq!(waiting.count(), 2);
        assert!(waiting.is_lost(ms(10)) && !waiting.is_lost(ms(1_000)));
        for (end, left) in [(10, 2), (1_000, 1), (1_010, 0)] {
            waiting.end(ms(end));
            assert_eq!(waiting.count(), left);
        }
    }

    #[test]
    fn who_answers_in_order_has_lost_nothing() {
        let waiting = InFlight::default();
        let sent = || (0..80).map(|number| ms(100 * number));
        sent().for_each(|at| waiting.begin(at));
        assert_eq!(waiting.count(), 80);
        assert_eq!(waiting.count_within(ms(7_600), ms(7_900)), 4);
        for (left, at) in (0..80).rev().zip(sent()) {
            waiting.answer(at);
            waiting.end(at);
            assert_eq!(waiting.count(), left, "{at:?}");
        }
    }

    #[test]
    fn the_oldest_make_room_for_the_newest() {
        let waiting = InFlight::default();
        let late = ms(64 * 134 + 60);
        assert_eq!((part_of(ms(0)), part_of(late)), (0, PARTS as u32));
        waiting.begin(ms(0));
        waiting.begin(ms(0));
        waiting.begin(late);
        assert_eq!(waiting.count(), 1);
        waiting.end(ms(0));
        assert_eq!(waiting.count(), 1);
    }
}

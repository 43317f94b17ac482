//! Timers of slab entries: a hierarchical wheel in which arming, disarming and expiry cost O(1).

use std::{marker::PhantomData, time::Duration};

use crate::Id;

/// The wheel's resolution. RFC 3261's shortest timer is T1, 500 ms.
const TICK: Duration = Duration::from_millis(10);

const FIRST_BITS: u32 = 8;
const UPPER_BITS: u32 = 6;
const UPPER_LEVELS: u32 = 3;
const FIRST_SLOTS: u32 = 1 << FIRST_BITS;
const UPPER_SLOTS: u32 = 1 << UPPER_BITS;
/// The first links are the heads of the slots' circular lists; entry `i` has link `SLOTS + i`.
const SLOTS: u32 = FIRST_SLOTS + UPPER_LEVELS * UPPER_SLOTS;
const TICKS_MAX: u64 = (1 << (FIRST_BITS + UPPER_LEVELS * UPPER_BITS)) - 1;

const _: () = assert!(TICKS_MAX / 100 > 7 * 24 * 3600, "a week's timer fits");

/// One timer per entry of a table of `T`.
#[derive(Debug)]
pub struct Wheel<T> {
    links: Vec<Link>,
    tick: u64,
    armed: usize,
    of: PhantomData<fn() -> T>,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    prev: u32,
    next: u32,
    /// Low bits of the tick at which the timer is due.
    due: u32,
}

impl<T> Wheel<T> {
    /// A wheel for up to `entries` entries; memory is touched only when used.
    #[must_use]
    pub fn new(entries: usize, now: Duration) -> Self {
        let mut links = Vec::with_capacity(SLOTS as usize + entries);
        links.extend((0..SLOTS).map(Link::alone));
        Self {
            links,
            tick: ticks(now),
            armed: 0,
            of: PhantomData,
        }
    }

    /// Arms the timer of `entry`, whatever it was armed for. It never fires early.
    pub fn arm(&mut self, entry: Id<T>, at: Duration) {
        self.disarm(entry);
        let due = (ticks(at) + 1).clamp(self.tick + 1, self.tick + TICKS_MAX);
        self.link(link_of(entry), due);
        self.armed += 1;
    }

    /// Disarms the timer of `entry`, if it is armed.
    pub fn disarm(&mut self, entry: Id<T>) {
        let link = link_of(entry);
        while self.links.len() <= link as usize {
            let alone = Link::alone(self.links.len() as u32);
            self.links.push(alone);
        }
        if self.links[link as usize].next != link {
            self.unlink(link);
            self.armed -= 1;
        }
    }

    /// The next entry whose timer is due; its timer is disarmed.
    pub fn pop(&mut self, now: Duration) -> Option<Id<T>> {
        let target = ticks(now);
        if self.armed == 0 {
            self.tick = self.tick.max(target);
            return None;
        }
        loop {
            let head = self.tick as u32 % FIRST_SLOTS;
            let first = self.links[head as usize].next;
            if first != head {
                self.unlink(first);
                self.armed -= 1;
                return Some(Id::at((first - SLOTS) as usize));
            }
            if self.tick >= target {
                return None;
            }
            self.tick += 1;
            self.cascade();
        }
    }

    /// A time at or before the next expiry; none while no timer is armed.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        if self.armed == 0 {
            return None;
        }
        let end = (self.tick / u64::from(FIRST_SLOTS) + 1) * u64::from(FIRST_SLOTS);
        let tick = (self.tick..end)
            .find(|&tick| {
                let head = tick as u32 % FIRST_SLOTS;
                self.links[head as usize].next != head
            })
            .unwrap_or(end);
        Some(Duration::from_nanos(tick * TICK.as_nanos() as u64))
    }

    /// Moves what has come near from the upper levels down.
    fn cascade(&mut self) {
        let mut shift = FIRST_BITS;
        for level in 0..UPPER_LEVELS {
            if !self.tick.is_multiple_of(1 << shift) {
                return;
            }
            let slot = (self.tick >> shift) as u32 % UPPER_SLOTS;
            self.relink_all(FIRST_SLOTS + level * UPPER_SLOTS + slot);
            shift += UPPER_BITS;
        }
    }

    fn relink_all(&mut self, head: u32) {
        // A timer a whole turn ahead comes back to the list it is in: detach the list first.
        let mut link = self.links[head as usize].next;
        self.links[head as usize] = Link::alone(head);
        while link != head {
            let Link { next, due, .. } = self.links[link as usize];
            let ahead = due.wrapping_sub(self.tick as u32);
            self.link(link, self.tick + u64::from(ahead));
            link = next;
        }
    }

    fn link(&mut self, link: u32, due: u64) {
        let head = slot(self.tick, due);
        let last = self.links[head as usize].prev;
        self.links[link as usize] = Link {
            prev: last,
            next: head,
            due: due as u32,
        };
        self.links[last as usize].next = link;
        self.links[head as usize].prev = link;
    }

    fn unlink(&mut self, link: u32) {
        let Link { prev, next, .. } = self.links[link as usize];
        self.links[prev as usize].next = next;
        self.links[next as usize].prev = prev;
        self.links[link as usize] = Link::alone(link);
    }
}

impl Link {
    fn alone(link: u32) -> Self {
        Self {
            prev: link,
            next: link,
            due: 0,
        }
    }
}

fn link_of<T>(entry: Id<T>) -> u32 {
    SLOTS + entry.place() as u32
}

fn ticks(at: Duration) -> u64 {
    (at.as_nanos() / TICK.as_nanos()) as u64
}

/// The head of the list that a timer due at tick `due` belongs to, seen from tick `now`.
fn slot(now: u64, due: u64) -> u32 {
    let ahead = due - now;
    if ahead < u64::from(FIRST_SLOTS) {
        return due as u32 % FIRST_SLOTS;
    }
    let mut shift = FIRST_BITS;
    let mut level = 0;
    while level + 1 < UPPER_LEVELS && ahead >= 1 << (shift + UPPER_BITS) {
        shift += UPPER_BITS;
        level += 1;
    }
    FIRST_SLOTS + level * UPPER_SLOTS + (due >> shift) as u32 % UPPER_SLOTS
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn id(place: usize) -> Id<()> {
        Id::at(place)
    }

    fn expired(wheel: &mut Wheel<()>, now: Duration) -> Vec<usize> {
        std::iter::from_fn(|| wheel.pop(now))
            .map(Id::place)
            .collect()
    }

    #[test]
    fn timers_fire_in_order_and_never_early() {
        let mut wheel = Wheel::new(4, MS(5));
        for (entry, at) in [(0, 500), (1, 32_000), (2, 181_000), (3, 86_400_000)] {
            wheel.arm(id(entry), MS(at));
        }
        for (entry, at) in [(0, 500), (1, 32_000), (2, 181_000), (3, 86_400_000)] {
            assert_eq!(
                expired(&mut wheel, MS(at - 1)),
                [],
                "entry {entry} is early"
            );
            assert_eq!(expired(&mut wheel, MS(at + 10)), [entry]);
        }
        assert_eq!(wheel.deadline(), None);
    }

    #[test]
    fn arming_again_moves_a_timer_and_disarming_stops_it() {
        let mut wheel = Wheel::new(2, MS(0));
        wheel.arm(id(0), MS(100));
        wheel.arm(id(0), MS(5_000));
        wheel.arm(id(1), MS(200));
        wheel.disarm(id(1));
        assert_eq!(expired(&mut wheel, MS(4_000)), []);
        assert_eq!(expired(&mut wheel, MS(5_020)), [0]);
    }

    proptest! {
        #[test]
        fn wheel_equals_a_sorted_list(
            timers in prop::collection::vec((0_u64..3_000_000, 0_u64..500_000), 1..60),
        ) {
            let mut wheel = Wheel::new(timers.len(), MS(0));
            let mut armed: Vec<(u64, usize)> = Vec::new();
            let mut now = 0;
            for (entry, &(ahead, step)) in timers.iter().enumerate() {
                wheel.arm(id(entry), MS(now + ahead));
                armed.push((now + ahead, entry));
                now += step;
                let mut fired = expired(&mut wheel, MS(now));
                for _ in 0..fired.len() {
                    let entry = fired.pop().expect("counted");
                    let place = armed.iter().position(|timer| timer.1 == entry).expect("armed");
                    prop_assert!(armed.swap_remove(place).0 <= now, "fired early");
                }
                for &(at, entry) in &armed {
                    prop_assert!(at + 20 >= now, "timer {} is late", entry);
                }
                if let Some((first, _)) = armed.iter().min() {
                    prop_assert!(wheel.deadline().expect("armed") <= MS(first + 20));
                }
            }
        }
    }
}

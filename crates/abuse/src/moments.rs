//! Moments in the future by key, shared by threads without a lock.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Places where a key may stand: two cache lines.
const WAYS: usize = 8;

/// A table of a fixed size. A key is a keyed hash of 64 bits, and stands for what was hashed. An entry
/// whose moment has passed is not there any more, so nothing has to be cleaned up. Moments are
/// nanoseconds.
///
/// Two threads that write the same place at once may lose what one of them wrote, or both. A key is
/// kept mixed with its moment, so that halves of two entries never make a third. The method is known
/// from shared tables of chess programs (Hyatt and Mann: A lock-less transposition-table).
#[derive(Debug)]
pub(crate) struct Moments {
    sets: Box<[[Slot; WAYS]]>,
}

#[derive(Debug, Default)]
struct Slot {
    /// The key, mixed with the moment.
    mixed: AtomicU64,
    moment: AtomicU64,
}

impl Slot {
    fn read(&self) -> (u64, u64) {
        let moment = self.moment.load(Relaxed);
        (self.mixed.load(Relaxed) ^ moment, moment)
    }

    fn write(&self, key: u64, moment: u64) {
        self.mixed.store(key ^ moment, Relaxed);
        self.moment.store(moment, Relaxed);
    }
}

impl Moments {
    /// Room for about so many keys.
    pub(crate) fn new(size: usize) -> Self {
        let sets = size.div_ceil(WAYS).next_power_of_two();
        Self {
            sets: (0..sets).map(|_| Default::default()).collect(),
        }
    }

    /// The moment of a key, if it is to come.
    pub(crate) fn get(&self, key: u64, now: u64) -> Option<u64> {
        let mut slots = self.set(key).iter().map(Slot::read);
        let found = slots.find(|(stored, moment)| *stored == key && *moment > now);
        found.map(|(_, moment)| moment)
    }

    /// Sets the moment of a key. If there is no room, the entry with the earliest moment goes.
    pub(crate) fn set_moment(&self, key: u64, moment: u64) {
        let set = self.set(key);
        let own = set.iter().find(|slot| slot.read().0 == key);
        let earliest = || set.iter().min_by_key(|slot| slot.read().1);
        if let Some(slot) = own.or_else(earliest) {
            slot.write(key, moment);
        }
    }

    /// The same, but no entry whose moment is to come goes for it. Returns whether there was room.
    pub(crate) fn set_if_room(&self, key: u64, moment: u64, now: u64) -> bool {
        let is_free = |slot: &&Slot| {
            let (stored, moment) = slot.read();
            stored == key || moment <= now
        };
        let free = self.set(key).iter().find(is_free);
        free.map(|slot| slot.write(key, moment)).is_some()
    }

    /// Forgets a key.
    pub(crate) fn remove(&self, key: u64) {
        for slot in self.set(key).iter().filter(|slot| slot.read().0 == key) {
            slot.write(0, 0);
        }
    }

    /// How many entries have a moment that is to come.
    pub(crate) fn count(&self, now: u64) -> usize {
        let slots = self.sets.iter().flatten();
        slots.filter(|slot| slot.read().1 > now).count()
    }

    fn set(&self, key: u64) -> &[Slot; WAYS] {
        &self.sets[key as usize & (self.sets.len() - 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_goes_first() {
        let moments = Moments::new(1);
        for key in 1..=20 {
            moments.set_moment(key, 1_000 + key * 10);
        }
        let left: Vec<u64> = (1..=20)
            .filter(|&key| moments.get(key, 1_000).is_some())
            .collect();
        assert_eq!(left, (13..=20).collect::<Vec<_>>());
        moments.set_moment(21, 1_001);
        assert_eq!(moments.get(13, 1_000), None, "the newcomer has its place");
        assert_eq!(moments.get(14, 1_000), Some(1_140));
        assert_eq!(moments.count(1_100), 7);
    }

    #[test]
    fn what_must_stay_stays_until_its_moment() {
        let moments = Moments::new(1);
        for key in 1..=8 {
            assert!(moments.set_if_room(key, 100 + key, 50));
        }
        assert!(!moments.set_if_room(9, 900, 50));
        assert!(moments.set_if_room(8, 900, 50), "it has its place");
        moments.remove(3);
        assert_eq!(moments.get(3, 50), None);
        assert!(moments.set_if_room(9, 900, 50));
        assert!(moments.set_if_room(10, 900, 101), "the first is over");
    }

    /// A half of one entry and a half of another are no entry.
    #[test]
    fn torn_entries_are_nobodys() {
        let moments = Moments::new(1);
        moments.set_moment(7, 1_000);
        let slot = moments.set(7).iter().find(|slot| slot.read().0 == 7);
        slot.unwrap().moment.store(2_000, Relaxed);
        for key in [7, 9] {
            assert_eq!(moments.get(key, 0), None);
        }
    }
}

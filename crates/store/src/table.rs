//! All entries of a memory, or the recently used ones of a cache.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use hashbrown::HashTable;

use crate::{Error, Put, Value, entry::Entry, request::Now};

/// The number of locks: enough that workers seldom wait for each other.
pub(crate) const SHARDS: usize = 64;
/// The memory of an entry beside its own bytes: its slot, free slots, and the allocation's head.
const OVERHEAD_BYTES: usize = 72;
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// Entries by their keys, of bounded size.
pub(crate) struct Table {
    shards: Box<[Mutex<Shard>]>,
    hasher: RandomState,
    shard_bytes_max: usize,
    age_max: Duration,
}

#[derive(Default)]
struct Shard {
    slots: HashTable<Slot>,
    bytes: usize,
    /// Where the search for an entry to evict continues.
    hand: usize,
    /// When expired entries were last looked for: wall time.
    swept: Duration,
}

struct Slot {
    entry: Entry,
    /// When it was stored: seconds since the process began.
    since_s: u32,
    /// Whether it was read since the hand last passed.
    used: bool,
}

impl Table {
    /// Makes a table of this many bytes, whose entries are valid for this long.
    pub(crate) fn new(bytes_max: usize, age_max: Duration) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
            shard_bytes_max: bytes_max.div_ceil(SHARDS),
            age_max,
        }
    }

    /// The entry of a key, unless it is expired or too old.
    pub(crate) fn get(&self, key: &[u8], now: Now) -> Option<Entry> {
        self.get_since(key, now, 0)
    }

    /// The same, unless it was stored before this second of the process.
    pub(crate) fn get_since(&self, key: &[u8], now: Now, since_s: u64) -> Option<Entry> {
        let hash = self.hasher.hash_one(key);
        let mut shard = self.shard(hash);
        let slot = shard.slots.find_mut(hash, |slot| slot.entry.key() == key)?;
        let age = now
            .age
            .saturating_sub(Duration::from_secs(slot.since_s.into()));
        let is_early = u64::from(slot.since_s) < since_s;
        if slot.entry.is_over(now.wall) || age > self.age_max || is_early {
            return None;
        }
        slot.used = true;
        Some(slot.entry.clone())
    }

    /// Stores `next` if the key's value is `seen`; else returns the present value.
    pub(crate) fn replace(&self, seen: Option<&[u8]>, next: Entry, now: Now) -> Result<Put, Error> {
        let hash = self.hasher.hash_one(next.key());
        let mut shard = self.shard(hash);
        shard.sweep_if_due(now);
        let current = shard
            .slots
            .find(hash, |slot| slot.entry.key() == next.key())
            .filter(|slot| !slot.entry.is_over(now.wall))
            .and_then(|slot| slot.entry.value());
        if current.as_deref() != seen {
            return Ok(Put::Changed(current));
        }
        if current.is_none() && !shard.has_room(&next, self.shard_bytes_max) {
            return Err(Error::Full);
        }
        shard.put(hash, next, now, |entry| self.hasher.hash_one(entry.key()));
        Ok(Put::Stored)
    }

    /// Stores an entry, or a note that the key has no value.
    pub(crate) fn put(&self, entry: Entry, now: Now) {
        let hash = self.hasher.hash_one(entry.key());
        let mut shard = self.shard(hash);
        shard.sweep_if_due(now);
        shard.put(hash, entry, now, |entry| self.hasher.hash_one(entry.key()));
    }

    /// Stores an entry, or a note that the key has no value, and evicts others to make room.
    pub(crate) fn cache(&self, entry: Entry, now: Now) {
        let hash = self.hasher.hash_one(entry.key());
        let mut shard = self.shard(hash);
        shard.insert(hash, entry, now, |entry| self.hasher.hash_one(entry.key()));
        shard.evict(self.shard_bytes_max);
    }

    pub(crate) fn remove(&self, key: &[u8]) {
        let hash = self.hasher.hash_one(key);
        self.shard(hash).remove(hash, key);
    }

    /// Whether an entry fits beside those that have not expired.
    pub(crate) fn has_room(&self, entry: &Entry, now: Now) -> bool {
        let hash = self.hasher.hash_one(entry.key());
        let mut shard = self.shard(hash);
        shard.sweep_if_due(now);
        shard.has_room(entry, self.shard_bytes_max)
    }

    /// The number of entries and their bytes. Expired entries count until they are swept.
    pub(crate) fn held(&self) -> (usize, usize) {
        let shards = (0..SHARDS).map(|index| self.lock(index));
        shards.fold((0, 0), |(entries, bytes), shard| {
            (entries + shard.slots.len(), bytes + shard.bytes)
        })
    }

    /// The entries of a shard that have not expired, in no order.
    pub(crate) fn shard_entries(&self, index: usize, wall: Duration) -> Vec<Entry> {
        let mut shard = self.lock(index);
        shard.sweep(wall);
        shard.slots.iter().map(|slot| slot.entry.clone()).collect()
    }

    /// The keys with this prefix and their values, in no order.
    pub(crate) fn entries(&self, prefix: &[u8], wall: Duration) -> Vec<(Vec<u8>, Value)> {
        (0..SHARDS)
            .flat_map(|index| self.shard_entries(index, wall))
            .filter(|entry| entry.key().starts_with(prefix))
            .filter_map(|entry| Some((entry.key().to_vec(), entry.value()?)))
            .collect()
    }

    /// The bytes of the entries, without the overhead.
    pub(crate) fn entry_bytes(&self) -> u64 {
        let bytes = |index| {
            let shard = self.lock(index);
            shard.bytes - shard.slots.len() * OVERHEAD_BYTES
        };
        (0..SHARDS).map(bytes).sum::<usize>() as u64
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        // The table's own bits are the lowest and the highest seven.
        self.lock((hash >> 32) as usize % SHARDS)
    }

    fn lock(&self, index: usize) -> MutexGuard<'_, Shard> {
        // A shard is whole between two statements, so a panic elsewhere leaves it good.
        self.shards[index]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    fn put(&mut self, hash: u64, entry: Entry, now: Now, hasher: impl Fn(&Entry) -> u64) {
        if entry.value().is_some() && !entry.is_over(now.wall) {
            self.insert(hash, entry, now, hasher);
        } else {
            self.remove(hash, entry.key());
        }
    }

    fn insert(&mut self, hash: u64, entry: Entry, now: Now, hasher: impl Fn(&Entry) -> u64) {
        self.remove(hash, entry.key());
        self.bytes += cost(&entry);
        let slot = Slot {
            entry,
            since_s: now.age.as_secs() as u32,
            used: false,
        };
        self.slots
            .insert_unique(hash, slot, |slot| hasher(&slot.entry));
    }

    fn remove(&mut self, hash: u64, key: &[u8]) {
        if let Ok(found) = self.slots.find_entry(hash, |slot| slot.entry.key() == key) {
            let (slot, _) = found.remove();
            self.bytes -= cost(&slot.entry);
        }
    }

    fn has_room(&self, entry: &Entry, bytes_max: usize) -> bool {
        self.bytes + cost(entry) <= bytes_max
    }

    /// Evicts an entry that was not read for a round of the hand (the clock algorithm).
    fn evict(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max && !self.slots.is_empty() {
            self.hand = (self.hand + 1) % self.slots.num_buckets();
            let Ok(mut found) = self.slots.get_bucket_entry(self.hand) else {
                continue;
            };
            if found.get().used {
                found.get_mut().used = false;
            } else {
                let (slot, _) = found.remove();
                self.bytes -= cost(&slot.entry);
            }
        }
    }

    fn sweep_if_due(&mut self, now: Now) {
        if now.wall >= self.swept + SWEEP_INTERVAL {
            self.sweep(now.wall);
        }
    }

    fn sweep(&mut self, wall: Duration) {
        self.swept = wall;
        let bytes = &mut self.bytes;
        self.slots.retain(|slot| {
            let keep = !slot.entry.is_over(wall);
            if !keep {
                *bytes -= cost(&slot.entry);
            }
            keep
        });
    }
}

fn cost(entry: &Entry) -> usize {
    entry.bytes().len() + OVERHEAD_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Next;

    const FOR_EVER: Duration = Duration::MAX;

    fn len(table: &Table) -> usize {
        table.entries(b"", Duration::ZERO).len()
    }

    fn entry(key: &str, expires_s: u64) -> Entry {
        let next = Next {
            value: b"value",
            expires: Some(Duration::from_secs(expires_s)),
        };
        Entry::new(key.as_bytes(), Some(next)).unwrap()
    }

    fn at(seconds: u64) -> Now {
        let wall = Duration::from_secs(seconds);
        Now { wall, age: wall }
    }

    #[test]
    fn entries_end() {
        let table = Table::new(1 << 20, FOR_EVER);
        table.put(entry("a", 10), at(0));
        assert!(table.get(b"a", at(9)).is_some());
        assert!(table.get(b"a", at(10)).is_none());
        assert_eq!(table.replace(None, entry("a", 20), at(10)), Ok(Put::Stored));
        assert!(table.get(b"a", at(19)).is_some());
    }

    #[test]
    fn ended_entries_make_room() {
        let table = Table::new(SHARDS * 4 * (16 + OVERHEAD_BYTES), FOR_EVER);
        let names: Vec<String> = (0..10_000).map(|name| name.to_string()).collect();
        let fill = |expires_s, now| {
            names
                .iter()
                .filter(|name| {
                    table.replace(None, entry(name, expires_s), at(now)) == Ok(Put::Stored)
                })
                .count()
        };
        let filled = fill(10, 0);
        assert!((SHARDS..names.len()).contains(&filled), "{filled}");
        let full = table.replace(None, entry("one more", 10), at(0));
        assert_eq!(full, Err(Error::Full));
        assert_eq!(len(&table), filled);
        assert!(fill(200, 100) > filled / 2);
    }

    #[test]
    fn a_cache_keeps_what_is_read() {
        let table = Table::new(SHARDS * 1024, FOR_EVER);
        table.cache(entry("read often", 10), at(0));
        for name in 0..100_000 {
            table.cache(entry(&name.to_string(), 10), at(0));
            assert!(table.get(b"read often", at(0)).is_some(), "{name}");
        }
        assert!(len(&table) < SHARDS * 1024 / OVERHEAD_BYTES);
    }

    #[test]
    fn a_cache_forgets_with_age() {
        let table = Table::new(1 << 20, Duration::from_secs(5));
        table.cache(entry("a", 100), at(3));
        assert!(table.get(b"a", at(8)).is_some());
        assert!(table.get(b"a", at(9)).is_none());
    }
}

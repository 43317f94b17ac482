//! The known entries of a server, and whether they are still valid.

use std::{
    array,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{entry::Entry, request::Now, table::Table};

/// Keys that share a change counter. With too few counters, some entries leave the cache too early.
const COUNTS: usize = 1024;

/// Entries of the server. An entry is dropped when another node reports a change of it. Entries
/// from times without such reports are not valid, but serve while the server is down.
pub(super) struct Cache {
    table: Arc<Table>,
    /// The second of the process since which changes of other nodes are reported.
    heard_since_s: AtomicU64,
    changes: [AtomicU64; COUNTS],
    hasher: RandomState,
}

const NEVER: u64 = u64::MAX;

/// How often a key had changed when its request was sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket(u64);

impl Cache {
    pub(super) fn new(table: Arc<Table>) -> Self {
        Self {
            table,
            heard_since_s: AtomicU64::new(NEVER),
            changes: array::from_fn(|_| AtomicU64::new(0)),
            hasher: RandomState::new(),
        }
    }

    /// The entry of a key, which may say that the key has no value.
    pub(super) fn get(&self, key: &[u8], now: Now) -> Option<Entry> {
        let since_s = self.heard_since_s.load(Ordering::SeqCst);
        self.table.get_since(key, now, since_s)
    }

    /// The same, though it may have changed since the server last answered.
    pub(super) fn last_known(&self, key: &[u8], now: Now) -> Option<Entry> {
        self.table.get(key, now)
    }

    /// Call this before the server is asked for a key.
    pub(super) fn ticket(&self, key: &[u8]) -> Ticket {
        Ticket(self.count(key).load(Ordering::SeqCst))
    }

    /// Stores the server's answer, unless the key may have changed since it was asked.
    pub(super) fn offer(&self, ticket: Ticket, entry: Entry, now: Now) {
        let key = entry.key().to_vec();
        if self.ticket(&key) == ticket {
            self.table.cache(entry, now);
            // A change that came meanwhile found nothing to drop.
            if self.ticket(&key) != ticket {
                self.table.remove(&key);
            }
        }
    }

    /// Drops a key that another node has changed.
    pub(super) fn forget(&self, key: &[u8]) {
        self.count(key).fetch_add(1, Ordering::SeqCst);
        self.table.remove(key);
    }

    /// Changes of other nodes are reported from this moment on.
    pub(super) fn hear(&self, now: Now) {
        // Of what was told in this very second it is not known.
        let next_s = now.age.as_secs() + 1;
        self.heard_since_s.store(next_s, Ordering::SeqCst);
    }

    /// Changes of other nodes are not reported, so no entry is valid.
    pub(super) fn stop(&self) {
        self.heard_since_s.store(NEVER, Ordering::SeqCst);
        for count in &self.changes {
            count.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn count(&self, key: &[u8]) -> &AtomicU64 {
        &self.changes[self.hasher.hash_one(key) as usize % COUNTS]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Next;

    fn entry() -> Entry {
        let next = Next {
            value: b"value",
            expires: None,
        };
        Entry::new(b"key", Some(next)).unwrap()
    }

    fn cache() -> Cache {
        Cache::new(Arc::new(Table::new(1 << 20, Duration::MAX)))
    }

    fn at(seconds: u64) -> Now {
        let wall = Duration::from_secs(seconds);
        Now { wall, age: wall }
    }

    #[test]
    fn nothing_is_believed_that_was_told_while_nothing_is_heard() {
        let cache = cache();
        cache.offer(cache.ticket(b"key"), entry(), at(1));
        assert!(cache.get(b"key", at(1)).is_none());
        cache.hear(at(2));
        cache.offer(cache.ticket(b"key"), entry(), at(2));
        assert!(cache.get(b"key", at(3)).is_none());
        cache.offer(cache.ticket(b"key"), entry(), at(3));
        assert!(cache.get(b"key", at(3)).is_some());
        cache.stop();
        assert!(cache.get(b"key", at(4)).is_none());
        assert!(cache.last_known(b"key", at(4)).is_some());
        cache.hear(at(5));
        assert!(cache.get(b"key", at(6)).is_none());
        assert!(cache.last_known(b"key", at(6)).is_some());
        cache.forget(b"key");
        assert!(cache.last_known(b"key", at(6)).is_none());
    }

    #[test]
    fn an_answer_older_than_a_change_is_not_kept() {
        let cache = cache();
        cache.hear(at(0));
        let ticket = cache.ticket(b"key");
        cache.forget(b"key");
        cache.offer(ticket, entry(), at(1));
        assert!(cache.last_known(b"key", at(1)).is_none());
        let ticket = cache.ticket(b"key");
        cache.stop();
        cache.hear(at(1));
        cache.offer(ticket, entry(), at(2));
        assert!(cache.last_known(b"key", at(2)).is_none());
    }
}

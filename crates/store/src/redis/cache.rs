//! What is known here of a server's entries, and whether it may still be believed.

use std::{
    array,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use crate::{Now, entry::Entry, table::Table};

/// Keys that share a count of changes. Too few only cost some entries their place.
const COUNTS: usize = 1024;

/// Entries of the server, dropped when another node tells that it has changed them. While nobody could
/// tell, nothing is kept.
pub(super) struct Cache {
    table: Arc<Table>,
    /// Whether others' changes are heard of.
    hears: AtomicBool,
    changes: [AtomicU64; COUNTS],
    hasher: RandomState,
}

/// How often a key had changed when its request was sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket(u64);

impl Cache {
    pub(super) fn new(table: Arc<Table>) -> Self {
        Self {
            table,
            hears: AtomicBool::new(false),
            changes: array::from_fn(|_| AtomicU64::new(0)),
            hasher: RandomState::new(),
        }
    }

    /// The entry of a key, which may be the word that there is none.
    pub(super) fn get(&self, key: &[u8]) -> Option<Entry> {
        self.table.get(key, Now::read())
    }

    /// To be taken before the server is asked for a key.
    pub(super) fn ticket(&self, key: &[u8]) -> Ticket {
        Ticket(self.count(key).load(Ordering::SeqCst))
    }

    /// Takes in what the server told, unless the key may have been changed since it was asked.
    pub(super) fn offer(&self, ticket: Ticket, entry: Entry) {
        let key = entry.key().to_vec();
        if self.hears.load(Ordering::SeqCst) && self.ticket(&key) == ticket {
            self.table.cache(entry, Now::read());
            // A change that came meanwhile found nothing to drop.
            if self.ticket(&key) != ticket {
                self.table.remove(&key);
            }
        }
    }

    /// Drops a key that somebody has changed.
    pub(super) fn forget(&self, key: &[u8]) {
        self.count(key).fetch_add(1, Ordering::SeqCst);
        self.table.remove(key);
    }

    /// Others' changes are heard of from here on.
    pub(super) fn hear(&self) {
        self.hears.store(true, Ordering::SeqCst);
    }

    /// Others' changes are not heard of: nothing here can be believed.
    pub(super) fn stop(&self) {
        self.hears.store(false, Ordering::SeqCst);
        for count in &self.changes {
            count.fetch_add(1, Ordering::SeqCst);
        }
        self.table.clear();
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

    #[test]
    fn nothing_is_kept_while_nothing_is_heard() {
        let cache = cache();
        cache.offer(cache.ticket(b"key"), entry());
        assert!(cache.get(b"key").is_none());
        cache.hear();
        cache.offer(cache.ticket(b"key"), entry());
        assert!(cache.get(b"key").is_some());
        cache.stop();
        assert!(cache.get(b"key").is_none());
    }

    #[test]
    fn an_answer_older_than_a_change_is_not_kept() {
        let cache = cache();
        cache.hear();
        let ticket = cache.ticket(b"key");
        cache.forget(b"key");
        cache.offer(ticket, entry());
        assert!(cache.get(b"key").is_none());
        let ticket = cache.ticket(b"key");
        cache.stop();
        cache.hear();
        cache.offer(ticket, entry());
        assert!(cache.get(b"key").is_none());
    }
}

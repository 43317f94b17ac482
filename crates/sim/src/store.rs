//! A location service's store: a map that answers at once, unless it is slow or locked.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    rc::Rc,
    time::Duration,
};

use node::{Answer, Ask, Record};

/// Records by key. Copies share the same map, so nodes can share a store.
#[derive(Clone, Debug, Default)]
pub struct Store(Rc<Kept>);

#[derive(Debug, Default)]
struct Kept {
    records: RefCell<BTreeMap<Box<[u8]>, Record>>,
    locked_until: Cell<Duration>,
    /// One of so many shards is lost until then.
    lost: Cell<Option<(usize, Duration)>>,
    /// What a question takes, one after another; zero: no time.
    takes: Cell<Duration>,
    free_at: Cell<Duration>,
}

impl Store {
    /// Puts a record there, such as a subscriber's.
    pub fn insert(&self, key: &[u8], record: Record) {
        self.0.records.borrow_mut().insert(key.into(), record);
    }

    /// Lets all questions wait until then.
    pub fn lock(&self, until: Duration) {
        self.0.locked_until.set(until);
    }

    /// Loses one of so many shards until then: what is asked of it waits. It loses no record, as one that has a replica.
    pub fn lose_shard(&self, of: usize, until: Duration) {
        self.0.lost.set(Some((of, until)));
    }

    /// Lets each question take so long, one after another.
    pub fn set_takes(&self, takes: Duration) {
        self.0.takes.set(takes);
    }

    /// When a question will be answered that is asked at this moment.
    pub(crate) fn answers_at(&self, now: Duration, ask: &Ask) -> Duration {
        if let Some((of, until)) = self.0.lost.get()
            && now < until
            && shard(ask, of) == Some(0)
        {
            return until;
        }
        let Kept {
            locked_until,
            takes,
            free_at,
            ..
        } = &*self.0;
        let begins = now.max(locked_until.get()).max(free_at.get());
        if !takes.get().is_zero() {
            free_at.set(begins + takes.get());
        }
        begins + takes.get()
    }

    /// What the store says at this wall time.
    #[must_use]
    pub fn answer(&self, wall: Duration, ask: Ask) -> Answer {
        let mut records = self.0.records.borrow_mut();
        let is_valid = |record: &&Record| record.expires.is_none_or(|expires| wall < expires);
        match ask {
            Ask::Read { key } => Answer::Record(records.get(&key).filter(is_valid).cloned()),
            Ask::Change { key, seen, next } => {
                let current = records.get(&key).filter(is_valid);
                if current != seen.as_ref() {
                    return Answer::Record(current.cloned());
                }
                match next {
                    Some(next) => records.insert(key, next),
                    None => records.remove(&key),
                };
                Answer::Changed
            }
            // No party of a world has a name.
            Ask::Locate { .. } => Answer::Located(Vec::new()),
        }
    }
}

/// Which of so many shards has the answer.
fn shard(ask: &Ask, of: usize) -> Option<usize> {
    let (Ask::Read { key } | Ask::Change { key, .. }) = ask else {
        return None;
    };
    // FNV-1a.
    let hash = key.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    Some((hash >> 32) as usize % of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_made_to_what_was_seen_and_to_nothing_else() {
        let record = |value: &[u8], expires_s: u64| Record {
            value: value.into(),
            expires: Some(Duration::from_secs(expires_s)),
        };
        let key: Box<[u8]> = b"key".as_slice().into();
        let store = Store::default();
        let ask = |wall_s, ask| store.clone().answer(Duration::from_secs(wall_s), ask);
        let change = |seen: Option<&Record>, next: Option<&Record>| Ask::Change {
            key: key.clone(),
            seen: seen.cloned(),
            next: next.cloned(),
        };
        let read = || Ask::Read { key: key.clone() };
        let (one, two) = (record(b"one", 10), record(b"two", 20));
        assert_eq!(ask(1, read()), Answer::Record(None));
        assert_eq!(ask(1, change(None, Some(&one))), Answer::Changed);
        assert_eq!(
            ask(2, change(None, Some(&two))),
            Answer::Record(Some(one.clone()))
        );
        assert_eq!(ask(3, change(Some(&one), Some(&two))), Answer::Changed);
        assert_eq!(ask(19, read()), Answer::Record(Some(two.clone())));
        assert_eq!(ask(20, read()), Answer::Record(None));
        assert_eq!(ask(20, change(None, Some(&one))), Answer::Changed);
        assert_eq!(ask(5, change(Some(&one), None)), Answer::Changed);
        assert_eq!(ask(5, read()), Answer::Record(None));
    }
}

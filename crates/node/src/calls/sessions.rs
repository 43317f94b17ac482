//! The sessions a worker owns: calls from their first request to the end of their last dialog,
//! and for 64*T1 more, so that strays still find their server.

use std::time::Duration;

use balance::ServerId;
use slots::Id;

use super::{
    dialogs::{Dialog, DialogId, Dialogs, tag_pair},
    session::{Life, Reason, Session, SessionId, millis},
};
use crate::wire::keys::SessionKey;

/// All sessions of a worker, active and expired, in memory that is laid out once.
#[derive(Debug)]
pub(crate) struct Sessions {
    /// Open addressing with linear probing; holds places in `entries` plus one.
    index: Vec<u32>,
    entries: Vec<Session>,
    free: Option<SessionId>,
    limit: usize,
    dialogs: Dialogs,
    /// The ends of the queue of expired sessions.
    oldest: Option<SessionId>,
    newest: Option<SessionId>,
    active: usize,
    expired: usize,
}

impl Sessions {
    /// A table for up to `limit` sessions; memory is touched only when used.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            index: vec![0; (limit * 2).next_power_of_two()],
            entries: Vec::with_capacity(limit),
            free: None,
            limit,
            dialogs: Dialogs::new(limit),
            oldest: None,
            newest: None,
            active: 0,
            expired: 0,
        }
    }

    pub(crate) fn active(&self) -> usize {
        self.active
    }

    pub(crate) fn expired(&self) -> usize {
        self.expired
    }

    pub(crate) fn find(&self, key: SessionKey) -> Option<SessionId> {
        let mut slot = self.slot(key);
        loop {
            let place = self.index[slot].checked_sub(1)? as usize;
            if self.entries[place].key == key {
                return Some(Id::at(place));
            }
            slot = (slot + 1) & (self.index.len() - 1);
        }
    }

    /// Every session, active or expired.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Session> {
        let taken = self.index.iter().filter_map(|slot| slot.checked_sub(1));
        taken.map(|place| &self.entries[place as usize])
    }

    pub(crate) fn get(&self, entry: SessionId) -> &Session {
        &self.entries[entry.place()]
    }

    pub(crate) fn get_mut(&mut self, entry: SessionId) -> &mut Session {
        &mut self.entries[entry.place()]
    }

    /// Whether an insertion needs an expired session to go first; none: all are active.
    pub(crate) fn is_full(&self) -> bool {
        self.active + self.expired >= self.limit
    }

    /// Adds an active session. The table must not be full and must not have the key.
    pub(crate) fn insert(
        &mut self,
        now: Duration,
        key: SessionKey,
        server: ServerId,
        reason: Reason,
    ) -> SessionId {
        debug_assert!(!self.is_full() && self.find(key).is_none());
        let session = Session::new(now, key, server, reason);
        let entry = match self.free {
            None => {
                self.entries.push(session);
                Id::at(self.entries.len() - 1)
            }
            Some(entry) => {
                self.free = self.get(entry).newer;
                *self.get_mut(entry) = session;
                entry
            }
        };
        let mut slot = self.slot(key);
        while self.index[slot] != 0 {
            slot = (slot + 1) & (self.index.len() - 1);
        }
        self.index[slot] = entry.place() as u32 + 1;
        self.active += 1;
        entry
    }

    /// An active session is over: it counts no longer, and is kept for strays.
    pub(crate) fn expire(&mut self, now: Duration, entry: SessionId) {
        debug_assert_eq!(self.get(entry).life, Life::Active);
        self.drop_dialogs(entry);
        self.active -= 1;
        self.expired += 1;
        let newest = self.newest.replace(entry);
        let session = self.get_mut(entry);
        session.life = Life::Expired;
        session.seen_ms = millis(now);
        session.older = newest;
        session.newer = None;
        match newest {
            None => self.oldest = Some(entry),
            Some(newest) => self.get_mut(newest).newer = Some(entry),
        }
    }

    /// An expired session has a new request: it lives again.
    pub(crate) fn revive(&mut self, now: Duration, entry: SessionId) {
        self.unlink_expired(entry);
        self.expired -= 1;
        self.active += 1;
        let session = self.get_mut(entry);
        session.life = Life::Active;
        session.opened_ms = millis(now);
        session.seen_ms = millis(now);
        session.checks = 0;
        session.interval_s = 0;
    }

    /// Forgets the oldest expired session if it expired before `before`.
    pub(crate) fn forget_expired(&mut self, before: Duration) -> bool {
        let is_due = |entry| millis(before).wrapping_sub(self.get(entry).seen_ms) as i32 > 0;
        self.oldest.is_some_and(is_due) && self.forget_oldest()
    }

    /// Forgets the oldest expired session, if there is one.
    pub(crate) fn forget_oldest(&mut self) -> bool {
        if let Some(entry) = self.oldest {
            self.forget(entry);
            return true;
        }
        false
    }

    /// Forgets an expired session.
    pub(crate) fn forget(&mut self, entry: SessionId) {
        self.unlink_expired(entry);
        self.expired -= 1;
        self.remove_from_index(self.get(entry).key);
        let free = self.free.replace(entry);
        self.get_mut(entry).newer = free;
    }

    /// When the oldest expired session expired.
    pub(crate) fn oldest_expiry(&self, now: Duration) -> Option<Duration> {
        let oldest = self.oldest?;
        Some(now.saturating_sub(self.get(oldest).silence(now)))
    }

    /// Adds a dialog unless the session has, or just had, one with these tags. False: there is no room.
    pub(crate) fn add_dialog(&mut self, entry: SessionId, id: DialogId<'_>) -> bool {
        let tags = tag_pair(id.client_tag, id.server_tag);
        if self.has_dialog_of(entry, tags) || self.get(entry).ended == tags {
            return true;
        }
        let head = &mut self.entries[entry.place()].dialogs;
        self.dialogs.add(head, id)
    }

    /// Removes the dialog with this [`tag_pair`]. True: there was one.
    pub(crate) fn remove_dialog(&mut self, entry: SessionId, pair: u32) -> bool {
        let session = &mut self.entries[entry.place()];
        let was_there = self.dialogs.remove(&mut session.dialogs, pair);
        if was_there {
            session.ended = pair;
        }
        was_there
    }

    /// Removes all dialogs.
    pub(crate) fn drop_dialogs(&mut self, entry: SessionId) {
        let head = &mut self.entries[entry.place()].dialogs;
        self.dialogs.clear(head);
    }

    pub(crate) fn has_dialog(&self, entry: SessionId) -> bool {
        self.get(entry).dialogs.is_some()
    }

    /// Whether the session has the dialog with this [`tag_pair`].
    pub(crate) fn has_dialog_of(&self, entry: SessionId, pair: u32) -> bool {
        self.dialogs_of(entry).any(|dialog| dialog.tags == pair)
    }

    /// Notes that a 2xx of the dialog with this [`tag_pair`] has its ACK, or waits for it.
    pub(crate) fn set_acknowledged(&mut self, entry: SessionId, pair: u32, is_acknowledged: bool) {
        let head = self.get(entry).dialogs;
        if let Some(dialog) = self.dialogs.find_mut(head, pair) {
            dialog.is_acknowledged = is_acknowledged;
        }
    }

    /// A dialog with a 2xx that waits for its ACK: its [`tag_pair`].
    pub(crate) fn unacknowledged(&self, entry: SessionId) -> Option<u32> {
        let mut dialogs = self.dialogs_of(entry);
        Some(dialogs.find(|dialog| !dialog.is_acknowledged)?.tags)
    }

    /// A dialog of the session, if its identity was short enough to keep.
    pub(crate) fn dialog(&self, entry: SessionId) -> Option<DialogId<'_>> {
        self.dialogs_of(entry).next()?.id()
    }

    /// Where the server side of the dialog with this [`tag_pair`] is.
    pub(crate) fn server_of_dialog(&self, entry: SessionId, pair: u32) -> Option<ServerId> {
        let mut dialogs = self.dialogs_of(entry);
        Some(dialogs.find(|dialog| dialog.tags == pair)?.server)
    }

    /// Where a session's dialogs are: at its own server, if any is there, else at that of another.
    pub(crate) fn server_of_dialogs(&self, entry: SessionId) -> Option<ServerId> {
        let own = self.get(entry).server;
        let servers = self.dialogs_of(entry).map(|dialog| dialog.server);
        servers.reduce(|first, next| if next == own { next } else { first })
    }

    fn dialogs_of(&self, entry: SessionId) -> impl Iterator<Item = &Dialog> {
        self.dialogs.iter(self.get(entry).dialogs)
    }

    fn unlink_expired(&mut self, entry: SessionId) {
        debug_assert_eq!(self.get(entry).life, Life::Expired);
        let (older, newer) = (self.get(entry).older, self.get(entry).newer);
        match older {
            None => self.oldest = newer,
            Some(older) => self.get_mut(older).newer = newer,
        }
        match newer {
            None => self.newest = older,
            Some(newer) => self.get_mut(newer).older = older,
        }
    }

    fn slot(&self, key: SessionKey) -> usize {
        key.bits() as usize & (self.index.len() - 1)
    }

    /// Closes the gap by moving later entries of the same run up, so that no tombstones remain.
    fn remove_from_index(&mut self, key: SessionKey) {
        let mask = self.index.len() - 1;
        let mut gap = self.slot(key);
        while self.entries[self.index[gap] as usize - 1].key != key {
            gap = (gap + 1) & mask;
        }
        let mut slot = gap;
        loop {
            slot = (slot + 1) & mask;
            let Some(entry) = self.index[slot].checked_sub(1) else {
                break;
            };
            let home = self.slot(self.entries[entry as usize].key);
            if slot.wrapping_sub(home) & mask >= slot.wrapping_sub(gap) & mask {
                self.index[gap] = entry + 1;
                gap = slot;
            }
        }
        self.index[gap] = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::wire::keys::Keys;

    fn key(number: u32) -> SessionKey {
        Keys::new(b"secret", None).session(&number.to_be_bytes())
    }

    fn id<'a>(server_tag: &'a [u8]) -> DialogId<'a> {
        DialogId {
            server: ServerId(1),
            call_id: b"call",
            client_tag: b"alice",
            server_tag,
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u32),
        Expire(u32),
        Revive(u32),
        ForgetOldest,
    }

    fn step() -> impl Strategy<Value = Step> {
        let number = 0_u32..40;
        prop_oneof![
            3 => number.clone().prop_map(Step::Insert),
            2 => number.clone().prop_map(Step::Expire),
            1 => number.prop_map(Step::Revive),
            1 => Just(Step::ForgetOldest),
        ]
    }

    proptest! {
        #[test]
        fn table_equals_a_map(steps in prop::collection::vec(step(), 0..400)) {
            let mut table = Sessions::new(16);
            let mut model: BTreeMap<u32, Life> = BTreeMap::new();
            let mut fifo: Vec<u32> = Vec::new();
            let now = Duration::from_secs(1);
            for step in steps {
                match step {
                    Step::Insert(n) if !table.is_full() && !model.contains_key(&n) => {
                        let entry = table.insert(now, key(n), ServerId(n as u16), Reason::Placed);
                        prop_assert!(table.add_dialog(entry, id(b"bob")));
                        model.insert(n, Life::Active);
                    }
                    Step::Expire(n) if model.get(&n) == Some(&Life::Active) => {
                        table.expire(now, table.find(key(n)).unwrap());
                        model.insert(n, Life::Expired);
                        fifo.push(n);
                    }
                    Step::Revive(n) if model.get(&n) == Some(&Life::Expired) => {
                        table.revive(now, table.find(key(n)).unwrap());
                        model.insert(n, Life::Active);
                        fifo.retain(|&other| other != n);
                    }
                    Step::ForgetOldest => {
                        prop_assert_eq!(table.forget_oldest(), !fifo.is_empty());
                        if !fifo.is_empty() {
                            model.remove(&fifo.remove(0));
                        }
                    }
                    _ => {}
                }
                for n in 0..40 {
                    let found = table.find(key(n)).map(|entry| table.get(entry));
                    prop_assert_eq!(found.map(|s| s.life), model.get(&n).copied());
                    prop_assert!(found.is_none_or(|s| s.server == ServerId(n as u16)));
                }
                let active = model.values().filter(|&&life| life == Life::Active).count();
                prop_assert_eq!((table.active(), table.expired()), (active, model.len() - active));
            }
        }
    }

    #[test]
    fn forks_are_dialogs_of_their_own() {
        let mut table = Sessions::new(4);
        let entry = table.insert(Duration::ZERO, key(1), ServerId(1), Reason::Placed);
        assert!(table.add_dialog(entry, id(b"bob")));
        assert!(table.add_dialog(entry, id(b"carol")));
        let dialogs = |table: &Sessions| table.dialogs_of(entry).count();
        assert!(table.add_dialog(entry, id(b"bob")));
        assert_eq!(dialogs(&table), 2, "a retransmitted 2xx is no new dialog");
        table.remove_dialog(entry, tag_pair(b"alice", b"bob"));
        assert!(table.add_dialog(entry, id(b"bob")));
        assert_eq!(dialogs(&table), 1, "nor is one that comes after its end");
        assert_eq!(table.dialog(entry), Some(id(b"carol")));
        table.remove_dialog(entry, tag_pair(b"carol", b"alice"));
        assert!(!table.has_dialog(entry));
    }

    #[test]
    fn an_identity_too_long_to_keep_still_counts_as_a_dialog() {
        let mut table = Sessions::new(1);
        let entry = table.insert(Duration::ZERO, key(1), ServerId(1), Reason::Placed);
        assert!(table.add_dialog(entry, id(&[b'x'; 200])));
        assert!(table.has_dialog(entry));
        assert_eq!(table.dialog(entry), None);
    }

    #[test]
    fn expired_sessions_are_forgotten_after_their_time() {
        let mut table = Sessions::new(2);
        let entry = table.insert(Duration::ZERO, key(1), ServerId(1), Reason::Placed);
        table.expire(Duration::from_secs(10), entry);
        assert!(!table.forget_expired(Duration::from_secs(10)));
        assert!(table.forget_expired(Duration::from_secs(11)));
        assert_eq!(table.find(key(1)), None);
    }
}

//! The sessions a worker owns: calls from their first request to the end of their last dialog,
//! and for 64*T1 more, so that strays still find their server.

use std::time::Duration;

use balance::ServerId;

use crate::keys::{SessionKey, tag_hash};

/// No entry.
pub(crate) const NONE: u32 = u32::MAX;
/// The attempt of a session that has moved to the server of a dialog: where its initial request
/// failed is no longer known.
const ELSEWHERE: u8 = u8::MAX;

/// What the node knows of one call. Kept small: there may be a million.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) key: SessionKey,
    /// The first of its open transactions.
    pub(crate) transactions: u32,
    dialogs: u32,
    older: u32,
    newer: u32,
    /// Hash of the tag of whoever started it.
    pub(crate) starter_tag: u32,
    /// Low bits of the identity of its initial request's transaction.
    initial: u32,
    /// The next CSeq to come, by [`Direction`](crate::token::Direction); a request below it is a retransmission.
    pub(crate) cseq_next: [u32; 2],
    opened_ms: u32,
    /// When it expired, or when it was last known alive.
    seen_ms: u32,
    /// The [`tag_pair`] of the dialog that ended last: its 2xx may come once more.
    ended: u32,
    /// Seconds of silence after which its dialog is over. RFC 4028; 0: not said.
    pub(crate) interval_s: u32,
    pub(crate) server: ServerId,
    /// How often the initial request was placed again, or [`ELSEWHERE`].
    attempt: u8,
    /// Unanswered re-checks.
    pub(crate) checks: u8,
    pub(crate) state: State,
    pub(crate) reason: Reason,
    /// It is counted as an open call of its server.
    pub(crate) is_call: bool,
    /// The server started it.
    pub(crate) from_server: bool,
}

/// Whether a session is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Active,
    Expired,
}

/// Why a session is on its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The pool's policy chose it.
    Placed,
    /// The server chosen first did not answer; the policy chose again.
    FailedOver,
    /// An affinity token named it.
    Token,
    /// Its request named a dialog that is there (Replaces, Join, Target-Dialog).
    NamedDialog,
    /// It answered a request that this node had not placed.
    Answered,
    /// The server itself started the call.
    Originated,
}

/// One dialog of a session, for telling forks apart and for asking whether it still lives.
#[derive(Clone, Debug)]
struct Dialog {
    next: u32,
    /// Its [`tag_pair`].
    tags: u32,
    server: ServerId,
    call_id_len: u8,
    client_tag_len: u8,
    server_tag_len: u8,
    /// No 2xx of it waits for its ACK.
    is_acknowledged: bool,
    text: [u8; Self::TEXT_BYTES],
}

impl Dialog {
    /// Longer identities are not kept; such a dialog can't be re-checked.
    const TEXT_BYTES: usize = 114;
}

const _: () = assert!(size_of::<Dialog>() <= 128 && size_of::<Session>() <= 72);

/// The identity of a dialog, to build a request within it. RFC 3261 §12
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DialogId<'a> {
    /// Where its server side is: where forks of a call answer at several servers, not always the
    /// session's.
    pub(crate) server: ServerId,
    /// Empty: the dialog can't be re-checked.
    pub(crate) call_id: &'a [u8],
    pub(crate) client_tag: &'a [u8],
    pub(crate) server_tag: &'a [u8],
}

/// All sessions of a worker, active and expired, in memory that is laid out once.
#[derive(Debug)]
pub(crate) struct Sessions {
    /// Open addressing with linear probing; holds places in `entries` plus one.
    index: Vec<u32>,
    entries: Vec<Session>,
    free: u32,
    limit: usize,
    dialogs: Vec<Dialog>,
    free_dialog: u32,
    oldest: u32,
    newest: u32,
    active: usize,
    expired: usize,
}

impl Sessions {
    /// A table for up to `limit` sessions; memory is touched only when used.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            index: vec![0; (limit * 2).next_power_of_two()],
            entries: Vec::with_capacity(limit),
            free: NONE,
            limit,
            dialogs: Vec::with_capacity(limit),
            free_dialog: NONE,
            oldest: NONE,
            newest: NONE,
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

    pub(crate) fn find(&self, key: SessionKey) -> Option<u32> {
        let mut slot = self.slot(key);
        loop {
            let entry = self.index[slot].checked_sub(1)?;
            if self.entries[entry as usize].key == key {
                return Some(entry);
            }
            slot = (slot + 1) & (self.index.len() - 1);
        }
    }

    /// Every session, active or expired.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Session> {
        let taken = self.index.iter().filter_map(|slot| slot.checked_sub(1));
        taken.map(|entry| self.get(entry))
    }

    pub(crate) fn get(&self, entry: u32) -> &Session {
        &self.entries[entry as usize]
    }

    pub(crate) fn get_mut(&mut self, entry: u32) -> &mut Session {
        &mut self.entries[entry as usize]
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
    ) -> u32 {
        debug_assert!(!self.is_full() && self.find(key).is_none());
        let session = Session::new(now, key, server, reason);
        let entry = if self.free == NONE {
            self.entries.push(session);
            self.entries.len() as u32 - 1
        } else {
            let entry = self.free;
            self.free = self.entries[entry as usize].newer;
            self.entries[entry as usize] = session;
            entry
        };
        let mut slot = self.slot(key);
        while self.index[slot] != 0 {
            slot = (slot + 1) & (self.index.len() - 1);
        }
        self.index[slot] = entry + 1;
        self.active += 1;
        entry
    }

    /// An active session is over: it counts no longer, and is kept for strays.
    pub(crate) fn expire(&mut self, now: Duration, entry: u32) {
        debug_assert_eq!(self.get(entry).state, State::Active);
        self.drop_dialogs(entry);
        self.active -= 1;
        self.expired += 1;
        let newest = std::mem::replace(&mut self.newest, entry);
        let session = self.get_mut(entry);
        session.state = State::Expired;
        session.seen_ms = millis(now);
        session.older = newest;
        session.newer = NONE;
        match newest {
            NONE => self.oldest = entry,
            newest => self.get_mut(newest).newer = entry,
        }
    }

    /// An expired session has a new request: it lives again.
    pub(crate) fn revive(&mut self, now: Duration, entry: u32) {
        self.unlink_expired(entry);
        self.expired -= 1;
        self.active += 1;
        let session = self.get_mut(entry);
        session.state = State::Active;
        session.opened_ms = millis(now);
        session.seen_ms = millis(now);
        session.checks = 0;
        session.interval_s = 0;
    }

    /// Forgets the oldest expired session if it expired before `before`.
    pub(crate) fn forget_expired(&mut self, before: Duration) -> bool {
        let entry = self.oldest;
        if entry == NONE || millis(before).wrapping_sub(self.get(entry).seen_ms) as i32 <= 0 {
            return false;
        }
        self.forget_oldest()
    }

    /// Forgets the oldest expired session, if there is one.
    pub(crate) fn forget_oldest(&mut self) -> bool {
        let entry = self.oldest;
        if entry != NONE {
            self.forget(entry);
        }
        entry != NONE
    }

    /// Forgets an expired session.
    pub(crate) fn forget(&mut self, entry: u32) {
        self.unlink_expired(entry);
        self.expired -= 1;
        self.remove_from_index(self.get(entry).key);
        let free = std::mem::replace(&mut self.free, entry);
        self.get_mut(entry).newer = free;
    }

    /// When the oldest expired session expired.
    pub(crate) fn oldest_expiry(&self, now: Duration) -> Option<Duration> {
        (self.oldest != NONE).then(|| now.saturating_sub(self.get(self.oldest).silence(now)))
    }

    /// Adds a dialog unless the session has, or just had, one with these tags. True: it is new.
    pub(crate) fn add_dialog(&mut self, entry: u32, id: DialogId<'_>) -> bool {
        let tags = tag_pair(id.client_tag, id.server_tag);
        if self.has_dialog_of(entry, tags) || self.get(entry).ended == tags {
            return false;
        }
        let dialog = Dialog::new(self.get(entry).dialogs, tags, id);
        let place = if self.free_dialog != NONE {
            let place = self.free_dialog;
            self.free_dialog = self.dialogs[place as usize].next;
            self.dialogs[place as usize] = dialog;
            place
        } else if self.dialogs.len() < self.limit {
            self.dialogs.push(dialog);
            self.dialogs.len() as u32 - 1
        } else {
            return false;
        };
        self.get_mut(entry).dialogs = place;
        true
    }

    /// Removes the dialog with this [`tag_pair`]. True: there was one.
    pub(crate) fn remove_dialog(&mut self, entry: u32, pair: u32) -> bool {
        let mut before = NONE;
        let mut place = self.get(entry).dialogs;
        while place != NONE {
            let Dialog { next, tags, .. } = self.dialogs[place as usize];
            if tags == pair {
                match before {
                    NONE => self.get_mut(entry).dialogs = next,
                    before => self.dialogs[before as usize].next = next,
                }
                self.free(place);
                self.get_mut(entry).ended = pair;
                return true;
            }
            before = place;
            place = next;
        }
        false
    }

    /// Removes all dialogs.
    pub(crate) fn drop_dialogs(&mut self, entry: u32) {
        let mut place = std::mem::replace(&mut self.get_mut(entry).dialogs, NONE);
        while place != NONE {
            let next = self.dialogs[place as usize].next;
            self.free(place);
            place = next;
        }
    }

    pub(crate) fn has_dialog(&self, entry: u32) -> bool {
        self.get(entry).dialogs != NONE
    }

    /// Whether the session has the dialog with this [`tag_pair`].
    pub(crate) fn has_dialog_of(&self, entry: u32, pair: u32) -> bool {
        self.dialog_places(entry)
            .any(|place| self.dialogs[place as usize].tags == pair)
    }

    /// Notes that a 2xx of the dialog with this [`tag_pair`] has its ACK, or waits for it.
    pub(crate) fn set_acknowledged(&mut self, entry: u32, pair: u32, is_acknowledged: bool) {
        let place = self
            .dialog_places(entry)
            .find(|&place| self.dialogs[place as usize].tags == pair);
        if let Some(place) = place {
            self.dialogs[place as usize].is_acknowledged = is_acknowledged;
        }
    }

    /// A dialog with a 2xx that waits for its ACK: its [`tag_pair`].
    pub(crate) fn unacknowledged(&self, entry: u32) -> Option<u32> {
        self.dialog_places(entry)
            .map(|place| &self.dialogs[place as usize])
            .find(|dialog| !dialog.is_acknowledged)
            .map(|dialog| dialog.tags)
    }

    /// A dialog of the session, if its identity was short enough to keep.
    pub(crate) fn dialog(&self, entry: u32) -> Option<DialogId<'_>> {
        let place = self.dialog_places(entry).next()?;
        self.dialogs[place as usize].id()
    }

    /// Where the server side of the dialog with this [`tag_pair`] is.
    pub(crate) fn server_of_dialog(&self, entry: u32, pair: u32) -> Option<ServerId> {
        let mut dialogs = self
            .dialog_places(entry)
            .map(|place| &self.dialogs[place as usize]);
        Some(dialogs.find(|dialog| dialog.tags == pair)?.server)
    }

    /// Where a session's dialogs are: at its own server, if any is there, else at that of another.
    pub(crate) fn server_of_dialogs(&self, entry: u32) -> Option<ServerId> {
        let servers = self
            .dialog_places(entry)
            .map(|place| self.dialogs[place as usize].server);
        let own = self.get(entry).server;
        servers.reduce(|first, next| if next == own { next } else { first })
    }

    fn dialog_places(&self, entry: u32) -> impl Iterator<Item = u32> {
        let exists = |place: u32| (place != NONE).then_some(place);
        std::iter::successors(exists(self.get(entry).dialogs), move |&place| {
            exists(self.dialogs[place as usize].next)
        })
    }

    fn free(&mut self, place: u32) {
        self.dialogs[place as usize].next = self.free_dialog;
        self.free_dialog = place;
    }

    fn unlink_expired(&mut self, entry: u32) {
        debug_assert_eq!(self.get(entry).state, State::Expired);
        let (older, newer) = (self.get(entry).older, self.get(entry).newer);
        match older {
            NONE => self.oldest = newer,
            older => self.get_mut(older).newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.get_mut(newer).older = older,
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

impl Session {
    fn new(now: Duration, key: SessionKey, server: ServerId, reason: Reason) -> Self {
        Self {
            key,
            transactions: NONE,
            dialogs: NONE,
            older: NONE,
            newer: NONE,
            starter_tag: 0,
            initial: 0,
            cseq_next: [0; 2],
            opened_ms: millis(now),
            seen_ms: millis(now),
            ended: 0,
            interval_s: 0,
            server,
            attempt: 0,
            checks: 0,
            state: State::Active,
            reason,
            is_call: false,
            from_server: false,
        }
    }

    /// How often the request with this identity was placed again; none: its call has moved on.
    pub(crate) fn attempt(&self, id: u64) -> Option<u8> {
        if self.initial == id as u32 {
            (self.attempt != ELSEWHERE).then_some(self.attempt)
        } else {
            Some(0)
        }
    }

    /// How often its initial request was placed again, at least.
    pub(crate) fn placed_again(&self) -> u8 {
        if self.attempt == ELSEWHERE {
            1
        } else {
            self.attempt
        }
    }

    /// Notes at which attempt the request with this identity is, if it is the initial one.
    pub(crate) fn set_attempt(&mut self, id: u64, attempt: u8) {
        if self.initial == id as u32 {
            self.attempt = attempt;
        }
    }

    /// Whether the initial request, if this is it, is no longer at that attempt.
    pub(crate) fn has_left(&self, id: u64, attempt: u8) -> bool {
        self.initial == id as u32 && self.attempt != attempt
    }

    /// A new initial request, with this identity.
    pub(crate) fn begin(&mut self, id: u64) {
        (self.initial, self.attempt) = (id as u32, 0);
    }

    /// The session is at another server, because a dialog is; not because its initial request was
    /// placed there last.
    pub(crate) fn move_to_dialog(&mut self) {
        self.attempt = ELSEWHERE;
    }

    /// Time since the session began.
    pub(crate) fn age(&self, now: Duration) -> Duration {
        self.age_of(now, |session| session.opened_ms)
    }

    /// Time since the dialog was last known alive, or since the session expired.
    pub(crate) fn silence(&self, now: Duration) -> Duration {
        self.age_of(now, |session| session.seen_ms)
    }

    /// The dialog is alive.
    pub(crate) fn seen(&mut self, now: Duration) {
        self.seen_ms = millis(now);
        self.checks = 0;
    }

    fn age_of(&self, now: Duration, since: impl FnOnce(&Self) -> u32) -> Duration {
        Duration::from_millis(millis(now).wrapping_sub(since(self)).into())
    }
}

impl Dialog {
    fn new(next: u32, tags: u32, id: DialogId<'_>) -> Self {
        let mut dialog = Self {
            next,
            tags,
            server: id.server,
            call_id_len: 0,
            client_tag_len: 0,
            server_tag_len: 0,
            is_acknowledged: true,
            text: [0; Self::TEXT_BYTES],
        };
        let parts = [id.call_id, id.client_tag, id.server_tag];
        if parts.iter().map(|part| part.len()).sum::<usize>() <= Self::TEXT_BYTES {
            let mut start = 0;
            for part in parts {
                dialog.text[start..start + part.len()].copy_from_slice(part);
                start += part.len();
            }
            let lengths = parts.map(|part| part.len() as u8);
            [
                dialog.call_id_len,
                dialog.client_tag_len,
                dialog.server_tag_len,
            ] = lengths;
        }
        dialog
    }

    fn id(&self) -> Option<DialogId<'_>> {
        let (call_id, rest) = self.text.split_at(self.call_id_len.into());
        let (client_tag, rest) = rest.split_at(self.client_tag_len.into());
        let server_tag = &rest[..self.server_tag_len.into()];
        (!call_id.is_empty()).then_some(DialogId {
            server: self.server,
            call_id,
            client_tag,
            server_tag,
        })
    }
}

/// Tells the dialogs of a call apart by their tags, whichever side they are read from.
pub(crate) fn tag_pair(one: &[u8], other: &[u8]) -> u32 {
    tag_hash(one).wrapping_add(tag_hash(other))
}

/// Milliseconds, wrapping after 49 days: only differences are used.
fn millis(at: Duration) -> u32 {
    at.as_millis() as u32
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::keys::Keys;

    fn key(number: u32) -> SessionKey {
        Keys::new(b"secret").session(&number.to_be_bytes())
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
            let mut model: BTreeMap<u32, State> = BTreeMap::new();
            let mut fifo: Vec<u32> = Vec::new();
            let now = Duration::from_secs(1);
            for step in steps {
                match step {
                    Step::Insert(n) if !table.is_full() && !model.contains_key(&n) => {
                        let entry = table.insert(now, key(n), ServerId(n as u16), Reason::Placed);
                        prop_assert!(table.add_dialog(entry, id(b"bob")));
                        model.insert(n, State::Active);
                    }
                    Step::Expire(n) if model.get(&n) == Some(&State::Active) => {
                        table.expire(now, table.find(key(n)).unwrap());
                        model.insert(n, State::Expired);
                        fifo.push(n);
                    }
                    Step::Revive(n) if model.get(&n) == Some(&State::Expired) => {
                        table.revive(now, table.find(key(n)).unwrap());
                        model.insert(n, State::Active);
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
                    prop_assert_eq!(found.map(|s| s.state), model.get(&n).copied());
                    prop_assert!(found.is_none_or(|s| s.server == ServerId(n as u16)));
                }
                let active = model.values().filter(|&&state| state == State::Active).count();
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
        assert!(
            !table.add_dialog(entry, id(b"bob")),
            "a retransmitted 2xx is no new dialog"
        );
        table.remove_dialog(entry, tag_pair(b"alice", b"bob"));
        assert!(
            !table.add_dialog(entry, id(b"bob")),
            "nor is one that comes after its end"
        );
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

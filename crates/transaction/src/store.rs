//! All transactions of a worker.

use std::{
    collections::HashMap,
    fmt,
    hash::{BuildHasherDefault, Hasher},
    mem,
    time::Duration,
};

use sip::Message;
use slots::{Buffers, Id, Kept, Table};

use crate::{
    Action, Flow, Input, Key, Notice, Role, Sender, State, Timer, Timing,
    derived::{write_ack, write_cancel},
    invite_client, invite_server, other_client, other_server,
};

const NEVER: Duration = Duration::MAX;

/// What the message of a transaction may take of the memory for all of them. Shorter ones leave their
/// rest to longer ones.
const SHARE_BYTES: usize = 4096;

/// The store holds as many transactions as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there are as many transactions as the limit allows")
    }
}

impl std::error::Error for Full {}

/// What a request that came again means to the transaction user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Nothing: the transaction has done what there was to do.
    Absorbed,
    /// It is the ACK of a 2xx, which the transaction user passes on. RFC 6026 §7.1
    Ack,
}

/// Something that the transaction user must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<O> {
    /// The transaction.
    pub id: Id<Transaction<O>>,
    /// Whose it is.
    pub owner: O,
    /// What happened.
    pub notice: Notice,
}

/// The transactions of a worker, up to a limit. Each names its owner by an `O`; a CANCEL that a
/// transaction sends for itself has none.
#[derive(Debug)]
pub struct Transactions<O> {
    entries: Table<Transaction<O>>,
    index: HashMap<Key, Id<Transaction<O>>, BuildHasherDefault<OneWord>>,
    buffers: Buffers,
    message_bytes: usize,
    timing: Timing,
}

/// One side of a request and its responses. RFC 3261 §17
#[derive(Debug)]
pub struct Transaction<O> {
    key: Key,
    state: State,
    owner: Option<O>,
    flow: Flow,
    /// What was sent last, while it may have to be sent again.
    bytes: Kept,
    /// When the timer that repeats or asks is due, and how long it runs.
    repeats_at: Duration,
    interval: Duration,
    /// When the timer that ends the state is due.
    ends_at: Duration,
    cancel: Cancel,
    /// Bytes that a server transaction may still send without being asked again.
    unasked: usize,
}

/// Whether an INVITE that we sent is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cancel {
    No,
    /// As soon as anything comes back.
    Wanted,
    Sent,
}

impl<O: Copy> Transactions<O> {
    /// An empty store for up to `limit` transactions; its memory is touched only when used. Their
    /// messages, of up to `message_bytes` each, take no more than 4096 bytes on average.
    #[must_use]
    pub fn new(limit: usize, message_bytes: usize, timing: Timing, now: Duration) -> Self {
        let budget = limit.saturating_mul(SHARE_BYTES);
        Self {
            entries: Table::new(limit, now),
            index: HashMap::with_capacity_and_hasher(limit, BuildHasherDefault::default()),
            buffers: Buffers::new(budget.saturating_add(2 * message_bytes)),
            message_bytes,
            timing,
        }
    }

    /// Has timers that are set from now on last as long as these.
    pub fn set_timing(&mut self, timing: Timing) {
        self.timing = timing;
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether there is room for so many more and their messages.
    #[must_use]
    pub fn has_room(&self, number: usize) -> bool {
        self.entries.has_room(number) && self.buffers.has_room(number * self.message_bytes)
    }

    /// Memory that their messages take, in bytes.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.buffers.kept_bytes()
    }

    /// The transaction of this name.
    #[must_use]
    pub fn find(&self, key: Key) -> Option<Id<Transaction<O>>> {
        self.index.get(&key).copied()
    }

    /// Whose a transaction is; none: it is a CANCEL's.
    #[must_use]
    pub fn owner(&self, id: Id<Transaction<O>>) -> Option<O> {
        self.entries.get(id).owner
    }

    /// Where a transaction stands.
    #[must_use]
    pub fn state(&self, id: Id<Transaction<O>>) -> State {
        self.entries.get(id).state
    }

    /// Which way a transaction's messages go.
    #[must_use]
    pub fn flow(&self, id: Id<Transaction<O>>) -> Flow {
        self.entries.get(id).flow
    }

    /// What a transaction sent last, while it may have to be sent again; else nothing.
    #[must_use]
    pub fn last_sent(&self, id: Id<Transaction<O>>) -> &[u8] {
        &self.entries.get(id).bytes
    }

    /// Opens the transaction of a request that came in.
    ///
    /// # Errors
    /// There is no room.
    pub fn receive(
        &mut self,
        now: Duration,
        key: Key,
        flow: Flow,
        owner: O,
    ) -> Result<Id<Transaction<O>>, Full> {
        debug_assert_eq!(key.role(), Role::Server);
        let state = if key.is_invite() {
            State::InviteServer(invite_server::State::Proceeding)
        } else {
            State::OtherServer(other_server::State::Trying)
        };
        self.open(now, key, flow, Some(owner), state)
    }

    /// Opens the transaction of a request that goes out, which `write` appends, and sends it.
    ///
    /// # Errors
    /// There is no room; nothing was sent.
    pub fn request(
        &mut self,
        now: Duration,
        key: Key,
        flow: Flow,
        owner: O,
        out: &mut impl Sender,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Id<Transaction<O>>, Full> {
        self.send_request(now, key, flow, Some(owner), out, write)
    }

    /// Lets a transaction repeat no more than so many bytes by itself, as its peer may be somebody who has asked for nothing:
    /// a client transaction what it has sent by Timer A or E, a server transaction by Timer G, all that it has answered
    /// included. What the sender of a request repeats is answered each time.
    pub fn limit_unasked(&mut self, id: Id<Transaction<O>>, bytes: usize) {
        self.entries.get_mut(id).unasked = bytes;
    }

    /// A request of a server transaction came again, or its ACK came.
    pub fn on_request(
        &mut self,
        now: Duration,
        id: Id<Transaction<O>>,
        is_ack: bool,
        out: &mut impl Sender,
    ) -> Seen {
        let input = if is_ack { Input::Ack } else { Input::Request };
        match self.step(now, id, input) {
            Action::Pass => Seen::Ack,
            Action::Send => {
                self.send(id, out);
                Seen::Absorbed
            }
            _ => Seen::Absorbed,
        }
    }

    /// Sends a response, which `write` appends, unless it is one too many or one that RFC 4320
    /// forbids. Without room for its copy it is sent once.
    pub fn respond(
        &mut self,
        now: Duration,
        id: Id<Transaction<O>>,
        status: u16,
        out: &mut impl Sender,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let state = self.entries.get(id).state;
        let is_forbidden =
            matches!(state, State::OtherServer(_)) && matches!(status, 101..200 | 408);
        let input = Input::of_status(status);
        if is_forbidden || state.on(input).1 != Action::Send {
            return;
        }
        self.keep(id, write);
        let entry = self.entries.get_mut(id);
        out.send(entry.flow, &entry.bytes);
        entry.unasked = entry.unasked.saturating_sub(entry.bytes.len());
        if matches!(entry.state.timers()[0], Some(Timer::Trying)) {
            entry.repeats_at = NEVER;
            self.arm(id);
        }
        self.step(now, id, input);
        if !self.entries.get(id).state.keeps_bytes() || !self.buffers.has_room(0) {
            self.release_bytes(id);
        }
    }

    /// A response came. Whether the transaction user is to have it.
    pub fn on_response(
        &mut self,
        now: Duration,
        id: Id<Transaction<O>>,
        response: &Message<'_>,
        out: &mut impl Sender,
    ) -> bool {
        let status = response.status().unwrap_or(u16::MAX);
        let action = self.step(now, id, Input::of_status(status));
        match action {
            Action::Send => self.send(id, out),
            Action::AckAndPass => self.acknowledge(id, response, out),
            Action::Pass if status < 200 => self.on_provisional(now, id, status, out),
            _ => {}
        }
        if !self.entries.get(id).state.keeps_bytes() {
            self.release_bytes(id);
        }
        let passes = matches!(action, Action::Pass | Action::AckAndPass);
        passes && self.entries.get(id).owner.is_some()
    }

    /// Cancels an INVITE that we sent and that has no final response: at once if anything has come
    /// back, else when something does. RFC 3261 §9.1
    pub fn cancel(&mut self, now: Duration, id: Id<Transaction<O>>, out: &mut impl Sender) {
        let entry = self.entries.get_mut(id);
        let State::InviteClient(state) = entry.state else {
            return;
        };
        if entry.cancel == Cancel::No {
            entry.cancel = Cancel::Wanted;
            if state == invite_client::State::Proceeding {
                self.send_cancel(now, id, out);
            }
        }
    }

    /// The peer of a transaction can't be reached. Whether the transaction is gone.
    pub fn on_transport_error(&mut self, now: Duration, id: Id<Transaction<O>>) -> bool {
        self.step(now, id, Input::TransportError);
        let is_over = self.entries.get(id).state.is_terminated();
        if is_over {
            self.remove(id);
        }
        is_over
    }

    /// Forgets a transaction, as if it had never been: nobody is told.
    pub fn forget(&mut self, id: Id<Transaction<O>>) {
        self.remove(id);
    }

    /// Does what is due, up to the next thing that the transaction user must know; none: all is
    /// done.
    pub fn poll(&mut self, now: Duration, out: &mut impl Sender) -> Option<Event<O>> {
        while let Some(id) = self.entries.pop_due(now) {
            let owner = self.entries.get(id).owner;
            if let (Some(notice), Some(owner)) = (self.on_timer(now, id, out), owner) {
                return Some(Event { id, owner, notice });
            }
        }
        None
    }

    /// When [`Self::poll`] wants to be called next, at the latest.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        self.entries.deadline()
    }

    fn send_request(
        &mut self,
        now: Duration,
        key: Key,
        flow: Flow,
        owner: Option<O>,
        out: &mut impl Sender,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Id<Transaction<O>>, Full> {
        debug_assert_eq!(key.role(), Role::Client);
        let state = if key.is_invite() {
            State::InviteClient(invite_client::State::Calling)
        } else {
            State::OtherClient(other_client::State::Trying)
        };
        let id = self.open(now, key, flow, owner, state)?;
        self.keep(id, write);
        out.send(flow, &self.entries.get(id).bytes);
        Ok(id)
    }

    fn open(
        &mut self,
        now: Duration,
        key: Key,
        flow: Flow,
        owner: Option<O>,
        state: State,
    ) -> Result<Id<Transaction<O>>, Full> {
        if !self.has_room(1) {
            return Err(Full);
        }
        let entry = Transaction {
            key,
            state,
            owner,
            flow,
            bytes: Kept::default(),
            repeats_at: NEVER,
            interval: NEVER,
            ends_at: NEVER,
            cancel: Cancel::No,
            unasked: usize::MAX,
        };
        let id = self.entries.insert(entry).ok_or(Full)?;
        self.index.insert(key, id);
        self.start_timers(now, id, [None, None]);
        Ok(id)
    }

    fn remove(&mut self, id: Id<Transaction<O>>) {
        let entry = self.entries.remove(id);
        if self.index.get(&entry.key) == Some(&id) {
            self.index.remove(&entry.key);
        }
        self.buffers.release(entry.bytes);
    }

    fn step(&mut self, now: Duration, id: Id<Transaction<O>>, input: Input) -> Action {
        let entry = self.entries.get_mut(id);
        let (next, action) = entry.state.on(input);
        if next != entry.state {
            let before = entry.state.timers();
            entry.state = next;
            self.start_timers(now, id, before);
        }
        action
    }

    /// Starts the timers of the state just entered, but those that ran before.
    fn start_timers(&mut self, now: Duration, id: Id<Transaction<O>>, before: [Option<Timer>; 2]) {
        let timing = self.timing;
        let entry = self.entries.get_mut(id);
        let after = entry.state.timers();
        let duration = |timer| timing.duration(timer, entry.flow.is_reliable());
        if after[0] != before[0] {
            entry.interval = after[0].and_then(duration).unwrap_or(NEVER);
            entry.repeats_at = now.saturating_add(entry.interval);
        }
        if after[1] != before[1] {
            let wait = after[1].and_then(duration).unwrap_or(NEVER);
            entry.ends_at = now.saturating_add(wait);
        }
        self.arm(id);
    }

    fn arm(&mut self, id: Id<Transaction<O>>) {
        let entry = self.entries.get(id);
        match entry.repeats_at.min(entry.ends_at) {
            NEVER => self.entries.disarm(id),
            at => self.entries.arm(id, at),
        }
    }

    fn on_timer(
        &mut self,
        now: Duration,
        id: Id<Transaction<O>>,
        out: &mut impl Sender,
    ) -> Option<Notice> {
        let timer = self.due_timer(now, id)?;
        let action = self.step(now, id, Input::Timer(timer));
        self.arm(id);
        match action {
            Action::Send if self.is_withheld(id, out) => {
                let is_first = self.entries.get(id).interval <= 2 * self.timing.t1;
                let is_over = !is_first && self.on_transport_error(now, id);
                return is_over.then_some(Notice::Withheld);
            }
            Action::Send => self.repeat(id, out),
            Action::AskTrying => return Some(Notice::Trying),
            Action::InformTimerC => return Some(Notice::TimerC),
            _ => {}
        }
        if !self.entries.get(id).state.is_terminated() {
            return None;
        }
        self.remove(id);
        if action == Action::InformTimeout {
            Some(Notice::Timeout)
        } else {
            Some(Notice::Ended)
        }
    }

    /// The timer that has run out; if it repeats, it runs again.
    fn due_timer(&mut self, now: Duration, id: Id<Transaction<O>>) -> Option<Timer> {
        let t2 = self.timing.t2;
        let entry = self.entries.get_mut(id);
        let [repeating, ending] = entry.state.timers();
        if entry.ends_at <= now {
            entry.ends_at = NEVER;
            // RFC 3261 §9.1: what is cancelled and still rings after 64*T1 is over.
            let is_cancelled = entry.cancel == Cancel::Sent && ending == Some(Timer::C);
            return if is_cancelled { Some(Timer::B) } else { ending };
        }
        let doubled = entry.interval.saturating_mul(2);
        entry.interval = match (repeating, entry.state) {
            (Some(Timer::A), _) => doubled,
            (_, State::OtherClient(other_client::State::Proceeding)) => t2,
            (Some(Timer::E | Timer::G), _) => doubled.min(t2),
            _ => NEVER,
        };
        entry.repeats_at = now.saturating_add(entry.interval);
        repeating
    }

    fn is_withheld(&self, id: Id<Transaction<O>>, out: &mut impl Sender) -> bool {
        let entry = self.entries.get(id);
        let is_invite = matches!(entry.state, State::InviteClient(_));
        is_invite && !out.may_repeat(entry.flow, &entry.bytes)
    }

    /// Sends the kept bytes again unless they are more than may go unasked.
    fn repeat(&mut self, id: Id<Transaction<O>>, out: &mut impl Sender) {
        let entry = self.entries.get_mut(id);
        let is_request = matches!(entry.state, State::InviteClient(_) | State::OtherClient(_));
        if is_request && let Some(part) = out.withdraws(entry.flow, &entry.bytes) {
            entry.bytes.remove(part);
        }
        if let Some(left) = entry.unasked.checked_sub(entry.bytes.len()) {
            entry.unasked = left;
            self.send(id, out);
        }
    }

    /// Sends the kept bytes again, if there are any.
    fn send(&self, id: Id<Transaction<O>>, out: &mut impl Sender) {
        let entry = self.entries.get(id);
        if !entry.bytes.is_empty() {
            out.send(entry.flow, &entry.bytes);
        }
    }

    fn acknowledge(
        &mut self,
        id: Id<Transaction<O>>,
        failure: &Message<'_>,
        out: &mut impl Sender,
    ) {
        let entry = self.entries.get_mut(id);
        let invite = &entry.bytes;
        let ack = self
            .buffers
            .keep_written(|out| write_ack(invite, failure, out));
        self.buffers.release(mem::replace(&mut entry.bytes, ack));
        self.send(id, out);
    }

    /// RFC 3261 §16.7 step 2: ringing starts Timer C again. What was to be cancelled can be.
    fn on_provisional(
        &mut self,
        now: Duration,
        id: Id<Transaction<O>>,
        status: u16,
        out: &mut impl Sender,
    ) {
        let entry = self.entries.get_mut(id);
        let State::InviteClient(_) = entry.state else {
            return;
        };
        match entry.cancel {
            Cancel::No if status > 100 => {
                entry.ends_at = now + self.timing.c;
                self.arm(id);
            }
            Cancel::Wanted => self.send_cancel(now, id, out),
            Cancel::No | Cancel::Sent => {}
        }
    }

    fn send_cancel(&mut self, now: Duration, id: Id<Transaction<O>>, out: &mut impl Sender) {
        let ends_at = self.timing.duration(Timer::B, false);
        let entry = self.entries.get_mut(id);
        entry.ends_at = ends_at.map_or(NEVER, |wait| now + wait);
        entry.cancel = Cancel::Sent;
        self.arm(id);
        let mut bytes = self.buffers.take();
        let Transaction { key, flow, .. } = *self.entries.get(id);
        write_cancel(&self.entries.get(id).bytes, &mut bytes);
        let write = |out: &mut Vec<u8>| out.extend_from_slice(&bytes);
        // Without room for its transaction it goes out once.
        if self
            .send_request(now, key.cancel(), flow, None, out, write)
            .is_err()
        {
            out.send(flow, &bytes);
        }
        self.buffers.give(bytes);
    }

    /// Keeps what `write` appends as what was sent last.
    fn keep(&mut self, id: Id<Transaction<O>>, write: impl FnOnce(&mut Vec<u8>)) {
        self.release_bytes(id);
        self.entries.get_mut(id).bytes = self.buffers.keep_written(write);
    }

    fn release_bytes(&mut self, id: Id<Transaction<O>>) {
        let bytes = mem::take(&mut self.entries.get_mut(id).bytes);
        self.buffers.release(bytes);
    }
}

/// Takes a [`Key`] as its own hash.
#[derive(Debug, Default)]
struct OneWord(u64);

impl Hasher for OneWord {
    fn write(&mut self, _: &[u8]) {
        unreachable!("a key hashes as one word");
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

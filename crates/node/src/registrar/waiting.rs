//! Requests that wait for the store.

use std::{collections::BTreeMap, time::Duration};

use location::UsedNonce;
use overload::{Limit, Wait};
use slots::{Buffers, Id, Table, Ticket};
use transaction::Flow;

use super::keep_alives;
use crate::{
    question::Answer,
    wire::{
        kept::{KeptRequest, copies_of},
        request::Request,
    },
};

/// How long a request waits for the store, all its questions together.
pub(crate) const STORE_WAIT_MAX: Duration = Duration::from_secs(3);

/// A request that waits for the store, and what is known of it meanwhile.
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    id: u64,
    /// Its last question; none: it has its answer.
    question: Option<Wait>,
    pub(crate) request: KeptRequest,
    pub(crate) progress: T,
}

/// How far a REGISTER has come.
#[derive(Debug)]
pub(super) struct Progress {
    pub(super) step: Step,
    /// Its credentials were used before: it may not change anything.
    pub(super) is_replay: bool,
    /// The nonce of its credentials, once they are accepted.
    pub(super) used_nonce: Option<UsedNonce>,
    pub(super) tries: u8,
    /// Bindings that the change it waits for makes or refreshes, and takes away.
    pub(super) bound: usize,
    pub(super) unbound: usize,
    /// What becomes of keep-alives then.
    pub(super) keep_alives: Option<keep_alives::Change>,
    /// What it is answered once that is done, by its status and its bytes.
    pub(super) status: u16,
    pub(super) reply: Vec<u8>,
    /// And where.
    pub(super) reply_to: Flow,
}

/// What the store is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The secret of whoever registers.
    Subscriber,
    /// The user's bindings.
    Bindings,
    /// To change them.
    Change,
}

impl<T> Waiting<T> {
    /// It asks the store something.
    pub(super) fn asks(&mut self, now: Duration, store: &Limit) {
        self.question = Some(store.begin(now, true));
    }

    /// The store has answered. That it failed tells nothing of its speed.
    pub(super) fn is_answered(&mut self, now: Duration, store: &Limit, answer: &Answer) {
        match self.question.take() {
            None => {}
            Some(question) if *answer == Answer::Failed => store.end(question),
            Some(question) => store.answered(now, Duration::ZERO, question),
        }
    }

    /// It waits no longer for the store.
    pub(super) fn gives_up(&mut self, now: Duration, store: &Limit) {
        if let Some(question) = self.question.take() {
            store.silent(now, question);
        }
    }
}

impl Progress {
    pub(super) fn new(step: Step, request: &Request<'_>, reply: Vec<u8>) -> Self {
        Self {
            step,
            is_replay: false,
            used_nonce: None,
            tries: 0,
            bound: 0,
            unbound: 0,
            keep_alives: None,
            status: 0,
            reply,
            reply_to: request.datagram.flow,
        }
    }
}

/// All requests of a kind that wait on a worker.
#[derive(Debug)]
pub(super) struct Waitings<T> {
    table: Table<Waiting<T>>,
    by_id: BTreeMap<u64, Id<Waiting<T>>>,
    copies: Buffers,
}

impl<T> Waitings<T> {
    pub(super) fn new(limit: usize, message_bytes: usize, now: Duration) -> Self {
        Self {
            table: Table::new(limit, now),
            by_id: BTreeMap::new(),
            copies: copies_of(limit, message_bytes),
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.table.has_room(1)
    }

    /// Lets a request wait; none when there is no room.
    pub(super) fn open(
        &mut self,
        now: Duration,
        request: &Request<'_>,
        progress: impl FnOnce(&mut Buffers) -> T,
    ) -> Option<Id<Waiting<T>>> {
        let waiting = Waiting {
            id: request.id,
            question: None,
            request: KeptRequest::new(request, &mut self.copies)?,
            progress: progress(&mut self.copies),
        };
        let place = self.table.insert(waiting)?;
        self.by_id.insert(request.id, place);
        self.table.arm(place, now + STORE_WAIT_MAX);
        Some(place)
    }

    /// Lets a request wait no longer; [`Self::release`] is to follow.
    pub(super) fn take(&mut self, place: Id<Waiting<T>>) -> Waiting<T> {
        let taken = self.table.remove(place);
        self.by_id.remove(&taken.id);
        taken
    }

    /// Gives the memory of a request back.
    pub(super) fn release(&mut self, taken: Waiting<T>) -> T {
        self.copies.release(taken.request.bytes);
        taken.progress
    }

    /// Whether the request with this identity waits.
    pub(super) fn has(&self, id: u64) -> bool {
        self.by_id.contains_key(&id)
    }

    pub(super) fn ticket(&self, place: Id<Waiting<T>>) -> Ticket {
        self.table.ticket(place)
    }

    pub(super) fn find(&self, ticket: Ticket) -> Option<Id<Waiting<T>>> {
        self.table.find(ticket)
    }

    pub(super) fn get(&self, place: Id<Waiting<T>>) -> &Waiting<T> {
        self.table.get(place)
    }

    pub(super) fn get_mut(&mut self, place: Id<Waiting<T>>) -> &mut Waiting<T> {
        self.table.get_mut(place)
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Memory that they take, in bytes.
    pub(super) fn kept_bytes(&self) -> usize {
        self.copies.kept_bytes()
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.table.deadline()
    }

    /// The next one whose time is over.
    pub(super) fn pop_due(&mut self, now: Duration) -> Option<Id<Waiting<T>>> {
        self.table.pop_due(now)
    }
}

impl Waitings<Progress> {
    pub(super) fn close(&mut self, place: Id<Waiting<Progress>>) {
        let closed = self.take(place);
        let progress = self.release(closed);
        self.copies.give(progress.reply);
    }
}

//! REGISTERs that wait for the store.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use transaction::Wheel;

use super::STORE_WAIT_MAX;
use crate::{request::Request, transaction::Retained};

/// A REGISTER that waits for the store.
#[derive(Debug)]
pub(super) struct Waiting {
    /// Tells it from those that had its place before.
    pub(super) serial: u32,
    id: u64,
    pub(super) request: Retained,
    pub(super) step: Step,
    /// Its credentials were used before: it may not change anything.
    pub(super) is_replay: bool,
    pub(super) tries: u8,
    /// Bindings that the change it waits for makes or refreshes, and takes away.
    pub(super) bound: usize,
    pub(super) unbound: usize,
    /// What it is answered once that is done.
    pub(super) reply: Vec<u8>,
    /// And where.
    pub(super) reply_to: SocketAddr,
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

/// All REGISTERs of a worker that wait; their buffers are used again.
#[derive(Debug)]
pub(super) struct Waitings {
    entries: Vec<Waiting>,
    free: Vec<u32>,
    by_id: BTreeMap<u64, u32>,
    patience: Wheel,
    limit: usize,
}

impl Waitings {
    pub(super) fn new(limit: usize, now: Duration) -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
            by_id: BTreeMap::new(),
            patience: Wheel::new(limit, now),
            limit,
        }
    }

    /// Lets a REGISTER wait; none when there is no room.
    pub(super) fn open(&mut self, now: Duration, request: &Request<'_>, step: Step) -> Option<u32> {
        if self.len() == self.limit {
            return None;
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Waiting {
                serial: 0,
                id: 0,
                request: Retained {
                    listener: 0,
                    from: request.datagram.from,
                    bytes: Vec::new(),
                },
                step,
                is_replay: false,
                tries: 0,
                bound: 0,
                unbound: 0,
                reply: Vec::new(),
                reply_to: request.datagram.from,
            });
            self.entries.len() as u32 - 1
        });
        let entry = self.get_mut(place);
        (entry.id, entry.step) = (request.id, step);
        (entry.is_replay, entry.tries) = (false, 0);
        entry.request.listener = request.datagram.listener;
        entry.request.from = request.datagram.from;
        entry.request.bytes.clear();
        entry
            .request
            .bytes
            .extend_from_slice(request.message.bytes());
        self.by_id.insert(request.id, place);
        self.patience.arm(place, now + STORE_WAIT_MAX);
        Some(place)
    }

    pub(super) fn close(&mut self, place: u32) {
        let entry = self.get_mut(place);
        entry.serial = entry.serial.wrapping_add(1);
        entry.reply.clear();
        let id = entry.id;
        self.by_id.remove(&id);
        self.patience.disarm(place);
        self.free.push(place);
    }

    pub(super) fn has(&self, id: u64) -> bool {
        self.by_id.contains_key(&id)
    }

    pub(super) fn is_at(&self, place: u32, serial: u32) -> bool {
        self.entries
            .get(place as usize)
            .is_some_and(|entry| entry.serial == serial)
    }

    pub(super) fn get(&self, place: u32) -> &Waiting {
        &self.entries[place as usize]
    }

    pub(super) fn get_mut(&mut self, place: u32) -> &mut Waiting {
        &mut self.entries[place as usize]
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.patience.deadline()
    }

    /// The next one whose time is over.
    pub(super) fn pop_due(&mut self, now: Duration) -> Option<u32> {
        self.patience.pop(now)
    }
}

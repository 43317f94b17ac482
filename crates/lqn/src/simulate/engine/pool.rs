//! The threads of a task, or what it guards, and what waits for that.

use std::collections::VecDeque;

use crate::{
    QUEUE_MAX,
    model::{EntryId, Locking, Role, Task},
};

/// A task's threads, or the tokens of a semaphore, or a lock.
pub(super) struct Pool {
    /// How many may be taken. None: as many as there are requests.
    size: Option<usize>,
    /// Threads that exist and have nothing to do.
    pub(super) free: Vec<u32>,
    waiting: VecDeque<Request>,
    waiting_async: usize,
    queue_max: usize,
    /// Threads at work, tokens taken, or readers and writers inside.
    taken: usize,
    /// Of those taken, the ones on their way back.
    returning: usize,
    is_writing: bool,
    since: f64,
    busy_time: f64,
}

/// What becomes of a request.
pub(super) enum Admission {
    Accepted,
    Waits,
    /// There is no room in the queue, or nothing to give back.
    Refused,
}

#[derive(Clone, Copy)]
pub(super) struct Request {
    pub(super) entry: EntryId,
    pub(super) locking: Option<Locking>,
    pub(super) caller: Option<Caller>,
    pub(super) at: f64,
}

/// Who waits for a reply, and in which round of calls: a fork may go on before all have replied.
#[derive(Clone, Copy)]
pub(super) struct Caller {
    pub(super) thread: u32,
    pub(super) round: u64,
}

impl Pool {
    pub(super) fn new(task: &Task) -> Self {
        let size = task.multiplicity.finite().map(|number| number as usize);
        let taken = match task.role {
            Role::Semaphore {
                initially: Some(tokens),
            } => size.unwrap_or(0).saturating_sub(tokens as usize),
            Role::Semaphore { initially: None }
            | Role::ReadWriteLock
            | Role::Reference { .. }
            | Role::Server => 0,
        };
        Self {
            size,
            free: Vec::new(),
            waiting: VecDeque::new(),
            waiting_async: 0,
            queue_max: task
                .queue_length
                .map_or(QUEUE_MAX, |length| length as usize),
            taken,
            returning: 0,
            is_writing: false,
            since: 0.0,
            busy_time: 0.0,
        }
    }

    /// Lets a request in or has it wait behind all others.
    pub(super) fn admit(&mut self, request: Request) -> Admission {
        let is_sent = request.caller.is_none();
        let gives_back = request.locking.is_some_and(|it| it.counterpart().is_none());
        if self.has_room(request.locking) && (gives_back || self.waiting.is_empty()) {
            return Admission::Accepted;
        }
        if gives_back || is_sent && self.waiting_async >= self.queue_max {
            return Admission::Refused;
        }
        self.waiting_async += usize::from(is_sent);
        self.waiting.push_back(request);
        Admission::Waits
    }

    /// The request that has waited longest, if there is room for it.
    pub(super) fn next(&mut self) -> Option<Request> {
        let request = self.waiting.front()?;
        if !self.has_room(request.locking) {
            return None;
        }
        self.waiting_async -= usize::from(request.caller.is_none());
        self.waiting.pop_front()
    }

    fn has_room(&self, locking: Option<Locking>) -> bool {
        match locking {
            None | Some(Locking::Wait | Locking::ReadLock) => {
                !self.is_writing && self.size.is_none_or(|size| self.taken < size)
            }
            Some(Locking::WriteLock) => self.taken == 0,
            Some(Locking::Signal | Locking::ReadUnlock) => {
                !self.is_writing && self.taken > self.returning
            }
            Some(Locking::WriteUnlock) => self.is_writing && self.returning == 0,
        }
    }

    /// A request is accepted.
    pub(super) fn enter(&mut self, now: f64, locking: Option<Locking>) {
        match locking {
            None | Some(Locking::Wait | Locking::ReadLock) => self.count(now, 1),
            Some(Locking::WriteLock) => {
                self.is_writing = true;
                self.count(now, 1);
            }
            Some(Locking::Signal | Locking::ReadUnlock | Locking::WriteUnlock) => {
                self.returning += 1;
            }
        }
    }

    /// A request was served.
    pub(super) fn exit(&mut self, now: f64, locking: Option<Locking>) {
        match locking {
            None => self.count(now, -1),
            // What it took stays taken.
            Some(Locking::Wait | Locking::ReadLock | Locking::WriteLock) => {}
            Some(Locking::Signal | Locking::ReadUnlock | Locking::WriteUnlock) => {
                self.returning -= 1;
                self.is_writing = false;
                self.count(now, -1);
            }
        }
    }

    fn count(&mut self, now: f64, change: isize) {
        self.settle(now);
        self.taken = self.taken.saturating_add_signed(change);
    }

    fn settle(&mut self, now: f64) {
        self.busy_time += (now - self.since) * self.taken as f64;
        self.since = now;
    }

    pub(super) fn take_busy_time(&mut self, now: f64) -> f64 {
        self.settle(now);
        std::mem::take(&mut self.busy_time)
    }
}

//! The threads of a task, and what waits for them.

use std::collections::VecDeque;

use crate::{
    QUEUE_MAX,
    model::{EntryId, Task},
};

/// A task's threads.
pub(super) struct Pool {
    /// None: as many as there are requests.
    pub(super) idle: Option<usize>,
    pub(super) free: Vec<u32>,
    pub(super) waiting: VecDeque<Request>,
    pub(super) waiting_async: usize,
    pub(super) queue_max: usize,
    busy: usize,
    since: f64,
    busy_time: f64,
}

pub(super) struct Request {
    pub(super) entry: EntryId,
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
        let threads = task.multiplicity.finite().map(|number| number as usize);
        Self {
            idle: threads,
            free: Vec::new(),
            waiting: VecDeque::new(),
            waiting_async: 0,
            queue_max: task
                .queue_length
                .map_or(QUEUE_MAX, |length| length as usize),
            busy: 0,
            since: 0.0,
            busy_time: 0.0,
        }
    }

    pub(super) fn count(&mut self, now: f64, change: isize) {
        self.settle(now);
        self.busy = self.busy.saturating_add_signed(change);
    }

    fn settle(&mut self, now: f64) {
        self.busy_time += (now - self.since) * self.busy as f64;
        self.since = now;
    }

    pub(super) fn take_busy_time(&mut self, now: f64) -> f64 {
        self.settle(now);
        std::mem::take(&mut self.busy_time)
    }
}

//! An emulated server: one request after the other.

use std::{collections::VecDeque, time::Duration};

/// A request that waits, or is in service.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) call: usize,
    pub(crate) request: Box<[u8]>,
    done: Duration,
}

/// The requests of a server.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    jobs: VecDeque<Job>,
    free: Duration,
    /// How long it was busy.
    pub(crate) busy: Duration,
}

impl Queue {
    /// Takes a request; returns when it is done.
    pub(crate) fn take(
        &mut self,
        now: Duration,
        service: Duration,
        call: usize,
        request: Box<[u8]>,
    ) -> Duration {
        let done = self.free.max(now) + service;
        self.free = done;
        self.busy += service;
        self.jobs.push_back(Job {
            call,
            request,
            done,
        });
        done
    }

    /// The request that is done.
    pub(crate) fn pop(&mut self, now: Duration) -> Option<Job> {
        self.jobs.pop_front_if(|job| job.done <= now)
    }
}

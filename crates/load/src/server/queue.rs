//! The server's one processor, as a queue in virtual time: nothing is computed while it is busy.

use std::{collections::VecDeque, net::SocketAddr, time::Duration};

use crate::Outbox;

/// When the processor is free again, and the responses that wait for their request's service.
#[derive(Debug, Default)]
pub(super) struct Queue {
    free_at: Duration,
    waiting: VecDeque<Waiting>,
    spare: Vec<Vec<u8>>,
}

#[derive(Debug)]
struct Waiting {
    until: Duration,
    to: SocketAddr,
    bytes: Vec<u8>,
}

impl Queue {
    /// Serves a request that arrives at `now`, behind all before it; says when it is done.
    pub(super) fn serve(&mut self, now: Duration, service: Duration) -> Duration {
        self.free_at = self.free_at.max(now) + service;
        self.free_at
    }

    /// Sends a response at `until`, which never lies before that of an earlier call.
    pub(super) fn send_at(
        &mut self,
        until: Duration,
        now: Duration,
        to: SocketAddr,
        out: &mut Outbox,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        if until <= now {
            return out.send(0, to, write);
        }
        let mut bytes = self.spare.pop().unwrap_or_default();
        write(&mut bytes);
        self.waiting.push_back(Waiting { until, to, bytes });
    }

    /// Sends the responses that are due.
    pub(super) fn flush(&mut self, now: Duration, out: &mut Outbox) {
        while let Some(mut first) = self.waiting.pop_front_if(|first| first.until <= now) {
            out.send(0, first.to, |out| out.extend_from_slice(&first.bytes));
            first.bytes.clear();
            self.spare.push(first.bytes);
        }
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.waiting.front().map(|first| first.until)
    }
}

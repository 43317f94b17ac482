//! Requests that wait for a connection.

use tokio::{
    sync::{OwnedSemaphorePermit, mpsc as queue},
    time::{Instant, sleep},
};

use super::{End, RETRY};
use crate::{
    Error, Put,
    entry::{Entry, Value},
    request::Done,
};

pub(super) enum Request {
    Get {
        key: Vec<u8>,
        done: Done<Option<Value>>,
    },
    Put {
        seen: Option<Value>,
        next: Entry,
        done: Done<Put>,
    },
}

impl Request {
    fn refuse(self, error: Error) {
        match self {
            Self::Get { done, .. } => done(Err(error)),
            Self::Put { done, .. } => done(Err(error)),
        }
    }
}

/// A request, its deadline, and its permit to wait.
pub(super) struct Waiting {
    pub(super) request: Request,
    pub(super) deadline: Instant,
    pub(super) permit: OwnedSemaphorePermit,
}

/// What waits to be sent: new requests, and those that a broken connection has left unanswered.
pub(super) struct Backlog {
    incoming: queue::UnboundedReceiver<Waiting>,
    again: queue::UnboundedSender<Waiting>,
    unanswered: queue::UnboundedReceiver<Waiting>,
}

impl Backlog {
    pub(super) fn new(incoming: queue::UnboundedReceiver<Waiting>) -> Self {
        let (again, unanswered) = queue::unbounded_channel();
        Self {
            incoming,
            again,
            unanswered,
        }
    }

    /// Takes a request that is to be sent over another connection.
    pub(super) fn again(&self) -> queue::UnboundedSender<Waiting> {
        self.again.clone()
    }

    /// The next request. None: nobody can send any more.
    pub(super) async fn next(&mut self) -> Option<Waiting> {
        tokio::select! {
            biased;
            Some(waiting) = self.unanswered.recv() => Some(waiting),
            waiting = self.incoming.recv() => waiting,
        }
    }

    /// Waits until the next attempt to connect. A server that is replaced is back soon, so requests wait until
    /// `patience` ends, except those of a key that `is_known` without the server.
    pub(super) async fn pause(
        &mut self,
        why: &str,
        patience: Instant,
        is_known: impl Fn(&[u8]) -> bool,
    ) -> End {
        let mut held = Vec::new();
        let pause = sleep(RETRY);
        tokio::pin!(pause);
        let end = loop {
            let waiting = tokio::select! {
                () = &mut pause => break End::Broken,
                waiting = self.next() => waiting,
            };
            let Some(waiting) = waiting else {
                break End::Idle;
            };
            let has_time = Instant::now() < patience.min(waiting.deadline);
            let is_needless = matches!(&waiting.request, Request::Get { key, .. } if is_known(key));
            if has_time && !is_needless {
                held.push(waiting);
            } else {
                waiting.request.refuse(Error::unavailable(why));
            }
        };
        for waiting in held {
            // Only this backlog receives, so it takes all.
            let _ = self.again.send(waiting);
        }
        end
    }
}

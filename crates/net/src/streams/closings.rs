//! What an operator should know of connections that were closed.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use crossbeam_queue::ArrayQueue;
use node::Transport;
use stream::{Closed, Why};

/// Closings that wait to be told.
const CLOSINGS_MAX: usize = 64;

/// Connections that could not be used, or failed.
#[derive(Debug)]
pub(crate) struct Closings {
    queue: ArrayQueue<Closing>,
    /// How many had no room.
    untold: AtomicU64,
}

/// A connection that could not be used, or failed.
#[derive(Clone, Debug)]
pub struct Closing {
    /// What carried messages.
    pub transport: Transport,
    /// The other end.
    pub remote: SocketAddr,
    /// Whether the other end had opened it.
    pub is_of_peer: bool,
    /// Why it was closed.
    pub why: Why,
    /// More of the reason.
    pub detail: Option<Box<str>>,
}

impl Default for Closings {
    fn default() -> Self {
        Self {
            queue: ArrayQueue::new(CLOSINGS_MAX),
            untold: AtomicU64::new(0),
        }
    }
}

impl Closings {
    /// Keeps what is worth to be told. Of a peer's connection that is only what can be mended here or there; whoever
    /// comes and goes is counted.
    pub(crate) fn tell(&self, closed: Closed) {
        let is_usual = matches!(closed.why, Why::Ours | Why::Idle | Why::Peer);
        if is_usual || (closed.is_of_peer && closed.detail.is_none()) {
            return;
        }
        let closing = Closing {
            transport: closed.flow.transport,
            remote: closed.flow.remote,
            is_of_peer: closed.is_of_peer,
            why: closed.why,
            detail: closed.detail,
        };
        if self.queue.push(closing).is_err() {
            self.untold.fetch_add(1, Relaxed);
        }
    }

    /// What happened since the last call, and how many closings had no room.
    pub(crate) fn take(&self) -> (Vec<Closing>, u64) {
        let all = std::iter::from_fn(|| self.queue.pop());
        (
            all.take(CLOSINGS_MAX).collect(),
            self.untold.swap(0, Relaxed),
        )
    }
}

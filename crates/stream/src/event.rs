//! What the driver is told.

use transaction::{ConnectionId, Flow};

use crate::Why;

/// What the driver has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// There are bytes to write, where there were none.
    Writable(ConnectionId),
    /// Messages can go both ways: the handshake is done.
    Opened(ConnectionId),
    /// A connection is gone: its socket is to be closed.
    Close(Closed),
    /// Whether a peer has not read what it got before, on any connection to it.
    Backlog {
        /// One of its connections.
        flow: Flow,
        /// Whether something waits.
        is_backed_up: bool,
    },
    /// A message that no peer can have read wholly, as its connection is gone.
    Unsent {
        /// The connection that is gone.
        flow: Flow,
        /// The message.
        message: Vec<u8>,
    },
}

/// A connection that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// Its flow, which names it.
    pub flow: Flow,
    /// Its number.
    pub id: ConnectionId,
    /// Whether the peer had opened it.
    pub is_of_peer: bool,
    /// Why it was closed.
    pub why: Why,
    /// What a person should know of the reason.
    pub detail: Option<Box<str>>,
}

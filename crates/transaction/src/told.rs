//! What transactions ask of who uses them, and what they tell.

use std::ops::Range;

use crate::Flow;

/// Takes what transactions send.
pub trait Sender {
    /// Sends a message.
    fn send(&mut self, flow: Flow, bytes: &[u8]);

    /// Whether an INVITE may go again that nobody has answered. If not, it waits for the next time; then its transaction
    /// ends.
    fn may_repeat(&mut self, flow: Flow, invite: &[u8]) -> bool {
        let _ = (flow, invite);
        true
    }

    /// What a request that nobody has answered is to have no longer when it goes again. None: it stays as it is. What belongs to the
    /// transaction, as its CANCEL and ACK, has it no longer either.
    fn withdraws(&mut self, flow: Flow, request: &[u8]) -> Option<Range<usize>> {
        let _ = (flow, request);
        None
    }
}

/// What happened to a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A server transaction wants its 100 (Trying).
    Trying,
    /// An INVITE has rung for too long: it is to be cancelled. RFC 3261 §16.8
    TimerC,
    /// No final response came, at a client, or went, at a server. The transaction is gone.
    Timeout,
    /// Nobody has answered an INVITE, and it may not go again. The transaction is gone.
    Withheld,
    /// It has served its time, and is gone.
    Ended,
}

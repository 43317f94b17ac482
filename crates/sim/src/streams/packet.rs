//! What one system sends to another for a connection.

use std::{collections::BTreeMap, time::Duration};

use super::EndId;

/// TCP without its headers.
#[derive(Debug)]
pub(super) enum Packet {
    /// Somebody wants a connection.
    Syn,
    /// It is there, and there is room for so many bytes.
    SynAck { room: usize },
    /// The next bytes.
    Bytes(Vec<u8>),
    /// So many bytes came in order, and there is room for so many more.
    Ack { bytes: usize, room: usize },
    /// Asks who has no room whether they are there. RFC 9293 §3.8.6.1
    Probe,
    /// Nothing comes any more.
    Fin,
    /// The connection is no more.
    Reset,
}

/// What happens to a connection at one moment.
#[derive(Debug)]
pub(super) enum Step {
    /// A packet comes to this end.
    Arrives(EndId, Packet),
    /// This end sends again what got lost.
    Again(EndId),
}

/// What is to happen, by time; at one time, in the order of its causes.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    due: BTreeMap<(Duration, u64), Step>,
    causes: u64,
}

impl Agenda {
    pub(super) fn add(&mut self, at: Duration, step: Step) {
        self.due.insert((at, self.causes), step);
        self.causes += 1;
    }

    pub(super) fn next_at(&self) -> Option<Duration> {
        self.due.keys().next().map(|&(at, _)| at)
    }

    pub(super) fn pop(&mut self) -> Option<Step> {
        self.due.pop_first().map(|(_, step)| step)
    }
}

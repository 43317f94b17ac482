//! One end of a connection, as its party's system keeps it.

use std::{collections::VecDeque, net::SocketAddr, time::Duration};

use super::packet::Packet;
use crate::PartyId;

/// The most bytes of a packet.
pub(super) const SEGMENT_BYTES: usize = 1_460;

/// The buffers of a connection at one end, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// What is written and has not arrived yet.
    pub send: usize,
    /// What has arrived and is not read yet.
    pub receive: usize,
    /// What may wait before the first packet that can't be sent: more is not taken.
    pub unsent: usize,
}

impl Default for Buffers {
    /// As Linux begins.
    fn default() -> Self {
        Self {
            send: 87_040,
            receive: 65_536,
            unsent: 1,
        }
    }
}

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EndId {
    pub(super) number: u32,
    /// 0 has opened it.
    pub(super) side: u8,
}

impl EndId {
    pub(super) fn other(self) -> Self {
        Self {
            side: 1 - self.side,
            ..self
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Opening,
    Open,
    /// The party has left it, and what is unsent goes out.
    Closing,
    Gone,
}

#[derive(Debug)]
pub(super) struct End {
    pub(super) party: PartyId,
    pub(super) address: SocketAddr,
    pub(super) state: State,
    pub(super) buffers: Buffers,
    pub(super) unsent: VecDeque<u8>,
    /// Bytes on their way, or whose arrival is not known yet.
    pub(super) in_flight: usize,
    /// Bytes that the other end takes besides.
    pub(super) room: usize,
    inbox: VecDeque<u8>,
    /// When what is there came, piece by piece: its bytes, and the moment.
    arrivals: VecDeque<(usize, Duration)>,
    /// Bytes that the other end was told it may send besides.
    promised: usize,
    /// Nothing comes behind the inbox.
    pub(super) is_ended: bool,
    /// The first was lost, and the others wait for it.
    pub(super) stuck: VecDeque<Packet>,
    pub(super) tries: u32,
    /// No packet arrives before the one that was sent before it.
    pub(super) last_at: Duration,
}

impl End {
    pub(super) fn new(party: PartyId, address: SocketAddr, state: State, buffers: Buffers) -> Self {
        Self {
            party,
            address,
            state,
            buffers,
            unsent: VecDeque::new(),
            in_flight: 0,
            room: 0,
            inbox: VecDeque::new(),
            arrivals: VecDeque::new(),
            promised: 0,
            is_ended: false,
            stuck: VecDeque::new(),
            tries: 0,
            last_at: Duration::ZERO,
        }
    }

    /// Bytes that the other end is told of. Few are kept back, so that no packet is tiny.
    pub(super) fn promise(&mut self) -> usize {
        let taken = self.inbox.len() + self.promised;
        let free = self.buffers.receive.saturating_sub(taken);
        let least = SEGMENT_BYTES.min(self.buffers.receive / 2);
        let room = if free < least { 0 } else { free };
        self.promised += room;
        room
    }

    pub(super) fn take_in(&mut self, now: Duration, bytes: &[u8]) {
        self.inbox.extend(bytes);
        self.arrivals.push_back((bytes.len(), now));
        self.promised -= bytes.len();
    }

    /// Reads at most so many bytes, and tells when the last of them came; none: nothing is there.
    pub(super) fn read(&mut self, max: usize, into: &mut Vec<u8>) -> Option<Duration> {
        let mut count = self.inbox.len().min(max);
        into.extend(self.inbox.drain(..count));
        let mut came = None;
        while count > 0
            && let Some((bytes, at)) = self.arrivals.front_mut()
        {
            came = Some(*at);
            let read = count.min(*bytes);
            *bytes -= read;
            count -= read;
            self.arrivals.pop_front_if(|(bytes, _)| *bytes == 0);
        }
        came
    }

    pub(super) fn has_unread(&self) -> bool {
        !self.inbox.is_empty()
    }

    pub(super) fn forget_unread(&mut self) {
        self.inbox.clear();
        self.arrivals.clear();
    }

    pub(super) fn is_there(&self) -> bool {
        matches!(self.state, State::Opening | State::Open)
    }
}

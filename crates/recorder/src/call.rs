//! What is kept of one call: its messages in one piece of memory, and 16 bytes for each.

use std::{net::SocketAddr, time::Duration};

use node::{DecisionView, Flow, LedgerView, tap::Why};
use sip::Message;

use crate::{mask::Mask, state::Summary};

/// What is kept of one call: a phone that registers with one Call-ID for a year grows no further.
const CALL_BYTES_MAX: usize = 256 << 10;
const ENTRIES_MAX: usize = 400;
/// What a call of 12 messages has.
const USUAL_ENTRIES: usize = 28;
/// Memory that grows by so much at a time.
const STRIDE: usize = 2_048;

/// One call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) summary: Summary,
    pub(crate) entries: Vec<Entry>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) whys: Vec<(Why, bool)>,
    pub(crate) placements: Vec<DecisionView>,
    /// Entries that were left out, as there were too many.
    pub(crate) left_out: usize,
}

/// A message or a reason.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Microseconds from the node's zero.
    pub(crate) at_us: u64,
    /// The length of the message.
    pub(crate) length: u32,
    /// The place of what belongs to it: a flow, a reason, a placement.
    pub(crate) place: u16,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Received,
    Sent,
    Why,
    Placed,
}

impl Call {
    pub(crate) fn new(
        message: &Message<'_>,
        source: SocketAddr,
        at: Duration,
        mask: &Mask,
    ) -> Self {
        Self {
            summary: Summary::new(message, source, at, mask),
            entries: Vec::with_capacity(USUAL_ENTRIES),
            bytes: Vec::new(),
            flows: Vec::with_capacity(2),
            whys: Vec::new(),
            placements: Vec::new(),
            left_out: 0,
        }
    }

    pub(crate) fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        let seen = self
            .placements
            .iter()
            .map(|placed| placed.ledgers.capacity());
        size_of::<Self>()
            + self.summary.bytes()
            + self.bytes.capacity()
            + self.entries.capacity() * size_of::<Entry>()
            + self.flows.capacity() * size_of::<Flow>()
            + self.whys.capacity() * size_of::<(Why, bool)>()
            + self.placements.capacity() * size_of::<DecisionView>()
            + seen.sum::<usize>() * size_of::<LedgerView>()
            // Its places in the table and in the queue.
            + 4 * size_of::<u64>()
    }

    pub(crate) fn note_message(&mut self, at: Duration, came_in: bool, flow: Flow, bytes: &[u8]) {
        self.make_room(bytes.len());
        let known = self.flows.iter().position(|known| *known == flow);
        let place = known.unwrap_or_else(|| {
            self.flows.reserve_exact(1);
            self.flows.push(flow);
            self.flows.len() - 1
        });
        if self.bytes.capacity() - self.bytes.len() < bytes.len() {
            self.bytes.reserve_exact(bytes.len() + STRIDE);
        }
        self.bytes.extend_from_slice(bytes);
        let kind = if came_in { Kind::Received } else { Kind::Sent };
        self.push(at, kind, place, bytes.len());
    }

    pub(crate) fn note_why(&mut self, at: Duration, why: Why, is_shared: bool) {
        self.make_room(0);
        self.whys.push((why, is_shared));
        self.push(at, Kind::Why, self.whys.len() - 1, 0);
    }

    pub(crate) fn note_placement(&mut self, at: Duration, placed: DecisionView) {
        self.make_room(0);
        self.placements.reserve_exact(1);
        self.placements.push(placed);
        self.push(at, Kind::Placed, self.placements.len() - 1, 0);
    }

    fn push(&mut self, at: Duration, kind: Kind, place: usize, length: usize) {
        self.entries.push(Entry {
            at_us: at.as_micros() as u64,
            length: length as u32,
            place: place as u16,
            kind,
        });
    }

    /// Leaves out the older half if there is too much.
    fn make_room(&mut self, bytes: usize) {
        if self.entries.len() < ENTRIES_MAX && self.bytes.len() + bytes <= CALL_BYTES_MAX {
            return;
        }
        let half = self.entries.len() / 2;
        let gone = |kind: Kind| move |entry: &&Entry| entry.kind == kind;
        let (old, _) = self.entries.split_at(half);
        let length: usize = old.iter().map(|entry| entry.length as usize).sum();
        let whys = old.iter().filter(gone(Kind::Why)).count();
        let placements = old.iter().filter(gone(Kind::Placed)).count();
        self.bytes.drain(..length);
        self.whys.drain(..whys);
        self.placements.drain(..placements);
        self.entries.drain(..half);
        for entry in &mut self.entries {
            match entry.kind {
                Kind::Why => entry.place -= whys as u16,
                Kind::Placed => entry.place -= placements as u16,
                Kind::Received | Kind::Sent => {}
            }
        }
        self.left_out += half;
        let used: Vec<Flow> = self.flows.clone();
        if used.len() > ENTRIES_MAX {
            self.forget_flows(&used);
        }
    }

    /// Keeps the flows that messages still have: whoever changes their address each time fills no table.
    fn forget_flows(&mut self, known: &[Flow]) {
        self.flows.clear();
        for entry in &mut self.entries {
            if matches!(entry.kind, Kind::Received | Kind::Sent) {
                let flow = known[usize::from(entry.place)];
                let place = self.flows.iter().position(|known| *known == flow);
                entry.place = place.unwrap_or_else(|| {
                    self.flows.push(flow);
                    self.flows.len() - 1
                }) as u16;
            }
        }
    }
}

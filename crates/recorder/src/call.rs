//! What is kept of one call: how it stands, and where its messages and the reasons lie.

use std::{net::SocketAddr, time::Duration};

use sip::Message;

use crate::{mask::Mask, segments::Place, state::Summary};

/// What is kept of one call: a phone that registers with one Call-ID for a year grows no further.
const ENTRIES_MAX: usize = 400;
/// What a call of 12 messages has.
const USUAL_ENTRIES: usize = 20;

/// One call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) summary: Summary,
    pub(crate) entries: Vec<Entry>,
    /// Rungs that were left out, as there were too many.
    pub(crate) left_out: usize,
    /// The segment of its latest entry.
    pub(crate) segment: u32,
}

/// A message, a reason or a placement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) place: Place,
    /// How many rungs of the ladder it makes.
    pub(crate) rungs: u8,
    /// It may be about another call.
    pub(crate) is_shared: bool,
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
            left_out: 0,
            segment: 0,
        }
    }

    pub(crate) fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Memory that it takes, without its segments.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.summary.bytes()
            + self.entries.capacity() * size_of::<Entry>()
            // Its place in the table.
            + 2 * size_of::<u64>()
    }

    /// Notes an entry. Of too many it leaves the older half out.
    pub(crate) fn note(&mut self, entry: Entry) {
        if self.entries.len() == ENTRIES_MAX {
            let old = self.entries.drain(..ENTRIES_MAX / 2);
            self.left_out += old.map(|entry| usize::from(entry.rungs)).sum::<usize>();
        }
        self.segment = entry.place.segment;
        self.entries.push(entry);
    }
}

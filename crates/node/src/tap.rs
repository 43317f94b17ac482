//! A tap on a node: what came in, what went out, and why.
//!
//! A driver that puts a [`Tap`] into its [`Outbox`](crate::Outbox) can read there, after each batch,
//! every message with the counters that it moved. Without a tap nothing is recorded.

use std::{ops::Range, time::Duration};

use transaction::Flow;

use crate::stats::{Dropped, Event, REPLIES, WorkerStats};

/// Records messages up to a number of bytes. What finds no room is counted and left out.
#[derive(Debug)]
pub struct Tap {
    entries: Vec<Tapped>,
    bytes: Vec<u8>,
    bytes_max: usize,
    missed: u64,
}

/// One thing that a tap has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tapped {
    /// When it happened.
    pub at: Duration,
    /// What happened.
    pub what: What,
    /// Where the message lies among the tap's bytes; empty for a reason.
    range: Range<usize>,
}

/// What a tap has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A message came in.
    Received(Flow),
    /// A message goes out.
    Sent(Flow),
    /// Why: a counter that the input before this moved.
    Because(Why),
}

/// A counter that an input or a timer moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// This happened.
    Event(Event),
    /// The message was dropped for this reason.
    Dropped(Dropped),
    /// The node answered by itself with this status; 0: one that is not counted by its own.
    Replied(u16),
}

/// The counters of a worker at a moment.
#[derive(Debug)]
pub(crate) struct Counts {
    events: [u64; Event::ALL.len()],
    dropped: [u64; Dropped::ALL.len()],
    replies: [u64; REPLIES.len()],
}

impl Tap {
    /// A tap that holds up to so many bytes of messages between two [`Self::clear`].
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self {
            entries: Vec::new(),
            bytes: Vec::new(),
            bytes_max,
            missed: 0,
        }
    }

    /// What it has seen since it was cleared, in order.
    #[must_use]
    pub fn entries(&self) -> &[Tapped] {
        &self.entries
    }

    /// The message of an entry; empty for a reason.
    #[must_use]
    pub fn message(&self, entry: &Tapped) -> &[u8] {
        &self.bytes[entry.range.clone()]
    }

    /// Messages that found no room, since it was made.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Forgets what it has seen, keeps the memory.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.bytes.clear();
    }

    pub(crate) fn record(&mut self, at: Duration, what: What, bytes: &[u8]) {
        let start = self.bytes.len();
        if start + bytes.len() > self.bytes_max {
            self.missed += 1;
            return;
        }
        self.bytes.extend_from_slice(bytes);
        let range = start..self.bytes.len();
        self.entries.push(Tapped { at, what, range });
    }

    /// Records the counters that have moved, but not those of the messages themselves.
    pub(crate) fn explain(&mut self, at: Duration, before: &Counts, after: &Counts) {
        let events = moved(&before.events, &after.events).map(|place| Event::ALL[place]);
        let events = events.filter(|event| !matches!(event, Event::Received | Event::Sent));
        let dropped = moved(&before.dropped, &after.dropped).map(|place| Dropped::ALL[place]);
        let replies = moved(&before.replies, &after.replies).map(|place| REPLIES[place]);
        let reasons = events.map(Why::Event);
        let reasons = reasons.chain(dropped.map(Why::Dropped));
        for why in reasons.chain(replies.map(Why::Replied)) {
            self.record(at, What::Because(why), &[]);
        }
    }
}

impl Why {
    /// In a word or two.
    #[must_use]
    pub fn label(self) -> String {
        match self {
            Self::Event(event) => event.label().to_owned(),
            Self::Dropped(reason) => format!("dropped: {}", reason.label()),
            Self::Replied(status) => format!("replied {status}"),
        }
    }
}

impl Counts {
    pub(crate) fn of(stats: &WorkerStats) -> Self {
        Self {
            events: std::array::from_fn(|place| stats.event(Event::ALL[place])),
            dropped: std::array::from_fn(|place| stats.dropped(Dropped::ALL[place])),
            replies: std::array::from_fn(|place| stats.replies(place)),
        }
    }
}

/// The places at which two lists of counters differ.
fn moved<'a>(before: &'a [u64], after: &'a [u64]) -> impl Iterator<Item = usize> + 'a {
    let pairs = before.iter().zip(after).enumerate();
    pairs
        .filter(|(_, (was, is))| was != is)
        .map(|(place, _)| place)
}

//! Keeps the messages of the latest calls as they passed a node, with the reasons for what the node
//! did; finds calls again; draws one as a ladder, a text or a capture.
//!
//! It takes what a [`Tap`] has seen and opens no file, reads no clock and starts no thread. Memory has
//! a bound in bytes: when it is reached, the oldest messages are forgotten. Read
//! [`Recorder`] and [`Ladder`] first.

mod backlog;
mod call;
mod capture_file;
pub mod drawing;
mod hep;
mod ladder;
mod mask;
mod passed;
mod reading;
mod records;
mod search;
mod segments;
mod sorting;
mod state;
mod text;
mod thinning;
mod traces;

use std::{
    collections::{VecDeque, hash_map::Entry},
    sync::Arc,
    time::Duration,
};

use node::{Snapshot, tap::Tap};

pub use backlog::Backlog;
pub use hep::{Collector, Feed};
pub use ladder::{Ladder, Party, Rung, Seen, Step};
pub use passed::write_passed;
pub use records::{Outcome, Record, RecordCounts, Records, Tried, written};
pub use search::{Order, Search};
pub use state::{End, State, Summary};
pub use text::{gist, placement_words, steers};
pub use thinning::Thinning;
pub use traces::{Span, TraceCounts, Traces, trace_of};

use mask::Mask;
use segments::{Segment, Segments};
use sorting::{Calls, Sorting};

/// What is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Memory for calls, in bytes.
    pub bytes_max: usize,
    /// The most calls.
    pub calls_max: usize,
    /// Keeps one call in so many; 1: all.
    pub one_in: u32,
    /// Replaces users and display names by a hash that is the same throughout.
    pub masks_users: bool,
    /// Leaves bodies out.
    pub masks_bodies: bool,
    /// Who gets each message as it passes, hidden like what is kept.
    pub collector: Option<Collector>,
}

/// What a recorder has done, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Of so many calls one is kept.
    pub one_in: u32,
    /// Calls that are kept.
    pub calls: usize,
    /// Memory that they and the backlog take, in bytes.
    pub bytes: usize,
    /// Calls since the start.
    pub recorded: u64,
    /// Calls that were forgotten to make room.
    pub forgotten: u64,
    /// Messages, reasons and placements that the taps had no room for.
    pub missed: u64,
    /// Messages, reasons and placements that were forgotten before anybody asked for their call.
    pub passed_over: u64,
    /// Messages that are no SIP, or of no call.
    pub unread: u64,
}

/// The latest calls.
#[derive(Debug)]
pub struct Recorder {
    settings: Settings,
    mask: Mask,
    /// Hides credentials: what else is hidden was not kept.
    shown: Mask,
    mask_key: [u8; 16],
    calls: Calls,
    segments: Segments,
    counts: Counts,
}

impl Recorder {
    /// A recorder without calls. The key hides users, if they are to be hidden: a random one.
    #[must_use]
    pub fn new(settings: Settings, mask_key: [u8; 16]) -> Self {
        Self {
            mask: Mask::new(mask_key, settings.masks_users, settings.masks_bodies),
            shown: Mask::new(mask_key, false, false),
            mask_key,
            settings,
            calls: Calls::default(),
            segments: Segments::default(),
            counts: Counts::default(),
        }
    }

    /// What is kept.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Keeps something else from now on. Calls that were recorded stay as they are.
    pub fn set(&mut self, settings: Settings) {
        self.mask = Mask::new(self.mask_key, settings.masks_users, settings.masks_bodies);
        self.settings = settings;
    }

    /// What it and its backlog have done.
    #[must_use]
    pub fn counts(&self, backlog: &Backlog) -> Counts {
        Counts {
            one_in: self.settings.one_in,
            calls: self.calls.len(),
            bytes: self.bytes() + backlog.bytes(),
            missed: backlog.missed(),
            passed_over: backlog.passed_over(),
            ..self.counts
        }
    }

    /// Forgets all calls.
    pub fn clear(&mut self) {
        self.calls = Calls::default();
        self.segments = Segments::default();
        self.counts.bytes = 0;
    }

    /// Takes what a tap has seen. `snapshot` is the configuration of the node. A tap that is not kept is given back.
    pub fn take(&mut self, tap: Tap, snapshot: &Arc<Snapshot>) -> Option<Tap> {
        let copies = Segments::is_small(&tap) || self.settings.one_in > 1 || self.mask.hides();
        if !copies {
            let mut segment = Segment::new(tap, snapshot);
            self.sort(&segment.tap, None, &mut segment.calls, snapshot);
            self.segments.push(segment);
            return None;
        }
        let mut open = self.segments.take_open(snapshot, self.settings.bytes_max);
        self.sort(&tap, Some(&mut open.tap), &mut open.calls, snapshot);
        self.segments.push(open);
        Some(tap)
    }

    fn sort(
        &mut self,
        tap: &Tap,
        copy: Option<&mut Tap>,
        seen: &mut VecDeque<u64>,
        snapshot: &Snapshot,
    ) {
        let mut sorting = Sorting {
            segment: self.segments.next(),
            calls: &mut self.calls,
            counts: &mut self.counts,
            mask: &self.mask,
            one_in: self.settings.one_in,
            snapshot,
            tap,
            copy,
            seen,
        };
        sorting.run();
    }

    /// Memory for calls.
    fn bytes(&self) -> usize {
        self.counts.bytes + self.segments.bytes()
    }

    /// Forgets the oldest messages, and the calls that have no later ones, until all fit beside so many bytes of a
    /// [`Backlog`]. `give_back` gets taps that are not needed any more.
    pub fn make_room(&mut self, beside: usize, mut give_back: impl FnMut(Tap)) {
        while self.bytes() + beside > self.settings.bytes_max
            || self.calls.len() > self.settings.calls_max
        {
            let Some((number, oldest)) = self.segments.oldest() else {
                return;
            };
            match oldest.calls.pop_front() {
                Some(key) => self.forget(key, number),
                None => self.segments.pop().into_iter().for_each(&mut give_back),
            }
        }
    }

    /// Forgets a call that has nothing later than in this segment.
    fn forget(&mut self, key: u64, segment: u32) {
        if let Entry::Occupied(call) = self.calls.entry(key)
            && call.get().segment == segment
        {
            self.counts.bytes -= call.remove().bytes();
            self.counts.forgotten += 1;
        }
    }

    /// Calls that match, at most so many, and how many match in all. Times count from the node's zero.
    #[must_use]
    pub fn find(&self, search: &Search, now: Duration, most: usize) -> (Vec<Summary>, usize) {
        search.run(
            self.calls.values().map(|call| call.summary()),
            &self.mask,
            now,
            most,
        )
    }

    /// One call, and whatever is known of it.
    #[must_use]
    pub fn call(&self, key: u64, now: Duration) -> Option<Ladder> {
        let call = self.calls.get(&key)?;
        Some(call.ladder(&self.segments, &self.shown, now))
    }
}

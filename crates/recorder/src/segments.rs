//! Taps that were sorted by call. Calls point into them, so that no message is copied.

use std::{collections::VecDeque, sync::Arc};

use node::{
    Snapshot,
    tap::{Tap, Tapped},
};

/// Smaller taps, and those of which only some calls are kept, are copied together until they have so many bytes.
const SEGMENT_BYTES: usize = 256 << 10;

/// A tap, and whose messages are in it.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) tap: Tap,
    /// Of the time when the tap was sorted.
    pub(crate) snapshot: Arc<Snapshot>,
    /// Calls that had something here, each once, in the order in which they came.
    pub(crate) calls: VecDeque<u64>,
    /// More may be copied into it. What is to be hidden was hidden then.
    pub(crate) is_copied: bool,
}

/// Where something lies that a tap has seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) segment: u32,
    pub(crate) entry: u32,
}

/// All segments, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Segments {
    all: VecDeque<Segment>,
    /// The number of the oldest.
    first: u32,
    bytes: usize,
}

impl Segment {
    pub(crate) fn new(tap: Tap, snapshot: &Arc<Snapshot>) -> Self {
        Self {
            tap,
            snapshot: Arc::clone(snapshot),
            calls: VecDeque::new(),
            is_copied: false,
        }
    }

    fn bytes(&self) -> usize {
        size_of::<Self>() + self.tap.capacity() + self.calls.capacity() * size_of::<u64>()
    }
}

impl Segments {
    /// Memory that they take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a tap is so small that it is better copied.
    pub(crate) fn is_small(tap: &Tap) -> bool {
        tap.capacity() < SEGMENT_BYTES
    }

    /// The number of the segment that is pushed next.
    pub(crate) fn next(&self) -> u32 {
        self.first.wrapping_add(self.all.len() as u32)
    }

    pub(crate) fn push(&mut self, segment: Segment) {
        self.bytes += segment.bytes();
        self.all.push_back(segment);
    }

    /// Takes the segment out that more is copied into: the latest, or a new one.
    pub(crate) fn take_open(&mut self, snapshot: &Arc<Snapshot>, bytes_max: usize) -> Segment {
        let enough = SEGMENT_BYTES.min(bytes_max / 16);
        let goes_on = |last: &mut Segment| {
            let is_same = Arc::ptr_eq(&last.snapshot, snapshot);
            last.is_copied && is_same && last.tap.len() < enough
        };
        match self.all.pop_back_if(goes_on) {
            Some(open) => {
                self.bytes -= open.bytes();
                open
            }
            None => Segment {
                is_copied: true,
                ..Segment::new(Tap::new(u32::MAX as usize), snapshot)
            },
        }
    }

    /// What lies at a place; none if it was forgotten.
    pub(crate) fn get(&self, place: Place) -> Option<(&Segment, &Tapped)> {
        let segment = self
            .all
            .get(place.segment.wrapping_sub(self.first) as usize)?;
        Some((segment, segment.tap.entries().get(place.entry as usize)?))
    }

    /// The oldest, with its number.
    pub(crate) fn oldest(&mut self) -> Option<(u32, &mut Segment)> {
        Some((self.first, self.all.front_mut()?))
    }

    /// Forgets the oldest.
    pub(crate) fn pop(&mut self) -> Option<Tap> {
        let oldest = self.all.pop_front()?;
        self.first = self.first.wrapping_add(1);
        self.bytes -= oldest.bytes();
        Some(oldest.tap)
    }
}

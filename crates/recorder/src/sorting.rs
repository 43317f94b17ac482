//! Sorts what a tap has seen by call.

use std::{
    borrow::Cow,
    collections::{HashMap, VecDeque},
    hash::{BuildHasherDefault, Hasher},
};

use node::{
    Flow, Snapshot,
    tap::{Tap, Tapped, What},
};
use sip::{Glance, Message};

use crate::{
    Counts,
    call::{Call, Entry},
    mask::Mask,
    reading::{HEADERS_MAX, is_kept},
    segments::Place,
};

/// Calls by [`Snapshot::session_of`].
pub(crate) type Calls = HashMap<u64, Box<Call>, BuildHasherDefault<Keyed>>;

/// A key is a keyed hash itself.
#[derive(Debug, Default)]
pub(crate) struct Keyed(u64);

impl Hasher for Keyed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("a key is a number");
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

/// One tap on its way into a segment.
pub(crate) struct Sorting<'a> {
    pub(crate) calls: &'a mut Calls,
    pub(crate) counts: &'a mut Counts,
    pub(crate) mask: &'a Mask,
    pub(crate) one_in: u32,
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) tap: &'a Tap,
    /// Takes what is kept, if the tap itself is not.
    pub(crate) copy: Option<&'a mut Tap>,
    /// The number of the segment, and the calls in it.
    pub(crate) segment: u32,
    pub(crate) seen: &'a mut VecDeque<u64>,
}

/// What is written of an entry.
#[derive(Clone, Copy)]
struct Line<'a> {
    /// Its place in the tap.
    place: usize,
    entry: &'a Tapped,
}

impl<'a> Sorting<'a> {
    pub(crate) fn run(&mut self) {
        let entries = self.tap.entries();
        let mut begin = 0;
        for step in entries.chunk_by(|left, right| left.step == right.step) {
            let lines = step.iter().zip(begin..);
            let mut lines = lines.map(|(entry, place)| Line { place, entry });
            match step[0].what {
                What::Received(flow) => {
                    if let Some(first) = lines.next() {
                        self.take_received(flow, first, lines);
                    }
                }
                _ => self.take_due(step, lines),
            }
            begin += step.len();
        }
    }

    /// A message that came in, and all that it brought about.
    fn take_received(
        &mut self,
        flow: Flow,
        first: Line<'a>,
        lines: impl Iterator<Item = Line<'a>>,
    ) {
        let bytes = self.tap.message(first.entry);
        // A response is mostly told by its first bytes: of it a glance is enough.
        let message = match bytes.starts_with(b"SIP/") {
            true => None,
            false => Message::parse(bytes, HEADERS_MAX).ok(),
        };
        let glance = match &message {
            Some(message) => Glance::at(message),
            None => Glance::of(bytes),
        };
        let Some(glance) = glance else {
            self.counts.unread += 1;
            return;
        };
        let key = self.snapshot.session_of(glance.call_id);
        if let Some(message) = message.as_ref().filter(|message| message.is_request()) {
            self.begin(key, flow, first.entry, message);
        }
        self.note_message(key, first, &glance, message.as_ref());
        self.note(&[key], Some((glance.call_id, key)), lines);
    }

    /// What timers, the store or the DNS brought about, for whatever calls.
    fn take_due(&mut self, step: &[Tapped], lines: impl Iterator<Item = Line<'a>>) {
        let mut concerned = Vec::new();
        if step
            .iter()
            .any(|entry| matches!(entry.what, What::Because(_)))
        {
            concerned.extend(step.iter().filter_map(|entry| match entry.what {
                What::Placed(place) => Some(self.tap.placed_call(place)),
                _ => {
                    let glance = Glance::of(self.tap.message(entry))?;
                    Some(self.snapshot.session_of(glance.call_id))
                }
            }));
            concerned.sort_unstable();
            concerned.dedup();
        }
        self.note(&concerned, None, lines);
    }

    /// Notes what happened: reasons in the calls that are concerned, all else in its own. `last` is a Call-ID that was just
    /// seen, and its key.
    fn note(
        &mut self,
        concerned: &[u64],
        mut last: Option<(&'a [u8], u64)>,
        lines: impl Iterator<Item = Line<'a>>,
    ) {
        for line in lines {
            match line.entry.what {
                What::Received(_) | What::Sent(_) => {
                    let Some(glance) = Glance::of(self.tap.message(line.entry)) else {
                        continue;
                    };
                    let key = match last {
                        Some((call_id, key)) if *call_id == *glance.call_id => key,
                        _ => self.snapshot.session_of(glance.call_id),
                    };
                    last = Some((glance.call_id, key));
                    self.note_message(key, line, &glance, None);
                }
                What::Because(_) => {
                    for &key in concerned {
                        self.keep(key, line, concerned.len() > 1);
                    }
                }
                What::Placed(placed) => self.keep(self.tap.placed_call(placed), line, false),
            }
        }
    }

    /// A request that came in begins a call, if there is none and it is of those to keep.
    fn begin(&mut self, key: u64, flow: Flow, entry: &Tapped, message: &Message<'_>) {
        let one_in = self.one_in.max(self.tap.one_in());
        if !is_kept(key, one_in) || self.calls.contains_key(&key) {
            return;
        }
        let call = Call::new(message, flow.remote, entry.at, self.mask);
        self.counts.recorded += 1;
        self.counts.bytes += call.bytes();
        self.calls.insert(key, Box::new(call));
    }

    fn note_message(
        &mut self,
        key: u64,
        line: Line<'_>,
        glance: &Glance<'_>,
        message: Option<&Message<'_>>,
    ) {
        let (came_in, flow) = match line.entry.what {
            What::Received(flow) => (true, flow),
            What::Sent(flow) => (false, flow),
            What::Because(_) | What::Placed(_) => return,
        };
        let Some(call) = self.calls.get_mut(&key) else {
            return;
        };
        let is_server = || self.snapshot.member_of(flow).is_some();
        let summary = &mut call.summary;
        summary.follow(line.entry.at, came_in, flow, is_server, glance, message);
        self.keep(key, line, false);
    }

    /// Notes in a call, if it is known, where an entry lies.
    fn keep(&mut self, key: u64, line: Line<'_>, is_shared: bool) {
        let Some(call) = self.calls.get_mut(&key) else {
            return;
        };
        if call.entries.is_empty() || call.segment != self.segment {
            self.seen.push_back(key);
        }
        let place = match &mut self.copy {
            Some(copy) => {
                let bytes: Cow<'_, [u8]> = self.mask.shown_bytes(self.tap.message(line.entry));
                copy.copy(self.tap, line.entry, &bytes);
                copy.entries().len() - 1
            }
            None => line.place,
        };
        let before = call.bytes();
        call.note(Entry {
            place: Place {
                segment: self.segment,
                entry: place as u32,
            },
            rungs: match line.entry.what {
                What::Because(moves) => moves.reasons().count() as u8,
                _ => 1,
            },
            is_shared,
        });
        self.counts.bytes = self.counts.bytes + call.bytes() - before;
    }
}

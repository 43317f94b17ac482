//! Keeps the messages of the latest calls as they passed a node, with the reasons for what the node
//! did; finds calls again; draws one as a ladder, a text or a capture.
//!
//! It takes what a [`Tap`] has seen and opens no file, reads no clock and starts no thread. Memory has
//! a bound in bytes: when it is reached, the calls that were silent for longest are forgotten. Read
//! [`Recorder`] and [`Ladder`] first.

mod backlog;
mod call;
mod capture_file;
pub mod drawing;
mod hep;
mod ladder;
mod mask;
mod passed;
mod records;
mod search;
mod state;
mod text;
mod traces;

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    time::Duration,
};

use node::{
    Snapshot,
    tap::{Tap, Tapped, What},
};
use sip::Message;

pub use backlog::Backlog;
pub use hep::{Collector, Feed};
pub use ladder::{Ladder, Party, Rung, Seen, Step};
pub use passed::write_passed;
pub use records::{Outcome, Record, RecordCounts, Records, Tried, written};
pub use search::{Order, Search};
pub use state::{End, State, Summary};
pub use text::{gist, placement_words, steers};
pub use traces::{Span, TraceCounts, Traces, trace_of};

use call::Call;
use mask::Mask;

/// Header fields that are looked at; a node takes no message with more.
const HEADERS_MAX: usize = 512;

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
    mask_key: [u8; 16],
    /// By [`Snapshot::session_of`].
    calls: HashMap<u64, Box<Call>>,
    /// Calls, each with the time of its latest message when it was put here, the longest silent first.
    order: BinaryHeap<Reverse<(Duration, u64)>>,
    counts: Counts,
}

impl Recorder {
    /// A recorder without calls. The key hides users, if they are to be hidden: a random one.
    #[must_use]
    pub fn new(settings: Settings, mask_key: [u8; 16]) -> Self {
        Self {
            mask: Mask::new(mask_key, settings.masks_users, settings.masks_bodies),
            mask_key,
            settings,
            calls: HashMap::new(),
            order: BinaryHeap::new(),
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
            calls: self.calls.len(),
            bytes: self.counts.bytes + backlog.bytes(),
            missed: backlog.missed(),
            passed_over: backlog.passed_over(),
            ..self.counts
        }
    }

    /// Forgets all calls.
    pub fn clear(&mut self) {
        self.calls = HashMap::new();
        self.order = BinaryHeap::new();
        self.counts.bytes = 0;
    }

    /// Takes what a tap has seen. `snapshot` is the configuration of the node.
    pub fn take(&mut self, tap: &Tap, snapshot: &Snapshot) {
        let steps = tap
            .entries()
            .chunk_by(|left, right| left.step == right.step);
        for step in steps {
            match step.first() {
                Some(first) if matches!(first.what, What::Received(_)) => {
                    self.take_received(tap, step, snapshot);
                }
                Some(_) => self.take_due(tap, step, snapshot),
                None => {}
            }
        }
    }

    /// A message that came in, and all that it brought about.
    fn take_received(&mut self, tap: &Tap, step: &[Tapped], snapshot: &Snapshot) {
        let Some((message, key)) = read(tap.message(&step[0]), snapshot) else {
            self.counts.unread += 1;
            return;
        };
        self.begin(key, &step[0], &message);
        self.note_message(key, &step[0], &message, snapshot);
        self.note(&[key], tap, &step[1..], snapshot);
    }

    /// What timers, the store or the DNS brought about, for whatever calls.
    fn take_due(&mut self, tap: &Tap, step: &[Tapped], snapshot: &Snapshot) {
        let mut concerned = Vec::new();
        if step
            .iter()
            .any(|entry| matches!(entry.what, What::Because(_)))
        {
            concerned.extend(step.iter().filter_map(|entry| match entry.what {
                What::Placed(place) => Some(tap.placement(place, snapshot).0),
                _ => read(tap.message(entry), snapshot).map(|(_, key)| key),
            }));
            concerned.sort_unstable();
            concerned.dedup();
        }
        self.note(&concerned, tap, step, snapshot);
    }

    /// Notes what happened: reasons in the calls that are concerned, all else in its own.
    fn note(&mut self, concerned: &[u64], tap: &Tap, entries: &[Tapped], snapshot: &Snapshot) {
        let is_shared = concerned.len() > 1;
        for entry in entries {
            match entry.what {
                What::Received(_) | What::Sent(_) => {
                    if let Some((message, key)) = read(tap.message(entry), snapshot) {
                        self.note_message(key, entry, &message, snapshot);
                    }
                }
                What::Because(moves) => {
                    for &key in concerned {
                        self.change(key, |call, _| {
                            let reasons = moves.reasons();
                            reasons.for_each(|why| call.note_why(entry.at, why, is_shared));
                        });
                    }
                }
                What::Placed(place) => {
                    let (key, view) = tap.placement(place, snapshot);
                    self.change(key, |call, _| call.note_placement(entry.at, view));
                }
            }
        }
    }

    /// A request that came in begins a call, if there is none and it is of those to keep.
    fn begin(&mut self, key: u64, entry: &Tapped, message: &Message<'_>) {
        let What::Received(flow) = entry.what else {
            return;
        };
        if !message.is_request() || !self.keeps(key) || self.calls.contains_key(&key) {
            return;
        }
        let call = Call::new(message, flow.remote, entry.at, &self.mask);
        self.counts.recorded += 1;
        self.counts.bytes += call.bytes();
        self.order.push(Reverse((entry.at, key)));
        self.calls.insert(key, Box::new(call));
    }

    /// Changes a call, if it is known.
    fn change(&mut self, key: u64, change: impl FnOnce(&mut Call, &Mask)) {
        if let Some(call) = self.calls.get_mut(&key) {
            let before = call.bytes();
            change(call, &self.mask);
            self.counts.bytes = self.counts.bytes + call.bytes() - before;
        }
    }

    fn note_message(
        &mut self,
        key: u64,
        entry: &Tapped,
        message: &Message<'_>,
        snapshot: &Snapshot,
    ) {
        let (came_in, flow) = match entry.what {
            What::Received(flow) => (true, flow),
            What::Sent(flow) => (false, flow),
            What::Because(_) | What::Placed(_) => return,
        };
        self.change(key, |call, mask| {
            let is_server = || snapshot.member_of(flow).is_some();
            let summary = &mut call.summary;
            summary.follow(entry.at, came_in, flow, is_server, message);
            call.note_message(entry.at, came_in, flow, &mask.shown(message));
        });
    }

    /// Whether a call is of those that are kept.
    fn keeps(&self, key: u64) -> bool {
        is_kept(key, self.settings.one_in)
    }

    /// Forgets the calls that were silent for longest, until all fit beside so many bytes of a [`Backlog`].
    pub fn make_room(&mut self, beside: usize) {
        while self.counts.bytes + beside > self.settings.bytes_max
            || self.calls.len() > self.settings.calls_max
        {
            let Some(Reverse((queued_at, key))) = self.order.pop() else {
                return;
            };
            let Some(call) = self.calls.get(&key) else {
                continue;
            };
            let latest = call.summary().latest;
            if latest > queued_at {
                self.order.push(Reverse((latest, key)));
            } else if let Some(call) = self.calls.remove(&key) {
                self.counts.bytes -= call.bytes();
                self.counts.forgotten += 1;
            }
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
        self.calls.get(&key).map(|call| call.ladder(now))
    }
}

/// Whether a call is of the one in so many that are kept.
fn is_kept(key: u64, one_in: u32) -> bool {
    key.is_multiple_of(u64::from(one_in.max(1)))
}

/// A message, and [`Snapshot::session_of`] its call; none if it has no Call-ID.
fn read<'a>(bytes: &'a [u8], snapshot: &Snapshot) -> Option<(Message<'a>, u64)> {
    let message = Message::parse(bytes, HEADERS_MAX).ok()?;
    let key = snapshot.session_of(message.call_id().ok()?);
    Some((message, key))
}

//! Keeps the messages of the latest calls as they passed a node, with the reasons for what the node
//! did; finds calls again; draws one as a ladder, a text or a capture.
//!
//! It takes what a [`Tap`] has seen and opens no file, reads no clock and starts no thread. Memory has
//! a bound in bytes: when it is reached, the calls that were silent for longest are forgotten. Read
//! [`Recorder`] and [`Ladder`] first.

mod call;
mod capture_file;
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
    borrow::Cow,
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    time::Duration,
};

use node::{
    Flow, Snapshot,
    tap::{Tap, Tapped, What},
};
use sip::{HeaderName, Message};

pub use hep::Collector;
pub use ladder::{Ladder, Party, Rung, Seen, Step};
pub use records::{Outcome, Record, RecordCounts, Records, Tried};
pub use search::{Order, Search};
pub use state::{End, State, Summary};
pub use text::{gist, placement_words};
pub use traces::{Span, TraceCounts, Traces};

use call::Call;
use hep::Passing;
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
    /// Memory that they take, in bytes.
    pub bytes: usize,
    /// Calls since the start.
    pub recorded: u64,
    /// Calls that were forgotten to make room.
    pub forgotten: u64,
    /// Messages, reasons and placements that the taps had no room for.
    pub missed: u64,
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
    calls: HashMap<u64, Call>,
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
        self.make_room();
    }

    /// What it has done.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            calls: self.calls.len(),
            ..self.counts
        }
    }

    /// Forgets all calls.
    pub fn clear(&mut self) {
        self.calls = HashMap::new();
        self.order = BinaryHeap::new();
        self.counts.bytes = 0;
    }

    /// Counts what a tap had no room for.
    pub fn miss(&mut self, missed: u64) {
        self.counts.missed += missed;
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
        self.make_room();
    }

    /// A message that came in, and all that it brought about.
    fn take_received(&mut self, tap: &Tap, step: &[Tapped], snapshot: &Snapshot) {
        let Some((message, key)) = read(tap.message(&step[0]), snapshot) else {
            self.counts.unread += 1;
            return;
        };
        let begins = message.is_request();
        let call_id = message.call_id().unwrap_or_default();
        let finder = memchr::memmem::Finder::new(call_id);
        let Some(mut call) = self.lift(key, begins, &message, &step[0]) else {
            return;
        };
        let mut others = Vec::new();
        for entry in step {
            match entry.what {
                What::Sent(_) if finder.find(tap.message(entry)).is_none() => others.push(entry),
                What::Placed(place) if tap.placement(place, snapshot).0 != key => {
                    others.push(entry)
                }
                _ => self.note(&mut call, tap, entry, snapshot, false),
            }
        }
        self.put_back(key, call);
        for entry in others {
            self.take_due(tap, std::slice::from_ref(entry), snapshot);
        }
    }

    /// What timers, the store or the DNS brought about, for whatever calls.
    fn take_due(&mut self, tap: &Tap, step: &[Tapped], snapshot: &Snapshot) {
        let mut keys = Vec::new();
        for entry in step {
            let key = match entry.what {
                What::Received(_) | What::Sent(_) => {
                    read(tap.message(entry), snapshot).map(|(_, key)| key)
                }
                What::Placed(place) => Some(tap.placement(place, snapshot).0),
                What::Because(_) => None,
            };
            keys.push(key);
        }
        let mut known: Vec<u64> = keys.iter().copied().flatten().collect();
        known.sort_unstable();
        known.dedup();
        let is_shared = known.len() > 1;
        for key in known {
            let Some(mut call) = self.take_out(key) else {
                continue;
            };
            for (entry, of) in step.iter().zip(&keys) {
                if of.is_none_or(|of| of == key) {
                    self.note(&mut call, tap, entry, snapshot, is_shared);
                }
            }
            self.put_back(key, call);
        }
    }

    /// Takes a call out of the table, to change it. A request begins one, if it is of those to keep.
    fn lift(
        &mut self,
        key: u64,
        begins: bool,
        message: &Message<'_>,
        entry: &Tapped,
    ) -> Option<Call> {
        if let Some(call) = self.take_out(key) {
            return Some(call);
        }
        let What::Received(flow) = entry.what else {
            return None;
        };
        if !begins || !self.keeps(key) {
            return None;
        }
        self.counts.recorded += 1;
        self.order.push(Reverse((entry.at, key)));
        Some(Call::new(message, flow.remote, entry.at, &self.mask))
    }

    fn take_out(&mut self, key: u64) -> Option<Call> {
        let call = self.calls.remove(&key)?;
        self.counts.bytes -= call.bytes();
        Some(call)
    }

    fn put_back(&mut self, key: u64, call: Call) {
        self.counts.bytes += call.bytes();
        self.calls.insert(key, call);
    }

    /// Notes one thing in a call. `is_shared`: it may be about another call of the same step.
    fn note(
        &self,
        call: &mut Call,
        tap: &Tap,
        entry: &Tapped,
        snapshot: &Snapshot,
        is_shared: bool,
    ) {
        match entry.what {
            What::Received(flow) => self.note_message(call, true, flow, tap, entry, snapshot),
            What::Sent(flow) => self.note_message(call, false, flow, tap, entry, snapshot),
            What::Because(why) => call.note_why(entry.at, why, is_shared),
            What::Placed(place) => {
                let (_, view) = tap.placement(place, snapshot);
                call.note_placement(entry.at, view);
            }
        }
    }

    fn note_message(
        &self,
        call: &mut Call,
        came_in: bool,
        flow: Flow,
        tap: &Tap,
        entry: &Tapped,
        snapshot: &Snapshot,
    ) {
        let Ok(message) = Message::parse(tap.message(entry), HEADERS_MAX) else {
            return;
        };
        let is_server = snapshot.member_of(flow).is_some();
        call.summary
            .follow(entry.at, came_in, flow, is_server, &message);
        call.note_message(entry.at, came_in, flow, &self.shown(&message));
    }

    /// A message without what is to be hidden; credentials always are.
    fn shown<'a>(&self, message: &Message<'a>) -> Cow<'a, [u8]> {
        let bytes = message.bytes();
        let proves = message.header(HeaderName::Authorization).is_some()
            || message.header(HeaderName::ProxyAuthorization).is_some();
        if proves || self.mask.users || self.mask.bodies {
            let head = bytes.len() - message.body().len();
            return self.mask.apply(bytes, head).into();
        }
        bytes.into()
    }

    /// Writes a packet for the collector about each message that a tap has seen, and gives it to `send`. `zero` is the
    /// wall time of the node's zero since the UNIX epoch.
    pub fn export(
        &self,
        tap: &Tap,
        snapshot: &Snapshot,
        zero: Duration,
        mut send: impl FnMut(&[u8]),
    ) {
        let Some(collector) = &self.settings.collector else {
            return;
        };
        let listeners: Vec<_> = snapshot
            .config()
            .listeners
            .iter()
            .map(|it| it.address)
            .collect();
        let mut packet = Vec::new();
        for entry in tap.entries() {
            let (What::Received(flow) | What::Sent(flow)) = entry.what else {
                continue;
            };
            let Some((message, key)) = read(tap.message(entry), snapshot) else {
                continue;
            };
            if !self.keeps(key) {
                continue;
            }
            let own = Ladder::own_address(&listeners, flow);
            let (from, to) = match entry.what {
                What::Received(_) => (flow.remote, own),
                _ => (own, flow.remote),
            };
            let passing = Passing {
                from,
                to,
                is_stream: flow.is_reliable(),
                at: zero + entry.at,
                call_id: message.call_id().unwrap_or_default(),
                bytes: &self.shown(&message),
            };
            collector.write(&passing, &mut packet);
            send(&packet);
        }
    }

    /// Whether a call is of those that are kept.
    fn keeps(&self, key: u64) -> bool {
        key.is_multiple_of(u64::from(self.settings.one_in.max(1)))
    }

    /// Forgets the calls that were silent for longest.
    fn make_room(&mut self) {
        while self.counts.bytes > self.settings.bytes_max
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
            } else if self.take_out(key).is_some() {
                self.counts.forgotten += 1;
            }
        }
    }

    /// Calls that match, at most so many, and how many match in all. Times count from the node's zero.
    #[must_use]
    pub fn find(&self, search: &Search, now: Duration, most: usize) -> (Vec<Summary>, usize) {
        search.run(
            self.calls.values().map(Call::summary),
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

/// A message, and [`Snapshot::session_of`] its call; none if it has no Call-ID.
fn read<'a>(bytes: &'a [u8], snapshot: &Snapshot) -> Option<(Message<'a>, u64)> {
    let message = Message::parse(bytes, HEADERS_MAX).ok()?;
    let key = snapshot.session_of(message.call_id().ok()?);
    Some((message, key))
}

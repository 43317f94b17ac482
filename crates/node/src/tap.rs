//! A tap on a node: what came in, what went out, and why.
//!
//! A driver that puts a [`Tap`] into its [`Outbox`](crate::Outbox) can read there, after each batch, every message
//! with the counters that it moved and the placements that it caused. Without a tap nothing is
//! recorded.

use std::{mem, ops::Range, time::Duration};

use transaction::Flow;

use crate::{
    decisions::{Decision, DecisionView},
    snapshot::Snapshot,
    stats::{Dropped, Event},
};

pub use crate::stats::Moves;

/// Messages that are dropped, or refused as the node is overloaded, of which so many are recorded in a second: a flood of them
/// would leave no room for calls, and recording it would cost more than refusing it.
const TURNED_AWAY_PER_S: u32 = 100;

/// Records messages up to a number of bytes. What finds no room is counted and left out.
#[derive(Debug)]
pub struct Tap {
    entries: Vec<Tapped>,
    bytes: Vec<u8>,
    placements: Vec<Decision>,
    bytes_max: usize,
    step: u32,
    missed: u64,
    /// How many that are turned away are recorded until then.
    turned_away_left: u32,
    turned_away_until: Duration,
    /// Of so many calls one is recorded.
    one_in: u32,
    /// Whether the calls of this step are known, and one of them is to be recorded.
    is_told: bool,
    is_wanted: bool,
    /// Bytes of the messages of calls that were left out.
    left_out: u64,
    /// Entries that [`Self::news`] has told.
    told: usize,
}

/// One thing that a tap has seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tapped {
    /// When it happened.
    pub at: Duration,
    /// The same for all that one input or one look at the timers brought about.
    pub step: u32,
    /// What happened.
    pub what: What,
    /// Where the message lies among the tap's bytes; empty for a reason.
    start: u32,
    length: u32,
}

/// What a tap has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A message came in.
    Received(Flow),
    /// A message goes out.
    Sent(Flow),
    /// Why: the counters that moved in this step.
    Because(Moves),
    /// A policy chose a server: the place for [`Tap::placement`].
    Placed(usize),
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

impl Tap {
    /// A tap that holds up to so many bytes between two [`Self::clear`].
    ///
    /// # Panics
    /// If they are 4 GiB or more.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        assert!(u32::try_from(bytes_max).is_ok(), "places have 32 bits");
        Self {
            entries: Vec::new(),
            bytes: Vec::new(),
            placements: Vec::new(),
            bytes_max,
            step: 0,
            missed: 0,
            turned_away_left: 0,
            turned_away_until: Duration::ZERO,
            one_in: 1,
            is_told: false,
            is_wanted: false,
            left_out: 0,
            told: 0,
        }
    }

    /// Records one call in so many from now on, whole: those whose [`Snapshot::session_of`] is a multiple of that. What is of no
    /// call that is known yet is recorded, too.
    pub fn keep_one_in(&mut self, calls: u32) {
        self.one_in = calls.max(1);
    }

    /// Of how many calls one is recorded.
    #[must_use]
    pub fn one_in(&self) -> u32 {
        self.one_in
    }

    /// What it has seen since it was cleared, in order.
    #[must_use]
    pub fn entries(&self) -> &[Tapped] {
        &self.entries
    }

    /// Which entries are new since this was last called, or since it was cleared.
    pub fn news(&mut self) -> Range<usize> {
        mem::replace(&mut self.told, self.entries.len())..self.entries.len()
    }

    /// The bytes of all messages.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes of all messages of calls that were left out since it was cleared.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Memory that it takes, in bytes, whether it is used or not.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
            + self.entries.capacity() * size_of::<Tapped>()
            + self.placements.capacity() * size_of::<Decision>()
    }

    /// Gives memory back if less than half of it is used: a burst has left it.
    pub fn fit(&mut self) {
        self.bytes.shrink_to(2 * self.bytes.len());
        self.entries.shrink_to(2 * self.entries.len());
        self.placements.shrink_to(2 * self.placements.len());
    }

    /// The message of an entry; empty for a reason.
    #[must_use]
    pub fn message(&self, entry: &Tapped) -> &[u8] {
        let start = entry.start as usize;
        &self.bytes[start..start + entry.length as usize]
    }

    /// A placement: [`Snapshot::session_of`] its call, and what the policy saw.
    #[must_use]
    pub fn placement(&self, place: usize, snapshot: &Snapshot) -> (u64, DecisionView) {
        let decision = &self.placements[place];
        (decision.session(), decision.view(decision.at(), snapshot))
    }

    /// [`Snapshot::session_of`] the call of a placement.
    #[must_use]
    pub fn placed_call(&self, place: usize) -> u64 {
        self.placements[place].session()
    }

    /// What found no room since it was cleared: messages, reasons and placements.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Takes an entry of another tap over, with these bytes.
    pub fn copy(&mut self, other: &Self, entry: &Tapped, bytes: &[u8]) {
        let what = match entry.what {
            What::Placed(place) => {
                self.placements.push(other.placements[place].clone());
                What::Placed(self.placements.len() - 1)
            }
            what => what,
        };
        self.record(entry.at, what, bytes);
    }

    /// Forgets what it has seen, keeps the memory.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.bytes.clear();
        self.placements.clear();
        self.told = 0;
        self.missed = 0;
        self.left_out = 0;
    }

    /// What is recorded from here on belongs together.
    pub(crate) fn begin_step(&mut self) {
        self.step = self.step.wrapping_add(1);
    }

    /// This step is of a call.
    pub(crate) fn note_call(&mut self, session: u64) {
        self.is_told = true;
        self.is_wanted |= session.is_multiple_of(self.one_in.into());
    }

    /// Whether this step is of calls that are left out. `bytes` tells how much it was.
    pub(crate) fn leaves_out(&mut self, bytes: impl FnOnce() -> usize) -> bool {
        let (is_told, is_wanted) = (mem::take(&mut self.is_told), mem::take(&mut self.is_wanted));
        let leaves_out = is_told && !is_wanted;
        if leaves_out {
            self.left_out += bytes() as u64;
        }
        leaves_out
    }

    /// Whether a step is to be recorded: not each message that is turned away.
    pub(crate) fn takes(&mut self, now: Duration, moves: Moves) -> bool {
        if !moves.turn_away() {
            return true;
        }
        if self.turned_away_until <= now {
            self.turned_away_until = now + Duration::from_secs(1);
            self.turned_away_left = TURNED_AWAY_PER_S;
        }
        let takes = self.turned_away_left > 0;
        self.turned_away_left = self.turned_away_left.saturating_sub(1);
        self.missed += u64::from(!takes);
        takes
    }

    fn has_room(&mut self, bytes: usize) -> bool {
        let fixed = self.entries.len() * size_of::<Tapped>()
            + self.placements.len() * size_of::<Decision>();
        let fits = fixed + self.bytes.len() + bytes <= self.bytes_max;
        self.missed += u64::from(!fits);
        fits
    }

    pub(crate) fn record(&mut self, at: Duration, what: What, bytes: &[u8]) {
        if self.has_room(bytes.len()) {
            self.entries.push(Tapped {
                at,
                step: self.step,
                what,
                start: self.bytes.len() as u32,
                length: bytes.len() as u32,
            });
            self.bytes.extend_from_slice(bytes);
        }
    }

    pub(crate) fn explain(&mut self, at: Duration, moves: Moves) {
        if !moves.are_usual() {
            self.record(at, What::Because(moves), &[]);
        }
    }

    pub(crate) fn place(&mut self, at: Duration, decision: &Decision) {
        if self.has_room(size_of::<Decision>()) {
            self.placements.push(decision.clone());
            let place = self.placements.len() - 1;
            self.record(at, What::Placed(place), &[]);
        }
    }
}

impl Moves {
    /// The counters, but for those that count messages as such.
    pub fn reasons(self) -> impl Iterator<Item = Why> {
        let events = self.events().map(Why::Event);
        let dropped = self.dropped().map(Why::Dropped);
        events
            .chain(dropped)
            .chain(self.replies().map(Why::Replied))
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

    /// In a sentence; an answer has none but its status.
    #[must_use]
    pub fn help(self) -> &'static str {
        match self {
            Self::Event(event) => event.help(),
            Self::Dropped(reason) => reason.help(),
            Self::Replied(481) => {
                "The node knows no such dialog or INVITE: the request has no token of ours in its \
                 Route (a caller that ignores the route set), or the call is over"
            }
            Self::Replied(503) => {
                "There is no room or no server; Retry-After says when to come back"
            }
            Self::Replied(401 | 407) => "The sender has to show a password",
            Self::Replied(403) => "The sender may not do this",
            Self::Replied(404 | 405) => "No route takes this request",
            Self::Replied(408) => "Nobody answered in time",
            Self::Replied(483) => "It has passed too many hops",
            Self::Replied(_) => "The node answered by itself",
        }
    }
}

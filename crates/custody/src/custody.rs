//! One worker's part of a node: whether it holds a request or leaves it open.

use std::time::Duration;

use crate::{
    costs::Costs,
    division::{Flows, grants, pass_shares},
    peers::{NOBODY, PLACES, Peers},
};

/// How busy a worker may be before it leaves requests open to others.
pub(crate) const TARGET: f64 = 0.97;

/// How often the shares are set anew.
pub const INTERVAL: Duration = Duration::from_millis(100);

/// How long a room that was told holds.
pub(crate) const VALIDITY: Duration = Duration::from_secs(1);

/// The longest validity that is believed.
const VALIDITY_MAX: Duration = Duration::from_secs(10);

/// Over which time rates are smoothed.
const SMOOTHED_OVER: Duration = Duration::from_millis(200);

/// The worker is short of so much of its time, as far as it counts, while requests wait for it.
const BEHIND: f64 = 0.1;

/// What a worker holds changes by so much of its requests in an interval at most. It may be wrong about the costs. And
/// what it leaves open at once fills the nodes behind it: with 0.3 waves ran through a chain, with 0.15 through a long one.
const STEP_MAX: f64 = 0.1;

/// A worker that is idle for so much of its time holds all it can at once: there is room for an error.
const IDLE: f64 = 0.2;

/// A worker that is busier has no time left. What came and what was done differ then, so it tells nothing of the costs.
const FULL: f64 = 0.99;

/// A worker that takes so many times as long as its costs tell has become slower.
const SLOWER: f64 = 1.5;

/// An interval that is longer tells nothing of the load.
const INTERVAL_MAX: Duration = Duration::from_secs(1);

/// A request that begins a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The key of the node before that sent it; none: a client, or a node that takes no part.
    pub from: Option<u64>,
    /// The key of where it goes; none: to nobody who could take part.
    pub to: Option<u64>,
    /// A node before this one holds it.
    pub is_held: bool,
    /// Nobody has checked yet who sent it, and whoever holds it has to.
    pub is_unchecked: bool,
    /// Evenly spread among requests, the same for each copy of one.
    pub draw: u64,
}

/// Who holds a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// This node.
    Hold,
    /// A node behind it.
    LeaveOpen,
    /// A node before it.
    IsHeld,
}

/// What a node is told by the one behind it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Room {
    /// Requests per second that it may leave open.
    pub per_s: f64,
    /// How long that holds.
    pub validity: Duration,
    /// Whether it checks who sent them, where that is to be checked.
    pub checks: bool,
}

/// Where a worker stands, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// The share of its time that it was busy.
    pub busy: f64,
    /// Requests per second.
    pub requests_per_s: f64,
    /// Those that it holds.
    pub held_per_s: f64,
    /// Those that come open.
    pub open_per_s: f64,
    /// How many it could hold.
    pub room_per_s: f64,
    /// The time to pass a request on, in seconds.
    pub pass_s: f64,
    /// The time in addition to hold it, in seconds.
    pub hold_s: f64,
}

/// The memory of one worker: who leaves it requests open, whom it may leave some, and what they cost.
#[derive(Debug)]
pub struct Custody {
    peers: Peers,
    flows: Flows,
    hops: [Hop; PLACES],
    grants: [f64; PLACES],
    costs: Costs,
    figures: Figures,
    /// What happened in this interval.
    began: Duration,
    requests: u32,
    held: u32,
    busy: Duration,
    is_behind: bool,
    /// It had no time left in this interval.
    is_full: bool,
    /// Requests per second when it last had time left.
    kept_up_per_s: f64,
    /// Shares by hand; none: as they are found.
    fixed: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Hop {
    told: f64,
    until: Duration,
    checks: bool,
    /// The share of the open requests that is left to it.
    share: f64,
}

impl Hop {
    fn takes(&self, now: Duration, is_unchecked: bool) -> bool {
        now < self.until && (self.checks || !is_unchecked)
    }
}

impl Custody {
    /// A worker that knows nobody.
    #[must_use]
    pub fn new(now: Duration) -> Self {
        Self {
            peers: Peers::new(),
            flows: Flows::new(),
            hops: [Hop::default(); PLACES],
            grants: [0.0; PLACES],
            costs: Costs::default(),
            figures: Figures::default(),
            began: now,
            requests: 0,
            held: 0,
            busy: Duration::ZERO,
            is_behind: false,
            is_full: false,
            kept_up_per_s: 0.0,
            fixed: None,
        }
    }

    /// The worker was busy for so long.
    pub fn note_busy(&mut self, busy: Duration) {
        self.busy += busy;
    }

    /// Requests wait for the worker.
    pub fn note_behind(&mut self) {
        self.is_behind = true;
    }

    /// Whether a node behind told of room, and still stands to it; for a request that is unchecked, too.
    #[must_use]
    pub fn takes(&self, now: Duration, hop: u64, is_unchecked: bool) -> bool {
        let hop = self.peers.find(hop).map(|place| &self.hops[place]);
        hop.is_some_and(|hop| hop.takes(now, is_unchecked))
    }

    /// Whether [`Self::decide`] will leave an unchecked request with this draw to this node behind.
    #[must_use]
    pub fn leaves_unchecked(&self, now: Duration, hop: u64, draw: u64) -> bool {
        let hop = self.peers.find(hop).map(|place| &self.hops[place]);
        hop.is_some_and(|hop| hop.takes(now, true) && self.is_left(hop, draw))
    }

    /// Whether an unchecked request with this draw may be left to some node behind. Which one it goes to is not
    /// known yet, so [`Self::decide`] may say otherwise.
    #[must_use]
    pub fn may_leave_unchecked(&self, now: Duration, draw: u64) -> bool {
        let hops = self.hops.iter().take(self.peers.end()).skip(1);
        hops.filter(|hop| hop.takes(now, true))
            .any(|hop| self.is_left(hop, draw))
    }

    /// Says who is to hold a new request. What was said about one must be remembered until it is answered.
    pub fn decide(&mut self, now: Duration, request: &Request) -> Decision {
        let from = match request.from {
            Some(key) => self.peers.note(now, key),
            None => NOBODY,
        };
        let to = request.to.and_then(|key| self.peers.find(key));
        let to = to.unwrap_or(NOBODY);
        self.flows.note(from, to, !request.is_held);
        self.requests += 1;
        if request.is_held {
            return Decision::IsHeld;
        }
        let hop = &self.hops[to];
        if hop.takes(now, request.is_unchecked) && self.is_left(hop, request.draw) {
            return Decision::LeaveOpen;
        }
        self.held += 1;
        Decision::Hold
    }

    fn is_left(&self, hop: &Hop, draw: u64) -> bool {
        let share = self.fixed.unwrap_or(hop.share);
        (draw as f64) < share * u64::MAX as f64
    }

    /// What was to be held could not be, and was left open.
    pub fn could_not_hold(&mut self) {
        self.held = self.held.saturating_sub(1);
    }

    /// A node behind has told of room.
    pub fn hear(&mut self, now: Duration, hop: u64, room: Room) {
        let place = self.peers.note(now, hop);
        if place != NOBODY {
            let hop = &mut self.hops[place];
            hop.told = room.per_s.max(0.0);
            hop.until = now + room.validity.min(VALIDITY_MAX);
            hop.checks = room.checks;
        }
    }

    /// What to tell a node before this one. None: it has left nothing here, or too little is known yet. `checks`:
    /// this node checks who sent what is left to it.
    #[must_use]
    pub fn room(&self, before: u64, checks: bool) -> Option<Room> {
        let place = self.peers.find(before)?;
        self.costs.are_known().then(|| Room {
            per_s: self.grants[place].max(0.0),
            validity: VALIDITY,
            checks,
        })
    }

    /// Leaves this share of what comes open to those behind who take it, whatever is found. None: as it is
    /// found.
    pub fn fix(&mut self, share: Option<f64>) {
        self.fixed = share;
    }

    /// Where the worker stands.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.figures
    }

    /// When [`Self::on_timers`] wants to be called; none: nothing happens.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        (self.requests > 0 || self.figures.requests_per_s > 1.0).then(|| self.began + INTERVAL)
    }

    /// Sets the shares anew if it is time.
    pub fn on_timers(&mut self, now: Duration) {
        let lasted = now.saturating_sub(self.began);
        if lasted < INTERVAL {
            return;
        }
        for gone in self.peers.forget_silent(now) {
            self.flows.forget(gone);
            (self.hops[gone], self.grants[gone]) = (Hop::default(), 0.0);
        }
        self.measure(lasted);
        self.divide(now);
        self.began = now;
        (self.requests, self.held, self.busy) = (0, 0, Duration::ZERO);
        self.is_behind = false;
    }

    fn measure(&mut self, lasted: Duration) {
        let seconds = lasted.as_secs_f64();
        let busy = self.busy.as_secs_f64() / seconds;
        self.is_full = self.is_behind || busy > FULL;
        if lasted <= INTERVAL_MAX && !(self.is_full && self.costs.are_known()) {
            self.costs.learn(self.requests, self.held, self.busy);
        }
        let weight = 1.0 - (-seconds / SMOOTHED_OVER.as_secs_f64()).exp();
        let end = self.peers.end();
        self.flows.smooth(end, seconds, weight);
        let figures = &mut self.figures;
        let smooth = |rate: &mut f64, now: f64| *rate += weight * (now - *rate);
        smooth(&mut figures.busy, busy);
        smooth(
            &mut figures.requests_per_s,
            f64::from(self.requests) / seconds,
        );
        smooth(&mut figures.held_per_s, f64::from(self.held) / seconds);
        figures.open_per_s = self.flows.open(end);
        if !self.is_full {
            self.kept_up_per_s = figures.requests_per_s;
        }
        (figures.pass_s, figures.hold_s) = (self.costs.pass_s(), self.costs.hold_s());
    }

    /// How many requests per second this worker can hold.
    fn can_hold(&self) -> f64 {
        let mut spare = TARGET - self.figures.busy;
        if self.is_behind {
            spare = spare.min(-BEHIND);
        }
        let mut more = spare / self.costs.hold_s();
        if spare < IDLE {
            let most = STEP_MAX * self.figures.requests_per_s;
            more = more.clamp(-most, most);
        }
        let own = self.figures.held_per_s + more;
        self.slowed().map_or(own, |slowed| slowed.min(own))
    }

    /// How many a worker that has become slower can hold of what it kept up with before.
    fn slowed(&self) -> Option<f64> {
        let slower = self.busy.as_secs_f64() / self.costs.of(self.requests, self.held);
        (self.is_full && slower > SLOWER).then(|| {
            let left = TARGET / slower - self.kept_up_per_s * self.costs.pass_s();
            (left / self.costs.hold_s()).max(0.0)
        })
    }

    fn divide(&mut self, now: Duration) {
        let end = self.peers.end();
        let own = match self.costs.are_known() {
            true => self.can_hold(),
            false => f64::INFINITY,
        };
        self.figures.room_per_s = own;
        let (mut rooms, mut shares) = ([0.0; PLACES], [0.0; PLACES]);
        for (room, hop) in rooms.iter_mut().zip(&self.hops).take(end).skip(1) {
            *room = if now < hop.until { hop.told } else { 0.0 };
        }
        let surplus = (self.figures.open_per_s - own).max(0.0);
        pass_shares(&self.flows, end, surplus, &rooms, &mut shares);
        for (hop, share) in self.hops.iter_mut().zip(shares) {
            hop.share = share;
        }
        grants(&self.flows, end, own.min(1e12), &rooms, &mut self.grants);
    }
}

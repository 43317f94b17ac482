//! Where new requests wait while the node is behind.
//!
//! A node that serves messages in the order in which they came collapses under more calls than it can carry: callers
//! repeat what waits too long. So a node that is behind serves what belongs to something known at once, and lets new
//! requests that came as datagrams wait here. They are served as soon as nothing better is there, newest first if
//! others are too late. What waits too long is refused. Those over streams wait in their connections: [`Backlog`].

mod leaving;

use std::{mem, time::Duration};

use fastrand::Rng;
use overload::{BEHIND, Share, Standstill, Throughput};
use sip::Message;
use slots::Kept;
use transaction::Flow;

use super::{
    backlog::Backlog,
    class::{Class, patience_in},
    delays::Delays,
    guest::{Guest, Leaves, Standing, Taken, came, comes_once, name_of},
    guests::Guests,
    lane::Lane,
    queue::Queue,
    refusals::Refusals,
    sieve::Sieve,
    unheard::Unheard,
};
use crate::{
    context::Context,
    io::{Datagram, Origin},
};

/// For how long a node stays behind after datagrams have waited longer than [`BEHIND`].
const MEMORY: Duration = Duration::from_millis(100);
/// INVITEs that may be repeated are refused at once if no less than this part of those who come surely are new.
const ENOUGH: f64 = 0.6;
/// More of a kind are not read if they can't be refused.
const GUESTS_AT_HAND: usize = 64;
/// Lanes stay for so long after they were needed.
const LANES_STAY: Duration = Duration::from_secs(10);
/// An overload that is shorter is a burst: who waits too long is not refused, as the node can serve what is repeated.
const BURST: Duration = Duration::from_secs(2);
/// The same while a share stays out.
const BURST_TOO_BIG: Duration = Duration::from_millis(1500);
/// So long after calls began to stay out, those who come again are served if the worker is not busy.
const BEGINS: Duration = Duration::from_secs(5);
/// So long after a call found no room behind the node, calls that stay out do so for that.
const FULL_BEHIND: Duration = Duration::from_secs(1);
/// The least pause of a phone that is refused, in seconds, and the most that chance adds to it.
const PAUSE_S: f64 = 4.0;
const PAUSE_S_MAX: f64 = 32.0;

/// The requests that wait.
#[derive(Debug)]
pub(crate) struct Lobby {
    rng: Rng,
    salt: u32,
    guests: Guests,
    delays: Delays,
    /// The lane of what comes next, and how long that has waited there; none: it comes with all others.
    lane: Option<Lane>,
    waited: Duration,
    behind_until: Duration,
    standstill: Standstill,
    backlog: Backlog,
    queue: Queue,
    /// New requests are to come in lanes until then, and whether they do.
    lanes_until: Duration,
    has_lanes: bool,
    /// Since when requests have waited too long.
    late_since: Option<Duration>,
    /// Until then nobody behind the node has room for more calls.
    full_behind_until: Duration,
    /// Since when a share of the calls stays out.
    cut_since: Option<Duration>,
    throughput: Throughput,
    refusals: Refusals,
    /// Of INVITEs, and of REGISTERs: a flood of one leaves the other alone.
    calls: Share,
    registers: Share,
    sieve: Sieve,
    unheard: Unheard,
    /// Whether the driver does not know the sieve yet.
    is_new: bool,
    /// Whether unknown sources have come since the driver learned of one: no other meets it there.
    are_strangers: bool,
    /// Whether neighbours know of an overload.
    is_over: bool,
    /// Whether it stops unknown sources before they come here.
    is_filtered: bool,
}

impl Lobby {
    pub(crate) fn new(message_bytes: usize, mut rng: Rng, now: Duration) -> Self {
        let salt = rng.u32(..);
        Self {
            rng,
            guests: Guests::new(message_bytes),
            delays: Delays::default(),
            lane: None,
            waited: Duration::ZERO,
            behind_until: Duration::ZERO,
            standstill: Standstill::default(),
            backlog: Backlog::default(),
            queue: Queue::default(),
            lanes_until: Duration::ZERO,
            has_lanes: false,
            late_since: None,
            full_behind_until: Duration::ZERO,
            cut_since: None,
            throughput: Throughput::default(),
            refusals: Refusals::default(),
            calls: Share::new(now),
            registers: Share::new(now),
            sieve: Sieve::new(salt, 1.0),
            salt,
            unheard: Unheard::default(),
            is_new: false,
            are_strangers: false,
            is_over: false,
            is_filtered: false,
        }
    }

    /// The driver has seen datagrams that waited for so long, in a lane or with all others.
    pub(crate) fn note_delay(&mut self, now: Duration, lane: Option<Lane>, delay: Duration) {
        (self.lane, self.waited) = (lane, delay);
        let delay = self.standstill.beyond(now, delay);
        self.queue.note_lane(now, lane);
        if lane.is_none() && self.has_lanes {
            self.queue.note(now, delay);
        }
        self.delays.note(now, lane, delay);
        if delay > BEHIND {
            self.behind_until = now + MEMORY;
        }
    }

    /// Nothing waits in a lane.
    pub(crate) fn note_empty(&mut self, now: Duration, lane: Lane) {
        self.delays.note_empty(now, lane);
    }

    /// Whether new requests are to wait in lanes of their own.
    pub(crate) fn wants_lanes(&mut self, now: Duration) -> bool {
        if self.is_open(now) || !self.sieve.is_open() {
            self.lanes_until = now + LANES_STAY;
        }
        now < self.lanes_until
    }

    /// Whether the driver is to read from a lane: more than can be served soon only if they can be refused.
    pub(crate) fn has_room(&self, lane: Lane) -> bool {
        let number = |&class: &Class| self.guests.of(class);
        let waiting: usize = Class::of(lane).iter().map(number).sum();
        waiting < GUESTS_AT_HAND || self.refusals.are_enough_for(waiting)
    }

    /// Whether a lane is to wait for the listener's own socket.
    pub(crate) fn yields(&self, now: Duration, lane: Lane) -> bool {
        self.queue.goes_first(now, lane)
    }

    /// Whether what known hosts send to the listener's own socket waits too long.
    pub(crate) fn are_known_behind(&self) -> bool {
        self.queue.is_behind()
    }

    /// Whether one more may be refused.
    pub(crate) fn may_refuse(&self) -> bool {
        self.refusals.are_enough_for(1)
    }

    /// Whether new requests come in lanes from now on.
    pub(crate) fn set_lanes(&mut self, now: Duration, has_lanes: bool) {
        (self.has_lanes, self.is_filtered) = (has_lanes, false);
        self.delays.set_lanes(now, has_lanes);
        self.renew_sieve();
    }

    /// Whether what comes next has waited too long in its lane, and can't even be refused.
    pub(crate) fn is_too_late(&self, now: Duration) -> bool {
        let is_of_calls = self.lane == Some(Lane::OfCalls);
        self.is_late_in_lane()
            && (is_of_calls || !self.is_over(now) || !self.refusals.are_enough_for(1))
    }

    fn is_late_in_lane(&self) -> bool {
        self.lane
            .is_some_and(|lane| self.waited > patience_in(lane, self.shares()))
    }

    /// So many requests found no room in a lane.
    pub(crate) fn note_missed(&mut self, now: Duration, lane: Lane, number: u32) {
        self.late_since.get_or_insert(now);
        if let Some(share) = self.share_of(Class::of(lane)[0]) {
            share.lost(now, number);
        }
    }

    /// What came next from a lane was too late.
    pub(crate) fn note_too_late(&mut self, now: Duration, bytes: &[u8]) {
        let (Some(lane), waited) = (self.lane, self.waited) else {
            return;
        };
        let class = Class::of(lane)[0];
        self.late_since.get_or_insert(now);
        self.remember(now, class, bytes);
        if let Some(share) = self.share_of(class) {
            share.missed(now, 1, waited);
        }
    }

    /// What was read from a connection has waited there for so long.
    pub(crate) fn note_stream_delay(&mut self, now: Duration, delay: Duration) {
        self.backlog.note(now, self.standstill.beyond(now, delay));
    }

    /// Whether a new request has waited in its connection for too long. [`Self::note_late_neighbour`] is to be told if it
    /// is that of a neighbour who obeys.
    pub(crate) fn is_late(&self, flow: Flow) -> bool {
        comes_once(flow) && self.backlog.is_late()
    }

    pub(crate) fn note_late_neighbour(&mut self, now: Duration) {
        self.backlog.note_neighbour(now);
    }

    /// When the worker stood still last.
    pub(crate) fn note_standstill(&mut self, standstill: Standstill) {
        self.standstill = standstill;
    }

    /// The worker was busy for so long since it told last, and for strangers' connections.
    pub(crate) fn note_busy(&mut self, busy: Duration, for_strangers: Duration) {
        self.throughput.note_busy(busy, for_strangers);
    }

    /// Nobody behind the node had room for so many of the calls that were let in, and nobody has room for more. A node that
    /// has time to refuse them lets them in all the same.
    pub(crate) fn note_in_vain(&mut self, now: Duration, calls: u32) {
        if calls > 0 && self.calls.is_busy() {
            self.full_behind_until = now + FULL_BEHIND;
            self.calls.served_in_vain(calls);
        }
    }

    /// Whether calls stay out for lack of room behind the node alone: it has time left.
    fn has_time_left(&self, now: Duration) -> bool {
        now < self.full_behind_until && !self.is_open(now) && !self.calls.is_busy()
    }

    /// Whether more comes than the node has time for.
    pub(crate) fn is_behind(&self, now: Duration) -> bool {
        self.is_open(now) || self.some_stay_out() && !self.has_time_left(now)
    }

    /// A lane's filter stopped so many requests.
    pub(crate) fn note_filtered(&mut self, lane: Lane, number: u32) {
        if let Some(share) = self.share_of(Class::of(lane)[0]) {
            share.stayed_out(number);
        }
    }

    /// So many datagrams were dropped unread. Which, nobody knows: without lanes it may be strangers'.
    pub(crate) fn note_unread(&mut self, now: Duration, number: u32) {
        if self.has_lanes {
            self.queue.note_lost(now);
        }
        self.calls.stayed_out(number);
        self.registers.stayed_out(number);
    }

    /// Whether new requests are to wait.
    pub(crate) fn is_open(&self, now: Duration) -> bool {
        now < self.behind_until || !self.guests.is_empty()
    }

    /// Whether a new request need not wait. It counts as served then.
    fn lets_pass(
        &mut self,
        now: Duration,
        class: Class,
        datagram: &Datagram<'_>,
        standing: Standing,
    ) -> bool {
        let is_unwelcome = || {
            class == Class::Call
                && !standing.is_granted
                && self.is_crowded(now)
                && !self.is_surely_new(datagram)
        };
        let passes = match comes_once(datagram.flow) {
            true => !self.backlog.is_too_late_for(now, class),
            false => !self.is_open(now) && !is_unwelcome(),
        };
        if passes {
            if !standing.is_granted
                && let Some(share) = self.share_of(class)
            {
                share.came();
            }
            self.note_served(class, standing);
        }
        passes
    }

    fn note_served(&mut self, class: Class, standing: Standing) {
        self.refusals.earn();
        self.throughput.note_served(standing.is_apart);
        if !standing.is_granted
            && let Some(share) = self.share_of(class)
        {
            share.served();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.guests.is_empty()
    }

    /// When the next one has waited too long.
    pub(crate) fn deadline(&self, now: Duration) -> Option<Duration> {
        self.guests
            .deadline(self.is_over(now) && self.some_stay_out())
    }

    /// Whether it is more than a burst.
    fn is_over(&self, now: Duration) -> bool {
        let lasts = |since: Option<Duration>, time| since.is_some_and(|since| since + time <= now);
        lasts(self.late_since, BURST) || lasts(self.cut_since, BURST_TOO_BIG)
    }

    /// Whether there are enough calls that surely are new, and no room for others.
    fn is_crowded(&self, now: Duration) -> bool {
        let [new, all] = [self.calls.surely_new(), self.calls.get()];
        let begins = self.cut_since.is_some_and(|since| now < since + BEGINS);
        let has_room = begins && !self.calls.is_busy();
        self.is_over(now) && self.some_stay_out() && new > ENOUGH * all && !has_room
    }

    /// Whether a share of the calls stays out.
    pub(crate) fn some_stay_out(&self) -> bool {
        self.calls.get() < 1.0
    }

    /// Memory of the requests that wait, in bytes.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.guests.kept_bytes()
    }

    /// Takes a new request: it passes, waits, or is one of those that stay out.
    pub(crate) fn take_in(
        &mut self,
        cx: Context<'_>,
        class: Class,
        datagram: &Datagram<'_>,
        message: &Message<'_>,
        origin: Origin,
    ) -> Taken {
        let standing = Standing::of(cx, class, datagram.flow, message, origin);
        if self.lets_pass(cx.now, class, datagram, standing) {
            return Taken::Passes;
        }
        if comes_once(datagram.flow) {
            self.refusals.spend_on_stream();
            return Taken::Refused;
        }
        let name = name_of(cx, class, message);
        if name.is_some_and(|name| self.guests.has(name)) {
            return Taken::WaitsAlready;
        }
        let guest = Guest {
            flow: datagram.flow,
            origin,
            bytes: Kept::default(),
            came: came(cx.now, origin, self.waited),
            since: cx.now,
            class,
            standing,
            name,
        };
        match standing.is_granted {
            true => self.keep(guest, datagram),
            false => self.sift(cx, guest, datagram),
        }
    }

    /// Lets a request wait, unless the sieve stops it.
    fn sift(&mut self, cx: Context<'_>, mut guest: Guest, datagram: &Datagram<'_>) -> Taken {
        let from = datagram.flow.remote;
        let is_stranger = cx.shared.has_lanes(cx.snapshot, from.ip());
        self.are_strangers |= is_stranger;
        let is_sifted = self.is_filtered && is_stranger;
        let is_stopped = !is_sifted && !self.sieve.passes(datagram.bytes, from);
        if is_stopped && guest.class != Class::Emergency {
            if let Some(share) = self.share_of(guest.class) {
                share.stayed_out(1);
            }
            return Taken::StaysOut;
        }
        if let Some(share) = self.share_of(guest.class) {
            share.came();
        }
        if self.is_late_in_lane() {
            return self.turn_away_at_once(cx.now, guest.class, self.waited, datagram);
        }
        if guest.class == Class::Call && !self.is_surely_new(datagram) {
            guest.class = Class::Repeated;
            if self.is_crowded(cx.now) {
                return self.turn_away_at_once(cx.now, guest.class, Duration::ZERO, datagram);
            }
        }
        self.keep(guest, datagram)
    }

    fn keep(&mut self, guest: Guest, datagram: &Datagram<'_>) -> Taken {
        let (class, standing) = (guest.class, guest.standing);
        if self.guests.keep(guest, datagram.bytes) {
            return Taken::Waits;
        }
        if !standing.is_granted
            && let Some(share) = self.share_of(class)
        {
            share.turned_away(true);
        }
        Taken::StaysOut
    }

    /// Whether such a request would stay out unread.
    pub(crate) fn stops(&self, datagram: &Datagram<'_>, has_lanes: bool) -> bool {
        has_lanes && !self.sieve.passes(datagram.bytes, datagram.flow.remote)
    }

    /// Whether the sieve has let such an INVITE pass for as long as one is repeated.
    fn is_surely_new(&self, datagram: &Datagram<'_>) -> bool {
        if self.unheard.contains(self.sieve.name(datagram.bytes)) {
            return false;
        }
        let share = self.calls.surely_new();
        share == self.calls.get()
            || Sieve::new(self.salt, share).passes(datagram.bytes, datagram.flow.remote)
    }

    /// The next request to serve; [`Self::release`] takes it back.
    pub(crate) fn next(&mut self, now: Duration) -> Option<Guest> {
        let guest = self.guests.next(now)?;
        self.note_served(guest.class, guest.standing);
        Some(guest)
    }

    /// Uses a request's memory again.
    pub(crate) fn release(&mut self, guest: Guest) {
        self.guests.release(guest);
    }

    /// When a phone that is refused shall register again, in seconds: by chance, and the later the more
    /// have to be refused.
    pub(crate) fn pause_s(&mut self) -> u64 {
        let longest = (PAUSE_S / self.registers.get()).min(PAUSE_S_MAX);
        PAUSE_S as u64 + self.rng.u64(..=longest as u64)
    }

    /// Whether [`Self::on_timers`] will look at the shares.
    pub(crate) fn is_due(&self, now: Duration) -> bool {
        self.calls.is_due(now)
    }

    /// Looks at what came and was served, and sets the share of new requests that may come in. Whether it is time.
    pub(crate) fn on_timers(&mut self, now: Duration) -> bool {
        self.unheard.on_timers(now);
        if !self.is_open(now) && self.sieve.is_open() {
            self.late_since = None;
        }
        let is_due = self.calls.is_due(now);
        if is_due {
            let busy = self.throughput.look(now);
            let waiting = self.guests.waiting(now);
            let [calls, registers] = self.delays.take(now);
            let changes = [
                self.calls.next(now, calls, waiting[0], busy),
                self.registers.next(now, registers, waiting[1], busy),
            ];
            if changes.iter().any(Option::is_some) {
                self.sieve = Sieve::of(self.salt, self.calls.get(), self.registers.get());
                self.is_new = true;
            }
            self.cut_since = self.some_stay_out().then(|| self.cut_since.unwrap_or(now));
        }
        is_due
    }

    /// New requests that can be served per second; none: there are not more. Neighbours that are restricted don't show
    /// what they would send: then a node that is hardly idle has as many as it can serve.
    pub(crate) fn capacity_per_s(&mut self, now: Duration, are_restricted: bool) -> Option<f64> {
        let is_over = are_restricted && self.queue.is_late(now)
            || (self.is_over(now) || !self.sieve.is_open()) && !self.has_time_left(now);
        let is_long = are_restricted || self.backlog.is_long(now) || self.queue.is_long(now);
        let could = self
            .throughput
            .capacity_per_s(is_over || self.backlog.has_neighbours(now));
        let allowed = self.backlog.allows(now, could, self.throughput.is_busy());
        let allowed = self.queue.allows(now, allowed);
        (is_over || is_long && self.calls.is_busy()).then_some(allowed)
    }

    /// The shares of INVITEs and of REGISTERs that may come in.
    pub(crate) fn shares(&self) -> [f64; 2] {
        [&self.calls, &self.registers].map(Share::get)
    }

    /// The share that a class has a part in. The others are not to move it: a flood of them would keep calls out.
    fn share_of(&mut self, class: Class) -> Option<&mut Share> {
        match class {
            Class::Call | Class::Repeated => Some(&mut self.calls),
            Class::Login | Class::Register => Some(&mut self.registers),
            Class::Emergency | Class::Other => None,
        }
    }

    /// Whether neighbours are to learn of this capacity: it is news as long as there is one, and once after that.
    pub(crate) fn tells(&mut self, capacity_per_s: Option<f64>) -> bool {
        mem::replace(&mut self.is_over, capacity_per_s.is_some()) || self.is_over
    }

    pub(crate) fn set_filtered(&mut self, is_filtered: bool) {
        self.is_filtered = is_filtered;
    }

    /// The sieve, if it has changed for somebody.
    pub(crate) fn take_sieve(&mut self) -> Option<Sieve> {
        let is_due = self.is_new && (self.is_filtered || self.are_strangers);
        is_due.then(|| {
            (self.is_new, self.are_strangers) = (false, false);
            self.sieve
        })
    }

    /// Who is known has changed.
    pub(crate) fn renew_sieve(&mut self) {
        self.is_new |= !self.sieve.is_open();
    }
}

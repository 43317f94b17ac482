//! A node's processor as it is behind a socket: what is read, served and refused takes different times, and the
//! kernel drops what the node has told it to.

use std::{collections::VecDeque, mem, time::Duration};

use node::{
    Flow, Lane, Node, Outbox, Shared, Sieve,
    stats::{Dropped, Event, WorkerStats},
};

use crate::{
    Machine,
    door::{Door, Scheme, Verdict},
    processor::Waiting,
};

/// How often a worker looks at its timers while it has work, and tells what it did, as one on sockets does.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// What a node's processor needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// To read a message, and to drop it or to let it wait. To throw one away that came too late takes a quarter of it.
    pub read: Duration,
    /// To serve a message.
    pub serve: Duration,
    /// To refuse a request.
    pub refuse: Duration,
    /// To give a filter to the kernel.
    pub filter: Duration,
    /// The most messages that fit in a socket's buffer.
    pub buffer: usize,
    /// Whether the node learns how long messages wait, and what its buffers lose. Otherwise it knows nothing of an overload.
    pub tells_overload: bool,
}

impl Pace {
    /// That of a node which serves a message in so long. What else it does takes the part of a call that it takes on
    /// sockets (docs/results/overload.md).
    #[must_use]
    pub const fn of(serve: Duration) -> Self {
        let nanos = serve.as_nanos() as u64;
        Self {
            read: Duration::from_nanos(nanos * 33 / 100),
            serve,
            refuse: Duration::from_nanos(nanos * 27 / 100),
            filter: Duration::from_nanos(nanos * 30),
            buffer: 4096,
            tells_overload: true,
        }
    }
}

/// The part of a processor that a group of processes gets, as CFS and EEVDF divide it: who has used it up stands still
/// until the period ends. What is not used is lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quota {
    /// The time in each period.
    pub run: Duration,
    /// The period.
    pub period: Duration,
}

/// What is left of a quota.
#[derive(Debug)]
struct Cage {
    quota: Quota,
    /// The number of the period.
    number: u128,
    left: Duration,
}

impl Cage {
    const fn new(quota: Quota) -> Self {
        Self {
            quota,
            number: 0,
            left: quota.run,
        }
    }

    /// When work that begins at a moment is done, and the processor runs on.
    fn work(&mut self, mut at: Duration, mut cost: Duration) -> Duration {
        loop {
            let Quota { run, period } = self.quota;
            let number = at.as_nanos() / period.as_nanos();
            if number != self.number {
                (self.number, self.left) = (number, run);
            }
            let passed = Duration::from_nanos((at.as_nanos() % period.as_nanos()) as u64);
            let rest = period - passed;
            let worked = cost.min(self.left).min(rest);
            cost -= worked;
            self.left -= worked;
            at += if self.left.is_zero() { rest } else { worked };
            if cost.is_zero() {
                return at;
            }
        }
    }
}

/// The socket's buffer, and the processor that reads it.
#[derive(Debug)]
pub(crate) struct Host {
    pace: Pace,
    /// To hold a transaction, in addition.
    hold: Duration,
    /// To check who sent a request, in addition.
    check: Duration,
    speed: f64,
    cage: Option<Cage>,
    arrived: VecDeque<(Duration, Waiting)>,
    spare: Vec<Vec<u8>>,
    /// Where new requests wait while the node wants them apart.
    lanes: Option<[VecDeque<(Duration, Waiting)>; Lane::ALL.len()]>,
    /// The lane to read from next.
    turn: usize,
    /// Requests that found no room in each lane since this was asked last.
    missed: [u32; Lane::ALL.len()],
    /// What the sieve has stopped in each lane, since this was asked last.
    filtered: [u32; Lane::ALL.len()],
    sieve: Option<Sieve>,
    door: Option<Door>,
    free_at: Duration,
    busy: Duration,
    /// The time that its processor ran.
    ran: Duration,
    /// What of these the node was told, and when.
    told: [Duration; 2],
    told_at: Duration,
    lost: u64,
    /// Datagrams that were dropped before the node read them, since this was asked last.
    unread: u32,
}

/// What a worker has counted, of that which costs little.
#[derive(Clone, Copy)]
pub(crate) struct Cheap {
    read: u64,
    refused: u64,
    held: u64,
    proven: u64,
}

impl Cheap {
    pub(crate) fn of(stats: &WorkerStats) -> Self {
        Self {
            read: stats.event(Event::OverloadWaited)
                + stats.dropped(Dropped::Overload)
                + stats.dropped(Dropped::Repeated)
                + stats.dropped(Dropped::AckOfOurs),
            refused: stats.event(Event::OverloadRefused),
            held: stats.event(Event::Held),
            proven: stats.event(Event::Proven),
        }
    }
}

impl Host {
    pub(crate) fn new(pace: Pace, machine: &Machine) -> Self {
        Self {
            pace,
            hold: machine.hold,
            check: machine.check,
            speed: 1.0,
            cage: machine.quota.map(Cage::new),
            arrived: VecDeque::new(),
            spare: Vec::new(),
            lanes: None,
            turn: 0,
            missed: [0; Lane::ALL.len()],
            filtered: [0; Lane::ALL.len()],
            sieve: None,
            door: None,
            free_at: Duration::ZERO,
            busy: Duration::ZERO,
            ran: Duration::ZERO,
            told: [Duration::ZERO; 2],
            told_at: Duration::ZERO,
            lost: 0,
            unread: 0,
        }
    }

    /// Takes a datagram; whether there was room for it. What the sieve stops needs none.
    pub(crate) fn take_in(
        &mut self,
        now: Duration,
        shared: &Shared,
        flow: Flow,
        bytes: &[u8],
    ) -> bool {
        if self.lanes.is_some()
            && let Some(lane) = shared.lane_of(&shared.snapshot(), bytes, flow.remote.ip())
        {
            return self.take_into_lane(now, lane, flow, bytes);
        }
        if self.waiting() >= self.pace.buffer {
            self.lost += 1;
            self.unread += 1;
            return false;
        }
        let mut kept = self.spare.pop().unwrap_or_default();
        kept.extend_from_slice(bytes);
        let waiting = Waiting { flow, bytes: kept };
        let waiting = match &mut self.door {
            Some(door) => door.sort(now, waiting),
            None => Some(waiting),
        };
        self.arrived.extend(waiting.map(|waiting| (now, waiting)));
        self.free_at = self.free_at.max(now);
        true
    }

    /// Takes a message that was read from a connection. It may have waited there since `came`.
    pub(crate) fn take_read(&mut self, came: Duration, flow: Flow, bytes: &[u8]) {
        let mut kept = self.spare.pop().unwrap_or_default();
        kept.extend_from_slice(bytes);
        let waiting = Waiting { flow, bytes: kept };
        self.arrived.push_back((came, waiting));
    }

    fn take_into_lane(&mut self, now: Duration, lane: Lane, flow: Flow, bytes: &[u8]) -> bool {
        if self
            .sieve
            .is_some_and(|sieve| !sieve.passes_in(lane, bytes, flow.remote))
        {
            self.filtered[lane as usize] += 1;
            return true;
        }
        let lanes = self.lanes.as_mut().expect("there are lanes");
        let lane_queue = &mut lanes[lane as usize];
        if lane_queue.len() >= self.pace.buffer {
            self.missed[lane as usize] += 1;
            return false;
        }
        let mut kept = self.spare.pop().unwrap_or_default();
        kept.extend_from_slice(bytes);
        lane_queue.push_back((now, Waiting { flow, bytes: kept }));
        self.free_at = self.free_at.max(now);
        true
    }

    /// Lanes in which nothing waits.
    pub(crate) fn empty_lanes(&self) -> impl Iterator<Item = Lane> {
        let lanes = Lane::ALL.into_iter().zip(self.lanes.iter().flatten());
        lanes
            .filter(|(_, queue)| queue.is_empty())
            .map(|(lane, _)| lane)
    }

    /// Whether there is something to read in a lane.
    pub(crate) fn has_lanes(&self) -> bool {
        self.lanes.is_some()
    }

    fn are_lanes_empty(&self) -> bool {
        let lanes = self.lanes.iter().flatten();
        lanes.map(VecDeque::len).sum::<usize>() == 0
    }

    /// The next message of a lane that the node may have room for, and how long it has waited: first what may belong to
    /// calls.
    pub(crate) fn pop_lane(
        &mut self,
        now: Duration,
        has_room: impl Fn(Lane, &Waiting) -> bool,
    ) -> Option<(Lane, Duration, Waiting)> {
        let lanes = self.lanes.as_mut()?;
        let (earlier, later) = Lane::ALL.split_at(self.turn);
        let in_turn = later.iter().chain(earlier);
        for &lane in [Lane::OfCalls].iter().chain(in_turn) {
            let queue = &mut lanes[lane as usize];
            if let Some((came, waiting)) = queue.pop_front_if(|next| has_room(lane, &next.1)) {
                if lane != Lane::OfCalls {
                    self.turn = (lane as usize + 1) % Lane::ALL.len();
                }
                return Some((lane, now - came, waiting));
            }
        }
        None
    }

    /// A request had waited too long in a lane.
    pub(crate) fn throw_away(&mut self, now: Duration, waiting: Waiting) {
        self.spend(now, self.pace.read / 4);
        self.recycle(waiting);
    }

    /// Requests that found no room in each lane since this was asked last.
    pub(crate) fn take_missed(&mut self) -> [u32; Lane::ALL.len()] {
        mem::take(&mut self.missed)
    }

    /// Opens or closes the lanes; whether there are some, if that has changed. What is in them goes on waiting with all
    /// others.
    pub(crate) fn keep_lanes(&mut self, are_wanted: bool) -> Option<bool> {
        match (&mut self.lanes, are_wanted) {
            (None, true) => self.lanes = Some(Default::default()),
            (Some(lanes), false) => {
                for lane in lanes {
                    self.arrived.append(lane);
                }
                (self.lanes, self.sieve) = (None, None);
            }
            (None, false) | (Some(_), true) => return None,
        }
        Some(are_wanted)
    }

    /// The next datagram, and how long it has waited; none: the processor is busy, or there is none.
    pub(crate) fn pop(&mut self, now: Duration) -> Option<(Duration, Waiting)> {
        if self.free_at > now {
            return None;
        }
        let next = self.arrived.pop_front();
        let of_door = || self.door.as_mut().and_then(|door| door.pop(now));
        let (came, waiting) = next.or_else(of_door)?;
        Some((now - came, waiting))
    }

    /// Puts another's overload control before the node.
    pub(crate) fn set_door(&mut self, scheme: Box<dyn Scheme>) {
        self.door = Some(Door::new(scheme));
    }

    /// Whether the node gets a datagram. What it does not get has its cost.
    pub(crate) fn lets_in(
        &mut self,
        now: Duration,
        delay: Duration,
        waiting: &Waiting,
        out: &mut Outbox,
    ) -> bool {
        let Some(door) = &mut self.door else {
            return true;
        };
        let cost = match door.judge(now, delay, waiting, out) {
            Verdict::Pass => return true,
            Verdict::Refused => self.pace.read + self.pace.refuse,
            Verdict::Absorbed => self.pace.read,
        };
        self.spend(now, cost);
        false
    }

    /// The node sends this.
    pub(crate) fn note_sent(&mut self, now: Duration, bytes: &[u8]) {
        if let Some(door) = &mut self.door {
            door.note_sent(now, bytes);
        }
    }

    fn waiting(&self) -> usize {
        self.arrived.len() + self.door.as_ref().map_or(0, Door::len)
    }

    pub(crate) fn tells_overload(&self) -> bool {
        self.pace.tells_overload
    }

    /// Whether the processor can serve those who wait at the node.
    pub(crate) fn is_idle(&self, now: Duration) -> bool {
        self.free_at <= now && self.waiting() == 0
    }

    pub(crate) fn recycle(&mut self, mut waiting: Waiting) {
        waiting.bytes.clear();
        self.spare.push(waiting.bytes);
    }

    /// The processor has worked on one message.
    pub(crate) fn worked(&mut self, now: Duration, before: Cheap, after: Cheap) {
        let cost = if after.refused > before.refused {
            self.pace.read + self.pace.refuse
        } else if after.read > before.read {
            self.pace.read
        } else {
            self.pace.serve
        };
        self.spend(now, cost + self.held(before, after));
    }

    /// It has served so many who waited.
    pub(crate) fn served(&mut self, now: Duration, served: u32, before: Cheap, after: Cheap) {
        // They have been read before.
        let serve = self.pace.serve.saturating_sub(self.pace.read);
        self.spend(now, serve * served + self.held(before, after));
    }

    /// It has done what was due.
    pub(crate) fn timed(&mut self, now: Duration, node: &mut Node, before: Cheap, after: Cheap) {
        let refused = (after.refused - before.refused) as u32;
        self.spend(now, self.pace.refuse * refused);
        if self.lanes.is_some()
            && let Some(sieve) = node.take_sieve()
        {
            self.sieve = Some(sieve);
            node.set_filtered(!sieve.is_open());
            self.spend(now, self.pace.filter);
        }
    }

    fn held(&self, before: Cheap, after: Cheap) -> Duration {
        self.hold * (after.held - before.held) as u32
            + self.check * (after.proven - before.proven) as u32
    }

    /// The time that it has worked since the node was told last, and the time that its processor ran. As on a real one, it does
    /// not know when it stood still. None: it was told just now, or it stands still.
    pub(crate) fn take_busy(&mut self, now: Duration) -> Option<[Duration; 2]> {
        if now < self.told_at + TICK || self.stands_until(now).is_some() {
            return None;
        }
        self.told_at = now;
        let busy = self.busy.saturating_sub(self.free_at.saturating_sub(now));
        let ran = self.cage.as_ref().map_or(busy, |_| self.ran);
        let told = [busy, ran];
        let before = mem::replace(&mut self.told, told);
        Some([0, 1].map(|time| told[time].saturating_sub(before[time])))
    }

    /// Datagrams that were dropped before the node read them, since this was asked last.
    pub(crate) fn take_unread(&mut self) -> u32 {
        mem::take(&mut self.unread)
    }

    /// Requests that the sieve has stopped in each lane, since this was asked last.
    pub(crate) fn take_filtered(&mut self) -> [u32; Lane::ALL.len()] {
        mem::take(&mut self.filtered)
    }

    pub(crate) fn set_speed(&mut self, speed: f64) {
        self.speed = speed;
    }

    /// Sets the quota of a processor that has one.
    pub(crate) fn set_quota(&mut self, quota: Quota) {
        if let Some(cage) = &mut self.cage {
            *cage = Cage::new(quota);
        }
    }

    fn spend(&mut self, now: Duration, cost: Duration) {
        let cost = cost.div_f64(self.speed);
        let begins = self.free_at.max(now);
        self.free_at = match &mut self.cage {
            Some(cage) => cage.work(begins, cost),
            None => begins + cost,
        };
        self.busy += self.free_at - begins;
        self.ran += cost;
    }

    /// Until when it stands still, as its quota is used up.
    pub(crate) fn stands_until(&self, now: Duration) -> Option<Duration> {
        let is_still = self.cage.is_some() && self.free_at > now;
        is_still.then_some(self.free_at)
    }

    /// When the processor can go on; `Duration::MAX`: nothing waits.
    pub(crate) fn deadline(&self, has_waiting: bool) -> Duration {
        if has_waiting || self.waiting() > 0 || !self.are_lanes_empty() {
            self.free_at
        } else {
            Duration::MAX
        }
    }

    pub(crate) fn busy(&self) -> Duration {
        self.busy
    }

    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_used_up_a_quota_stands_still_until_the_period_ends() {
        let ms = Duration::from_millis;
        let us = Duration::from_micros;
        let mut cage = Cage::new(Quota {
            run: ms(1),
            period: ms(10),
        });
        assert_eq!(cage.work(us(300), us(400)), us(700));
        assert_eq!(cage.work(us(9_500), us(400)), us(9_900));
        assert_eq!(cage.work(us(9_900), us(200)), ms(10) + us(100));
        assert_eq!(cage.work(ms(12), us(900)), ms(20));
        assert_eq!(cage.work(ms(20), us(2_500)), ms(40) + us(500));
        assert_eq!(cage.work(us(69_900), us(150)), us(70_050));
    }
}

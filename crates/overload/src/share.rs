//! How much of what comes may come in.

mod history;
mod tick;

use std::{mem, ops::RangeInclusive, time::Duration};

use self::{
    history::History,
    tick::{Calm, Counted, FEW_TICKS, Overload, Seen, TICK},
};

/// After so many ticks the share is set to what the window tells.
const WINDOW: u32 = 10;
/// Unless it is far off, so many are waited for: in a few hundred requests there is much chance.
const LONG_WINDOW: u32 = 40;
const PLAUSIBLE: RangeInclusive<f64> = 0.0..=0.2;
/// So many requests in each tick come in beyond what is served, so that there is always one to serve. The fewer come, the more
/// chance there is. It is such a part of what is served at least, and at most: to turn one away costs much less than to have too
/// few, as those whom a larger share lets in have been repeated for long.
const SURPLUS: f64 = 3.0;
const SURPLUS_PART: RangeInclusive<f64> = 0.1..=0.25;
/// The share is left alone at the end of a window with so many times that: as it changes, old requests come in.
const CLOSE: RangeInclusive<f64> = 0.33..=2.67;
/// How far a window may change the share. What a machine can serve moves within seconds: to follow that costs more than it
/// brings, as those whom a larger share lets in have been repeated for long.
const CHANGE: RangeInclusive<f64> = 0.95..=1.03;
/// Who is turned away is repeated so often within 16 s, so at least one of six who are is new. If a window soon after a
/// cut tells that far too many of these come, or later two that were not close, the share is cut by as much.
const REPEATED: f64 = 5.0;
/// More than this in a tick is too much to wait for the end of the window, once what was too much would take so many ticks
/// to serve. A shorter burst can be served later.
const TOO_MUCH: f64 = 1.5;
const TOO_MUCH_TICKS: f64 = 8.0;
/// For so long after a cut more come: those who came before it are repeated.
const COPIES: Duration = Duration::from_secs(5);
/// What is too much while a share stays out: after it has grown, more come who have been repeated for long.
const TOO_MUCH_MORE: f64 = 3.0;
/// What remains after a tick of the most that a tick has served. In a flood nothing may be served for a tick.
const FORGETS: f64 = 0.97;
/// The same while all may come in.
const FORGETS_WHILE_OPEN: f64 = 0.9;
/// The first tick of an overload serves up to so much of what the next ones can, as all that belongs to these calls is yet to
/// come.
const FIRST_SERVES: f64 = 2.0;
/// An overload that was less than [`TOO_MUCH`] is another one once so many times as much comes.
const FLOODS: f64 = 2.0;
/// What may come in of all that comes and could be served: copies of the same request are counted each.
const OPEN: f64 = 1.1;
/// The least change to that.
const OPENS: f64 = 1.1;
/// The processor is idle now and then if it is busy for less than this part of the time, on average. Under a quota that
/// does not tell how much room is left.
const BUSY: f64 = 0.95;
const NO_IDLE: f64 = 0.9;
/// For so many ticks it must have been, and no new request may have been turned away, until the share grows by a step.
const STEP_WINDOW: u32 = 5;
/// A step is such a part of what could be served besides, and this long at least, and at most.
const STEP_PART: f64 = 0.25;
const STEP: RangeInclusive<f64> = 0.015..=0.1;
/// It grows by this part if more than such a part is missing of what could be served.
const MUCH: f64 = 0.5;
const GROWTH: f64 = 0.4;
/// For so many ticks what comes in is laid to the last growth.
const GROWTH_TICKS: u32 = 10;
/// The weight of the last window in the mean of what can be served.
const LAST_WINDOW: f64 = 0.5;
/// The least share.
const LEAST: f64 = 1.0 / 4096.0;

/// The share of new requests that may come in: as much as is served, and a little more.
///
/// What stays out is to cost next to nothing, so this bounds what an overload costs. A share that changes costs much: as
/// it grows, requests come in that have been repeated for long, six for each new one, and the kernel needs a new filter.
/// So it is cut at once when far too much comes, opened as soon as all that comes could be served, and
/// changes rarely and slowly otherwise.
#[derive(Debug)]
pub struct Share {
    share: f64,
    /// What came and was served, in this tick and in this window.
    tick: Counted,
    window: Counted,
    ticks: u32,
    /// The surplus of the last window that was not close.
    surplus_before: f64,
    /// The part of the time that the processor was busy in the last tick.
    busy: f64,
    calm: Calm,
    /// What was too much of late, in ticks that it would take to serve it.
    too_much: f64,
    overload: Overload,
    /// The share before it grew last, and the ticks since then.
    base: f64,
    since_growth: u32,
    /// What came in the last tick, in or not.
    offered: f64,
    /// When the share was last cut.
    cut_at: Option<Duration>,
    /// What a tick served lately, at most.
    most: f64,
    /// What a tick could have served before the overload, by how busy it was; infinite: that is not known.
    pace: f64,
    /// What a tick can serve, on average; 0: never was too much.
    capacity: f64,
    next: Duration,
    history: History,
    surely_new: f64,
}

/// Which new requests wait to be served.
#[derive(Clone, Copy, Debug, Default)]
pub struct Waiting {
    /// Some of those that the share is of.
    pub own: bool,
    /// Some of others, with whom they take turns.
    pub others: bool,
}

/// What was read of the requests that the share is of.
#[derive(Clone, Copy, Debug, Default)]
pub struct Read {
    /// How long the one that comes next has waited.
    pub delay: Duration,
    /// In how long those came that were read since the last time; zero: that is not known.
    pub came_in: Duration,
}

impl Share {
    /// All may come in.
    #[must_use]
    pub fn new(now: Duration) -> Self {
        Self {
            share: 1.0,
            tick: Counted::default(),
            window: Counted::default(),
            ticks: 0,
            surplus_before: 0.0,
            busy: 0.0,
            calm: Calm::default(),
            too_much: 0.0,
            overload: Overload::first(),
            base: 0.0,
            since_growth: 0,
            offered: 0.0,
            cut_at: None,
            most: 0.0,
            pace: f64::INFINITY,
            capacity: 0.0,
            next: now + TICK,
            history: History::default(),
            surely_new: 1.0,
        }
    }

    /// The share, of 1.
    #[must_use]
    pub fn get(&self) -> f64 {
        self.share
    }

    /// A request came in.
    pub fn came(&mut self) {
        self.tick.came += 1;
    }

    /// At most so many came and stayed out.
    pub fn stayed_out(&mut self, number: u32) {
        self.tick.stayed_out = self.tick.stayed_out.saturating_add(number);
    }

    /// A request had to wait too long, or found no room; it surely was new, or it may have been a copy.
    pub fn turned_away(&mut self, is_new: bool) {
        self.tick.turned_away += 1;
        self.tick.new_turned_away += u32::from(is_new);
    }

    /// So many that nobody looked at had waited for so long when they were found.
    pub fn missed(&mut self, now: Duration, number: u32, waited: Duration) {
        if self.is_under_the_share_before(now, waited) {
            return;
        }
        self.tick.miss(number);
    }

    /// A request was served.
    pub fn served(&mut self) {
        self.tick.served += 1;
    }

    /// So many that were served in this tick came to nothing, as nobody behind the server had room for them.
    pub fn served_in_vain(&mut self, number: u32) {
        let number = number.min(self.tick.served);
        self.tick.served -= number;
        self.tick.turned_away += number;
        self.tick.new_turned_away += number;
    }

    /// Of those who are let in, who drew less is no copy of a request that was kept out before, if copies come at the
    /// times of RFC 3261.
    #[must_use]
    pub fn surely_new(&self) -> f64 {
        self.share.min(self.surely_new)
    }

    /// So many came that nobody looked at, as there was no room for them. Which, nobody knows.
    pub fn lost(&mut self, now: Duration, number: u32) {
        self.history.forget();
        // When they came in this tick, nobody knows.
        if self.is_under_the_share_before(now, TICK) {
            return;
        }
        self.tick.lost = self.tick.lost.saturating_add(number);
    }

    /// Whether what has waited for so long came in before the last cut.
    fn is_under_the_share_before(&self, now: Duration, waited: Duration) -> bool {
        self.cut_at
            .is_some_and(|cut_at| now.saturating_sub(waited) < cut_at)
    }

    /// Whether copies of those still come who came before the last cut.
    fn was_cut_lately(&self, now: Duration) -> bool {
        self.cut_at.is_some_and(|cut_at| now < cut_at + COPIES)
    }

    /// Whether there was no idle moment lately.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.busy > NO_IDLE
    }

    /// Whether it is time for [`Self::next`].
    #[must_use]
    pub fn is_due(&self, now: Duration) -> bool {
        self.next <= now
    }

    /// Looks at what came and was served, which wait still, and for how long the processor was busy since the last time; the
    /// new share, if it is to be another.
    pub fn next(
        &mut self,
        now: Duration,
        read: Read,
        waiting: Waiting,
        busy: Duration,
    ) -> Option<f64> {
        let seen = self.look(now, read.came_in, waiting, busy);
        self.since_growth += 1;
        if self.is_under_the_share_before(now, read.delay) {
            return None;
        }
        let share = self
            .cut(&seen)
            .or_else(|| self.open(&seen))
            .or_else(|| self.grow(now))
            .or_else(|| self.adjust(now))?;
        (self.window, self.ticks) = (Counted::default(), 0);
        self.end_calm();
        let before = mem::replace(&mut self.share, share.clamp(LEAST, 1.0));
        if self.share > before {
            (self.base, self.since_growth) = (before, 0);
        } else if self.share < before {
            self.base = 0.0;
        }
        (self.share != before).then_some(self.share)
    }

    /// A tick is over.
    fn look(&mut self, now: Duration, came_in: Duration, waiting: Waiting, busy: Duration) -> Seen {
        let passed = TICK + now.saturating_sub(self.next);
        self.next = now + TICK;
        self.busy = busy.div_duration_f64(passed);
        self.ticks += 1;
        self.history.push(self.share);
        self.surely_new = self.history.surely_new();
        let tick = mem::take(&mut self.tick).without_filtered(self.share);
        if tick.new_turned_away > 0 || waiting.own {
            self.end_calm();
        } else {
            self.calm.ticks += 1;
            self.calm.served += tick.served;
            self.calm.busy += self.busy;
            self.calm.beside_others += u32::from(waiting.others);
        }
        self.window.served += tick.served;
        self.window.new_turned_away += tick.new_turned_away;
        // A worker that stood still looks late.
        let per_tick = TICK.div_duration_f64(passed);
        let served = f64::from(tick.served) * per_tick;
        let forgets = if self.share < 1.0 {
            FORGETS
        } else {
            FORGETS_WHILE_OPEN
        };
        self.most = served.max(self.most * forgets);
        let came = tick.offered(passed, came_in);
        let offered = came.in_a_tick() + f64::from(tick.stayed_out) * per_tick;
        Seen {
            now,
            came,
            read: f64::from(tick.came.saturating_sub(tick.lost)) * per_tick,
            served,
            excess: came.in_a_tick() / self.serves().max(1.0),
            offered: offered.max(mem::replace(&mut self.offered, offered)),
            some_turned_away: tick.turned_away > 0,
        }
    }

    fn end_calm(&mut self) {
        self.pace = mem::take(&mut self.calm).pace().unwrap_or(self.pace);
    }

    /// Far too much comes.
    fn cut(&mut self, seen: &Seen) -> Option<f64> {
        self.too_much = (self.too_much + seen.excess - 1.0).max(0.0);
        let excess = self.fresh_excess(seen);
        let is_first = self.share == 1.0;
        let is_recent = !is_first && self.was_cut_lately(seen.now);
        let bound = if is_first { TOO_MUCH } else { TOO_MUCH_MORE };
        let is_known = self.pace.is_finite() || !is_first || self.overload.is_known();
        let is_sudden = self.too_much >= TOO_MUCH_TICKS && seen.excess > bound && is_known;
        let part = (1.0 + self.surplus()) / excess;
        let is_window = self.ticks >= WINDOW && !PLAUSIBLE.contains(&self.window.surplus());
        let lasts = is_first && is_window && part < *CHANGE.start();
        if is_recent
            || part >= 1.0
            || !(is_sudden || lasts)
            || !(seen.some_turned_away || self.is_busy())
        {
            return None;
        }
        (self.cut_at, self.too_much) = (Some(seen.now), 0.0);
        self.overload = Overload::default();
        if self.capacity == 0.0 {
            self.capacity = self.serves();
        }
        // Those whom the last growth let in have been repeated for long, so they may be the whole excess.
        let is_grown = self.since_growth <= GROWTH_TICKS;
        let base = if is_grown { self.base } else { 0.0 };
        Some(base + (self.share - base).max(0.0) * part)
    }

    /// The excess without those who are repeated, as far as that can be told.
    fn fresh_excess(&mut self, seen: &Seen) -> f64 {
        if self.calm.ticks > 0 {
            self.overload = Overload::default();
            return seen.excess;
        }
        let serves = self.serves();
        let is_flood = |excess| excess < TOO_MUCH && seen.excess > FLOODS * excess;
        if self.overload.excess(serves).is_some_and(is_flood) {
            self.overload = Overload::default();
            self.too_much = seen.excess - 1.0;
        }
        self.overload.add(seen);
        self.overload.excess(serves).map_or(seen.excess, |excess| {
            excess.max(seen.excess / (1.0 + REPEATED))
        })
    }

    /// What a tick can serve, as far as what ticks have served tells.
    fn serves(&self) -> f64 {
        match self.share < 1.0 {
            true => self.most,
            false => self.pace.clamp(self.most / FIRST_SERVES, self.most),
        }
    }

    /// More could come in, were it all that comes.
    fn open(&self, seen: &Seen) -> Option<f64> {
        let share = OPEN * self.capacity.min(self.most) / seen.offered.max(1.0);
        // A cut leaves behind what belongs to calls that came before it: what is served then is no measure.
        let least = if self.was_cut_lately(seen.now) {
            1.0
        } else {
            self.share * OPENS
        };
        (self.share < 1.0 && share > least).then_some(share)
    }

    /// There is room left.
    fn grow(&self, now: Duration) -> Option<f64> {
        let calm = self.calm;
        let busy = calm.busy / f64::from(calm.ticks.max(1));
        // Who does not take all of its turns has room while others wait for theirs.
        let has_turns = calm.beside_others == calm.ticks;
        if calm.ticks == 0 || busy > BUSY && !has_turns {
            return None;
        }
        let served = f64::from(calm.served) / f64::from(calm.ticks);
        let missing = self.capacity / served.max(1.0) - 1.0;
        if calm.ticks >= FEW_TICKS && missing > MUCH {
            return Some(self.share * (1.0 + GROWTH));
        }
        if calm.ticks < STEP_WINDOW {
            return None;
        }
        let besides = 1.0 / busy.max(0.1) - 1.0;
        let step = if self.was_cut_lately(now) {
            besides.clamp(*STEP.start(), GROWTH)
        } else if has_turns {
            *STEP.end()
        } else {
            (STEP_PART * besides).clamp(*STEP.start(), *STEP.end())
        };
        Some(self.share * (1.0 + step))
    }

    /// As much comes in as could be served, about.
    fn adjust(&mut self, now: Duration) -> Option<f64> {
        if self.ticks < WINDOW {
            return None;
        }
        let served = self.served_in_a_tick();
        self.capacity = match self.window.new_turned_away {
            0 if self.capacity > 0.0 => self.capacity.max(served),
            0 => 0.0,
            _ if self.capacity == 0.0 => served,
            _ => self.capacity + (served - self.capacity) * LAST_WINDOW,
        };
        let surplus = self.window.surplus();
        if self.ticks < LONG_WINDOW && PLAUSIBLE.contains(&surplus) {
            return None;
        }
        let wanted = self.surplus();
        if CLOSE.contains(&(surplus / wanted)) {
            return Some(self.share);
        }
        let before = mem::replace(&mut self.surplus_before, surplus);
        let lasting = match self.was_cut_lately(now) {
            true => surplus,
            false => surplus.min(before),
        };
        let of_new = 1.0 + lasting / (1.0 + REPEATED);
        let wanted = 1.0 + wanted;
        let least = CHANGE.start().min(wanted / of_new);
        Some(self.share * (wanted / (1.0 + surplus)).clamp(least, *CHANGE.end()))
    }

    /// What is to come in beyond what can be served, as a part of that.
    fn surplus(&self) -> f64 {
        let capacity = if self.capacity > 0.0 {
            self.capacity
        } else {
            self.most
        };
        (SURPLUS / capacity).clamp(*SURPLUS_PART.start(), *SURPLUS_PART.end())
    }

    /// The mean over this window.
    fn served_in_a_tick(&self) -> f64 {
        f64::from(self.window.served) / f64::from(self.ticks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(own: bool) -> Waiting {
        Waiting { own, others: false }
    }

    struct Load {
        share: Share,
        ticks: u32,
        changes: u32,
    }

    impl Load {
        /// The share after so many ticks, while `offered` requests come in each and 100 can be served.
        fn run(&mut self, ticks: u32, offered: f64) -> f64 {
            for _ in 0..ticks {
                let comes = (offered * self.share.get()) as u32;
                (0..comes).for_each(|_| self.share.came());
                self.share.stayed_out(offered as u32 - comes);
                (0..comes.min(100)).for_each(|_| self.share.served());
                (100..comes).for_each(|_| self.share.turned_away(true));
                self.ticks += 1;
                let busy = TICK * comes.min(100) / 100;
                let now = TICK * self.ticks;
                let share = self
                    .share
                    .next(now, Read::default(), own(comes > 100), busy);
                self.changes += u32::from(share.is_some());
            }
            self.share.get()
        }
    }

    /// A node was busier than 95 % in every second tick though it had time left on average, and let no more in.
    #[test]
    fn the_share_grows_while_there_is_time_left_on_average() {
        let mut share = Share::new(Duration::ZERO);
        share.share = 0.5;
        for tick in 1..=10 {
            share.served();
            let busy = TICK * if tick % 2 == 0 { 97 } else { 90 } / 100;
            share.next(TICK * tick, Read::default(), own(false), busy);
        }
        assert!(share.get() > 0.51, "{}", share.get());
    }

    /// A node whose speed had been halved for ten seconds was half idle for seven more, as its share grew by 1.5 % at a time.
    #[test]
    fn the_share_grows_soon_while_much_is_idle() {
        let mut share = Share::new(Duration::ZERO);
        share.share = 0.6;
        for tick in 101..=105 {
            share.served();
            share.next(TICK * tick, Read::default(), own(false), TICK / 2);
        }
        assert!(share.get() > 0.65, "{}", share.get());
    }

    /// A node that started amid a flood served next to nothing in its first ticks. Its share was cut to what that was of all.
    #[test]
    fn a_node_that_begins_amid_a_flood_is_not_cut_by_what_its_first_tick_served() {
        let mut share = Share::new(Duration::ZERO);
        let shares: Vec<_> = [(170, 0), (500, 30), (500, 130)]
            .into_iter()
            .zip(1..)
            .map(|((came, served), tick)| {
                (0..came).for_each(|_| share.came());
                (0..served).for_each(|_| share.served());
                (served..came).for_each(|_| share.turned_away(true));
                share.next(TICK * tick, Read::default(), own(true), TICK / 5);
                share.get()
            })
            .collect();
        assert_eq!(shares[..2], [1.0; 2]);
        assert!((0.25..0.4).contains(&shares[2]), "{shares:?}");
    }

    /// A little too much, long before, counted as the begin of an overload. What came then and in the overload made a mean that
    /// told nothing: at ten times the capacity the share was cut to four times what could be served, or not at all.
    #[test]
    fn the_first_cut_tells_from_what_came_since_the_overload_began() {
        let mut share = Share::new(Duration::ZERO);
        let mut delay = Duration::ZERO;
        let cut = (1..=20).find_map(|tick| {
            for _ in 0..100 {
                share.came();
                share.served();
            }
            let is_over = tick > 10;
            let late = if is_over { TICK * 9 / 10 } else { TICK / 1000 };
            delay += late;
            let came_in = TICK - late;
            share.next(TICK * tick, Read { delay, came_in }, own(is_over), TICK)
        });
        assert!(
            cut.is_some_and(|cut| (0.09..0.12).contains(&cut)),
            "{cut:?}"
        );
    }

    /// More calls had come than the node could carry, and then fewer. As REGISTERs took all that was left, their share stayed
    /// small for most of a minute.
    #[test]
    fn the_share_grows_while_others_take_what_is_left() {
        let mut share = Share::new(Duration::ZERO);
        share.share = 0.2;
        for tick in 101..=130 {
            share.served();
            let waiting = Waiting {
                own: false,
                others: true,
            };
            share.next(TICK * tick, Read::default(), waiting, TICK);
        }
        assert!(share.get() > 0.3, "{}", share.get());
    }

    /// A node was just busy, and then ten times as much came. What had come in the five ticks before told how much to cut, so six
    /// times as much came in as could be served.
    #[test]
    fn a_flood_is_another_overload_than_a_little_too_much_before() {
        let mut share = Share::new(Duration::ZERO);
        let cut = (1..=20).find_map(|tick| {
            let comes = if tick <= 10 { 101 } else { 1_000 };
            (0..comes).for_each(|_| share.came());
            (0..100).for_each(|_| share.served());
            (100..comes).for_each(|_| share.turned_away(false));
            share.next(TICK * tick, Read::default(), own(true), TICK)
        });
        assert!(cut.is_some_and(|cut| (0.1..0.13).contains(&cut)), "{cut:?}");
    }

    /// A node had been a little behind for two seconds. Then those came again in one tick whom it had turned away one second before,
    /// and the share was cut to a half, as the little had piled up.
    #[test]
    fn copies_that_come_in_one_tick_are_no_flood() {
        let mut share = Share::new(Duration::ZERO);
        let cut = (1..=60).find_map(|tick| {
            let comes = if tick == 46 { 250 } else { 120 };
            (0..comes).for_each(|_| share.came());
            (0..100).for_each(|_| share.served());
            (100..comes).for_each(|_| share.turned_away(false));
            share.next(TICK * tick, Read::default(), own(true), TICK)
        });
        assert_eq!(cut, None);
    }

    /// While all came in, what calm ticks told was thrown away each half second, so it was known by chance where a flood began.
    #[test]
    fn what_a_calm_second_told_is_known_when_a_flood_begins() {
        for calm in 3..=12 {
            let mut share = Share::new(Duration::ZERO);
            let mut serve = |tick, number, waits, busy| {
                (0..number).for_each(|_| share.served());
                share.next(TICK * tick, Read::default(), own(waits), busy);
                share.serves()
            };
            for tick in 1..=calm {
                serve(tick, 50, false, TICK / 2);
            }
            let serves = serve(calm + 1, 180, true, TICK);
            assert!((99.0..101.0).contains(&serves), "{serves} after {calm}");
        }
    }

    /// The first tick of a flood served nearly twice as much as the next ones could, and that was taken for what a tick can serve.
    #[test]
    fn how_busy_a_node_was_tells_what_it_can_serve() {
        let mut share = Share::new(Duration::ZERO);
        let mut serve = |tick, number, waits, busy| {
            (0..number).for_each(|_| share.served());
            share.next(TICK * tick, Read::default(), own(waits), busy);
            share.serves()
        };
        for tick in 1..=4 {
            serve(tick, 50, false, TICK / 2);
        }
        assert!((99.0..101.0).contains(&serve(5, 180, true, TICK)));
    }

    /// A fifth more came than could be served. After half a second there were copies, too, and a tick that served less than
    /// others counted as what could be served: a quarter was cut off.
    #[test]
    fn a_little_too_much_is_cut_by_a_little() {
        let mut share = Share::new(Duration::ZERO);
        let cut = (1..=60).find_map(|tick| {
            let comes = if tick <= 6 { 120 } else { 165 };
            let served = if tick % 2 == 0 { 97 } else { 103 };
            (0..comes).for_each(|_| share.came());
            (0..served).for_each(|_| share.served());
            (served..comes).for_each(|_| share.turned_away(false));
            share.next(TICK * tick, Read::default(), own(true), TICK)
        });
        assert!(cut.is_some_and(|cut| cut > 0.9), "{cut:?}");
    }

    /// Two nodes before each other's servers served 825 INVITEs in the first tick, as the rest of these calls was yet to come.
    /// They took three times what they could serve for it, and let in more in the middle of an overload.
    #[test]
    fn a_share_opens_by_no_more_than_was_served_lately() {
        let mut share = Share::new(Duration::ZERO);
        (share.share, share.capacity, share.most) = (0.65, 537.0, 400.0);
        (0..400).for_each(|_| share.came());
        (0..260).for_each(|_| share.served());
        share.stayed_out(400);
        assert_eq!(share.next(TICK, Read::default(), own(true), TICK), None);
    }

    /// What had waited for 0.4 s was read within a tick, and counted as if it had come in it. So a share that had been cut too far
    /// opened to a fifth of what could be served.
    #[test]
    fn what_has_waited_did_not_come_at_once() {
        let mut share = Share::new(Duration::ZERO);
        (share.share, share.capacity, share.most) = (0.01, 50.0, 50.0);
        (0..500).for_each(|_| share.came());
        (0..50).for_each(|_| share.served());
        let read = Read {
            delay: Duration::ZERO,
            came_in: TICK * 5,
        };
        let open = share.next(TICK, read, own(true), TICK);
        assert!(open.is_some_and(|open| open > 0.5), "{open:?}");
    }

    /// Two nodes before each other's servers let in all that came, and each refused nearly half of it, as the other had no room.
    #[test]
    fn what_finds_no_room_behind_is_not_let_in() {
        let mut share = Share::new(Duration::ZERO);
        let mut comes = 0;
        for tick in 1..=400 {
            comes = (200.0 * share.get()) as u32;
            (0..comes).for_each(|_| share.came());
            (0..comes).for_each(|_| share.served());
            share.stayed_out(200 - comes);
            share.served_in_vain(comes.saturating_sub(100));
            share.next(TICK * tick, Read::default(), own(false), TICK / 2);
        }
        assert!((100..=125).contains(&comes), "{comes}");
    }

    /// What a full buffer had lost before a cut counted as too much after it, so the share was cut again.
    #[test]
    fn what_was_lost_before_a_cut_does_not_count() {
        let mut share = Share::new(Duration::ZERO);
        (share.share, share.cut_at) = (0.2, Some(TICK * 10));
        share.lost(TICK * 21 / 2, 500);
        share.missed(TICK * 12, 500, TICK * 3);
        assert_eq!([share.tick.lost, share.tick.came], [0; 2]);
        share.lost(TICK * 12, 500);
        share.missed(TICK * 12, 500, TICK);
        assert_eq!([share.tick.lost, share.tick.came], [500; 2]);
    }

    /// After a cut, what belonged to calls of before was served and counted as room, so a share opened in the middle of a flood.
    #[test]
    fn a_share_does_not_open_for_five_seconds_after_a_cut() {
        let mut share = Share::new(Duration::ZERO);
        (share.share, share.capacity, share.most) = (0.2, 95.0, 95.0);
        share.cut_at = Some(Duration::ZERO);
        let opened = (1..=60).find(|&tick| {
            for _ in 0..95 {
                share.came();
                share.served();
            }
            share.stayed_out(55);
            share.next(TICK * tick, Read::default(), own(true), TICK);
            share.get() > 0.5
        });
        assert_eq!(opened, Some(50));
    }

    #[test]
    fn the_share_follows_what_is_served() {
        let share = Share::new(Duration::ZERO);
        let mut load = Load {
            share,
            ticks: 0,
            changes: 0,
        };
        assert_eq!(load.run(50, 99.0), 1.0);
        assert_eq!(load.changes, 0);
        for offered in [200.0, 1000.0, 10_000.0] {
            load.run(200, offered);
            load.changes = 0;
            let surplus = (load.run(100, offered) * offered).floor() / 100.0 - 1.0;
            assert!((0.03..=0.27).contains(&surplus), "{surplus} at {offered}");
            assert_eq!(load.changes, 0, "{offered}");
        }
        load.run(25, 50.0);
        assert_eq!(load.run(1, 50.0), 1.0);
    }

    /// Twice what can be served did not pile up fast enough to be cut at once. So the window cut it by a twentieth, and what is
    /// called too much became more. Three seconds later copies were cut, too, and a quarter of the node was idle for long.
    #[test]
    fn what_lasts_for_a_window_is_cut_to_what_can_be_served() {
        let mut load = Load {
            share: Share::new(Duration::ZERO),
            ticks: 0,
            changes: 0,
        };
        load.run(10, 80.0);
        let share = load.run(14, 170.0);
        assert!((0.58..0.72).contains(&share), "{share}");
    }
}

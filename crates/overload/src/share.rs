//! How much of what comes may come in.

use std::{ops::RangeInclusive, time::Duration};

use crate::history::History;

/// How often the share is looked at.
const TICK: Duration = Duration::from_millis(100);
/// After so many ticks the share is set to what the window tells.
const WINDOW: u32 = 10;
/// Unless it is far off, so many are waited for: in a few hundred requests there is much chance.
const LONG_WINDOW: u32 = 40;
const PLAUSIBLE: RangeInclusive<f64> = 1.0..=1.4;
/// What comes in for each request that is served, so that there is always one to serve.
const SURPLUS: f64 = 1.12;
/// The share is left alone at the end of a window with so much: as it changes, old requests come in.
const CLOSE: RangeInclusive<f64> = 1.08..=1.25;
/// How far a window may change the share.
const CHANGE: RangeInclusive<f64> = 0.92..=1.03;
/// How far a window may that leaves the processor idle.
const IDLE_CHANGE: f64 = 1.15;
/// More than this, two ticks in a row, is too much to wait for the end of the window.
const TOO_MUCH: f64 = 2.5;
/// What remains after a tick of the most that a tick has served. In a flood nothing may be served for a tick.
const FORGETS: f64 = 0.9;
/// With less than this, three ticks in a row, the share grows by a step, and by a longer one in each further tick.
const TOO_LITTLE: f64 = 1.02;
/// There is no too little while the processor is busy for more than this part of the time.
const BUSY: f64 = 0.95;
/// It is idle now and then if it is busy for less than this.
const NO_IDLE: f64 = 0.9;
/// With fewer in a tick, their ratio is chance: it is too little if none waits.
const FEW: u32 = 10;
/// How long the first step is, and the longest.
const STEPS: RangeInclusive<f64> = 0.01..=0.5;
const LONGER: f64 = 2.0;
/// What a step lets in takes so many times what new ones alone would: most of them are old, and are refused.
const COPIES: f64 = 2.0;
/// For so many ticks what comes in is laid to the last step.
const STEP_TICKS: u32 = 10;
/// The weight of a tick in the mean of what was served lately.
const LATELY: f64 = 0.2;
/// The least share.
const LEAST: f64 = 1.0 / 4096.0;

/// The share of new requests that may come in: as much as is served, and a little more.
///
/// What stays out is to cost next to nothing, so this bounds what an overload costs. While there is too much, the share
/// grows slowly: each step lets in requests that have been repeated for long, six for each new one.
#[derive(Debug)]
pub struct Share {
    share: f64,
    /// What came and was served, in this tick and in this window.
    tick: Counted,
    window: Counted,
    ticks: u32,
    /// The part of the time that the processor was busy, summed over the ticks of this window.
    busy: f64,
    lately_busy: [f64; 3],
    too_little: u32,
    too_much: u32,
    /// The next step of growth; the share before the last one, and the ticks since then.
    step: f64,
    base: f64,
    since_step: u32,
    /// The mean of what ticks served lately.
    served: f64,
    /// What a tick can serve.
    capacity: f64,
    next: Duration,
    history: History,
    surely_new: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    came: u32,
    served: u32,
    served_beside: u32,
    turned_away: u32,
    /// Of these, which surely were new.
    new_turned_away: u32,
}

impl Counted {
    fn ratio(self) -> f64 {
        f64::from(self.came) / f64::from(self.served.max(1))
    }

    /// The same of those that surely were new.
    fn surplus(self) -> f64 {
        1.0 + f64::from(self.new_turned_away) / f64::from(self.served.max(1))
    }
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
            busy: 0.0,
            lately_busy: [0.0; 3],
            too_little: 0,
            too_much: 0,
            step: *STEPS.start(),
            base: 1.0,
            since_step: STEP_TICKS,
            served: 0.0,
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

    /// A request had to wait too long, or found no room; it surely was new, or it may have been a copy.
    pub fn turned_away(&mut self, is_new: bool) {
        self.tick.turned_away += 1;
        self.tick.new_turned_away += u32::from(is_new);
    }

    /// A request was served.
    pub fn served(&mut self) {
        self.tick.served += 1;
    }

    /// A request was served that the share does not bound: its sender is told how many to send.
    pub fn served_beside(&mut self) {
        self.tick.served_beside += 1;
    }

    /// Requests that were served per second lately, with or without a part in the share.
    #[must_use]
    pub fn served_per_s(&self) -> f64 {
        self.served / TICK.as_secs_f64()
    }

    /// Of those who are let in, who drew less is no copy of a request that was kept out before, if copies come at the
    /// times of RFC 3261.
    #[must_use]
    pub fn surely_new(&self) -> f64 {
        self.share.min(self.surely_new)
    }

    /// A request that came so long ago is sent away and not told so.
    pub fn dropped(&mut self, waited: Duration, is_new: bool) {
        let heard = if is_new { 0.0 } else { self.surely_new() };
        let ago = (waited.as_millis() / TICK.as_millis()) as usize;
        self.history.forget(ago, heard);
    }

    /// Whether there was no idle moment lately.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.lately_busy[0] > NO_IDLE
    }

    /// Whether it is time for [`Self::next`].
    #[must_use]
    pub fn is_due(&self, now: Duration) -> bool {
        self.next <= now
    }

    /// Looks at what came and was served, whether some wait, and for how long the processor was busy since the last
    /// time; the new share, if it is to be another.
    pub fn next(&mut self, now: Duration, some_wait: bool, busy: Duration) -> Option<f64> {
        let passed = TICK + now.saturating_sub(self.next);
        let busy = busy.as_secs_f64() / passed.as_secs_f64();
        self.busy += busy;
        self.lately_busy = [busy, self.lately_busy[0], self.lately_busy[1]];
        self.next = now + TICK;
        self.history.push(self.share);
        self.surely_new = self.history.surely_new();
        let tick = std::mem::take(&mut self.tick);
        // A worker that stood still looks late.
        let per_tick = TICK.div_duration_f64(passed);
        let served = f64::from(tick.served) * per_tick;
        let all = served + f64::from(tick.served_beside) * per_tick;
        self.served += (all - self.served) * LATELY;
        self.capacity = served.max(self.capacity * FORGETS);
        let excess = f64::from(tick.came) * per_tick / self.capacity.max(1.0);
        self.window.came += tick.came;
        self.window.served += tick.served;
        self.window.new_turned_away += tick.new_turned_away;
        self.ticks += 1;
        let share = self.wanted(tick, excess, some_wait)?;
        (self.window, self.ticks, self.busy) = (Counted::default(), 0, 0.0);
        let before = std::mem::replace(&mut self.share, share.clamp(LEAST, 1.0));
        (self.share != before).then_some(self.share)
    }

    fn wanted(&mut self, tick: Counted, excess: f64, some_wait: bool) -> Option<f64> {
        self.since_step += 1;
        let is_too_much = excess > TOO_MUCH && tick.turned_away > 0;
        self.too_much = if is_too_much { self.too_much + 1 } else { 0 };
        if self.too_much >= 2 {
            return Some(self.cut(excess));
        }
        let none_is_left = tick.came < FEW && tick.turned_away == 0 && !some_wait;
        let is_too_little = self.busy_lately() < BUSY && tick.ratio() < TOO_LITTLE;
        self.too_little = if is_too_little || none_is_left {
            self.too_little + 1
        } else {
            0
        };
        if self.too_little >= 3 {
            return Some(self.grow());
        }
        self.step = *STEPS.start();
        let change = match self.window.surplus() {
            _ if self.ticks < WINDOW => return None,
            surplus if self.ticks < LONG_WINDOW && self.is_plausible(surplus) => return None,
            surplus if CLOSE.contains(&surplus) => 1.0,
            surplus => {
                let busy = self.busy / f64::from(self.ticks);
                let most = (1.0 / busy).clamp(*CHANGE.end(), IDLE_CHANGE);
                (SURPLUS / surplus).clamp(*CHANGE.start(), most)
            }
        };
        Some(self.share * change)
    }

    /// Of the last ticks.
    fn busy_lately(&self) -> f64 {
        self.lately_busy.iter().sum::<f64>() / self.lately_busy.len() as f64
    }

    /// Whether it can be chance that it is another than is aimed at.
    fn is_plausible(&self, surplus: f64) -> bool {
        let busy = self.busy / f64::from(self.ticks);
        PLAUSIBLE.contains(&surplus) && (self.busy == 0.0 || busy > BUSY)
    }

    fn grow(&mut self) -> f64 {
        (self.base, self.since_step) = (self.share, 0);
        let idle = 1.0 / self.busy_lately() - 1.0;
        let step = if idle.is_finite() {
            (idle / COPIES).clamp(*STEPS.start(), *STEPS.end())
        } else {
            self.step
        };
        let grown = self.share * (1.0 + step);
        self.step = (self.step * LONGER).min(*STEPS.end());
        grown
    }

    /// Those whom the last step let in have been repeated for long, so they may be the whole excess.
    fn cut(&mut self, excess: f64) -> f64 {
        let base = if self.since_step <= STEP_TICKS {
            self.base
        } else {
            0.0
        };
        base + (self.share - base).max(0.0) * SURPLUS / excess
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
                (0..comes.min(100)).for_each(|_| self.share.served());
                (100..comes).for_each(|_| self.share.turned_away(true));
                self.ticks += 1;
                self.changes += u32::from(
                    self.share
                        .next(TICK * self.ticks, comes > 100, Duration::ZERO)
                        .is_some(),
                );
            }
            self.share.get()
        }
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
            let surplus = load.run(100, offered) * offered / 100.0;
            assert!(CLOSE.contains(&surplus), "{surplus} at {offered}");
            assert_eq!(load.changes, 0, "{offered}");
        }
        load.run(25, 50.0);
        assert_eq!(load.run(1, 50.0), 1.0);
    }
}

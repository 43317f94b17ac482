//! How much of what comes may come in.

use std::{ops::RangeInclusive, time::Duration};

/// How often the share is looked at.
const TICK: Duration = Duration::from_millis(100);
/// After so many ticks the share is set to what the window tells.
const WINDOW: u32 = 10;
/// What comes in for each request that is served, so that there is always one to serve.
const SURPLUS: f64 = 1.12;
/// What the share is left alone for at the end of a window: as it changes, old requests come in.
const CLOSE: RangeInclusive<f64> = 1.0..=1.35;
/// How far a window may change the share.
const CHANGE: RangeInclusive<f64> = 0.92..=1.05;
/// More than this, two ticks in a row, is too much to wait for the end of the window.
const TOO_MUCH: f64 = 2.5;
/// What remains after a tick of the most that a tick has served. In a flood nothing may be served for a tick.
const FORGETS: f64 = 0.9;
/// With less than this, three ticks in a row, the share grows by a step, and by a longer one in each further tick.
const TOO_LITTLE: f64 = 1.02;
/// With fewer in a tick, their ratio is chance: it is too little if none waits.
const FEW: u32 = 10;
/// How long the first step is, and the longest.
const STEPS: RangeInclusive<f64> = 0.01..=0.5;
const LONGER: f64 = 2.0;
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
    /// The least share in this period and in the last one, and when this one ends.
    lowest: [f64; 2],
    repeated: Duration,
    forget_lowest: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    came: u32,
    served: u32,
    turned_away: u32,
}

impl Counted {
    fn ratio(self) -> f64 {
        f64::from(self.came) / f64::from(self.served.max(1))
    }
}

impl Share {
    /// All may come in. What stays out is repeated for a time of `repeated`.
    #[must_use]
    pub fn new(now: Duration, repeated: Duration) -> Self {
        Self {
            share: 1.0,
            tick: Counted::default(),
            window: Counted::default(),
            ticks: 0,
            too_little: 0,
            too_much: 0,
            step: *STEPS.start(),
            base: 1.0,
            since_step: STEP_TICKS,
            served: 0.0,
            capacity: 0.0,
            next: now + TICK,
            lowest: [1.0; 2],
            repeated,
            forget_lowest: now + repeated,
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

    /// A request had to wait too long, or found no room.
    pub fn turned_away(&mut self) {
        self.tick.turned_away += 1;
    }

    /// A request was served.
    pub fn served(&mut self) {
        self.tick.served += 1;
    }

    /// Requests that were served per second lately.
    #[must_use]
    pub fn served_per_s(&self) -> f64 {
        self.served / TICK.as_secs_f64()
    }

    /// The least share for as long as a request is repeated: what it let in was not repeated.
    #[must_use]
    pub fn lowest(&self) -> f64 {
        self.lowest.iter().copied().fold(self.share, f64::min)
    }

    /// Whether it is time for [`Self::next`].
    #[must_use]
    pub fn is_due(&self, now: Duration) -> bool {
        self.next <= now
    }

    /// Looks at what came and was served, and whether some wait; the new share, if it is to be another.
    pub fn next(&mut self, now: Duration, some_wait: bool) -> Option<f64> {
        self.next = now + TICK;
        if self.forget_lowest <= now {
            self.forget_lowest = now + self.repeated;
            self.lowest = [self.share, self.lowest[0]];
        }
        self.lowest[0] = self.lowest[0].min(self.share);
        let tick = std::mem::take(&mut self.tick);
        self.served += (f64::from(tick.served) - self.served) * LATELY;
        self.window.came += tick.came;
        self.window.served += tick.served;
        self.ticks += 1;
        let share = self.wanted(tick, some_wait)?;
        (self.window, self.ticks) = (Counted::default(), 0);
        let before = std::mem::replace(&mut self.share, share.clamp(LEAST, 1.0));
        (self.share != before).then_some(self.share)
    }

    fn wanted(&mut self, tick: Counted, some_wait: bool) -> Option<f64> {
        self.capacity = f64::from(tick.served).max(self.capacity * FORGETS);
        self.since_step += 1;
        let excess = f64::from(tick.came) / self.capacity.max(1.0);
        let is_too_much = excess > TOO_MUCH && tick.turned_away > 0;
        self.too_much = if is_too_much { self.too_much + 1 } else { 0 };
        if self.too_much >= 2 {
            return Some(self.cut(excess));
        }
        let none_is_left = tick.came < FEW && tick.turned_away == 0 && !some_wait;
        self.too_little = if tick.ratio() < TOO_LITTLE || none_is_left {
            self.too_little + 1
        } else {
            0
        };
        if self.too_little >= 3 {
            return Some(self.grow());
        }
        self.step = *STEPS.start();
        let change = match self.window.ratio() {
            _ if self.ticks < WINDOW => return None,
            ratio if CLOSE.contains(&ratio) => 1.0,
            ratio => (SURPLUS / ratio).clamp(*CHANGE.start(), *CHANGE.end()),
        };
        Some(self.share * change)
    }

    fn grow(&mut self) -> f64 {
        (self.base, self.since_step) = (self.share, 0);
        let grown = self.share * (1.0 + self.step);
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
                (100..comes).for_each(|_| self.share.turned_away());
                self.ticks += 1;
                self.changes +=
                    u32::from(self.share.next(TICK * self.ticks, comes > 100).is_some());
            }
            self.share.get()
        }
    }

    #[test]
    fn the_share_follows_what_is_served() {
        let share = Share::new(Duration::ZERO, Duration::from_secs(32));
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

//! How much of what comes may come in.

use std::time::Duration;

/// How often the share is looked at.
const TICK: Duration = Duration::from_millis(100);
/// After so many ticks the share is set, unless it must be before.
const WINDOW: u32 = 10;
/// What comes in for each request that is served, so that there is always one to serve.
const SURPLUS: f64 = 1.15;
/// What the share is left alone for at the end of a window.
const CLOSE: std::ops::RangeInclusive<f64> = 1.08..=1.25;
/// More than this is too much to wait for the end of the window.
const TOO_MUCH: f64 = 1.5;
/// So many ticks in a row with less than this are too little, and the share grows in each further one.
const TOO_LITTLE: f64 = 1.02;
const TOO_LITTLE_TICKS: u32 = 2;
const GROWTH: f64 = 1.25;
/// The least share.
const LEAST: f64 = 1.0 / 4096.0;

/// The share of new requests that may come in: as much as is served, and a little more.
///
/// What stays out costs next to nothing, so this bounds what an overload costs. The share changes seldom: if it
/// grows, requests come in that have been repeated for long.
#[derive(Debug)]
pub(crate) struct Share {
    share: f64,
    /// What came and was served, in this tick and in this window.
    tick: Counted,
    window: Counted,
    ticks: u32,
    too_little: u32,
    next: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    came: u32,
    served: u32,
}

impl Counted {
    fn ratio(self) -> f64 {
        f64::from(self.came) / f64::from(self.served.max(1))
    }
}

impl Share {
    pub(crate) fn new(now: Duration) -> Self {
        Self {
            share: 1.0,
            tick: Counted::default(),
            window: Counted::default(),
            ticks: 0,
            too_little: 0,
            next: now + TICK,
        }
    }

    /// The share, of 1.
    pub(crate) fn get(&self) -> f64 {
        self.share
    }

    /// A request came in.
    pub(crate) fn came(&mut self) {
        self.tick.came += 1;
    }

    /// A request was served.
    pub(crate) fn served(&mut self) {
        self.tick.served += 1;
    }

    /// Looks at what came and was served; the new share, if it is to be another.
    pub(crate) fn next(&mut self, now: Duration) -> Option<f64> {
        if now < self.next {
            return None;
        }
        self.next = now + TICK;
        let tick = std::mem::take(&mut self.tick);
        self.window.came += tick.came;
        self.window.served += tick.served;
        self.ticks += 1;
        let share = self.wanted(tick)?;
        (self.window, self.ticks) = (Counted::default(), 0);
        let before = std::mem::replace(&mut self.share, share.clamp(LEAST, 1.0));
        (self.share != before).then_some(self.share)
    }

    fn wanted(&mut self, tick: Counted) -> Option<f64> {
        let is_little = tick.ratio() < TOO_LITTLE;
        self.too_little = if is_little { self.too_little + 1 } else { 0 };
        let ratio = self.window.ratio();
        if self.too_little >= TOO_LITTLE_TICKS {
            Some(self.share * GROWTH)
        } else if tick.ratio() > TOO_MUCH || self.ticks >= WINDOW && !CLOSE.contains(&ratio) {
            let ratio = if tick.ratio() > TOO_MUCH {
                tick.ratio()
            } else {
                ratio
            };
            Some(self.share * SURPLUS / ratio.max(SURPLUS / GROWTH))
        } else if self.ticks >= WINDOW {
            Some(self.share)
        } else {
            None
        }
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
                self.ticks += 1;
                self.changes += u32::from(self.share.next(TICK * self.ticks).is_some());
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
        for (offered, share) in [(200.0, 0.575), (1000.0, 0.115), (10_000.0, 0.0115)] {
            let first = load.run(1, offered);
            assert!((first / share - 1.0).abs() < 0.03, "{first} at {offered}");
            load.changes = 0;
            load.run(100, offered);
            assert_eq!(load.changes, 0, "{offered}");
        }
        load.run(25, 50.0);
        assert_eq!(load.run(1, 50.0), 1.0);
    }
}

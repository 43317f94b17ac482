//! How much of the time that a worker can have it uses.

use std::{mem, time::Duration};

use crate::Standstill;

/// How long it is looked back.
const LATELY: Duration = Duration::from_millis(50);
/// A look is at what a worker did from the end of a standstill to the end of the next, and in so long at most.
const CYCLE: Duration = Duration::from_millis(100);
/// The worker could use no more if it was busy for this part of the time.
const BUSY: f64 = 0.95;
/// How long what it ran counts for what it can run.
const LEARNS: Duration = Duration::from_millis(45);
/// What it can run is taken for more by this part each second, as a quota or a neighbour may go away.
const GROWTH_PER_S: f64 = 0.005;
/// It grows by so much in a second while the worker seems to use more than this part of what it can run, but is idle by the clock for
/// that part of the time. Who has used up a quota stands still in the midst of work, so this quota has grown.
const FAST_GROWTH_PER_S: f64 = 1.0;
const USES: f64 = 0.8;
const IDLE: f64 = 0.5;
/// The least that a worker can run.
const LEAST: f64 = 0.001;

/// The utilisation of one worker.
///
/// A worker that a CPU quota or another program stops does not know that it stands still. By the clock it looks idle until
/// its quota is used up, and then busy all the time. What it can run shows then. Below that, what it ran is related to it.
#[derive(Debug)]
pub struct Utilisation {
    told_at: Duration,
    standstill: Standstill,
    cycle: Cycle,
    /// The parts of the time in which it was busy by the clock, and in which it ran, lately.
    busy: f64,
    ran: f64,
    /// The part of the time in which it can run.
    can_run: f64,
}

/// What a worker did since it stood still last.
#[derive(Debug, Default)]
struct Cycle {
    passed: Duration,
    busy: Duration,
    ran: Duration,
}

impl Utilisation {
    /// Of a worker that has its processor for itself, as far as is known.
    #[must_use]
    pub fn new(now: Duration) -> Self {
        Self {
            told_at: now,
            standstill: Standstill::default(),
            cycle: Cycle::default(),
            busy: 0.0,
            ran: 0.0,
            can_run: 1.0,
        }
    }

    /// Since it told last the worker was busy for so long by the clock, and ran for so long. How long it would have been busy
    /// had it run evenly.
    pub fn note(&mut self, now: Duration, busy: Duration, ran: Duration) -> Duration {
        let passed = now.saturating_sub(self.told_at);
        if passed.is_zero() {
            return busy;
        }
        self.told_at = now;
        self.cycle.passed += passed;
        self.cycle.busy += busy;
        self.cycle.ran += ran;
        let has_stood = self.standstill.note(now, busy, ran);
        if has_stood || self.cycle.passed >= CYCLE {
            self.learn();
        }
        ran.div_f64(self.can_run)
    }

    /// A cycle is over. A quota lets a worker run for the same time in each.
    fn learn(&mut self) {
        let Cycle { passed, busy, ran } = mem::take(&mut self.cycle);
        let weight = passed.div_duration_f64(LATELY).min(1.0);
        let part = |time: Duration| time.div_duration_f64(passed).min(1.0);
        self.busy += (part(busy) - self.busy) * weight;
        self.ran += (part(ran) - self.ran) * weight;
        if self.busy > BUSY {
            let weight = 1.0 - (-passed.div_duration_f64(LEARNS)).exp();
            self.can_run += (self.ran / self.busy - self.can_run) * weight;
        } else {
            let has_more = self.get() > USES && self.busy < 1.0 - IDLE;
            let growth_per_s = if has_more {
                FAST_GROWTH_PER_S
            } else {
                GROWTH_PER_S
            };
            let grown = self.can_run * (1.0 + growth_per_s * passed.as_secs_f64());
            self.can_run = grown.max(self.ran);
        }
        self.can_run = self.can_run.clamp(LEAST, 1.0);
    }

    /// When it stood still last.
    #[must_use]
    pub fn standstill(&self) -> Standstill {
        self.standstill
    }

    /// The part of what it can run that it ran lately.
    #[must_use]
    pub fn get(&self) -> f64 {
        self.ran / self.can_run
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(10);

    /// The utilisation after so many ticks in which a worker wants to run for a part of the time, of which a quota lets it
    /// have another.
    fn after(utilisation: &mut Utilisation, ticks: u32, wants: f64, quota: f64) -> f64 {
        let mut used = Duration::ZERO;
        for _ in 0..ticks {
            let (busy, ran) = match wants < quota {
                true => (TICK.mul_f64(wants), TICK.mul_f64(wants)),
                false => (TICK, TICK.mul_f64(quota)),
            };
            let now = utilisation.told_at + TICK;
            used = utilisation.note(now, busy, ran);
        }
        used.div_duration_f64(TICK)
    }

    fn about(is: f64, expected: f64) -> bool {
        (is - expected).abs() < 0.05
    }

    /// A node with a tenth of a core took itself for idle until it stood still for nine tenths of the time.
    #[test]
    fn a_quota_shows_when_it_is_used_up() {
        let mut utilisation = Utilisation::new(Duration::ZERO);
        assert!(about(after(&mut utilisation, 100, 0.08, 0.1), 0.08));
        assert!(about(after(&mut utilisation, 60, 0.2, 0.1), 1.0));
        for wants in [0.02, 0.05, 0.07] {
            let used = after(&mut utilisation, 100, wants, 0.1);
            assert!(about(used, wants / 0.1), "{used} of {wants}");
            assert!(about(utilisation.get(), wants / 0.1), "{wants}");
        }
    }

    /// Under a quota of 10 ms in 100 a worker took a fifth of the time for what it could run: what it did was looked at for 50 ms.
    #[test]
    fn a_quota_with_a_long_period_shows() {
        let (mut utilisation, mut last) = (Utilisation::new(Duration::ZERO), 0.0);
        for _ in 0..30 {
            let mut used = Duration::ZERO;
            for (passed, ran) in [(TICK, TICK), (9 * TICK, Duration::ZERO)] {
                let now = utilisation.told_at + passed;
                used += utilisation.note(now, passed, ran);
            }
            last = used.div_duration_f64(10 * TICK);
        }
        assert!(about(last, 1.0), "{last}");
    }

    /// When a quota was twice as large again, the worker took itself for busy, and its neighbours took up to nine seconds to send more.
    #[test]
    fn a_quota_that_grows_shows_at_once() {
        let mut utilisation = Utilisation::new(Duration::ZERO);
        after(&mut utilisation, 60, 0.2, 0.05);
        let used = after(&mut utilisation, 20, 0.05, 0.1);
        assert!(about(used, USES), "{used}");
        assert!(about(after(&mut utilisation, 60, 0.2, 0.1), 1.0));
    }

    #[test]
    fn a_quota_that_is_gone_is_forgotten() {
        let mut utilisation = Utilisation::new(Duration::ZERO);
        after(&mut utilisation, 60, 0.2, 0.1);
        assert!(about(after(&mut utilisation, 100, 0.5, 1.0), 1.0));
        assert!(about(after(&mut utilisation, 100, 1.0, 1.0), 1.0));
        assert!(about(after(&mut utilisation, 100, 0.5, 1.0), 0.5));
    }

    #[test]
    fn without_a_quota_it_is_what_the_clock_says() {
        let mut utilisation = Utilisation::new(Duration::ZERO);
        for wants in [0.1, 0.5, 0.97, 0.3] {
            let used = after(&mut utilisation, 50, wants, 1.0);
            assert!((used - wants).abs() < 1e-6, "{used} of {wants}");
        }
    }
}

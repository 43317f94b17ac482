//! What it costs to pass a request on, and to hold it: learned while running.

use std::time::Duration;

/// Each interval counts for so much less after the next one: half is forgotten in 20 s.
const KEPT: f64 = 0.9965;

/// What is believed before anything is measured: to hold a request costs a quarter more.
const RATIO_BELIEVED: f64 = 0.25;

/// How sure that belief is, as a share of one interval's evidence. A few intervals in which the shares of
/// held requests differ by a tenth count for more.
const BELIEF: f64 = 0.003;

/// Whatever is measured, to hold a request costs so much of what it costs to pass it on.
const RATIO: (f64, f64) = (0.02, 8.0);

/// Requests before anything is told.
const REQUESTS_MIN: f64 = 200.0;

/// The costs of one worker, by least squares over the last intervals.
///
/// Each interval tells how long the worker was busy, how many requests came and how many of them it
/// held. Chance makes these numbers differ from one interval to the next, which is what the two costs
/// are told apart by.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Costs {
    weight: f64,
    requests: f64,
    passed_passed: f64,
    passed_held: f64,
    held_held: f64,
    passed_busy: f64,
    held_busy: f64,
    pass_s: f64,
    hold_s: f64,
}

impl Costs {
    /// An interval is over.
    pub(crate) fn learn(&mut self, requests: u32, held: u32, busy: Duration) {
        if requests == 0 {
            return;
        }
        let (passed, held, busy) = (f64::from(requests), f64::from(held), busy.as_secs_f64());
        let add = |sum: &mut f64, more: f64| *sum = *sum * KEPT + more;
        add(&mut self.weight, 1.0);
        add(&mut self.requests, passed);
        add(&mut self.passed_passed, passed * passed);
        add(&mut self.passed_held, passed * held);
        add(&mut self.held_held, held * held);
        add(&mut self.passed_busy, passed * busy);
        add(&mut self.held_busy, held * busy);
        self.solve();
    }

    /// The seconds that a request takes that is passed on.
    #[must_use]
    pub(crate) fn pass_s(&self) -> f64 {
        self.pass_s
    }

    /// The seconds that a request takes in addition that is held.
    #[must_use]
    pub(crate) fn hold_s(&self) -> f64 {
        self.hold_s
    }

    /// The seconds that these take.
    #[must_use]
    pub(crate) fn of(&self, requests: u32, held: u32) -> f64 {
        f64::from(requests) * self.pass_s + f64::from(held) * self.hold_s
    }

    /// Whether enough was measured to tell anything.
    #[must_use]
    pub(crate) fn are_known(&self) -> bool {
        self.requests >= REQUESTS_MIN && self.pass_s > 0.0
    }

    /// The least sum of squares, the belief among them.
    fn solve(&mut self) {
        let belief = BELIEF * self.passed_passed / self.weight;
        let passed_passed = self.passed_passed + belief * RATIO_BELIEVED * RATIO_BELIEVED;
        let passed_held = self.passed_held - belief * RATIO_BELIEVED;
        let held_held = self.held_held + belief;
        let determinant = passed_passed * held_held - passed_held * passed_held;
        if determinant <= 0.0 {
            return;
        }
        let pass = (self.passed_busy * held_held - self.held_busy * passed_held) / determinant;
        let hold = (self.held_busy * passed_passed - self.passed_busy * passed_held) / determinant;
        if pass > 0.0 {
            self.pass_s = pass;
            self.hold_s = hold.clamp(RATIO.0 * pass, RATIO.1 * pass);
        }
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Where nearly all requests are held, or nearly none, chance tells the costs apart too little, and the
        /// belief weighs more.
        #[test]
        fn costs_are_learned(seed: u64, ratio in 0.05..2.0_f64, share in 0.15..0.8_f64) {
            let mut rng = Rng::with_seed(seed);
            let pass_s = 175e-6;
            let mut costs = Costs::default();
            for _ in 0..300 {
                let requests = 450 + rng.u32(..100);
                let held = (0..requests).filter(|_| rng.f64() < share).count() as u32;
                let noise = 0.995 + 0.01 * rng.f64();
                let busy = pass_s * (f64::from(requests) + ratio * f64::from(held)) * noise;
                costs.learn(requests, held, Duration::from_secs_f64(busy));
            }
            let found = costs.hold_s() / costs.pass_s();
            prop_assert!((found - ratio).abs() < 0.25 * ratio + 0.05, "{found}, not {ratio}");
            let all = costs.pass_s() + share * costs.hold_s();
            prop_assert!((all / pass_s / (1.0 + share * ratio) - 1.0).abs() < 0.02);
        }
    }

    #[test]
    fn without_evidence_the_belief_holds() {
        let mut costs = Costs::default();
        assert!(!costs.are_known());
        for _ in 0..10 {
            costs.learn(100, 0, Duration::from_millis(10));
        }
        assert!(costs.are_known());
        assert!((costs.pass_s() - 1e-4).abs() < 1e-9);
        assert!((costs.hold_s() / costs.pass_s() - RATIO_BELIEVED).abs() < 1e-6);
    }
}

//! Decides which policy is in force at a given time.

use std::time::Duration;

use balance::Policy;

/// The policies that the demo shows, in this order: ours, then those common elsewhere.
pub(super) const POLICIES: [Policy; 4] =
    [Policy::Tlwl, Policy::RoundRobin, Policy::Hash, Policy::Cjsq];

/// How long each policy stays in force if the demo has no end.
const PHASE: Duration = Duration::from_secs(10);

/// The order of the policies, for a limited time or in a loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    phase: Duration,
    end: Option<Duration>,
}

impl Schedule {
    /// Gives each policy an equal part of `duration`; without one, repeats the policies until the
    /// end.
    pub(super) fn new(duration: Option<Duration>) -> Self {
        let phase = duration.map_or(PHASE, |duration| duration / POLICIES.len() as u32);
        Self {
            phase: phase.max(Duration::from_millis(1)),
            end: duration,
        }
    }

    /// The index in [`POLICIES`] of the policy in force; none after the end.
    pub(super) fn policy(&self, elapsed: Duration) -> Option<usize> {
        let round = elapsed.as_nanos() / self.phase.as_nanos();
        let place = (round % POLICIES.len() as u128) as usize;
        self.end.is_none_or(|end| elapsed < end).then_some(place)
    }

    /// The policy that follows, and the time until then.
    pub(super) fn next(&self, elapsed: Duration) -> (Option<usize>, Duration) {
        let passed = (elapsed.as_nanos() % self.phase.as_nanos()) as u64;
        let left = self.phase - Duration::from_nanos(passed);
        (self.policy(elapsed + left), left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_has_its_equal_part() {
        let bounded = Some(Duration::from_secs(20));
        check(bounded, 0, Some(0), Some(1), 5_000);
        check(bounded, 4_999, Some(0), Some(1), 1);
        check(bounded, 5_000, Some(1), Some(2), 5_000);
        check(bounded, 19_000, Some(3), None, 1_000);
        check(bounded, 20_000, None, None, 5_000);
        check(None, 39_000, Some(3), Some(0), 1_000);
        check(None, 3_600_000, Some(0), Some(1), 10_000);
    }

    fn check(
        duration: Option<Duration>,
        elapsed_ms: u64,
        policy: Option<usize>,
        next: Option<usize>,
        left_ms: u64,
    ) {
        let schedule = Schedule::new(duration);
        let elapsed = Duration::from_millis(elapsed_ms);
        assert_eq!(schedule.policy(elapsed), policy, "{duration:?} {elapsed:?}");
        let left = Duration::from_millis(left_ms);
        assert_eq!(
            schedule.next(elapsed),
            (next, left),
            "{duration:?} {elapsed:?}"
        );
    }
}

//! Calls that were sent away without an answer.

use std::{
    collections::{HashSet, VecDeque},
    hash::BuildHasherDefault,
    time::Duration,
};

use super::names::Named;

/// The most calls that are remembered. The oldest are forgotten first.
const CALLS_MAX: usize = 1 << 16;

/// No INVITE is repeated for longer. RFC 3261 Timer B
const REPEATED_FOR: Duration = Duration::from_secs(32);

/// Remembers calls by a hash of their INVITE, to know its retransmissions.
#[derive(Debug, Default)]
pub(super) struct Unheard {
    known: HashSet<u64, BuildHasherDefault<Named>>,
    oldest_first: VecDeque<(Duration, u64)>,
}

impl Unheard {
    /// A call was sent away.
    pub(super) fn insert(&mut self, now: Duration, call: u64) {
        if self.oldest_first.len() == CALLS_MAX {
            self.forget_oldest();
        }
        if self.known.insert(call) {
            self.oldest_first.push_back((now, call));
        }
    }

    /// Whether a call was sent away before.
    pub(super) fn contains(&self, call: u64) -> bool {
        self.known.contains(&call)
    }

    /// Forgets those whose callers have given up.
    pub(super) fn on_timers(&mut self, now: Duration) {
        while let Some((at, _)) = self.oldest_first.front()
            && *at + REPEATED_FOR <= now
        {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((_, call)) = self.oldest_first.pop_front() {
            self.known.remove(&call);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_remembered_while_its_invite_is_repeated() {
        let mut unheard = Unheard::default();
        let s = Duration::from_secs;
        unheard.insert(s(1), 7);
        unheard.insert(s(20), 7);
        unheard.insert(s(20), 8);
        unheard.on_timers(s(32));
        assert!(unheard.contains(7) && unheard.contains(8));
        unheard.on_timers(s(33));
        assert!(!unheard.contains(7) && unheard.contains(8));
    }

    #[test]
    fn of_too_many_calls_the_oldest_are_forgotten() {
        let mut unheard = Unheard::default();
        (0..=CALLS_MAX as u64).for_each(|call| unheard.insert(Duration::ZERO, call));
        assert!(!unheard.contains(0) && unheard.contains(1));
        assert_eq!(unheard.known.len(), CALLS_MAX);
    }
}

//! How the phases of entries go.

use super::super::law::Law;
use crate::model::{CallKind, CallOrder, EntryId, Phase};

/// How a phase goes.
pub(super) struct Plan {
    pub(super) slice: Law,
    pub(super) think_time: f64,
    order: CallOrder,
    pub(super) quorum: Option<u32>,
    /// Each with the chance that it or one before it comes next.
    pub(super) calls: Vec<(EntryId, CallKind, f64)>,
}

/// What comes after a slice.
pub(super) enum Next {
    Send(EntryId),
    Call(EntryId),
    /// All calls at once.
    Fork,
    End,
}

impl Plan {
    pub(super) fn new(demand: f64, phase: &Phase) -> Self {
        // Calls at the same time don't cut it.
        let slices = match phase.quorum {
            Some(_) => 1.0,
            None => 1.0 + phase.calls_mean(),
        };
        let total = 1.0 + phase.calls_mean();
        let mut chance = 0.0;
        let mut calls = Vec::new();
        for call in &phase.calls {
            chance += call.mean / total;
            let times = match phase.order {
                CallOrder::Stochastic => 1,
                CallOrder::Deterministic => call.mean as usize,
            };
            calls.extend(std::iter::repeat_n((call.target, call.kind, chance), times));
        }
        Self {
            slice: Law::new(demand / slices, phase.cvsq),
            think_time: phase.think_time,
            order: phase.order,
            quorum: phase.quorum,
            calls,
        }
    }

    /// What comes after a slice, with so many calls made before.
    pub(super) fn next(&self, calls_made: usize, rng: &mut fastrand::Rng) -> Next {
        if self.quorum.is_some() {
            return if calls_made == 0 {
                Next::Fork
            } else {
                Next::End
            };
        }
        let next = match self.order {
            CallOrder::Stochastic if self.calls.is_empty() => None,
            CallOrder::Stochastic => {
                let chance = rng.f64();
                self.calls.iter().find(|call| chance < call.2)
            }
            CallOrder::Deterministic => self.calls.get(calls_made),
        };
        match next {
            Some(&(target, CallKind::Asynchronous, _)) => Next::Send(target),
            Some(&(target, CallKind::Synchronous, _)) => Next::Call(target),
            None => Next::End,
        }
    }
}

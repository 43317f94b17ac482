//! Decides which server is next in turn.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::Padded;

/// Turns in proportion to capacity, as even as can be: the method of Webster and Sainte-Laguë.
///
/// A server with capacity `c` is due at 1/2c, 3/2c, 5/2c and so on. The server that is due first
/// is next. So equal servers form a cycle, and unequal ones interleave without bursts.
#[derive(Debug)]
pub(crate) struct Turns {
    /// When each server is due next, as the bits of an `f64` that is never negative: such bits
    /// compare like the numbers.
    due: Box<[Padded<AtomicU64>]>,
    /// The latest turn that was taken.
    reached: Padded<AtomicU64>,
}

impl Turns {
    pub(crate) fn new(capacities: impl Iterator<Item = f64>) -> Self {
        let first = |capacity: f64| Padded(AtomicU64::new((0.5 / capacity).to_bits()));
        Self {
            due: capacities.map(first).collect(),
            reached: Padded::default(),
        }
    }

    /// When the server is due next, as stored.
    pub(crate) fn observe(&self, index: usize) -> u64 {
        self.due[index].0.load(Relaxed)
    }

    /// When a server is due for which `observed` is stored. Turns missed while it could not take
    /// them are lost, or it would get all of them at once on its return.
    pub(crate) fn due(&self, observed: u64) -> f64 {
        f64::from_bits(observed.max(self.reached.0.load(Relaxed)))
    }

    /// Takes the turn that was `observed`; false when another thread has taken it.
    pub(crate) fn take(&self, index: usize, observed: u64, capacity: f64) -> bool {
        let due = self.due(observed);
        let next = (due + 1.0 / capacity).to_bits();
        let taken = self.due[index]
            .0
            .compare_exchange(observed, next, Relaxed, Relaxed)
            .is_ok();
        if taken {
            self.reached.0.fetch_max(due.to_bits(), Relaxed);
        }
        taken
    }
}

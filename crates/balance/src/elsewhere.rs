//! The open calls and transactions of other balancers on a server.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The weight of a server that another balancer is to prefer, where all others are equal.
const LEFT_TO_OTHERS: f64 = 1e-6;

/// The open calls that other balancers have reported for a server, and the transactions that have
/// been open for a while, with their cost.
///
/// Calls last long, so they count like our own. Transactions come and go faster than balancers
/// report. If old reports counted fully, all balancers would choose the same server at once. So
/// transactions count a quarter, and balancers report only those that outlast several looks, as on
/// a server that has stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Elsewhere {
    /// Open calls.
    pub calls: u64,
    /// Transactions that stay open.
    pub transactions: u64,
    /// Their cost, in thousandths of a BYE.
    pub work_thousandths: u64,
}

/// The same, shared by threads, and the part of a server that is ours to prefer.
#[derive(Debug)]
pub(crate) struct Share {
    calls: AtomicU64,
    transactions: AtomicU64,
    work_thousandths: AtomicU64,
    /// The bits of an `f64`.
    preference: AtomicU64,
}

impl Default for Share {
    fn default() -> Self {
        Self {
            calls: AtomicU64::new(0),
            transactions: AtomicU64::new(0),
            work_thousandths: AtomicU64::new(0),
            preference: AtomicU64::new(1.0_f64.to_bits()),
        }
    }
}

impl Share {
    pub(crate) fn set(&self, elsewhere: Elsewhere) {
        self.calls.store(elsewhere.calls, Relaxed);
        self.transactions.store(elsewhere.transactions, Relaxed);
        self.work_thousandths
            .store(elsewhere.work_thousandths, Relaxed);
    }

    pub(crate) fn get(&self) -> Elsewhere {
        Elsewhere {
            calls: self.calls(),
            transactions: self.transactions.load(Relaxed),
            work_thousandths: self.work_thousandths.load(Relaxed),
        }
    }

    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Relaxed)
    }

    /// As they count beside our own.
    pub(crate) fn transactions(&self) -> u64 {
        self.transactions.load(Relaxed).div_ceil(4)
    }

    /// As it counts beside our own.
    pub(crate) fn work_thousandths(&self) -> u64 {
        self.work_thousandths.load(Relaxed) / 4
    }

    pub(crate) fn set_preference(&self, preference: f64) {
        let preference = preference.clamp(LEFT_TO_OTHERS, 1.0);
        self.preference.store(preference.to_bits(), Relaxed);
    }

    pub(crate) fn preference(&self) -> f64 {
        f64::from_bits(self.preference.load(Relaxed))
    }
}

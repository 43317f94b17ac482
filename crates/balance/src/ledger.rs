//! What is open on a server.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::cost::Cost;

/// The counts of one server. Orderings are relaxed: only the counts matter, nothing hangs on them.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    calls: AtomicU64,
    transactions: AtomicU64,
    /// Thousandths of the cost of a BYE.
    work: AtomicU64,
    placed: AtomicU64,
    failed: AtomicU64,
    underflows: AtomicU64,
}

/// The counts a policy may compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Metric {
    Calls,
    Transactions,
    Work,
}

/// What an arrival adds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    pub(crate) call: bool,
    pub(crate) cost: Cost,
}

impl Opening {
    fn amount(self, metric: Metric) -> u64 {
        match metric {
            Metric::Calls => u64::from(self.call),
            Metric::Transactions => 1,
            Metric::Work => self.cost.thousandths(),
        }
    }
}

impl Ledger {
    pub(crate) fn open_call(&self) {
        self.calls.fetch_add(1, Relaxed);
    }

    pub(crate) fn close_call(&self) {
        self.take(&self.calls, 1);
    }

    pub(crate) fn open_transaction(&self, cost: Cost) {
        self.transactions.fetch_add(1, Relaxed);
        self.work.fetch_add(cost.thousandths(), Relaxed);
    }

    pub(crate) fn close_transaction(&self, cost: Cost) {
        self.take(&self.transactions, 1);
        self.take(&self.work, cost.thousandths());
    }

    pub(crate) fn count_failed(&self) {
        self.failed.fetch_add(1, Relaxed);
    }

    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Relaxed)
    }

    pub(crate) fn transactions(&self) -> u64 {
        self.transactions.load(Relaxed)
    }

    /// In thousandths of the cost of a BYE.
    pub(crate) fn work(&self) -> u64 {
        self.work.load(Relaxed)
    }

    pub(crate) fn placed(&self) -> u64 {
        self.placed.load(Relaxed)
    }

    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Relaxed)
    }

    pub(crate) fn underflows(&self) -> u64 {
        self.underflows.load(Relaxed)
    }

    pub(crate) fn metric(&self, metric: Metric) -> u64 {
        self.counter(metric).load(Relaxed)
    }

    /// Opens everything the arrival brings.
    pub(crate) fn place(&self, opening: Opening) {
        for metric in [Metric::Calls, Metric::Transactions, Metric::Work] {
            self.add(metric, opening);
        }
        self.placed.fetch_add(1, Relaxed);
    }

    /// Opens everything the arrival brings.if `metric` is still what the chooser observed.
    pub(crate) fn place_if(&self, metric: Metric, observed: u64, opening: Opening) -> bool {
        let raised = observed + opening.amount(metric);
        let unchanged = self
            .counter(metric)
            .compare_exchange(observed, raised, Relaxed, Relaxed)
            .is_ok();
        if unchanged {
            for other in [Metric::Calls, Metric::Transactions, Metric::Work] {
                if other != metric {
                    self.add(other, opening);
                }
            }
            self.placed.fetch_add(1, Relaxed);
        }
        unchanged
    }

    fn add(&self, metric: Metric, opening: Opening) {
        let amount = opening.amount(metric);
        if amount > 0 {
            self.counter(metric).fetch_add(amount, Relaxed);
        }
    }

    fn counter(&self, metric: Metric) -> &AtomicU64 {
        match metric {
            Metric::Calls => &self.calls,
            Metric::Transactions => &self.transactions,
            Metric::Work => &self.work,
        }
    }

    /// A count that would fall below zero is the caller's bug: it stays at zero and is reported.
    fn take(&self, counter: &AtomicU64, amount: u64) {
        let held = counter
            .fetch_update(Relaxed, Relaxed, |held| Some(held.saturating_sub(amount)))
            .unwrap_or_default();
        debug_assert!(held >= amount, "closed what was not open");
        if held < amount {
            self.underflows.fetch_add(1, Relaxed);
        }
    }
}

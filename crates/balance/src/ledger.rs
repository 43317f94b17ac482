//! The open calls and transactions of a server.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::cost::Cost;

/// The most transactions that can be open on one server. The limits of a process are far lower,
/// because each transaction takes memory.
pub const TRANSACTIONS_MAX: u64 = (1 << TRANSACTION_BITS) - 1;

const TRANSACTION_BITS: u32 = 22;
const WORK_BITS: u32 = u64::BITS - TRANSACTION_BITS;

const _: () = assert!(
    TRANSACTIONS_MAX * Cost::MAX.thousandths() < 1 << WORK_BITS,
    "the work of all transactions fits beside their number"
);

/// The open transactions of a server: their number and their cost, in one word so that they change
/// together and cost one atomic operation. The number is in the upper bits, the cost, in
/// thousandths of a BYE, below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Open(u64);

impl Open {
    /// One transaction.
    const fn of(cost: Cost) -> Self {
        Self((1 << WORK_BITS) | cost.thousandths())
    }

    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    pub(crate) fn transactions(self) -> u64 {
        self.0 >> WORK_BITS
    }

    /// The work, in thousandths of the cost of a BYE.
    pub(crate) fn thousandths(self) -> u64 {
        self.0 & ((1 << WORK_BITS) - 1)
    }

    /// The work, in units of the cost of a BYE.
    pub(crate) fn work(self) -> f64 {
        self.thousandths() as f64 / 1_000.0
    }

    /// Without a transaction of that cost, if there can be one.
    fn without(self, cost: Cost) -> Option<Self> {
        let is_there = self.transactions() > 0 && self.thousandths() >= cost.thousandths();
        is_there.then(|| Self(self.0 - Self::of(cost).0))
    }
}

/// The counts of one server. Orderings are relaxed: only the counts matter, nothing hangs on them.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    open: AtomicU64,
    calls: AtomicU64,
    placed: AtomicU64,
    failed: AtomicU64,
    underflows: AtomicU64,
    /// When the server last answered. It stands here because an answer writes this line anyway.
    heard_at: AtomicU64,
}

impl Ledger {
    pub(crate) fn open_call(&self) {
        self.calls.fetch_add(1, Relaxed);
    }

    pub(crate) fn close_call(&self) {
        let closed = self
            .calls
            .fetch_update(Relaxed, Relaxed, |calls| calls.checked_sub(1));
        self.count_underflow(closed);
    }

    pub(crate) fn open_transaction(&self, cost: Cost) {
        let before = Open(self.open.fetch_add(Open::of(cost).0, Relaxed));
        debug_assert!(before.transactions() < TRANSACTIONS_MAX);
    }

    pub(crate) fn close_transaction(&self, cost: Cost) {
        let closed = self.open.fetch_update(Relaxed, Relaxed, |open| {
            Open(open).without(cost).map(Open::bits)
        });
        self.count_underflow(closed);
    }

    /// Closing what is not open is the caller's bug: the counts stay and the bug is counted.
    fn count_underflow(&self, closed: Result<u64, u64>) {
        debug_assert!(closed.is_ok(), "closed what was not open");
        if closed.is_err() {
            self.underflows.fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn hear(&self, now: u64) {
        self.heard_at.store(now.max(1), Relaxed);
    }

    pub(crate) fn forget_heard(&self) {
        self.heard_at.store(0, Relaxed);
    }

    pub(crate) fn heard_at(&self) -> u64 {
        self.heard_at.load(Relaxed)
    }

    pub(crate) fn count_failed(&self) {
        self.failed.fetch_add(1, Relaxed);
    }

    pub(crate) fn open(&self) -> Open {
        Open(self.open.load(Relaxed))
    }

    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Relaxed)
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

    /// Opens a transaction, and a call if the arrival is one.
    pub(crate) fn place(&self, call: bool, cost: Cost) {
        self.open_transaction(cost);
        self.count_placed(call);
    }

    /// The same if the open transactions are still those the chooser observed.
    pub(crate) fn place_if_open_is(&self, observed: u64, call: bool, cost: Cost) -> bool {
        let raised = observed + Open::of(cost).0;
        let unchanged = raise(&self.open, observed, raised);
        if unchanged {
            self.count_placed(call);
        }
        unchanged
    }

    /// The same if the calls are still as many as the chooser observed.
    pub(crate) fn place_if_calls_are(&self, observed: u64, call: bool, cost: Cost) -> bool {
        let unchanged = raise(&self.calls, observed, observed + u64::from(call));
        if unchanged {
            self.open_transaction(cost);
            self.count_placed(false);
        }
        unchanged
    }

    fn count_placed(&self, call: bool) {
        if call {
            self.open_call();
        }
        self.placed.fetch_add(1, Relaxed);
    }
}

fn raise(count: &AtomicU64, observed: u64, raised: u64) -> bool {
    count
        .compare_exchange(observed, raised, Relaxed, Relaxed)
        .is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_and_work_share_a_word() {
        let ledger = Ledger::default();
        let check = |transactions, work| {
            let open = ledger.open();
            assert_eq!((open.transactions(), open.work()), (transactions, work));
        };
        check(0, 0.0);
        ledger.open_transaction(Cost::MAX);
        check(1, 1_000.0);
        ledger.place(true, Cost::INVITE);
        check(2, 1_001.75);
        ledger.close_transaction(Cost::MAX);
        check(1, 1.75);
        assert!(!ledger.place_if_open_is(0, true, Cost::ONE));
        assert!(ledger.place_if_open_is(ledger.open().bits(), true, Cost::ONE));
        check(2, 2.75);
        assert!(!ledger.place_if_calls_are(1, true, Cost::ONE));
        assert!(ledger.place_if_calls_are(2, true, Cost::ONE));
        check(3, 3.75);
        assert_eq!((ledger.calls(), ledger.placed()), (3, 3));
    }

    #[test]
    #[cfg_attr(debug_assertions, should_panic(expected = "closed what was not open"))]
    fn closing_what_is_not_open_changes_nothing_and_is_counted() {
        let ledger = Ledger::default();
        ledger.open_transaction(Cost::ONE);
        ledger.close_transaction(Cost::INVITE);
        ledger.close_call();
        assert_eq!(ledger.underflows(), 2);
        assert_eq!(ledger.open().transactions(), 1);
    }
}

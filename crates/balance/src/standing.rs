//! Whether a server may get new calls, and how many: its capacity, health, draining and backing
//! off.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::elsewhere::Share;
use crate::{CAPACITY, nanos};

/// How long a server stays down if only live traffic took it down. Probes overrule this: while they
/// fail, the server stays down until enough have succeeded.
pub const RETRY_AFTER: Duration = Duration::from_secs(10);

/// The share of its capacity with which a server starts slowly.
const SLOW_START_FLOOR: f64 = 0.1;

/// Down until probes say otherwise.
const INDEFINITELY: u64 = u64::MAX;

/// Whether a server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It answers, or nothing is known to the contrary.
    Up,
    /// It has failed to answer.
    Down,
}

/// The reason why a server gets no new calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ineligible {
    /// It was taken out of the configuration.
    Removed,
    /// The operator drains it.
    Draining,
    /// It doesn't answer.
    Down,
    /// It asked to be left alone for a while.
    BackingOff,
    /// It holds more calls than `user-hash` lets one server hold.
    AboveBound,
    /// The key belongs to another cluster of servers.
    OtherCluster,
}

/// One server's standing. Mostly read; times are nanoseconds since the driver's zero.
#[derive(Debug)]
pub(crate) struct Standing {
    /// The bits of an `f64`.
    capacity: AtomicU64,
    draining: AtomicBool,
    removed: AtomicBool,
    back_off_until: AtomicU64,
    /// Zero when up; a time in the past is up as well.
    down_until: AtomicU64,
    /// When the slow start began; zero for never.
    started: AtomicU64,
    failures: AtomicU32,
    passes: AtomicU32,
    elsewhere: Share,
}

impl Standing {
    pub(crate) fn new(capacity: f64) -> Self {
        assert_capacity(capacity);
        Self {
            capacity: AtomicU64::new(capacity.to_bits()),
            draining: AtomicBool::new(false),
            removed: AtomicBool::new(false),
            back_off_until: AtomicU64::new(0),
            down_until: AtomicU64::new(0),
            started: AtomicU64::new(0),
            failures: AtomicU32::new(0),
            passes: AtomicU32::new(0),
            elsewhere: Share::default(),
        }
    }

    pub(crate) fn elsewhere(&self) -> &Share {
        &self.elsewhere
    }

    pub(crate) fn capacity(&self) -> f64 {
        f64::from_bits(self.capacity.load(Relaxed))
    }

    pub(crate) fn set_capacity(&self, capacity: f64) {
        assert_capacity(capacity);
        self.capacity.store(capacity.to_bits(), Relaxed);
    }

    /// The share of the capacity that counts at `now`: below one during a slow start.
    pub(crate) fn share(&self, now: u64, slow_start: u64) -> f64 {
        let started = self.started.load(Relaxed);
        let elapsed = now.saturating_sub(started);
        if started == 0 || elapsed >= slow_start {
            return 1.0;
        }
        SLOW_START_FLOOR + (1.0 - SLOW_START_FLOOR) * elapsed as f64 / slow_start as f64
    }

    pub(crate) fn drain(&self) {
        self.draining.store(true, Relaxed);
    }

    pub(crate) fn undrain(&self, now: u64) {
        if self.draining.swap(false, Relaxed) {
            self.start(now);
        }
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Relaxed)
    }

    pub(crate) fn remove(&self) {
        self.removed.store(true, Relaxed);
    }

    pub(crate) fn add(&self, now: u64) {
        self.removed.store(false, Relaxed);
        self.start(now);
    }

    pub(crate) fn is_removed(&self) -> bool {
        self.removed.load(Relaxed)
    }

    fn start(&self, now: u64) {
        self.started.store(now.max(1), Relaxed);
    }

    pub(crate) fn is_up(&self, now: u64) -> bool {
        self.down_until.load(Relaxed) <= now
    }

    pub(crate) fn probe_passed(&self, now: u64, rise: u32) -> bool {
        self.answered();
        if self.is_up(now) {
            self.passes.store(0, Relaxed);
            return false;
        }
        let passes = self.passes.fetch_add(1, Relaxed).saturating_add(1);
        let risen = passes >= rise && self.down_until.swap(0, Relaxed) > now;
        if risen {
            self.passes.store(0, Relaxed);
            self.start(now);
        }
        risen
    }

    pub(crate) fn probe_failed(&self, now: u64, fall: u32) -> bool {
        self.passes.store(0, Relaxed);
        self.count_failure() >= fall && self.down_until.swap(INDEFINITELY, Relaxed) <= now
    }

    pub(crate) fn timed_out(&self, now: u64, fall: u32) -> bool {
        self.count_failure() >= fall && self.unreachable(now)
    }

    /// Should the server come back by expiry, it starts slowly then.
    pub(crate) fn unreachable(&self, now: u64) -> bool {
        let until = now.saturating_add(nanos(RETRY_AFTER));
        let fell = self.down_until.fetch_max(until, Relaxed) <= now;
        if fell {
            self.passes.store(0, Relaxed);
            self.start(until);
        }
        fell
    }

    fn count_failure(&self) -> u32 {
        self.failures.fetch_add(1, Relaxed).saturating_add(1)
    }

    pub(crate) fn answered(&self) {
        if self.failures.load(Relaxed) != 0 {
            self.failures.store(0, Relaxed);
        }
    }

    pub(crate) fn back_off(&self, until: u64) {
        self.back_off_until.fetch_max(until, Relaxed);
    }

    pub(crate) fn eligibility(&self, now: u64) -> Result<(), Ineligible> {
        if self.is_removed() {
            Err(Ineligible::Removed)
        } else if self.is_draining() {
            Err(Ineligible::Draining)
        } else if !self.is_up(now) {
            Err(Ineligible::Down)
        } else if self.back_off_until.load(Relaxed) > now {
            Err(Ineligible::BackingOff)
        } else {
            Ok(())
        }
    }
}

fn assert_capacity(capacity: f64) {
    assert!(CAPACITY.contains(&capacity), "a capacity of {capacity}");
}

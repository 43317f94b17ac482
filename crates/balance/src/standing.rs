//! Whether a server may get new calls, and how many: its capacity, health, draining and backing
//! off.
//!
//! A server is up or down. Failures in a row take it down. What brings it up again depends on who
//! judges it, its [`Judge`]:
//!
//! | state | event | next state |
//! |---|---|---|
//! | up | the `fall`th failure in a row, or [`unreachable`](Standing::unreachable) | down |
//! | down, [`Judge::Probes`] | the `rise`th passed probe in a row | up |
//! | down, [`Judge::Calls`] | the time for the next try: [`retry`](Standing::retry) lets one call through | down |
//! | down, [`Judge::Calls`] | an answer to a request | up |
//! | down, any judge | a failed probe | down, [`Judge::Probes`] |

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::elsewhere::Share;
use crate::wishes::Wishes;
use crate::{CAPACITY, nanos};

/// How long a server without probes is down before a call tries it. Each try doubles this, up to
/// [`RETRY_MAX`].
pub const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The longest time between two tries of a server without probes.
pub const RETRY_MAX: Duration = Duration::from_secs(32);

/// The longest time for which a server that asks for it gets no new calls.
pub const BACK_OFF_MAX: Duration = Duration::from_secs(10);

/// The share of its capacity with which a server starts slowly.
const SLOW_START_FLOOR: f64 = 0.1;

/// No call tries a server that probes judge.
const NEVER: u64 = u64::MAX;

/// Who finds out that a server that is down has come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judge {
    /// Probes.
    Probes,
    /// Calls: now and then one is placed there.
    Calls,
}

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
    /// Servers that come before it are eligible.
    InReserve,
}

/// One server's standing. Mostly read; times are nanoseconds since the driver's zero.
#[derive(Debug)]
pub(crate) struct Standing {
    /// The bits of an `f64`.
    capacity: AtomicU64,
    draining: AtomicBool,
    removed: AtomicBool,
    back_off_until: AtomicU64,
    wishes: Wishes,
    /// Zero when up, else when a call may try it.
    retry_at: AtomicU64,
    /// The calls that have tried it since it went down, and one.
    retries: AtomicU32,
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
            wishes: Wishes::default(),
            retry_at: AtomicU64::new(0),
            retries: AtomicU32::new(0),
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

    /// What was known of the server before it was removed may not hold any more.
    pub(crate) fn add(&self, now: u64) {
        self.removed.store(false, Relaxed);
        self.retry_at.store(0, Relaxed);
        self.failures.store(0, Relaxed);
        self.back_off_until.store(0, Relaxed);
        self.start(now);
    }

    pub(crate) fn is_removed(&self) -> bool {
        self.removed.load(Relaxed)
    }

    fn start(&self, now: u64) {
        self.started.store(now.max(1), Relaxed);
    }

    pub(crate) fn is_up(&self) -> bool {
        self.retry_at.load(Relaxed) == 0
    }

    pub(crate) fn probe_passed(&self, now: u64, rise: u32) -> bool {
        self.forget_failures();
        if self.is_up() {
            return false;
        }
        let passes = self.passes.fetch_add(1, Relaxed).saturating_add(1);
        passes >= rise && self.rise(now)
    }

    pub(crate) fn probe_failed(&self, now: u64, fall: u32) -> bool {
        self.passes.store(0, Relaxed);
        self.count_failure() >= fall && self.unreachable(now, Judge::Probes)
    }

    pub(crate) fn timed_out(&self, now: u64, fall: u32) -> bool {
        self.count_failure() >= fall && self.unreachable(now, Judge::Calls)
    }

    pub(crate) fn unreachable(&self, now: u64, judge: Judge) -> bool {
        let retry_at = match judge {
            Judge::Probes => NEVER,
            Judge::Calls => now.saturating_add(nanos(RETRY_AFTER)).max(1),
        };
        let fell = self.retry_at.fetch_max(retry_at, Relaxed) == 0;
        if fell {
            self.retries.store(1, Relaxed);
            self.passes.store(0, Relaxed);
        }
        fell
    }

    /// Probes are over: if they took the server down, the next call tries it.
    pub(crate) fn judge_by_calls(&self, now: u64) {
        let _ = self
            .retry_at
            .compare_exchange(NEVER, now.max(1), Relaxed, Relaxed);
    }

    pub(crate) fn is_retry_due(&self, now: u64) -> bool {
        let retry_at = self.retry_at.load(Relaxed);
        retry_at != 0 && retry_at <= now && self.eligibility(now) == Err(Ineligible::Down)
    }

    /// Lets one of the callers try the server, and the next one later.
    pub(crate) fn retry(&self, now: u64) -> bool {
        let due = self.retry_at.load(Relaxed);
        if due == 0 || due > now {
            return false;
        }
        let wait = nanos(RETRY_AFTER) << self.retries.load(Relaxed).min(16);
        let next = now.saturating_add(wait.min(nanos(RETRY_MAX)));
        let is_ours = self
            .retry_at
            .compare_exchange(due, next, Relaxed, Relaxed)
            .is_ok();
        if is_ours {
            self.retries.fetch_add(1, Relaxed);
        }
        is_ours
    }

    fn rise(&self, now: u64) -> bool {
        let rose = self.retry_at.swap(0, Relaxed) != 0;
        if rose {
            self.passes.store(0, Relaxed);
            self.start(now);
        }
        rose
    }

    fn count_failure(&self) -> u32 {
        self.failures.fetch_add(1, Relaxed).saturating_add(1)
    }

    fn forget_failures(&self) {
        if self.failures.load(Relaxed) != 0 {
            self.failures.store(0, Relaxed);
        }
    }

    pub(crate) fn answered(&self, now: u64) -> bool {
        self.forget_failures();
        let retry_at = self.retry_at.load(Relaxed);
        retry_at != 0 && retry_at != NEVER && self.rise(now)
    }

    pub(crate) fn back_off(&self, now: u64, call: u64, wish: u64) -> bool {
        let holds = self.wishes.is_enough(now, call);
        if holds {
            let until = now.saturating_add(wish.min(nanos(BACK_OFF_MAX)));
            self.back_off_until.fetch_max(until, Relaxed);
        }
        holds
    }

    pub(crate) fn serves(&self) {
        self.wishes.forget();
    }

    pub(crate) fn eligibility(&self, now: u64) -> Result<(), Ineligible> {
        if self.is_removed() {
            Err(Ineligible::Removed)
        } else if self.is_draining() {
            Err(Ineligible::Draining)
        } else if !self.is_up() {
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

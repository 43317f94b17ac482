//! What every step reads and none changes.

use std::time::Duration;

use crate::{
    shared::Shared,
    snapshot::Snapshot,
    stats::{Event, WorkerStats},
};

/// The moment, the configuration, and where to count.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) now: Duration,
    pub(crate) shared: &'a Shared,
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) stats: &'a WorkerStats,
}

impl Context<'_> {
    /// The wall time since the UNIX epoch.
    pub(crate) fn wall(&self) -> Duration {
        self.shared.wall(self.now)
    }

    /// When a transaction that begins now is over: 64*T1. RFC 3261 §17.1.1.1
    pub(crate) fn transaction_end(&self) -> Duration {
        self.now + self.snapshot.transaction_max()
    }

    /// Counts what became of a new INVITE that was sent on, as RFC 6076 §4.6 to §4.8 divide them. Redirections and
    /// challenges are not counted. 0: nothing came back.
    pub(crate) fn count_outcome(&self, status: u16) {
        let event = match status {
            200..300 => Event::CallsAnswered,
            300..=399 | 401 | 402 | 407 => return,
            480 | 486 | 600 | 603 => Event::CallsDeclined,
            0 | 408 | 500 | 503 | 504 => Event::CallsIneffective,
            _ => Event::CallsFailed,
        };
        self.stats.count(event, 1);
    }
}

//! What every step reads and none changes.

use std::time::Duration;

use crate::{shared::Shared, snapshot::Snapshot, stats::WorkerStats};

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
}

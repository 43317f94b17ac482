//! What came of a replay.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

/// The calls of a server, as taken and as the node would place them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// As the capture has it.
    pub taken: usize,
    /// By the node.
    pub would: usize,
    /// In the busiest second, as the capture has it.
    pub taken_peak: usize,
    /// In the busiest second, by the node.
    pub would_peak: usize,
    /// The part of the time for which the emulated server was busy, in thousandths.
    pub busy_per_mille: u64,
}

/// A call that the node would place elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Its Call-ID.
    pub call_id: String,
    /// Since the capture's first call.
    pub at: Duration,
    /// Where it went.
    pub taken: SocketAddr,
    /// Where it would go.
    pub would: SocketAddr,
    /// Why.
    pub why: &'static str,
    /// Open calls, open transactions and work in thousandths of the first; none: it is in no pool.
    pub taken_ledger: Option<(u64, u64, u64)>,
    /// The same of the second.
    pub would_ledger: Option<(u64, u64, u64)>,
}

/// Decisions of a node beside those that were taken.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Requests that began something.
    pub calls: usize,
    /// The node would place them where they went.
    pub same: usize,
    /// It would place them elsewhere.
    pub other: usize,
    /// The edge of the capture placed them nowhere, but the node would.
    pub only_would: usize,
    /// The node would answer them by itself, by status; 0: not at all.
    pub refused: BTreeMap<u16, usize>,
    /// Of those, such as the capture's edge placed.
    pub refused_but_taken: usize,
    /// Why decisions differ.
    pub reasons: BTreeMap<&'static str, usize>,
    /// By server.
    pub servers: BTreeMap<SocketAddr, Row>,
    /// Until the caller got the first answer past 100, as captured.
    pub taken_times: Vec<Duration>,
    /// The same, by the node and emulated servers.
    pub would_times: Vec<Duration>,
    /// How often a server's time of idle was measured, by method: idle, and all.
    pub measured: Vec<(String, usize, usize)>,
    /// Some of the decisions that differ.
    pub differences: Vec<Difference>,
    /// From the first call to the last event.
    pub span: Duration,
}

/// The time that this part of all times is not above; none if there are none.
#[must_use]
pub fn quantile(sorted: &[Duration], share: f64) -> Option<Duration> {
    let at = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(at.saturating_sub(1)).copied()
}

//! One run: traffic that goes on while something fails, and what became of it.

use std::{io, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    fate::Fate,
    traffic::{Calls, Traffic},
};

/// Calls, and REGISTERs where there are some, in a second.
pub(super) const PER_S: f64 = 100.0;

/// How long calls begin before something fails, and afterwards.
pub(super) const BEFORE: Duration = Duration::from_secs(5);
pub(super) const AFTER: Duration = Duration::from_secs(15);

/// How long the last request may take to be given up, and a refused phone to try again.
pub(super) const PATIENCE: Duration = Duration::from_secs(90);

/// Once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) calls: Fate,
    pub(super) users: Option<UsersFate>,
    pub(super) note: String,
}

/// What became of users who registered meanwhile.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct UsersFate {
    pub(super) registers: Fate,
    /// Registrations that were acknowledged, and those of them that the store had no more at the end.
    pub(super) acknowledged: u64,
    pub(super) gone: u64,
}

/// Calls go on while something fails.
pub(super) fn calls_through(
    round: u64,
    calls: &Calls,
    fail: impl FnOnce() -> io::Result<()>,
) -> io::Result<Run> {
    let mut traffic = Traffic::new(round);
    let record = traffic.call(calls)?;
    traffic.run(BEFORE)?;
    let failed = traffic.now();
    fail()?;
    traffic.run(AFTER)?;
    traffic.finish(PATIENCE)?;
    Ok(Run {
        calls: traffic.record(record).fate(failed),
        users: None,
        note: String::new(),
    })
}

//! Random exploration: a seed draws a world, its load and its faults; checkers look on; then the
//! faults stop, and all must heal.
//!
//! A run has four phases. While the faults last, calls may fail, but no request within a dialog
//! may reach a server that the dialog is not with, and every ledger must equal what is open. Then
//! every call must have ended, one way or the other. Then, with nothing to do, every count and
//! table must be empty. Then calls come again, and each must be carried.

mod affinity;
mod draw;
mod fault;
mod ledger;
mod run;

use std::{fmt, time::Duration};

pub use self::{draw::Plan, fault::Fault};

/// What a seed led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Calls begun.
    pub calls: u64,
    /// Calls that failed while there were faults.
    pub failed: u64,
    /// Datagrams that came to a party.
    pub datagrams: u64,
    /// The virtual time that passed.
    pub lasted: Duration,
    /// A hash of all that happened.
    pub digest: u64,
    /// The first thing that must not be, if anything was.
    pub violation: Option<Violation>,
}

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When it was seen.
    pub at: Duration,
    /// Of what kind it is.
    pub kind: Kind,
    /// What was seen.
    pub what: String,
}

/// What a violation is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Something wrong happened.
    Safety,
    /// Something right didn't happen in time.
    Liveness,
}

/// Runs what a seed draws; `watch` sees all that happens.
pub fn explore(seed: u64, watch: &mut impl crate::Watch) -> Outcome {
    run::run(&Plan::draw(seed), watch)
}

/// Runs a seed and keeps its first `lines_max` events.
#[must_use]
pub fn trace(seed: u64, lines_max: usize) -> crate::Trace {
    let plan = Plan::draw(seed);
    let mut trace = crate::Trace::new(run::names(&plan), lines_max);
    run::run(&plan, &mut trace);
    trace
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Safety => "safety",
            Kind::Liveness => "liveness",
        };
        write!(f, "{kind}, {:.3} s: {}", self.at.as_secs_f64(), self.what)
    }
}

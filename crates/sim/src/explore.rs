//! Random exploration. A seed draws a world, its load and its faults. Checkers watch the run.
//!
//! A run has four phases. During the faults, calls may fail, but no request within a dialog may
//! reach a server outside of the dialog, and every ledger must equal the open calls and
//! transactions. After the faults, every call must end. Then, without load, every count and table
//! must become empty. Finally, new calls start, and the system must carry all of them.
//!
//! Every second world is on a public network: NATs that rebind stand before callers, servers hang up,
//! and strangers attack. Honest callers must lose nothing by that, and no edge may send to a third
//! address.

mod affinity;
mod attack;
mod draw;
mod fault;
mod ledger;
mod outside;
mod public;
mod reach;
mod run;

use std::{fmt, time::Duration};

pub use self::{
    attack::Attack,
    draw::Plan,
    fault::Fault,
    public::{Deed, NatPlan, Public},
};

/// The outcome of a seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Calls started.
    pub calls: u64,
    /// Calls that failed while there were faults.
    pub failed: u64,
    /// Datagrams that arrived at a party.
    pub datagrams: u64,
    /// The virtual time that passed.
    pub lasted: Duration,
    /// A hash of all events.
    pub digest: u64,
    /// The first violation; none if all checks passed.
    pub violation: Option<Violation>,
}

/// A violation of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When the checker saw it.
    pub at: Duration,
    /// Its kind.
    pub kind: Kind,
    /// The checker's description.
    pub what: String,
}

/// The kind of a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Something wrong happened.
    Safety,
    /// Something right didn't happen in time.
    Liveness,
}

/// Runs the world of a seed. `watch` sees all events.
pub fn explore(seed: u64, watch: &mut impl crate::Watch) -> Outcome {
    run::run(&Plan::draw(seed), watch)
}

/// Runs the world of a seed without NATs and strangers.
#[must_use]
pub fn explore_private(seed: u64) -> Outcome {
    let plan = Plan {
        public: None,
        ..Plan::draw(seed)
    };
    run::run(&plan, &mut ())
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

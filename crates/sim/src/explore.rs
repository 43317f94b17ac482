//! Random exploration. A seed draws a world, its load and its faults. Checkers watch the run.
//!
//! A run has four phases. During the faults, calls may fail, but no request within a dialog may
//! reach a server outside of the dialog, and every ledger must equal the open calls and
//! transactions. After the faults, every call must end. Then, without load, every count and table
//! must become empty. Finally, new calls start, and the system must carry all of them.
//!
//! Some worlds have edges with a slow processor, and surges of calls beyond what it can serve. When all is over, no edge
//! may still keep anything out.
//!
//! In half of the worlds without a public network callers or servers come over connections, with little room in their
//! systems. Connections break, and are not read for a while. When all is over, none may be left that nobody uses.
//!
//! Every second world is on a public network: NATs that rebind stand before callers, servers hang up,
//! and strangers attack. Honest callers must lose nothing by that, and no edge may send to a third
//! address.
//!
//! Every eighth seed draws a second world as well: a chain or a tree of nodes with dynamic state, some of which
//! restart. One node on its path must hold each transaction.

mod affinity;
mod attack;
mod custody;
mod draw;
mod fault;
mod ledger;
mod outcome;
mod outside;
mod overload;
mod public;
mod reach;
mod run;
mod streams;

pub use self::{
    attack::Attack,
    draw::Plan,
    fault::Fault,
    outcome::{Kind, Outcome, Violation},
    public::{Deed, NatPlan, Public},
    streams::Streams,
};

/// Runs the world of a seed. `watch` sees all events.
pub fn explore(seed: u64, watch: &mut impl crate::Watch) -> Outcome {
    let mut outcome = run::run(&Plan::draw(seed), watch);
    if seed.is_multiple_of(custody::ONE_IN) {
        custody::run(seed, &mut outcome);
    }
    outcome
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

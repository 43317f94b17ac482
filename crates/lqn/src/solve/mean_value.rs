//! Mean value analysis of a part: an approximation for what is too large for its Markov chain.
//!
//! Customers and requests go over all servers of the part at once, not layer by layer: a thread
//! limit is one more wait. What a customer meets at a server is what is there with one customer
//! less (Reiser and Lavenberg 1980): with one reference task by going through all populations,
//! with several by Schweitzer's share. Waits are sums over what is met: those in wait with their
//! whole time, those in service with what is left of it. Several servers are met all busy with
//! the chance of Sakasegawa 1977; how many of a task's requests are without a thread, with a single reference task,
//! says the distribution of their number.

mod arrivals;
mod flow;
mod loads;
mod meeting;
mod overtaking;
mod pass;
mod rates;
mod threads;

use crate::{
    model::{EntryId, Model},
    solve::{parts::Part, sums::Sums},
};
use flow::Network;
use loads::Loads;
use threads::Split;

/// What the long run of a part is made of.
pub(super) struct Solved {
    pub(super) sums: Sums,
    pub(super) passes: u32,
    pub(super) is_settled: bool,
}

/// Passes at one population, at most.
const PASSES_MAX: u32 = 500;

/// Loads that change less, relatively, have settled.
const SETTLED: f64 = 1e-6;

/// The same for populations on the way.
const NEARLY_SETTLED: f64 = 1e-3;

/// Populations up to this are gone through one by one.
const POPULATION_MAX: u32 = 300;

/// Solves a part. `arrivals` come from other parts and outside.
pub(super) fn solve(model: &Model, part: &Part, arrivals: &[(EntryId, f64)]) -> Solved {
    let mut network = Network::new(model, part, arrivals);
    let mut loads = Loads::empty(&network);
    let (mut passes, mut is_settled) = (0, true);
    let populations = network.populations(POPULATION_MAX);
    let last = populations.len() - 1;
    for (place, population) in populations.into_iter().enumerate() {
        let fewer = loads.clone();
        let splits = match population {
            Some(customers) => threads::splits(&network, &fewer, customers),
            None => vec![None; network.limits.len()],
        };
        if let Some(customers) = population {
            network.chains[0].customers = f64::from(customers);
        }
        let settled = if place == last {
            SETTLED
        } else {
            NEARLY_SETTLED
        };
        let fewer = population.map(|_| &fewer);
        let (count, change) = settle(&network, &mut loads, fewer, &splits, settled);
        passes += count;
        is_settled = change < settled;
    }
    Solved {
        sums: loads.sums(&network),
        passes,
        is_settled,
    }
}

/// Passes at one population until the loads settle. `fewer` are the loads with a customer less.
/// Says how many there were and how much the last one changed.
fn settle(
    network: &Network<'_>,
    loads: &mut Loads,
    fewer: Option<&Loads>,
    splits: &[Option<Split>],
    settled: f64,
) -> (u32, f64) {
    let mut relaxation = 0.9;
    let mut last = f64::INFINITY;
    for pass in 1..=PASSES_MAX {
        let change = loads.pass(network, fewer, splits, relaxation);
        if change < settled || pass == PASSES_MAX {
            return (pass, change);
        }
        // What doesn't come nearer swings.
        if pass % 10 == 0 {
            if change > 0.3 * last {
                relaxation = f64::max(0.1, relaxation * 0.7);
            }
            last = change;
        }
    }
    (PASSES_MAX, last)
}

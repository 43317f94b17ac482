//! The model's long run, computed.

mod chain;
mod mean_value;
mod parts;
mod sums;

use crate::{
    model::{CallKind, EntryId, Model, Task},
    results::{Method, Results},
};
use chain::Size;
use parts::Part;
use sums::Sums;

/// States of a Markov chain that is solved at most.
const STATES_MAX: usize = 80_000;

/// Solves the model, part by part: by its Markov chain where that is small, else by mean values.
///
/// Where requests come faster than they can be served, the share that fits is served, and the rest
/// is lost: no utilization is above the multiplicity.
#[must_use]
pub fn solve(model: &Model) -> Results {
    let mut sums = Sums::new(model);
    let mut method = Method::MarkovChain;
    let (mut iterations, mut converged) = (0, true);
    for part in parts::parts(model) {
        let arrivals = arrivals(model, &part.streams, &sums);
        let (part_sums, passes, is_settled) = match chain(model, &part, &arrivals) {
            Some(solved) => (solved.sums, solved.sweeps, solved.is_settled),
            None => {
                // Of requests alone, behind customers, the method is not worth telling.
                if !part.references.is_empty() || !model.tasks.iter().any(Task::is_reference) {
                    method = Method::MeanValue;
                }
                let solved = mean_value::solve(model, &part, &arrivals);
                (solved.sums, solved.passes, solved.is_settled)
            }
        };
        sums.add(&part_sums);
        iterations = iterations.max(passes);
        converged &= is_settled;
    }
    sums.results(model, method, iterations, converged)
}

/// A part with customers by its Markov chain, of finer stages and longer queues if it stays small.
fn chain(model: &Model, part: &Part, arrivals: &[(EntryId, f64)]) -> Option<chain::Solved> {
    if part.references.is_empty() {
        return None;
    }
    let sizes = [(40, 20), (20, 8)];
    sizes.into_iter().find_map(|(stream, stages)| {
        chain::solve(
            model,
            part,
            arrivals,
            Size {
                states: STATES_MAX,
                stream,
                stages,
            },
        )
    })
}

/// What comes to a part's streams from outside and from the parts before it.
fn arrivals(model: &Model, streams: &[EntryId], sums: &Sums) -> Vec<(EntryId, f64)> {
    let rate = |&stream: &EntryId| {
        let mut rate = model[stream].open_arrival_rate;
        for (entry, sums) in model.entries.iter().zip(&sums.entries) {
            let calls = entry.phases.iter().flat_map(|phase| &phase.calls);
            let sends =
                calls.filter(|call| call.kind == CallKind::Asynchronous && call.target == stream);
            rate += sums.replies * sends.map(|call| call.mean).sum::<f64>();
        }
        (stream, rate)
    };
    streams
        .iter()
        .map(rate)
        .filter(|(_, rate)| *rate > 0.0)
        .collect()
}

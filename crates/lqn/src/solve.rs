//! The model's long run, computed.

mod chain;
mod mean_value;
mod parts;
mod sums;

use crate::{
    model::{CallKind, EntryId, Model},
    results::{Method, Results},
};
use chain::Size;
use sums::Sums;

/// Solves the model.
#[must_use]
pub fn solve(model: &Model) -> Results {
    let mut sums = Sums::new(model);
    let (mut iterations, mut converged) = (0, true);
    let mut method = Method::MarkovChain;
    for part in parts::parts(model) {
        let arrivals = arrivals(model, &part.streams, &sums);
        let exact = std::env::var("MVA").is_err() && !part.references.is_empty();
        let size = Size {
            states: 30_000,
            stream: 40,
            stages: 20,
        };
        if exact && let Some(solved) = chain::solve(model, &part, &arrivals, size) {
            sums.add(&solved.sums);
            iterations = iterations.max(solved.sweeps);
            converged &= solved.is_settled;
        } else {
            let solved = mean_value::solve(model, &part, &arrivals);
            sums.add(&solved.sums);
            iterations = iterations.max(solved.passes);
            converged &= solved.is_settled;
            if !part.references.is_empty() {
                method = Method::MeanValue;
            }
        }
    }
    sums.results(model, method, iterations, converged)
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

//! The model's long run, computed.

mod chain;
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
    for part in parts::parts(model) {
        let arrivals = arrivals(model, &part.streams, &sums);
        let size = Size {
            states: 30_000,
            stream: 40,
            stages: 20,
        };
        if let Some(solved) = chain::solve(model, &part, &arrivals, size) {
            sums.add(&solved.sums);
            iterations = iterations.max(solved.sweeps);
            converged &= solved.is_settled;
        }
    }
    sums.results(model, Method::MarkovChain, iterations, converged)
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

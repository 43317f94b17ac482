//! Calculates the steady state of the model.

mod balance;
mod chain;
mod mean_value;
mod parts;
mod sums;

use crate::{
    model::{CallKind, EntryId, Model, Task},
    results::{Method, Results},
    simulate::{SimulationSettings, simulate},
};
use parts::Part;
use sums::Sums;

/// Events of a model that is simulated, and the seed that makes its answer repeatable.
const EVENTS: u64 = 200_000;
const SEED: u64 = 1;

/// Solves the model part by part: by its Markov chain if that is small, else by mean value
/// analysis.
///
/// Some models are simulated for a while, so their figures have intervals: those in which a phase makes calls at the
/// same time, those with semaphores or locks, and those with priorities whose Markov chain would be large.
///
/// If requests come faster than the servers can serve them, the share that fits is served and the
/// rest is lost: no utilization is above the multiplicity.
#[must_use]
pub fn solve(model: &Model) -> Results {
    if model.has_forks() || model.has_locks() {
        return simulated(model);
    }
    let mut sums = Sums::new(model);
    let mut method = Method::MarkovChain;
    let (mut iterations, mut converged) = (0, true);
    let parts = parts::parts(model);
    let mut states = vec![None; parts.len()];
    for (place, part) in parts.iter().enumerate() {
        let arrivals = arrivals(model, &part.streams, &sums);
        let is_driven = !part.references.is_empty();
        let chain = is_driven.then(|| chain::solve(model, part, &arrivals));
        let (part_sums, passes, is_settled) = match chain.flatten() {
            Some(solved) => {
                states[place] = Some(solved.states);
                (solved.sums, solved.sweeps, solved.is_settled)
            }
            None if model.has_priorities() => return simulated(model),
            None => {
                // Of requests alone, behind customers, the method is not worth telling.
                if is_driven || !model.tasks.iter().any(Task::is_reference) {
                    method = Method::MeanValue;
                }
                let mut solved = mean_value::solve(model, part, &arrivals);
                if let Some(joint) = with_senders(model, &parts, &states, place) {
                    solved.sums.take_waits(&joint, &sums);
                }
                (solved.sums, solved.passes, solved.is_settled)
            }
        };
        sums.add(&part_sums);
        iterations = iterations.max(passes);
        converged &= is_settled;
    }
    sums.results(model, method, iterations, converged)
}

fn simulated(model: &Model) -> Results {
    let settings = SimulationSettings { events: EVENTS };
    let mut rng = fastrand::Rng::with_seed(SEED);
    let mut results = simulate(model, &settings, &mut rng, |_| {});
    balance::balance(model, &mut results);
    results
}

/// A part without customers in one chain with those that send to it, if that is small: what they send comes in
/// bursts, and waits for longer than what comes at random.
fn with_senders(
    model: &Model,
    parts: &[Part],
    states: &[Option<usize>],
    place: usize,
) -> Option<Sums> {
    let mut joint = parts[place].clone();
    let streams = joint.streams.len() as u32;
    let mut least = chain::STREAM.saturating_pow(streams);
    for (sender, states) in parts[..place].iter().zip(states).rev() {
        if sender.sends_to(model, &joint) {
            least = least.saturating_mul((*states)?);
            joint.references.extend(&sender.references);
            joint.streams.extend(&sender.streams);
        }
    }
    if joint.references.is_empty() || least > chain::states_max(model) {
        return None;
    }
    let arrivals = arrivals(model, &joint.streams, &Sums::new(model));
    let solved = chain::solve(model, &joint, &arrivals)?;
    (solved.has_room() && solved.is_settled).then_some(solved.sums)
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

//! Simulates the model on virtual time.

mod calendar;
mod engine;
mod law;
mod processor;
mod queue;
mod tally;

use crate::{model::Model, results::Results};
use engine::Engine;
use tally::Tally;

/// The length of a simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimulationSettings {
    /// The total number of events; a tenth of them are the warm-up.
    pub events: u64,
}

impl Default for SimulationSettings {
    fn default() -> Self {
        Self { events: 2_000_000 }
    }
}

/// Batches, whose means make the confidence intervals.
const BATCHES: u32 = 30;

/// Simulates the model: batch means with 95 % confidence intervals.
///
/// Stochastic phases make a geometric number of calls, with a slice before, between and after
/// them: exponential, or gamma, or hyperexponential, by the coefficient of variation. A thread that
/// waits for a reply leaves its processor; a send leaves it where it is. Tasks, semaphores, locks and
/// FCFS processors serve in the order of arrival, and so do processors with priorities among equals.
/// `progress` gets the share that is done, from 0 to 1, after each batch.
#[must_use]
pub fn simulate(
    model: &Model,
    settings: &SimulationSettings,
    rng: &mut fastrand::Rng,
    mut progress: impl FnMut(f64),
) -> Results {
    let mut engine = Engine::new(model, rng);
    let warm_up = (settings.events / 10).max(1000);
    engine.run_events(warm_up);
    let pace = engine.now() / engine.events() as f64;
    let measured = settings
        .events
        .saturating_sub(warm_up)
        .max(10 * u64::from(BATCHES)) as f64;
    let duration = pace * measured / f64::from(BATCHES);
    let mut tally = Tally::new(model);
    engine.start_batch();
    for batch in 1..=BATCHES {
        let end = engine.now() + duration;
        engine.run_until(end);
        tally.add(engine.counts(), duration);
        engine.start_batch();
        progress(f64::from(batch) / f64::from(BATCHES));
    }
    let mut results = tally.results(model);
    results.converged &= !engine.is_stuck();
    results
}

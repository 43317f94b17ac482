//! Runs a scenario on all cores.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{
    results::{Measures, Point, Results},
    scenario::{Place, Scenario},
};
use crate::{parallel::try_each, progress::Progress};

/// Runs every point with every seed: one seed after the other, with the policies side by side. The
/// results do not depend on the number of threads.
///
/// # Errors
/// If an edge refuses its configuration.
pub(super) fn run(scenario: &Scenario, seed: u64, threads: usize) -> Result<Results, String> {
    let places = scenario.places();
    let count = places.len() * scenario.seeds;
    let (progress, done) = (Progress::new(), AtomicUsize::new(0));
    let measured = try_each(threads, 0..count, |job| {
        let place = &places[job % places.len()];
        let measures = run_one(scenario, place, seed + (job / places.len()) as u64);
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        progress.show(&format!("{}: {done} of {count} runs", scenario.title));
        measures
    });
    drop(progress);
    let mut runs = vec![Vec::with_capacity(scenario.seeds); places.len()];
    for (job, measures) in measured?.into_iter().enumerate() {
        runs[job % places.len()].push(measures);
    }
    let points = places.iter().zip(runs);
    let points = points.map(|(place, runs)| Point {
        place: *place,
        runs,
    });
    Ok(Results::new(scenario, points.collect()))
}

fn run_one(scenario: &Scenario, place: &Place, seed: u64) -> Result<Measures, String> {
    let experiment = scenario.experiment(place);
    let measures = match scenario.search(&experiment) {
        Some(search) => search.run(&experiment, seed).map(Measures::peak),
        None => sim::run(&experiment, seed)
            .map(|outcome| Measures::of(&outcome, scenario.watches_occupancy)),
    };
    measures.map_err(|error| error.to_string())
}

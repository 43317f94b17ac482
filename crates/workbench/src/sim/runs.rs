//! Runs a scenario on all cores.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use super::{
    results::{Measures, Point, Results},
    scenario::{Place, Scenario},
};
use crate::progress::Progress;

/// Runs every point with every seed: one seed after the other, with the policies side by side. The
/// results do not depend on the number of threads.
///
/// # Errors
/// If an edge refuses its configuration.
pub(super) fn run(scenario: &Scenario, seed: u64, threads: usize) -> Result<Results, String> {
    let places = scenario.places();
    let count = places.len() * scenario.seeds;
    let measured: Vec<Mutex<Option<Measures>>> = (0..count).map(|_| Mutex::default()).collect();
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let error = Mutex::new(String::new());
    let (progress, done) = (Progress::new(), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..threads.min(count) {
            scope.spawn(|| {
                while !failed.load(Ordering::Relaxed) {
                    let job = next.fetch_add(1, Ordering::Relaxed);
                    let Some(slot) = measured.get(job) else { break };
                    let place = &places[job % places.len()];
                    match run_one(scenario, place, seed + (job / places.len()) as u64) {
                        Ok(measures) => *lock(slot) = Some(measures),
                        Err(message) => {
                            *lock(&error) = message;
                            failed.store(true, Ordering::Relaxed);
                        }
                    }
                    let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                    progress.show(&format!("{}: {done} of {count} runs", scenario.title));
                }
            });
        }
    });
    drop(progress);
    if failed.into_inner() {
        return Err(error.into_inner().unwrap_or_else(PoisonError::into_inner));
    }
    let taken = |job: usize| lock(&measured[job]).take().unwrap_or_default();
    let points = places.iter().enumerate().map(|(number, place)| Point {
        place: *place,
        runs: (0..scenario.seeds)
            .map(|run| taken(run * places.len() + number))
            .collect(),
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

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Flow balance: in the long run requests are served as often as they are made, and a processor is busy for the time that they
//! ask for. A short simulation's counts know that less well than they know the rates of customers.

use crate::{
    model::{Entry, EntryId, Model},
    results::{Figure, Results},
};

/// Counts may be off by so many of their intervals; beyond that a queue grows, or requests get lost.
const INTERVALS: f64 = 2.0;

/// Puts the rates that follow from those of customers and arrivals in place of what was counted, and the utilisations that follow
/// from these. Leaves all as it is if that is not what was counted.
pub(super) fn balance(model: &Model, results: &mut Results) {
    let Some(rates) = rates(model, results).filter(|rates| agree(rates, results)) else {
        return;
    };
    for task in &mut results.tasks {
        task.throughput = Figure::default();
    }
    for processor in &mut results.processors {
        processor.utilization = Figure::default();
    }
    for (place, &rate) in rates.iter().enumerate() {
        let (entry, task) = (EntryId(place), model.entries[place].task);
        results.entries[place].throughput = rate;
        let of_task = &mut results.tasks[task.0].throughput;
        *of_task = add(*of_task, rate);
        let demand = (0..model[entry].phases.len()).map(|phase| model.demand(entry, phase));
        let busy = &mut results.processors[model[task].processor.0].utilization;
        *busy = add(*busy, rate.scaled(demand.sum()));
    }
}

/// How often each entry is asked; none if calls go in circles.
fn rates(model: &Model, results: &Results) -> Option<Vec<Figure>> {
    let begins = |(place, entry): (usize, &Entry)| match model[entry.task].is_reference() {
        true => results.entries[place].throughput,
        false => Figure::exact(entry.open_arrival_rate),
    };
    let begins: Vec<Figure> = model.entries.iter().enumerate().map(begins).collect();
    let mut rates = begins.clone();
    for _ in 0..=model.entries.len() {
        let mut next = begins.clone();
        for (entry, rate) in model.entries.iter().zip(&rates) {
            let calls = entry.phases.iter().flat_map(|phase| &phase.calls);
            let calls = calls.map(|call| (call.target, call.mean));
            let forwards = entry
                .forwards
                .iter()
                .map(|forward| (forward.target, forward.probability));
            for (target, mean) in calls.chain(forwards) {
                next[target.0] = add(next[target.0], rate.scaled(mean));
            }
        }
        if next == rates {
            return Some(rates);
        }
        rates = next;
    }
    None
}

fn agree(rates: &[Figure], results: &Results) -> bool {
    let mut entries = rates.iter().zip(&results.entries);
    entries.all(|(rate, result)| {
        let counted = result.throughput;
        let off = (counted.value - rate.value).abs();
        result.lost.value == 0.0 && off <= INTERVALS * counted.ci95.unwrap_or(0.0)
    })
}

/// The sum, as unsure as both together.
fn add(one: Figure, other: Figure) -> Figure {
    let width = one.ci95.unwrap_or(0.0) + other.ci95.unwrap_or(0.0);
    Figure {
        value: one.value + other.value,
        ci95: Some(width),
    }
}

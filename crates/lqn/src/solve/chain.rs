//! A part's Markov chain: every state it can be in, and how likely each is.
//!
//! Exact up to four things: whoever waits is taken at random, which leaves mean waiting times
//! nearly as first come, first served does; slices of little variation have at most so many
//! exponential stages; requests that nobody waits for queue up to a bound; and the chance of
//! branches below one in a hundred million is left out.

mod moves;
mod places;
mod stationary;

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::{
    model::{EntryId, Model, Multiplicity, ProcessorId, TaskId},
    solve::{parts::Part, sums::Sums},
};
use moves::{Rules, State};
use places::{Places, Stage};
use stationary::Rates;

/// Steps between states at most: calls of no service time can be made in very many orders.
const STEPS_MAX: u64 = 4_000_000;

/// How large a chain may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) states: usize,
    pub(super) stream: usize,
    pub(super) stages: u8,
}

/// What the long run of a part is made of.
pub(super) struct Solved {
    pub(super) sums: Sums,
    pub(super) sweeps: u32,
    pub(super) is_settled: bool,
}

/// Solves a part, if its chain is small enough. `arrivals` come from other parts and outside.
pub(super) fn solve(
    model: &Model,
    part: &Part,
    arrivals: &[(EntryId, f64)],
    size: Size,
) -> Option<Solved> {
    let mut is_inside = vec![false; model.entries.len()];
    part.streams
        .iter()
        .for_each(|entry| is_inside[entry.0] = true);
    let mut rules = Rules {
        model,
        places: Places::default(),
        arrivals: arrivals.to_vec(),
        is_inside,
        stream_max: size.stream,
        stages_max: size.stages,
        steps: 0,
    };
    // Second phases of infinite tasks pile up without a bound.
    let piles_up = model.entries.iter().any(|entry| {
        entry.phases.len() > 1 && model[entry.task].multiplicity == Multiplicity::Infinite
    });
    // The estimate counts ways that no run takes: about ten times the states.
    let max = (size.states as f64 * 16.0).ln();
    if piles_up || estimate(&mut rules, part, max) > max {
        return None;
    }
    let chain = explore(&mut rules, part, size.states)?;
    let stationary = chain.rates.solve();
    let sums = chain.sums(&rules, &stationary.chances);
    Some(Solved {
        sums,
        sweeps: stationary.sweeps,
        is_settled: stationary.is_settled,
    })
}

struct Chain {
    states: Vec<State>,
    rates: Rates,
    /// Replies and losses per unit of time in a state.
    replies: Vec<(u32, EntryId, f64)>,
    lost: Vec<(u32, EntryId, f64)>,
}

fn explore(rules: &mut Rules<'_>, part: &Part, states_max: usize) -> Option<Chain> {
    let start = rules.start(&part.references);
    let mut ids: HashMap<State, u32> = HashMap::from([(start.clone(), 0)]);
    let mut chain = Chain {
        states: vec![start],
        rates: Rates::default(),
        replies: Vec::new(),
        lost: Vec::new(),
    };
    let mut at = 0;
    while at < chain.states.len() {
        let state = chain.states[at].clone();
        let from = at as u32;
        for found in rules.moves(&state) {
            let next = chain.states.len() as u32;
            let to = *ids.entry(found.to).or_insert_with_key(|state| {
                chain.states.push(state.clone());
                next
            });
            chain.rates.add(from, to, found.rate);
            chain.replies.extend(
                found
                    .replies
                    .into_iter()
                    .map(|entry| (from, entry, found.rate)),
            );
            chain.lost.extend(
                found
                    .lost
                    .into_iter()
                    .map(|entry| (from, entry, found.rate)),
            );
        }
        if chain.states.len() > states_max || rules.steps > STEPS_MAX {
            return None;
        }
        at += 1;
    }
    Some(chain)
}

/// The logarithm of about how many states there are: ways to spread the customers over the places
/// that one alone can be in, where tasks of few threads let few in. Above `max` it says no more than that.
fn estimate(rules: &mut Rules<'_>, part: &Part, max: f64) -> f64 {
    let arrivals = std::mem::take(&mut rules.arrivals);
    let stream_max = std::mem::replace(&mut rules.stream_max, 0);
    let mut total = 0.0;
    for &reference in &part.references {
        if total <= max {
            total += estimate_of(rules, reference, max - total);
        }
    }
    rules.arrivals = arrivals;
    rules.stream_max = stream_max;
    total
}

/// Of one kind of customers: follows one that is alone, and what it leaves behind, from place to place.
fn estimate_of(rules: &mut Rules<'_>, reference: TaskId, max: f64) -> f64 {
    let model = rules.model;
    let customers = model[reference].multiplicity.finite().unwrap_or(0);
    let start = rules.start_alone(reference);
    let mut seen = HashSet::from([start.clone()]);
    let mut left = vec![start];
    let mut known = HashSet::from([rules.thinking(reference)]);
    let mut groups = BTreeMap::from([(None, 1)]);
    let mut ways = 0.0;
    while let Some(state) = left.pop().filter(|_| ways <= max) {
        for &place in &state {
            if known.insert(place) {
                let limit = rules.places.limit(model, place, customers);
                *groups.entry(limit).or_default() += 1;
            }
        }
        ways = spread(model, &groups, customers);
        for next in rules.moves(&state) {
            if seen.len() < 500 && seen.insert(next.to.clone()) {
                left.push(next.to);
            }
        }
    }
    ways
}

/// The logarithm of the ways to spread customers over groups of places, each within a task or free of all.
fn spread(model: &Model, groups: &BTreeMap<Option<TaskId>, u32>, customers: u32) -> f64 {
    let ways = |(task, &places): (&Option<TaskId>, &u32)| match task {
        Some(task) => {
            let threads = model[*task].multiplicity.finite();
            ways(threads.unwrap_or(customers).min(customers), places)
        }
        // Of the unlimited places one says how many are in the others.
        None => ways(customers, places - 1),
    };
    groups.iter().map(ways).sum()
}

/// The logarithm of the ways to put at most `customers` into `places`.
fn ways(customers: u32, places: u32) -> f64 {
    (1..=places)
        .map(|place| (f64::from(customers + place) / f64::from(place)).ln())
        .sum()
}

impl Chain {
    fn sums(&self, rules: &Rules<'_>, chances: &[f64]) -> Sums {
        let model = rules.model;
        let mut sums = Sums::new(model);
        for &(from, entry, rate) in &self.replies {
            sums.entries[entry.0].replies += chances[from as usize] * rate;
        }
        for &(from, entry, rate) in &self.lost {
            sums.entries[entry.0].lost += chances[from as usize] * rate;
        }
        let held: Vec<_> = (0..rules.places.len())
            .map(|id| rules.places.held(model, id as u16))
            .collect();
        let mut running = vec![0_u32; model.processors.len()];
        for (state, chance) in self.states.iter().zip(chances) {
            running.fill(0);
            for &id in state {
                let place = rules.places.get(id);
                held[id as usize]
                    .iter()
                    .for_each(|entry| sums.entries[entry.0].served += chance);
                match place.stage {
                    Stage::AwaitsThread => sums.entries[place.spot.entry.0].waiting += chance,
                    Stage::Runs(_) => running[model[model[place.spot.entry].task].processor.0] += 1,
                    Stage::Rests | Stage::AwaitsProcessor => {}
                }
            }
            for (place, &running) in running.iter().enumerate() {
                let busy = match model[ProcessorId(place)].servers() {
                    Multiplicity::Finite(servers) => running.min(servers),
                    Multiplicity::Infinite => running,
                };
                sums.processors[place] += chance * f64::from(busy);
            }
        }
        sums
    }
}

//! The Markov chain of a part: every state of the part, with its probability.
//!
//! It is exact with four exceptions. If there were too many states otherwise, the next waiting
//! request is taken at random. Slices of little variation have a limited number of exponential
//! stages. Requests that nobody waits for queue up to a limit. Branches with a probability below
//! one in a hundred million are left out.

mod moves;
mod places;
mod stages;
mod stationary;
mod steps;

use std::collections::{BTreeMap, HashMap, HashSet};

use foldhash::fast::FixedState;

use crate::{
    model::{EntryId, Model, Multiplicity, ProcessorId, TaskId},
    solve::{parts::Part, sums::Sums},
};
use moves::{Rules, State};
use places::Stage;
use stationary::Rates;

/// What finding the states of a part may take.
#[derive(Clone, Copy, Debug)]
struct Budget {
    states: usize,
    /// Steps between states: calls of no service time can be made in very many orders.
    steps: u64,
}

/// Where mean values come next.
const BUDGET: Budget = Budget {
    states: 80_000,
    steps: 4_000_000,
};

/// Where simulation comes next, which takes about as long as these steps.
const BUDGET_OF_PRIORITIES: Budget = Budget {
    states: 8_000,
    steps: 130_000,
};

/// Requests that nobody waits for, alive at once in an entry: so many at first, so many where none should
/// be cut off.
pub(super) const STREAM: usize = 20;
const STREAM_MAX: usize = 1_500;

/// The share of requests that nobody waits for that may find no room only because their queue is cut
/// off: where waits are of interest, and where rates are.
const CUT_OFF_WAITS_MAX: f64 = 1e-4;
const CUT_OFF_MAX: f64 = 1e-2;

fn budget(model: &Model) -> Budget {
    match model.has_priorities() {
        true => BUDGET_OF_PRIORITIES,
        false => BUDGET,
    }
}

pub(super) fn states_max(model: &Model) -> usize {
    budget(model).states
}

/// What makes a chain finer, and larger.
#[derive(Clone, Copy, Debug)]
struct Grain {
    /// Exponential stages of a slice at most.
    stages: u8,
    /// The request that has waited longest is next; else a random one is.
    is_ordered: bool,
    /// Requests that nobody waits for, alive at once in each entry; later phases of an infinite task too.
    stream: usize,
}

/// What the long run of a part is made of.
pub(super) struct Solved {
    pub(super) sums: Sums,
    pub(super) sweeps: u32,
    pub(super) is_settled: bool,
    pub(super) states: usize,
    /// The share of requests that find no room only because the chain has no states for them.
    cut_off: f64,
}

impl Solved {
    /// Whether the queues of requests that nobody waits for are as long as they want to be.
    pub(super) fn has_room(&self) -> bool {
        self.cut_off <= CUT_OFF_WAITS_MAX
    }
}

/// Solves a part, if its chain is small enough and no more comes than it has states for: as finely
/// as that allows. `arrivals` come from other parts and outside.
pub(super) fn solve(model: &Model, part: &Part, arrivals: &[(EntryId, f64)]) -> Option<Solved> {
    let mut explorer = Explorer {
        model,
        part,
        arrivals,
        left: budget(model),
    };
    if !explorer.may_be_small() {
        return None;
    }
    let (mut grain, finest) = explorer.finest()?;
    let mut solved = finest.solve();
    while !solved.has_room()
        && 2 * grain.stream <= STREAM_MAX
        && 2 * solved.states <= explorer.left.states
    {
        grain.stream *= 2;
        let Some(wider) = explorer.explore(grain) else {
            break;
        };
        let cut_off = solved.cut_off;
        solved = wider.solve();
        if solved.cut_off > 0.8 * cut_off {
            // More comes than can be served: no queue is long enough.
            break;
        }
    }
    (solved.cut_off <= CUT_OFF_MAX).then_some(solved)
}

struct Explorer<'a> {
    model: &'a Model,
    part: &'a Part,
    arrivals: &'a [(EntryId, f64)],
    left: Budget,
}

impl<'a> Explorer<'a> {
    fn rules(&self, grain: Grain) -> Rules<'a> {
        let mut is_inside = vec![false; self.model.entries.len()];
        for entry in &self.part.streams {
            is_inside[entry.0] = true;
        }
        Rules::new(self.model, self.arrivals.to_vec(), is_inside, grain)
    }

    fn may_be_small(&self) -> bool {
        let coarse = Grain {
            stages: 8,
            is_ordered: false,
            stream: 0,
        };
        let mut rules = self.rules(coarse);
        rules.arrivals.clear();
        // The estimate counts ways that no run takes: about ten times the states.
        let max = (self.left.states as f64 * 16.0).ln();
        estimate(&mut rules, self.part, max) <= max
    }

    /// The finest chain that is small enough.
    fn finest(&mut self) -> Option<(Grain, Explored<'a>)> {
        let mut grain = Grain {
            stages: 8,
            is_ordered: false,
            stream: STREAM,
        };
        let mut explored = self.explore(grain)?;
        if explored.rules.is_order_chosen && self.may_order(&explored) {
            let finer = Grain {
                is_ordered: true,
                ..grain
            };
            if let Some(ordered) = self.explore(finer) {
                (grain, explored) = (finer, ordered);
            }
        }
        if explored.rules.are_stages_short && 2 * explored.chain.states.len() <= self.left.states {
            let finer = Grain {
                stages: 20,
                ..grain
            };
            if let Some(staged) = self.explore(finer) {
                (grain, explored) = (finer, staged);
            }
        }
        Some((grain, explored))
    }

    /// Whether to try a chain with the order of arrivals. With priorities only if there is room for twice the states: to try it in
    /// vain took a third of the time with 32 customers (`cargo bench -p lqn --bench solve -- priorities`).
    fn may_order(&self, explored: &Explored<'_>) -> bool {
        !self.model.has_priorities() || 2 * explored.chain.states.len() <= self.left.states
    }

    fn explore(&mut self, grain: Grain) -> Option<Explored<'a>> {
        let mut rules = self.rules(grain);
        let chain = explore(&mut rules, self.part, self.left);
        self.left.steps -= rules.steps.min(self.left.steps);
        chain.map(|chain| Explored { rules, chain })
    }
}

/// A chain, and the rules that it follows.
struct Explored<'a> {
    rules: Rules<'a>,
    chain: Chain,
}

impl Explored<'_> {
    fn solve(&self) -> Solved {
        let stationary = self.chain.rates.solve();
        let mut sums = self.chain.sums(&self.rules, &stationary.chances);
        Solved {
            cut_off: self.cut_off(&mut sums),
            sums,
            sweeps: stationary.sweeps,
            is_settled: stationary.is_settled,
            states: self.chain.states.len(),
        }
    }

    /// Takes out losses that are the chain's and not the model's, and gives their share.
    fn cut_off(&self, sums: &mut Sums) -> f64 {
        let mut most = 0.0_f64;
        for (entry, sums) in sums.entries.iter_mut().enumerate() {
            let task = self.rules.model[EntryId(entry)].task;
            let length = self.rules.model[task].queue_length;
            if length.is_none_or(|length| length as usize > self.rules.grain.stream) {
                most = most.max(sums.lost / (sums.lost + sums.replies).max(f64::MIN_POSITIVE));
                sums.lost = 0.0;
            }
        }
        most
    }
}

struct Chain {
    states: Vec<State>,
    rates: Rates,
    /// Replies and losses per unit of time in a state.
    replies: Vec<(u32, EntryId, f64)>,
    lost: Vec<(u32, EntryId, f64)>,
}

fn explore(rules: &mut Rules<'_>, part: &Part, max: Budget) -> Option<Chain> {
    let start = rules.start(&part.references);
    let mut ids: HashMap<State, u32, FixedState> = HashMap::from_iter([(start.clone(), 0)]);
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
        at += 1;
        let found = chain.states.len();
        // States whose ways out are not known yet lead to as many again, as a rule.
        let expected = 2 * found - at;
        if expected > max.states || rules.steps * expected as u64 > max.steps * at as u64 {
            return None;
        }
    }
    Some(chain)
}

/// The logarithm of about how many states there are: ways to spread the customers over the places
/// that one alone can be in, where tasks of few threads let few in. Above `max` it says no more than that.
fn estimate(rules: &mut Rules<'_>, part: &Part, max: f64) -> f64 {
    let mut total = 0.0;
    for &reference in &part.references {
        if total <= max {
            total += estimate_of(rules, reference, max - total);
        }
    }
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
        let mut running = vec![0_u32; model.processors.len()];
        for (state, chance) in self.states.iter().zip(chances) {
            running.fill(0);
            for &id in state {
                let place = rules.places.get(id);
                let held = rules.places.held(id).iter();
                held.for_each(|entry| sums.entries[entry.0].served += chance);
                match place.stage {
                    Stage::AwaitsThread => sums.entries[place.spot.entry.0].waiting += chance,
                    Stage::Runs(_) => running[model[model[place.spot.entry].task].processor.0] += 1,
                    Stage::Rests | Stage::AwaitsProcessor | Stage::Interrupted(_) => {}
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

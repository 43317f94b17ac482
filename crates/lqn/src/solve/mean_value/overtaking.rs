//! The probability that a customer meets the second phase of its own last request.
//!
//! A second phase of mean length s ends at a random time. A customer that returns earlier meets it.
//! So the probability is the Laplace transform, at 1/s, of the time from the reply to the next
//! request. It is a recursion over the calls of the entries on the way, in which each residence
//! counts as exponential. Franks and Woodside 1999 have the simplest case.

use super::{
    flow::{Network, waited_calls},
    loads::Loads,
};
use crate::model::{CallKind, CallOrder, EntryId, TaskId};

/// Of a way through an entry, while a clock of mean length s runs.
#[derive(Clone, Copy, Default)]
struct Passage {
    /// The chance to come to the task before the clock is over.
    hits: f64,
    /// The chance to be through before it is over, without coming to the task.
    passes: f64,
}

/// The chance that a chain's request to a task meets the second phase of its own last one.
pub(super) fn chance(
    network: &Network<'_>,
    loads: &Loads,
    chain: usize,
    task: TaskId,
    length: f64,
) -> f64 {
    let search = Search {
        network,
        loads,
        chain,
        task,
        length,
    };
    let mut passages = vec![Passage::default(); network.model.entries.len()];
    for &entry in &network.order {
        if network.visit_of[chain][entry.0].is_some() {
            passages[entry.0] = search.passage(entry, &passages);
        }
    }
    search.after_reply(&passages)
}

struct Search<'a> {
    network: &'a Network<'a>,
    loads: &'a Loads,
    chain: usize,
    task: TaskId,
    length: f64,
}

impl Search<'_> {
    fn passage(&self, entry: EntryId, passages: &[Passage]) -> Passage {
        let model = self.network.model;
        if model[entry].task == self.task {
            return Passage {
                hits: 1.0,
                passes: 0.0,
            };
        }
        let visit = self.network.visit_of[self.chain][entry.0].expect("the chain visits it");
        let mut whole = Passage {
            hits: 0.0,
            passes: self.transform(self.loads.visits[visit].wait),
        };
        let phases = if model[model[entry].task].is_reference() {
            model[entry].phases.len()
        } else {
            1
        };
        for phase in 0..phases {
            let (from_start, _) = self.phase(entry, phase, passages);
            whole = then(whole, from_start);
        }
        // A forwarded request goes on at its target.
        let mut left = 1.0;
        let mut onward = Passage::default();
        for forward in &model[entry].forwards {
            let target = passages[forward.target.0];
            onward.hits += forward.probability * target.hits;
            onward.passes += forward.probability * target.passes;
            left -= forward.probability;
        }
        onward.passes += left;
        then(whole, onward)
    }

    /// From the start of a phase, and from after each of its calls.
    fn phase(
        &self,
        entry: EntryId,
        phase: usize,
        passages: &[Passage],
    ) -> (Passage, Vec<(EntryId, f64, Passage)>) {
        let model = self.network.model;
        let visit = self.network.visit_of[self.chain][entry.0].expect("the chain visits it");
        let demand = &self.network.visits[visit].phases[phase];
        let slice = self.transform(self.loads.visits[visit].residence[phase] / demand.slices);
        let pause = Passage {
            hits: 0.0,
            passes: self.transform(model[entry].phases[phase].think_time),
        };
        let calls = model[entry].phases[phase].calls.iter();
        let calls = calls.filter(|call| call.kind == CallKind::Synchronous && call.mean > 0.0);
        if model[entry].phases[phase].order == CallOrder::Stochastic {
            let (mut hits, mut returns) = (0.0, 0.0);
            for call in calls.clone() {
                let chance = call.mean / demand.slices;
                hits += chance * passages[call.target.0].hits;
                returns += chance * passages[call.target.0].passes;
            }
            let at_slice = Passage {
                hits: slice * hits / (1.0 - slice * returns),
                passes: slice / demand.slices / (1.0 - slice * returns),
            };
            let after = calls
                .map(|call| (call.target, call.mean, at_slice))
                .collect();
            return (then(pause, at_slice), after);
        }
        let mut after = Vec::new();
        let mut onward = Passage {
            hits: 0.0,
            passes: slice,
        };
        let calls: Vec<_> = calls.collect();
        for call in calls.iter().rev() {
            for _ in 0..call.mean as usize {
                after.push((call.target, 1.0, onward));
                onward = then(
                    Passage {
                        hits: 0.0,
                        passes: slice,
                    },
                    then(passages[call.target.0], onward),
                );
            }
        }
        (then(pause, onward), after)
    }

    /// The mean chance over all replies of the task to the chain.
    fn after_reply(&self, passages: &[Passage]) -> f64 {
        let model = self.network.model;
        let chain = &self.network.chains[self.chain];
        let rest = match self.loads.idle_time(self.network, self.chain) {
            Some(time) => self.transform(time),
            None => return 0.0,
        };
        let root = passages[chain.root.0];
        // From the end of a run on: it begins anew, again and again.
        let anew = rest * root.hits / (1.0 - rest * root.passes);
        let mut after_entry = vec![(0.0, 0.0); model.entries.len()];
        let (mut replies, mut hits) = (0.0, 0.0);
        for &entry in self.network.order.iter().rev() {
            let Some(visit) = self.network.visit_of[self.chain][entry.0] else {
                continue;
            };
            let number = self.network.visits[visit].number;
            // What happens once the entry has replied, averaged over its callers.
            let (sum, weight) = after_entry[entry.0];
            let onward = if entry == chain.root {
                anew
            } else if weight > 0.0 {
                sum / weight
            } else {
                0.0
            };
            if model[entry].task == self.task {
                replies += number;
                hits += number * onward;
                continue;
            }
            let phases = if model[model[entry].task].is_reference() {
                model[entry].phases.len()
            } else {
                1
            };
            let mut later = Passage {
                hits: 0.0,
                passes: 1.0,
            };
            for phase in (0..phases).rev() {
                let (from_start, after) = self.phase(entry, phase, passages);
                for (target, mean, from) in after {
                    let from = then(from, later);
                    let chance = from.hits + from.passes * onward;
                    let (sum, weight) = &mut after_entry[target.0];
                    *sum += number * mean * chance;
                    *weight += number * mean;
                }
                later = then(from_start, later);
            }
            for forward in &model[entry].forwards {
                let (sum, weight) = &mut after_entry[forward.target.0];
                *sum += number * forward.probability * onward;
                *weight += number * forward.probability;
            }
        }
        debug_assert!(!waited_calls(model, chain.root).is_empty() || replies >= 0.0);
        if replies > 0.0 { hits / replies } else { 0.0 }
    }

    fn transform(&self, time: f64) -> f64 {
        self.length / (self.length + time)
    }
}

fn then(first: Passage, second: Passage) -> Passage {
    Passage {
        hits: first.hits + first.passes * second.hits,
        passes: first.passes * second.passes,
    }
}

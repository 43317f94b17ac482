//! How long everything takes, and how often it happens.

use super::flow::Network;
use crate::{
    QUEUE_MAX,
    model::{CallKind, EntryId, ProcessorId, TaskId},
    solve::sums::Sums,
};

/// Requests that never wait for each other are never this close to using a server whole.
pub(super) const NEARLY_ALL: f64 = 0.9999;

/// How long everything takes, and how often it happens.
#[derive(Clone)]
pub(super) struct Loads {
    /// Runs per unit of time, by chain.
    pub(super) rates: Vec<f64>,
    /// Requests turned away per unit of time, by chain.
    pub(super) lost: Vec<f64>,
    pub(super) visits: Vec<VisitLoad>,
}

/// How long a visit takes.
#[derive(Clone, Copy, Default)]
pub(super) struct VisitLoad {
    /// For a thread.
    pub(super) wait: f64,
    /// At the processor, by phase.
    pub(super) residence: [f64; 3],
    /// Of a thread until the reply.
    pub(super) first: f64,
    /// Of a thread after the reply.
    pub(super) second: f64,
}

impl Loads {
    /// Nobody is anywhere.
    pub(super) fn empty(network: &Network<'_>) -> Self {
        let mut loads = Self {
            rates: vec![0.0; network.chains.len()],
            lost: vec![0.0; network.chains.len()],
            visits: vec![VisitLoad::default(); network.visits.len()],
        };
        for (load, visit) in loads.visits.iter_mut().zip(&network.visits) {
            for (residence, demand) in load.residence.iter_mut().zip(&visit.phases) {
                *residence = demand.time;
            }
        }
        loads.hold(network);
        loads
    }

    /// Times of threads, callees before callers.
    pub(super) fn hold(&mut self, network: &Network<'_>) {
        for chain in 0..network.chains.len() {
            for &entry in &network.order {
                let Some(place) = network.visit_of[chain][entry.0] else {
                    continue;
                };
                let is_reference = network.model[network.model[entry].task].is_reference();
                let (mut first, mut second) = (0.0, 0.0);
                for (phase, what) in network.model[entry].phases.iter().enumerate() {
                    let mut time = what.think_time + self.visits[place].residence[phase];
                    for call in what
                        .calls
                        .iter()
                        .filter(|call| call.kind == CallKind::Synchronous)
                    {
                        time += call.mean * self.response(network, chain, call.target);
                    }
                    *(if phase == 0 || is_reference {
                        &mut first
                    } else {
                        &mut second
                    }) += time;
                }
                self.visits[place].first = first;
                self.visits[place].second = second;
            }
        }
    }

    /// From a request to its reply.
    pub(super) fn response(&self, network: &Network<'_>, chain: usize, entry: EntryId) -> f64 {
        let Some(place) = network.visit_of[chain][entry.0] else {
            return 0.0;
        };
        let load = &self.visits[place];
        let forwards = network.model[entry].forwards.iter();
        let onward = forwards
            .map(|forward| forward.probability * self.response(network, chain, forward.target));
        load.wait + load.first + onward.sum::<f64>()
    }

    /// Requests to a task per unit of time, and its threads in use.
    pub(super) fn service(&self, network: &Network<'_>, task: TaskId) -> (f64, f64) {
        let visits = network.visits.iter().enumerate();
        let visits = visits.filter(|(_, visit)| visit.task == task);
        visits.fold((0.0, 0.0), |(rates, busy), (place, _)| {
            let rate = self.rate(network, place);
            (rates + rate, busy + rate * self.visits[place].whole())
        })
    }

    /// The share of a processor that requests have which nobody waits for.
    pub(super) fn open_share(&self, network: &Network<'_>, processor: ProcessorId) -> f64 {
        let visits = network.visits.iter().enumerate();
        let open = visits.filter(|(_, visit)| {
            visit.processor == processor && !network.chains[visit.chain].is_closed()
        });
        let work: f64 = open
            .map(|(place, visit)| self.rate(network, place) * visit.time())
            .sum();
        (work / network.servers(processor)).min(NEARLY_ALL)
    }

    /// Visits per unit of time.
    pub(super) fn rate(&self, network: &Network<'_>, place: usize) -> f64 {
        let visit = &network.visits[place];
        self.rates[visit.chain] * visit.number
    }

    /// From the end of a run to the beginning of the next one by the same customer or thread.
    pub(super) fn idle_time(&self, network: &Network<'_>, chain: usize) -> Option<f64> {
        let what = &network.chains[chain];
        if what.is_closed() {
            return Some(what.think_time);
        }
        let task = network.model[what.root].task;
        let threads = network.threads(task);
        let place = network.visit_of[chain][what.root.0]?;
        let busy = self.visits[place].whole();
        Some(threads / self.rates[chain] - busy)
            .filter(|idle| idle.is_finite())
            .map(|idle| idle.max(0.0))
    }

    pub(super) fn sums(&self, network: &Network<'_>) -> Sums {
        let mut sums = Sums::new(network.model);
        for (place, visit) in network.visits.iter().enumerate() {
            let rate = self.rate(network, place);
            let load = &self.visits[place];
            let entry = &mut sums.entries[visit.entry.0];
            entry.replies += rate;
            entry.served += rate * load.whole();
            let is_root = network.chains[visit.chain].root == visit.entry;
            let is_flooded = is_root && self.lost[visit.chain] > 0.0 && visit.is_limited();
            let queue_max = network.model[visit.task]
                .queue_length
                .map_or(QUEUE_MAX as f64, f64::from);
            entry.waiting += if is_flooded {
                (rate * load.wait).max(queue_max * self.share(network, place))
            } else {
                rate * load.wait
            };
            if is_root {
                entry.lost += self.lost[visit.chain];
            }
            sums.processors[visit.processor.0] += rate * visit.time();
        }
        sums
    }

    /// A stream's share of all that is served by its task's threads.
    fn share(&self, network: &Network<'_>, place: usize) -> f64 {
        let task = network.visits[place].task;
        let all = (0..network.visits.len()).filter(|&other| network.visits[other].task == task);
        let all: f64 = all.map(|other| self.rate(network, other)).sum();
        if all > 0.0 {
            self.rate(network, place) / all
        } else {
            0.0
        }
    }
}

impl VisitLoad {
    /// Of a thread, to the end.
    pub(super) fn whole(&self) -> f64 {
        self.first + self.second
    }
}

/// Goes a part of the way to the new value.
pub(super) fn relax(old: &mut f64, new: f64, relaxation: f64) {
    *old += relaxation * (new - *old);
}

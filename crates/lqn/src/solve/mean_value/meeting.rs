//! What visits meet at servers, and how long they take there because of it.

use super::{
    arrivals,
    flow::{Network, Server, Visit},
    loads::{Loads, NEARLY_ALL},
    overtaking,
    threads::Split,
};
use crate::model::{ProcessorId, TaskId};

/// What visits meet.
pub(super) struct Meeting<'a> {
    network: &'a Network<'a>,
    loads: &'a Loads,
    fewer: Option<&'a Loads>,
    splits: &'a [Option<Split>],
    freedom: Vec<Vec<f64>>,
    /// Of arrivals, by processor.
    unevenness: Vec<f64>,
    /// The chance to meet one's own last request's second phase, by visit.
    overtaking: Vec<f64>,
    /// Requests of others that can be there at most.
    at_processors: Vec<f64>,
    at_tasks: Vec<f64>,
}

/// What a visit meets at a server.
#[derive(Default)]
struct Met {
    /// Work of those in wait.
    waiting: f64,
    /// Those in wait.
    count: f64,
    /// Servers at work.
    busy: f64,
    /// Work that is left in service.
    left: f64,
    /// Work per unit of time from requests whose number has no bound.
    open: f64,
}

impl<'a> Meeting<'a> {
    pub(super) fn new(
        network: &'a Network<'a>,
        loads: &'a Loads,
        fewer: Option<&'a Loads>,
        splits: &'a [Option<Split>],
    ) -> Self {
        let freedom = freedom(network, loads, splits);
        let tasks = (0..network.model.tasks.len()).map(|task| Server::Task(TaskId(task)));
        let processors =
            (0..network.model.processors.len()).map(|place| Server::Processor(ProcessorId(place)));
        let mut meeting = Self {
            network,
            loads,
            fewer,
            splits,
            freedom,
            unevenness: arrivals::unevenness(network, loads),
            overtaking: Vec::new(),
            at_processors: processors
                .map(|server| others_max(network, server))
                .collect(),
            at_tasks: tasks.map(|server| others_max(network, server)).collect(),
        };
        let mut known: Vec<(usize, TaskId, f64)> = Vec::new();
        for (place, visit) in network.visits.iter().enumerate() {
            let found = known
                .iter()
                .find(|(chain, task, _)| (*chain, *task) == (visit.chain, visit.task));
            let chance = found.map(|(_, _, chance)| *chance);
            let chance = chance.unwrap_or_else(|| meeting.own_chance(place));
            known.push((visit.chain, visit.task, chance));
            meeting.overtaking.push(chance);
        }
        meeting
    }

    /// At the processor, by phase.
    pub(super) fn residence(&self, place: usize) -> [f64; 3] {
        let visit = &self.network.visits[place];
        let mut residence = [0.0; 3];
        let servers = self.network.servers(visit.processor);
        if servers.is_infinite() || self.at_processors[visit.processor.0] < servers {
            for (residence, demand) in residence.iter_mut().zip(&visit.phases) {
                *residence = demand.time;
            }
            return residence;
        }
        let met = self.met_at_processor(place);
        let is_sharing = self.network.is_sharing(visit.processor);
        let all_busy = all_busy(met.busy / servers, servers);
        let room = 1.0 - (met.open / servers).min(NEARLY_ALL);
        for (residence, demand) in residence.iter_mut().zip(&visit.phases) {
            *residence = if is_sharing {
                demand.time * (1.0 + (met.count + all_busy) / servers / room)
            } else {
                let left = if met.busy > 0.0 {
                    met.left / met.busy * all_busy * self.unevenness[visit.processor.0]
                } else {
                    0.0
                };
                let wait = (met.waiting + left) / servers / room;
                if demand.time > 0.0 {
                    demand.time + demand.slices * wait
                } else {
                    0.0
                }
            };
        }
        residence
    }

    fn met_at_processor(&self, place: usize) -> Met {
        let processor = self.network.visits[place].processor;
        let mut met = Met::default();
        for (other, visit) in self.network.visits.iter().enumerate() {
            if visit.processor != processor {
                continue;
            }
            let (loads, share) = self.seen(place, other, None);
            let rate = loads.rate(self.network, other) * share;
            let is_open = !self.network.chains[visit.chain].is_closed() && !visit.is_limited();
            for (demand, residence) in visit.phases.iter().zip(loads.visits[other].residence) {
                let slice = demand.time / demand.slices;
                met.busy += rate * demand.time;
                met.left += rate * demand.time * slice * (1.0 + demand.cvsq) / 2.0;
                if is_open {
                    met.open += rate * demand.time;
                } else {
                    let count = rate * (residence - demand.time).max(0.0);
                    met.count += count;
                    met.waiting += count * slice;
                }
            }
        }
        met
    }

    /// For a thread.
    pub(super) fn thread_wait(&self, place: usize) -> f64 {
        let visit = &self.network.visits[place];
        let threads = self.network.threads(visit.task);
        let is_reference = self.network.model[visit.task].is_reference();
        if is_reference || threads.is_infinite() || self.at_tasks[visit.task.0] < threads {
            return self.own_second_phase(place);
        }
        let limit = self
            .network
            .limits
            .iter()
            .position(|&task| task == visit.task);
        if let Some(split) = limit.and_then(|limit| self.splits[limit].as_ref()) {
            let (rate, busy) = self.loads.service(self.network, visit.task);
            return split.waiting * busy / rate.max(f64::MIN_POSITIVE);
        }
        let met = self.met_at_task(place);
        let all_busy = all_busy(met.busy / threads, threads);
        let left = if met.busy > 0.0 {
            met.left / met.busy * all_busy
        } else {
            0.0
        };
        let room = 1.0 - (met.open / threads).min(NEARLY_ALL);
        (met.waiting + left) / threads / room + self.own_second_phase(place)
    }

    fn met_at_task(&self, place: usize) -> Met {
        let task = self.network.visits[place].task;
        let chain = self.network.visits[place].chain;
        let mut met = Met::default();
        for (other, visit) in self.network.visits.iter().enumerate() {
            if visit.task != task {
                continue;
            }
            let (loads, share) = self.seen(place, other, Some(task));
            let load = &loads.visits[other];
            let rate = loads.rate(self.network, other) * share;
            let (first, second) = (load.first, load.second);
            let (cvsq_first, cvsq_second) = self.variations(visit);
            // The own second phase is counted apart.
            let own = if visit.chain == chain && second > 0.0 {
                1.0 - self.overtaking[place]
            } else {
                1.0
            };
            met.busy += rate * (first + second * own);
            met.left += rate * first * (first * (1.0 + cvsq_first) / 2.0 + second);
            met.left += rate * second * own * second * (1.0 + cvsq_second) / 2.0;
            let network = self.network;
            if !network.chains[visit.chain].is_closed()
                && network.chains[visit.chain].root == visit.entry
            {
                met.open += rate * (first + second);
            } else {
                met.waiting += rate * load.wait * (first + second);
            }
        }
        met
    }

    /// How much the times of a thread before and after the reply vary.
    fn variations(&self, visit: &Visit) -> (f64, f64) {
        let phases = &self.network.model[visit.entry].phases;
        let variation = |phase: usize| match phases.get(phase) {
            Some(what) if what.calls.is_empty() => what.cvsq,
            _ => 1.0,
        };
        (variation(0), variation(1))
    }

    /// Wait for the end of the second phase of one's own last request.
    fn own_second_phase(&self, place: usize) -> f64 {
        let visit = &self.network.visits[place];
        if self.network.threads(visit.task) != 1.0 || self.own_second(place) == 0.0 {
            return 0.0;
        }
        self.overtaking[place] * self.own_second(place)
    }

    fn own_chance(&self, place: usize) -> f64 {
        let visit = &self.network.visits[place];
        let second = self.own_second(place);
        if second == 0.0 || self.network.threads(visit.task) != 1.0 {
            return 0.0;
        }
        overtaking::chance(self.network, self.loads, visit.chain, visit.task, second)
    }

    /// The mean second phase of a chain's requests to a task.
    fn own_second(&self, place: usize) -> f64 {
        let visit = &self.network.visits[place];
        let own = self.network.visits.iter().enumerate();
        let own = own.filter(|(_, other)| other.chain == visit.chain && other.task == visit.task);
        let (mut time, mut number) = (0.0, 0.0);
        for (other, what) in own {
            time += what.number * self.loads.visits[other].second;
            number += what.number;
        }
        time / number
    }

    /// The loads that a visit sees of another, and the share of them.
    fn seen(&self, place: usize, other: usize, waits_for: Option<TaskId>) -> (&Loads, f64) {
        let (mine, theirs) = (&self.network.visits[place], &self.network.visits[other]);
        let mut share = 1.0;
        for (limit, &task) in self.network.limits.iter().enumerate() {
            if Some(task) != waits_for {
                let freedom = self.freedom[limit][other];
                share *= 1.0 - mine.holds[limit] * theirs.holds[limit] * (1.0 - freedom);
            }
        }
        let chain = &self.network.chains[mine.chain];
        if mine.chain != theirs.chain || !chain.is_closed() {
            return (self.loads, share);
        }
        match self.fewer {
            Some(fewer) => (fewer, share),
            None => (
                self.loads,
                share * (chain.customers - 1.0) / chain.customers,
            ),
        }
    }
}

/// For each limit, by visit: what is left of its threads for others than oneself, at most 1.
fn freedom(network: &Network<'_>, loads: &Loads, splits: &[Option<Split>]) -> Vec<Vec<f64>> {
    let of_mean = |task| {
        let (_, busy) = loads.service(network, task);
        let free = (network.threads(task) - 1.0) / busy.max(f64::MIN_POSITIVE);
        vec![free.min(1.0); network.visits.len()]
    };
    let freedom = |(&task, split): (&TaskId, &Option<Split>)| match split {
        Some(split) => split.freedom.clone(),
        None => of_mean(task),
    };
    network.limits.iter().zip(splits).map(freedom).collect()
}

/// Requests of others than oneself that can be at a server at most.
fn others_max(network: &Network<'_>, server: Server) -> f64 {
    let mut others = -1.0;
    for (chain, what) in network.chains.iter().enumerate() {
        let visits = network.visits.iter();
        let visits = visits.filter(|visit| visit.chain == chain && server.is_of(visit));
        let bound = |visit: &Visit| {
            if visit.phases.len() > 1 {
                // Second phases are on their own.
                return f64::INFINITY;
            }
            let limits = network.limits.iter().zip(&visit.holds);
            let held =
                limits.filter(|(task, share)| **share > 0.999 && !is_own(network, visit, **task));
            held.map(|(&task, _)| network.threads(task))
                .fold(what.customers, f64::min)
        };
        others += visits.map(bound).fold(0.0, f64::max);
    }
    others
}

/// Whether waiting for the task's own threads is what is asked about.
fn is_own(network: &Network<'_>, visit: &Visit, task: TaskId) -> bool {
    visit.task == task && network.model[visit.entry].task == task
}

/// The chance that all servers are busy when they are busy to this share.
fn all_busy(utilization: f64, servers: f64) -> f64 {
    utilization
        .clamp(0.0, 1.0)
        .powf((2.0 * (servers + 1.0)).sqrt() - 1.0)
}

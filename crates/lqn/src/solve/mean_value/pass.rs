//! One pass over all servers: from what is met there to how long it takes, and on to the rates.

use super::{
    arrivals,
    flow::{Network, Visit},
    overtaking,
    threads::Split,
};
use crate::{
    QUEUE_MAX,
    model::{CallKind, EntryId, ProcessorId, TaskId},
    solve::sums::Sums,
};

/// Requests that never wait for each other are never this close to using a server whole.
const NEARLY_ALL: f64 = 0.9999;

/// How long everything takes, and how often it happens.
#[derive(Clone)]
pub(super) struct Loads {
    /// Runs per unit of time, by chain.
    pub(super) rates: Vec<f64>,
    /// Requests turned away per unit of time, by chain.
    lost: Vec<f64>,
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
    first: f64,
    /// Of a thread after the reply.
    second: f64,
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

    /// Goes over everything once, and says by how much it changed, relatively.
    pub(super) fn pass(
        &mut self,
        network: &Network<'_>,
        fewer: Option<&Self>,
        splits: &[Option<Split>],
        relaxation: f64,
    ) -> f64 {
        let before = self.clone();
        let meeting = Meeting::new(network, &before, fewer, splits);
        for (place, load) in self.visits.iter_mut().enumerate() {
            for (old, new) in load.residence.iter_mut().zip(meeting.residence(place)) {
                relax(old, new, relaxation);
            }
            relax(&mut load.wait, meeting.thread_wait(place), relaxation);
        }
        self.hold(network);
        self.flow(network, relaxation);
        self.change_since(&before)
    }

    /// By how much the rates and the times of threads differ, relatively.
    fn change_since(&self, before: &Self) -> f64 {
        let rates = self.rates.iter().zip(&before.rates);
        let rates = rates.map(|(new, old)| relative_change(*old, *new));
        let times = self.visits.iter().zip(&before.visits);
        let times =
            times.map(|(new, old)| relative_change(old.wait + old.whole(), new.wait + new.whole()));
        rates.chain(times).fold(0.0, f64::max)
    }

    /// Times of threads, callees before callers.
    fn hold(&mut self, network: &Network<'_>) {
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
    fn response(&self, network: &Network<'_>, chain: usize, entry: EntryId) -> f64 {
        let Some(place) = network.visit_of[chain][entry.0] else {
            return 0.0;
        };
        let load = &self.visits[place];
        let forwards = network.model[entry].forwards.iter();
        let onward = forwards
            .map(|forward| forward.probability * self.response(network, chain, forward.target));
        load.wait + load.first + onward.sum::<f64>()
    }

    /// Rates of the chains.
    fn flow(&mut self, network: &Network<'_>, relaxation: f64) {
        let offered: Vec<f64> = (0..network.chains.len())
            .map(|chain| self.offered(network, chain))
            .collect();
        for (rate, &offered) in self.rates.iter_mut().zip(&offered) {
            relax(rate, offered, relaxation);
        }
        self.cap_streams(network, &offered);
        self.cap_customers(network);
    }

    /// What a chain would do if there were room.
    fn offered(&self, network: &Network<'_>, chain: usize) -> f64 {
        let what = &network.chains[chain];
        if what.is_closed() {
            let time = what.think_time + self.response(network, chain, what.root);
            return what.customers / time.max(f64::MIN_POSITIVE);
        }
        let mut rate = what.arrivals;
        for visit in &network.visits {
            let calls = network.model[visit.entry]
                .phases
                .iter()
                .flat_map(|phase| &phase.calls);
            let sends = calls
                .filter(|call| call.kind == CallKind::Asynchronous && call.target == what.root);
            rate +=
                self.rates[visit.chain] * visit.number * sends.map(|call| call.mean).sum::<f64>();
        }
        rate
    }

    /// Requests that nobody waits for get what threads and processors have left.
    fn cap_streams(&mut self, network: &Network<'_>, offered: &[f64]) {
        let streams = |visit: &Visit| !network.chains[visit.chain].is_closed();
        for &task in &network.limits {
            let on_it = |place: &usize| network.visits[*place].task == task;
            let places: Vec<usize> = (0..network.visits.len()).filter(on_it).collect();
            let busy = |places: &mut dyn Iterator<Item = &usize>| -> f64 {
                places
                    .map(|&place| self.rate(network, place) * self.visits[place].whole())
                    .sum()
            };
            let open = |place: &&usize| {
                streams(&network.visits[**place])
                    && network.chains[network.visits[**place].chain].root
                        == network.visits[**place].entry
            };
            let wanted = busy(&mut places.iter().filter(open));
            let others = busy(&mut places.iter().filter(|place| !open(place)));
            let room = (network.threads(task) - others).max(0.01 * network.threads(task));
            let mut factor = (room / wanted).min(1.0);
            if let Some(length) = network.model[task].queue_length {
                factor = factor.min(accepted(
                    wanted / room * network.threads(task),
                    network.threads(task),
                    length,
                ));
            }
            if wanted > 0.0 && factor < 1.0 {
                for &place in places.iter().filter(open) {
                    self.rates[network.visits[place].chain] *= factor;
                }
            }
        }
        for (processor, _) in network.model.processors.iter().enumerate() {
            let processor = ProcessorId(processor);
            let (mut wanted, mut others) = (0.0, 0.0);
            for (place, visit) in network
                .visits
                .iter()
                .enumerate()
                .filter(|(_, visit)| visit.processor == processor)
            {
                let work = self.rate(network, place) * visit.time();
                // Customers who hold no thread give way: they wait for longer.
                if streams(visit) && !visit.is_limited() {
                    wanted += work;
                } else if visit.is_limited() {
                    others += work;
                }
            }
            let room = network.servers(processor) * NEARLY_ALL - others;
            if wanted > 0.0 && wanted > room {
                let factor = room.max(0.01 * network.servers(processor)) / wanted;
                for chain in 0..network.chains.len() {
                    let visits = network.visits.iter().filter(|visit| visit.chain == chain);
                    let mut on_it =
                        visits.filter(|visit| visit.processor == processor && !visit.is_limited());
                    if !network.chains[chain].is_closed() && on_it.any(|visit| visit.time() > 0.0) {
                        self.rates[chain] *= factor;
                    }
                }
            }
        }
        for (chain, offered) in offered
            .iter()
            .enumerate()
            .filter(|(chain, _)| !network.chains[*chain].is_closed())
        {
            let lost = offered - self.rates[chain];
            self.lost[chain] = if lost > 1e-4 * offered { lost } else { 0.0 };
        }
    }

    /// Customers go no faster than the servers, and wait where they are held up.
    fn cap_customers(&mut self, network: &Network<'_>) {
        for chain in (0..network.chains.len()).filter(|&chain| network.chains[chain].is_closed()) {
            let Some((server, excess)) = self.most_overloaded(network, chain) else {
                continue;
            };
            let what = &network.chains[chain];
            let rate = self.rates[chain] / excess;
            let time = what.think_time + self.response(network, chain, what.root);
            let extra = (what.customers / rate - time).max(0.0);
            self.rates[chain] = rate;
            let places = |visit: &Visit| visit.chain == chain && server.is_of(visit);
            let visits: f64 = network
                .visits
                .iter()
                .filter(|visit| places(visit))
                .map(|visit| visit.number)
                .sum();
            for (load, visit) in self
                .visits
                .iter_mut()
                .zip(&network.visits)
                .filter(|(_, visit)| places(visit))
            {
                match server {
                    Server::Task(_) => load.wait += extra / visits,
                    Server::Processor(_) => load.residence[0] += extra / visits,
                }
                debug_assert!(visit.number > 0.0);
            }
            self.hold(network);
        }
    }

    fn most_overloaded(&self, network: &Network<'_>, chain: usize) -> Option<(Server, f64)> {
        let own = network.visits.iter().filter(|visit| visit.chain == chain);
        let tasks = own.clone().map(|visit| Server::Task(visit.task));
        let tasks = tasks
            .filter(|server| matches!(server, Server::Task(task) if network.limits.contains(task)));
        let servers = own
            .map(|visit| Server::Processor(visit.processor))
            .chain(tasks);
        let loads = servers.map(|server| {
            let visits = network
                .visits
                .iter()
                .enumerate()
                .filter(|(_, visit)| server.is_of(visit));
            let (room, busy): (f64, f64) = match server {
                Server::Task(task) => (
                    network.threads(task),
                    visits
                        .map(|(place, _)| self.rate(network, place) * self.visits[place].whole())
                        .sum(),
                ),
                Server::Processor(processor) => (
                    network.servers(processor),
                    visits
                        .map(|(place, visit)| self.rate(network, place) * visit.time())
                        .sum(),
                ),
            };
            (server, busy / room)
        });
        loads
            .filter(|(_, excess)| *excess > 1.0)
            .max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// For each limit, by visit: what is left of its threads for others than oneself, at most 1.
    fn freedom(&self, network: &Network<'_>, splits: &[Option<Split>]) -> Vec<Vec<f64>> {
        let of_mean = |task| {
            let (_, busy) = self.service(network, task);
            let free = (network.threads(task) - 1.0) / busy.max(f64::MIN_POSITIVE);
            vec![free.min(1.0); network.visits.len()]
        };
        let freedom = |(&task, split): (&TaskId, &Option<Split>)| match split {
            Some(split) => split.freedom.clone(),
            None => of_mean(task),
        };
        network.limits.iter().zip(splits).map(freedom).collect()
    }

    /// Requests to a task per unit of time, and its threads in use.
    fn service(&self, network: &Network<'_>, task: TaskId) -> (f64, f64) {
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

#[derive(Clone, Copy)]
enum Server {
    Task(TaskId),
    Processor(ProcessorId),
}

impl Server {
    fn is_of(self, visit: &Visit) -> bool {
        match self {
            Self::Task(task) => visit.task == task,
            Self::Processor(processor) => visit.processor == processor,
        }
    }
}

impl VisitLoad {
    /// Of a thread, to the end.
    fn whole(&self) -> f64 {
        self.first + self.second
    }
}

impl Visit {
    pub(super) fn time(&self) -> f64 {
        self.phases.iter().map(|demand| demand.time).sum()
    }

    /// Whether it holds a thread of a task that has not infinitely many.
    fn is_limited(&self) -> bool {
        self.holds.iter().any(|&share| share > 0.5)
    }
}

/// What visits meet.
struct Meeting<'a> {
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

impl<'a> Meeting<'a> {
    fn new(
        network: &'a Network<'a>,
        loads: &'a Loads,
        fewer: Option<&'a Loads>,
        splits: &'a [Option<Split>],
    ) -> Self {
        let freedom = loads.freedom(network, splits);
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
    fn residence(&self, place: usize) -> [f64; 3] {
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
    fn thread_wait(&self, place: usize) -> f64 {
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

/// The share of requests let in by servers with a bounded queue, all times exponential.
fn accepted(offered: f64, servers: f64, queue: u32) -> f64 {
    let places = servers as u32 + queue;
    let (mut weight, mut sum) = (1.0_f64, 1.0);
    for number in 1..=places {
        weight *= offered / f64::from(number).min(servers);
        sum += weight;
        if sum > 1e100 {
            weight /= sum;
            sum = 1.0;
        }
    }
    1.0 - weight / sum
}

fn relax(old: &mut f64, new: f64, relaxation: f64) {
    *old += relaxation * (new - *old);
}

fn relative_change(old: f64, new: f64) -> f64 {
    let scale = new.abs().max(old.abs());
    if scale > 1e-9 {
        (new - old).abs() / scale
    } else {
        0.0
    }
}

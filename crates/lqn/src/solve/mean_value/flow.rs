//! The visits between servers: the part that does not change from pass to pass.

use super::arrivals::Routes;
use crate::{
    model::{CallKind, EntryId, Model, Multiplicity, ProcessorId, Scheduling, TaskId},
    solve::parts::Part,
};

/// A part as chains of customers and requests over servers.
pub(super) struct Network<'a> {
    pub(super) model: &'a Model,
    pub(super) chains: Vec<Chain>,
    /// Entries of the part, callees before callers.
    pub(super) order: Vec<EntryId>,
    /// Visits of chains at entries, grouped by the task's processor.
    pub(super) visits: Vec<Visit>,
    /// By chain, then entry: its place in `visits`.
    pub(super) visit_of: Vec<Vec<Option<usize>>>,
    /// Finite tasks that visits hold.
    pub(super) limits: Vec<TaskId>,
    /// By chain.
    pub(super) routes: Vec<Routes>,
}

/// Customers of a reference task, or requests to an entry that nobody waits for.
pub(super) struct Chain {
    pub(super) root: EntryId,
    /// Infinite for requests.
    pub(super) customers: f64,
    pub(super) think_time: f64,
    /// Requests from other parts and outside.
    pub(super) arrivals: f64,
}

/// A chain at an entry.
pub(super) struct Visit {
    pub(super) chain: usize,
    pub(super) entry: EntryId,
    pub(super) task: TaskId,
    pub(super) processor: ProcessorId,
    /// Per run of the chain's root.
    pub(super) number: f64,
    /// Of each of the network's limits: the share of visits with one of its threads held.
    pub(super) holds: Vec<f64>,
    /// Of each phase: mean time on the processor, slices, and variation.
    pub(super) phases: Vec<Demand>,
}

/// What a phase asks of its processor.
#[derive(Clone, Copy)]
pub(super) struct Demand {
    pub(super) time: f64,
    /// Visits to the processor: one more than calls to wait for.
    pub(super) slices: f64,
    pub(super) cvsq: f64,
}

impl Chain {
    pub(super) fn is_closed(&self) -> bool {
        self.customers.is_finite()
    }
}

impl Visit {
    /// On the processor.
    pub(super) fn time(&self) -> f64 {
        self.phases.iter().map(|demand| demand.time).sum()
    }

    /// Whether it holds a thread of a task that has not infinitely many.
    pub(super) fn is_limited(&self) -> bool {
        self.holds.iter().any(|&share| share > 0.5)
    }
}

/// Something with a number of requests that it serves at once.
#[derive(Clone, Copy)]
pub(super) enum Server {
    Task(TaskId),
    Processor(ProcessorId),
}

impl Server {
    pub(super) fn is_of(self, visit: &Visit) -> bool {
        match self {
            Self::Task(task) => visit.task == task,
            Self::Processor(processor) => visit.processor == processor,
        }
    }
}

impl<'a> Network<'a> {
    pub(super) fn new(model: &'a Model, part: &Part, arrivals: &[(EntryId, f64)]) -> Self {
        let references = part.references.iter().map(|&task| Chain {
            root: model[task].entries[0],
            customers: model[task].multiplicity.finite().map_or(0.0, f64::from),
            think_time: model[task].think_time(),
            arrivals: 0.0,
        });
        let streams = part.streams.iter().map(|&entry| Chain {
            root: entry,
            customers: f64::INFINITY,
            think_time: 0.0,
            arrivals: arrivals
                .iter()
                .find(|(to, _)| *to == entry)
                .map_or(0.0, |(_, rate)| *rate),
        });
        let chains: Vec<_> = references.chain(streams).collect();
        let order = order(model, &chains);
        let mut network = Self {
            model,
            chains,
            limits: limits(model, &order),
            order,
            visits: Vec::new(),
            visit_of: Vec::new(),
            routes: Vec::new(),
        };
        network.add_visits();
        let routes = (0..network.chains.len()).map(|chain| Routes::new(&network, chain));
        network.routes = routes.collect();
        network
    }

    fn add_visits(&mut self) {
        for chain in 0..self.chains.len() {
            let root = self.chains[chain].root;
            let numbers = self.visits_below(|entry| f64::from(entry == root));
            let shares: Vec<Vec<f64>> = self
                .limits
                .iter()
                .map(|&task| {
                    self.visits_below(|entry| {
                        if self.model[entry].task == task {
                            numbers[entry.0]
                        } else {
                            0.0
                        }
                    })
                })
                .collect();
            let mut places = vec![None; self.model.entries.len()];
            for &entry in &self.order {
                if numbers[entry.0] > 0.0 {
                    places[entry.0] = Some(self.visits.len());
                    let holds = shares
                        .iter()
                        .map(|share| (share[entry.0] / numbers[entry.0]).min(1.0))
                        .collect();
                    self.visits
                        .push(self.visit(chain, entry, numbers[entry.0], holds));
                }
            }
            self.visit_of.push(places);
        }
    }

    fn visit(&self, chain: usize, entry: EntryId, number: f64, holds: Vec<f64>) -> Visit {
        let model = self.model;
        let task = model[entry].task;
        let phases = model[entry]
            .phases
            .iter()
            .enumerate()
            .map(|(place, phase)| {
                let calls = phase
                    .calls
                    .iter()
                    .filter(|call| call.kind == CallKind::Synchronous);
                let slices = 1.0 + calls.map(|call| call.mean).sum::<f64>();
                let sends = phase.calls_mean() + 1.0 - slices;
                // Slices between sends follow each other without a wait: their sum varies less.
                let per_visit = 1.0 + sends / slices;
                let cvsq = match phase.order {
                    crate::CallOrder::Deterministic => phase.cvsq / per_visit,
                    crate::CallOrder::Stochastic => (phase.cvsq - 1.0) / per_visit + 1.0,
                };
                Demand {
                    time: model.demand(entry, place),
                    slices,
                    cvsq,
                }
            });
        Visit {
            chain,
            entry,
            task,
            processor: model[task].processor,
            number,
            holds,
            phases: phases.collect(),
        }
    }

    /// Visits that begin at some entries, and those that they make below.
    fn visits_below(&self, begin: impl Fn(EntryId) -> f64) -> Vec<f64> {
        let mut numbers = vec![0.0_f64; self.model.entries.len()];
        for &entry in self.order.iter().rev() {
            let number = numbers[entry.0].max(begin(entry));
            numbers[entry.0] = number;
            for (target, mean) in waited_calls(self.model, entry) {
                numbers[target.0] += number * mean;
            }
        }
        numbers
    }

    /// Customers to go through one after the other; a single None if there are none or too many
    /// kinds of them.
    pub(super) fn populations(&self, max: u32) -> Vec<Option<u32>> {
        let mut closed = self.chains.iter().filter(|chain| chain.is_closed());
        match (closed.next(), closed.next()) {
            (Some(chain), None) if chain.customers <= f64::from(max) => {
                (1..=chain.customers as u32).map(Some).collect()
            }
            _ => vec![None],
        }
    }

    /// Requests of other visits that can be at once where this one is.
    pub(super) fn threads(&self, task: TaskId) -> f64 {
        number(self.model[task].multiplicity)
    }

    pub(super) fn servers(&self, processor: ProcessorId) -> f64 {
        number(self.model[processor].servers())
    }

    pub(super) fn is_sharing(&self, processor: ProcessorId) -> bool {
        matches!(self.model[processor].scheduling, Scheduling::Sharing { .. })
    }
}

fn number(multiplicity: Multiplicity) -> f64 {
    multiplicity.finite().map_or(f64::INFINITY, f64::from)
}

/// Requests of an entry that somebody waits for, and their mean numbers.
pub(super) fn waited_calls(model: &Model, entry: EntryId) -> Vec<(EntryId, f64)> {
    let calls = model[entry].phases.iter().flat_map(|phase| &phase.calls);
    let waited = calls.filter(|call| call.kind == CallKind::Synchronous);
    let forwards = model[entry]
        .forwards
        .iter()
        .map(|forward| (forward.target, forward.probability));
    waited
        .map(|call| (call.target, call.mean))
        .chain(forwards)
        .collect()
}

/// Entries that the chains reach, callees before callers.
fn order(model: &Model, chains: &[Chain]) -> Vec<EntryId> {
    fn visit(model: &Model, entry: EntryId, seen: &mut [bool], order: &mut Vec<EntryId>) {
        if std::mem::replace(&mut seen[entry.0], true) {
            return;
        }
        for (target, _) in waited_calls(model, entry) {
            visit(model, target, seen, order);
        }
        order.push(entry);
    }
    let mut order = Vec::new();
    let mut seen = vec![false; model.entries.len()];
    chains
        .iter()
        .for_each(|chain| visit(model, chain.root, &mut seen, &mut order));
    order
}

fn limits(model: &Model, order: &[EntryId]) -> Vec<TaskId> {
    let mut tasks: Vec<TaskId> = order.iter().map(|&entry| model[entry].task).collect();
    tasks.sort();
    tasks.dedup();
    tasks
        .retain(|&task| !model[task].is_reference() && model[task].multiplicity.finite().is_some());
    tasks
}

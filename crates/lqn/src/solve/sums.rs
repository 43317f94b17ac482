//! Mean numbers and rates, which add up over the parts of a model.

use crate::{
    model::{Model, TaskId},
    results::{EntryResult, Figure, Method, ProcessorResult, Results, TaskResult},
};

/// What parts add up to.
#[derive(Clone, Debug)]
pub(super) struct Sums {
    pub(super) entries: Vec<EntrySums>,
    /// Servers at work.
    pub(super) processors: Vec<f64>,
}

/// What an entry's requests add up to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EntrySums {
    /// Per unit of time.
    pub(super) replies: f64,
    /// Per unit of time.
    pub(super) lost: f64,
    /// Threads at work for the entry.
    pub(super) served: f64,
    /// Requests that wait for a thread.
    pub(super) waiting: f64,
}

impl Sums {
    pub(super) fn new(model: &Model) -> Self {
        Self {
            entries: vec![EntrySums::default(); model.entries.len()],
            processors: vec![0.0; model.processors.len()],
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (sums, other) in self.entries.iter_mut().zip(&other.entries) {
            sums.replies += other.replies;
            sums.lost += other.lost;
            sums.served += other.served;
            sums.waiting += other.waiting;
        }
        for (busy, other) in self.processors.iter_mut().zip(&other.processors) {
            *busy += other;
        }
    }

    /// Takes over how long requests wait at these entries, unless they are others' too or more come than can
    /// be served.
    pub(super) fn take_waits(&mut self, better: &Self, others: &Self) {
        let entries = self.entries.iter_mut().zip(&better.entries);
        for ((sums, other), others) in entries.zip(&others.entries) {
            if sums.replies > 0.0 && sums.lost == 0.0 && others.replies == 0.0 {
                sums.waiting = other.waiting;
                sums.served = other.served;
            }
        }
    }

    pub(super) fn results(
        &self,
        model: &Model,
        method: Method,
        iterations: u32,
        converged: bool,
    ) -> Results {
        let entry = |sums: &EntrySums| {
            let over_rate = |number: f64| {
                if sums.replies > 0.0 {
                    number / sums.replies
                } else {
                    0.0
                }
            };
            EntryResult {
                throughput: Figure::exact(sums.replies),
                service_time: Figure::exact(over_rate(sums.served)),
                waiting: Figure::exact(over_rate(sums.waiting)),
                queue: Figure::exact(sums.waiting),
                lost: Figure::exact(sums.lost),
            }
        };
        let task = |task: TaskId| {
            let entries = model[task]
                .entries
                .iter()
                .map(|entry| &self.entries[entry.0]);
            TaskResult {
                throughput: Figure::exact(entries.clone().map(|sums| sums.replies).sum()),
                utilization: Figure::exact(entries.map(|sums| sums.served).sum()),
            }
        };
        let processor = |&busy| ProcessorResult {
            utilization: Figure::exact(busy),
        };
        Results {
            entries: self.entries.iter().map(entry).collect(),
            tasks: (0..model.tasks.len()).map(TaskId).map(task).collect(),
            processors: self.processors.iter().map(processor).collect(),
            converged,
            iterations,
            method,
        }
    }
}

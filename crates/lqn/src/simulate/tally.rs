//! Batch means.

use super::BATCHES;
use crate::{
    model::{Model, TaskId},
    results::{EntryResult, Figure, Method, ProcessorResult, Results, TaskResult},
};

/// Student's t for 95 % and a batch less than there are.
const T_QUANTILE: f64 = 2.045;

/// Throughputs known this well have settled.
const SETTLED: f64 = 0.05;

/// What happened in a batch.
#[derive(Clone, Default)]
pub(super) struct Counts {
    pub(super) entries: Vec<EntryCounts>,
    /// Thread time, by task.
    pub(super) task_time: Vec<f64>,
    /// Server time, by processor.
    pub(super) processor_time: Vec<f64>,
}

/// What happened at an entry in a batch.
#[derive(Clone, Copy, Default)]
pub(super) struct EntryCounts {
    pub(super) replies: u64,
    pub(super) lost: u64,
    pub(super) served: u64,
    pub(super) service: f64,
    pub(super) accepted: u64,
    pub(super) waiting: f64,
}

/// Sums over batches.
#[derive(Clone, Copy, Default)]
struct Mean {
    batches: u32,
    sum: f64,
    squares: f64,
}

pub(super) struct Tally {
    entries: Vec<[Mean; 5]>,
    tasks: Vec<[Mean; 2]>,
    processors: Vec<Mean>,
    batches: u32,
}

impl Tally {
    pub(super) fn new(model: &Model) -> Self {
        Self {
            entries: vec![[Mean::default(); 5]; model.entries.len()],
            tasks: vec![[Mean::default(); 2]; model.tasks.len()],
            processors: vec![Mean::default(); model.processors.len()],
            batches: 0,
        }
    }

    pub(super) fn add(&mut self, (model, counts): (&Model, Counts), duration: f64) {
        self.batches += 1;
        let rate = |count: u64| count as f64 / duration;
        for (means, counts) in self.entries.iter_mut().zip(&counts.entries) {
            means[0].add(rate(counts.replies));
            if counts.served > 0 {
                means[1].add(counts.service / counts.served as f64);
            }
            if counts.accepted > 0 {
                means[2].add(counts.waiting / counts.accepted as f64);
            }
            means[3].add(counts.waiting / duration);
            means[4].add(rate(counts.lost));
        }
        for (place, means) in self.tasks.iter_mut().enumerate() {
            let entries = &model[TaskId(place)].entries;
            means[0].add(rate(
                entries
                    .iter()
                    .map(|entry| counts.entries[entry.0].replies)
                    .sum(),
            ));
            means[1].add(counts.task_time[place] / duration);
        }
        for (mean, time) in self.processors.iter_mut().zip(&counts.processor_time) {
            mean.add(time / duration);
        }
    }

    pub(super) fn results(&self, model: &Model) -> Results {
        let entries = self.entries.iter().map(|means| EntryResult {
            throughput: means[0].figure(),
            service_time: means[1].figure(),
            waiting: means[2].figure(),
            queue: means[3].figure(),
            lost: means[4].figure(),
        });
        let tasks = self.tasks.iter().map(|means| TaskResult {
            throughput: means[0].figure(),
            utilization: means[1].figure(),
        });
        let tasks: Vec<_> = tasks.collect();
        let processors = self.processors.iter().map(|mean| ProcessorResult {
            utilization: mean.figure(),
        });
        let is_settled =
            |figure: Figure| figure.ci95.unwrap_or(0.0) <= SETTLED * figure.value.abs();
        let driving = model
            .tasks
            .iter()
            .zip(&tasks)
            .filter(|(task, _)| task.is_reference());
        Results {
            converged: driving.map(|(_, task)| task.throughput).all(is_settled),
            entries: entries.collect(),
            processors: processors.collect(),
            tasks,
            iterations: self.batches,
            method: Method::Simulation,
        }
    }
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.batches += 1;
        self.sum += value;
        self.squares += value * value;
    }

    fn figure(&self) -> Figure {
        if self.batches < 2 {
            // Without a single event there is nothing to be unsure of.
            let width = if self.batches == 0 {
                0.0
            } else {
                f64::INFINITY
            };
            return Figure {
                value: self.sum,
                ci95: Some(width),
            };
        }
        let count = f64::from(self.batches);
        let value = self.sum / count;
        let variance = ((self.squares - count * value * value) / (count - 1.0)).max(0.0);
        let width = T_QUANTILE * (variance / count).sqrt();
        Figure {
            value,
            ci95: Some(width * (f64::from(BATCHES) / count).sqrt()),
        }
    }
}

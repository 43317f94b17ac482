//! The results of a model, from the solver or from the simulator.

use crate::model::{EntryId, Model, ProcessorId, TaskId};

/// A figure, and its precision.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figure {
    /// The mean.
    pub value: f64,
    /// Half the width of its 95 % confidence interval; none for a calculated figure.
    pub ci95: Option<f64>,
}

/// The steady state of a model. Times and rates are in the model's unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    /// By [`EntryId`].
    pub entries: Vec<EntryResult>,
    /// By [`TaskId`].
    pub tasks: Vec<TaskResult>,
    /// By [`ProcessorId`].
    pub processors: Vec<ProcessorResult>,
    /// Whether the figures have settled. Those of a simulation have if throughputs are known within
    /// 5 % and not all customers wait for each other.
    pub converged: bool,
    /// Passes of the solver, or batches of the simulator.
    pub iterations: u32,
    /// The method that found them.
    pub method: Method,
}

/// The method that found the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// All states of the model with their probabilities: exact but for what is said there.
    MarkovChain,
    /// Mean value analysis: an approximation.
    MeanValue,
    /// Discrete events.
    Simulation,
}

/// The results of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EntryResult {
    /// Requests answered per unit of time.
    pub throughput: Figure,
    /// Total time of a thread with a request, over all phases.
    pub service_time: Figure,
    /// Time that a request waits for a thread.
    pub waiting: Figure,
    /// Mean number of requests that wait for a thread.
    pub queue: Figure,
    /// Requests lost per unit of time: those rejected, those beyond the capacity, or signals and unlocks that have
    /// nothing to give back.
    pub lost: Figure,
}

/// The results of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TaskResult {
    /// Requests answered per unit of time.
    pub throughput: Figure,
    /// Busy threads, tokens taken, or readers and writers inside: at most the multiplicity.
    pub utilization: Figure,
}

/// The results of a processor.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessorResult {
    /// Busy servers, at most the multiplicity.
    pub utilization: Figure,
}

/// The bottleneck of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bottleneck {
    /// Threads are short, the processors below are not.
    Task(TaskId, f64),
    /// A processor is short.
    Processor(ProcessorId, f64),
}

/// Below this saturation nothing limits.
const SATURATED: f64 = 0.8;

impl Results {
    /// The deepest saturated part, or the part that is nearest to saturation, with its saturation:
    /// the utilization divided by the multiplicity (Franks et al., QEST 2006).
    #[must_use]
    pub fn bottleneck(&self, model: &Model) -> Option<Bottleneck> {
        let depths = depths(model);
        let tasks = model.tasks.iter().enumerate().filter_map(|(place, task)| {
            let threads = task
                .multiplicity
                .finite()
                .filter(|_| !task.is_reference())?;
            let saturation = self.tasks[place].utilization.value / f64::from(threads);
            Some((
                2 * depths[place],
                Bottleneck::Task(TaskId(place), saturation),
            ))
        });
        let processors = model
            .processors
            .iter()
            .enumerate()
            .filter_map(|(place, processor)| {
                let servers = processor.servers().finite()?;
                let saturation = self.processors[place].utilization.value / f64::from(servers);
                let on_it = model.tasks.iter().zip(&depths);
                let deepest = on_it
                    .filter(|(task, _)| task.processor.0 == place)
                    .map(|(_, depth)| depth)
                    .max()?;
                Some((
                    2 * deepest + 1,
                    Bottleneck::Processor(ProcessorId(place), saturation),
                ))
            });
        let key = |&(depth, bottleneck): &(usize, Bottleneck)| {
            let saturation = bottleneck.saturation();
            // What is saturated competes in depth, the rest in saturation.
            let depth = if saturation >= SATURATED { depth } else { 0 };
            (
                saturation >= SATURATED,
                (saturation * 50.0).round(),
                depth,
                saturation,
            )
        };
        let all = tasks.chain(processors);
        all.max_by(|a, b| {
            key(a)
                .partial_cmp(&key(b))
                .expect("saturations are numbers")
        })
        .map(|(_, found)| found)
    }

    /// The figures of an entry.
    #[must_use]
    pub fn entry(&self, id: EntryId) -> &EntryResult {
        &self.entries[id.0]
    }

    /// The figures of a task.
    #[must_use]
    pub fn task(&self, id: TaskId) -> &TaskResult {
        &self.tasks[id.0]
    }

    /// The figures of a processor.
    #[must_use]
    pub fn processor(&self, id: ProcessorId) -> &ProcessorResult {
        &self.processors[id.0]
    }
}

impl Bottleneck {
    /// The utilization divided by the multiplicity.
    #[must_use]
    pub fn saturation(self) -> f64 {
        match self {
            Self::Task(_, saturation) | Self::Processor(_, saturation) => saturation,
        }
    }
}

/// The number of calls between each task and the drivers of the model, on the longest path.
#[must_use]
pub fn depths(model: &Model) -> Vec<usize> {
    let mut depths = vec![0; model.tasks.len()];
    // Asynchronous calls may go in circles, so the passes are bounded.
    for _ in 0..model.tasks.len() {
        for entry in &model.entries {
            let calls = entry
                .phases
                .iter()
                .flat_map(|phase| &phase.calls)
                .map(|call| call.target);
            let forwards = entry.forwards.iter().map(|forward| forward.target);
            for target in calls.chain(forwards) {
                let below = model[target].task.0;
                let depth = (depths[entry.task.0] + 1).min(model.tasks.len());
                depths[below] = depths[below].max(depth);
            }
        }
    }
    depths
}

impl Figure {
    /// A figure that was computed.
    #[must_use]
    pub fn exact(value: f64) -> Self {
        Self { value, ci95: None }
    }

    /// The figure in another unit.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            value: factor * self.value,
            ci95: self.ci95.map(|width| factor * width),
        }
    }
}

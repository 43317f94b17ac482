//! What a model does: the answer of the solver and of the simulator.

use crate::model::{EntryId, Model, ProcessorId, TaskId};

/// A figure, and how well a simulation knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figure {
    /// The mean.
    pub value: f64,
    /// Half the width of its 95 % confidence interval; None when it was computed.
    pub ci95: Option<f64>,
}

/// What a model does in the long run. Times and rates in the model's unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    /// By [`EntryId`].
    pub entries: Vec<EntryResult>,
    /// By [`TaskId`].
    pub tasks: Vec<TaskResult>,
    /// By [`ProcessorId`].
    pub processors: Vec<ProcessorResult>,
    /// Whether the figures settled. A simulation's do when throughputs are known within 5 %.
    pub converged: bool,
    /// Passes of the solver, or batches of the simulator.
    pub iterations: u32,
    /// How they were found.
    pub method: Method,
}

/// How results were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// All states of the model with their probabilities: exact but for what is said there.
    MarkovChain,
    /// Mean value analysis: an approximation.
    MeanValue,
    /// Discrete events.
    Simulation,
}

/// What an entry does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EntryResult {
    /// Requests answered per unit of time.
    pub throughput: Figure,
    /// Time of a thread with a request, in sum over the phases.
    pub service_time: Figure,
    /// Time of a request before a thread takes it.
    pub waiting: Figure,
    /// Requests in wait for a thread.
    pub queue: Figure,
    /// Requests lost per unit of time: turned away, or more than can ever be served.
    pub lost: Figure,
}

/// What a task does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TaskResult {
    /// Requests answered per unit of time.
    pub throughput: Figure,
    /// Threads at work, at most the multiplicity.
    pub utilization: Figure,
}

/// What a processor does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessorResult {
    /// Servers at work, at most the multiplicity.
    pub utilization: Figure,
}

/// What limits a model.
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
    /// The deepest of what is saturated, or what comes nearest to it, with its saturation: the
    /// utilization over the multiplicity (Franks et al., QEST 2006).
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
    /// The utilization over the multiplicity.
    #[must_use]
    pub fn saturation(self) -> f64 {
        match self {
            Self::Task(_, saturation) | Self::Processor(_, saturation) => saturation,
        }
    }
}

/// Calls between each task and what drives the model, on the longest way.
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

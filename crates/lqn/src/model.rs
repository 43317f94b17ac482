//! The model: processors, tasks on them, entries of tasks, phases of entries, calls of phases.

use std::{fmt, ops::Index};

/// A processor's place in [`Model::processors`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessorId(pub usize);

/// A task's place in [`Model::tasks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub usize);

/// An entry's place in [`Model::entries`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(pub usize);

/// A layered queueing network that makes sense: made by [`Builder::build`](crate::Builder::build).
///
/// Times are in the unit of whoever wrote the model, rates per that unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    pub(crate) comment: String,
    pub(crate) processors: Vec<Processor>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) entries: Vec<Entry>,
}

/// What executes the phases of the tasks on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Processor {
    /// Its name, unique among processors.
    pub name: String,
    /// In which order it serves.
    pub scheduling: Scheduling,
    /// How many work in parallel; 1 for a delay.
    pub multiplicity: u32,
    /// Work done in a unit of time; service times are divided by it.
    pub speed: f64,
}

/// In which order a processor serves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scheduling {
    /// First come, first served.
    Fcfs,
    /// All at once, at equal shares.
    Sharing {
        /// The time slice of tools that don't share ideally.
        quantum: f64,
    },
    /// Nobody waits for another.
    Delay,
}

/// Threads that accept requests to their entries.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Its name, unique among tasks.
    pub name: String,
    /// Where its phases execute.
    pub processor: ProcessorId,
    /// Whether it drives the model or serves.
    pub role: Role,
    /// Its threads.
    pub multiplicity: Multiplicity,
    /// How many asynchronous requests may wait for a thread; more are lost. None: all may.
    pub queue_length: Option<u32>,
    /// What it offers.
    pub entries: Vec<EntryId>,
}

/// Whether a task drives the model or serves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Role {
    /// Its threads are the customers: they think, run the entry, and begin anew.
    Reference {
        /// Mean time between two runs.
        think_time: f64,
    },
    /// It waits for requests.
    Server,
}

/// A number of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Multiplicity {
    /// That many.
    Finite(u32),
    /// As many as there are requests.
    Infinite,
}

/// A service that a task offers.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its name, unique among entries.
    pub name: String,
    /// Whose it is.
    pub task: TaskId,
    /// Up to three; the reply leaves after the first.
    pub phases: Vec<Phase>,
    /// To whom the reply to the caller is left, with which probability.
    pub forwards: Vec<Forward>,
    /// Requests from outside, Poisson, per unit of time.
    pub open_arrival_rate: f64,
}

/// A part of an entry's work, executed after the part before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// Mean time on the processor, in sum over all slices: one more than there are calls.
    pub service_time: f64,
    /// Squared coefficient of variation of a slice's time.
    pub cvsq: f64,
    /// Mean pause before the first slice, off the processor.
    pub think_time: f64,
    /// How many calls there are, and in which order.
    pub order: CallOrder,
    /// Calls in the order of the file.
    pub calls: Vec<Call>,
}

/// How many calls a phase makes, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOrder {
    /// A geometric number with the mean of all calls, each at random.
    Stochastic,
    /// Exactly the mean number of each, in the order given.
    Deterministic,
}

/// Requests of a phase to an entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Call {
    /// Who is asked.
    pub target: EntryId,
    /// Mean number in one execution of the phase.
    pub mean: f64,
    /// Whether the caller waits.
    pub kind: CallKind,
}

/// Whether a caller waits for the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// It waits.
    Synchronous,
    /// It goes on, and there is no reply.
    Asynchronous,
}

/// An entry that answers in place of another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forward {
    /// Who answers.
    pub target: EntryId,
    /// How likely.
    pub probability: f64,
}

impl Model {
    /// What its writer says about it.
    #[must_use]
    pub fn comment(&self) -> &str {
        &self.comment
    }

    /// In the order of the file.
    #[must_use]
    pub fn processors(&self) -> &[Processor] {
        &self.processors
    }

    /// In the order of the file.
    #[must_use]
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// In the order of their tasks.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The task of that name.
    #[must_use]
    pub fn task_named(&self, name: &str) -> Option<TaskId> {
        self.tasks
            .iter()
            .position(|task| task.name == name)
            .map(TaskId)
    }

    /// The processor of that name.
    #[must_use]
    pub fn processor_named(&self, name: &str) -> Option<ProcessorId> {
        let place = self
            .processors
            .iter()
            .position(|processor| processor.name == name);
        place.map(ProcessorId)
    }

    /// The entry of that name.
    #[must_use]
    pub fn entry_named(&self, name: &str) -> Option<EntryId> {
        self.entries
            .iter()
            .position(|entry| entry.name == name)
            .map(EntryId)
    }

    /// The processor under an entry.
    #[must_use]
    pub fn host(&self, entry: EntryId) -> &Processor {
        &self[self[self[entry].task].processor]
    }

    /// A phase's mean time on its processor, the speed taken in.
    #[must_use]
    pub fn demand(&self, entry: EntryId, phase: usize) -> f64 {
        self[entry].phases[phase].service_time / self.host(entry).speed
    }
}

impl Index<ProcessorId> for Model {
    type Output = Processor;

    fn index(&self, id: ProcessorId) -> &Processor {
        &self.processors[id.0]
    }
}

impl Index<TaskId> for Model {
    type Output = Task;

    fn index(&self, id: TaskId) -> &Task {
        &self.tasks[id.0]
    }
}

impl Index<EntryId> for Model {
    type Output = Entry;

    fn index(&self, id: EntryId) -> &Entry {
        &self.entries[id.0]
    }
}

impl Processor {
    /// How many it serves at once.
    #[must_use]
    pub fn servers(&self) -> Multiplicity {
        match self.scheduling {
            Scheduling::Delay => Multiplicity::Infinite,
            Scheduling::Fcfs | Scheduling::Sharing { .. } => {
                Multiplicity::Finite(self.multiplicity)
            }
        }
    }
}

impl Task {
    /// Whether it drives the model.
    #[must_use]
    pub fn is_reference(&self) -> bool {
        matches!(self.role, Role::Reference { .. })
    }

    /// A reference task's mean time between two runs; 0 for servers.
    #[must_use]
    pub fn think_time(&self) -> f64 {
        match self.role {
            Role::Reference { think_time } => think_time,
            Role::Server => 0.0,
        }
    }
}

impl Multiplicity {
    /// The number, if there is one.
    #[must_use]
    pub fn finite(self) -> Option<u32> {
        match self {
            Self::Finite(number) => Some(number),
            Self::Infinite => None,
        }
    }
}

impl fmt::Display for Multiplicity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finite(number) => number.fmt(f),
            Self::Infinite => f.write_str("infinite"),
        }
    }
}

impl Default for Phase {
    fn default() -> Self {
        Self {
            service_time: 0.0,
            cvsq: 1.0,
            think_time: 0.0,
            order: CallOrder::Stochastic,
            calls: Vec::new(),
        }
    }
}

impl Phase {
    /// Mean calls of all kinds, which cut the phase into one slice more.
    #[must_use]
    pub fn calls_mean(&self) -> f64 {
        self.calls.iter().map(|call| call.mean).sum()
    }
}

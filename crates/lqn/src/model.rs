//! The model: processors, tasks on them, entries of tasks, phases of entries, calls of phases.

use std::{fmt, ops::Index};

/// The index of a processor in [`Model::processors`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessorId(pub usize);

/// The index of a task in [`Model::tasks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub usize);

/// The index of an entry in [`Model::entries`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(pub usize);

/// A valid layered queueing network: [`Builder::build`](crate::Builder::build) makes it.
///
/// Times are in the unit of the model's author, rates are per that unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    pub(crate) comment: String,
    pub(crate) processors: Vec<Processor>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) entries: Vec<Entry>,
}

/// A processor. It executes the phases of its tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct Processor {
    /// Its name, unique among processors.
    pub name: String,
    /// The order in which it serves.
    pub scheduling: Scheduling,
    /// How many requests it serves in parallel; 1 for a delay.
    pub multiplicity: u32,
    /// The work done in a unit of time. Service times are divided by it.
    pub speed: f64,
}

/// The order in which a processor serves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scheduling {
    /// First come, first served.
    Fcfs,
    /// The most urgent slice first, without interrupting another one.
    HeadOfLine,
    /// The most urgent slice at once. A less urgent one that it interrupts goes on later, from where it was.
    PreemptiveResume,
    /// All at once, at equal shares.
    Sharing {
        /// The time slice of tools that don't share ideally.
        quantum: f64,
    },
    /// No request waits for another.
    Delay,
}

/// Threads that accept requests to their entries.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Its name, unique among tasks.
    pub name: String,
    /// The processor that executes its phases.
    pub processor: ProcessorId,
    /// Whether it drives the model, serves or guards.
    pub role: Role,
    /// Its threads, customers, tokens, or readers at most.
    pub multiplicity: Multiplicity,
    /// How urgent its slices are at a processor with priorities: the higher number is the more urgent one.
    pub priority: u32,
    /// The most asynchronous requests that may wait for a thread; further ones are lost. None: no
    /// limit.
    pub queue_length: Option<u32>,
    /// Its entries.
    pub entries: Vec<EntryId>,
}

/// Whether a task drives the model, serves or guards.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Role {
    /// Its threads are the customers: they think, run the entry, and repeat.
    Reference {
        /// Mean time between two runs.
        think_time: f64,
    },
    /// It waits for requests.
    Server,
    /// It has as many tokens as its multiplicity. Its wait entry takes one, and its signal entry gives one back.
    Semaphore {
        /// The tokens that are there at the beginning. None: all.
        initially: Option<u32>,
    },
    /// It lets in as many readers as its multiplicity, or one writer, in the order in which they came.
    ReadWriteLock,
}

/// What a request to an entry of a semaphore or a lock takes before it is served, or gives back when it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Locking {
    /// Takes a token of a semaphore.
    Wait,
    /// Gives a token of a semaphore back.
    Signal,
    /// Begins to read.
    ReadLock,
    /// Ends reading.
    ReadUnlock,
    /// Begins to write.
    WriteLock,
    /// Ends writing.
    WriteUnlock,
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
    /// The task that it belongs to.
    pub task: TaskId,
    /// What its requests take or give back, if the task is a semaphore or a lock.
    pub locking: Option<Locking>,
    /// Up to three. The reply leaves after the first.
    pub phases: Vec<Phase>,
    /// The entries that reply in its place, with their probabilities.
    pub forwards: Vec<Forward>,
    /// Requests from outside per unit of time, a Poisson stream.
    pub open_arrival_rate: f64,
}

/// A part of an entry's work, executed after the part before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// Mean total time on the processor, over all slices: there is one more slice than there are
    /// calls.
    pub service_time: f64,
    /// Squared coefficient of variation of a slice's time.
    pub cvsq: f64,
    /// Mean pause before the first slice, off the processor.
    pub think_time: f64,
    /// The number and the order of calls.
    pub order: CallOrder,
    /// The calls are made at the same time, after the work, and the phase ends when so many have been answered.
    pub quorum: Option<u32>,
    /// Calls in the order of the file.
    pub calls: Vec<Call>,
}

/// The number and the order of a phase's calls.
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
    /// The entry that is called.
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
    /// The caller continues, and there is no reply.
    Asynchronous,
}

/// An entry that replies in place of another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forward {
    /// The entry that replies.
    pub target: EntryId,
    /// The probability.
    pub probability: f64,
}

impl Model {
    /// The comment of its author.
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

    /// The task with this name.
    #[must_use]
    pub fn task_named(&self, name: &str) -> Option<TaskId> {
        self.tasks
            .iter()
            .position(|task| task.name == name)
            .map(TaskId)
    }

    /// The processor with this name.
    #[must_use]
    pub fn processor_named(&self, name: &str) -> Option<ProcessorId> {
        let place = self
            .processors
            .iter()
            .position(|processor| processor.name == name);
        place.map(ProcessorId)
    }

    /// The entry with this name.
    #[must_use]
    pub fn entry_named(&self, name: &str) -> Option<EntryId> {
        self.entries
            .iter()
            .position(|entry| entry.name == name)
            .map(EntryId)
    }

    /// Whether a phase makes calls at the same time. Such a model can only be simulated.
    #[must_use]
    pub fn has_forks(&self) -> bool {
        let mut phases = self.entries.iter().flat_map(|entry| &entry.phases);
        phases.any(|phase| phase.quorum.is_some())
    }

    /// The priority of a task at its processor: 0 if that serves in another order.
    #[must_use]
    pub fn priority(&self, task: TaskId) -> u32 {
        match self[self[task].processor].scheduling {
            Scheduling::HeadOfLine | Scheduling::PreemptiveResume => self[task].priority,
            Scheduling::Fcfs | Scheduling::Sharing { .. } | Scheduling::Delay => 0,
        }
    }

    /// Whether a processor serves tasks of several priorities.
    #[must_use]
    pub fn has_priorities(&self) -> bool {
        let on = |processor| {
            let tasks = (0..self.tasks.len()).map(TaskId);
            tasks.filter(move |&task| self[task].processor == processor)
        };
        (0..self.processors.len())
            .map(ProcessorId)
            .any(|processor| {
                let mut priorities = on(processor).map(|task| self.priority(task));
                let first = priorities.next();
                priorities.any(|priority| Some(priority) != first)
            })
    }

    /// Whether a task is a semaphore or a lock. Such a model can only be simulated.
    #[must_use]
    pub fn has_locks(&self) -> bool {
        self.tasks
            .iter()
            .any(|task| !task.role.locking().is_empty())
    }

    /// The processor of an entry.
    #[must_use]
    pub fn host(&self, entry: EntryId) -> &Processor {
        &self[self[self[entry].task].processor]
    }

    /// A phase's mean time on its processor, with the processor's speed.
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
    /// How many requests it serves at once.
    #[must_use]
    pub fn servers(&self) -> Multiplicity {
        match self.scheduling {
            Scheduling::Delay => Multiplicity::Infinite,
            Scheduling::Fcfs
            | Scheduling::HeadOfLine
            | Scheduling::PreemptiveResume
            | Scheduling::Sharing { .. } => Multiplicity::Finite(self.multiplicity),
        }
    }
}

impl Task {
    /// Whether it drives the model.
    #[must_use]
    pub fn is_reference(&self) -> bool {
        matches!(self.role, Role::Reference { .. })
    }

    /// The mean time between two runs of a reference task; 0 for servers.
    #[must_use]
    pub fn think_time(&self) -> f64 {
        match self.role {
            Role::Reference { think_time } => think_time,
            Role::Server | Role::Semaphore { .. } | Role::ReadWriteLock => 0.0,
        }
    }
}

impl Role {
    /// What its entries do, one each; nothing if it neither is a semaphore nor a lock.
    #[must_use]
    pub fn locking(self) -> &'static [Locking] {
        match self {
            Self::Reference { .. } | Self::Server => &[],
            Self::Semaphore { .. } => &[Locking::Wait, Locking::Signal],
            Self::ReadWriteLock => &[
                Locking::ReadLock,
                Locking::ReadUnlock,
                Locking::WriteLock,
                Locking::WriteUnlock,
            ],
        }
    }
}

impl Locking {
    /// What gives back what this takes; none if it takes nothing.
    #[must_use]
    pub fn counterpart(self) -> Option<Self> {
        match self {
            Self::Wait => Some(Self::Signal),
            Self::ReadLock => Some(Self::ReadUnlock),
            Self::WriteLock => Some(Self::WriteUnlock),
            Self::Signal | Self::ReadUnlock | Self::WriteUnlock => None,
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
            quorum: None,
            calls: Vec::new(),
        }
    }
}

impl Phase {
    /// The mean number of calls of all kinds. They cut the phase into slices, one more than calls.
    #[must_use]
    pub fn calls_mean(&self) -> f64 {
        self.calls.iter().map(|call| call.mean).sum()
    }
}

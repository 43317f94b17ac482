//! Builds a model from names, and refuses an invalid one.

use std::{collections::HashMap, fmt};

use crate::{
    check,
    graph::{self, Graph},
    model::{
        Call, CallKind, CallOrder, Entry, EntryId, Forward, Locking, Model, Multiplicity, Phase,
        Processor, ProcessorId, Role, Scheduling, Task, TaskId,
    },
    replicas::{self, Fans},
};

/// The most phases of an entry.
pub const PHASES_MAX: usize = 3;

/// A problem of a model, and its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The line of the file, from 1, if there is a file.
    pub line: Option<u32>,
    /// What is wrong and what to do.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Problem {}

/// A model under construction. Its parts have names and come in any order.
///
/// ```
/// use lqn::{Builder, Multiplicity, Scheduling};
///
/// let mut builder = Builder::new("machine repairman");
/// builder.processor("desk", Scheduling::Delay);
/// builder.processor("disk", Scheduling::Fcfs);
/// builder.reference("users", "desk").multiplicity(Multiplicity::Finite(5)).think_time(5.0);
/// builder.task("driver", "disk");
/// builder.entry("work", "users").calls("read", &[1.0]);
/// builder.entry("read", "driver").service(&[1.0]);
/// let model = builder.build().expect("all names are known");
/// assert_eq!(model.tasks().len(), 2);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Builder {
    pub(crate) comment: String,
    pub(crate) processors: Vec<ProcessorDraft>,
    pub(crate) tasks: Vec<TaskDraft>,
    pub(crate) entries: Vec<EntryDraft>,
    pub(crate) graphs: Vec<Graph>,
    pub(crate) line: Option<u32>,
}

/// A processor in the making.
#[derive(Clone, Debug)]
pub struct ProcessorDraft {
    pub(crate) line: Option<u32>,
    pub(crate) processor: Processor,
    pub(crate) replicas: u32,
}

/// A task in the making.
#[derive(Clone, Debug)]
pub struct TaskDraft {
    pub(crate) line: Option<u32>,
    pub(crate) processor: String,
    pub(crate) task: Task,
    pub(crate) replicas: u32,
    pub(crate) fans: Fans,
}

/// An entry in the making.
#[derive(Clone, Debug)]
pub struct EntryDraft {
    pub(crate) line: Option<u32>,
    pub(crate) task: String,
    pub(crate) entry: Entry,
    pub(crate) calls: Vec<CallDraft>,
    pub(crate) forwards: Vec<(Option<u32>, String, f64)>,
}

#[derive(Clone, Debug)]
pub(crate) struct CallDraft {
    pub(crate) line: Option<u32>,
    pub(crate) target: String,
    pub(crate) phase: usize,
    pub(crate) mean: f64,
    pub(crate) kind: CallKind,
}

impl Builder {
    /// An empty model.
    #[must_use]
    pub fn new(comment: &str) -> Self {
        Self {
            comment: comment.to_owned(),
            ..Self::default()
        }
    }

    /// Sets the comment of the model.
    pub fn comment(&mut self, comment: &str) {
        comment.clone_into(&mut self.comment);
    }

    /// Whatever is added from here on stands in this line of a file.
    pub(crate) fn at(&mut self, line: u32) -> &mut Self {
        self.line = Some(line);
        self
    }

    /// Adds a processor, of multiplicity 1.
    pub fn processor(&mut self, name: &str, scheduling: Scheduling) -> &mut ProcessorDraft {
        let processor = Processor {
            name: name.to_owned(),
            scheduling,
            multiplicity: 1,
            speed: 1.0,
        };
        self.processors.push(ProcessorDraft {
            line: self.line,
            processor,
            replicas: 1,
        });
        self.processors.last_mut().expect("it was pushed")
    }

    /// Adds a task that serves, with one thread.
    pub fn task(&mut self, name: &str, processor: &str) -> &mut TaskDraft {
        self.add_task(name, processor, Role::Server)
    }

    /// Adds a task that drives the model, with one customer.
    pub fn reference(&mut self, name: &str, processor: &str) -> &mut TaskDraft {
        self.add_task(name, processor, Role::Reference { think_time: 0.0 })
    }

    /// Adds a semaphore with one token.
    pub fn semaphore(&mut self, name: &str, processor: &str) -> &mut TaskDraft {
        self.add_task(name, processor, Role::Semaphore { initially: None })
    }

    /// Adds a lock of one reader or one writer.
    pub fn read_write_lock(&mut self, name: &str, processor: &str) -> &mut TaskDraft {
        self.add_task(name, processor, Role::ReadWriteLock)
    }

    fn add_task(&mut self, name: &str, processor: &str, role: Role) -> &mut TaskDraft {
        let task = Task {
            name: name.to_owned(),
            processor: ProcessorId(usize::MAX),
            role,
            multiplicity: Multiplicity::Finite(1),
            priority: 0,
            queue_length: None,
            entries: Vec::new(),
        };
        self.tasks.push(TaskDraft {
            line: self.line,
            processor: processor.to_owned(),
            task,
            replicas: 1,
            fans: Fans::default(),
        });
        self.tasks.last_mut().expect("it was pushed")
    }

    /// Adds an entry to a task.
    pub fn entry(&mut self, name: &str, task: &str) -> &mut EntryDraft {
        self.entries.push(EntryDraft::new(name, task, self.line));
        self.entries.last_mut().expect("it was pushed")
    }

    /// The activity graph of a task.
    pub(crate) fn graph(&mut self, task: &str) -> &mut Graph {
        let graphs = &mut self.graphs;
        if let Some(place) = graphs.iter().position(|graph| graph.task == task) {
            return &mut graphs[place];
        }
        graphs.push(Graph {
            line: self.line,
            task: task.to_owned(),
            ..Graph::default()
        });
        graphs.last_mut().expect("it was pushed")
    }

    /// An entry that was added.
    pub(crate) fn entry_mut(&mut self, name: &str) -> Option<&mut EntryDraft> {
        self.entries
            .iter_mut()
            .find(|draft| draft.entry.name == name)
    }

    /// Builds the model.
    ///
    /// # Errors
    /// Every problem, in the order of the lines.
    pub fn build(self) -> Result<Model, Vec<Problem>> {
        self.build_despite(Vec::new())
    }

    /// The model, unless problems were found already: then all of them.
    pub(crate) fn build_despite(self, mut problems: Vec<Problem>) -> Result<Model, Vec<Problem>> {
        let plain = graph::write_out(self, &mut problems);
        let flat = replicas::write_out(plain, &mut problems);
        let lines = check::Lines {
            processors: flat.processors.iter().map(|draft| draft.line).collect(),
            tasks: flat.tasks.iter().map(|draft| draft.line).collect(),
            entries: flat.entries.iter().map(|draft| draft.line).collect(),
        };
        let model = flat.resolve(&mut problems);
        problems.extend(check::check(&model, &lines));
        if problems.is_empty() {
            return Ok(model);
        }
        problems.sort();
        problems.dedup();
        Err(problems)
    }

    /// Names become places; what has no place is told and left out.
    fn resolve(self, problems: &mut Vec<Problem>) -> Model {
        let processor_of = places(
            "processor",
            self.processors
                .iter()
                .map(|draft| (&draft.processor.name, draft.line)),
            problems,
        );
        let task_of = places(
            "task",
            self.tasks
                .iter()
                .map(|draft| (&draft.task.name, draft.line)),
            problems,
        );
        let entry_of = places(
            "entry",
            self.entries
                .iter()
                .map(|draft| (&draft.entry.name, draft.line)),
            problems,
        );
        let mut tasks: Vec<Task> = Vec::with_capacity(self.tasks.len());
        for draft in self.tasks {
            let place = processor_of.get(&draft.processor).copied();
            if place.is_none() {
                let (task, processor) = (&draft.task.name, &draft.processor);
                let message =
                    format!("task {task} runs on processor {processor}, which is not in the model");
                problems.push(Problem {
                    line: draft.line,
                    message,
                });
            }
            tasks.push(Task {
                processor: ProcessorId(place.unwrap_or(0)),
                ..draft.task
            });
        }
        let mut entries = Vec::with_capacity(self.entries.len());
        for (place, draft) in self.entries.into_iter().enumerate() {
            match task_of.get(&draft.task) {
                Some(&task) => tasks[task].entries.push(EntryId(place)),
                None => {
                    let message = format!(
                        "entry {} belongs to task {}, which is not in the model",
                        draft.entry.name, draft.task
                    );
                    problems.push(Problem {
                        line: draft.line,
                        message,
                    });
                }
            }
            let task = TaskId(task_of.get(&draft.task).copied().unwrap_or(0));
            entries.push(draft.resolve(task, &entry_of, problems));
        }
        let processors = self
            .processors
            .into_iter()
            .map(|draft| draft.processor)
            .collect();
        Model {
            comment: self.comment,
            processors,
            tasks,
            entries,
        }
    }
}

fn places<'a>(
    what: &str,
    names: impl Iterator<Item = (&'a String, Option<u32>)>,
    problems: &mut Vec<Problem>,
) -> HashMap<String, usize> {
    let mut places = HashMap::new();
    for (place, (name, line)) in names.enumerate() {
        if places.insert(name.clone(), place).is_some() {
            problems.push(Problem {
                line,
                message: format!("{what} {name} exists twice: rename one"),
            });
        }
    }
    places
}

impl ProcessorDraft {
    /// How many requests it serves in parallel.
    pub fn multiplicity(&mut self, multiplicity: u32) -> &mut Self {
        self.processor.multiplicity = multiplicity;
        self
    }

    /// Its copies, each with a queue of its own. The model has them as `name_1`, `name_2` and so on.
    pub fn replicas(&mut self, replicas: u32) -> &mut Self {
        self.replicas = replicas;
        self
    }

    /// Its speed: the work done in a unit of time.
    pub fn speed(&mut self, speed: f64) -> &mut Self {
        self.processor.speed = speed;
        self
    }
}

impl TaskDraft {
    /// Its threads, customers, tokens or readers.
    pub fn multiplicity(&mut self, multiplicity: Multiplicity) -> &mut Self {
        self.task.multiplicity = multiplicity;
        self
    }

    /// Its copies, a multiple of its processor's. The model has them as `name_1`, `name_2` and so on.
    pub fn replicas(&mut self, replicas: u32) -> &mut Self {
        self.replicas = replicas;
        self
    }

    /// How many copies of a task each copy of this one calls. It makes its calls to each of them.
    pub fn fan_out(&mut self, task: &str, copies: u32) -> &mut Self {
        self.fans.outs.insert(task.to_owned(), copies);
        self
    }

    /// How many copies of a task call each copy of this one.
    pub fn fan_in(&mut self, task: &str, copies: u32) -> &mut Self {
        self.fans.ins.insert(task.to_owned(), copies);
        self
    }

    /// The mean time between two runs of a reference task; servers don't think.
    pub fn think_time(&mut self, time: f64) -> &mut Self {
        if let Role::Reference { think_time } = &mut self.task.role {
            *think_time = time;
        }
        self
    }

    /// The tokens that a semaphore has at the beginning; others have none.
    pub fn initially(&mut self, tokens: u32) -> &mut Self {
        if let Role::Semaphore { initially } = &mut self.task.role {
            *initially = Some(tokens);
        }
        self
    }

    /// Its priority at a processor with priorities: the higher number is the more urgent one.
    pub fn priority(&mut self, priority: u32) -> &mut Self {
        self.task.priority = priority;
        self
    }

    /// The most asynchronous requests that may wait.
    pub fn queue_length(&mut self, length: u32) -> &mut Self {
        self.task.queue_length = Some(length);
        self
    }
}

impl EntryDraft {
    pub(crate) fn new(name: &str, task: &str, line: Option<u32>) -> Self {
        Self {
            line,
            task: task.to_owned(),
            entry: Entry {
                name: name.to_owned(),
                task: TaskId(usize::MAX),
                locking: None,
                phases: Vec::new(),
                forwards: Vec::new(),
                open_arrival_rate: 0.0,
            },
            calls: Vec::new(),
            forwards: Vec::new(),
        }
    }

    /// Mean times on the processor, one for each phase.
    pub fn service(&mut self, times: &[f64]) -> &mut Self {
        self.each_phase(times, |phase, time| phase.service_time = time)
    }

    /// Squared coefficients of variation, one for each phase; the default is 1.
    pub fn cvsq(&mut self, values: &[f64]) -> &mut Self {
        self.each_phase(values, |phase, value| phase.cvsq = value)
    }

    /// Mean pauses, one before each phase.
    pub fn think(&mut self, times: &[f64]) -> &mut Self {
        self.each_phase(times, |phase, time| phase.think_time = time)
    }

    /// The order of calls, one for each phase.
    pub fn order(&mut self, orders: &[CallOrder]) -> &mut Self {
        for (place, &order) in orders.iter().enumerate() {
            self.phase(place).order = order;
        }
        self
    }

    /// Mean numbers of synchronous calls, one for each phase.
    pub fn calls(&mut self, target: &str, means: &[f64]) -> &mut Self {
        let line = self.line;
        self.add_calls(line, target, means, CallKind::Synchronous)
    }

    /// Mean numbers of asynchronous calls, one for each phase.
    pub fn sends(&mut self, target: &str, means: &[f64]) -> &mut Self {
        let line = self.line;
        self.add_calls(line, target, means, CallKind::Asynchronous)
    }

    /// Makes a call to each of these at the same time, after the work, and ends when all of `awaited` have replied. It
    /// goes on without the replies of `sent`.
    pub fn forks(&mut self, awaited: &[&str], sent: &[&str]) -> &mut Self {
        self.phase(0).quorum = Some(awaited.len() as u32);
        self.phase(0).order = CallOrder::Deterministic;
        awaited.iter().for_each(|target| {
            self.calls(target, &[1.0]);
        });
        sent.iter().for_each(|target| {
            self.sends(target, &[1.0]);
        });
        self
    }

    /// Forwards requests with a probability: another entry sends the reply.
    pub fn forwards(&mut self, target: &str, probability: f64) -> &mut Self {
        let line = self.line;
        self.add_forward(line, target, probability)
    }

    /// What its requests take of a semaphore or a lock, or give back.
    pub fn locking(&mut self, locking: Locking) -> &mut Self {
        self.entry.locking = Some(locking);
        self
    }

    /// Requests from outside, per unit of time.
    pub fn open_arrivals(&mut self, rate: f64) -> &mut Self {
        self.entry.open_arrival_rate = rate;
        self
    }

    pub(crate) fn add_calls(
        &mut self,
        line: Option<u32>,
        target: &str,
        means: &[f64],
        kind: CallKind,
    ) -> &mut Self {
        for (phase, &mean) in means.iter().enumerate() {
            self.phase(phase);
            if mean != 0.0 {
                let target = target.to_owned();
                self.calls.push(CallDraft {
                    line,
                    target,
                    phase,
                    mean,
                    kind,
                });
            }
        }
        self
    }

    pub(crate) fn add_forward(
        &mut self,
        line: Option<u32>,
        target: &str,
        probability: f64,
    ) -> &mut Self {
        self.forwards.push((line, target.to_owned(), probability));
        self
    }

    fn each_phase(&mut self, values: &[f64], set: impl Fn(&mut Phase, f64)) -> &mut Self {
        for (place, &value) in values.iter().enumerate() {
            set(self.phase(place), value);
        }
        self
    }

    pub(crate) fn phase(&mut self, place: usize) -> &mut Phase {
        let phases = &mut self.entry.phases;
        if phases.len() <= place {
            phases.resize(place + 1, Phase::default());
        }
        &mut phases[place]
    }

    fn resolve(
        mut self,
        task: TaskId,
        entry_of: &HashMap<String, usize>,
        problems: &mut Vec<Problem>,
    ) -> Entry {
        self.phase(0);
        let mut entry = self.entry;
        entry.task = task;
        let mut find = |line: Option<u32>, verb: &str, target: &str| {
            let place = entry_of.get(target).copied().map(EntryId);
            if place.is_none() {
                let message = format!("entry {} {verb} {target}, which no task serves", entry.name);
                problems.push(Problem {
                    line: line.or(self.line),
                    message,
                });
            }
            place
        };
        for draft in self.calls {
            if let Some(target) = find(draft.line, "calls", &draft.target) {
                let call = Call {
                    target,
                    mean: draft.mean,
                    kind: draft.kind,
                };
                entry.phases[draft.phase].calls.push(call);
            }
        }
        for (line, target, probability) in self.forwards {
            if let Some(target) = find(line, "forwards to", &target) {
                entry.forwards.push(Forward {
                    target,
                    probability,
                });
            }
        }
        // Without calls there is no order to keep.
        let without_calls = entry
            .phases
            .iter_mut()
            .filter(|phase| phase.calls.is_empty());
        without_calls.for_each(|phase| phase.order = CallOrder::Stochastic);
        entry
    }
}

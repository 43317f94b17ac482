//! Checks a model whose names are resolved.

mod locks;

use crate::{
    builder::{PHASES_MAX, Problem},
    model::{CallKind, CallOrder, Entry, EntryId, Model, Multiplicity, Phase, Role, Task, TaskId},
};

/// Where processors, tasks and entries stand in a file.
pub(crate) struct Lines {
    pub(crate) processors: Vec<Option<u32>>,
    pub(crate) tasks: Vec<Option<u32>>,
    pub(crate) entries: Vec<Option<u32>>,
}

impl Lines {
    /// For a model without a file.
    pub(crate) fn none(model: &Model) -> Self {
        Self {
            processors: vec![None; model.processors.len()],
            tasks: vec![None; model.tasks.len()],
            entries: vec![None; model.entries.len()],
        }
    }
}

/// Everything that makes no sense.
pub(crate) fn check(model: &Model, lines: &Lines) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (processor, &line) in model.processors.iter().zip(&lines.processors) {
        let mut say = |message| problems.push(Problem { line, message });
        let name = &processor.name;
        if processor.multiplicity == 0 {
            say(format!(
                "processor {name} has multiplicity 0: write at least 1"
            ));
        }
        if !(processor.speed > 0.0 && processor.speed.is_finite()) {
            say(format!(
                "processor {name} has speed {}: write a number above 0",
                processor.speed
            ));
        }
    }
    for (task, &line) in model.tasks.iter().zip(&lines.tasks) {
        check_task(model, task, &mut |message| {
            problems.push(Problem { line, message })
        });
    }
    for (place, &line) in lines.entries.iter().enumerate() {
        check_entry(model, EntryId(place), &mut |message| {
            problems.push(Problem { line, message })
        });
    }
    if !is_driven(model) {
        let message = "nothing drives the model: add a reference task or open arrivals".to_owned();
        problems.push(Problem {
            line: None,
            message,
        });
    }
    if let Some(cycle) = cycle(model) {
        let names: Vec<_> = cycle
            .iter()
            .map(|&task| model[task].name.as_str())
            .collect();
        let message = format!(
            "synchronous calls form a circle, so threads can wait for each other forever: {}",
            names.join(" -> ")
        );
        problems.push(Problem {
            line: lines.tasks[cycle[0].0],
            message,
        });
    }
    problems
}

fn check_task(model: &Model, task: &Task, say: &mut dyn FnMut(String)) {
    let name = &task.name;
    if task.multiplicity == Multiplicity::Finite(0) {
        say(format!("task {name} has multiplicity 0: write at least 1"));
    }
    if task.entries.is_empty() {
        say(format!("task {name} has no entry"));
    }
    locks::check_locks(model, task, say);
    let Role::Reference { think_time } = task.role else {
        return;
    };
    if !is_time(think_time) {
        say(format!(
            "task {name} has think time {think_time}: write at least 0"
        ));
    }
    if task.multiplicity == Multiplicity::Infinite {
        say(format!(
            "reference task {name} has infinitely many customers: write a number, or use open \
             arrivals"
        ));
    }
    if task.entries.len() > 1 {
        say(format!(
            "reference task {name} has {} entries: it must have one",
            task.entries.len()
        ));
    }
    for &entry in &task.entries {
        let Entry {
            name,
            forwards,
            open_arrival_rate,
            ..
        } = &model[entry];
        if !forwards.is_empty() || *open_arrival_rate != 0.0 {
            say(format!(
                "entry {name} belongs to a reference task, so it can neither forward nor have open \
                 arrivals"
            ));
        }
    }
}

fn check_entry(model: &Model, id: EntryId, say: &mut dyn FnMut(String)) {
    let entry = &model[id];
    let name = &entry.name;
    if entry.phases.len() > PHASES_MAX {
        say(format!(
            "entry {name} has {} phases: use at most {PHASES_MAX}",
            entry.phases.len()
        ));
    }
    if !is_time(entry.open_arrival_rate) {
        say(format!(
            "entry {name} has open arrivals at rate {}: write at least 0",
            entry.open_arrival_rate
        ));
    }
    for (place, phase) in entry.phases.iter().enumerate() {
        check_phase(model, phase, &mut |message| {
            say(format!("entry {name}, phase {}: {message}", place + 1))
        });
    }
    for forward in &entry.forwards {
        let (target, probability) = (&model[forward.target], forward.probability);
        if !(0.0..=1.0).contains(&probability) {
            say(format!(
                "entry {name} forwards to {} with probability {probability}: write 0 to 1",
                target.name
            ));
        }
        if model[target.task].is_reference() {
            say(format!(
                "entry {name} forwards to {}, of a reference task, which takes no requests",
                target.name
            ));
        }
    }
    let total: f64 = entry
        .forwards
        .iter()
        .map(|forward| forward.probability)
        .sum();
    if total > 1.0 + 1e-9 && entry.forwards.len() > 1 {
        say(format!(
            "entry {name} forwards with total probability {total}: use at most 1"
        ));
    }
}

fn check_phase(model: &Model, phase: &Phase, say: &mut dyn FnMut(String)) {
    for (what, value) in [
        ("service time", phase.service_time),
        ("squared coefficient of variation", phase.cvsq),
        ("think time", phase.think_time),
    ] {
        if !is_time(value) {
            say(format!("{what} {value}: write at least 0"));
        }
    }
    for call in &phase.calls {
        let (target, mean) = (&model[call.target], call.mean);
        if !is_time(mean) {
            say(format!("{mean} calls to {}: write at least 0", target.name));
        } else if mean > CALLS_MAX {
            say(format!(
                "{mean} calls to {}: write at most {CALLS_MAX}",
                target.name
            ));
        } else if phase.order == CallOrder::Deterministic && mean.fract() != 0.0 {
            say(format!(
                "{mean} calls to {} in a fixed order: write a whole number",
                target.name
            ));
        }
        if model[target.task].is_reference() {
            say(format!(
                "a call to {}, of a reference task, which takes no requests",
                target.name
            ));
        }
    }
}

/// Calls of a phase to one entry; more is a slip of the pen.
const CALLS_MAX: f64 = 1e6;

fn is_time(value: f64) -> bool {
    value >= 0.0 && value.is_finite()
}

fn is_driven(model: &Model) -> bool {
    model.tasks.iter().any(Task::is_reference)
        || model
            .entries
            .iter()
            .any(|entry| entry.open_arrival_rate > 0.0)
}

/// Tasks whose threads may wait for each other, the first again at the end.
fn cycle(model: &Model) -> Option<Vec<TaskId>> {
    let mut state = vec![Visit::New; model.tasks.len()];
    let mut path = Vec::new();
    (0..model.tasks.len()).find_map(|task| visit(model, TaskId(task), &mut state, &mut path))
}

#[derive(Clone, Copy, PartialEq)]
enum Visit {
    New,
    OnPath,
    Done,
}

fn visit(
    model: &Model,
    task: TaskId,
    state: &mut [Visit],
    path: &mut Vec<TaskId>,
) -> Option<Vec<TaskId>> {
    path.push(task);
    match state[task.0] {
        Visit::Done => {}
        Visit::OnPath => {
            let start = path.iter().position(|&other| other == task)?;
            return Some(path[start..].to_vec());
        }
        Visit::New => {
            state[task.0] = Visit::OnPath;
            for callee in callees(model, task) {
                if let Some(cycle) = visit(model, callee, state, path) {
                    return Some(cycle);
                }
            }
            state[task.0] = Visit::Done;
        }
    }
    path.pop();
    None
}

/// Tasks that this one waits for, or leaves its replies to.
fn callees(model: &Model, task: TaskId) -> Vec<TaskId> {
    let mut callees = Vec::new();
    for &entry in &model[task].entries {
        let calls = model[entry].phases.iter().flat_map(|phase| &phase.calls);
        let waited = calls.filter(|call| call.kind == CallKind::Synchronous && call.mean > 0.0);
        callees.extend(waited.map(|call| model[call.target].task));
        callees.extend(
            model[entry]
                .forwards
                .iter()
                .map(|forward| model[forward.target].task),
        );
    }
    callees
}

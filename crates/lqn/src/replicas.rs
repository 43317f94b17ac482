//! Writes the copies of replicated processors and tasks out, as LQNS's `rep2flat` does.

use std::collections::HashMap;

use crate::builder::{Builder, CallDraft, EntryDraft, Problem, ProcessorDraft, TaskDraft};

/// The most copies of processors and tasks that a model may have when it is written out.
pub(crate) const COPIES_MAX: u64 = 1_000;

/// The most calls and forwards between the copies.
const CALLS_MAX: u64 = 100_000;

/// How many of the other side's copies a task's copy meets, by the other task's name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fans {
    pub(crate) ins: HashMap<String, u32>,
    pub(crate) outs: HashMap<String, u32>,
}

/// What the calls of a model need to know about a task with copies.
struct Copied {
    replicas: u32,
    fans: Fans,
}

/// Writes every copy out as a processor, a task or an entry of its own. Copies have the names
/// `name_1`, `name_2` and so on. Parts without copies keep their names.
///
/// Copy i of a caller with fan-out O calls the O copies from i O on, around the circle. It makes
/// the mean number of calls to each of them. A model that is inconsistent is returned as it was.
pub(crate) fn write_out(builder: Builder, problems: &mut Vec<Problem>) -> Builder {
    let Builder {
        processors,
        tasks,
        entries,
        ..
    } = &builder;
    let replicated = processors.iter().any(|draft| draft.replicas != 1)
        || tasks.iter().any(|draft| draft.replicas != 1);
    let fanned = tasks
        .iter()
        .any(|draft| !draft.fans.ins.is_empty() || !draft.fans.outs.is_empty());
    if !replicated && !fanned {
        return builder;
    }
    let before = problems.len();
    let copies = processors.iter().map(|draft| u64::from(draft.replicas));
    let copies: u64 = copies
        .chain(tasks.iter().map(|draft| u64::from(draft.replicas)))
        .sum();
    if copies > COPIES_MAX {
        let message = format!(
            "{copies} copies of processors and tasks: write at most {COPIES_MAX} (r) and use m for \
             servers that share a queue"
        );
        problems.push(Problem {
            line: None,
            message,
        });
    }
    let (stations, callers) = known(&builder, problems);
    let task_of: HashMap<String, String> = entries
        .iter()
        .map(|draft| (draft.entry.name.clone(), draft.task.clone()))
        .collect();
    let mut calls: u64 = 0;
    for draft in entries {
        calls = calls.saturating_add(check_targets(draft, &task_of, &callers, problems));
    }
    if calls > CALLS_MAX {
        let message = format!("{calls} calls between copies: at most {CALLS_MAX} are written out");
        problems.push(Problem {
            line: None,
            message,
        });
    }
    if problems.len() > before {
        return builder;
    }
    let places = Places { task_of, callers };
    Builder {
        processors: processors.iter().flat_map(processor_copies).collect(),
        tasks: tasks
            .iter()
            .flat_map(|draft| task_copies(draft, stations.get(&draft.processor)))
            .collect(),
        entries: entries
            .iter()
            .flat_map(|draft| places.entry_copies(draft))
            .collect(),
        ..builder
    }
}

/// Processors' copies and tasks with their copies, by name.
fn known(
    builder: &Builder,
    problems: &mut Vec<Problem>,
) -> (HashMap<String, u32>, HashMap<String, Copied>) {
    let mut say = |line, message: String| problems.push(Problem { line, message });
    let mut stations = HashMap::new();
    for draft in &builder.processors {
        let name = &draft.processor.name;
        if draft.replicas == 0 {
            say(
                draft.line,
                format!("processor {name} has 0 copies: write at least 1"),
            );
        }
        stations.insert(name.clone(), draft.replicas.max(1));
    }
    let mut callers = HashMap::new();
    for draft in &builder.tasks {
        let (name, replicas) = (&draft.task.name, draft.replicas);
        let servers = stations.get(&draft.processor).copied().unwrap_or(1);
        if replicas == 0 {
            say(
                draft.line,
                format!("task {name} has 0 copies: write at least 1"),
            );
        } else if !replicas.is_multiple_of(servers) {
            let message = format!(
                "task {name} has {replicas} copies on {servers} copies of processor {}: write as \
                 many (r {servers}) or a multiple",
                draft.processor
            );
            say(draft.line, message);
        }
        let fans = draft.fans.clone();
        callers.insert(name.clone(), Copied { replicas, fans });
    }
    (stations, callers)
}

/// Says which fans don't fit, and returns the number of calls when the copies are written out.
fn check_targets(
    draft: &EntryDraft,
    task_of: &HashMap<String, String>,
    callers: &HashMap<String, Copied>,
    problems: &mut Vec<Problem>,
) -> u64 {
    let Some(caller) = callers.get(&draft.task) else {
        return 0;
    };
    let mut written: u64 = 0;
    let calls = draft
        .calls
        .iter()
        .map(|call| (call.line, &call.target, false));
    let forwards = draft
        .forwards
        .iter()
        .map(|(line, target, _)| (*line, target, true));
    for (line, target, forwarded) in calls.chain(forwards) {
        let Some((server, served)) = task_of
            .get(target)
            .and_then(|task| Some((task, callers.get(task)?)))
        else {
            continue;
        };
        let (out, into) = fans(&draft.task, caller, server, served);
        let (from, to) = (u64::from(caller.replicas), u64::from(served.replicas));
        written = written.saturating_add(from.saturating_mul(u64::from(out)));
        let message = if out == 0 || into == 0 || from * u64::from(out) != to * u64::from(into) {
            format!(
                "{from} copies of task {} call {out} copies each (fan-out), and {to} copies of \
                 task {server} are called by {into} each (fan-in): {from} x {out} must be {to} x {into}",
                draft.task
            )
        } else if out > served.replicas {
            format!("fan-out {out} to task {server}, which has {to} copies: write at most {to}")
        } else if forwarded && out > 1 {
            format!(
                "entry {} forwards to {out} copies of {server}: a request is forwarded to one",
                draft.entry.name
            )
        } else {
            continue;
        };
        let line = line.or(draft.line);
        problems.push(Problem { line, message });
    }
    written
}

/// Fan-out and fan-in between two tasks. One that is given says the other.
fn fans(caller_name: &str, caller: &Copied, server_name: &str, server: &Copied) -> (u32, u32) {
    let out = caller.fans.outs.get(server_name).copied();
    let into = server.fans.ins.get(caller_name).copied();
    let share = |count: u32, of: u32, by: u32| {
        let product = u64::from(count) * u64::from(of);
        let by = u64::from(by.max(1));
        if product.is_multiple_of(by) {
            u32::try_from(product / by).unwrap_or(u32::MAX)
        } else {
            1
        }
    };
    match (out, into) {
        (Some(out), None) => (out, share(out, caller.replicas, server.replicas)),
        (None, Some(into)) => (share(into, server.replicas, caller.replicas), into),
        (out, into) => (out.unwrap_or(1), into.unwrap_or(1)),
    }
}

fn copy_name(name: &str, copy: u32, replicas: u32) -> String {
    if replicas == 1 {
        return name.to_owned();
    }
    format!("{name}_{}", copy + 1)
}

fn processor_copies(draft: &ProcessorDraft) -> impl Iterator<Item = ProcessorDraft> + '_ {
    (0..draft.replicas).map(|copy| {
        let mut written = draft.clone();
        written.processor.name = copy_name(&draft.processor.name, copy, draft.replicas);
        written.replicas = 1;
        written
    })
}

fn task_copies(draft: &TaskDraft, servers: Option<&u32>) -> impl Iterator<Item = TaskDraft> {
    let servers = servers.copied().unwrap_or(1);
    let each = draft.replicas / servers;
    (0..draft.replicas).map(move |copy| {
        let mut written = draft.clone();
        written.task.name = copy_name(&draft.task.name, copy, draft.replicas);
        written.processor = copy_name(&draft.processor, copy / each, servers);
        written.replicas = 1;
        written.fans = Fans::default();
        written
    })
}

struct Places {
    task_of: HashMap<String, String>,
    callers: HashMap<String, Copied>,
}

impl Places {
    fn entry_copies(&self, draft: &EntryDraft) -> Vec<EntryDraft> {
        let Some(caller) = self.callers.get(&draft.task) else {
            return vec![draft.clone()];
        };
        let written = |copy: u32| {
            let mut written = draft.clone();
            written.entry.name = copy_name(&draft.entry.name, copy, caller.replicas);
            written.task = copy_name(&draft.task, copy, caller.replicas);
            written.calls.clear();
            written.forwards.clear();
            for call in &draft.calls {
                for target in self.targets(&draft.task, caller, &call.target, copy) {
                    let call = call.clone();
                    written.calls.push(CallDraft { target, ..call });
                }
            }
            for (line, target, probability) in &draft.forwards {
                for target in self.targets(&draft.task, caller, target, copy) {
                    written.forwards.push((*line, target, *probability));
                }
            }
            written
        };
        (0..caller.replicas).map(written).collect()
    }

    /// The copies of an entry that a copy of a caller calls.
    fn targets(&self, name: &str, caller: &Copied, target: &str, copy: u32) -> Vec<String> {
        let server = self.task_of.get(target);
        let Some((server, served)) = server.and_then(|task| Some((task, self.callers.get(task)?)))
        else {
            return vec![target.to_owned()];
        };
        let (out, _) = fans(name, caller, server, served);
        let first = u64::from(copy) * u64::from(out);
        (0..u64::from(out))
            .map(|step| (first + step) % u64::from(served.replicas))
            .map(|place| copy_name(target, u32::try_from(place).unwrap_or(0), served.replicas))
            .collect()
    }
}

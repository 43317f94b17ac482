//! Divides a model into parts that share no server and only send to each other.

use std::collections::BTreeSet;

use crate::model::{CallKind, EntryId, Model, Multiplicity, ProcessorId, TaskId};

/// Entries that share servers, and what drives them.
#[derive(Clone, Debug, Default)]
pub(super) struct Part {
    /// Reference tasks.
    pub(super) references: Vec<TaskId>,
    /// Entries with requests that nobody waits for.
    pub(super) streams: Vec<EntryId>,
}

/// What drives entries: a reference task, or requests that nobody waits for.
#[derive(Clone, Copy, Debug)]
enum Root {
    Reference(TaskId),
    Stream(EntryId),
}

/// Something that requests wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Server {
    Task(TaskId),
    Processor(ProcessorId),
}

impl Part {
    /// Whether the other part's requests come from here.
    pub(super) fn sends_to(&self, model: &Model, other: &Self) -> bool {
        let references = self.references.iter().map(|&task| model[task].entries[0]);
        let mut roots = references.chain(self.streams.iter().copied());
        let targets: Vec<_> = other
            .streams
            .iter()
            .map(|&entry| Root::Stream(entry))
            .collect();
        roots.any(|root| send(model, &reach(model, root), &targets).contains(&true))
    }
}

/// The parts, senders before those they send to.
pub(super) fn parts(model: &Model) -> Vec<Part> {
    let roots = roots(model);
    let reached: Vec<_> = roots
        .iter()
        .map(|root| reach(model, root.entry(model)))
        .collect();
    let mut groups: Vec<usize> = (0..roots.len()).collect();
    let servers: Vec<BTreeSet<Server>> = reached
        .iter()
        .map(|entries| servers(model, entries))
        .collect();
    for a in 0..roots.len() {
        for b in 0..a {
            if !servers[a].is_disjoint(&servers[b]) {
                join(&mut groups, a, b);
            }
        }
    }
    let sends = sends(model, &roots, &reached);
    loop {
        let before = after(&sends, &groups);
        let circle = (0..roots.len()).flat_map(|a| (0..roots.len()).map(move |b| (a, b)));
        let mut circle =
            circle.filter(|&(a, b)| groups[a] != groups[b] && before[a][b] && before[b][a]);
        let Some((a, b)) = circle.next() else {
            return in_order(&roots, &groups, &before);
        };
        join(&mut groups, a, b);
    }
}

fn roots(model: &Model) -> Vec<Root> {
    let references = (0..model.tasks.len())
        .map(TaskId)
        .filter(|&task| model[task].is_reference());
    let streams = (0..model.entries.len())
        .map(EntryId)
        .filter(|&entry| is_stream(model, entry));
    references
        .map(Root::Reference)
        .chain(streams.map(Root::Stream))
        .collect()
}

fn is_stream(model: &Model, entry: EntryId) -> bool {
    let calls = model
        .entries
        .iter()
        .flat_map(|entry| &entry.phases)
        .flat_map(|phase| &phase.calls);
    let mut sends = calls.filter(|call| call.kind == CallKind::Asynchronous && call.mean > 0.0);
    model[entry].open_arrival_rate > 0.0 || sends.any(|call| call.target == entry)
}

/// Entries that a request to this one visits, itself too.
fn reach(model: &Model, entry: EntryId) -> BTreeSet<EntryId> {
    let mut reached = BTreeSet::from([entry]);
    let mut left = vec![entry];
    while let Some(entry) = left.pop() {
        let calls = model[entry].phases.iter().flat_map(|phase| &phase.calls);
        let waited = calls
            .filter(|call| call.kind == CallKind::Synchronous)
            .map(|call| call.target);
        let forwards = model[entry].forwards.iter().map(|forward| forward.target);
        left.extend(
            waited
                .chain(forwards)
                .filter(|&target| reached.insert(target)),
        );
    }
    reached
}

fn servers(model: &Model, entries: &BTreeSet<EntryId>) -> BTreeSet<Server> {
    let mut servers = BTreeSet::new();
    for &entry in entries {
        let task = model[entry].task;
        if model[task].multiplicity != Multiplicity::Infinite && !model[task].is_reference() {
            servers.insert(Server::Task(task));
        }
        let processor = model[task].processor;
        if model[processor].servers() != Multiplicity::Infinite {
            servers.insert(Server::Processor(processor));
        }
    }
    servers
}

/// Which root's entries send to which root.
fn sends(model: &Model, roots: &[Root], reached: &[BTreeSet<EntryId>]) -> Vec<Vec<bool>> {
    reached
        .iter()
        .map(|from| send(model, from, roots))
        .collect()
}

/// Which of the roots these entries send to.
fn send(model: &Model, from: &BTreeSet<EntryId>, to: &[Root]) -> Vec<bool> {
    let phases = from.iter().flat_map(|&entry| &model[entry].phases);
    let sends = phases
        .flat_map(|phase| &phase.calls)
        .filter(|call| call.kind == CallKind::Asynchronous);
    let targets: BTreeSet<EntryId> = sends.map(|call| call.target).collect();
    let is_target = |root: &Root| matches!(root, Root::Stream(entry) if targets.contains(entry));
    to.iter().map(is_target).collect()
}

fn join(groups: &mut [usize], a: usize, b: usize) {
    let (from, to) = (groups[a].max(groups[b]), groups[a].min(groups[b]));
    groups
        .iter_mut()
        .filter(|group| **group == from)
        .for_each(|group| *group = to);
}

/// Whether b is sent to, over others too, by the group of a.
fn after(sends: &[Vec<bool>], groups: &[usize]) -> Vec<Vec<bool>> {
    let roots = groups.len();
    let mut after: Vec<Vec<bool>> = sends.to_vec();
    for a in 0..roots {
        for b in 0..roots {
            after[a][b] |= groups[a] == groups[b];
        }
    }
    for via in 0..roots {
        for a in 0..roots {
            for b in 0..roots {
                after[a][b] |= after[a][via] && after[via][b];
            }
        }
    }
    after
}

fn in_order(roots: &[Root], groups: &[usize], before: &[Vec<bool>]) -> Vec<Part> {
    let mut names: Vec<usize> = BTreeSet::from_iter(groups.iter().copied())
        .into_iter()
        .collect();
    // Whoever is after more comes later.
    let rank = |group: &usize| (0..roots.len()).filter(|&a| before[a][*group]).count();
    names.sort_by_key(rank);
    let part = |name: usize| {
        let mut part = Part::default();
        for (root, _) in roots
            .iter()
            .zip(groups)
            .filter(|(_, group)| **group == name)
        {
            match *root {
                Root::Reference(task) => part.references.push(task),
                Root::Stream(entry) => part.streams.push(entry),
            }
        }
        part
    };
    names.into_iter().map(part).collect()
}

impl Root {
    fn entry(self, model: &Model) -> EntryId {
        match self {
            Self::Reference(task) => model[task].entries[0],
            Self::Stream(entry) => entry,
        }
    }
}

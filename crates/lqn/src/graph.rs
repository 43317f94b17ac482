//! Activity graphs, written out as entries that call each other.
//!
//! Each activity becomes an entry of a task without a thread limit on the same processor, and the entry that the graph
//! is of calls them in their order. A choice becomes forwards with probabilities, a loop becomes calls, and branches
//! become calls at the same time. So solver and simulator know nothing of graphs.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    builder::{Builder, EntryDraft, Problem, TaskDraft},
    model::{CallOrder, Multiplicity},
};

/// The activities of a task and what comes after what.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    pub(crate) line: Option<u32>,
    pub(crate) task: String,
    /// By name. Each has a phase with its work and calls.
    pub(crate) activities: BTreeMap<String, EntryDraft>,
    /// Entries and the activities that they begin with.
    pub(crate) starts: Vec<(String, String)>,
    pub(crate) precedences: Vec<Precedence>,
    /// Activities and the entries to which they reply.
    pub(crate) replies: Vec<(String, String)>,
}

/// What comes before, and what after.
#[derive(Clone, Debug)]
pub(crate) struct Precedence {
    pub(crate) before: Before,
    pub(crate) after: After,
}

#[derive(Clone, Debug)]
pub(crate) enum Before {
    One(String),
    /// Any of them.
    Or(Vec<String>),
    /// So many of them; none: all.
    And(Vec<String>, Option<u32>),
}

#[derive(Clone, Debug)]
pub(crate) enum After {
    One(String),
    Or(Vec<(f64, String)>),
    And(Vec<String>),
    /// Mean numbers of what is repeated, and what comes at the end.
    Loop(Vec<(f64, String)>, Option<String>),
}

/// A part of a way through the graph.
enum Step {
    Activity(String),
    Or(Vec<(f64, Vec<Self>)>),
    And(Vec<Vec<Self>>, Option<u32>),
    Loop(Vec<(f64, Vec<Self>)>),
}

/// Deeper graphs are refused.
const DEPTH_MAX: usize = 16;

/// Writes all graphs out.
pub(crate) fn write_out(mut builder: Builder, problems: &mut Vec<Problem>) -> Builder {
    for graph in std::mem::take(&mut builder.graphs) {
        let line = graph.line;
        let written = Writer::new(&graph, &mut builder).and_then(|mut writer| writer.write());
        if let Err(message) = written {
            let message = format!("activities of task {}: {message}", graph.task);
            problems.push(Problem { line, message });
        }
    }
    builder
}

impl Before {
    fn names(&self) -> Vec<&String> {
        match self {
            Self::One(name) => vec![name],
            Self::Or(names) | Self::And(names, _) => names.iter().collect(),
        }
    }
}

struct Writer<'a> {
    graph: &'a Graph,
    builder: &'a mut Builder,
    task: TaskDraft,
    /// The tasks of activities, by how deep they stand.
    levels: Vec<String>,
    /// Entries that were made for each.
    made: usize,
    /// What is written, so that nothing runs in circles.
    used: BTreeSet<String>,
}

impl<'a> Writer<'a> {
    fn new(graph: &'a Graph, builder: &'a mut Builder) -> Result<Self, String> {
        let mut tasks = builder.tasks.iter();
        let task = tasks.find(|draft| draft.task.name == graph.task).cloned();
        let task = task.ok_or_else(|| "the task is not in the model".to_owned())?;
        if task.replicas != 1 {
            return Err(
                "a task with copies (r, replication) has no graph: write the copies out".to_owned(),
            );
        }
        Ok(Self {
            graph,
            builder,
            task,
            levels: Vec::new(),
            made: 0,
            used: BTreeSet::new(),
        })
    }

    fn write(&mut self) -> Result<(), String> {
        for (entry, start) in &self.graph.starts {
            self.used.clear();
            let (steps, join) = self.way(start, 0)?;
            if join.is_some() {
                return Err(format!(
                    "entry {entry} comes to a join without a fork before it"
                ));
            }
            self.write_entry(entry, &steps)?;
        }
        Ok(())
    }

    /// The way from an activity to the graph's end, or to a join of several.
    fn way(&mut self, from: &str, depth: usize) -> Result<(Vec<Step>, Option<usize>), String> {
        if depth > DEPTH_MAX {
            return Err(format!("forks stand more than {DEPTH_MAX} deep"));
        }
        let (mut steps, mut at) = (Vec::new(), from.to_owned());
        loop {
            if !self.graph.activities.contains_key(&at) {
                return Err(format!(
                    "{at} is no activity: write its work, as in `s {at} 0.5`"
                ));
            }
            if !self.used.insert(at.clone()) {
                return Err(format!(
                    "{at} comes after itself: write what is repeated as a loop, a -> 3 * b, c"
                ));
            }
            steps.push(Step::Activity(at.clone()));
            let Some((place, next)) = self.after(&at)? else {
                return Ok((steps, None));
            };
            if next.before.names().len() > 1 {
                return Ok((steps, Some(place)));
            }
            let goes_on = self.follow(&next.after, &mut steps, depth)?;
            match goes_on {
                Some(next) => at = next,
                None => return Ok((steps, None)),
            }
        }
    }

    /// Adds what comes after a single activity; returns the activity that goes on.
    fn follow(
        &mut self,
        after: &After,
        steps: &mut Vec<Step>,
        depth: usize,
    ) -> Result<Option<String>, String> {
        let (fork, join) = match after {
            After::One(next) => return Ok(Some(next.clone())),
            After::Loop(bodies, end) => {
                let mut repeated = Vec::new();
                for (times, body) in bodies {
                    let (steps, join) = self.way(body, depth + 1)?;
                    if join.is_some() {
                        return Err(format!("the loop over {body} ends in a join"));
                    }
                    repeated.push((*times, steps));
                }
                steps.push(Step::Loop(repeated));
                return Ok(end.clone());
            }
            After::Or(choices) => {
                let total: f64 = choices.iter().map(|choice| choice.0).sum();
                if (total - 1.0).abs() > 1e-6 {
                    return Err(format!(
                        "the probabilities of a choice add up to {total}: they must add up to 1"
                    ));
                }
                let names = choices.iter().map(|choice| &choice.1);
                let (ways, join) = self.ways(names, depth)?;
                let shares = choices.iter().map(|choice| choice.0);
                (Step::Or(shares.zip(ways).collect()), join)
            }
            After::And(branches) => {
                let (ways, join) = self.ways(branches.iter(), depth)?;
                let quorum = match join.map(|join| &self.graph.precedences[join].before) {
                    Some(Before::And(_, quorum)) => *quorum,
                    Some(_) => {
                        return Err(
                            "what goes on in parallel ends in an or-join: write an and-join, b & c -> d".to_owned(),
                        );
                    }
                    None => None,
                };
                (Step::And(ways, quorum), join)
            }
        };
        steps.push(fork);
        let Some(join) = join else { return Ok(None) };
        match &self.graph.precedences[join].after {
            After::One(next) => Ok(Some(next.clone())),
            After::Or(_) | After::And(_) | After::Loop(..) => Err(
                "a fork or a loop follows a join at once: put an activity without work between them"
                    .to_owned(),
            ),
        }
    }

    /// Branches, and the join in which all of them end.
    fn ways<'b>(
        &mut self,
        names: impl Iterator<Item = &'b String>,
        depth: usize,
    ) -> Result<(Vec<Vec<Step>>, Option<usize>), String> {
        let (mut ways, mut joins) = (Vec::new(), BTreeSet::new());
        for name in names {
            let (way, join) = self.way(name, depth + 1)?;
            ways.push(way);
            joins.insert(join);
        }
        if joins.len() > 1 {
            return Err(
                "the branches of a fork end in different places: let all end in one join, or none"
                    .to_owned(),
            );
        }
        let join = joins.into_iter().next().flatten();
        if let Some(join) = join
            && self.graph.precedences[join].before.names().len() != ways.len()
        {
            return Err(
                "a join takes other branches than the fork before it has: give each fork its own join"
                    .to_owned(),
            );
        }
        Ok((ways, join))
    }

    /// The precedence whose first half has an activity.
    fn after(&self, activity: &str) -> Result<Option<(usize, &'a Precedence)>, String> {
        let has = |it: &&(usize, &'a Precedence)| {
            it.1.before.names().iter().any(|name| *name == activity)
        };
        let all = self.graph.precedences.iter().enumerate();
        let found: Vec<_> = all.filter(|it| has(&it)).collect();
        match found[..] {
            [] => Ok(None),
            [one] => Ok(Some(one)),
            _ => Err(format!(
                "two things come after {activity}: write one, or a fork"
            )),
        }
    }

    /// The entry that the graph is of: what comes before its reply is its first phase.
    fn write_entry(&mut self, entry: &str, steps: &[Step]) -> Result<(), String> {
        let replying: Vec<&String> = self
            .graph
            .replies
            .iter()
            .filter(|reply| reply.1 == entry)
            .map(|reply| &reply.0)
            .collect();
        let is_reply =
            |step: &Step| matches!(step, Step::Activity(name) if replying.contains(&name));
        let last = steps.iter().position(is_reply);
        let first_phase = match (last, replying.is_empty()) {
            (Some(last), _) => last + 1,
            (None, true) => steps.len(),
            (None, false) => {
                return Err(format!(
                    "the reply to {entry} stands in a branch or a loop: let an activity after the join reply"
                ));
            }
        };
        let phases = [&steps[..first_phase], &steps[first_phase..]];
        for (phase, steps) in phases.into_iter().enumerate().filter(|it| !it.1.is_empty()) {
            let targets = self.write_steps(steps, 0)?;
            let draft = self.builder.entry_mut(entry);
            let draft = draft.ok_or_else(|| format!("no task has an entry {entry}"))?;
            draft.phase(phase).order = CallOrder::Deterministic;
            let mut means = vec![0.0; phase + 1];
            means[phase] = 1.0;
            for target in targets {
                draft.calls(&target, &means);
            }
        }
        Ok(())
    }

    /// Entries for the steps, to be called in their order.
    fn write_steps(&mut self, steps: &[Step], level: usize) -> Result<Vec<String>, String> {
        steps
            .iter()
            .map(|step| self.write_step(step, level))
            .collect()
    }

    fn write_step(&mut self, step: &Step, level: usize) -> Result<String, String> {
        match step {
            Step::Activity(activity) => {
                let draft = self.graph.activities[activity].clone();
                let name = self.name(activity);
                let made = self.add(&name, level);
                made.line = draft.line;
                made.entry.phases = draft.entry.phases;
                made.calls = draft.calls;
                Ok(name)
            }
            Step::Or(ways) => {
                let name = self.name("choice");
                let mut targets = Vec::new();
                for (share, way) in ways {
                    targets.push((*share, self.write_way(way, level + 1)?));
                }
                let made = self.add(&name, level);
                for (share, target) in targets {
                    made.forwards(&target, share);
                }
                Ok(name)
            }
            Step::And(ways, quorum) => {
                let name = self.name("fork");
                let targets: Result<Vec<String>, String> = ways
                    .iter()
                    .map(|way| self.write_way(way, level + 1))
                    .collect();
                let targets = targets?;
                let number = targets.len() as u32;
                let quorum = quorum.unwrap_or(number);
                if !(1..=number).contains(&quorum) {
                    return Err(format!(
                        "a join waits for {quorum} of {number} branches: write 1 to {number}"
                    ));
                }
                let made = self.add(&name, level);
                made.phase(0).order = CallOrder::Deterministic;
                made.phase(0).quorum = Some(quorum);
                for target in targets {
                    made.calls(&target, &[1.0]);
                }
                Ok(name)
            }
            Step::Loop(bodies) => {
                let name = self.name("loop");
                let mut targets = Vec::new();
                for (times, body) in bodies {
                    targets.push((*times, self.write_way(body, level + 1)?));
                }
                let is_whole = bodies.iter().all(|body| body.0.fract() == 0.0);
                let made = self.add(&name, level);
                if is_whole {
                    made.phase(0).order = CallOrder::Deterministic;
                }
                for (times, target) in targets {
                    made.calls(&target, &[times]);
                }
                Ok(name)
            }
        }
    }

    /// One entry for a way of one or several steps.
    fn write_way(&mut self, steps: &[Step], level: usize) -> Result<String, String> {
        if let [step] = steps {
            return self.write_step(step, level);
        }
        let targets = self.write_steps(steps, level + 1)?;
        let name = self.name("way");
        let made = self.add(&name, level);
        made.phase(0).order = CallOrder::Deterministic;
        for target in targets {
            made.calls(&target, &[1.0]);
        }
        Ok(name)
    }

    fn name(&mut self, what: &str) -> String {
        let taken = |name: &str| self.builder.entries.iter().any(|it| it.entry.name == name);
        let plain = format!("{}.{what}", self.graph.task);
        if !taken(&plain) {
            return plain;
        }
        loop {
            self.made += 1;
            let name = format!("{plain}.{}", self.made);
            if !taken(&name) {
                return name;
            }
        }
    }

    /// An entry of the activities' task at a level; deeper ones are called by those above.
    fn add(&mut self, name: &str, level: usize) -> &mut EntryDraft {
        while self.levels.len() <= level {
            let task = format!("{}.{}", self.graph.task, self.levels.len() + 1);
            let draft = self.builder.task(&task, &self.task.processor);
            draft.priority(self.task.task.priority);
            draft.multiplicity(Multiplicity::Infinite).line = self.graph.line;
            self.levels.push(task);
        }
        self.builder.line = self.graph.line;
        self.builder.entry(name, &self.levels[level])
    }
}

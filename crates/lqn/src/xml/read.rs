//! Reads a model from `.lqnx` XML.

use roxmltree::{Document, Node};

use super::locking::locking;
use crate::{
    builder::{Builder, EntryDraft, PHASES_MAX, Problem},
    model::{CallKind, CallOrder, Locking, Model, Multiplicity, Phase, Scheduling},
    refused,
};

impl Model {
    /// Reads LQNS's `.lqnx` XML, and writes copies (replication) and activity graphs out as parts of
    /// their own. It ignores results in the file.
    ///
    /// # Errors
    /// Every problem, with its line.
    pub fn from_xml(text: &str) -> Result<Self, Vec<Problem>> {
        let document = Document::parse(text).map_err(|error| {
            let line = Some(error.pos().row);
            vec![Problem {
                line,
                message: format!("this is not XML: {error}"),
            }]
        })?;
        let mut reader = Reader {
            document: &document,
            builder: Builder::default(),
            problems: Vec::new(),
        };
        reader.model(document.root_element());
        reader.builder.build_despite(reader.problems)
    }
}

pub(super) struct Reader<'a> {
    document: &'a Document<'a>,
    pub(super) builder: Builder,
    problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    fn model(&mut self, root: Node<'a, 'a>) {
        if !root.has_tag_name("lqn-model") {
            self.say(root, "the outermost element is not lqn-model".to_owned());
        }
        for child in elements(root) {
            match child.tag_name().name() {
                "solver-params" => self
                    .builder
                    .comment(child.attribute("comment").unwrap_or_default()),
                "processor" => self.processor(child),
                "slot" | "lqx" => self.say(
                    child,
                    format!("<{}> is not supported", child.tag_name().name()),
                ),
                _ => {}
            }
        }
    }

    fn processor(&mut self, node: Node<'a, 'a>) {
        let Some(name) = self.name(node) else { return };
        let quantum = self.number(node, "quantum").unwrap_or(0.1);
        let mut scheduling = match node.attribute("scheduling").unwrap_or("fcfs") {
            "fcfs" => Scheduling::Fcfs,
            "ps" => Scheduling::Sharing { quantum },
            "inf" => Scheduling::Delay,
            "hol" => Scheduling::HeadOfLine,
            // The schema says pp, LQNS reads and writes pri.
            "pp" | "pri" => Scheduling::PreemptiveResume,
            other => {
                let message = match other {
                    "cfs" => refused::GROUPS,
                    "rand" => refused::RANDOM,
                    "ps-hol" | "ps-pp" => refused::SHARING_BY_PRIORITY,
                    _ => "use fcfs, hol, pp, ps or inf",
                };
                self.say(node, format!("scheduling=\"{other}\": {message}"));
                Scheduling::Fcfs
            }
        };
        let multiplicity = match self.multiplicity(node) {
            Multiplicity::Finite(number) => number,
            Multiplicity::Infinite => {
                scheduling = Scheduling::Delay;
                1
            }
        };
        let replicas = self.count(node, "replication").unwrap_or(1);
        let speed = self.number(node, "speed-factor").unwrap_or(1.0);
        let line = self.line(node);
        self.builder
            .at(line)
            .processor(name, scheduling)
            .multiplicity(multiplicity)
            .replicas(replicas)
            .speed(speed);
        for child in elements(node) {
            match child.tag_name().name() {
                "task" => self.task(child, name),
                "group" => self.say(child, refused::GROUPS.to_owned()),
                _ => {}
            }
        }
    }

    fn task(&mut self, node: Node<'a, 'a>, processor: &str) {
        let Some(name) = self.name(node) else { return };
        let multiplicity = self.multiplicity(node);
        let replicas = self.count(node, "replication").unwrap_or(1);
        let tokens = self.count(node, "initially");
        let priority = self.count(node, "priority").unwrap_or(0);
        let fans = self.fans(node);
        let think_time = self.number(node, "think-time");
        let queue_length = self
            .count(node, "queue-length")
            .filter(|&length| length > 0);
        let scheduling = node.attribute("scheduling").unwrap_or("fcfs");
        if !matches!(scheduling, "ref" | "fcfs" | "inf" | "semaphore" | "rwlock") {
            let message = match scheduling {
                "hol" | "pri" => refused::ENTRY_PRIORITIES,
                "poll" => refused::POLLING,
                "burst" | "uniform" => refused::BURSTS,
                _ => "use ref, fcfs, inf, semaphore or rwlock",
            };
            self.say(node, format!("scheduling=\"{scheduling}\": {message}"));
        }
        let line = self.line(node);
        let builder = self.builder.at(line);
        let draft = match scheduling {
            "ref" => builder.reference(name, processor),
            "semaphore" => builder.semaphore(name, processor),
            "rwlock" => builder.read_write_lock(name, processor),
            _ => builder.task(name, processor),
        };
        draft.multiplicity(if scheduling == "inf" {
            Multiplicity::Infinite
        } else {
            multiplicity
        });
        draft.replicas(replicas).priority(priority);
        for (inward, task, copies) in fans {
            if inward {
                draft.fan_in(task, copies);
            } else {
                draft.fan_out(task, copies);
            }
        }
        if let Some(time) = think_time {
            draft.think_time(time);
        }
        if let Some(length) = queue_length {
            draft.queue_length(length);
        }
        if let Some(tokens) = tokens {
            draft.initially(tokens);
        }
        for child in elements(node) {
            match child.tag_name().name() {
                "entry" => self.entry(child, name),
                "task-activities" => self.graph(child, name),
                _ => {}
            }
        }
    }

    /// The fan-ins (true) and fan-outs of a task.
    fn fans(&mut self, node: Node<'a, 'a>) -> Vec<(bool, &'a str, u32)> {
        let mut fans = Vec::new();
        for child in elements(node) {
            let (inward, other) = match child.tag_name().name() {
                "fan-in" => (true, "source"),
                "fan-out" => (false, "dest"),
                _ => continue,
            };
            let task = self.required(child, other);
            self.required(child, "value");
            let copies = self.count(child, "value");
            if let (Some(task), Some(copies)) = (task, copies) {
                fans.push((inward, task, copies));
            }
        }
        fans
    }

    fn entry(&mut self, node: Node<'a, 'a>, task: &str) {
        let Some(name) = self.name(node) else { return };
        let rate = self.number(node, "open-arrival-rate").unwrap_or(0.0);
        let line = self.line(node);
        let locking = self.locking(node);
        let draft = self.builder.at(line).entry(name, task);
        draft.open_arrivals(rate);
        if let Some(locking) = locking {
            draft.locking(locking);
        }
        for child in elements(node) {
            match child.tag_name().name() {
                "forwarding" => {
                    let Some(target) = self.target(child) else {
                        continue;
                    };
                    let probability = self.number(child, "prob").unwrap_or(1.0);
                    let line = Some(self.line(child));
                    if let Some(entry) = self.builder.entry_mut(name) {
                        entry.add_forward(line, target, probability);
                    }
                }
                "entry-phase-activities" => elements(child)
                    .filter(|activity| activity.has_tag_name("activity"))
                    .for_each(|activity| self.activity(activity, name)),
                _ => {}
            }
        }
    }

    fn locking(&mut self, node: Node<'a, 'a>) -> Option<Locking> {
        let (key, value) = ["semaphore", "rwlock"]
            .into_iter()
            .find_map(|key| Some((key, node.attribute(key)?)))?;
        let found = locking(key, value);
        if found.is_none() {
            let message = match key {
                "semaphore" => "write wait or signal",
                _ => "write r-lock, r-unlock, w-lock or w-unlock",
            };
            self.say(node, format!("{key}=\"{value}\": {message}"));
        }
        found
    }

    fn activity(&mut self, node: Node<'a, 'a>, entry: &str) {
        let phase = self.count(node, "phase").unwrap_or(1) as usize;
        if !(1..=PHASES_MAX).contains(&phase) {
            return self.say(node, format!("phase=\"{phase}\": write 1 to {PHASES_MAX}"));
        }
        let mut work = self.work(node, phase - 1);
        if let Some(draft) = self.builder.entry_mut(entry) {
            *draft.phase(phase - 1) = work.phase(phase - 1).clone();
            draft.calls.append(&mut work.calls);
        }
    }

    /// What an activity does, as a phase of an entry.
    pub(super) fn work(&mut self, node: Node<'a, 'a>, place: usize) -> EntryDraft {
        let service_time = self.number(node, "host-demand-mean").unwrap_or(0.0);
        let cvsq = self.number(node, "host-demand-cvsq").unwrap_or(1.0);
        let think_time = self.number(node, "think-time").unwrap_or(0.0);
        let order = match node.attribute("call-order") {
            Some("DETERMINISTIC") => CallOrder::Deterministic,
            Some("STOCHASTIC") | None => CallOrder::Stochastic,
            Some(other) => {
                self.say(
                    node,
                    format!("call-order=\"{other}\": use STOCHASTIC or DETERMINISTIC"),
                );
                CallOrder::Stochastic
            }
        };
        let mut draft = EntryDraft::new("", "", Some(self.line(node)));
        *draft.phase(place) = Phase {
            service_time,
            cvsq,
            think_time,
            order,
            ..Phase::default()
        };
        for child in elements(node) {
            let kind = match child.tag_name().name() {
                "synch-call" => CallKind::Synchronous,
                "asynch-call" => CallKind::Asynchronous,
                _ => continue,
            };
            let Some(target) = self.target(child) else {
                continue;
            };
            let mut means = vec![0.0; place + 1];
            means[place] = self.number(child, "calls-mean").unwrap_or(1.0);
            let line = Some(self.line(child));
            draft.add_calls(line, target, &means, kind);
        }
        draft
    }

    pub(super) fn name(&mut self, node: Node<'a, 'a>) -> Option<&'a str> {
        self.required(node, "name")
    }

    fn target(&mut self, node: Node<'a, 'a>) -> Option<&'a str> {
        self.required(node, "dest")
    }

    pub(super) fn required(&mut self, node: Node<'a, 'a>, attribute: &str) -> Option<&'a str> {
        let value = node.attribute(attribute);
        if value.is_none() {
            self.say(
                node,
                format!("<{}> has no {attribute}", node.tag_name().name()),
            );
        }
        value
    }

    fn multiplicity(&mut self, node: Node<'a, 'a>) -> Multiplicity {
        match node.attribute("multiplicity") {
            Some("@infinity") => Multiplicity::Infinite,
            _ => Multiplicity::Finite(self.count(node, "multiplicity").unwrap_or(1)),
        }
    }

    pub(super) fn number(&mut self, node: Node<'a, 'a>, attribute: &str) -> Option<f64> {
        let value = node.attribute(attribute)?;
        let number = value
            .parse::<f64>()
            .ok()
            .filter(|number| number.is_finite());
        if number.is_none() {
            self.say(node, format!("{attribute}=\"{value}\": expected a number"));
        }
        number
    }

    pub(super) fn count(&mut self, node: Node<'a, 'a>, attribute: &str) -> Option<u32> {
        let value = node.attribute(attribute)?;
        let count = value.parse().ok();
        if count.is_none() {
            self.say(
                node,
                format!("{attribute}=\"{value}\": expected a whole number"),
            );
        }
        count
    }

    pub(super) fn say(&mut self, node: Node<'a, 'a>, message: String) {
        let line = Some(self.line(node));
        self.problems.push(Problem { line, message });
    }

    pub(super) fn line(&self, node: Node<'a, 'a>) -> u32 {
        self.document.text_pos_at(node.range().start).row
    }
}

pub(super) fn elements<'a>(node: Node<'a, 'a>) -> impl Iterator<Item = Node<'a, 'a>> {
    node.children().filter(Node::is_element)
}

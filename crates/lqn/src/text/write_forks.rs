//! Writes entries whose calls go out at the same time as activity graphs.

use std::fmt::Write;

use crate::model::{CallKind, Entry, Model, Task};

impl Entry {
    /// The number of replies that its only phase waits for, if that makes all its calls at the same time.
    pub(crate) fn quorum(&self) -> Option<u32> {
        self.phases.first().and_then(|phase| phase.quorum)
    }

    /// The branches that a written join waits for. One that only sends has ended at once.
    pub(crate) fn joined(&self) -> u32 {
        let calls = self.phases.iter().flat_map(|phase| &phase.calls);
        let sent = calls.filter(|call| call.kind == CallKind::Asynchronous);
        self.quorum().unwrap_or(1) + sent.count() as u32
    }
}

impl Model {
    /// Section A of each task with forks.
    pub(super) fn text_forks(&self, out: &mut String) {
        for task in &self.tasks {
            let entries = task.entries.iter().map(|&entry| &self[entry]);
            let forks: Vec<&Entry> = entries.filter(|entry| entry.quorum().is_some()).collect();
            if !forks.is_empty() {
                self.text_graph(out, task, &forks);
            }
        }
    }

    fn text_graph(&self, out: &mut String, task: &Task, forks: &[&Entry]) {
        let mut text = format!("A {}\n", task.name);
        let mut order = Vec::new();
        for entry in forks {
            let (name, phase) = (&entry.name, &entry.phases[0]);
            let mut branches = Vec::new();
            for (place, call) in phase.calls.iter().enumerate() {
                let (target, mean) = (&self[call.target].name, call.mean);
                let letter = match call.kind {
                    CallKind::Synchronous => 'y',
                    CallKind::Asynchronous => 'z',
                };
                let branch = format!("{name}.{place}");
                text +=
                    &format!(" s {branch} 0\n {letter} {branch} {target} {mean}\n f {branch} 1\n");
                branches.push(branch);
            }
            let (work, cvsq) = (phase.service_time, phase.cvsq);
            text += &format!(" s {name}.all {work}\n c {name}.all {cvsq}\n s {name}.join 0\n");
            let (branches, quorum) = (branches.join(" & "), entry.joined());
            order.push(format!(
                " {name}.all -> {branches};\n {branches} ({quorum}) -> {name}.join[{name}]"
            ));
        }
        writeln!(out, "{text}:\n{}\n-1", order.join(";\n")).expect("a string takes all");
    }
}

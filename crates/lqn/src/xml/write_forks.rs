//! Writes entries whose calls go out at the same time as activity graphs.

use std::fmt::Display;

use super::write::Xml;
use crate::model::{CallKind, Entry, Model, Task};

impl Model {
    /// The activities of a task with forks.
    pub(super) fn write_forks(&self, xml: &mut Xml, task: &Task) {
        let entries = task.entries.iter().map(|&entry| &self[entry]);
        let forks: Vec<&Entry> = entries.filter(|entry| entry.quorum().is_some()).collect();
        if forks.is_empty() {
            return;
        }
        xml.open("task-activities", &[]);
        forks
            .iter()
            .for_each(|entry| self.fork_activities(xml, entry));
        for entry in &forks {
            let (all, join) = (
                format!("{}.all", entry.name),
                format!("{}.join", entry.name),
            );
            let branches: Vec<String> = branches(entry);
            let listed = |xml: &mut Xml,
                          tag: &str,
                          attributes: &[(&str, &dyn Display)],
                          names: &[String]| {
                xml.open(tag, attributes);
                for name in names {
                    xml.empty("activity", &[("name", name)]);
                }
                xml.close(tag);
            };
            xml.open("precedence", &[]);
            listed(xml, "pre", &[], &[all]);
            listed(xml, "post-and", &[], &branches);
            xml.close("precedence");
            xml.open("precedence", &[]);
            let quorum = entry.joined();
            listed(xml, "pre-and", &[("quorum", &quorum)], &branches);
            listed(xml, "post", &[], &[join]);
            xml.close("precedence");
        }
        for entry in &forks {
            let join = format!("{}.join", entry.name);
            xml.open("reply-entry", &[("name", &entry.name)]);
            xml.empty("reply-activity", &[("name", &join)]);
            xml.close("reply-entry");
        }
        xml.close("task-activities");
    }

    fn fork_activities(&self, xml: &mut Xml, entry: &Entry) {
        let (name, phase) = (&entry.name, &entry.phases[0]);
        xml.empty(
            "activity",
            &[
                ("name", &format!("{name}.all")),
                ("bound-to-entry", name),
                ("host-demand-mean", &phase.service_time),
                ("host-demand-cvsq", &phase.cvsq),
            ],
        );
        xml.empty(
            "activity",
            &[("name", &format!("{name}.join")), ("host-demand-mean", &0)],
        );
        for (branch, call) in branches(entry).iter().zip(&phase.calls) {
            let element = match call.kind {
                CallKind::Synchronous => "synch-call",
                CallKind::Asynchronous => "asynch-call",
            };
            xml.open(
                "activity",
                &[
                    ("name", branch),
                    ("host-demand-mean", &0),
                    ("call-order", &"DETERMINISTIC"),
                ],
            );
            let target = &self[call.target].name;
            xml.empty(element, &[("dest", target), ("calls-mean", &call.mean)]);
            xml.close("activity");
        }
    }
}

fn branches(entry: &Entry) -> Vec<String> {
    let calls = 0..entry.phases[0].calls.len();
    calls
        .map(|place| format!("{}.{place}", entry.name))
        .collect()
}

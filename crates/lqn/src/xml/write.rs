//! Writes a model as `.lqnx` XML.

use std::fmt::{Display, Write};

use super::locking::attribute;
use crate::model::{
    CallKind, CallOrder, Entry, Model, Multiplicity, Phase, Processor, ProcessorId, Role,
    Scheduling, Task,
};

impl Model {
    /// LQNS's `.lqnx` XML, which [`Model::from_xml`] reads back to the same model if tasks of one
    /// processor stand together, as XML has them.
    #[must_use]
    pub fn to_xml(&self) -> String {
        let mut xml = Xml {
            text: "<?xml version=\"1.0\"?>\n".to_owned(),
            depth: 0,
        };
        xml.open("lqn-model", &[("name", &"model")]);
        xml.empty(
            "solver-params",
            &[
                ("comment", &self.comment),
                ("conv_val", &1e-6),
                ("it_limit", &200),
                ("underrelax_coeff", &0.9),
                ("print_int", &1),
            ],
        );
        for (place, processor) in self.processors.iter().enumerate() {
            self.write_processor(&mut xml, ProcessorId(place), processor);
        }
        xml.close("lqn-model");
        xml.text
    }

    fn write_processor(&self, xml: &mut Xml, id: ProcessorId, processor: &Processor) {
        let Processor {
            name,
            scheduling,
            multiplicity,
            speed,
        } = processor;
        let mut attributes: Vec<(&str, &dyn Display)> = vec![("name", name)];
        match scheduling {
            Scheduling::Fcfs => attributes.push(("scheduling", &"fcfs")),
            Scheduling::HeadOfLine => attributes.push(("scheduling", &"hol")),
            Scheduling::PreemptiveResume => attributes.push(("scheduling", &"pri")),
            Scheduling::Sharing { quantum } => {
                attributes.extend([("scheduling", &"ps" as &dyn Display), ("quantum", quantum)])
            }
            Scheduling::Delay => attributes.push(("scheduling", &"inf")),
        }
        if *multiplicity != 1 {
            attributes.push(("multiplicity", multiplicity));
        }
        if *speed != 1.0 {
            attributes.push(("speed-factor", speed));
        }
        xml.open("processor", &attributes);
        for task in self.tasks.iter().filter(|task| task.processor == id) {
            self.write_task(xml, task);
        }
        xml.close("processor");
    }

    fn write_task(&self, xml: &mut Xml, task: &Task) {
        let think_time = task.think_time();
        let mut attributes: Vec<(&str, &dyn Display)> = vec![("name", &task.name)];
        attributes.push(match (task.role, task.multiplicity) {
            (Role::Reference { .. }, _) => ("scheduling", &"ref"),
            (Role::Server, Multiplicity::Infinite) => ("scheduling", &"inf"),
            (Role::Server, Multiplicity::Finite(_)) => ("scheduling", &"fcfs"),
            (Role::Semaphore { .. }, _) => ("scheduling", &"semaphore"),
            (Role::ReadWriteLock, _) => ("scheduling", &"rwlock"),
        });
        if let Multiplicity::Finite(number) = &task.multiplicity
            && *number != 1
        {
            attributes.push(("multiplicity", number));
        }
        if task.priority != 0 {
            attributes.push(("priority", &task.priority));
        }
        if think_time > 0.0 {
            attributes.push(("think-time", &think_time));
        }
        if let Some(length) = &task.queue_length {
            attributes.push(("queue-length", length));
        }
        if let Role::Semaphore {
            initially: Some(tokens),
        } = &task.role
        {
            attributes.push(("initially", tokens));
        }
        xml.open("task", &attributes);
        task.entries
            .iter()
            .for_each(|&entry| self.write_entry(xml, &self[entry]));
        self.write_forks(xml, task);
        xml.close("task");
    }

    fn write_entry(&self, xml: &mut Xml, entry: &Entry) {
        let kind = match entry.quorum() {
            Some(_) => "NONE",
            None => "PH1PH2",
        };
        let mut attributes: Vec<(&str, &dyn Display)> =
            vec![("name", &entry.name), ("type", &kind)];
        let locking = entry.locking.map(attribute);
        if let Some((key, value)) = &locking {
            attributes.push((key, value));
        }
        if entry.open_arrival_rate > 0.0 {
            attributes.push(("open-arrival-rate", &entry.open_arrival_rate));
        }
        if entry.quorum().is_some() {
            return xml.empty("entry", &attributes);
        }
        xml.open("entry", &attributes);
        for forward in &entry.forwards {
            xml.empty(
                "forwarding",
                &[
                    ("dest", &self[forward.target].name),
                    ("prob", &forward.probability),
                ],
            );
        }
        xml.open("entry-phase-activities", &[]);
        for (place, phase) in entry.phases.iter().enumerate() {
            self.write_phase(xml, &entry.name, place + 1, phase);
        }
        xml.close("entry-phase-activities");
        xml.close("entry");
    }

    fn write_phase(&self, xml: &mut Xml, entry: &str, number: usize, phase: &Phase) {
        let name = format!("{entry}_{number}");
        let mut attributes: Vec<(&str, &dyn Display)> = vec![
            ("name", &name),
            ("phase", &number),
            ("host-demand-mean", &phase.service_time),
        ];
        if phase.cvsq != 1.0 {
            attributes.push(("host-demand-cvsq", &phase.cvsq));
        }
        if phase.think_time > 0.0 {
            attributes.push(("think-time", &phase.think_time));
        }
        if phase.order == CallOrder::Deterministic {
            attributes.push(("call-order", &"DETERMINISTIC"));
        }
        xml.open("activity", &attributes);
        for call in &phase.calls {
            let element = match call.kind {
                CallKind::Synchronous => "synch-call",
                CallKind::Asynchronous => "asynch-call",
            };
            xml.empty(
                element,
                &[
                    ("dest", &self[call.target].name),
                    ("calls-mean", &call.mean),
                ],
            );
        }
        xml.close("activity");
    }
}

pub(super) struct Xml {
    text: String,
    depth: usize,
}

impl Xml {
    pub(super) fn open(&mut self, name: &str, attributes: &[(&str, &dyn Display)]) {
        self.tag(name, attributes, ">");
        self.depth += 1;
    }

    pub(super) fn empty(&mut self, name: &str, attributes: &[(&str, &dyn Display)]) {
        self.tag(name, attributes, "/>");
    }

    pub(super) fn close(&mut self, name: &str) {
        self.depth -= 1;
        self.tag(&format!("/{name}"), &[], ">");
    }

    fn tag(&mut self, name: &str, attributes: &[(&str, &dyn Display)], end: &str) {
        let Self { text, depth } = self;
        text.extend(std::iter::repeat_n("  ", *depth));
        write!(text, "<{name}").expect("a string takes all");
        for (key, value) in attributes {
            let value = escaped(&value.to_string());
            write!(text, " {key}=\"{value}\"").expect("a string takes all");
        }
        text.push_str(end);
        text.push('\n');
    }
}

fn escaped(text: &str) -> String {
    let text = text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\n', "&#10;")
}

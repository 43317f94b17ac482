//! Writes a model as `.lqn` text.

use std::fmt::Write;

use super::locking::letter;
use crate::model::{CallKind, CallOrder, Entry, Model, Multiplicity, Phase, Role, Scheduling};

impl Model {
    /// LQNS's `.lqn` text, which [`Model::from_text`] reads back to the same model, or to one with the same meaning if
    /// it has forks.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut out = format!(
            "G \"{}\" 1e-6 200 1 0.9 -1\n",
            self.comment.replace('"', "'")
        );
        self.text_processors(&mut out);
        self.text_tasks(&mut out);
        line(&mut out, format_args!("E {}", self.entries.len()));
        self.entries
            .iter()
            .for_each(|entry| self.text_entry(&mut out, entry));
        out.push_str("-1\n");
        self.text_forks(&mut out);
        out
    }

    fn text_processors(&self, out: &mut String) {
        line(out, format_args!("P {}", self.processors.len()));
        for processor in &self.processors {
            let scheduling = match processor.scheduling {
                Scheduling::Fcfs => "f".to_owned(),
                Scheduling::HeadOfLine => "h".to_owned(),
                Scheduling::PreemptiveResume => "p".to_owned(),
                Scheduling::Sharing { quantum } => format!("s {quantum}"),
                Scheduling::Delay => "i".to_owned(),
            };
            let mut options = String::new();
            if processor.multiplicity != 1 {
                options = format!(" m {}", processor.multiplicity);
            }
            if processor.speed != 1.0 {
                options += &format!(" R {}", processor.speed);
            }
            line(
                out,
                format_args!(" p {} {scheduling}{options}", processor.name),
            );
        }
        out.push_str("-1\n");
    }

    fn text_tasks(&self, out: &mut String) {
        line(out, format_args!("T {}", self.tasks.len()));
        for task in &self.tasks {
            let scheduling = match (task.role, task.multiplicity) {
                (Role::Reference { .. }, _) => "r",
                (Role::Server, Multiplicity::Infinite) => "i",
                (Role::Server, Multiplicity::Finite(_)) => "n",
                (Role::Semaphore { .. }, _) => "S",
                (Role::ReadWriteLock, _) => "W",
            };
            let mut options = String::new();
            if task.priority != 0 {
                options = format!(" {}", task.priority);
            }
            if task.think_time() > 0.0 {
                options += &format!(" z {}", task.think_time());
            }
            if let Multiplicity::Finite(number) = task.multiplicity
                && number != 1
            {
                options += &format!(" m {number}");
            }
            if let Some(length) = task.queue_length {
                options += &format!(" q {length}");
            }
            if let Role::Semaphore {
                initially: Some(tokens),
            } = task.role
            {
                options += &format!(" T {tokens}");
            }
            let entries: Vec<_> = task
                .entries
                .iter()
                .map(|&entry| self[entry].name.as_str())
                .collect();
            let (name, entries, processor) =
                (&task.name, entries.join(" "), &self[task.processor].name);
            line(
                out,
                format_args!(" t {name} {scheduling} {entries} -1 {processor}{options}"),
            );
        }
        out.push_str("-1\n");
    }

    fn text_entry(&self, out: &mut String, entry: &Entry) {
        let name = &entry.name;
        if let Some(locking) = entry.locking {
            line(out, format_args!(" {} {name}", letter(locking)));
        }
        if entry.quorum().is_some() {
            return line(out, format_args!(" A {name} {name}.all"));
        }
        let mut list = |letter: &str, value: &dyn Fn(&Phase) -> f64, usual: f64| {
            if entry.phases.iter().any(|phase| value(phase) != usual) || letter == "s" {
                let values: Vec<_> = entry
                    .phases
                    .iter()
                    .map(|phase| value(phase).to_string())
                    .collect();
                line(
                    out,
                    format_args!(" {letter} {name} {} -1", values.join(" ")),
                );
            }
        };
        list("s", &|phase| phase.service_time, 0.0);
        list("c", &|phase| phase.cvsq, 1.0);
        list("Z", &|phase| phase.think_time, 0.0);
        list(
            "f",
            &|phase| {
                if phase.order == CallOrder::Deterministic {
                    1.0
                } else {
                    0.0
                }
            },
            0.0,
        );
        for (place, phase) in entry.phases.iter().enumerate() {
            for call in &phase.calls {
                let letter = match call.kind {
                    CallKind::Synchronous => 'y',
                    CallKind::Asynchronous => 'z',
                };
                let (target, before, mean) =
                    (&self[call.target].name, "0 ".repeat(place), call.mean);
                line(
                    out,
                    format_args!(" {letter} {name} {target} {before}{mean} -1"),
                );
            }
        }
        for forward in &entry.forwards {
            let (target, probability) = (&self[forward.target].name, forward.probability);
            line(out, format_args!(" F {name} {target} {probability} -1"));
        }
        if entry.open_arrival_rate > 0.0 {
            line(
                out,
                format_args!(" a {name} {} -1", entry.open_arrival_rate),
            );
        }
    }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("a string takes all");
}

//! Reads and changes a number of a model by its name, for what-if questions.

use crate::{
    builder::Problem,
    check::{self, Lines},
    model::{EntryId, Model, Multiplicity, ProcessorId, Role, TaskId},
};

/// A number of a model that can be changed.
///
/// | name | what |
/// |---|---|
/// | `TASK.ENTRY.1` | service time of phase 1 |
/// | `TASK.ENTRY.1.cvsq` | its squared coefficient of variation |
/// | `TASK.ENTRY.1.think` | the pause before it |
/// | `TASK.ENTRY.1.calls.TARGET` | mean calls from it to entry TARGET |
/// | `TASK.ENTRY.rate` | open arrivals |
/// | `TASK.multiplicity`, `TASK.think` | threads or customers, think time of a reference task |
/// | `PROCESSOR.multiplicity`, `PROCESSOR.speed` | servers, work in a unit of time |
///
/// If a task and a processor have the same name, the name means the task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameter(Kind);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    ServiceTime(EntryId, usize),
    Cvsq(EntryId, usize),
    Pause(EntryId, usize),
    Calls(EntryId, usize, EntryId),
    Rate(EntryId),
    Threads(TaskId),
    ThinkTime(TaskId),
    Servers(ProcessorId),
    Speed(ProcessorId),
}

impl Parameter {
    /// The parameter with this name.
    ///
    /// # Errors
    /// The part of the name that is not in the model.
    pub fn named(model: &Model, name: &str) -> Result<Self, String> {
        let parts: Vec<&str> = name.split('.').collect();
        let kind = match parts.as_slice() {
            [owner, "multiplicity"] => match model.task_named(owner) {
                Some(task) => Kind::Threads(task),
                None => Kind::Servers(processor(model, owner)?),
            },
            [owner, "think"] => Kind::ThinkTime(task(model, owner)?),
            [owner, "speed"] => Kind::Speed(processor(model, owner)?),
            [owner, entry, "rate"] => Kind::Rate(entry_of(model, owner, entry)?),
            [owner, entry, number, rest @ ..] => {
                let entry = entry_of(model, owner, entry)?;
                let phase = phase(model, entry, number)?;
                match rest {
                    [] => Kind::ServiceTime(entry, phase),
                    ["cvsq"] => Kind::Cvsq(entry, phase),
                    ["think"] => Kind::Pause(entry, phase),
                    ["calls", target] => {
                        Kind::Calls(entry, phase, called(model, entry, phase, target)?)
                    }
                    _ => {
                        return Err(format!(
                            "{name}: write nothing, cvsq, think or calls.TARGET after the phase"
                        ));
                    }
                }
            }
            _ => {
                return Err(format!(
                    "{name}: use TASK.ENTRY.PHASE, TASK.ENTRY.rate, TASK.multiplicity, TASK.think, PROCESSOR.multiplicity or PROCESSOR.speed"
                ));
            }
        };
        Ok(Self(kind))
    }

    /// Its value.
    #[must_use]
    pub fn value(self, model: &Model) -> f64 {
        let phase = |entry: EntryId, phase: usize| &model[entry].phases[phase];
        match self.0 {
            Kind::ServiceTime(entry, at) => phase(entry, at).service_time,
            Kind::Cvsq(entry, at) => phase(entry, at).cvsq,
            Kind::Pause(entry, at) => phase(entry, at).think_time,
            Kind::Calls(entry, at, target) => {
                let calls = phase(entry, at)
                    .calls
                    .iter()
                    .filter(|call| call.target == target);
                calls.map(|call| call.mean).sum()
            }
            Kind::Rate(entry) => model[entry].open_arrival_rate,
            Kind::Threads(task) => model[task]
                .multiplicity
                .finite()
                .map_or(f64::INFINITY, f64::from),
            Kind::ThinkTime(task) => model[task].think_time(),
            Kind::Servers(processor) => f64::from(model[processor].multiplicity),
            Kind::Speed(processor) => model[processor].speed,
        }
    }

    fn set(self, model: &mut Model, value: f64) -> Result<(), Problem> {
        match self.0 {
            Kind::ServiceTime(entry, at) => model.entries[entry.0].phases[at].service_time = value,
            Kind::Cvsq(entry, at) => model.entries[entry.0].phases[at].cvsq = value,
            Kind::Pause(entry, at) => model.entries[entry.0].phases[at].think_time = value,
            Kind::Calls(entry, at, target) => {
                let calls = &mut model.entries[entry.0].phases[at].calls;
                let mut first = true;
                calls.retain_mut(|call| {
                    let keeps = call.target != target || std::mem::take(&mut first);
                    if call.target == target {
                        call.mean = value;
                    }
                    keeps
                });
            }
            Kind::Rate(entry) => model.entries[entry.0].open_arrival_rate = value,
            Kind::Threads(task) => {
                model.tasks[task.0].multiplicity = Multiplicity::Finite(whole(value)?)
            }
            Kind::ThinkTime(task) => {
                model.tasks[task.0].role = Role::Reference { think_time: value }
            }
            Kind::Servers(processor) => model.processors[processor.0].multiplicity = whole(value)?,
            Kind::Speed(processor) => model.processors[processor.0].speed = value,
        }
        Ok(())
    }
}

impl Model {
    /// The model with other values of some parameters.
    ///
    /// # Errors
    /// The problems of a model with these values.
    pub fn with(&self, changes: &[(Parameter, f64)]) -> Result<Self, Vec<Problem>> {
        let mut model = self.clone();
        for &(parameter, value) in changes {
            parameter
                .set(&mut model, value)
                .map_err(|problem| vec![problem])?;
        }
        let problems = check::check(&model, &Lines::none(&model));
        if problems.is_empty() {
            Ok(model)
        } else {
            Err(problems)
        }
    }
}

fn task(model: &Model, name: &str) -> Result<TaskId, String> {
    let found = model
        .task_named(name)
        .filter(|&task| model[task].is_reference());
    found.ok_or_else(|| format!("{name}: the model has no reference task with this name"))
}

fn processor(model: &Model, name: &str) -> Result<ProcessorId, String> {
    model
        .processor_named(name)
        .ok_or_else(|| format!("{name}: the model has no task or processor with this name"))
}

fn entry_of(model: &Model, task: &str, entry: &str) -> Result<EntryId, String> {
    let found = model
        .entry_named(entry)
        .filter(|&entry| model[model[entry].task].name == task);
    found.ok_or_else(|| format!("{task}.{entry}: this task of the model has no such entry"))
}

fn phase(model: &Model, entry: EntryId, number: &str) -> Result<usize, String> {
    let phases = model[entry].phases.len();
    let found = number
        .parse::<usize>()
        .ok()
        .filter(|number| (1..=phases).contains(number));
    found.map(|number| number - 1).ok_or_else(|| {
        format!(
            "{number}: entry {} has phases 1 to {phases}",
            model[entry].name
        )
    })
}

fn called(model: &Model, entry: EntryId, phase: usize, target: &str) -> Result<EntryId, String> {
    let mut targets = model[entry].phases[phase]
        .calls
        .iter()
        .map(|call| call.target);
    let found = targets.find(|&called| model[called].name == target);
    found.ok_or_else(|| {
        format!(
            "{target}: entry {} doesn't call it in this phase",
            model[entry].name
        )
    })
}

fn whole(value: f64) -> Result<u32, Problem> {
    let whole = Some(value as u32).filter(|&whole| f64::from(whole) == value);
    whole.ok_or_else(|| Problem {
        line: None,
        message: format!("multiplicity {value}: write a whole number"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "P 0\n p Pc i\n p Ps f\n-1\nT 0\n t c r ce -1 Pc z 5 m 5\n t s n se -1 Ps\n-1\n\
                        E 0\n s ce 0 -1\n s se 1 2 -1\n y ce se 3 -1\n-1\n";

    #[test]
    fn every_parameter_is_read_and_set() {
        let model = Model::from_text(TEXT).unwrap();
        let cases = [
            ("s.se.2", 2.0),
            ("s.se.1.cvsq", 1.0),
            ("s.se.1.think", 0.0),
            ("c.ce.1.calls.se", 3.0),
            ("s.se.rate", 0.0),
            ("s.multiplicity", 1.0),
            ("c.think", 5.0),
            ("Ps.multiplicity", 1.0),
            ("Ps.speed", 1.0),
        ];
        for (name, value) in cases {
            let parameter = Parameter::named(&model, name).unwrap();
            assert_eq!(parameter.value(&model), value, "{name}");
            let changed = model.with(&[(parameter, 7.0)]).unwrap();
            assert_eq!(parameter.value(&changed), 7.0, "{name}");
        }
    }

    #[test]
    fn what_is_not_there_is_told() {
        let model = Model::from_text(TEXT).unwrap();
        for name in [
            "",
            "s",
            "x.se.1",
            "s.ce.1",
            "s.se.3",
            "s.se.1.calls.ce",
            "s.think",
            "y.speed",
        ] {
            assert!(Parameter::named(&model, name).is_err(), "{name}");
        }
        let threads = Parameter::named(&model, "s.multiplicity").unwrap();
        assert!(model.with(&[(threads, 1.5)]).is_err());
        let time = Parameter::named(&model, "s.se.1").unwrap();
        assert!(model.with(&[(time, -1.0)]).is_err());
    }
}

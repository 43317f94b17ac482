//! `sipyard model compare`: compares a model with measurements, and the solver with the simulator.

use std::process::ExitCode;

use clap::Args;
use lqn::{Figure, Model, Results};
use report::Table;
use settings::refuse;

use super::{
    arguments::{Simulation, Source, Unit, print},
    tables::{digits, number},
};

/// Compare a model with measurements, and the solver with the simulator
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard model compare cluster.lqn --measured X=290
  sipyard model compare cluster.lqn --measured X=290 --measured SIPServer.utilization=0.73

NAME is X (runs of the first reference task per second), a task's name (its requests per second), or
TASK.utilization or PROCESSOR.utilization (busy threads or servers).")]
pub(super) struct Compare {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    simulation: Simulation,
    /// A measured value; repeat the option for more
    #[arg(long, value_name = "NAME=VALUE")]
    measured: Vec<String>,
}

/// A value of a model, with its name.
struct Named {
    name: String,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Throughput(usize),
    TaskUtilization(usize),
    ProcessorUtilization(usize),
}

impl Compare {
    pub(super) fn run(&self) -> ExitCode {
        self.answer().unwrap_or_else(|refusal| refusal)
    }

    fn answer(&self) -> Result<ExitCode, ExitCode> {
        let model = self.source.model()?;
        let measured: Vec<_> = self
            .measured
            .iter()
            .map(|text| read(&model, text))
            .collect();
        let wrong: Vec<String> = measured
            .iter()
            .filter_map(|found| found.as_ref().err().cloned())
            .collect();
        if !wrong.is_empty() {
            return Err(refuse(wrong));
        }
        let solved = lqn::solve(&model);
        let simulated = self.simulation.run(&model);
        let unit = self.source.unit;
        let mut text = String::new();
        let mut table = Table::new("Measured and modelled", COLUMNS);
        for (figure, value) in measured.into_iter().flatten() {
            let (solved, simulated) = (figure.of(&solved, unit), figure.of(&simulated, unit));
            let mut row = vec![figure.name, digits(value)];
            row.extend([digits(solved.value), error(solved.value, value)]);
            row.extend([number(simulated), error(simulated.value, value)]);
            table.push(row);
        }
        if !table.is_empty() {
            text = format!("{}\n", table.text());
        }
        text += &side_by_side(&model, &solved, &simulated, unit).text();
        Ok(print(&text))
    }
}

const COLUMNS: [&str; 6] = [
    "figure",
    "measured",
    "solved",
    "error, %",
    "simulated",
    "error, %",
];

/// Compares the solver with the simulator for all tasks and processors.
fn side_by_side(model: &Model, solved: &Results, simulated: &Results, unit: Unit) -> Table {
    let columns = ["figure", "solved", "simulated", "difference, %"];
    let mut table = Table::new("The solver and the simulator", columns);
    let throughputs = (0..model.tasks().len()).map(Kind::Throughput);
    let tasks = (0..model.tasks().len()).map(Kind::TaskUtilization);
    let processors = (0..model.processors().len()).map(Kind::ProcessorUtilization);
    for kind in throughputs.chain(tasks).chain(processors) {
        let figure = Named {
            name: kind.name(model),
            kind,
        };
        let (solved, simulated) = (figure.of(solved, unit), figure.of(simulated, unit));
        table.push([
            figure.name,
            digits(solved.value),
            number(simulated),
            error(solved.value, simulated.value),
        ]);
    }
    table
}

fn read(model: &Model, text: &str) -> Result<(Named, f64), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("--measured {text}: write NAME=VALUE, such as X=290"))?;
    let value = value.parse::<f64>().ok().filter(|value| value.is_finite());
    let value = value.ok_or_else(|| format!("--measured {text}: write a number after ="))?;
    let task = |name: &str| model.task_named(name).map(|task| task.0);
    let kind = match name.split_once('.') {
        Some((owner, "utilization")) => task(owner).map(Kind::TaskUtilization).or_else(|| {
            model
                .processor_named(owner)
                .map(|processor| Kind::ProcessorUtilization(processor.0))
        }),
        _ => task(name).map(Kind::Throughput).or_else(|| {
            let first = model.tasks().iter().position(lqn::Task::is_reference);
            first.filter(|_| name == "X").map(Kind::Throughput)
        }),
    };
    let kind = kind.ok_or_else(|| {
        format!(
            "--measured {text}: the model has no {name}: write X, TASK, TASK.utilization or \
             PROCESSOR.utilization"
        )
    })?;
    Ok((
        Named {
            name: kind.name(model),
            kind,
        },
        value,
    ))
}

impl Kind {
    fn name(self, model: &Model) -> String {
        match self {
            Self::Throughput(task) => format!("{}, per second", model.tasks()[task].name),
            Self::TaskUtilization(task) => format!("{}, threads busy", model.tasks()[task].name),
            Self::ProcessorUtilization(processor) => {
                format!("{}, servers busy", model.processors()[processor].name)
            }
        }
    }
}

impl Named {
    fn of(&self, results: &Results, unit: Unit) -> Figure {
        match self.kind {
            Kind::Throughput(task) => results.tasks[task].throughput.scaled(unit.per_second()),
            Kind::TaskUtilization(task) => results.tasks[task].utilization,
            Kind::ProcessorUtilization(processor) => results.processors[processor].utilization,
        }
    }
}

fn error(value: f64, of: f64) -> String {
    if of == 0.0 {
        String::new()
    } else {
        format!("{:+.1}", 100.0 * (value / of - 1.0))
    }
}

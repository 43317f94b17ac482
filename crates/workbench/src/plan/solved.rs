//! What a model says of a demand, as it is written: with its copies, forks and thread limits.

use lqn::{Model, Multiplicity, Role, SimulationSettings};
use report::Table;
use serde::Serialize;

/// Events of the simulation, and the seed that makes its answer repeatable.
const EVENTS: u64 = 2_000_000;
const SEED: u64 = 1;
/// A share of the demand that is lost beyond this one shows an overload.
const LOST_MAX: f64 = 0.05;

/// A model under a demand.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Solved {
    pub(super) runs: Vec<Run>,
    pub(super) processors: Vec<Busy>,
}

/// A run of a reference task.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Run {
    pub(super) task: String,
    /// What it waits for others, in milliseconds. None if the model is overloaded.
    pub(super) response_ms: Option<f64>,
    /// Half the width of that time's 95 % interval.
    pub(super) ci95_ms: Option<f64>,
}

/// A processor of the model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Busy {
    pub(super) name: String,
    /// Of each of its servers, from 0 to 1.
    pub(super) utilisation: f64,
}

/// Simulates a model whose times are milliseconds, with so many runs of each reference task a second. Mean values would
/// be quicker, but not know that a request comes back to a queue just when it has left it.
pub(super) fn solved(model: &Model, calls_per_s: f64) -> Solved {
    let rate = calls_per_s / 1e3;
    let opened = model.opened(rate);
    let settings = SimulationSettings { events: EVENTS };
    let mut rng = fastrand::Rng::with_seed(SEED);
    let results = lqn::simulate(&opened, &settings, &mut rng, |_| {});
    let mut runs = Vec::new();
    for task in model.tasks() {
        if !matches!(task.role, Role::Reference { .. }) {
            continue;
        }
        for &entry in &task.entries {
            let result = &results.entries[entry.0];
            let own = model[entry].phases.iter().map(|phase| phase.service_time);
            let is_carried = result.throughput.value > (1.0 - LOST_MAX) * rate;
            runs.push(Run {
                task: task.name.clone(),
                response_ms: is_carried.then(|| result.service_time.value - own.sum::<f64>()),
                ci95_ms: result.service_time.ci95,
            });
        }
    }
    let processors = model.processors().iter().zip(&results.processors);
    let busy = |(processor, result): (&lqn::Processor, &lqn::ProcessorResult)| {
        let Multiplicity::Finite(servers) = processor.servers() else {
            return None;
        };
        Some(Busy {
            name: processor.name.clone(),
            utilisation: result.utilization.value / f64::from(servers),
        })
    };
    Solved {
        runs,
        processors: processors.filter_map(busy).collect(),
    }
}

impl Solved {
    pub(super) fn table(&self) -> Table {
        let columns = ["of the model", "mean response, ms", "±95 %, ms", "busy, %"];
        let mut table = Table::new("The model as it is written, at this demand", columns);
        for run in &self.runs {
            let response = run.response_ms;
            let half = run.ci95_ms.filter(|_| response.is_some());
            table.push([
                run.task.clone(),
                response.map_or_else(|| "overloaded".to_owned(), |ms| format!("{ms:.3}")),
                half.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.3}")),
                String::new(),
            ]);
        }
        for processor in &self.processors {
            let busy = format!("{:.1}", 100.0 * processor.utilisation);
            let none = String::new();
            table.push([processor.name.clone(), none.clone(), none, busy]);
        }
        table
    }
}

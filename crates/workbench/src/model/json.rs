//! Results as JSON. Times and rates are in the unit of the file.

use lqn::{Figure, Model, Results};
use serde_json::{Map, Value, json};

/// {tasks, processors, entries, converged, iterations}. Simulated figures also have `ci95`, which
/// contains the half-widths of their 95 % intervals under the same names.
pub(super) fn json(model: &Model, results: &Results) -> String {
    let tasks = model
        .tasks()
        .iter()
        .zip(&results.tasks)
        .map(|(task, result)| {
            let figures = [
                ("throughput", result.throughput),
                ("utilization", result.utilization),
            ];
            (task.name.clone(), object(&figures))
        });
    let processors = model.processors().iter().zip(&results.processors);
    let processors = processors.map(|(processor, result)| {
        (
            processor.name.clone(),
            object(&[("utilization", result.utilization)]),
        )
    });
    let entries = model
        .entries()
        .iter()
        .zip(&results.entries)
        .map(|(entry, result)| {
            let figures = [
                ("throughput", result.throughput),
                ("service_time", result.service_time),
                ("waiting", result.waiting),
            ];
            (entry.name.clone(), object(&figures))
        });
    let value = json!({
        "tasks": Map::from_iter(tasks),
        "processors": Map::from_iter(processors),
        "entries": Map::from_iter(entries),
        "converged": results.converged,
        "iterations": results.iterations,
    });
    format!("{value:#}\n")
}

fn object(figures: &[(&str, Figure)]) -> Value {
    let mut object = Map::new();
    let mut widths = Map::new();
    for (name, figure) in figures {
        object.insert((*name).to_owned(), json!(figure.value));
        if let Some(width) = figure.ci95 {
            widths.insert((*name).to_owned(), json!(width));
        }
    }
    if !widths.is_empty() {
        object.insert("ci95".to_owned(), Value::Object(widths));
    }
    Value::Object(object)
}

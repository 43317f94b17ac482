//! Results as tables with units.

use lqn::{Bottleneck, Figure, Method, Model, Results};
use report::Table;

use super::arguments::Unit;

/// All results, for a terminal.
pub(super) fn text(model: &Model, results: &Results, unit: Unit) -> String {
    let tables = [
        tasks(model, results, unit),
        processors(model, results),
        entries(model, results, unit),
    ];
    let tables: Vec<_> = tables.iter().map(Table::text).collect();
    format!("{}\n{}", summary(model, results, unit), tables.join("\n"))
}

/// The bottleneck of the model, and the method that found the figures.
pub(super) fn summary(model: &Model, results: &Results, unit: Unit) -> String {
    let mut text = String::new();
    for (task, result) in model.tasks().iter().zip(&results.tasks) {
        if task.is_reference() {
            text += &format!(
                "{} runs {} times per second. ",
                task.name,
                rate(result.throughput, unit)
            );
        }
    }
    text += &match results.bottleneck(model) {
        Some(Bottleneck::Task(task, saturation)) => {
            let threads = model[task].multiplicity;
            format!(
                "The bottleneck is task {}: its threads ({threads}) are in use {:.0} % of the time. ",
                model[task].name,
                100.0 * saturation
            )
        }
        Some(Bottleneck::Processor(processor, saturation)) => {
            format!(
                "The bottleneck is processor {}, busy {:.0} % of the time. ",
                model[processor].name,
                100.0 * saturation
            )
        }
        None => "Nothing limits the model: everything is infinite. ".to_owned(),
    };
    let lost: f64 = results.entries.iter().map(|entry| entry.lost.value).sum();
    if lost > 0.0 {
        text += &format!(
            "{} requests per second are lost because queues are full. ",
            rate(
                Figure {
                    value: lost,
                    ci95: None
                },
                unit
            )
        );
    }
    let passes = results.iterations;
    text += &match results.method {
        Method::MarkovChain => format!("Solved by its Markov chain ({passes} passes)"),
        Method::MeanValue => {
            format!("Solved approximately by mean value analysis ({passes} passes)")
        }
        Method::Simulation => {
            format!("Simulated ({passes} batches; +- is half the width of a 95 % interval)")
        }
    };
    text += if results.converged {
        ".\n"
    } else {
        "; the figures have NOT settled.\n"
    };
    text
}

pub(super) fn tasks(model: &Model, results: &Results, unit: Unit) -> Table {
    let columns = [
        "task",
        "processor",
        "threads",
        "per second",
        "threads busy",
        "busy, %",
    ];
    let mut table = Table::new("Tasks", columns);
    for (task, result) in model.tasks().iter().zip(&results.tasks) {
        let busy = result.utilization;
        let share = task
            .multiplicity
            .finite()
            .map(|threads| percent(busy, f64::from(threads)));
        table.push([
            task.name.clone(),
            model[task.processor].name.clone(),
            task.multiplicity.to_string(),
            rate(result.throughput, unit),
            number(busy),
            share.unwrap_or_default(),
        ]);
    }
    table
}

pub(super) fn processors(model: &Model, results: &Results) -> Table {
    let mut table = Table::new(
        "Processors",
        ["processor", "servers", "servers busy", "busy, %"],
    );
    for (processor, result) in model.processors().iter().zip(&results.processors) {
        let busy = result.utilization;
        let servers = processor.servers();
        let share = servers
            .finite()
            .map(|servers| percent(busy, f64::from(servers)));
        table.push([
            processor.name.clone(),
            servers.to_string(),
            number(busy),
            share.unwrap_or_default(),
        ]);
    }
    table
}

pub(super) fn entries(model: &Model, results: &Results, unit: Unit) -> Table {
    let label = unit.label();
    let columns = [
        "entry".to_owned(),
        "task".to_owned(),
        "per second".to_owned(),
        format!("wait for a thread, {label}"),
        format!("service time, {label}"),
        "in wait".to_owned(),
        "lost per second".to_owned(),
    ];
    let mut table = Table::new("Entries", columns);
    for (entry, result) in model.entries().iter().zip(&results.entries) {
        let lost = if result.lost.value > 0.0 {
            rate(result.lost, unit)
        } else {
            String::new()
        };
        table.push([
            entry.name.clone(),
            model[entry.task].name.clone(),
            rate(result.throughput, unit),
            number(result.waiting),
            number(result.service_time),
            number(result.queue),
            lost,
        ]);
    }
    table
}

/// A rate per second.
pub(super) fn rate(figure: Figure, unit: Unit) -> String {
    number(figure.scaled(unit.per_second()))
}

/// Four significant digits, and the half-width if there is one.
pub(super) fn number(figure: Figure) -> String {
    match figure.ci95 {
        Some(width) if width > 0.0 => format!("{} +- {}", digits(figure.value), digits(width)),
        _ => digits(figure.value),
    }
}

fn percent(figure: Figure, of: f64) -> String {
    format!("{:.1}", 100.0 * figure.value / of)
}

pub(super) fn digits(value: f64) -> String {
    let magnitude = value.abs();
    let decimals = match magnitude {
        _ if magnitude >= 1000.0 || magnitude == 0.0 => 0,
        _ if magnitude >= 100.0 => 1,
        _ if magnitude >= 10.0 => 2,
        _ if magnitude >= 1.0 => 3,
        _ => 4,
    };
    format!("{value:.decimals$}")
}

//! A page on a model: its bottleneck, its layers and its figures.

use lqn::{Model, Results};
use report::{Bars, Page};

use super::{arguments::Unit, diagram, tables};

pub(super) fn page(name: &str, model: &Model, results: &Results, unit: Unit) -> Page {
    let mut page = Page::new(format!("Model {name}"));
    if !model.comment().is_empty() {
        page = page.text(model.comment());
    }
    page.text(&tables::summary(model, results, unit))
        .heading("Layers")
        .text(
            "Boxes are tasks with their entries; rounded boxes are processors. A busier box is \
             darker. A caller waits for a reply along a full arrow, but not along a dashed one.",
        )
        .svg(&diagram::svg(model, results))
        .heading("Utilisation")
        .svg(&utilizations(model, results).svg())
        .heading("Figures")
        .table(tables::tasks(model, results, unit))
        .table(tables::processors(model, results))
        .table(tables::entries(model, results, unit))
}

fn utilizations(model: &Model, results: &Results) -> Bars {
    let mut bars = Bars::new("In use, % of threads or servers");
    let tasks = model.tasks().iter().zip(&results.tasks);
    let tasks = tasks.filter(|(task, _)| !task.is_reference());
    let tasks = tasks.map(|(task, result)| {
        (
            format!("task {}", task.name),
            task.multiplicity,
            result.utilization,
        )
    });
    let processors = model.processors().iter().zip(&results.processors);
    let processors = processors.map(|(processor, result)| {
        (
            format!("processor {}", processor.name),
            processor.servers(),
            result.utilization,
        )
    });
    for (label, servers, busy) in tasks.chain(processors) {
        let Some(servers) = servers.finite().map(f64::from) else {
            continue;
        };
        let percent = 100.0 * busy.value / servers;
        let width = 100.0 * busy.ci95.unwrap_or(0.0) / servers;
        bars = bars.with(
            label,
            percent,
            ((percent - width).max(0.0), percent + width),
        );
    }
    bars
}

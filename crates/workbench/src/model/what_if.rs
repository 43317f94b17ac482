//! `sipyard model what-if`: solves a model for all combinations of parameter values.

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::atomic::{AtomicUsize, Ordering},
};

use clap::Args;
use lqn::{Bottleneck, Model, Parameter, Results};
use report::{Axis, Page, Plot, Series, Table};
use settings::refuse;

use super::{
    arguments::{Source, print, write},
    tables::{digits, rate},
};
use crate::{finished, output, parallel::each, progress::Progress};

/// Solve a model for ranges of its parameters, in all combinations
#[derive(Args)]
#[command(after_help = "Examples:
  sipyard model what-if cluster.lqn --vary 'driver.multiplicity=1..32'
  sipyard model what-if cluster.lqn --vary 'server.server1.1=1..2:0.1' --csv
  sipyard model what-if cluster.lqn --vary 'net.neta.2=90%,100%,110%' --vary 'net.netb.2=90%,100%,110%' --html grid.html

NAME is TASK.ENTRY.PHASE (its service time), TASK.ENTRY.PHASE.cvsq, TASK.ENTRY.PHASE.think,
TASK.ENTRY.PHASE.calls.TARGET, TASK.ENTRY.rate, TASK.multiplicity, TASK.think,
PROCESSOR.multiplicity or PROCESSOR.speed. VALUES are numbers with commas between, or
FIRST..LAST:STEP, or FIRST..LAST for steps of 1. 90% means nine tenths of the value in the file.
Times are in the unit of the file.")]
pub(super) struct WhatIf {
    #[command(flatten)]
    source: Source,
    /// A parameter and its values; repeat the option for more
    #[arg(long, required = true, value_name = "NAME=VALUES")]
    vary: Vec<String>,
    /// Print CSV
    #[arg(long)]
    csv: bool,
    /// Also write a page with table and plot to this file
    #[arg(long, value_name = "FILE", value_parser = output::file)]
    html: Option<PathBuf>,
}

/// A parameter and the values to try.
struct Range {
    name: String,
    parameter: Parameter,
    values: Vec<f64>,
}

/// One combination of values, and its result.
struct Outcome {
    values: Vec<f64>,
    model: Model,
    results: Results,
}

/// The most combinations.
const POINTS_MAX: usize = 1_000_000;

impl WhatIf {
    pub(super) fn run(&self) -> ExitCode {
        self.answer().unwrap_or_else(|refusal| refusal)
    }

    fn answer(&self) -> Result<ExitCode, ExitCode> {
        let model = self.source.model()?;
        let ranges: Vec<_> = self
            .vary
            .iter()
            .map(|text| Range::read(&model, text))
            .collect();
        let wrong: Vec<String> = ranges
            .iter()
            .filter_map(|range| range.as_ref().err().cloned())
            .collect();
        if !wrong.is_empty() {
            return Err(refuse(wrong));
        }
        let ranges: Vec<Range> = ranges.into_iter().flatten().collect();
        let models = combinations(&model, &ranges).map_err(refuse)?;
        let outcomes = solve_all(models);
        let table = self.table(&ranges, &outcomes);
        if let Some(file) = &self.html {
            let title = format!("What if: {}", self.source.name());
            let page = Page::new(title)
                .plot(self.plot(&ranges, &outcomes))
                .table(table.clone());
            write(file, &finished::html(&page))?;
        }
        Ok(print(&if self.csv { table.csv() } else { table.text() }))
    }

    fn table(&self, ranges: &[Range], outcomes: &[Outcome]) -> Table {
        let unit = self.source.unit;
        let mut columns: Vec<String> = ranges.iter().map(|range| range.name.clone()).collect();
        let driving = outcomes
            .first()
            .map(|outcome| driving(&outcome.model))
            .unwrap_or_default();
        for &entry in &driving {
            let name = &outcomes[0].model.entries()[entry].name;
            columns.push(format!("{name}, per second"));
            columns.push(format!("{name}, {}", unit.label()));
        }
        columns.extend(["bottleneck".to_owned(), "busy, %".to_owned()]);
        let mut table = Table::new("", columns);
        for Outcome {
            values,
            model,
            results,
        } in outcomes
        {
            let mut row: Vec<String> = values.iter().map(f64::to_string).collect();
            for &entry in &driving {
                let figures = &results.entries[entry];
                row.push(rate(figures.throughput, unit));
                row.push(digits(figures.waiting.value + figures.service_time.value));
            }
            if let Some(bottleneck) = results.bottleneck(model) {
                row.push(match bottleneck {
                    Bottleneck::Task(task, _) => model[task].name.clone(),
                    Bottleneck::Processor(processor, _) => model[processor].name.clone(),
                });
                row.push(format!("{:.1}", 100.0 * bottleneck.saturation()));
            }
            table.push(row);
        }
        table
    }

    /// Plots throughput over the first parameter, with a line for each combination of the others.
    fn plot(&self, ranges: &[Range], outcomes: &[Outcome]) -> Plot {
        let x = Axis::linear(&ranges[0].name);
        let mut plot = Plot::new("Throughput", x, Axis::linear("per second"));
        let Some(&entry) = outcomes
            .first()
            .and_then(|first| driving(&first.model).first().copied())
            .as_ref()
        else {
            return plot;
        };
        let lines = outcomes.len() / ranges[0].values.len();
        for line in 0..lines {
            let points = outcomes.iter().skip(line).step_by(lines);
            let points = points.map(|outcome| {
                let throughput = outcome.results.entries[entry].throughput;
                (
                    outcome.values[0],
                    throughput.value * self.source.unit.per_second(),
                )
            });
            let others = ranges.iter().zip(&outcomes[line].values).skip(1);
            let name: Vec<_> = others
                .map(|(range, value)| format!("{}={value}", range.name))
                .collect();
            plot = plot.with(Series::line(name.join(", "), points.collect::<Vec<_>>()));
        }
        plot
    }
}

/// Entries that have customers of their own, or get requests from outside.
fn driving(model: &Model) -> Vec<usize> {
    let is_driving =
        |entry: &lqn::Entry| model[entry.task].is_reference() || entry.open_arrival_rate > 0.0;
    let entries = model.entries().iter().enumerate();
    entries
        .filter(|(_, entry)| is_driving(entry))
        .map(|(place, _)| place)
        .collect()
}

/// All combinations. The last parameter varies fastest.
fn combinations(model: &Model, ranges: &[Range]) -> Result<Vec<(Vec<f64>, Model)>, Vec<String>> {
    let points = ranges.iter().try_fold(1_usize, |points, range| {
        points.checked_mul(range.values.len())
    });
    let Some(points) = points.filter(|&points| points <= POINTS_MAX) else {
        return Err(vec![format!(
            "there are more than {POINTS_MAX} combinations: give fewer values"
        )]);
    };
    let mut models = Vec::with_capacity(points);
    for point in 0..points {
        let mut left = point;
        let mut values: Vec<f64> = ranges
            .iter()
            .rev()
            .map(|range| {
                let value = range.values[left % range.values.len()];
                left /= range.values.len();
                value
            })
            .collect();
        values.reverse();
        let changes: Vec<_> = ranges
            .iter()
            .zip(&values)
            .map(|(range, &value)| (range.parameter, value))
            .collect();
        let changed = model.with(&changes).map_err(|problems| {
            let settings: Vec<_> = ranges
                .iter()
                .zip(&values)
                .map(|(range, value)| format!("{}={value}", range.name))
                .collect();
            let settings = settings.join(" ");
            problems
                .iter()
                .map(|problem| format!("{settings}: {}", problem.message))
                .collect::<Vec<_>>()
        })?;
        models.push((values, changed));
    }
    Ok(models)
}

/// Solves all models, on all cores.
fn solve_all(models: Vec<(Vec<f64>, Model)>) -> Vec<Outcome> {
    let (done, all) = (AtomicUsize::new(0), models.len() as f64);
    let progress = Progress::new();
    each(models, |(values, model)| {
        let results = lqn::solve(&model);
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        progress.show_share("solving", done as f64 / all);
        Outcome {
            values,
            model,
            results,
        }
    })
}

impl Range {
    fn read(model: &Model, text: &str) -> Result<Self, String> {
        let problem = |what: &str| format!("--vary {text}: {what}");
        let (name, values) = text
            .split_once('=')
            .ok_or_else(|| problem("write NAME=VALUES"))?;
        let parameter = Parameter::named(model, name).map_err(|what| problem(&what))?;
        let base = parameter.value(model);
        let values = match values.split_once("..") {
            Some((first, rest)) => {
                let (last, step) = rest.split_once(':').unwrap_or((rest, "1"));
                let number = |text| value(text, base);
                steps(number(first), number(last), number(step))
            }
            None => values.split(',').map(|text| value(text, base)).collect(),
        };
        let values = values.filter(|values: &Vec<f64>| !values.is_empty());
        let values = values
            .ok_or_else(|| problem("write numbers with commas between, or FIRST..LAST:STEP"))?;
        Ok(Self {
            name: name.to_owned(),
            parameter,
            values,
        })
    }
}

fn value(text: &str, base: f64) -> Option<f64> {
    let value = match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().ok()? / 100.0 * base,
        None => text.parse().ok()?,
    };
    Some(value).filter(|value| value.is_finite())
}

fn steps(first: Option<f64>, last: Option<f64>, step: Option<f64>) -> Option<Vec<f64>> {
    let (first, last, step) = (first?, last?, step?);
    let number = (last - first) / step + 1e-9;
    if !(0.0..=POINTS_MAX as f64).contains(&number) {
        return None;
    }
    // Rounded, so that 0.1 steps don't show the binary's last digits.
    Some(
        (0..=number as u32)
            .map(|at| ((first + step * f64::from(at)) * 1e9).round() / 1e9)
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read() {
        let cases: [(&str, Option<&[f64]>); 8] = [
            ("1,2,4", Some(&[1.0, 2.0, 4.0])),
            ("1..3", Some(&[1.0, 2.0, 3.0])),
            ("1..1.3:0.1", Some(&[1.0, 1.1, 1.2, 1.3])),
            ("50%,100%", Some(&[2.0, 4.0])),
            ("50%..100%:25%", Some(&[2.0, 3.0, 4.0])),
            ("3..1", None),
            ("1..2:0", None),
            ("one", None),
        ];
        let text = "P 0\n p P f\n-1\nT 0\n t c r e -1 P\n-1\nE 0\n s e 4 -1\n-1\n";
        let model = Model::from_text(text).unwrap();
        for (values, expected) in cases {
            let range = Range::read(&model, &format!("c.e.1={values}"));
            assert_eq!(
                range.ok().map(|range| range.values).as_deref(),
                expected,
                "{values}"
            );
        }
    }
}

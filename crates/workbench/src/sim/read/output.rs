//! Reads what to show of the results.

use settings::{
    At, Read, Section, Value, hint,
    value::{boolean, expected, name, number, text},
};

use super::super::{
    metrics,
    scenario::{Axis, AxisName, Bar, Bound, Offered, Plot, Scenario, Selection, Stated},
};
use super::values::one_or_more;

/// `[[plot]]`.
pub(super) fn plots(root: &mut Section<'_>, scenario: &Scenario) -> Vec<Plot> {
    let axes = scenario.axes();
    let plots = root.tables("plot").into_iter();
    plots
        .filter_map(|section| plot(section, scenario, &axes))
        .collect()
}

fn plot(mut section: Section<'_>, scenario: &Scenario, axes: &[Axis]) -> Option<Plot> {
    let title = section.require("title", "write title = \"what it shows\"", name);
    let x = section.require("x", "write an axis, or \"occupancy\"", |value| {
        x_axis(value, axes)
    });
    let y = metrics_of(&mut section, "y", scenario);
    let is_log = section.get_or("log", false, boolean);
    let is_of_one_run = section.get_or("one_run", false, boolean);
    let only = section.given_table("where");
    let only = only.map_or_else(Vec::new, |mut only| {
        let selection = selection(&mut only, axes);
        only.finish();
        selection
    });
    let stated = section.tables("stated").into_iter();
    let stated = stated.filter_map(one_stated).collect();
    section.finish();
    Some(Plot {
        title: title?.value.to_owned(),
        x: x?.value,
        y: y?,
        is_log,
        is_of_one_run,
        only,
        stated,
    })
}

fn x_axis(value: &Value<'_>, axes: &[Axis]) -> Read<Option<AxisName>> {
    match text(value)? {
        "occupancy" => Ok(None),
        key => axis(key, axes).map(|axis| Some(axis.name)),
    }
}

fn axis<'a>(key: &str, axes: &'a [Axis]) -> Read<&'a Axis> {
    axes.iter().find(|axis| axis.key == key).ok_or_else(|| {
        let keys: Vec<&str> = axes.iter().map(|axis| axis.key).collect();
        format!("unknown axis \"{key}\"; {}", hint(key, &keys))
    })
}

fn metric(section: &mut Section<'_>, key: &'static str, scenario: &Scenario) -> Option<String> {
    metrics_of(section, key, scenario)?.pop()
}

fn metrics_of(
    section: &mut Section<'_>,
    key: &'static str,
    scenario: &Scenario,
) -> Option<Vec<String>> {
    let known = match scenario.offered {
        Offered::Peak(_) => vec![metrics::PEAK],
        Offered::Rate(_) | Offered::Load(_) => metrics::names(),
    };
    let one = |value| {
        let name = text(value)?;
        if known.contains(&name) {
            return Ok(name.to_owned());
        }
        Err(format!("unknown metric \"{name}\"; {}", hint(name, &known)))
    };
    let advice = "a metric, such as \"invite_mean_ms\"";
    let found = section.require(key, advice, one_or_more(one));
    found.map(|found| found.value)
}

fn one_stated(mut section: Section<'_>) -> Option<Stated> {
    let curve = section.get_or("curve", "", text);
    let x = section.require("x", "write the position on the axis", label);
    let y = section.require(
        "y",
        "write the number that the paper states",
        number(-1e12..=1e12),
    );
    section.finish();
    Some(Stated {
        curve: curve.to_owned(),
        x: x?.value,
        y: y?.value,
    })
}

/// A value on an axis as the file has it, a number or a word.
fn label(value: &Value<'_>) -> Read<String> {
    match value {
        Value::String(text) => Ok(text.to_string()),
        Value::Integer(_) | Value::Float(_) => number(-1e12..=1e12)(value).map(|n| n.to_string()),
        other => Err(expected("a number or a word in quotes", other)),
    }
}

/// Reads values on axes: `{ policy = "tlwl", rate = [200, 600] }`.
fn selection(section: &mut Section<'_>, axes: &[Axis]) -> Selection {
    let mut selection = Vec::new();
    for axis in axes {
        let found = section.get(axis.key, one_or_more(label));
        if let Some(At { value: labels, at }) = found {
            for label in &labels {
                if !axis.values.contains(label) {
                    let known: Vec<&str> = axis.values.iter().map(|value| &**value).collect();
                    let message =
                        format!("the axis has no value \"{label}\"; {}", hint(label, &known));
                    section.problem_of(axis.key, at, &message);
                }
            }
            selection.push((axis.name, labels));
        }
    }
    selection
}

/// `[[bar]]`.
pub(super) fn bars(root: &mut Section<'_>, scenario: &Scenario) -> Vec<Bar> {
    let axes = scenario.axes();
    let bars = root.tables("bar").into_iter();
    bars.filter_map(|section| bar(section, scenario, &axes))
        .collect()
}

fn bar(mut section: Section<'_>, scenario: &Scenario, axes: &[Axis]) -> Option<Bar> {
    let says = section.require("says", "write says = \"what is claimed\"", name);
    let metric = metric(&mut section, "metric", scenario);
    let of = point(section.table("of"), axes);
    let over = section.given_table("over").map(|over| point(over, axes));
    let bounds = number(-1e12..=1e12);
    let (least, most) = (section.get("least", &bounds), section.get("most", &bounds));
    let bound = match (least, most) {
        (Some(least), None) => Some(Bound::Least(least.value)),
        (None, Some(most)) => Some(Bound::Most(most.value)),
        _ => {
            section.problem("the bound is unclear: write either least = 5 or most = 2");
            None
        }
    };
    section.finish();
    Some(Bar {
        says: says?.value.to_owned(),
        metric: metric?,
        of,
        over,
        bound: bound?,
    })
}

/// A selection that leaves one point.
fn point(mut section: Section<'_>, axes: &[Axis]) -> Selection {
    let selection = selection(&mut section, axes);
    for axis in axes {
        let named = selection.iter().find(|(name, _)| *name == axis.name);
        if named.map_or(axis.values.len(), |(_, labels)| labels.len()) != 1 {
            let message = format!(
                "the selection leaves several points: also give {}, one of {}",
                axis.key,
                axis.values.join(", ")
            );
            section.problem(&message);
        }
    }
    section.finish();
    selection
}

//! Draws the layers of a model.

use std::fmt::Write;

use lqn::{CallKind, EntryId, Model, Results, TaskId, depths};

const WIDTH: f64 = 170.0;
const HEIGHT: f64 = 62.0;
const GAP_X: f64 = 30.0;
const GAP_Y: f64 = 70.0;
const MARGIN: f64 = 20.0;
/// The distance from the middle of a box at which lines of a kind begin.
const SPREAD: f64 = 22.0;
/// The distance at which a line passes boxes.
const BOW: f64 = 170.0;

/// The position of a box.
#[derive(Clone, Copy)]
struct Place {
    x: f64,
    y: f64,
}

/// The style of a line.
#[derive(Clone, Copy, PartialEq)]
enum Line {
    Waits,
    Sends,
    Forwards,
    Runs,
}

/// Draws tasks in rows by depth, processors in the last row, and calls as arrows.
pub(super) fn svg(model: &Model, results: &Results) -> String {
    let rows = rows(model);
    let columns = rows
        .iter()
        .map(Vec::len)
        .max()
        .unwrap_or(0)
        .max(model.processors().len());
    let columns = f64::from(u32::try_from(columns).unwrap_or(u32::MAX));
    let width = 2.0 * MARGIN + columns * (WIDTH + GAP_X);
    let all_rows = f64::from(u32::try_from(rows.len() + 1).unwrap_or(u32::MAX));
    let height = 2.0 * MARGIN + all_rows * (HEIGHT + GAP_Y);
    let mut tasks = vec![Place { x: 0.0, y: 0.0 }; model.tasks().len()];
    for (number, row) in rows.iter().enumerate() {
        for (&task, place) in row.iter().zip(spread(row.len(), number, width)) {
            tasks[task.0] = place;
        }
    }
    let processors = spread(model.processors().len(), rows.len(), width);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {width} {height}\" style=\"width: {width}px; max-width: none\" xmlns=\"http://www.w3.org/2000/svg\" \
         font-family=\"system-ui, sans-serif\" font-size=\"12\" role=\"img\" aria-label=\"layers\">\n\
         <defs><marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" \
         markerHeight=\"8\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"var(--quiet, #555)\"/></marker></defs>\n"
    );
    for (task, place) in model.tasks().iter().zip(&tasks) {
        arrow(
            &mut svg,
            *place,
            processors[task.processor.0],
            Line::Runs,
            "",
        );
    }
    for (from, to, line, label) in arrows(model) {
        arrow(&mut svg, tasks[from.0], tasks[to.0], line, &label);
    }
    for (number, (task, place)) in model.tasks().iter().zip(&tasks).enumerate() {
        let busy = results.tasks[number].utilization.value;
        let names: Vec<_> = task
            .entries
            .iter()
            .map(|&entry| model[entry].name.as_str())
            .collect();
        let threads = task.multiplicity.finite();
        let title = match threads {
            Some(1) => task.name.clone(),
            Some(threads) => format!("{} {{{threads}}}", task.name),
            None => format!("{} {{inf}}", task.name),
        };
        let share = threads
            .filter(|_| !task.is_reference())
            .map(|threads| busy / f64::from(threads));
        let lines = [title, names.join(" "), format!("busy {busy:.3}")];
        shape(&mut svg, *place, 2.0, share, &lines);
    }
    for (number, (processor, place)) in model.processors().iter().zip(&processors).enumerate() {
        let busy = results.processors[number].utilization.value;
        let servers = processor.servers();
        let share = servers.finite().map(|servers| busy / f64::from(servers));
        let lines = [
            processor.name.clone(),
            format!("servers: {servers}"),
            format!("busy {busy:.3}"),
        ];
        shape(&mut svg, *place, HEIGHT / 2.0, share, &lines);
    }
    svg.push_str("</svg>\n");
    svg
}

fn rows(model: &Model) -> Vec<Vec<TaskId>> {
    let depths = depths(model);
    let mut rows = vec![Vec::new(); depths.iter().max().map_or(0, |deepest| deepest + 1)];
    for (task, &depth) in depths.iter().enumerate() {
        rows[depth].push(TaskId(task));
    }
    rows.retain(|row| !row.is_empty());
    rows
}

fn spread(number: usize, row: usize, width: f64) -> Vec<Place> {
    let count = f64::from(u32::try_from(number).unwrap_or(u32::MAX));
    let row = f64::from(u32::try_from(row).unwrap_or(u32::MAX));
    let left = (width - count * (WIDTH + GAP_X) + GAP_X) / 2.0;
    let place = |at: usize| Place {
        x: left + f64::from(u32::try_from(at).unwrap_or(u32::MAX)) * (WIDTH + GAP_X),
        y: MARGIN + row * (HEIGHT + GAP_Y),
    };
    (0..number).map(place).collect()
}

/// One arrow stands for all calls of a kind between two tasks, and shows their total number.
fn arrows(model: &Model) -> Vec<(TaskId, TaskId, Line, String)> {
    let mut arrows: Vec<(TaskId, TaskId, Line, f64)> = Vec::new();
    let mut add = |from: TaskId, target: EntryId, line: Line, mean: f64| {
        let to = model[target].task;
        match arrows
            .iter_mut()
            .find(|arrow| (arrow.0, arrow.1, arrow.2) == (from, to, line))
        {
            Some(arrow) => arrow.3 += mean,
            None => arrows.push((from, to, line, mean)),
        }
    };
    for entry in model.entries() {
        for call in entry.phases.iter().flat_map(|phase| &phase.calls) {
            let line = match call.kind {
                CallKind::Synchronous => Line::Waits,
                CallKind::Asynchronous => Line::Sends,
            };
            add(entry.task, call.target, line, call.mean);
        }
        for forward in &entry.forwards {
            add(
                entry.task,
                forward.target,
                Line::Forwards,
                forward.probability,
            );
        }
    }
    let label = |mean: f64| format!("({})", (mean * 1000.0).round() / 1000.0);
    arrows
        .into_iter()
        .map(|(from, to, line, mean)| (from, to, line, label(mean)))
        .collect()
}

/// Lines of different kinds begin and end at different points. A line over several rows passes
/// around the boxes in between.
fn arrow(svg: &mut String, from: Place, to: Place, line: Line, label: &str) {
    let (aside, style) = match line {
        Line::Waits => (
            -SPREAD,
            "stroke=\"var(--quiet, #555)\" marker-end=\"url(#head)\"",
        ),
        Line::Sends => (
            SPREAD,
            "stroke=\"var(--quiet, #555)\" stroke-dasharray=\"6 4\" marker-end=\"url(#head)\"",
        ),
        Line::Forwards => (
            0.0,
            "stroke=\"var(--quiet, #555)\" stroke-dasharray=\"2 3\" marker-end=\"url(#head)\"",
        ),
        Line::Runs => (0.0, "stroke=\"var(--line, #ddd)\""),
    };
    let middle = WIDTH / 2.0 + aside;
    let (x1, x2) = (from.x + middle, to.x + middle);
    let (y1, y2) = if to.y > from.y {
        (from.y + HEIGHT, to.y)
    } else {
        (from.y, to.y + HEIGHT)
    };
    let is_long = (y2 - y1).abs() > HEIGHT + GAP_Y && line != Line::Runs;
    let bow = if is_long { aside.signum() * BOW } else { 0.0 };
    let (x, y) = ((x1 + x2) / 2.0 + bow, (y1 + y2) / 2.0);
    put(
        svg,
        format_args!("<path d=\"M{x1} {y1}Q{x} {y} {x2} {y2}\" fill=\"none\" {style}/>\n"),
    );
    if !label.is_empty() {
        // A point of the curve, a quarter of the way.
        let at = |start: f64, bend: f64, end: f64| (9.0 * start + 6.0 * bend + end) / 16.0;
        let (x, y) = (at(x1, x, x2) + 4.0, at(y1, y, y2) + 4.0);
        put(
            svg,
            format_args!(
                "<text x=\"{x}\" y=\"{y}\" fill=\"var(--quiet, #555)\" stroke=\"var(--back, #fff)\" stroke-width=\"4\" \
                 paint-order=\"stroke\">{label}</text>\n"
            ),
        );
    }
}

/// Draws a box with lines of text. A fuller box is darker; a box without a limit is white.
fn shape(svg: &mut String, place: Place, corner: f64, share: Option<f64>, lines: &[String]) {
    let Place { x, y } = place;
    let light = 100.0 - 45.0 * share.unwrap_or(0.0).clamp(0.0, 1.0);
    put(
        svg,
        format_args!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"{corner}\" \
         fill=\"hsl(30 90% {light:.0}%)\" stroke=\"#333\"/>\n"
        ),
    );
    for (number, line) in (0_u32..).zip(lines) {
        let (x, y) = (x + WIDTH / 2.0, y + 18.0 + 18.0 * f64::from(number));
        let weight = if number == 0 {
            " font-weight=\"600\""
        } else {
            ""
        };
        let text = report::escape(&shortened(line));
        put(
            svg,
            format_args!(
                "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\"{weight}>{text}</text>\n"
            ),
        );
    }
}

/// The part of a text that fits into a box.
fn shortened(text: &str) -> String {
    const LETTERS: usize = 26;
    if text.chars().count() <= LETTERS {
        return text.to_owned();
    }
    let start: String = text.chars().take(LETTERS - 3).collect();
    format!("{start}...")
}

fn put(svg: &mut String, text: std::fmt::Arguments<'_>) {
    svg.write_fmt(text).expect("a string takes all");
}

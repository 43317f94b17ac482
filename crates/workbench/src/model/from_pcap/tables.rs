//! The results of captures as tables.

use std::path::Path;

use capture::{Demand, Link, Place, Row, Sample, Study, Trace};
use report::{Page, Table};

use super::super::demand::stations;

/// All results as one page.
pub(super) fn page(
    title: &str,
    trace: &Trace,
    study: &Study,
    flow: usize,
    demands: &[Demand],
    out: Option<&Path>,
) -> Page {
    let mut page = Page::new(title)
        .table(points(trace))
        .table(flows(study, flow))
        .table(places(&study.places))
        .text(&format!("The flow, as in the call {}", study.call_id))
        .verbatim(&study.ladder_text())
        .table(times(&study.rows));
    let pauses = pauses(&study.rows);
    if !pauses.is_empty() {
        page = page.table(pauses);
    }
    page = page.table(links(&study.links)).table(stations(demands));
    if !study.warnings.is_empty() {
        let lines: Vec<String> = study
            .warnings
            .iter()
            .map(|warning| format!("- {warning}\n"))
            .collect();
        page = page.text("Warnings").verbatim(&lines.concat());
    }
    match out {
        Some(path) => page.text(&format!("The model is in {}.", path.display())),
        None => page.text("Write the model with --out FILE.lqn"),
    }
}

fn points(trace: &Trace) -> Table {
    let columns = ["point", "packets", "SIP messages", "others"];
    let mut table = Table::new("Capture points", columns);
    for (name, packets, messages, foreign) in trace.points() {
        table.push([
            name.to_owned(),
            packets.to_string(),
            messages.to_string(),
            foreign.to_string(),
        ]);
    }
    table
}

fn flows(study: &Study, chosen: usize) -> Table {
    let columns = ["flow", "starts with", "calls", "messages each", "nodes", ""];
    let mut table = Table::new("Flows of whole calls", columns);
    for (number, flow) in study.flows.iter().enumerate() {
        let mark = if number + 1 == chosen { "modelled" } else { "" };
        table.push([
            (number + 1).to_string(),
            flow.begins.clone(),
            flow.calls.to_string(),
            flow.messages.to_string(),
            flow.nodes.to_string(),
            mark.to_owned(),
        ]);
    }
    table
}

fn places(places: &[Place]) -> Table {
    let mut table = Table::new(
        "Nodes of the flow",
        ["role", "nodes", "addresses", "measured at"],
    );
    for place in places {
        table.push([
            place.role.to_string(),
            place.nodes.len().to_string(),
            addresses(place),
            place.points.join(", "),
        ]);
    }
    table
}

/// The first few.
fn addresses(place: &Place) -> String {
    const SHOWN: usize = 3;
    let all: Vec<String> = place
        .nodes
        .iter()
        .flatten()
        .map(ToString::to_string)
        .collect();
    match all.len().saturating_sub(SHOWN) {
        0 => all.join(", "),
        more => format!("{} and {more} more", all[..SHOWN].join(", ")),
    }
}

fn times(rows: &[Row]) -> Table {
    let columns = [
        "role",
        "from",
        "to",
        "mean, ms",
        "±95 %, ms",
        "least, ms",
        "greatest, ms",
        "calls",
        "entry",
    ];
    let mut table = Table::new("Times between messages", columns);
    for row in rows {
        let [mean, half, least, greatest] = figures(&row.time_ms);
        let is_bound = row.to.is_none() && row.time_ms.count() > 0;
        table.push([
            row.role.to_string(),
            row.from.to_string(),
            row.to.map_or_else(|| "-".to_owned(), |to| to.to_string()),
            if is_bound { format!("< {mean}") } else { mean },
            half,
            least,
            greatest,
            row.time_ms.count().to_string(),
            row.entry.clone(),
        ]);
    }
    table
}

fn figures(sample: &Sample) -> [String; 4] {
    if sample.count() == 0 {
        return ["-"; 4].map(str::to_owned);
    }
    let half = sample.ci95().map_or_else(|| "-".to_owned(), figure);
    [
        figure(sample.mean()),
        half,
        figure(sample.least()),
        figure(sample.greatest()),
    ]
}

fn figure(ms: f64) -> String {
    format!("{ms:.4}")
}

fn pauses(rows: &[Row]) -> Table {
    let mut table = Table::new(
        "Pauses, which do not count as work",
        ["role", "after", "mean, ms", "±95 %, ms"],
    );
    for row in rows.iter().filter(|row| row.pause_ms.greatest() > 0.0) {
        let [mean, half, ..] = figures(&row.pause_ms);
        table.push([row.role.to_string(), row.from.to_string(), mean, half]);
    }
    table
}

fn links(links: &[Link]) -> Table {
    let columns = [
        "from",
        "to",
        "packets a call",
        "a packet's mean, ms",
        "±95 %, ms",
        "values",
    ];
    let mut table = Table::new("Network", columns);
    for link in links {
        let sample = link.packet_ms.clone().unwrap_or_default();
        let [mean, half, ..] = figures(&sample);
        table.push([
            link.outer.to_string(),
            link.inner.to_string(),
            link.packets.to_string(),
            mean,
            half,
            sample.count().to_string(),
        ]);
    }
    table
}

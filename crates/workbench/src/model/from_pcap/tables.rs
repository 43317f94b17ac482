//! The results of captures as tables.

use std::path::Path;

use capture::{Demand, Flow, Place, Row, Sample, Study, Trace};
use report::{Page, Table};

use super::super::demand::stations;

/// What is shown beside the study.
pub(super) struct Shown<'a> {
    /// The modelled flow.
    pub(super) flow: usize,
    /// The calls that have it.
    pub(super) used: usize,
    /// Whether each call that is not used is listed.
    pub(super) lists_unused: bool,
    pub(super) out: Option<&'a Path>,
}

/// All results as one page.
pub(super) fn page(
    title: &str,
    trace: &Trace,
    study: &Study,
    demands: &[Demand],
    shown: &Shown<'_>,
) -> Page {
    let mut page = Page::new(title)
        .table(points(trace))
        .table(flows(study, shown.flow))
        .table(calls(study, shown.used));
    if shown.lists_unused {
        page = page.table(unused(study));
    }
    page = page
        .table(places(&study.places))
        .text(&format!("The flow, as in the call {}", study.call_id))
        .verbatim(&study.ladder_text())
        .table(times(study));
    let pauses = pauses(study);
    if !pauses.is_empty() {
        page = page.table(pauses);
    }
    page = page.table(links(study)).table(stations(demands));
    if !study.warnings.is_empty() {
        let lines: Vec<String> = study
            .warnings
            .iter()
            .map(|warning| format!("- {warning}\n"))
            .collect();
        page = page.text("Warnings").verbatim(&lines.concat());
    }
    match shown.out {
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
    let columns = [
        "flow",
        "starts with",
        "ends with",
        "ended by",
        "calls",
        "messages each",
        "nodes",
        "servers (calls)",
        "",
    ];
    let mut table = Table::new("Flows of whole calls", columns);
    for (number, flow) in study.flows.iter().enumerate() {
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        table.push([
            (number + 1).to_string(),
            flow.begins.clone(),
            or_none(flow.outcome.map(|status| status.to_string())),
            or_none(flow.ended.map(|ended| ended.to_string())),
            flow.calls.to_string(),
            flow.messages.to_string(),
            flow.nodes.to_string(),
            servers(flow),
            marks(flow, number + 1 == chosen),
        ]);
    }
    table
}

/// What else tells a flow from others.
fn marks(flow: &Flow, is_chosen: bool) -> String {
    let marks = [
        is_chosen.then(|| "modelled".to_owned()),
        flow.is_challenged.then(|| "challenged".to_owned()),
        (!flow.also.is_empty()).then(|| format!("with {}", flow.also.join(" and "))),
        (flow.branches > 1).then(|| format!("{} branches", flow.branches)),
        flow.differs.clone(),
    ];
    marks.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// The first few.
fn servers(flow: &Flow) -> String {
    let all: Vec<String> = flow
        .servers
        .iter()
        .map(|(address, calls)| format!("{address} ({calls})"))
        .collect();
    first_few(&all)
}

/// What became of all calls: no call is left out without a reason.
fn calls(study: &Study, used: usize) -> Table {
    let mut table = Table::new("Calls", ["calls", "of them", ""]);
    let seen = used + study.unused.len();
    table.push([seen.to_string(), "seen".to_owned(), String::new()]);
    table.push([used.to_string(), "used".to_owned(), String::new()]);
    for (reason, calls) in study.reasons() {
        table.push([calls.to_string(), "not used".to_owned(), reason.to_string()]);
    }
    table
}

fn unused(study: &Study) -> Table {
    let mut table = Table::new("Calls that are not used", ["Call-ID", "why"]);
    for call in &study.unused {
        table.push([call.call_id.clone(), call.reason.to_string()]);
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
            place.name.clone(),
            place.nodes.len().to_string(),
            addresses(place),
            place.points.join(", "),
        ]);
    }
    table
}

fn addresses(place: &Place) -> String {
    let addresses = place.nodes.iter().flatten().map(ToString::to_string);
    first_few(&addresses.collect::<Vec<_>>())
}

fn first_few(all: &[String]) -> String {
    const SHOWN: usize = 3;
    match all.len().saturating_sub(SHOWN) {
        0 => all.join(", "),
        more => format!("{} and {more} more", all[..SHOWN].join(", ")),
    }
}

fn times(study: &Study) -> Table {
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
    for row in &study.rows {
        let [mean, half, least, greatest] = figures(&row.time_ms);
        let is_bound = row.to.is_none() && row.time_ms.count() > 0;
        table.push([
            study.places[row.place].name.clone(),
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

fn pauses(study: &Study) -> Table {
    let mut table = Table::new(
        "Pauses, which do not count as work",
        ["role", "after", "mean, ms", "±95 %, ms"],
    );
    let pausing = |row: &&Row| row.pause_ms.greatest() > 0.0;
    for row in study.rows.iter().filter(pausing) {
        let [mean, half, ..] = figures(&row.pause_ms);
        let name = study.places[row.place].name.clone();
        table.push([name, row.from.to_string(), mean, half]);
    }
    table
}

fn links(study: &Study) -> Table {
    let columns = [
        "from",
        "to",
        "packets a call",
        "a packet's mean, ms",
        "±95 %, ms",
        "values",
    ];
    let mut table = Table::new("Network", columns);
    for link in &study.links {
        let sample = link.packet_ms.clone().unwrap_or_default();
        let [mean, half, ..] = figures(&sample);
        table.push([
            study.places[link.ends.0].name.clone(),
            study.places[link.ends.1].name.clone(),
            link.packets.to_string(),
            mean,
            half,
            sample.count().to_string(),
        ]);
    }
    table
}

//! Reads a scenario's file.

mod calls;
mod output;
mod pool;
mod servers;
mod stages;
mod values;

use std::{path::Path, time::Duration};

use load::Retransmission;
use settings::{
    At, Problem, Read, Section, Value,
    value::{boolean, integer, number, text, word},
};
use sim::{Action, Death, Deed, Link, Search, Span, Who};

use self::values::{law, numbers, one_or_more, time};
use super::scenario::{CRITERION, EdgesSetup, Offered, Scenario, ServersSetup};

/// The keys of events.
const DEEDS: [&str; 10] = [
    "kill", "vanish", "restart", "drain", "undrain", "add", "slow", "stall", "cut", "mend",
];

/// Whether callers, phones and servers retransmit messages.
const TIMERS: [(&str, Retransmission); 3] = [
    ("rfc3261", Retransmission::Rfc3261),
    ("none", Retransmission::Never),
    ("sipstone", Retransmission::Sipstone),
];

/// The range of a number of calls per second.
const RATES: std::ops::RangeInclusive<f64> = 0.1..=100_000.0;

/// Reads and checks the file at `path`.
///
/// # Errors
/// Every problem, in the order of the file.
pub(super) fn load(path: &Path) -> Result<Scenario, Vec<Problem>> {
    settings::load(path, scenario)
}

fn scenario(mut root: Section<'_>) -> Option<Scenario> {
    let title = root.require("title", "write title = \"what it shows\"", text);
    let about = root.get_or("about", "", text);
    let edges = stages::edges(&mut root);
    let policies = pool::policies(&mut root);
    let servers = servers::all(&mut root);
    let holding = root.get_or("holding", load::Law::ZERO, law);
    let scenario = Scenario {
        title: title.map_or_else(String::new, |title| title.value.to_owned()),
        about: paragraphs(about),
        seeds: root.get_or("seeds", 5, integer(1..=1_000)),
        warm_up: root.get_or("warm_up", Duration::ZERO, time),
        measured: measured(&mut root),
        exchanges: root.get_or(
            "exchange",
            vec![("off".to_owned(), None)],
            one_or_more(exchange),
        ),
        streams: calls::streams(&mut root),
        offered: offered(&mut root),
        holding,
        retransmission: root.get_or("timers", Retransmission::Rfc3261, word("word", &TIMERS)),
        edge_capacity: stages::processor(&mut root),
        nodes: stages::nodes(root.table("nodes")),
        link: network(root.table("network")),
        actions: actions(&mut root, &edges, &servers),
        watches_occupancy: root.get_or("occupancy", false, boolean),
        edges,
        policies,
        servers,
        plots: Vec::new(),
        bars: Vec::new(),
    };
    let plots = output::plots(&mut root, &scenario);
    let bars = output::bars(&mut root, &scenario);
    root.finish();
    Some(Scenario {
        plots,
        bars,
        ..scenario
    })
}

/// `"off"`, or an interval.
fn exchange(value: &Value<'_>) -> Read<(String, Option<Duration>)> {
    let interval = match value.as_str() {
        Some("off") => None,
        _ => Some(time(value)?),
    };
    Ok((value.as_str().unwrap_or_default().to_owned(), interval))
}

fn paragraphs(text: &str) -> Vec<String> {
    let lines = |paragraph: &str| {
        let lines: Vec<_> = paragraph.lines().map(str::trim).collect();
        lines.join(" ").trim().to_owned()
    };
    let paragraphs = text.split("\n\n").map(lines);
    paragraphs
        .filter(|paragraph| !paragraph.is_empty())
        .collect()
}

fn measured(root: &mut Section<'_>) -> Span {
    let calls = root.get("calls", integer(1..=100_000_000));
    let duration = root.get("duration", time);
    match (calls, duration) {
        (Some(calls), None) => Span::Calls(calls.value as u64),
        (None, Some(duration)) => Span::Time(duration.value),
        _ => {
            if !root.has("calls") || root.has("duration") {
                root.problem(
                    "the length of the measurement is unclear: write either calls = 60000 or \
                     duration = \"60s\"",
                );
            }
            Span::Calls(1)
        }
    }
}

fn offered(root: &mut Section<'_>) -> Offered {
    let rate = root.get("rate", numbers(RATES));
    let load = root.get("load", numbers(0.001..=2.0));
    let peak = root.given_table("peak").map(search);
    match (rate, load, peak) {
        (Some(rate), None, None) => Offered::Rate(rate.value),
        (None, Some(load), None) => Offered::Load(load.value),
        (None, None, Some(search)) => Offered::Peak(search),
        _ => {
            let given = ["rate", "load", "peak"].iter().filter(|key| root.has(key));
            if given.count() != 1 {
                root.problem(
                    "the number of calls is unclear: write one of rate = [200, 2200] in calls per \
                     second, load = [0.1, 0.9] as shares of the servers' capacity, or a table \
                     [peak]",
                );
            }
            Offered::Rate(vec![1.0])
        }
    }
}

/// The bounds and the step are shares of the servers' capacity.
fn search(mut section: Section<'_>) -> Search {
    let mut criterion = CRITERION;
    let low = section.get_or("low", 0.5, number(0.001..=10.0));
    let high = section.get_or("high", 1.2, number(0.001..=10.0));
    let step = section.get_or("step", 0.01, number(0.000_1..=1.0));
    criterion.within = section.get_or("within", criterion.within, time);
    criterion.share = section.get_or("share", criterion.share, number(0.0..=1.0));
    if low >= high {
        section.problem(&format!("low = {low} must be less than high = {high}"));
    }
    section.finish();
    Search {
        low,
        high,
        step,
        criterion,
    }
}

fn network(mut section: Section<'_>) -> Link {
    let share = || number(0.0..=1.0);
    let mut link = Link::clean(Duration::ZERO);
    link.latency = section.get_or(
        "latency",
        load::Law::Constant(Duration::from_micros(100)),
        law,
    );
    link.loss = section.get_or("loss", 0.0, share());
    link.duplication = section.get_or("duplication", 0.0, share());
    link.reordering = section.get_or("reordering", 0.0, share());
    link.held_back = section.get_or("held_back", Duration::ZERO, time);
    if let Some(mut queue) = section.given_table("queue") {
        let per_s = queue.require("per_s", "datagrams per second", number(1.0..=1e9));
        let waiting = queue.require("waiting", "datagrams that may wait", integer(1..=1_000_000));
        queue.finish();
        link.bottleneck = per_s.zip(waiting).map(|(per_s, waiting)| sim::Bottleneck {
            per_s: per_s.value,
            waiting_max: waiting.value as u32,
        });
    }
    section.finish();
    link
}

fn actions(root: &mut Section<'_>, edges: &[EdgesSetup], servers: &[ServersSetup]) -> Vec<Action> {
    let fewest = servers.iter().map(|setup| setup.servers.len()).min();
    let counts = [
        edges.iter().map(|edges| edges.count).min().unwrap_or(0),
        fewest.unwrap_or(0),
    ];
    let mut actions = Vec::new();
    for mut event in root.tables("event") {
        let at = event.require(
            "at",
            "write at = \"10s\", the time since the end of the warm-up",
            time,
        );
        let deed = deed(&mut event, counts);
        if let (Some(at), Some(deed)) = (at, deed) {
            actions.push(Action { at: at.value, deed });
        }
        event.finish();
    }
    actions
}

fn deed(event: &mut Section<'_>, counts: [usize; 2]) -> Option<Deed> {
    let party = || move |value: &Value<'_>| party(text(value)?, counts);
    let server = || {
        move |value: &Value<'_>| match party()(value)? {
            Who::Server(number) => Ok(number),
            _ => Err("expected a server, such as \"server-1\"".to_owned()),
        }
    };
    let two = || {
        move |value: &Value<'_>| match one_or_more(party())(value)?[..] {
            [one, other] => Ok((one, other)),
            _ => Err("expected two parties, such as [\"edge-1\", \"server-1\"]".to_owned()),
        }
    };
    let speed = event.get("speed", number(0.01..=100.0));
    let lasting = event.get("lasting", time);
    let capacity = event.get_or("capacity", 1.0, number(balance::CAPACITY));
    let found = [
        value(event.get("kill", party())).map(|who| Deed::Kill(who, Death::Process)),
        value(event.get("vanish", party())).map(|who| Deed::Kill(who, Death::Machine)),
        value(event.get("restart", party())).map(Deed::Restart),
        value(event.get("drain", server())).map(Deed::Drain),
        value(event.get("undrain", server())).map(Deed::Undrain),
        value(event.get("add", server())).map(|server| Deed::Add(server, capacity)),
        value(event.get("slow", server()))
            .zip(value(speed))
            .map(|(server, speed)| Deed::Speed(server, speed)),
        value(event.get("stall", server()))
            .zip(value(lasting))
            .map(|(server, lasting)| Deed::Stall(server, lasting)),
        value(event.get("cut", two())).map(|(one, other)| Deed::Cut(one, other)),
        value(event.get("mend", two())).map(|(one, other)| Deed::Mend(one, other)),
    ];
    let given = DEEDS.iter().filter(|key| event.has(key)).count();
    if given != 1
        || (event.has("slow") && !event.has("speed"))
        || (event.has("stall") && !event.has("lasting"))
    {
        event.problem(
            "the event has no single action: write one of kill, vanish, restart, drain, undrain, \
             add = \"server-1\", slow with speed, stall with lasting, cut or mend = [\"edge-1\", \
             \"server-1\"]",
        );
    }
    found.into_iter().flatten().next()
}

fn value<T>(found: Option<At<T>>) -> Option<T> {
    found.map(|found| found.value)
}

/// `edge-1`, `server-1` or `caller-1`. `counts` are the numbers of edges and servers that every
/// point has.
fn party(name: &str, [edges, servers]: [usize; 2]) -> Read<Who> {
    let unknown =
        || format!("no party \"{name}\": expected \"edge-1\", \"server-1\" or \"caller-1\"");
    let (kind, number) = name.rsplit_once('-').ok_or_else(unknown)?;
    let number: usize = number.parse().map_err(|_| unknown())?;
    let (count, who): (usize, fn(usize) -> Who) = match kind {
        "edge" => (edges, Who::Edge),
        "server" => (servers, Who::Server),
        "caller" => (edges, Who::Caller),
        _ => return Err(unknown()),
    };
    match number.checked_sub(1).filter(|number| *number < count) {
        Some(number) => Ok(who(number)),
        None => Err(format!(
            "there is no {name}: the last one is {kind}-{count}"
        )),
    }
}

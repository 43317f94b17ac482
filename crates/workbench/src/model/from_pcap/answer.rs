//! The results of captures as JSON. Times are in milliseconds.

use std::net::SocketAddr;

use capture::{Demand, Reason, Sample, Study, Trace};
use serde::Serialize;

use super::super::demand::Station;

#[derive(Serialize)]
struct Answer<'s> {
    points: Vec<Point<'s>>,
    calls: Calls<'s>,
    flows: Vec<Flow<'s>>,
    nodes: Vec<Nodes<'s>>,
    call_id: &'s str,
    messages: Vec<Message<'s>>,
    times: Vec<Time<'s>>,
    network: Vec<Link>,
    demands: Vec<Station<'s>>,
    warnings: Vec<Warning<'s>>,
    /// As .lqn text.
    model: &'s str,
}

#[derive(Serialize)]
struct Point<'s> {
    name: &'s str,
    packets: u64,
    sip_messages: usize,
    others: u64,
}

#[derive(Serialize)]
struct Calls<'s> {
    seen: usize,
    used: usize,
    unused: Vec<Unused<'s>>,
}

#[derive(Serialize)]
struct Unused<'s> {
    call_id: &'s str,
    reason: &'static str,
    /// Its number in the table of flows, if it has one.
    flow: Option<usize>,
}

#[derive(Serialize)]
struct Flow<'s> {
    begins: &'s str,
    calls: usize,
    messages: usize,
    nodes: usize,
    branches: usize,
    outcome: Option<u16>,
    is_challenged: bool,
    also: &'s [String],
    ended: Option<String>,
    servers: Vec<Server<'s>>,
    differs: Option<&'s str>,
}

#[derive(Serialize)]
struct Server<'s> {
    address: &'s str,
    calls: usize,
}

#[derive(Serialize)]
struct Nodes<'s> {
    role: String,
    addresses: &'s [Vec<SocketAddr>],
    points: &'s [String],
}

#[derive(Serialize)]
struct Message<'s> {
    offset_ms: f64,
    from: String,
    to: String,
    message: &'s str,
}

#[derive(Serialize)]
struct Time<'s> {
    role: String,
    from: usize,
    to: Option<usize>,
    entry: &'s str,
    #[serde(flatten)]
    time: Figures,
    pause_ms: f64,
}

#[derive(Serialize)]
struct Figures {
    mean_ms: Option<f64>,
    ci95_ms: Option<f64>,
    least_ms: Option<f64>,
    greatest_ms: Option<f64>,
    values: u64,
}

#[derive(Serialize)]
struct Link {
    from: String,
    to: String,
    packets: u32,
    #[serde(flatten)]
    packet: Figures,
}

#[derive(Serialize)]
struct Warning<'s> {
    kind: &'static str,
    count: u64,
    point: Option<&'s str>,
    packet: Option<u64>,
    text: String,
}

impl From<&Sample> for Figures {
    fn from(sample: &Sample) -> Self {
        let any = |value: f64| (sample.count() > 0).then_some(value);
        Self {
            mean_ms: any(sample.mean()),
            ci95_ms: sample.ci95(),
            least_ms: any(sample.least()),
            greatest_ms: any(sample.greatest()),
            values: sample.count(),
        }
    }
}

/// All results.
pub(super) fn json(
    trace: &Trace,
    (study, used): (&Study, usize),
    demands: &[Demand],
    model: &str,
) -> String {
    let answer = Answer {
        points: points(trace),
        calls: calls(study, used),
        flows: flows(study),
        nodes: nodes(study),
        call_id: &study.call_id,
        messages: messages(study),
        times: times(study),
        network: network(study),
        demands: demands.iter().map(Station::from).collect(),
        warnings: warnings(study),
        model,
    };
    let text = serde_json::to_string_pretty(&answer).expect("numbers and texts have a JSON form");
    text + "\n"
}

fn points(trace: &Trace) -> Vec<Point<'_>> {
    let point = |(name, packets, sip_messages, others)| Point {
        name,
        packets,
        sip_messages,
        others,
    };
    trace.points().map(point).collect()
}

fn calls(study: &Study, used: usize) -> Calls<'_> {
    let unused = study.unused.iter().map(|call| Unused {
        call_id: &call.call_id,
        reason: call.reason.slug(),
        flow: match call.reason {
            Reason::OtherFlow(number) => Some(number),
            _ => None,
        },
    });
    Calls {
        seen: used + study.unused.len(),
        used,
        unused: unused.collect(),
    }
}

fn flows(study: &Study) -> Vec<Flow<'_>> {
    let flows = study.flows.iter().map(|flow| Flow {
        begins: &flow.begins,
        calls: flow.calls,
        messages: flow.messages,
        nodes: flow.nodes,
        branches: flow.branches,
        outcome: flow.outcome,
        is_challenged: flow.is_challenged,
        also: &flow.also,
        ended: flow.ended.map(|ended| ended.to_string()),
        servers: servers(flow),
        differs: flow.differs.as_deref(),
    });
    flows.collect()
}

fn servers(flow: &capture::Flow) -> Vec<Server<'_>> {
    let servers = flow.servers.iter();
    servers
        .map(|(address, calls)| Server {
            address,
            calls: *calls,
        })
        .collect()
}

fn nodes(study: &Study) -> Vec<Nodes<'_>> {
    let nodes = study.places.iter().map(|place| Nodes {
        role: place.name.clone(),
        addresses: &place.nodes,
        points: &place.points,
    });
    nodes.collect()
}

fn messages(study: &Study) -> Vec<Message<'_>> {
    let role = |place: usize| study.places[place].name.clone();
    let messages = study.ladder.iter().map(|rung| Message {
        offset_ms: rung.offset_ms,
        from: role(rung.ends.0),
        to: role(rung.ends.1),
        message: &rung.message,
    });
    messages.collect()
}

fn times(study: &Study) -> Vec<Time<'_>> {
    let times = study.rows.iter().map(|row| Time {
        role: study.places[row.place].name.clone(),
        from: row.from,
        to: row.to,
        entry: &row.entry,
        time: Figures::from(&row.time_ms),
        pause_ms: row.pause_ms.mean(),
    });
    times.collect()
}

fn network(study: &Study) -> Vec<Link> {
    let links = study.links.iter().map(|link| Link {
        from: study.places[link.ends.0].name.clone(),
        to: study.places[link.ends.1].name.clone(),
        packets: link.packets,
        packet: Figures::from(&link.packet_ms.clone().unwrap_or_default()),
    });
    links.collect()
}

fn warnings(study: &Study) -> Vec<Warning<'_>> {
    let warnings = study.warnings.iter().map(|warning| Warning {
        kind: warning.kind.slug(),
        count: warning.count,
        point: warning.point.as_deref(),
        packet: warning.packet,
        text: warning.to_string(),
    });
    warnings.collect()
}

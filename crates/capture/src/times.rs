//! The times of a flow's calls.

use std::collections::BTreeSet;

use crate::{
    Link, Options, Place, Role, Row, Rung, Sample, Study, WarningKind,
    trace::Label,
    turns::Turns,
    view::{View, Whole},
    warning::Counts,
    way::Way,
    work::{Course, Work, Works},
};

/// An interval that is wider than this share of its mean gives a warning.
const WIDE_SHARE: f64 = 0.2;

/// Shorter work on a message may be mostly the wake-up of a process, in milliseconds.
const SHORT_MS: f64 = 0.2;

/// For each place and turn: its time and its pause, in milliseconds.
type TurnTimes = Vec<Vec<(Sample, Sample)>>;

/// The measurements of one flow's calls.
pub(crate) fn measure(
    view: &View<'_>,
    points: &[usize],
    calls: &[&Whole<'_>],
    options: &Options,
    counts: &mut Counts,
) -> Study {
    let first = calls[0];
    let kinds = kinds(view, first);
    let works = Works::new(Course {
        way: &first.way,
        turns: &first.turns,
        ends: &first.ends,
        kinds: &kinds,
    });
    let turn_times = turn_times(calls);
    let estimates = estimates(first, &turn_times, &options.unseen_ms, counts);
    count_short(first, &turn_times, &options.processor_known, counts);
    let times = work_times(&works.works, calls, &estimates);
    let is_wide = |time: &&Sample| {
        time.ci95()
            .is_some_and(|half| half > WIDE_SHARE * time.mean())
    };
    let served = works
        .works
        .iter()
        .zip(&times)
        .filter(|(work, _)| work.place > 0);
    counts.add(
        WarningKind::Wide,
        served.map(|(_, time)| time).filter(is_wide).count(),
    );
    Study {
        flows: Vec::new(),
        unused: Vec::new(),
        places: places(view, points, calls),
        call_id: String::from_utf8_lossy(view.trace.call_ids.get(first.call.call_id)).into_owned(),
        ladder: ladder(view, first),
        rows: rows(&works, first, turn_times),
        links: links(view, points, &works, calls, counts),
        warnings: Vec::new(),
        works: works.works,
        times,
    }
}

/// The kind of each message, and its CSeq.
fn kinds<'t>(view: &View<'t>, first: &Whole<'_>) -> Vec<(&'t Label, u32)> {
    let kind = |&at: &usize| {
        let seen = &view.sent[at].seen;
        (view.trace.labels.get(seen.label), seen.cseq)
    };
    first.call.sent.iter().map(kind).collect()
}

fn ms(ns: i64) -> f64 {
    ns as f64 / 1e6
}

fn turn_times(calls: &[&Whole<'_>]) -> TurnTimes {
    let empty = |turns: &Turns| vec![Default::default(); turns.turns.len()];
    let mut times: TurnTimes = calls[0].turns.iter().map(empty).collect();
    for whole in calls {
        for (turns, times) in whole.turns.iter().zip(&mut times) {
            for (turn, (time, pause)) in turns.turns.iter().zip(times) {
                if let Some(ns) = turn.service_ns.or(turn.until_next_ns) {
                    time.add(ms(ns));
                }
                pause.add(ms(turn.pause_ns));
            }
        }
    }
    times
}

/// Counts the messages whose work takes hardly longer than a wake-up, unless the operator gave the
/// processor time.
fn count_short(first: &Whole<'_>, times: &TurnTimes, known: &[Role], counts: &mut Counts) {
    let places = first.turns.iter().zip(times).enumerate().skip(1);
    for (place, (turns, times)) in places {
        let is_known = known.contains(&first.way.role(place));
        let seen = turns.turns.iter().zip(times);
        let short = seen
            .filter(|(turn, (time, _))| turn.service_ns.is_some() && time.mean() < SHORT_MS)
            .count();
        counts.add(WarningKind::Short, if is_known { 0 } else { short });
    }
}

/// The assumed duration of a turn whose end can't be seen, in milliseconds, for each place and
/// turn.
///
/// At the driver it lasts until the next message, as in the paper: the driver is not the
/// bottleneck. Elsewhere it is the given work of the role, or the shortest turn of the node.
fn estimates(
    first: &Whole<'_>,
    times: &TurnTimes,
    unseen_ms: &[(Role, f64)],
    counts: &mut Counts,
) -> Vec<Vec<f64>> {
    let mut estimates = Vec::new();
    for (place, (turns, times)) in first.turns.iter().zip(times).enumerate() {
        let role = first.way.role(place);
        let known = unseen_ms.iter().rev().find(|(of, _)| *of == role);
        if let Some((_, known)) = known {
            estimates.push(vec![*known; turns.turns.len()]);
            continue;
        }
        let seen = turns
            .turns
            .iter()
            .zip(times)
            .filter(|(turn, _)| turn.service_ns.is_some());
        let least = seen
            .map(|(_, (time, _))| time.mean())
            .reduce(f64::min)
            .unwrap_or(0.0);
        let estimate = |(_, (time, _)): (_, &(Sample, Sample))| match time.count() {
            0 => least,
            _ if place == 0 => time.mean(),
            _ => time.mean().min(least),
        };
        let hidden = turns
            .turns
            .iter()
            .filter(|turn| place > 0 && turn.service_ns.is_none());
        counts.add(WarningKind::Estimated, hidden.count());
        estimates.push(turns.turns.iter().zip(times).map(estimate).collect());
    }
    estimates
}

fn work_times(works: &[Work], calls: &[&Whole<'_>], estimates: &[Vec<f64>]) -> Vec<Sample> {
    let time_of = |work: &Work, whole: &Whole<'_>| -> f64 {
        let turns = &whole.turns[work.place].turns;
        let times = work.turns.iter().map(|&turn| {
            let seen = turns[turn].service_ns.map(ms);
            seen.unwrap_or(estimates[work.place][turn])
        });
        times.sum()
    };
    works
        .iter()
        .map(|work| {
            let mut sample = Sample::default();
            for whole in calls.iter().filter(|_| !work.turns.is_empty()) {
                sample.add(time_of(work, whole));
            }
            sample
        })
        .collect()
}

fn rows(works: &Works<'_>, first: &Whole<'_>, times: TurnTimes) -> Vec<Row> {
    let mut rows = Vec::new();
    for (place, (turns, times)) in first.turns.iter().zip(times).enumerate() {
        for (number, (turn, (time_ms, pause_ms))) in turns.turns.iter().zip(times).enumerate() {
            let owner = works
                .works
                .iter()
                .find(|work| work.place == place && work.turns.contains(&number));
            rows.push(Row {
                role: first.way.role(place),
                place,
                from: turn.input + 1,
                to: turn.outputs.last().map(|output| output + 1),
                time_ms,
                entry: owner.map_or_else(String::new, |work| work.name.clone()),
                pause_ms,
            });
        }
    }
    rows
}

fn ladder(view: &View<'_>, first: &Whole<'_>) -> Vec<Rung> {
    let messages: Vec<_> = first.call.sent.iter().map(|&at| &view.sent[at]).collect();
    let rungs = messages
        .iter()
        .zip(&first.ends)
        .map(|(message, &ends)| Rung {
            message: view.trace.labels.get(message.seen.label).to_string(),
            ends,
            offset_ms: ms(message.time_ns - messages[0].time_ns),
        });
    rungs.collect()
}

fn places(view: &View<'_>, points: &[usize], calls: &[&Whole<'_>]) -> Vec<Place> {
    let way = &calls[0].way;
    let nodes_at = |at: usize| {
        let nodes: BTreeSet<usize> = calls.iter().map(|whole| whole.way.nodes[at]).collect();
        nodes
    };
    let nodes: Vec<BTreeSet<usize>> = (0..way.len()).map(nodes_at).collect();
    let names = way.names();
    let stations = stations(way, &nodes);
    let place = |at: usize| {
        let nodes = || nodes[at].iter();
        let mut measured: Vec<String> = nodes()
            .map(|&node| view.trace.points[points[node]].name.clone())
            .collect();
        measured.sort();
        measured.dedup();
        Place {
            role: way.role(at),
            name: names[at].clone(),
            station: stations[at],
            nodes: nodes()
                .map(|&node| view.nodes.nodes[node].1.clone())
                .collect(),
            points: measured,
        }
    };
    (0..way.len()).map(place).collect()
}

/// For each place the first one of its role that it shares nodes with, directly or over others.
fn stations(way: &Way, nodes: &[BTreeSet<usize>]) -> Vec<usize> {
    let mut stations: Vec<usize> = (0..way.len()).collect();
    for at in 0..way.len() {
        for other in 0..at {
            let (one, two) = (stations[at], stations[other]);
            if way.role(at) == way.role(other) && !nodes[at].is_disjoint(&nodes[other]) {
                let joined = stations.iter_mut().filter(|it| **it == one.max(two));
                joined.for_each(|it| *it = one.min(two));
            }
        }
    }
    stations
}

fn links(
    view: &View<'_>,
    points: &[usize],
    works: &Works<'_>,
    calls: &[&Whole<'_>],
    counts: &mut Counts,
) -> Vec<Link> {
    let way = &calls[0].way;
    let link = |far: usize| {
        let near = way.parent(far);
        let mut packet_ms = Sample::default();
        for whole in calls {
            let (outer, inner) = (points[whole.way.nodes[near]], points[whole.way.nodes[far]]);
            if outer == inner {
                continue;
            }
            for trip in works.round_trips.iter().filter(|trip| trip.far == far) {
                let request = whole.turns[far].turns[trip.inner].input;
                let reply = whole.turns[near].turns[trip.outer].input;
                let time = |message: usize, point: usize| {
                    view.sent[whole.call.sent[message]].times_ns[point]
                };
                let round = |point| Some(time(reply, point)? - time(request, point)?);
                if let (Some(outside), Some(inside)) = (round(outer), round(inner)) {
                    packet_ms.add(ms(outside - inside) / 2.0);
                }
            }
        }
        Link {
            outer: way.role(near),
            inner: way.role(far),
            ends: (near, far),
            packets: works.works.iter().map(|work| work.packets[far]).sum(),
            packet_ms: (packet_ms.count() > 0).then_some(packet_ms),
        }
    };
    let links: Vec<Link> = (1..way.len()).map(link).collect();
    let unknown = links.iter().filter(|link| link.packet_ms.is_none());
    counts.add(WarningKind::NetworkUnknown, unknown.count());
    links
}

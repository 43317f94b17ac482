//! Merges the views of several capture points: one message gets a time for each point.

use std::time::Duration;

use crate::{
    WarningKind,
    read::Map,
    trace::{Seen, Trace},
    warning::Counts,
};

/// A copy of a message within this time comes from the capture, not from the sender: T1 is ten
/// times longer (RFC 3261 §17.1.1.1).
const COPY_TIME: Duration = Duration::from_millis(50);
/// A copy of a message after this time is not a retransmission: 64*T1 (RFC 3261 §17.1.1.2).
const RETRANSMISSION_TIME: Duration = Duration::from_secs(32);
/// If the travel time between two points changes by more than this, it is not jitter.
const WAY_STEP_NS: i64 = 10_000_000;

/// A message on its way from one node to the next.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) seen: Seen,
    /// The best known time on the first point's clock.
    pub(crate) time_ns: i64,
    /// The time at each point, on its own clock.
    pub(crate) times_ns: Vec<Option<i64>>,
    pub(crate) is_retransmission: bool,
}

/// All messages in the order of time, and the problems of the captures that the points' views show.
#[derive(Debug)]
pub(crate) struct Merged {
    pub(crate) sent: Vec<Sent>,
    /// One for each point.
    pub(crate) counts: Vec<Counts>,
}

pub(crate) fn merge(trace: &Trace) -> Merged {
    let points = trace.points.len();
    let mut counts = vec![Counts::default(); points];
    let mut sent: Vec<Sent> = Vec::new();
    let mut known: Map<Copy, usize> = Map::default();
    for (point, counts) in counts.iter_mut().enumerate() {
        let mut last: Map<((u32, u32), u64), (Duration, u32)> = Map::default();
        for seen in &trace.points[point].messages {
            let key = (seen.ends, seen.content);
            let before = last.get(&key).copied();
            let since = before.map(|(time, _)| seen.time.saturating_sub(time));
            if since.is_some_and(|since| since < COPY_TIME) {
                counts.at(WarningKind::CapturedTwice, seen.packet);
                continue;
            }
            let number = before.map_or(0, |(_, number)| number + 1);
            last.insert(key, (seen.time, number));
            let is_retransmission = since.is_some_and(|since| since < RETRANSMISSION_TIME);
            if is_retransmission {
                counts.at(WarningKind::Retransmitted, seen.packet);
            }
            let at = *known.entry((key, number)).or_insert_with(|| {
                sent.push(Sent {
                    seen: *seen,
                    time_ns: 0,
                    times_ns: vec![None; points],
                    is_retransmission,
                });
                sent.len() - 1
            });
            sent[at].times_ns[point] = Some(nanos(seen.time));
        }
    }
    let offsets = offsets(points, &sent, &mut counts);
    for message in &mut sent {
        let views = message.times_ns.iter().zip(&offsets);
        let views: Vec<i64> = views
            .filter_map(|(time, offset)| Some((*time)? - offset))
            .collect();
        message.time_ns = views.iter().sum::<i64>() / views.len().max(1) as i64;
    }
    sent.sort_by_key(|message| message.time_ns);
    count_lost(&sent, &offsets, &mut counts);
    Merged { sent, counts }
}

/// A message's source, destination and content, and how often it was seen before.
type Copy = (((u32, u32), u64), u32);

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX / 4)
}

/// How far each point's clock is ahead of the first one's: half the difference of the median travel times there and
/// back. Means would not do: a retransmission whose first copy was lost seems to have travelled for long.
fn offsets(points: usize, sent: &[Sent], counts: &mut [Counts]) -> Vec<i64> {
    let mut offsets: Vec<Option<i64>> = vec![None; points];
    for first in 0..points {
        if offsets[first].is_some() {
            continue;
        }
        // A point that shares nothing with those before it keeps its own clock.
        if first > 0 {
            counts[first].add(WarningKind::NothingShared, 1);
        }
        offsets[first] = Some(0);
        let mut known = vec![first];
        while let Some(point) = known.pop() {
            let base = offsets[point].unwrap_or(0);
            for other in 0..points {
                if offsets[other].is_none()
                    && let Some(ahead) = ahead(point, other, sent, &mut counts[other])
                {
                    offsets[other] = Some(base + ahead);
                    known.push(other);
                }
            }
        }
    }
    offsets
        .into_iter()
        .map(|offset| offset.unwrap_or(0))
        .collect()
}

/// How far one point's clock is ahead of another's; none if they share no message.
fn ahead(point: usize, other: usize, sent: &[Sent], counts: &mut Counts) -> Option<i64> {
    let mut ways: Map<(u32, u32), Way> = Map::default();
    let mut links: Vec<(u32, u32)> = Vec::new();
    for message in sent {
        let (Some(here), Some(there)) = (message.times_ns[point], message.times_ns[other]) else {
            continue;
        };
        let ends = message.seen.ends;
        if !ways.contains_key(&ends) && !ways.contains_key(&(ends.1, ends.0)) {
            links.push(ends);
        }
        if ways.entry(ends).or_default().add(there - here) {
            counts.at(WarningKind::ClockStep, message.seen.packet);
        }
    }
    let mut usual = |ends: (u32, u32)| ways.get_mut(&ends).and_then(|way| median(&mut way.all));
    let usual = links
        .iter()
        .filter_map(|ends| match (usual(*ends), usual((ends.1, ends.0))) {
            (Some(there), Some(back)) => Some((there + back) / 2),
            (there, back) => there.or(back),
        });
    median(&mut usual.collect::<Vec<_>>())
}

fn median(values: &mut [i64]) -> Option<i64> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

/// The travel times of messages from point to point, one after the other, including the difference
/// of the clocks.
#[derive(Default)]
struct Way {
    all: Vec<i64>,
}

impl Way {
    /// Whether the difference changed more than a travel time can.
    fn add(&mut self, difference: i64) -> bool {
        let last = self.all.last();
        let is_step = last.is_some_and(|last| (difference - last).abs() > WAY_STEP_NS);
        self.all.push(difference);
        is_step
    }
}

/// Counts for each point the messages that it missed although it saw others on the same way.
fn count_lost(sent: &[Sent], offsets: &[i64], counts: &mut [Counts]) {
    for (point, counts) in counts.iter_mut().enumerate() {
        let times = sent.iter().filter_map(|message| message.times_ns[point]);
        let (Some(begin), Some(end)) = (times.clone().min(), times.max()) else {
            continue;
        };
        let span = begin - offsets[point]..=end - offsets[point];
        let seen = sent
            .iter()
            .filter(|message| message.times_ns[point].is_some());
        let ways: Map<(u32, u32), ()> = seen.map(|message| (message.seen.ends, ())).collect();
        let missing = sent.iter().filter(|message| {
            message.times_ns[point].is_none()
                && span.contains(&message.time_ns)
                && ways.contains_key(&message.seen.ends)
        });
        counts.add(WarningKind::Lost, missing.count());
    }
}

//! Finds the calls of a trace that can be measured, and the points to measure them at.

use std::time::Duration;

use crate::{
    Reason, Trace, Unused, WarningKind,
    calls::Call,
    merge::Sent,
    read::Map,
    roles::Nodes,
    turns::{Event, Turns, events},
    warning::Counts,
    way::Way,
};

/// Calls with more messages, such as endless pings with one Call-ID, are skipped.
const MESSAGES_MAX: usize = 1_000;
/// If a larger share of turns overlaps, there is a warning.
const OVERLAP_SHARE: f64 = 0.02;
/// A request without a final response for this long gets none: 64*T1 (RFC 3261 §17.1.1.2).
const GIVE_UP_NS: i64 = 32_000_000_000;
/// Clocks that are further from each other in a round trip than this have not passed the same time.
const DISAGREEMENT_NS: i64 = 1_000_000;
/// No round trip on a link takes so long without retransmissions: 2*T1 (RFC 3261 §17.1.1.1).
const ROUND_TRIP_NS: i64 = 1_000_000_000;

/// A call that can be measured.
pub(crate) struct Whole<'c> {
    pub(crate) call: &'c Call,
    pub(crate) way: Way,
    pub(crate) turns: Vec<Turns>,
    /// The places of each message's source and destination.
    pub(crate) ends: Vec<(usize, usize)>,
}

/// A trace with its nodes.
pub(crate) struct View<'t> {
    pub(crate) trace: &'t Trace,
    pub(crate) sent: &'t [Sent],
    pub(crate) nodes: Nodes,
    pub(crate) pause: Duration,
}

impl View<'_> {
    /// The calls with a known way, answers to all requests, and no retransmissions.
    pub(crate) fn measurable<'c>(
        &self,
        all: &'c [Call],
        unused: &mut Vec<Unused>,
    ) -> Vec<(&'c Call, Way)> {
        let end_ns = self.sent.last().map_or(0, |last| last.time_ns);
        let mut calls = Vec::new();
        for call in all {
            match self.way(call, end_ns) {
                Ok(way) => calls.push((call, way)),
                Err(reason) => unused.push(self.unused(call, reason)),
            }
        }
        calls
    }

    pub(crate) fn unused(&self, call: &Call, reason: Reason) -> Unused {
        let call_id = self.trace.call_ids.get(call.call_id);
        Unused {
            call_id: String::from_utf8_lossy(call_id).into_owned(),
            reason,
        }
    }

    fn way(&self, call: &Call, end_ns: i64) -> Result<Way, Reason> {
        let (Some(&first), Some(&last)) = (call.sent.first(), call.sent.last()) else {
            return Err(Reason::Retransmitted);
        };
        if call.sent.len() > MESSAGES_MAX {
            return Err(Reason::Long);
        }
        let seen = &self.sent[first].seen;
        let label = self.trace.labels.get(seen.label);
        let is_later = matches!(label.method.as_str(), "ACK" | "BYE" | "CANCEL" | "PRACK");
        if label.status.is_some() || seen.to_tag != 0 || is_later {
            return Err(Reason::BeginningMissing);
        }
        if !self.is_answered(call) {
            let goes_on = end_ns - self.sent[last].time_ns > GIVE_UP_NS;
            return Err(match goes_on {
                true => Reason::Unanswered,
                false => Reason::EndMissing,
            });
        }
        if call.is_retransmitted {
            return Err(Reason::Retransmitted);
        }
        Way::of(self.trace, &self.nodes, self.sent, call).ok_or(Reason::OffItsWay)
    }

    /// Whether each request except ACK has a final response on its hop.
    fn is_answered(&self, call: &Call) -> bool {
        let messages = || call.sent.iter().map(|&at| &self.sent[at].seen);
        messages().all(|request| {
            let label = self.trace.labels.get(request.label);
            if label.status.is_some() || label.method == "ACK" {
                return true;
            }
            messages().any(|response| {
                let other = self.trace.labels.get(response.label);
                other.status.is_some_and(|status| status >= 200)
                    && other.method == label.method
                    && response.cseq == request.cseq
                    && response.ends == (request.ends.1, request.ends.0)
            })
        })
    }

    /// The point at which to measure each node. Of the points that saw the most of its messages, it
    /// is the one that shows the shortest work, because it is the nearest.
    pub(crate) fn points(&self, calls: &[(&Call, Way)]) -> Vec<usize> {
        let points = self.trace.points.len();
        let mut seen = vec![vec![(0_usize, 0_i64); points]; self.nodes.nodes.len()];
        for (call, way) in calls {
            for &node in &way.nodes {
                for (point, seen) in seen[node].iter_mut().enumerate() {
                    let events = self.events(call, node, point);
                    seen.0 += events.len();
                    let turns = Turns::new(&events, self.pause);
                    seen.1 += turns
                        .turns
                        .iter()
                        .filter_map(|turn| turn.service_ns)
                        .sum::<i64>();
                }
            }
        }
        let best = |seen: &Vec<(usize, i64)>| {
            let most = seen.iter().map(|(count, _)| *count).max().unwrap_or(0);
            // A few lost packets make no other point the nearer.
            let enough = seen
                .iter()
                .enumerate()
                .filter(|(_, (count, _))| count * 10 >= most * 9);
            enough
                .min_by_key(|(_, (_, time))| *time)
                .map_or(0, |(point, _)| point)
        };
        seen.iter().map(best).collect()
    }

    fn events(&self, call: &Call, node: usize, point: usize) -> Vec<Event> {
        let messages = call.sent.iter().enumerate().filter_map(|(number, &at)| {
            let (source, destination) = self.nodes.ends(&self.sent[at]);
            let is_here = source == node || destination == node;
            is_here.then_some((number, &self.sent[at], destination == node))
        });
        events(self.trace, point, messages)
    }

    /// The calls for which each node's point saw all of its messages.
    pub(crate) fn whole<'c>(
        &self,
        calls: Vec<(&'c Call, Way)>,
        points: &[usize],
        unused: &mut Vec<Unused>,
    ) -> Vec<Whole<'c>> {
        let mut whole = Vec::new();
        for (call, way) in calls {
            match self.turns_of(call, way, points) {
                Ok(one) => whole.push(one),
                Err(reason) => unused.push(self.unused(call, reason)),
            }
        }
        whole
    }

    fn turns_of<'c>(
        &self,
        call: &'c Call,
        way: Way,
        points: &[usize],
    ) -> Result<Whole<'c>, Reason> {
        let place = |node| way.place(node).ok_or(Reason::OffItsWay);
        let ends = call.sent.iter().map(|&at| {
            let (source, destination) = self.nodes.ends(&self.sent[at]);
            Ok((place(source)?, place(destination)?))
        });
        let ends = ends.collect::<Result<Vec<_>, _>>()?;
        let mut turns = Vec::new();
        for (at, &node) in way.nodes.iter().enumerate() {
            let events = self.events(call, node, points[node]);
            let own = ends.iter().filter(|ends| ends.0 == at || ends.1 == at);
            if events.len() != own.count() {
                return Err(Reason::MessagesLost);
            }
            turns.push(Turns::new(&events, self.pause));
        }
        let whole = Whole {
            call,
            way,
            turns,
            ends,
        };
        match self.clocks_agree(&whole, points) {
            true => Ok(whole),
            false => Err(Reason::ClocksDisagree),
        }
    }

    /// Whether each reply took at least as long for those who waited for it as for those who sent it, and not so much
    /// longer that a clock must have been set.
    fn clocks_agree(&self, whole: &Whole<'_>, points: &[usize]) -> bool {
        let point = |place: usize| points[whole.way.nodes[place]];
        (1..whole.way.len()).all(|far| {
            let near = whole.way.parent(far);
            let on_link = whole.call.sent.iter().zip(&whole.ends);
            let on_link: Vec<_> = on_link
                .filter(|(_, ends)| whole.way.link(**ends) == Some(far))
                .map(|(&at, ends)| (&self.sent[at].times_ns, *ends))
                .collect();
            point(near) == point(far)
                || on_link.windows(2).all(|pair| {
                    let [(first, ends), (second, back)] = pair else {
                        return true;
                    };
                    let passed = |place: usize| {
                        let at = |times: &[Option<i64>]| times[point(place)];
                        Some(at(second)? - at(first)?)
                    };
                    let (Some(asking), Some(answering)) = (passed(ends.0), passed(ends.1)) else {
                        return true;
                    };
                    ends.0 != back.1
                        || (-DISAGREEMENT_NS..ROUND_TRIP_NS).contains(&(asking - answering))
                })
        })
    }

    /// Counts the turns that started while their node was busy with another call.
    pub(crate) fn count_overlaps(
        &self,
        calls: &[Whole<'_>],
        points: &[usize],
        counts: &mut Counts,
    ) {
        let mut busy: Map<usize, Vec<(i64, i64, usize)>> = Map::default();
        for (number, whole) in calls.iter().enumerate() {
            for (place, turns) in whole.turns.iter().enumerate().skip(1) {
                let node = whole.way.nodes[place];
                for turn in &turns.turns {
                    let input = &self.sent[whole.call.sent[turn.input]];
                    if let (Some(begin), Some(work)) =
                        (input.times_ns[points[node]], turn.service_ns)
                    {
                        busy.entry(node)
                            .or_default()
                            .push((begin, begin + work, number));
                    }
                }
            }
        }
        let (mut turns, mut overlaps) = (0, 0);
        for times in busy.values_mut() {
            times.sort_unstable();
            turns += times.len();
            let overlap =
                |pair: &&[(i64, i64, usize)]| pair[1].0 < pair[0].1 && pair[1].2 != pair[0].2;
            overlaps += times.windows(2).filter(overlap).count();
        }
        if overlaps as f64 > OVERLAP_SHARE * turns as f64 {
            counts.add(WarningKind::Overlap, overlaps);
        }
    }
}

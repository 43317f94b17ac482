//! Finds the calls of a trace that can be measured, the points to measure them at, and the calls
//! that are alike.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    Flow, Trace, WarningKind,
    calls::Call,
    merge::Sent,
    read::Map,
    roles::{Chain, Nodes},
    turns::{Event, Turns, events},
    warning::Counts,
};

/// Calls with more messages, such as endless pings with one Call-ID, are skipped.
const MESSAGES_MAX: usize = 1_000;
/// If a larger share of turns overlaps, there is a warning.
const OVERLAP_SHARE: f64 = 0.02;

/// A call that can be measured.
pub(crate) struct Whole<'c> {
    pub(crate) call: &'c Call,
    pub(crate) chain: Chain,
    pub(crate) turns: Vec<Turns>,
    /// The places of each message's source and destination.
    pub(crate) ends: Vec<(usize, usize)>,
}

/// The messages at each place: whether in or out, the place at the other end, and the message's
/// kind.
type Shape = Vec<Vec<(bool, usize, u32)>>;

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
        counts: &mut Counts,
    ) -> Vec<(&'c Call, Chain)> {
        let mut calls = Vec::new();
        for call in all.iter().filter(|call| !call.sent.is_empty()) {
            if call.sent.len() > MESSAGES_MAX {
                counts.add(WarningKind::LongCall, 1);
                continue;
            }
            match self.nodes.chain(self.trace, self.sent, call) {
                _ if call.is_retransmitted => {}
                None => counts.add(WarningKind::PartOfCall, 1),
                Some(_) if !self.is_answered(call) => counts.add(WarningKind::Unanswered, 1),
                Some(chain) => calls.push((call, chain)),
            }
        }
        calls
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
    pub(crate) fn points(&self, calls: &[(&Call, Chain)]) -> Vec<usize> {
        let points = self.trace.points.len();
        let mut seen = vec![vec![(0_usize, 0_i64); points]; self.nodes.nodes.len()];
        for (call, chain) in calls {
            for (place, &node) in chain.iter().enumerate() {
                for (point, seen) in seen[node].iter_mut().enumerate() {
                    let events = self.events(call, chain, place, point);
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

    fn events(&self, call: &Call, chain: &Chain, place: usize, point: usize) -> Vec<Event> {
        let node = chain[place];
        let messages = call.sent.iter().enumerate().filter_map(|(number, &at)| {
            let (source, destination) = self.nodes.ends(&self.sent[at]);
            let is_here = source == node || destination == node;
            is_here.then_some((number, &self.sent[at], destination == node))
        });
        events(point, messages)
    }

    /// The calls for which each node's point saw all of its messages.
    pub(crate) fn whole<'c>(
        &self,
        calls: Vec<(&'c Call, Chain)>,
        points: &[usize],
        counts: &mut Counts,
    ) -> Vec<Whole<'c>> {
        let mut whole = Vec::new();
        for (call, chain) in calls {
            let mut turns = Vec::new();
            let mut is_whole = true;
            let place = |node: usize| chain.iter().position(|&other| other == node);
            let ends: Vec<(usize, usize)> = call
                .sent
                .iter()
                .filter_map(|&at| {
                    let (source, destination) = self.nodes.ends(&self.sent[at]);
                    Some((place(source)?, place(destination)?))
                })
                .collect();
            for (at, &node) in chain.iter().enumerate() {
                let events = self.events(call, &chain, at, points[node]);
                let own = ends
                    .iter()
                    .filter(|(source, destination)| *source == at || *destination == at);
                is_whole &= events.len() == own.count();
                turns.push(Turns::new(&events, self.pause));
            }
            if is_whole {
                whole.push(Whole {
                    call,
                    chain,
                    turns,
                    ends,
                });
            } else {
                counts.add(WarningKind::PartOfCall, 1);
            }
        }
        whole
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
                let node = whole.chain[place];
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

    /// The calls of each shape, the most frequent first.
    pub(crate) fn flows(&self, calls: &[Whole<'_>]) -> Vec<(Flow, Vec<usize>)> {
        let mut by_shape: BTreeMap<Shape, Vec<usize>> = BTreeMap::new();
        for (number, whole) in calls.iter().enumerate() {
            by_shape.entry(self.shape(whole)).or_default().push(number);
        }
        let mut flows: Vec<(Flow, Vec<usize>)> = by_shape
            .into_values()
            .map(|numbers| {
                let first = &calls[numbers[0]];
                let request = self.sent[first.call.sent[0]].seen.label;
                let flow = Flow {
                    calls: numbers.len(),
                    messages: first.ends.len(),
                    begins: self.trace.labels.get(request).to_string(),
                    nodes: first.chain.len(),
                };
                (flow, numbers)
            })
            .collect();
        // Calls go before probes and registrations, whatever their numbers. Where two flows are as frequent, the longer says
        // more; where they are as long, the earlier goes first.
        flows.sort_by_key(|(flow, numbers)| {
            (
                flow.begins != "INVITE",
                usize::MAX - flow.calls,
                usize::MAX - flow.messages,
                numbers[0],
            )
        });
        flows
    }

    fn shape(&self, whole: &Whole<'_>) -> Shape {
        let step = |message: usize, is_input: bool| {
            let (source, destination) = whole.ends[message];
            let other = if is_input { source } else { destination };
            let label = self.sent[whole.call.sent[message]].seen.label;
            (is_input, other, label)
        };
        let of_place = |turns: &Turns| {
            let leading = turns.leading.iter().map(|&output| step(output, false));
            let rest = turns.turns.iter().flat_map(|turn| {
                let outputs = turn.outputs.iter().map(|&output| step(output, false));
                std::iter::once(step(turn.input, true)).chain(outputs)
            });
            leading.chain(rest).collect()
        };
        whole.turns.iter().map(of_place).collect()
    }
}

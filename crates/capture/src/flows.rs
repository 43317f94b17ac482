//! Which calls are alike, and how those that are not differ.

use std::collections::BTreeMap;

use crate::{
    Ended, Flow,
    trace::Label,
    turns::Turn,
    view::{View, Whole},
};

/// A message of a call: the far end of its link, and its number among the messages of that link.
type Key = (usize, usize);

/// What calls of one flow have in common. The messages of each link have an order; those of different links, as of the
/// branches of a fork, have none but within a node's turns.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    parents: Vec<usize>,
    /// For each link: whether the message goes towards the servers, and its kind.
    links: Vec<Vec<(bool, u32)>>,
    /// For each place: what it sends first, and what it sends for each message that comes.
    turns: Vec<(Vec<Key>, Vec<(Key, Vec<Key>)>)>,
}

impl View<'_> {
    /// The calls of each shape, the most frequent first. Their turns get the order of the first one's.
    pub(crate) fn flows(&self, calls: &mut [Whole<'_>]) -> Vec<(Flow, Vec<usize>)> {
        let mut by_shape: BTreeMap<Shape, Vec<usize>> = BTreeMap::new();
        for (number, whole) in calls.iter().enumerate() {
            by_shape.entry(self.shape(whole)).or_default().push(number);
        }
        for numbers in by_shape.values() {
            let first = &calls[numbers[0]];
            let keys = first.keys();
            let inputs = |turns: &[Turn]| turns.iter().map(|turn| keys[turn.input]).collect();
            let order: Vec<Vec<Key>> = first.turns.iter().map(|it| inputs(&it.turns)).collect();
            numbers[1..].iter().for_each(|&at| calls[at].align(&order));
        }
        let mut flows: Vec<(Flow, Vec<usize>)> = by_shape
            .into_values()
            .map(|numbers| (self.flow(calls, &numbers), numbers))
            .collect();
        // Calls go before probes and registrations, whatever their numbers. Where two flows are as frequent, the longer
        // says more; where they are as long, the earlier goes first.
        flows.sort_by_key(|(flow, numbers)| {
            (
                flow.begins != "INVITE",
                usize::MAX - flow.calls,
                usize::MAX - flow.messages,
                numbers[0],
            )
        });
        self.tell_apart(&mut flows, calls);
        flows
    }

    fn shape(&self, whole: &Whole<'_>) -> Shape {
        let keys = whole.keys();
        let mut links = vec![Vec::new(); whole.way.len()];
        for ((&at, ends), key) in whole.call.sent.iter().zip(&whole.ends).zip(&keys) {
            links[key.0].push((ends.0 < ends.1, self.sent[at].seen.label));
        }
        let sorted = |messages: &[usize]| {
            let mut sorted: Vec<Key> = messages.iter().map(|&message| keys[message]).collect();
            sorted.sort_unstable();
            sorted
        };
        let of_place = |place: &crate::turns::Turns| {
            let turns = place.turns.iter();
            let mut turns: Vec<_> = turns
                .map(|turn| (keys[turn.input], sorted(&turn.outputs)))
                .collect();
            turns.sort_unstable();
            (sorted(&place.leading), turns)
        };
        Shape {
            parents: whole.way.parents().to_vec(),
            links,
            turns: whole.turns.iter().map(of_place).collect(),
        }
    }

    fn flow(&self, calls: &[Whole<'_>], numbers: &[usize]) -> Flow {
        let first = &calls[numbers[0]];
        let labels = || self.labels(first);
        let (_, begins) = labels().next().expect("a call has a message");
        let at_driver = |(ends, label): (_, &Label)| {
            let (source, destination) = ends;
            (destination == 0 || source == 0).then(|| (source == 0, label.clone()))
        };
        let seen: Vec<(bool, Label)> = labels().filter_map(at_driver).collect();
        let of_first = seen.iter().filter(|(_, it)| it.method == begins.method);
        let finals = of_first.filter_map(|(_, label)| label.status.filter(|status| *status >= 200));
        let bye = seen
            .iter()
            .find(|(_, it)| it.status.is_none() && it.method == "BYE");
        let asks = |label: &Label| matches!(label.status, Some(401 | 407));
        let is_cancelled = seen
            .iter()
            .any(|(from_driver, it)| *from_driver && it.status.is_none() && it.method == "CANCEL");
        Flow {
            calls: numbers.len(),
            messages: first.ends.len(),
            begins: begins.to_string(),
            nodes: first.way.len(),
            branches: first.way.leaves().count(),
            outcome: finals.last(),
            is_challenged: seen.iter().any(|(_, label)| asks(label)),
            ended: match bye {
                Some((true, _)) => Some(Ended::ByDriver),
                Some((false, _)) => Some(Ended::ByServer),
                None if is_cancelled => Some(Ended::Cancelled),
                None => None,
            },
            servers: self.servers(calls, numbers),
            differs: None,
        }
    }

    /// The nodes at the ends of the calls' ways, and how many calls came to each; the most frequent first.
    fn servers(&self, calls: &[Whole<'_>], numbers: &[usize]) -> Vec<(String, usize)> {
        let mut servers: BTreeMap<usize, usize> = BTreeMap::new();
        for &number in numbers {
            let way = &calls[number].way;
            for leaf in way.leaves() {
                *servers.entry(way.nodes[leaf]).or_default() += 1;
            }
        }
        let name = |node: usize| self.nodes.nodes[node].1.first().map(ToString::to_string);
        let named = servers.into_iter();
        let mut named: Vec<(String, usize)> = named
            .map(|(node, calls)| (name(node).unwrap_or_default(), calls))
            .collect();
        named.sort_by_key(|(_, calls)| usize::MAX - calls);
        named
    }

    /// The places of each message's source and destination, and its kind.
    fn labels<'w>(
        &'w self,
        whole: &'w Whole<'_>,
    ) -> impl Iterator<Item = ((usize, usize), &'w Label)> {
        let messages = whole.call.sent.iter().zip(&whole.ends);
        messages.map(|(&at, &ends)| (ends, self.trace.labels.get(self.sent[at].seen.label)))
    }

    /// Says of flows that look like an earlier one at which message they differ.
    fn tell_apart(&self, flows: &mut [(Flow, Vec<usize>)], calls: &[Whole<'_>]) {
        for at in 1..flows.len() {
            let (earlier, rest) = flows.split_at_mut(at);
            let (flow, numbers) = &mut rest[0];
            let alike = earlier.iter().position(|(other, _)| other.looks_like(flow));
            let Some(alike) = alike else { continue };
            let [one, other] = [numbers[0], earlier[alike].1[0]].map(|number| &calls[number]);
            flow.differs = Some(self.difference(one, other, alike + 1));
        }
    }

    fn difference(&self, one: &Whole<'_>, other: &Whole<'_>, number: usize) -> String {
        let mut pairs = self.labels(one).zip(self.labels(other)).enumerate();
        match pairs.find(|(_, (one, other))| one != other) {
            Some((at, (((from, to), label), (_, others)))) if label == others => {
                let names = one.way.names();
                let (from, to) = (&names[from], &names[to]);
                format!(
                    "message {} goes from {from} to {to}, in flow {number} not",
                    at + 1
                )
            }
            Some((at, ((_, label), (_, others)))) => {
                format!("message {} is {label}, in flow {number} {others}", at + 1)
            }
            None => format!("the same messages as flow {number} with other turns"),
        }
    }
}

impl Flow {
    fn looks_like(&self, other: &Self) -> bool {
        let look = |flow: &Self| {
            (
                flow.begins.clone(),
                flow.messages,
                flow.nodes,
                flow.branches,
                flow.outcome,
                flow.is_challenged,
                flow.ended,
            )
        };
        look(self) == look(other)
    }
}

impl Whole<'_> {
    fn keys(&self) -> Vec<Key> {
        let mut next = vec![0; self.way.len()];
        let key = |ends: &(usize, usize)| {
            let link = self.way.link(*ends).unwrap_or(0);
            next[link] += 1;
            (link, next[link] - 1)
        };
        self.ends.iter().map(key).collect()
    }

    /// Puts the turns of each place into the order of another call with the same shape.
    fn align(&mut self, order: &[Vec<Key>]) {
        let keys = self.keys();
        for (turns, order) in self.turns.iter_mut().zip(order) {
            let place = |turn: &Turn| order.iter().position(|key| *key == keys[turn.input]);
            turns.turns.sort_by_key(place);
        }
    }
}

//! Which calls are alike, and how those that are not differ.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    Ended, Flow,
    trace::Label,
    turns::{Turn, Turns},
    view::{View, Whole},
};

/// A message by its link, which the place farther from the driver names, and its kind.
type Step = (usize, u32);

/// What calls of one flow have in common. The messages of a link have an order; those of different links, as of the
/// branches of a fork, have none but within a node's turns.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    parents: Vec<usize>,
    places: Vec<Doing>,
}

/// What a node does in a call.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Doing {
    /// What it sends before anything comes.
    leading: Vec<Step>,
    /// What comes, and what it sends then.
    turns: Vec<(Step, Vec<Step>)>,
}

impl View<'_> {
    /// The calls of each shape, the most frequent first. Their turns get the order of the first one's.
    pub(crate) fn flows(&self, calls: &mut [Whole<'_>]) -> Vec<(Flow, Vec<usize>)> {
        let mut by_shape: BTreeMap<Shape, Vec<usize>> = BTreeMap::new();
        for (number, whole) in calls.iter().enumerate() {
            by_shape.entry(self.shape(whole)).or_default().push(number);
        }
        for numbers in by_shape.values() {
            let order = calls[numbers[0]].inputs();
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
        let step = |&message: &usize| {
            let label = self.sent[whole.call.sent[message]].seen.label;
            (whole.link(message), label)
        };
        let of_place = |(place, inputs): (usize, Vec<Input>)| {
            let is_end = place == 0 || whole.way.is_leaf(place);
            let steps = |messages: &[usize]| {
                let mut steps: Vec<Step> = messages.iter().map(step).collect();
                if !is_end {
                    steps.sort_unstable();
                }
                steps
            };
            let Turns { leading, turns } = &whole.turns[place];
            let mut turns: Vec<_> = inputs.iter().zip(turns).collect();
            turns.sort_by_key(|(input, _)| **input);
            let turns = turns.into_iter();
            let turns = turns.map(|(_, turn)| (step(&turn.input), steps(&turn.outputs)));
            Doing {
                leading: steps(leading),
                turns: turns.collect(),
            }
        };
        Shape {
            parents: whole.way.parents().to_vec(),
            places: (0..).zip(whole.inputs()).map(of_place).collect(),
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
        let mut finals =
            of_first.filter_map(|(_, label)| label.status.filter(|status| *status >= 200));
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
            outcome: finals.next_back(),
            is_challenged: seen.iter().any(|(_, label)| asks(label)),
            also: also(begins, &seen),
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

/// What requests there are besides the first one, ACKs and BYEs. To send the first one again with credentials is none.
fn also(begins: &Label, seen: &[(bool, Label)]) -> Vec<String> {
    let requests = || seen.iter().filter(|(_, label)| label.status.is_none());
    let challenges = seen
        .iter()
        .filter(|(_, label)| matches!(label.status, Some(401 | 407)))
        .filter(|(_, label)| label.method == begins.method);
    let repeated = requests().filter(|(_, label)| label.method == begins.method);
    let is_repeated = repeated.count() > 1 + challenges.count();
    let others = requests().map(|(_, label)| label.method.as_str());
    let usual = [&*begins.method, "ACK", "BYE"];
    let others: BTreeSet<&str> = others.filter(|method| !usual.contains(method)).collect();
    let repeated = is_repeated.then(|| format!("re-{}", begins.method));
    let others = others.into_iter().map(str::to_owned);
    repeated.into_iter().chain(others).collect()
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
                flow.also.clone(),
                flow.ended,
            )
        };
        look(self) == look(other)
    }
}

/// A message that comes to a place: its link, and how many came by that before.
type Input = (usize, usize);

impl Whole<'_> {
    fn link(&self, message: usize) -> usize {
        self.way.link(self.ends[message]).unwrap_or(0)
    }

    /// The message that begins each turn, for each place.
    fn inputs(&self) -> Vec<Vec<Input>> {
        let of_place = |turns: &Turns| {
            let mut came = vec![0; self.way.len()];
            let input = |turn: &Turn| {
                let link = self.link(turn.input);
                came[link] += 1;
                (link, came[link] - 1)
            };
            turns.turns.iter().map(input).collect()
        };
        self.turns.iter().map(of_place).collect()
    }

    /// Puts the turns of each place into the order of another call with the same shape.
    fn align(&mut self, order: &[Vec<Input>]) {
        let inputs = self.inputs();
        for ((turns, inputs), order) in self.turns.iter_mut().zip(inputs).zip(order) {
            let place = |input: &Input| order.iter().position(|other| other == input);
            let mut ordered: Vec<_> = inputs
                .iter()
                .map(place)
                .zip(turns.turns.drain(..))
                .collect();
            ordered.sort_by_key(|(place, _)| *place);
            turns
                .turns
                .extend(ordered.into_iter().map(|(_, turn)| turn));
        }
    }
}

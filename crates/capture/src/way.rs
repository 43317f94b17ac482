//! The way of a call: its nodes as a tree, from the driver over balancers to servers.

use std::cmp::Reverse;

use crate::{
    Role,
    calls::Call,
    merge::Sent,
    roles::Nodes,
    trace::{Label, Trace},
};

/// The nodes of a call. Place 0 is the driver. A balancer that asks several nodes, one after the other or at the same
/// time, has a branch for each; each place comes after its parent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Way {
    /// The node at each place.
    pub(crate) nodes: Vec<usize>,
    /// The place before each; the driver's is 0.
    parents: Vec<usize>,
}

impl Way {
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn parents(&self) -> &[usize] {
        &self.parents
    }

    pub(crate) fn parent(&self, place: usize) -> usize {
        self.parents[place]
    }

    pub(crate) fn children(&self, place: usize) -> impl Iterator<Item = usize> {
        let later = place + 1..self.len();
        later.filter(move |&child| self.parents[child] == place)
    }

    pub(crate) fn is_leaf(&self, place: usize) -> bool {
        place > 0 && self.children(place).next().is_none()
    }

    pub(crate) fn is_fork(&self, place: usize) -> bool {
        self.children(place).count() > 1
    }

    pub(crate) fn leaves(&self) -> impl Iterator<Item = usize> {
        (1..self.len()).filter(|&place| self.is_leaf(place))
    }

    pub(crate) fn place(&self, node: usize) -> Option<usize> {
        self.nodes.iter().position(|&other| other == node)
    }

    /// The link between two places, named by the place farther from the driver; none if they are no neighbours.
    pub(crate) fn link(&self, (one, other): (usize, usize)) -> Option<usize> {
        let (near, far) = (one.min(other), one.max(other));
        (near != far && self.parents[far] == near).then_some(far)
    }

    pub(crate) fn role(&self, place: usize) -> Role {
        match place {
            0 => Role::Driver,
            _ if self.is_leaf(place) => Role::Server,
            _ => Role::Balancer(self.depth(place)),
        }
    }

    fn depth(&self, mut place: usize) -> u8 {
        let mut depth = 0_u8;
        while place > 0 {
            depth = depth.saturating_add(1);
            place = self.parents[place];
        }
        depth
    }

    /// The places as a user reads them: the role, with a number from the second of a role on.
    pub(crate) fn names(&self) -> Vec<String> {
        let roles: Vec<Role> = (0..self.len()).map(|place| self.role(place)).collect();
        let name = |place: usize| {
            let number = roles[..=place].iter().filter(|&&role| role == roles[place]);
            match number.count() {
                1 => roles[place].to_string(),
                number => format!("{}_{number}", roles[place]),
            }
        };
        (0..self.len()).map(name).collect()
    }

    /// Follows a call's first request from node to node. Returns none if messages pass between nodes that are no
    /// neighbours on its way.
    pub(crate) fn of(trace: &Trace, nodes: &Nodes, sent: &[Sent], call: &Call) -> Option<Self> {
        let messages: Vec<&Sent> = call.sent.iter().map(|&at| &sent[at]).collect();
        let first = messages.first()?;
        let (driver, entrance) = nodes.ends(first);
        if driver == entrance {
            return None;
        }
        let mut way = Self {
            nodes: vec![driver, entrance],
            parents: vec![0, 0],
        };
        let is_same = |message: &&&Sent| {
            let (one, other) = (&message.seen, &first.seen);
            one.label == other.label && one.cseq == other.cseq && one.from_tag == other.from_tag
        };
        let mut here = 1;
        while here < way.len() {
            let copies = messages.iter().filter(is_same);
            let onward = copies.map(|message| nodes.ends(message));
            let is_end = nodes.nodes[way.nodes[here]].0 == Some(Role::Server);
            for (source, next) in onward.filter(|_| !is_end) {
                if source == way.nodes[here] && way.place(next).is_none() {
                    way.nodes.push(next);
                    way.parents.push(here);
                }
            }
            here += 1;
        }
        let is_known = |message: &&Sent| {
            let (source, destination) = nodes.ends(message);
            let ends = (way.place(source), way.place(destination));
            matches!(ends, (Some(one), Some(other)) if way.link((one, other)).is_some())
        };
        let is_known = messages.iter().all(is_known);
        is_known.then(|| way.in_order(trace, nodes, &messages))
    }

    /// The same tree with the branches of each node in an order that does not depend on time or addresses: the one
    /// that answered first, then by their messages. So calls that differ only in who answered are alike.
    fn in_order(&self, trace: &Trace, nodes: &Nodes, messages: &[&Sent]) -> Self {
        let mut ordered = Self {
            nodes: vec![self.nodes[0]],
            parents: vec![0],
        };
        let mut open = vec![(1, 0)];
        while let Some((place, parent)) = open.pop() {
            let at = ordered.len();
            ordered.nodes.push(self.nodes[place]);
            ordered.parents.push(parent);
            let mut children: Vec<usize> = self.children(place).collect();
            if children.len() > 1 {
                children.sort_by_cached_key(|&child| self.outcome(trace, nodes, messages, child));
            }
            // The last one that is put there is the first one that is taken.
            open.extend(children.into_iter().rev().map(|child| (child, at)));
        }
        ordered
    }

    /// What tells a branch from others: its best final response, its messages, and at last its node.
    fn outcome<'t>(
        &self,
        trace: &'t Trace,
        nodes: &Nodes,
        messages: &[&Sent],
        place: usize,
    ) -> (u16, Reverse<usize>, Vec<(bool, &'t Label)>, usize) {
        let (outer, inner) = (self.nodes[self.parents[place]], self.nodes[place]);
        let mut on_link = Vec::new();
        for message in messages {
            let ends = nodes.ends(message);
            let label = trace.labels.get(message.seen.label);
            if ends == (outer, inner) || ends == (inner, outer) {
                on_link.push((ends.0 == outer, label));
            }
        }
        let first = on_link.first().map(|(_, label)| &label.method);
        let of_first = on_link.iter().filter(|(_, it)| Some(&it.method) == first);
        let finals = of_first.filter_map(|(_, it)| it.status.filter(|&status| status >= 200));
        let best = finals.min().unwrap_or(u16::MAX);
        (best, Reverse(on_link.len()), on_link, inner)
    }
}

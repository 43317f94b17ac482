//! Where a request may go, in which order.

use std::{iter, mem};

use transaction::Flow;

use crate::{question::Name, registrar::Target, snapshot::Snapshot};

/// Targets that are yet to be tried.
#[derive(Debug, Default)]
pub(super) struct Targets {
    /// The next ones last.
    waiting: Vec<Target>,
}

impl Targets {
    /// Takes targets; of those to the same URI by the same Path the first counts, RFC 3261 §16.5. Two phones
    /// behind two NATs may have one private address.
    pub(super) fn set(&mut self, targets: &[Target]) {
        self.clear();
        for target in targets {
            let is_it = |known: &Target| (&known.uri, &known.path) == (&target.uri, &target.path);
            if !self.waiting.iter().any(is_it) {
                self.waiting.push(target.clone());
            }
        }
        self.waiting.reverse();
        self.waiting.sort_by_key(|target| target.q);
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// The names that the DNS has to be asked for, with the numbers of their targets.
    pub(super) fn names(&self) -> impl Iterator<Item = (u8, &Name)> {
        let ways = self.waiting.iter();
        let ways = ways.flat_map(|target| iter::once(target).chain(&target.others));
        let names = (0..).zip(ways);
        names.filter_map(|(number, target)| Some((number, target.name.as_ref()?)))
    }

    /// What the DNS said of a target's name. Without an address that a contact may lead to the one
    /// remains that is known. Returns how many are forbidden.
    pub(super) fn locate(&mut self, snapshot: &Snapshot, number: u8, flows: Vec<Flow>) -> usize {
        let Some(target) = self.way_mut(number) else {
            return 0;
        };
        target.name = None;
        let known = mem::replace(&mut target.flows, flows);
        let forbidden = target.keep_allowed(snapshot);
        if target.flows.is_empty() {
            target.flows = known;
        }
        forbidden
    }

    /// The way of this number, as in [`Self::names`].
    fn way_mut(&mut self, number: u8) -> Option<&mut Target> {
        let mut place = usize::from(number);
        for target in &mut self.waiting {
            if place == 0 {
                return Some(target);
            }
            if place <= target.others.len() {
                return target.others.get_mut(place - 1);
            }
            place -= 1 + target.others.len();
        }
        None
    }

    /// Leaves out what nothing leads to.
    pub(super) fn drop_unreachable(&mut self) {
        for target in &mut self.waiting {
            target.others.retain(|way| !way.flows.is_empty());
            if target.flows.is_empty() {
                target.leave_way();
            }
        }
        self.waiting.retain(|target| !target.flows.is_empty());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many come next together.
    pub(super) fn group(&self) -> usize {
        let q = self.waiting.last().map(|target| target.q);
        let is_next = |target: &&Target| Some(target.q) == q;
        self.waiting.iter().rev().take_while(is_next).count()
    }

    pub(super) fn pop(&mut self) -> Option<Target> {
        self.waiting.pop()
    }
}

#[cfg(test)]
mod tests {
    use std::{net::SocketAddr, time::Duration};

    use location::Binding;

    use super::*;
    use crate::registrar::Bound;

    fn target(uri: &str, q: u16) -> Target {
        let address = SocketAddr::from(([10, 0, 0, 1], 5060));
        Target {
            uri: uri.into(),
            name: None,
            flows: vec![Flow::udp(0, address)],
            source: address,
            path: Vec::new(),
            q,
            is_flow: false,
            bound: Bound::of(&Binding {
                contact: uri,
                q,
                expires: Duration::ZERO,
                call_id: "",
                cseq: 1,
                path: "",
                received: address,
                updated: Duration::ZERO,
                device: 0,
                reg_id: 0,
            }),
            others: Vec::new(),
        }
    }

    #[test]
    fn targets_come_by_q_and_equals_together() {
        let mut targets = Targets::default();
        let given = [
            ("c", 500),
            ("a", 1000),
            ("d", 500),
            ("b", 1000),
            ("a", 10),
            ("e", 0),
        ];
        targets.set(&given.map(|(uri, q)| target(uri, q)));
        let mut order = Vec::new();
        while !targets.is_empty() {
            for _ in 0..targets.group() {
                order.extend(targets.pop().map(|target| target.uri));
            }
            order.push(b"|".to_vec());
        }
        assert_eq!(order.concat(), b"ab|cd|e|");
    }

    /// Of two phones of a user, each behind its own NAT and known to itself by the same address, one alone rang.
    #[test]
    fn targets_differ_by_their_paths() {
        let by = |path: &str| Target {
            path: path.into(),
            ..target("a", 1000)
        };
        let mut targets = Targets::default();
        targets.set(&[
            by("<sip:1@edge;lr>"),
            by("<sip:2@edge;lr>"),
            by("<sip:1@edge;lr>"),
        ]);
        assert_eq!(targets.group(), 2);
    }
}

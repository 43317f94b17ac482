//! Parties of calls whose NAT gave them another port, where the session does not follow them: phones whose
//! caller came over the same edge. The session is of the caller's leg.

use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
};

use transaction::Flow;

use crate::wire::keys::SessionKey;

/// Parties that a worker remembers. One more makes the first of them forgotten.
const MOVED_MAX: usize = 16_384;

/// A call, and the flow of one of its parties, as the token of its leg has it. Who has one token is one party.
type Party = (SessionKey, Flow);

/// Where parties are that have moved.
#[derive(Debug, Default)]
pub(crate) struct Moved {
    parties: BTreeMap<Party, Place>,
    order: VecDeque<Party>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    /// Where it has sent from.
    seen: Flow,
    /// Where the other party has answered it.
    answered: Option<Flow>,
}

impl Moved {
    /// A party sends a request from elsewhere than its token says.
    pub(crate) fn notice(&mut self, call: SessionKey, told: Flow, seen: Flow) {
        let party = (call, told);
        if let Some(place) = self.parties.get_mut(&party) {
            place.seen = seen;
            return;
        }
        if self.order.len() == MOVED_MAX
            && let Some(first) = self.order.pop_front()
        {
            self.parties.remove(&first);
        }
        self.order.push_back(party);
        let answered = None;
        self.parties.insert(party, Place { seen, answered });
    }

    /// The other party has accepted a request that was sent from there: so it is no replay.
    pub(crate) fn confirm(&mut self, call: SessionKey, flow: Flow) {
        if self.parties.is_empty() {
            return;
        }
        let first = (call, Flow::udp(0, SocketAddr::from(([0; 4], 0))));
        let of_call = self.parties.range_mut(first..);
        for (_, place) in of_call.take_while(|((of, _), _)| *of == call) {
            if place.seen == flow {
                place.answered = Some(flow);
            }
        }
    }

    /// Where the party with this flow in its token is, if it has moved.
    pub(crate) fn find(&self, call: SessionKey, told: Flow) -> Option<Flow> {
        if self.parties.is_empty() {
            return None;
        }
        self.parties.get(&(call, told))?.answered
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::keys::Keys;

    #[test]
    fn the_first_is_forgotten_for_one_too_many() {
        let keys = Keys::new(b"a secret of at least thirty-two bytes", None);
        let [told, flow] = [5060, 5070].map(|port| Flow::udp(0, ([192, 0, 2, 1], port).into()));
        let call = |number: usize| keys.session(&number.to_be_bytes());
        let mut moved = Moved::default();
        for number in 0..=MOVED_MAX {
            moved.notice(call(number), told, flow);
            moved.confirm(call(number), flow);
        }
        assert_eq!(moved.find(call(0), told), None);
        assert_eq!(moved.find(call(1), told), Some(flow));
        assert_eq!(
            (moved.parties.len(), moved.order.len()),
            (MOVED_MAX, MOVED_MAX)
        );
    }
}

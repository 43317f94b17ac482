//! The turns of each lane.

use std::time::Duration;

use stream::Turns;

use super::watch::Lane;

/// Those of known hosts, and those of strangers.
#[derive(Debug, Default)]
pub(super) struct AllTurns {
    known: Turns,
    strangers: Turns,
}

impl AllTurns {
    pub(super) fn of(&mut self, lane: Lane) -> &mut Turns {
        match lane {
            Lane::Known => &mut self.known,
            Lane::Strangers | Lane::Opening => &mut self.strangers,
        }
    }

    pub(super) fn are_empty(&self) -> bool {
        self.known.is_empty() && self.strangers.is_empty()
    }

    /// See [`Turns::timeout`].
    pub(super) fn timeout(&self, timeout: Duration) -> Duration {
        self.known.timeout(self.strangers.timeout(timeout))
    }

    /// See [`Turns::rested`].
    pub(super) fn rested(&mut self, time: Duration) {
        self.known.rested(time);
        self.strangers.rested(time);
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use node::ConnectionId;
    use stream::{Room, Unread};

    use super::*;

    /// A flood of strangers let known hosts leave more unread, and the calls in it waited longer.
    #[test]
    fn what_strangers_send_makes_no_known_hosts_room_larger() {
        let (then, now) = (Duration::ZERO, Duration::from_millis(150));
        let mut turns = AllTurns::default();
        let id = ConnectionId(NonZeroU32::MIN);
        for lane in [Lane::Known, Lane::Strangers] {
            turns.of(lane).push(then, id);
        }
        let mut room_of = |lane, length| {
            let turn = turns.of(lane).next(now, true).expect("it waits");
            let seen = turns.of(lane).note_read(now, turn, length);
            Unread::new(then).see(now, seen)
        };
        assert_eq!(room_of(Lane::Strangers, 1 << 20), Some(Room::Free));
        let few = room_of(Lane::Known, 2_048);
        assert_eq!(few, Some(Room::Limited(Room::AtFirst.memory())));
    }
}

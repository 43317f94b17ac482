//! The requests that wait in the lobby.

use std::{
    collections::{HashSet, VecDeque},
    hash::BuildHasherDefault,
    time::Duration,
};

use overload::{BEHIND, Waiting};
use slots::Buffers;

use super::{
    class::{Class, TURNS},
    guest::Guest,
    names::Named,
};
use crate::config::bytes_of;

/// Requests of average length that may wait.
const GUESTS: usize = 4_096;

/// Requests that wait, by their classes: those first that came first. They have been read from several sockets.
#[derive(Debug)]
pub(super) struct Guests {
    of: [VecDeque<Guest>; 6],
    copies: Buffers,
    /// REGISTERs that wait.
    names: HashSet<u64, BuildHasherDefault<Named>>,
    turn: usize,
}

impl Guests {
    pub(super) fn new(message_bytes: usize) -> Self {
        Self {
            of: Default::default(),
            copies: Buffers::new(bytes_of(GUESTS, message_bytes)),
            names: HashSet::default(),
            turn: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.of.iter().all(VecDeque::is_empty)
    }

    /// How many of a class wait.
    pub(super) fn of(&self, class: Class) -> usize {
        self.of[class as usize].len()
    }

    /// Which INVITEs and REGISTERs wait that were not granted to a neighbour, for the share of INVITEs and for that of
    /// REGISTERs. One that takes turns with others waits a little for these, so beside others it counts after a while only.
    pub(super) fn waiting(&self, now: Duration) -> [Waiting; 2] {
        let wait = |classes: &[Class], long: Duration| {
            let mut guests = classes.iter().flat_map(|&class| &self.of[class as usize]);
            guests.any(|guest| !guest.standing.is_granted && guest.came + long <= now)
        };
        let [calls, registers] = [&[Class::Call][..], &[Class::Register, Class::Login]];
        [(calls, registers), (registers, calls)].map(|(own, others)| {
            let others = wait(others, Duration::ZERO);
            let long = if others { BEHIND } else { Duration::ZERO };
            let own = wait(own, long);
            Waiting { own, others }
        })
    }

    /// Whether a request of this name waits.
    pub(super) fn has(&self, name: u64) -> bool {
        self.names.contains(&name)
    }

    /// Memory of all, in bytes.
    pub(super) fn kept_bytes(&self) -> usize {
        self.copies.kept_bytes()
    }

    /// Keeps a request, if there is room.
    pub(super) fn keep(&mut self, mut guest: Guest, bytes: &[u8]) -> bool {
        let is_crowded = guest.name.is_some() && !self.copies.has_room(bytes_of(GUESTS / 2, 0));
        let mut copy = || self.copies.keep(bytes);
        let Some(bytes) = (!is_crowded).then(&mut copy).flatten() else {
            return false;
        };
        guest.bytes = bytes;
        self.names.extend(guest.name);
        let guests = &mut self.of[guest.class as usize];
        let before = guests.iter().rposition(|other| other.came <= guest.came);
        guests.insert(before.map_or(0, |index| index + 1), guest);
        true
    }

    /// The next to serve; [`Self::release`] takes it back.
    pub(super) fn next(&mut self, now: Duration) -> Option<Guest> {
        let (earlier, later) = TURNS.split_at(self.turn);
        self.turn = (self.turn + 1) % TURNS.len();
        let mut turns = later.iter().chain(earlier);
        turns.find_map(|&turn| {
            let mut next = |class: Class| take(&mut self.of[class as usize], now);
            match turn {
                Class::Call => next(Class::Call).or_else(|| next(Class::Repeated)),
                class => next(class),
            }
        })
    }

    /// The next that has waited too long, the sooner if many stay out; [`Self::release`] takes it back.
    pub(super) fn next_late(&mut self, now: Duration, are_many: bool) -> Option<Guest> {
        let is_late = |guest: &mut Guest| guest.came + guest.class.patience(are_many) <= now;
        let mut classes = self.of.iter_mut();
        classes.find_map(|guests| guests.pop_front_if(is_late))
    }

    /// When the next has waited too long.
    pub(super) fn deadline(&self, are_many: bool) -> Option<Duration> {
        let first = self.of.iter().filter_map(VecDeque::front);
        first
            .map(|guest| guest.came + guest.class.patience(are_many))
            .min()
    }

    /// Uses a request's memory again.
    pub(super) fn release(&mut self, guest: Guest) {
        if let Some(name) = guest.name {
            self.names.remove(&name);
        }
        self.copies.release(guest.bytes);
    }
}

/// The next of a class: the first while none has waited long, or else the last, as the first ones are too late.
fn take(guests: &mut VecDeque<Guest>, now: Duration) -> Option<Guest> {
    let first = guests.front()?;
    if first.since + BEHIND > now || first.name.is_some() {
        guests.pop_front()
    } else {
        guests.pop_back()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use slots::Kept;
    use transaction::Flow;

    use super::*;
    use crate::{admission::guest::Standing, io::Origin};

    fn guest(class: Class, came: Duration) -> Guest {
        Guest {
            flow: Flow::udp(0, (Ipv4Addr::LOCALHOST, 5060).into()),
            origin: Origin::Socket,
            bytes: Kept::default(),
            came,
            since: came,
            class,
            standing: Standing {
                is_granted: false,
                is_apart: false,
            },
            name: None,
        }
    }

    /// A call that waited for its turn beside REGISTERs looked like one too many. So the share of calls did not grow, although there were
    /// turns that calls did not use.
    #[test]
    fn who_waits_for_a_turn_does_not_lack_turns() {
        let ms = Duration::from_millis;
        let mut guests = Guests::new(700);
        guests.keep(guest(Class::Call, ms(100)), b"INVITE");
        let waits = |guests: &Guests, now| guests.waiting(ms(now)).map(|of| (of.own, of.others));
        assert_eq!(waits(&guests, 101), [(true, false), (false, true)]);
        guests.keep(guest(Class::Register, ms(50)), b"REGISTER");
        assert_eq!(waits(&guests, 119), [(false, true), (true, true)]);
        assert_eq!(waits(&guests, 120), [(true, true), (true, true)]);
    }

    /// Adaptive LIFO: who came first is too late to be served in time, once he has waited for long.
    #[test]
    fn the_newest_comes_first_if_others_have_waited_for_long() {
        let ms = Duration::from_millis;
        let came = |guest: Option<Guest>| guest.map(|guest| guest.came.as_millis());
        let mut guests = Guests::new(700);
        for at in [100, 101, 102] {
            guests.keep(guest(Class::Call, ms(at)), b"INVITE");
        }
        assert_eq!(came(guests.next(ms(119))), Some(100));
        assert_eq!(came(guests.next(ms(121))), Some(102));
        assert_eq!(came(guests.next_late(ms(501), false)), Some(101));
    }
}

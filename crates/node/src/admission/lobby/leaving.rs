//! Who has waited too long, and whether they are told so.

use std::time::Duration;

use super::{Class, Datagram, Leaves, Lobby, Taken};

impl Lobby {
    /// The next request that has waited too long; [`Self::release`] takes it back.
    pub(crate) fn next_late(&mut self, now: Duration) -> Option<Leaves> {
        let are_many = self.is_over(now) && self.some_stay_out();
        let guest = self.guests.next_late(now, are_many)?;
        self.late_since.get_or_insert(now);
        let waited = now - guest.came;
        Some(
            match self.turn_away(now, guest.class, waited, guest.standing.is_granted) {
                Taken::Refused => Leaves::Refused(guest),
                _ => {
                    self.remember(now, guest.class, &guest.bytes);
                    Leaves::Dropped(guest)
                }
            },
        )
    }

    /// A call is sent away without an answer.
    pub(super) fn remember(&mut self, now: Duration, class: Class, bytes: &[u8]) {
        if matches!(class, Class::Call | Class::Repeated) {
            self.unheard.insert(now, self.sieve.name(bytes));
        }
    }

    /// A request has to go that has waited for so long.
    fn turn_away(
        &mut self,
        now: Duration,
        class: Class,
        waited: Duration,
        is_granted: bool,
    ) -> Taken {
        let may_be_told = match class {
            Class::Repeated if waited.is_zero() => self.refusals.are_many(),
            _ => self.refusals.are_enough_for(1),
        };
        let is_told = may_be_told && self.is_over(now);
        if !is_granted && let Some(share) = self.share_of(class) {
            let is_new = class != Class::Repeated;
            share.turned_away(is_new);
        }
        if !is_told {
            return Taken::StaysOut;
        }
        self.refusals.spend();
        Taken::Refused
    }

    /// The same of one that has just been read.
    pub(super) fn turn_away_at_once(
        &mut self,
        now: Duration,
        class: Class,
        waited: Duration,
        datagram: &Datagram<'_>,
    ) -> Taken {
        let taken = self.turn_away(now, class, waited, false);
        if taken != Taken::Refused {
            self.remember(now, class, datagram.bytes);
        }
        taken
    }
}

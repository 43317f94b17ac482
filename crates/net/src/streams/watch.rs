//! What a worker with connections waits for: all in one place, so that a message costs one call.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use node::ConnectionId;
use socket::{Epoll, Interest, Ready, Trigger};

/// Connections that are told to be ready at once, at most.
const AT_ONCE: usize = 64;

/// Handshakes that go on at once: each may cost as much as several calls.
const HANDSHAKES: usize = 2;

/// Tokens from here on are listeners.
pub(super) const LISTENERS: u64 = 1 << 32;

/// From here on, the worker's own descriptors.
const OWN: u64 = 1 << 33;

/// All that is opening.
const OPENING: u64 = 1 << 34;

/// All that is open to strangers.
const STRANGERS: u64 = (1 << 34) + 1;

/// Who waits for whom: each lane has turns of its own, so that a crowd in one does not hold up the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// Handshakes, and the listeners whose peers begin one: they are accepted as fast as handshakes go on.
    Opening,
    /// Open connections to servers, other edges and trusted peers. The other listeners are here too.
    Known,
    /// Open connections to all others.
    Strangers,
}

/// Everything that a worker waits for.
#[derive(Debug)]
pub(super) struct Watch {
    /// The lane of known hosts, the worker's own descriptors, and the other lanes.
    known: Epoll,
    strangers: Epoll,
    opening: Epoll,
    ready: Vec<Ready>,
    /// Of the worker's own: whether they are ready, and have an error.
    own: Vec<(bool, bool)>,
    is_opening: bool,
    has_strangers: bool,
}

impl Watch {
    /// Waits for these descriptors of the worker's own.
    pub(super) fn new<'a>(own: impl Iterator<Item = BorrowedFd<'a>>) -> io::Result<Self> {
        let (known, strangers, opening) = (Epoll::new()?, Epoll::new()?, Epoll::new()?);
        known.add(&opening, OPENING, Interest::Read, Trigger::Level)?;
        known.add(&strangers, STRANGERS, Interest::Read, Trigger::Level)?;
        let mut count = 0;
        for descriptor in own {
            known.add(descriptor, OWN + count, Interest::Read, Trigger::Level)?;
            count += 1;
        }
        Ok(Self {
            known,
            strangers,
            opening,
            ready: Vec::new(),
            own: vec![(false, false); count as usize],
            is_opening: false,
            has_strangers: false,
        })
    }

    /// Waits until something is ready.
    pub(super) fn wait(&mut self, timeout: Duration) {
        let ready = self.known.wait(AT_ONCE, timeout);
        // The worker's own and the other lanes may be behind the others then.
        let is_crowded = ready.len() == AT_ONCE;
        self.own.fill((is_crowded, false));
        (self.is_opening, self.has_strangers) = (is_crowded, is_crowded);
        self.ready.clear();
        for &ready in ready {
            match ready.token {
                OPENING => self.is_opening = true,
                STRANGERS => self.has_strangers = true,
                OWN.. => self.own[(ready.token - OWN) as usize] = (true, ready.error),
                _ => self.ready.push(ready),
            }
        }
    }

    /// Whether one of the worker's own is ready, and has an error.
    pub(super) fn own(&self, place: usize) -> (bool, bool) {
        self.own[place]
    }

    /// Whether there is something to do for connections.
    pub(super) fn has_ready(&self) -> bool {
        self.is_opening || self.has_strangers || !self.ready.is_empty()
    }

    /// Whether more handshakes may be ready than were gathered.
    pub(super) fn has_more_handshakes(&self) -> bool {
        self.is_opening
    }

    /// Replaces what is ready by more of a lane; returns how many that are. All known hosts that are ready are those of
    /// [`Self::wait`].
    pub(super) fn gather(&mut self, lane: Lane) -> usize {
        let (has_some, epoll, most) = match lane {
            Lane::Known => return self.ready.len(),
            Lane::Strangers => (&mut self.has_strangers, &mut self.strangers, AT_ONCE),
            Lane::Opening => (&mut self.is_opening, &mut self.opening, HANDSHAKES),
        };
        self.ready.clear();
        if *has_some {
            self.ready.extend_from_slice(epoll.poll(most));
            *has_some = self.ready.len() == most;
        }
        self.ready.len()
    }

    pub(super) fn ready(&self, place: usize) -> Ready {
        self.ready[place]
    }

    pub(super) fn add(
        &self,
        of: impl AsFd,
        token: u64,
        interest: Interest,
        lane: Lane,
    ) -> io::Result<()> {
        self.of(lane).add(of, token, interest, trigger(token, lane))
    }

    pub(super) fn change(&self, of: impl AsFd, token: u64, interest: Interest, lane: Lane) {
        let trigger = trigger(token, lane);
        // It was added, so it is there.
        let _ = self.of(lane).change(of, token, interest, trigger);
    }

    /// Takes a connection out of a lane.
    pub(super) fn remove(&self, of: impl AsFd, lane: Lane) {
        let _ = self.of(lane).remove(of);
    }

    fn of(&self, lane: Lane) -> &Epoll {
        match lane {
            Lane::Opening => &self.opening,
            Lane::Known => &self.known,
            Lane::Strangers => &self.strangers,
        }
    }
}

/// What can be read of a connection waits for its turn in [`super::turns`], so that is told once.
fn trigger(token: u64, lane: Lane) -> Trigger {
    match lane {
        Lane::Known | Lane::Strangers if token < LISTENERS => Trigger::Edge,
        Lane::Known | Lane::Strangers | Lane::Opening => Trigger::Level,
    }
}

pub(super) fn token(id: ConnectionId) -> u64 {
    id.0.get().into()
}

pub(super) fn connection(token: u64) -> Option<ConnectionId> {
    let number = u32::try_from(token).ok()?;
    std::num::NonZeroU32::new(number).map(ConnectionId)
}

#[cfg(test)]
mod tests {
    use std::{io::Write, iter, os::unix::net::UnixStream};

    use super::*;

    /// A busy worker slept for a millisecond after two handshakes, while thousands waited: it had not looked whether more was ready.
    #[test]
    fn handshakes_that_are_left_are_told() {
        let mut watch = Watch::new(iter::empty()).expect("there are descriptors");
        let pairs =
            [(); HANDSHAKES + 1].map(|()| UnixStream::pair().expect("there are descriptors"));
        for ((ours, theirs), token) in pairs.iter().zip(1..) {
            (&*ours).write_all(b"hello").expect("there is room");
            watch
                .add(theirs, token, Interest::Read, Lane::Opening)
                .expect("it is new");
        }
        watch.wait(Duration::ZERO);
        assert_eq!(watch.gather(Lane::Opening), HANDSHAKES);
        assert!(watch.has_more_handshakes());
        for ((_, theirs), token) in pairs.iter().zip(1..) {
            if watch.ready.iter().any(|ready| ready.token == token) {
                watch.remove(theirs, Lane::Opening);
            }
        }
        assert_eq!(watch.gather(Lane::Opening), 1);
        assert!(!watch.has_more_handshakes());
    }
}

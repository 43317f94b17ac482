//! What a worker with connections waits for: all in one place, so that a message costs one call.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use node::ConnectionId;
use socket::{Epoll, Interest, Ready};

/// Connections that are read from in one turn at most.
const READS: usize = 64;

/// Handshakes that go on in one turn at most: each may cost as much as a hundred messages.
const HANDSHAKES: usize = 2;

/// Tokens from here on are listeners.
pub(super) const LISTENERS: u64 = 1 << 32;

/// From here on, the worker's own descriptors.
const OWN: u64 = 1 << 33;

/// All that is opening.
const OPENING: u64 = 1 << 34;

/// Everything that a worker waits for.
#[derive(Debug)]
pub(super) struct Watch {
    /// What is open, the listeners, the worker's own descriptors, and `opening`.
    open: Epoll,
    /// What is still opening: it has a lane of its own.
    opening: Epoll,
    ready: Vec<Ready>,
    /// Of the worker's own: whether they are ready, and have an error.
    own: Vec<(bool, bool)>,
    is_opening: bool,
}

impl Watch {
    /// Waits for these descriptors of the worker's own.
    pub(super) fn new<'a>(own: impl Iterator<Item = BorrowedFd<'a>>) -> io::Result<Self> {
        let (open, opening) = (Epoll::new()?, Epoll::new()?);
        open.add(&opening, OPENING, Interest::Read)?;
        let mut count = 0;
        for descriptor in own {
            open.add(descriptor, OWN + count, Interest::Read)?;
            count += 1;
        }
        Ok(Self {
            open,
            opening,
            ready: Vec::new(),
            own: vec![(false, false); count as usize],
            is_opening: false,
        })
    }

    /// Waits until something is ready.
    pub(super) fn wait(&mut self, timeout: Duration) {
        let ready = self.open.wait(READS, timeout);
        // The worker's own may be behind the others then.
        let is_crowded = ready.len() == READS;
        self.own.fill((is_crowded, false));
        self.is_opening = is_crowded;
        self.ready.clear();
        for &ready in ready {
            match ready.token {
                OPENING => self.is_opening = true,
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
        self.is_opening || !self.ready.is_empty()
    }

    /// Adds the handshakes that may go on in this turn; returns how many are ready in all.
    pub(super) fn gather(&mut self) -> usize {
        if std::mem::take(&mut self.is_opening) {
            self.ready.extend_from_slice(self.opening.poll(HANDSHAKES));
        }
        self.ready.len()
    }

    pub(super) fn ready(&self, place: usize) -> Ready {
        self.ready[place]
    }

    /// All that was ready is dealt with.
    pub(super) fn clear(&mut self) {
        self.ready.clear();
    }

    pub(super) fn add(
        &self,
        of: impl AsFd,
        token: u64,
        interest: Interest,
        is_open: bool,
    ) -> io::Result<()> {
        self.lane(is_open).add(of, token, interest)
    }

    pub(super) fn change(&self, of: impl AsFd, token: u64, interest: Interest, is_open: bool) {
        // It was added, so it is there.
        let _ = self.lane(is_open).change(of, token, interest);
    }

    /// Moves a connection to those that are open.
    pub(super) fn open(&self, of: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        let _ = self.opening.remove(&of);
        self.open.add(of, token, interest)
    }

    fn lane(&self, is_open: bool) -> &Epoll {
        if is_open { &self.open } else { &self.opening }
    }
}

pub(super) fn token(id: ConnectionId) -> u64 {
    id.0.get().into()
}

pub(super) fn connection(token: u64) -> Option<ConnectionId> {
    let number = u32::try_from(token).ok()?;
    std::num::NonZeroU32::new(number).map(ConnectionId)
}

//! Connections by number, and by peer; how many a source has.

use std::{
    collections::HashMap,
    hash::BuildHasher,
    net::{IpAddr, SocketAddr},
};

use siphasher::sip::SipHasher13;
use slots::Id;
use transaction::{ConnectionId, Flow, Transport};

/// A keyed hash, so that no peer can choose addresses that collide.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keyed(u64);

impl Keyed {
    pub(crate) const fn new(key: u64) -> Self {
        Self(key)
    }
}

impl BuildHasher for Keyed {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0, 0)
    }
}

/// All connections to it serve the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Peer {
    transport: Transport,
    listener: u8,
    remote: SocketAddr,
}

impl Peer {
    pub(crate) fn of(flow: Flow) -> Self {
        Self {
            transport: flow.transport,
            listener: flow.listener,
            remote: flow.remote,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Index<T> {
    worker: u8,
    serial: u32,
    by_number: HashMap<ConnectionId, Id<T>, Keyed>,
    /// The last connection to each peer; each names the one before.
    pub(crate) by_peer: HashMap<Peer, Id<T>, Keyed>,
    /// How many connections each source has opened.
    sources: HashMap<IpAddr, Taken, Keyed>,
}

/// What a source has.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    all: u32,
    /// How many of all have not ended their handshake.
    opening: u32,
}

/// What a source may have, one more connection included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Most {
    pub(crate) all: usize,
    /// Of those that have not ended their handshake. None: the one more has ended it.
    pub(crate) opening: Option<usize>,
}

impl<T> Index<T> {
    pub(crate) fn new(worker: u8, seed: u64) -> Self {
        Self {
            worker,
            serial: seed as u32,
            by_number: HashMap::with_hasher(Keyed(seed)),
            by_peer: HashMap::with_hasher(Keyed(seed)),
            sources: HashMap::with_hasher(Keyed(seed)),
        }
    }

    /// The connection with this number, if there is one.
    pub(crate) fn find(&self, number: ConnectionId) -> Option<Id<T>> {
        self.by_number.get(&number).copied()
    }

    /// A number that no connection has. There are far more numbers than connections.
    pub(crate) fn next_number(&mut self) -> ConnectionId {
        loop {
            self.serial = self.serial.wrapping_add(1);
            let number = ConnectionId::new(self.worker, self.serial);
            if let Some(number) = number.filter(|number| !self.by_number.contains_key(number)) {
                return number;
            }
        }
    }

    pub(crate) fn insert(&mut self, number: ConnectionId, id: Id<T>) {
        self.by_number.insert(number, id);
    }

    pub(crate) fn remove(&mut self, number: ConnectionId) {
        self.by_number.remove(&number);
    }

    /// Counts a connection of its source, unless that has so many.
    pub(crate) fn admit(&mut self, remote: SocketAddr, most: Most) -> bool {
        let source = source(remote);
        let taken = self.sources.get(&source).copied().unwrap_or_default();
        let has_room = (taken.all as usize) < most.all
            && most
                .opening
                .is_none_or(|most| (taken.opening as usize) < most);
        if has_room {
            let taken = self.sources.entry(source).or_default();
            taken.all += 1;
            taken.opening += u32::from(most.opening.is_some());
        }
        has_room
    }

    /// Counts a connection of one source for another, unless that has so many.
    pub(crate) fn move_source(&mut self, from: SocketAddr, to: SocketAddr, most: Most) -> bool {
        source(from) == source(to) || {
            let has_room = self.admit(to, most);
            if has_room {
                self.release(from, most.opening.is_some());
            }
            has_room
        }
    }

    /// A connection that was counted has ended its handshake, or is closed before.
    pub(crate) fn end_opening(&mut self, remote: SocketAddr) {
        let taken = self.sources.get_mut(&source(remote));
        taken.expect(COUNTED).opening -= 1;
    }

    /// Takes the count of a connection back.
    pub(crate) fn release(&mut self, remote: SocketAddr, is_opening: bool) {
        let source = source(remote);
        let taken = self.sources.get_mut(&source).expect(COUNTED);
        taken.all -= 1;
        taken.opening -= u32::from(is_opening);
        if taken.all == 0 {
            self.sources.remove(&source);
        }
    }

    /// How many connections there are, how many peers have one, and what all sources have: in all, and in their
    /// handshake.
    pub(crate) fn totals(&self) -> [usize; 4] {
        let sum =
            |of: fn(&Taken) -> u32| self.sources.values().map(|taken| of(taken) as usize).sum();
        let (all, opening) = (sum(|taken| taken.all), sum(|taken| taken.opening));
        [self.by_number.len(), self.by_peer.len(), all, opening]
    }
}

const COUNTED: &str = "each connection of a source was counted";

/// Whom an address belongs to: itself, or all of an IPv6 network of 64 bits.
fn source(remote: SocketAddr) -> IpAddr {
    match remote.ip().to_canonical() {
        IpAddr::V6(ip) => {
            let network = ip.to_bits() & !u128::from(u64::MAX);
            IpAddr::V6(network.into())
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

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
    sources: HashMap<IpAddr, u32, Keyed>,
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

    /// Counts a connection of its source, unless it has so many.
    pub(crate) fn admit(&mut self, remote: SocketAddr, limit: usize) -> bool {
        let count = self.sources.entry(source(remote)).or_default();
        let has_room = (*count as usize) < limit;
        *count += u32::from(has_room);
        if *count == 0 {
            self.sources.remove(&source(remote));
        }
        has_room
    }

    /// Counts a connection of one source for another, unless that has so many.
    pub(crate) fn move_source(&mut self, from: SocketAddr, to: SocketAddr, limit: usize) -> bool {
        source(from) == source(to) || {
            let has_room = self.admit(to, limit);
            if has_room {
                self.release(from);
            }
            has_room
        }
    }

    /// Takes the count of a connection back.
    pub(crate) fn release(&mut self, remote: SocketAddr) {
        let source = source(remote);
        let count = self.sources.get_mut(&source);
        let count = count.expect("each connection of a source was counted");
        *count -= 1;
        if *count == 0 {
            self.sources.remove(&source);
        }
    }

    /// How many connections sources have opened, and how many peers have one.
    pub(crate) fn totals(&self) -> (usize, usize, usize) {
        let of_sources = self.sources.values().map(|&count| count as usize).sum();
        (self.by_number.len(), self.by_peer.len(), of_sources)
    }
}

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

//! Events of the network, for observers.

use std::{net::SocketAddr, time::Duration};

use node::tap::Why;

use crate::PartyId;

/// An observer of a running [`World`](crate::World).
pub trait Watch {
    /// Something happened.
    fn see(&mut self, event: &Event<'_>);

    /// Whether [`Self::explain`] is to be called.
    fn asks_why(&self) -> bool {
        false
    }

    /// A node says why it did what it sends next, or sends nothing.
    fn explain(&mut self, _at: Duration, _node: PartyId, _why: Why) {}
}

/// An event.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// When.
    pub at: Duration,
    /// What.
    pub what: What,
    /// The sender's address; for a crash or a restart, the party's own.
    pub from: SocketAddr,
    /// The destination; for a crash or a restart, the party's own address.
    pub to: SocketAddr,
    /// The party with the first address.
    pub sender: PartyId,
    /// The party with the second address, if there is one.
    pub receiver: Option<PartyId>,
    /// The datagram.
    pub bytes: &'a [u8],
}

/// The kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// A datagram left its sender.
    Sent,
    /// It left, and will arrive twice.
    Copied,
    /// It left, and the network lost it.
    Lost,
    /// It left, and the way is cut.
    Cut,
    /// It left, and a queue on the way was full.
    Full,
    /// A datagram arrived at a party.
    Arrived,
    /// It arrived where no party listens, or never listened.
    Refused,
    /// A party died.
    Crashed,
    /// A party came to life with nothing in memory.
    Restarted,
    /// A datagram came to a node whose queue was full.
    Overflowed,
}

/// No observer.
impl Watch for () {
    fn see(&mut self, _: &Event<'_>) {}
}

/// Both look on.
impl<A: Watch, B: Watch> Watch for (A, B) {
    fn see(&mut self, event: &Event<'_>) {
        self.0.see(event);
        self.1.see(event);
    }

    fn asks_why(&self) -> bool {
        self.0.asks_why() || self.1.asks_why()
    }

    fn explain(&mut self, at: Duration, node: PartyId, why: Why) {
        self.0.explain(at, node, why);
        self.1.explain(at, node, why);
    }
}

/// An observer, if there is one.
impl<W: Watch> Watch for Option<W> {
    fn see(&mut self, event: &Event<'_>) {
        if let Some(watch) = self {
            watch.see(event);
        }
    }
}

impl<W: Watch> Watch for &mut W {
    fn see(&mut self, event: &Event<'_>) {
        (**self).see(event);
    }

    fn asks_why(&self) -> bool {
        (**self).asks_why()
    }

    fn explain(&mut self, at: Duration, node: PartyId, why: Why) {
        (**self).explain(at, node, why);
    }
}

/// A hash of all events. Two identical runs have equal digests; two different runs have different
/// ones, except by a very unlikely chance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest(u64);

impl Digest {
    /// The hash so far.
    #[must_use]
    pub fn value(self) -> u64 {
        self.0
    }

    fn fold(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(29) ^ word).wrapping_mul(0xf135_7aea_2e62_a9c5);
    }
}

impl Watch for Digest {
    fn see(&mut self, event: &Event<'_>) {
        self.fold(event.at.as_nanos() as u64);
        self.fold(event.what as u64);
        for address in [event.from, event.to] {
            let host = match address.ip() {
                std::net::IpAddr::V4(ip) => u128::from(u32::from(ip)),
                std::net::IpAddr::V6(ip) => u128::from(ip),
            };
            self.fold(host as u64 ^ (host >> 64) as u64);
            self.fold(u64::from(address.port()));
        }
        self.fold(event.bytes.len() as u64);
        let (words, rest) = event.bytes.as_chunks::<8>();
        for word in words {
            self.fold(u64::from_le_bytes(*word));
        }
        for byte in rest {
            self.fold(u64::from(*byte));
        }
    }
}

//! Peers.

use std::{net::SocketAddr, num::NonZeroU32};

/// What carries messages. RFC 3261 §18
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// Datagrams, which may get lost.
    Udp,
    /// A stream, on which nothing gets lost.
    Tcp,
}

/// A connection of a stream transport, as the driver numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub NonZeroU32);

/// Names a peer by the way to it: what is sent on a flow reaches whoever sent on it. RFC 5626 §3.2
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow {
    /// What carries its messages.
    pub transport: Transport,
    /// The index of our listener.
    pub listener: u8,
    /// The peer's address.
    pub remote: SocketAddr,
    /// The connection; none over UDP.
    pub connection: Option<ConnectionId>,
}

impl Flow {
    /// The flow of datagrams between a listener and an address.
    #[must_use]
    pub fn udp(listener: u8, remote: SocketAddr) -> Self {
        Self {
            transport: Transport::Udp,
            listener,
            remote,
            connection: None,
        }
    }

    /// Whether nothing gets lost on the way, so that nothing is sent again. RFC 3261 §17
    #[must_use]
    pub fn is_reliable(self) -> bool {
        self.transport != Transport::Udp
    }
}

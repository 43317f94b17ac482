//! Peers.

use std::{fmt, net::SocketAddr, num::NonZeroU32};

/// What carries messages. RFC 3261 §18, RFC 7118
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// Datagrams, which may get lost.
    Udp,
    /// A stream, on which nothing gets lost.
    Tcp,
    /// A stream that nobody else can read. RFC 3261 §26.2.1
    Tls,
    /// A WebSocket. RFC 7118
    Ws,
    /// A WebSocket that nobody else can read.
    Wss,
}

impl Transport {
    /// All of them; the place of each is its code.
    pub const ALL: [Self; 5] = [Self::Udp, Self::Tcp, Self::Tls, Self::Ws, Self::Wss];

    /// Its name in the configuration.
    #[must_use]
    pub const fn label(self) -> &'static str {
        ["udp", "tcp", "tls", "ws", "wss"][self as usize]
    }

    /// Its name in a Via.
    #[must_use]
    pub const fn in_via(self) -> &'static str {
        ["UDP", "TCP", "TLS", "WS", "WSS"][self as usize]
    }

    /// What the transport parameter of a URI says of it; none over UDP, which a URI without means.
    /// RFC 3261 §19.1.1, RFC 7118 §5.3
    #[must_use]
    pub const fn in_uri(self) -> Option<&'static str> {
        match self {
            Self::Udp => None,
            Self::Tcp => Some("tcp"),
            Self::Tls => Some("tls"),
            Self::Ws | Self::Wss => Some("ws"),
        }
    }

    /// Whether it carries messages in connections.
    #[must_use]
    pub const fn is_stream(self) -> bool {
        !matches!(self, Self::Udp)
    }

    /// Whether nobody between the two ends can read what it carries.
    #[must_use]
    pub const fn is_secure(self) -> bool {
        matches!(self, Self::Tls | Self::Wss)
    }

    /// The port where nothing else is said. RFC 3261 §18.1.1, RFC 7118 §5.2
    #[must_use]
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Udp | Self::Tcp => 5060,
            Self::Tls => 5061,
            Self::Ws => 80,
            Self::Wss => 443,
        }
    }
}

/// A connection of a stream transport. Its upper byte is the worker that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub NonZeroU32);

impl ConnectionId {
    /// The bits of the serial number.
    const SERIAL_BITS: u32 = 24;
    /// The greatest serial number.
    pub const SERIAL_MAX: u32 = (1 << Self::SERIAL_BITS) - 1;

    /// The connection with this serial number, of which only the lower 24 bits count, on a worker. No
    /// connection has the number 0.
    #[must_use]
    pub fn new(worker: u8, serial: u32) -> Option<Self> {
        let serial = NonZeroU32::new(serial & Self::SERIAL_MAX)?;
        Some(Self(serial | u32::from(worker) << Self::SERIAL_BITS))
    }

    /// The worker that holds it.
    #[must_use]
    pub fn worker(self) -> u8 {
        (self.0.get() >> Self::SERIAL_BITS) as u8
    }
}

/// Where a peer listens: what RFC 3263 finds for a URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NextHop {
    /// What carries messages there.
    pub transport: Transport,
    /// Where it listens.
    pub address: SocketAddr,
}

impl NextHop {
    /// A peer that takes datagrams.
    #[must_use]
    pub fn udp(address: SocketAddr) -> Self {
        let transport = Transport::Udp;
        Self { transport, address }
    }
}

impl fmt::Display for NextHop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.transport {
            Transport::Udp => self.address.fmt(f),
            stream => write!(f, "{}:{}", stream.label(), self.address),
        }
    }
}

/// Names a peer by the way to it: what is sent on a flow reaches whoever sent on it. RFC 5626 §3.2
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow {
    /// What carries its messages.
    pub transport: Transport,
    /// The index of our listener.
    pub listener: u8,
    /// The peer's address.
    pub remote: SocketAddr,
    /// The connection. None over UDP, and over a stream on which any connection to the peer will do.
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

    /// The flow from a listener to a peer, over any connection.
    #[must_use]
    pub fn to(listener: u8, hop: NextHop) -> Self {
        Self {
            transport: hop.transport,
            listener,
            remote: hop.address,
            connection: None,
        }
    }

    /// The peer, if it listens where it sends from.
    #[must_use]
    pub fn next_hop(self) -> NextHop {
        NextHop {
            transport: self.transport,
            address: self.remote,
        }
    }

    /// Whether nothing gets lost on the way, so that nothing is sent again. RFC 3261 §17
    #[must_use]
    pub fn is_reliable(self) -> bool {
        self.transport.is_stream()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_tells_its_worker() {
        for (worker, serial) in [(0, 1), (255, 7), (3, ConnectionId::SERIAL_MAX)] {
            assert_eq!(ConnectionId::new(worker, serial).unwrap().worker(), worker);
        }
        assert_eq!(ConnectionId::new(9, 1 << 24), None);
    }
}

//! What stands between the bytes of connections and SIP, by listener.

use std::net::SocketAddr;

use node::Transport;
use stream::{Layer, Plain, Said, Why};

/// How the connections of each listener are secured. A reload replaces it whole.
#[derive(Clone, Debug, Default)]
pub struct Security {
    listeners: Vec<Bound>,
}

/// One listener's connections.
#[derive(Clone, Debug)]
pub struct Bound {
    /// What carries messages in them.
    pub transport: Transport,
    /// What those that this node opens are bound to.
    pub address: SocketAddr,
    /// Takes handshakes, on listeners that are secure.
    pub server: Option<tls::Server>,
    /// Begins handshakes, on listeners that are secure.
    pub client: Option<tls::Client>,
}

/// The layer of a connection.
#[derive(Debug)]
pub(crate) enum Wire {
    Plain(Plain),
    Tls(tls::Session),
}

impl Security {
    /// The connections of each listener, in their order.
    #[must_use]
    pub fn new(listeners: Vec<Bound>) -> Self {
        Self { listeners }
    }

    pub(super) fn listener(&self, index: u8) -> Option<&Bound> {
        self.listeners.get(usize::from(index))
    }
}

impl Bound {
    /// The layer of a connection that a peer has opened.
    pub(super) fn accepted(&self) -> Option<Wire> {
        match self.transport {
            Transport::Tcp => Some(Wire::Plain(Plain)),
            Transport::Tls => Some(Wire::Tls(self.server.as_ref()?.session().ok()?)),
            Transport::Udp | Transport::Ws | Transport::Wss => None,
        }
    }

    /// The layer of a connection that is opened to a peer, which has this name.
    pub(super) fn opened(&self, to: SocketAddr, name: Option<&str>) -> Option<Wire> {
        match self.transport {
            Transport::Tcp => Some(Wire::Plain(Plain)),
            Transport::Tls => {
                let address = || to.ip().to_string();
                let name = name.map_or_else(address, str::to_owned);
                let session = self.client.as_ref()?.session(&name);
                Some(Wire::Tls(session.ok()?))
            }
            Transport::Udp | Transport::Ws | Transport::Wss => None,
        }
    }
}

macro_rules! each {
    ($of:expr, $layer:ident => $do:expr) => {
        match $of {
            Wire::Plain($layer) => $do,
            Wire::Tls($layer) => $do,
        }
    };
}

impl Layer for Wire {
    fn receive(&mut self, bytes: &[u8], heard: &mut impl FnMut(Said<'_>)) -> Result<(), Why> {
        each!(self, layer => layer.receive(bytes, heard))
    }

    fn send(&mut self, message: &[u8], wire: &mut Vec<u8>) -> Result<(), Why> {
        each!(self, layer => layer.send(message, wire))
    }

    fn write_own(&mut self, wire: &mut Vec<u8>) {
        each!(self, layer => layer.write_own(wire));
    }

    fn is_open(&self) -> bool {
        each!(self, layer => layer.is_open())
    }

    fn close(&mut self, wire: &mut Vec<u8>) {
        each!(self, layer => layer.close(wire));
    }

    fn pong(&mut self, wire: &mut Vec<u8>) -> Result<(), Why> {
        each!(self, layer => layer.pong(wire))
    }

    fn awaits_remote(&self) -> bool {
        each!(self, layer => layer.awaits_remote())
    }

    fn detail(&self) -> Option<String> {
        each!(self, layer => layer.detail())
    }
}

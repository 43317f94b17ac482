//! What stands between a connection's bytes and SIP, for every stream transport: nothing, TLS, WebSocket, or WebSocket
//! over TLS, and a balancer's PROXY header before it.
//!
//! The drivers of connections, of a node or of load, make a [`Wire`] for each: by [`accept`] for what peers open, by
//! [`connect`] for what they open themselves. The crate adds nothing to the layers that it is made of.

use std::fmt;

use stream::{Layer, Plain, Proxied, Said, Why};
use tls::{Client, Server, Session};
use transaction::Transport;
use websocket::WebSocket;

/// The layer of a connection: with the boundaries of SIP's own messages, or of frames.
#[derive(Debug)]
pub enum Wire {
    /// TCP or TLS.
    Stream(Proxied<Secured>),
    /// WebSocket, over TLS or not.
    WebSocket(Box<WebSocket<Proxied<Secured>>>),
}

/// What others can read of a connection.
#[derive(Debug)]
pub enum Secured {
    /// All.
    Plain(Plain),
    /// Nothing.
    Tls(Session),
}

/// Why there is no layer.
#[derive(Debug)]
pub enum Error {
    /// The transport has no connections.
    NotAStream,
    /// The transport needs TLS, and there is no certificate or trust for it.
    NoTls,
    /// What TLS says of the peer's name.
    Tls(tls::Error),
    /// The peer's name can't stand in a WebSocket's request.
    BadName(websocket::BadName),
}

/// The layer of a connection that a peer has opened; with a PROXY header before all else, if it `is_proxied`.
///
/// # Errors
/// The transport is none of streams, or needs a TLS server.
pub fn accept(
    transport: Transport,
    server: Option<&Server>,
    is_proxied: bool,
    message_bytes: usize,
) -> Result<Wire, Error> {
    let lower = if transport.is_secure() {
        let session = server.ok_or(Error::NoTls)?.session();
        Secured::Tls(session.map_err(Error::Tls)?)
    } else {
        Secured::Plain(Plain)
    };
    let lower = if is_proxied {
        Proxied::new(lower)
    } else {
        Proxied::without(lower)
    };
    match transport {
        Transport::Udp => Err(Error::NotAStream),
        Transport::Tcp | Transport::Tls => Ok(Wire::Stream(lower)),
        Transport::Ws | Transport::Wss => {
            let socket = WebSocket::server(lower, message_bytes);
            Ok(Wire::WebSocket(Box::new(socket)))
        }
    }
}

/// The layer of a connection that is opened to a peer of this name: a domain, or an address.
///
/// # Errors
/// The transport is none of streams, or needs a TLS client, or the name is none.
pub fn connect(
    transport: Transport,
    client: Option<&Client>,
    name: &str,
    message_bytes: usize,
) -> Result<Wire, Error> {
    let lower = if transport.is_secure() {
        let session = client.ok_or(Error::NoTls)?.session(name);
        Secured::Tls(session.map_err(Error::Tls)?)
    } else {
        Secured::Plain(Plain)
    };
    let lower = Proxied::without(lower);
    match transport {
        Transport::Udp => Err(Error::NotAStream),
        Transport::Tcp | Transport::Tls => Ok(Wire::Stream(lower)),
        Transport::Ws | Transport::Wss => {
            let socket = WebSocket::client(lower, name, "/", message_bytes);
            let socket = socket.map_err(Error::BadName)?;
            Ok(Wire::WebSocket(Box::new(socket)))
        }
    }
}

impl Wire {
    /// The TLS session, if there is one.
    #[must_use]
    pub fn session(&self) -> Option<&Session> {
        let lower = match self {
            Self::Stream(proxied) => proxied.inner(),
            Self::WebSocket(socket) => socket.inner().inner(),
        };
        match lower {
            Secured::Plain(_) => None,
            Secured::Tls(session) => Some(session),
        }
    }
}

/// Passes all calls on to the layer that there is.
macro_rules! delegate {
    ($of:ident: $($variant:ident),*) => {
        impl Layer for $of {
            fn receive(
                &mut self,
                bytes: &[u8],
                heard: &mut impl FnMut(Said<'_>),
            ) -> Result<(), Why> {
                match self { $(Self::$variant(layer) => layer.receive(bytes, heard),)* }
            }

            fn send(&mut self, message: &[u8], wire: &mut Vec<u8>) -> Result<(), Why> {
                match self { $(Self::$variant(layer) => layer.send(message, wire),)* }
            }

            fn write_own(&mut self, wire: &mut Vec<u8>) {
                match self { $(Self::$variant(layer) => layer.write_own(wire),)* }
            }

            fn is_open(&self) -> bool {
                match self { $(Self::$variant(layer) => layer.is_open(),)* }
            }

            fn close(&mut self, wire: &mut Vec<u8>) {
                match self { $(Self::$variant(layer) => layer.close(wire),)* }
            }

            fn pong(&mut self, wire: &mut Vec<u8>) -> Result<(), Why> {
                match self { $(Self::$variant(layer) => layer.pong(wire),)* }
            }

            fn awaits_remote(&self) -> bool {
                match self { $(Self::$variant(layer) => layer.awaits_remote(),)* }
            }

            fn held_bytes(&self) -> usize {
                match self { $(Self::$variant(layer) => layer.held_bytes(),)* }
            }

            fn detail(&self) -> Option<String> {
                match self { $(Self::$variant(layer) => layer.detail(),)* }
            }
        }
    };
}

delegate!(Wire: Stream, WebSocket);
delegate!(Secured: Plain, Tls);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAStream => f.write_str("UDP has no connections"),
            Self::NoTls => f.write_str("the transport needs TLS, which is not configured"),
            Self::Tls(error) => error.fmt(f),
            Self::BadName(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

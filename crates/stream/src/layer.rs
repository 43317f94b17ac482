//! What stands between a connection's bytes and SIP.

use std::net::SocketAddr;

use crate::Why;

/// What a layer makes of bytes that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said<'a> {
    /// The next bytes of a stream of messages.
    Bytes(&'a [u8]),
    /// A whole message: the layer has boundaries of its own. RFC 7118 §4.1
    Message(&'a [u8]),
    /// The peer's own address, which a balancer before us tells. It comes before all else.
    Remote(SocketAddr),
    /// A sign of life.
    Alive,
}

/// What stands between a connection's bytes and SIP: nothing, TLS, WebSocket, or several of them.
///
/// A layer does no I/O: it is shown the bytes that came in, and appends to `wire` what is to be sent.
pub trait Layer {
    /// Takes bytes that came in, and tells what they say in their order.
    ///
    /// # Errors
    /// Why the connection can't go on. What the layer has to say to the peer about it is in
    /// [`write_own`](Self::write_own).
    fn receive(&mut self, bytes: &[u8], heard: &mut impl FnMut(Said<'_>)) -> Result<(), Why>;

    /// Appends what makes a message on the wire. The layer is open.
    ///
    /// # Errors
    /// Why the connection can't go on.
    fn send(&mut self, message: &[u8], wire: &mut Vec<u8>) -> Result<(), Why>;

    /// Appends what the layer has to say by itself: of handshakes, pongs, alerts.
    fn write_own(&mut self, wire: &mut Vec<u8>);

    /// Whether messages can be sent, as all handshakes are done.
    fn is_open(&self) -> bool;

    /// Appends a farewell. Nothing is sent after it.
    fn close(&mut self, wire: &mut Vec<u8>);

    /// Appends the answer to a keep-alive. RFC 5626 §4.4.1
    ///
    /// # Errors
    /// Why the connection can't go on.
    fn pong(&mut self, wire: &mut Vec<u8>) -> Result<(), Why> {
        self.send(b"\r\n", wire)
    }

    /// Whether [`Said::Remote`] is still to come, so that the peer's address is nobody's.
    fn awaits_remote(&self) -> bool {
        false
    }

    /// How many bytes it keeps of what is incomplete: no message that has begun may take for ever.
    fn held_bytes(&self) -> usize {
        0
    }

    /// What a person should know of the last error.
    fn detail(&self) -> Option<String> {
        None
    }
}

/// The layer of plain TCP: what comes in are messages.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Layer for Plain {
    fn receive(&mut self, bytes: &[u8], heard: &mut impl FnMut(Said<'_>)) -> Result<(), Why> {
        heard(Said::Bytes(bytes));
        Ok(())
    }

    fn send(&mut self, message: &[u8], wire: &mut Vec<u8>) -> Result<(), Why> {
        wire.extend_from_slice(message);
        Ok(())
    }

    fn write_own(&mut self, _: &mut Vec<u8>) {}

    fn is_open(&self) -> bool {
        true
    }

    fn close(&mut self, _: &mut Vec<u8>) {}
}

//! WebSocket as a layer of connections (RFC 6455, RFC 7118), by tungstenite.
//!
//! [`WebSocket`] stands on another layer: [`stream::Plain`] or TLS. It shakes hands for the subprotocol `sip` and for no
//! other, as server or as client. Each message of the WebSocket is a SIP message, with or without a Content-Length.
//!
//! tungstenite is shown whole frames only: what has not come costs no memory, whatever length a frame claims. The
//! crate opens no socket and reads no clock; tungstenite takes the masks of a client from the system.

mod frames;
mod handshake;
mod layer;

pub use handshake::BadName;
pub use layer::WebSocket;

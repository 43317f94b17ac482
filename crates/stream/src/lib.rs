//! A worker's connections: streams of bytes on one side, messages on the other.
//!
//! [`Connections`] holds what must be known of each connection: what has come in of a message, what waits to be
//! sent, how long both may take. A [`Layer`] stands between its bytes and SIP: nothing, TLS, WebSocket. All that a
//! peer can make grow has a limit, a counter and an end that is told, see [`Limits`] and [`Why`].
//!
//! [`Turns`] chooses whose bytes are read next, and [`Unread`] how many may wait for that.
//!
//! The crate opens no socket and reads no clock. A driver shows it the bytes that came in, writes what
//! [`Connections::to_write`] has, and does what [`Connections::next_event`] says. Time is a [`Duration`] since a
//! zero that the driver chose. Read [`Connections`] and [`Layer`] first.
//!
//! [`Duration`]: std::time::Duration

mod backlog;
mod connection;
mod connections;
mod event;
mod figures;
mod index;
mod layer;
mod life;
mod proxied;
mod queue;
mod reader;
mod recount;
mod turns;
mod unread;
mod upkeep;

pub use connections::Connections;
pub use event::{Closed, Event};
pub use figures::{Counters, Limits, NotSent, Refused, Why};
pub use layer::{Layer, Plain, Said};
pub use proxied::Proxied;
pub use reader::Heard;
pub use turns::{READ_BYTES, Turn, Turns, read_bytes};
pub use unread::{Room, Seen, Unread};
pub use upkeep::Upkeep;

//! SIP transactions: the four state machines of RFC 3261 §17, with RFC 6026's Accepted states and
//! RFC 4320's rules for what is no INVITE.
//!
//! One store, [`Transactions`], holds them all; [`State`] is what stands in the RFCs' figures. The
//! crate never reads a clock or touches a socket: time is a [`Duration`] since a zero that the
//! driver chose, bytes leave through the caller's [`Sender`]. After each call the driver asks
//! for the next [`deadline`](Transactions::deadline), and when it has passed, drains
//! [`poll`](Transactions::poll).
//!
//! What the store leaves to the transaction user: choosing where requests go, and remembering what
//! belongs together; each transaction names its owner.
//!
//! [`Duration`]: std::time::Duration

mod derived;
mod flow;
mod key;
mod machine;
mod store;
mod timer;
mod told;

pub use flow::{ConnectionId, Flow, NextHop, Transport};
pub use key::{Key, Role, identity};
pub use machine::{Action, Input, State, invite_client, invite_server, other_client, other_server};
pub use store::{Event, Full, Seen, Transaction, Transactions};
pub use timer::{Timer, Timing};
pub use told::{Notice, Sender};

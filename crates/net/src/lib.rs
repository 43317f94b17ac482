//! Worker threads. Each drives one node on sockets of its own.
//!
//! A worker does not interpret SIP and makes no decisions. It gives bytes, time and entropy to its
//! node, and sends the datagrams that the node returns. Read [`Workers`] first.

#![forbid(unsafe_code)]

mod answerer;
mod mailbox;
mod seat;
mod worker;
mod workers;

pub use answerer::{Answerer, Reply};
pub use mailbox::{Busy, Command};
pub use seat::Stats;
pub use workers::{StartError, Workers};

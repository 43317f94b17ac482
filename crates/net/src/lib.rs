//! Worker threads. Each drives one node on sockets and connections of its own.
//!
//! A worker does not interpret SIP and makes no decisions. It gives bytes, time and entropy to its
//! node, and sends the datagrams that the node returns. Read [`Workers`] first.

#![forbid(unsafe_code)]

mod answerer;
mod bind;
#[cfg(test)]
mod fixtures;
mod lanes;
mod mailbox;
mod options;
mod seat;
mod streams;
mod witness;
mod worker;
mod workers;

pub use answerer::{Answerer, Reply};
pub use mailbox::{Busy, Command};
pub use seat::Stats;
pub use stream::{Counters, Refused, Why};
pub use streams::{Bound, Closing, ConnectionStats, Security};
pub use witness::Witness;
pub use workers::{Start, StartError, Workers};

//! Worker threads: each drives one node on its own sockets.
//!
//! A worker knows nothing of SIP and decides nothing: it brings bytes, time and entropy to its node
//! and sends what the node wants sent. Read [`Workers`] first.

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

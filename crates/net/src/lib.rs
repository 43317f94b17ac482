//! Sockets, workers and the OS clock: what stands between a node and the kernel.
//!
//! It knows nothing of SIP and decides nothing: bytes, time and entropy go in, bytes go out. It is
//! the only crate with `unsafe`. Read [`Workers`] and [`udp::Socket`] first.

#![allow(
    clippy::disallowed_methods,
    reason = "clocks and threads are here so that they are nowhere else"
)]

mod answerer;
mod clock;
mod mailbox;
mod seat;
pub mod udp;
mod waker;
mod worker;
mod workers;

pub use answerer::{Answerer, Reply};
pub use clock::{Clock, seed};
pub use mailbox::{Busy, Command};
pub use seat::Stats;
pub use workers::{StartError, Workers};

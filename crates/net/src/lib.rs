//! Sockets, workers and the OS clock: what stands between a node and the kernel.
//!
//! It knows nothing of SIP, and decides nothing: bytes, time and entropy go in, bytes go out. It is
//! the only crate with `unsafe`. Read [`udp::Socket`] first.

#![allow(
    clippy::disallowed_methods,
    reason = "clocks and threads are here so that they are nowhere else"
)]

pub mod udp;

//! The kernel services of a process: UDP and TCP sockets, waiting for several of them, the clock, and
//! entropy.
//!
//! This is the only crate with `unsafe`. It does not interpret the bytes that its callers send.
//! Read [`udp::Socket`], [`tcp`] and [`Waker`] first.

#![allow(
    clippy::disallowed_methods,
    reason = "the clock is read here so that it is read nowhere else"
)]

mod clock;
mod dated;
mod epoll;
mod inherit;
mod poll;
pub mod tcp;
pub mod udp;
mod waker;

pub use clock::{Clock, own_processor_time, processor_time, seed, wall};
pub use epoll::{Epoll, Interest, Ready, Trigger};
pub use inherit::inherited;
pub use poll::Poll;
pub use waker::Waker;

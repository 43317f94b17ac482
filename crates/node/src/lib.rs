//! The node: it takes datagrams and time, and says which datagrams to send.
//!
//! It never touches a socket, a clock or an entropy source: time is a [`Duration`] since a zero
//! that the driver chose, randomness a seed. Read [`Node`] and [`Shared`] first.

pub mod config;
mod io;

pub use config::Config;
pub use io::{Datagram, Handover, Input, Outbox, Transmit};
use std::{sync::Arc, time::Duration};

/// What the workers of one node share: configuration, servers, counters.
#[derive(Debug)]
pub struct Shared {}

/// One worker's part of the node.
#[derive(Debug)]
pub struct Node {}

impl Node {
    /// The node of worker number `worker`.
    #[must_use]
    pub fn new(_shared: Arc<Shared>, _worker: usize, _seed: u64, _now: Duration) -> Self {
        Self {}
    }

    /// Takes one input; what is to be done goes to `out`.
    pub fn handle_input(&mut self, _now: Duration, _input: Input<'_>, _out: &mut Outbox) {}

    /// Does what is due.
    pub fn handle_timeout(&mut self, _now: Duration, _out: &mut Outbox) {}

    /// When [`Self::handle_timeout`] wants to be called next.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        None
    }
}

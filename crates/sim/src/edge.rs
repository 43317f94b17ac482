//! A node's process: its workers, and the queues between them.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use fastrand::Rng;
use node::{Config, Datagram, Input, Node, Outbox, ReloadError, Shared};

/// How often a worker looks at its timers while it has work, as one on sockets does.
const TICK: Duration = Duration::from_millis(10);

/// A node with one or more workers. A datagram goes to the worker that its sender's address hashes
/// to, as with sockets that share a port; a handover arrives at once.
#[derive(Debug)]
pub struct Edge {
    shared: Arc<Shared>,
    nodes: Vec<Node>,
}

impl Edge {
    pub(crate) fn new(
        config: Config,
        workers: usize,
        mut rng: Rng,
        now: Duration,
    ) -> Result<Self, ReloadError> {
        let shared = Arc::new(Shared::new(config, workers)?);
        let nodes = (0..workers)
            .map(|worker| Node::new(Arc::clone(&shared), worker, rng.u64(..), now))
            .collect();
        Ok(Self { shared, nodes })
    }

    /// Its configuration, servers and counters.
    #[must_use]
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Its workers.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The same process started anew, with the configuration of its end and nothing else.
    pub(crate) fn restarted(&self, rng: Rng, now: Duration) -> Result<Self, ReloadError> {
        let config = self.shared.snapshot().config().clone();
        Self::new(config, self.nodes.len(), rng, now)
    }

    pub(crate) fn handle_datagram(
        &mut self,
        now: Duration,
        listener: u8,
        from: SocketAddr,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        let worker = self.worker_of(from);
        let datagram = Datagram {
            listener,
            from,
            bytes,
            truncated: false,
        };
        self.nodes[worker].handle_input(now, Input::Datagram(datagram), out);
        self.hand_over(now, out);
    }

    pub(crate) fn handle_unreachable(
        &mut self,
        now: Duration,
        address: SocketAddr,
        out: &mut Outbox,
    ) {
        self.nodes[0].handle_input(now, Input::Unreachable(address), out);
        self.hand_over(now, out);
    }

    pub(crate) fn handle_timeout(&mut self, now: Duration, out: &mut Outbox) {
        for node in &mut self.nodes {
            node.handle_timeout(now, out);
        }
        self.hand_over(now, out);
    }

    /// When to call [`Self::handle_timeout`] after it was called at `now`.
    pub(crate) fn wake_after_timeout(&self, now: Duration) -> Duration {
        let deadlines = self.nodes.iter().filter_map(|node| node.deadline(now));
        let next = deadlines.min().unwrap_or(Duration::MAX);
        next.max(now + TICK)
    }

    /// When to call [`Self::handle_timeout`] at the latest after an input at `now`.
    pub(crate) fn wake_after_input(now: Duration) -> Duration {
        now + TICK
    }

    fn hand_over(&mut self, now: Duration, out: &mut Outbox) {
        while !out.handovers.is_empty() {
            for handover in std::mem::take(&mut out.handovers) {
                self.nodes[handover.worker].handle_input(now, Input::Handover(handover), out);
            }
        }
    }

    fn worker_of(&self, from: SocketAddr) -> usize {
        if self.nodes.len() == 1 {
            return 0;
        }
        let host = match from.ip() {
            std::net::IpAddr::V4(ip) => u128::from(u32::from(ip)),
            std::net::IpAddr::V6(ip) => u128::from(ip),
        };
        let mixed = (host as u64 ^ (host >> 64) as u64 ^ u64::from(from.port()) << 32)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as usize % self.nodes.len()
    }
}

//! Connections to servers: opened before there is something to send, closed when their server is gone.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use node::{ConnectionId, Flow, Shared, Snapshot};
use stream::{Connections, Upkeep};
use wire::Wire;

/// How often it is looked after them.
const PAUSE: Duration = Duration::from_millis(200);

/// How many are opened in one go: to begin a handshake costs as much as several messages.
const OPENED: usize = 4;

/// The connections that shall be there, and those that shall not be there any more.
#[derive(Debug)]
pub(super) struct Ahead {
    upkeep: Upkeep,
    /// What the peers were taken from.
    snapshot: Option<Arc<Snapshot>>,
    /// Where servers were, which may have requests open.
    left: Vec<Flow>,
    /// What is to be opened.
    due: VecDeque<Flow>,
    /// How many each server is to have.
    wanted: usize,
    next: Duration,
}

impl Ahead {
    pub(super) fn new(seed: u64, now: Duration) -> Self {
        Self {
            upkeep: Upkeep::new(seed),
            snapshot: None,
            left: Vec::new(),
            due: VecDeque::new(),
            wanted: 0,
            next: now,
        }
    }

    /// What is to be opened now, and what is to be closed.
    pub(super) fn look(
        &mut self,
        now: Duration,
        shared: &Shared,
        connections: &Connections<Wire>,
    ) -> (Vec<Flow>, Vec<ConnectionId>) {
        if now < self.next || !self.due.is_empty() {
            return (self.next_due(connections), Vec::new());
        }
        self.next = now + PAUSE;
        let snapshot = shared.snapshot();
        let is_known = |known: &Arc<Snapshot>| Arc::ptr_eq(known, &snapshot);
        if !self.snapshot.as_ref().is_some_and(is_known) {
            let left = self.upkeep.set_peers(snapshot.connected_servers());
            self.left.extend(left);
            self.snapshot = Some(Arc::clone(&snapshot));
        }
        self.wanted = snapshot.config().connections.per_server;
        self.due
            .extend(self.upkeep.due(now, connections, self.wanted));
        let is_over = |flow: &mut Flow| !snapshot.is_in_use(flow.remote);
        let over = self.left.extract_if(.., is_over);
        let gone = over.flat_map(|flow| connections.ours_to(flow));
        let gone = gone.collect();
        (self.next_due(connections), gone)
    }

    /// A few that are to be opened, unless a message has opened them meanwhile.
    fn next_due(&mut self, connections: &Connections<Wire>) -> Vec<Flow> {
        let count = self.due.len().min(OPENED);
        let wanted = self.wanted;
        let due = self.due.drain(..count);
        due.filter(|&flow| connections.ours_to(flow).count() < wanted)
            .collect()
    }

    /// A connection is open.
    pub(super) fn opened(&mut self, flow: Option<Flow>) {
        if let Some(flow) = flow {
            self.upkeep.opened(flow);
        }
    }
}

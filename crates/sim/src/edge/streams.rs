//! The connections of a node's workers.

use std::time::Duration;

use node::{Flow, Outbox, Quotation};
use stream::{Connections, Plain};

use super::Edge;
use crate::streams::{EndId, Endpoint, Line, Missed, What};

impl Edge {
    /// The connections of each worker.
    pub fn connections(&self) -> impl Iterator<Item = &Connections<Plain>> {
        self.streams.iter().map(Endpoint::connections)
    }

    /// Its system tells of the end of a connection.
    pub(crate) fn on_stream(
        &mut self,
        line: &mut Line<'_>,
        end: EndId,
        what: What,
        out: &mut Outbox,
    ) {
        let owner = match what {
            What::Accepted { remote, .. } => Some(super::worker_of(self.nodes.len(), remote)),
            _ => self.streams.iter().position(|endpoint| endpoint.has(end)),
        };
        if let Some(owner) = owner {
            self.streams[owner].on(line, end, what);
        }
        if self.host.is_some() {
            self.work(line, out);
        } else {
            self.read_all(line, out);
        }
    }

    /// Sends a message on a connection of a worker.
    pub(crate) fn send(&mut self, line: &mut Line<'_>, flow: Flow, message: &[u8]) {
        let owner = flow.connection.map(|it| usize::from(it.worker()));
        let owner = owner.unwrap_or_else(|| super::worker_of(self.nodes.len(), flow.remote));
        self.streams[owner].send(line, flow, message);
    }

    /// Tells the node what became of connections; whether there was something to tell.
    pub(crate) fn tell_missed(&mut self, now: Duration, out: &mut Outbox) -> bool {
        let mut is_told = false;
        for worker in 0..self.streams.len() {
            for missed in self.streams[worker].take_missed() {
                is_told = true;
                match missed {
                    Missed::Unsent(flow, bytes) => {
                        let bytes = &bytes;
                        self.handle_unreachable(now, Quotation { flow, bytes }, out);
                    }
                    Missed::Backlog(flow, is_backed_up) => {
                        self.nodes[worker].handle_backlog(flow, is_backed_up);
                    }
                }
            }
        }
        is_told
    }

    pub(crate) fn set_reading(&mut self, is_reading: bool) {
        for endpoint in &mut self.streams {
            endpoint.set_reading(is_reading);
        }
    }

    /// Reads what there is, if processing takes no time.
    pub(super) fn read_all(&mut self, line: &mut Line<'_>, out: &mut Outbox) {
        for worker in 0..self.streams.len() {
            while self.streams[worker].is_ready() {
                let mut heard = Vec::new();
                self.streams[worker].read(line, &mut |_, flow, bytes| {
                    heard.push((flow, bytes.to_vec()));
                });
                for (flow, bytes) in heard {
                    self.handle_datagram_of(line.now, worker, flow, &bytes, out);
                }
            }
        }
    }

    /// Whether something can be read from a connection.
    pub(super) fn is_ready(&self) -> bool {
        self.streams.iter().any(Endpoint::is_ready)
    }

    /// The worker that holds a flow's connection, or that gets the datagrams of its peer.
    pub(super) fn worker_for(&self, flow: Flow) -> usize {
        let owner = flow.connection.map(|it| usize::from(it.worker()));
        owner.unwrap_or_else(|| super::worker_of(self.nodes.len(), flow.remote))
    }
}

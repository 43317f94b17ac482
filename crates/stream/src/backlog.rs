//! Which peers don't read what they get: they shall get nothing new. Paper 002 §VI-B

use slots::Id;
use transaction::{ConnectionId, Flow};

use crate::{Connections, Event, Layer, connection::Connection, index::Peer};

impl<L: Layer> Connections<L> {
    /// The socket takes no more, as the peer does not read. [`Event::Backlog`] tells of it, and again when all that
    /// waited is written.
    pub fn back_up(&mut self, id: ConnectionId) {
        let Some(id) = self.index.find(id) else {
            return;
        };
        let connection = self.table.get_mut(id);
        if connection.queue.to_write().is_empty() || connection.is_backed_up {
            return;
        }
        connection.is_backed_up = true;
        self.counters.backed_up += 1;
        let flow = connection.flow;
        self.tell_backlog(flow);
    }

    /// Whether something waits on it as its peer does not read.
    #[must_use]
    pub fn is_backed_up(&self, id: ConnectionId) -> bool {
        let id = self.index.find(id);
        id.is_some_and(|id| self.table.get(id).is_backed_up)
    }

    /// Sees whether a connection has caught up.
    pub(crate) fn catch_up(&mut self, id: Id<Connection<L>>) {
        let connection = self.table.get_mut(id);
        if connection.is_backed_up && connection.queue.is_empty() {
            connection.is_backed_up = false;
            let flow = connection.flow;
            self.tell_backlog(flow);
        }
    }

    /// A peer is backed up if all open connections to it are: a message takes the one on which least waits.
    pub(crate) fn tell_backlog(&mut self, flow: Flow) {
        let mut next = self.index.by_peer.get(&Peer::of(flow)).copied();
        let (mut has_any, mut has_free) = (false, false);
        while let Some(id) = next {
            let connection = self.table.get(id);
            next = connection.before;
            has_any |= connection.is_backed_up;
            has_free |= connection.is_open() && !connection.is_backed_up;
        }
        self.events.push_back(Event::Backlog {
            flow,
            is_backed_up: has_any && !has_free,
        });
    }
}

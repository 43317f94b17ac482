//! Which peers don't read what they get: they shall get nothing new. Paper 002 §VI-B

use std::time::Duration;

use slots::Id;
use transaction::{ConnectionId, Flow};

use crate::{Connections, Event, Layer, connection::Connection, index::Peer};

/// What waits for less is a burst, unless the peer has just been too slow. A node that a quota holds stands still for up
/// to 40 ms although it has little to do.
const BURST: Duration = Duration::from_millis(50);

/// For how long a peer that was too slow has no bursts.
const MEMORY: Duration = Duration::from_secs(1);

/// What waits on a connection, as its peer does not read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backlog {
    /// Since when the socket takes no more.
    since: Option<Duration>,
    /// Whether that is too long.
    pub(crate) is_too_long: bool,
    /// When it was too long last.
    last: Option<Duration>,
}

impl Backlog {
    /// Something waits; whether that is news.
    fn look(&mut self, now: Duration) -> bool {
        let Some(since) = self.since else {
            return false;
        };
        let is_slow = self.last.is_some_and(|last| now < last + MEMORY);
        let was_too_long = self.is_too_long;
        self.is_too_long |= is_slow || now >= since + BURST;
        if self.is_too_long {
            self.last = Some(now);
        }
        self.is_too_long != was_too_long
    }
}

impl<L: Layer> Connections<L> {
    /// The socket takes no more, as the peer does not read. [`Event::Backlog`] tells of it if that lasts, and again when
    /// all that waited is written.
    pub fn back_up(&mut self, now: Duration, id: ConnectionId) {
        let Some(id) = self.index.find(id) else {
            return;
        };
        let connection = self.table.get_mut(id);
        if !connection.queue.to_write().is_empty() {
            connection.backlog.since.get_or_insert(now);
            self.note_backlog(now, id);
        }
    }

    /// Whether something waits on it as its peer does not read.
    #[must_use]
    pub fn is_backed_up(&self, id: ConnectionId) -> bool {
        let id = self.index.find(id);
        id.is_some_and(|id| self.table.get(id).backlog.since.is_some())
    }

    /// Sees whether something waits for too long.
    pub(crate) fn note_backlog(&mut self, now: Duration, id: Id<Connection<L>>) {
        let connection = self.table.get_mut(id);
        if connection.backlog.look(now) {
            self.counters.backed_up += 1;
            self.backed_up += 1;
            let flow = connection.flow;
            self.tell_backlog(flow);
        }
    }

    /// Sees whether a connection has caught up.
    pub(crate) fn catch_up(&mut self, id: Id<Connection<L>>) {
        let connection = self.table.get_mut(id);
        if connection.backlog.since.is_none() || !connection.queue.is_empty() {
            return;
        }
        connection.backlog.since = None;
        if std::mem::take(&mut connection.backlog.is_too_long) {
            self.backed_up -= 1;
            let flow = connection.flow;
            self.tell_backlog(flow);
        }
    }

    /// A connection has opened or closed: that is news if another one to this peer is backed up.
    pub(crate) fn recheck_backlog(&mut self, flow: Flow) {
        if self.backed_up == 0 {
            return;
        }
        let (has_any, has_free) = self.backlog_of(flow);
        if has_any {
            self.events.push_back(Event::Backlog {
                flow,
                is_backed_up: !has_free,
            });
        }
    }

    /// A peer is backed up if all open connections to it are: a message takes the one on which least waits.
    pub(crate) fn tell_backlog(&mut self, flow: Flow) {
        let (has_any, has_free) = self.backlog_of(flow);
        self.events.push_back(Event::Backlog {
            flow,
            is_backed_up: has_any && !has_free,
        });
    }

    /// Whether a connection to this peer is backed up, and whether one is open that is not.
    fn backlog_of(&self, flow: Flow) -> (bool, bool) {
        let mut next = self.index.by_peer.get(&Peer::of(flow)).copied();
        let (mut has_any, mut has_free) = (false, false);
        while let Some(id) = next {
            let connection = self.table.get(id);
            next = connection.before;
            let is_backed_up = connection.backlog.is_too_long;
            has_any |= is_backed_up;
            has_free |= connection.is_open() && !is_backed_up;
        }
        (has_any, has_free)
    }
}

//! How a connection begins, goes on and ends: what the calls of [`Connections`] have in common.

use std::{mem, time::Duration};

use sip::Framer;
use slots::Id;
use transaction::Flow;

use crate::{
    Closed, Connections, Event, Layer, Why,
    backlog::Backlog,
    connection::{Connection, Opener, Phase},
    index::Peer,
    queue::Queue,
};

impl<L: Layer> Connections<L> {
    pub(crate) fn insert(
        &mut self,
        now: Duration,
        flow: Flow,
        layer: L,
        opener: Opener,
        is_counted: bool,
    ) -> Id<Connection<L>> {
        let number = self.index.next_number();
        let phase = match opener {
            Opener::Us => Phase::Connecting,
            Opener::Known | Opener::Stranger => Phase::Handshaking,
        };
        let connection = Connection {
            number,
            flow: Flow {
                connection: Some(number),
                ..flow
            },
            layer,
            phase,
            opener,
            is_counted,
            is_told: false,
            before: None,
            framer: Framer::new(self.limits.frame),
            inbound: Vec::new(),
            queue: Queue::default(),
            backlog: Backlog::default(),
            held: 0,
            quiet_since: now,
            within_since: None,
            unread_since: None,
            stalled_since: None,
            armed: None,
        };
        let id = self.table.insert(connection);
        let id = id.expect("the caller has seen that there is room");
        self.opening[opener as usize] += 1;
        self.index.insert(number, id);
        let listener = usize::from(flow.listener);
        let listeners = self.by_listener.len().max(listener + 1);
        self.by_listener.resize(listeners, 0);
        self.by_listener[listener] += 1;
        self.link(id);
        id
    }

    pub(crate) fn link(&mut self, id: Id<Connection<L>>) {
        let peer = Peer::of(self.table.get(id).flow);
        self.table.get_mut(id).before = self.index.by_peer.insert(peer, id);
    }

    pub(crate) fn unlink(&mut self, id: Id<Connection<L>>) {
        let connection = self.table.get(id);
        let (peer, before) = (Peer::of(connection.flow), connection.before);
        let last = self.index.by_peer[&peer];
        if last != id {
            let mut after = last;
            while let Some(next) = self.table.get(after).before.filter(|&next| next != id) {
                after = next;
            }
            self.table.get_mut(after).before = before;
        } else if let Some(before) = before {
            self.index.by_peer.insert(peer, before);
        } else {
            self.index.by_peer.remove(&peer);
        }
    }

    pub(crate) fn move_to(&mut self, id: Id<Connection<L>>, flow: Flow) {
        self.unlink(id);
        let connection = self.table.get_mut(id);
        let before = mem::replace(&mut connection.flow, flow);
        let is_backed_up = connection.backlog.is_too_long;
        self.link(id);
        if is_backed_up {
            self.tell_backlog(before);
            self.tell_backlog(flow);
        }
    }

    pub(crate) fn answer_pings(&mut self, now: Duration, id: Id<Connection<L>>, pings: u64) {
        let Connection { layer, queue, .. } = self.table.get_mut(id);
        if !layer.is_open() {
            return;
        }
        self.counters.kept_alive += pings;
        let result = queue.write(&mut self.buffers, |wire| layer.pong(wire));
        if let Err(why) = result {
            self.fail(now, id, why);
        }
    }

    /// Begins to close a connection; answers may come for a while.
    pub(crate) fn end(
        &mut self,
        now: Duration,
        id: Id<Connection<L>>,
        why: Why,
        answers: Duration,
    ) {
        self.leave(id, now, why, answers, false);
    }

    /// Begins to close a connection whose layer can't go on.
    pub(crate) fn fail(&mut self, now: Duration, id: Id<Connection<L>>, why: Why) {
        self.leave(id, now, why, Duration::ZERO, true);
    }

    fn leave(
        &mut self,
        id: Id<Connection<L>>,
        now: Duration,
        why: Why,
        answers: Duration,
        has_failed: bool,
    ) {
        let connection = self.table.get_mut(id);
        if connection.is_closing() {
            return;
        }
        if connection.is_opening() {
            self.opening[connection.opener as usize] -= 1;
            if connection.is_counted {
                self.index.end_opening(connection.flow.remote);
            }
        }
        // Of what is not open, only the layer's own last words can be sent.
        let has_ended = has_failed || connection.is_opening();
        connection.phase = Phase::Closing {
            why,
            since: now,
            open_until: now + answers,
            has_ended,
        };
        connection.within_since = None;
        self.buffers.give(mem::take(&mut connection.inbound));
        if has_failed {
            let Connection { layer, queue, .. } = connection;
            queue.write(&mut self.buffers, |wire| layer.write_own(wire));
        }
    }

    /// Draws all conclusions from what has changed.
    pub(crate) fn settle(&mut self, now: Duration, id: Id<Connection<L>>) {
        let was_open = self.table.get(id).is_open();
        self.advance(now, id);
        let connection = self.table.get(id);
        if connection.is_open() && !was_open {
            self.recheck_backlog(connection.flow);
        }
        let connection = self.table.get_mut(id);
        let held = connection.capacity();
        self.held = self.held + held - connection.held;
        let has_grown = held > connection.held;
        connection.held = held;
        if let Phase::Closing {
            why,
            has_ended: true,
            ..
        } = connection.phase
            && connection.queue.to_write().is_empty()
        {
            return self.drop(id, why);
        }
        if connection.queue.bytes() > self.limits.queue_bytes {
            return self.drop(id, Why::QueueFull);
        }
        if connection.queue.to_write().is_empty() {
            (connection.is_told, connection.stalled_since) = (false, None);
        } else {
            connection.stalled_since.get_or_insert(now);
            if !mem::replace(&mut connection.is_told, true) {
                self.events.push_back(Event::Writable(connection.number));
            }
        }
        self.catch_up(id);
        self.arm(id);
        if has_grown {
            self.make_room();
        }
    }

    /// Closes what takes most, as long as all take too much. So a peer that does not read costs no other.
    fn make_room(&mut self) {
        while self.held > self.limits.total_bytes {
            let all = self.table.iter().map(|(id, of)| (of.held, id));
            let most = all.max_by_key(|&(held, _)| held);
            let (_, id) = most.expect("something takes it");
            self.drop(id, Why::MemoryFull);
        }
    }

    /// Lets the layer speak, and messages go to it.
    pub(crate) fn advance(&mut self, now: Duration, id: Id<Connection<L>>) {
        let connection = self.table.get_mut(id);
        let Connection { layer, queue, .. } = connection;
        match connection.phase {
            Phase::Connecting => return,
            Phase::Handshaking | Phase::Open => {
                queue.write(&mut self.buffers, |wire| layer.write_own(wire));
            }
            Phase::Closing {
                has_ended: true, ..
            } => return,
            Phase::Closing { .. } => {}
        }
        if connection.phase == Phase::Handshaking && layer.is_open() {
            connection.phase = Phase::Open;
            connection.quiet_since = now;
            self.opening[connection.opener as usize] -= 1;
            if connection.is_counted {
                self.index.end_opening(connection.flow.remote);
            }
            self.counters.established += 1;
            self.events.push_back(Event::Opened(connection.number));
        }
        if connection.phase == Phase::Handshaking {
            return;
        }
        if let Err(why) = queue.encode(layer, &mut self.buffers) {
            return self.fail(now, id, why);
        }
        if let Phase::Closing {
            open_until,
            has_ended,
            ..
        } = &mut connection.phase
            && now >= *open_until
            && queue.is_empty()
        {
            *has_ended = true;
            queue.write(&mut self.buffers, |wire| layer.close(wire));
        }
    }

    /// Sees to it that the timer runs out no later than it must.
    pub(crate) fn arm(&mut self, id: Id<Connection<L>>) {
        let connection = self.table.get_mut(id);
        let (due, _) = connection.due(&self.limits);
        if connection.armed.is_none_or(|armed| due < armed) {
            connection.armed = Some(due);
            self.table.arm(id, due);
        }
    }

    /// Takes a connection out, and tells what it could not send.
    pub(crate) fn drop(&mut self, id: Id<Connection<L>>, why: Why) {
        self.drop_with(id, why, None);
    }

    /// The same, with what the driver knows of the reason.
    pub(crate) fn drop_with(&mut self, id: Id<Connection<L>>, why: Why, detail: Option<String>) {
        self.unlink(id);
        let mut connection = self.table.remove(id);
        let flow = connection.flow;
        self.index.remove(connection.number);
        if connection.is_counted {
            self.index.release(flow.remote, connection.is_opening());
        }
        self.opening[connection.opener as usize] -= usize::from(connection.is_opening());
        self.by_listener[usize::from(flow.listener)] -= 1;
        self.held -= connection.held;
        self.counters.close(why);
        self.events.push_back(Event::Close(Closed {
            flow,
            id: connection.number,
            is_of_peer: connection.is_of_peer(),
            why,
            detail: connection
                .layer
                .detail()
                .or(detail)
                .map(String::into_boxed_str),
        }));
        if connection.backlog.is_too_long {
            self.backed_up -= 1;
            self.tell_backlog(flow);
        } else {
            self.recheck_backlog(flow);
        }
        for message in connection.queue.unsent() {
            self.counters.lose(message);
            let message = message.to_vec();
            self.events.push_back(Event::Unsent { flow, message });
        }
        self.buffers.give(mem::take(&mut connection.inbound));
        connection.queue.give_back(&mut self.buffers);
    }
}

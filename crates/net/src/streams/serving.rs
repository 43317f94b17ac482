//! Whose connection is served when, and what is read of it.

use std::{mem, time::Duration};

use node::{ConnectionId, Datagram, Input};
use socket::{Interest, Ready, own_processor_time, tcp};
use stream::{Room, Turn, Why, read_bytes};

use super::{
    Ground, Streams,
    aliases::{self, Alias},
    is_later,
    watch::{LISTENERS, Lane, connection},
};

/// Known hosts' connections are served for so long in a turn. What else waits for the worker does not wait longer.
const KNOWN_FOR: Duration = Duration::from_millis(2);

/// Strangers' connections are served for so long in a turn, or for as long as those of known hosts.
const STRANGERS_FOR: Duration = Duration::from_millis(1);

/// The most of their messages in a turn. What a request causes takes longer than to read it, and is not in that time: it is
/// sent later, and servers answer over other sockets.
const STRANGERS_AT_ONCE: u64 = 32;

/// They are served after this time even if known hosts wait too long, but then only so many of their messages.
const STRANGERS_PAUSE: Duration = Duration::from_millis(100);
const STRANGERS_WHILE_LATE: u64 = 8;

/// What has waited in a known host's connection for longer is late.
const LATE: Duration = Duration::from_millis(20);

/// Times that strangers' connections are gathered in one turn at most.
const GATHERS: usize = 16;

/// What a lane may have in a turn: it ends at this moment, or after so many messages. What is read at once is served whole.
struct Portion {
    until: Duration,
    messages: u64,
}

impl Streams {
    /// Waits until something is ready: one of the worker's own descriptors, or a connection.
    pub(crate) fn wait(&mut self, timeout: Duration) {
        let timeout = self.turns.timeout(timeout);
        let began = self.clock.now();
        self.watch.wait(timeout);
        // Under a quota it may take longer.
        let rested = timeout.min(self.clock.now() - began);
        self.turns.rested(rested);
    }

    /// Whether [`Self::turn`] has something to do.
    pub(crate) fn has_ready(&self) -> bool {
        self.watch.has_ready() || !self.turns.are_empty()
    }

    /// Whether a turn has left something: connections wait for theirs, or in their handshakes.
    pub(crate) fn has_more(&self) -> bool {
        self.watch.has_more_handshakes() || !self.turns.are_empty()
    }

    /// Messages that came so far.
    pub(crate) fn received(&self) -> u64 {
        self.connections.counters().messages_received
    }

    /// Does what is ready, a bounded part of it. The worker may have other work.
    pub(crate) fn turn(&mut self, ground: &mut Ground<'_>, has_other_work: bool) {
        let (began, before) = (self.clock.now(), self.received());
        self.take_ready(ground, Lane::Known);
        let portion = Portion {
            until: began + KNOWN_FOR,
            messages: u64::MAX,
        };
        self.serve_turns(ground, Lane::Known, &portion);
        let took = self.clock.now() - began;
        self.serve_strangers(ground, took);
        let has_other_work = has_other_work || self.received() > before;
        self.serve_handshakes(ground, has_other_work);
        self.settle(ground);
    }

    /// The processor time that handshakes took since this was called last while there was no other work.
    pub(crate) fn take_idle_took(&mut self) -> Duration {
        self.allowance.take_idle()
    }

    /// How long strangers were served since this was called last.
    pub(crate) fn take_strangers_took(&mut self) -> Duration {
        mem::take(&mut self.strangers_took)
    }

    /// Serves strangers, after known hosts were served for so long.
    fn serve_strangers(&mut self, ground: &mut Ground<'_>, known_took: Duration) {
        let began = self.clock.now();
        let is_late = mem::take(&mut self.is_late) || ground.node.are_known_behind();
        if is_late && began < self.strangers_at + STRANGERS_PAUSE {
            return;
        }
        self.strangers_at = began;
        for _ in 0..GATHERS {
            if self.take_ready(ground, Lane::Strangers) == 0 {
                break;
            }
        }
        let portion = Portion {
            until: began + STRANGERS_FOR.max(known_took),
            messages: match is_late {
                true => STRANGERS_WHILE_LATE,
                false => STRANGERS_AT_ONCE,
            },
        };
        self.serve_turns(ground, Lane::Strangers, &portion);
        self.strangers_took += self.clock.now() - began;
    }

    /// Has handshakes go on: a few while there is no other work, and otherwise as many as they have time for.
    fn serve_handshakes(&mut self, ground: &mut Ground<'_>, has_other_work: bool) {
        if !self.watch.has_more_handshakes() {
            return;
        }
        self.allowance.earn_until(own_processor_time());
        if !has_other_work {
            self.take_ready(ground, Lane::Opening);
            return self.allowance.idle_until(own_processor_time());
        }
        while self.allowance.has_some() && self.take_ready(ground, Lane::Opening) > 0 {
            self.allowance.spend_until(own_processor_time());
        }
    }

    /// Takes what is told to be ready of a lane; how many that were.
    fn take_ready(&mut self, ground: &mut Ground<'_>, lane: Lane) -> usize {
        let count = self.watch.gather(lane);
        for place in 0..count {
            let ready = self.watch.ready(place);
            match (connection(ready.token), lane) {
                (None, _) => self.accept(ground, (ready.token - LISTENERS) as usize),
                (Some(id), Lane::Opening) => {
                    self.serve_opening(ground, id, ready, read_bytes(count));
                }
                (Some(id), _) => self.note_ready(ground.now, id, ready),
            }
        }
        count
    }

    /// An open connection is ready: what can be read of it waits for its turn.
    fn note_ready(&mut self, now: Duration, id: ConnectionId, ready: Ready) {
        let Some(held) = self.sockets.get_mut(&id) else {
            return;
        };
        held.has_ended |= ready.ended;
        if ready.readable && !mem::replace(&mut held.is_in_turns, true) {
            let lane = held.lane;
            self.connections.leave_unread(now, id);
            self.turns.of(lane).push(now, id);
        }
        if ready.writable {
            self.write(now, id);
        }
    }

    /// Serves connections of a lane, first one of those who are behind.
    fn serve_turns(&mut self, ground: &mut Ground<'_>, lane: Lane, portion: &Portion) {
        let few_bytes = read_bytes(usize::MAX);
        let before = self.received();
        let mut now = self.clock.now();
        // Those who obey hear with the answers what they may send.
        if (lane == Lane::Known || ground.node.may_refuse())
            && let Some(turn) = self.turns.of(lane).next_behind(now)
            && self.serve(ground, turn, few_bytes).is_some()
        {
            self.turns.of(lane).push_behind(turn);
        }
        let bytes = match lane {
            Lane::Known => read_bytes(self.turns.of(lane).len()),
            Lane::Strangers | Lane::Opening => few_bytes,
        };
        while now < portion.until && self.received() - before < portion.messages {
            let may_be_late = ground.node.may_refuse();
            let Some(turn) = self.turns.of(lane).next(now, may_be_late) else {
                break;
            };
            if let Some(length) = self.serve(ground, turn, bytes) {
                self.push_again(lane, turn, length);
            }
            let began = mem::replace(&mut now, self.clock.now());
            if turn.is_behind(began) {
                self.turns.of(lane).spend(now - began);
            }
        }
    }

    fn push_again(&mut self, lane: Lane, turn: Turn, read: usize) {
        let now = self.clock.now();
        let held = self.sockets.get(&turn.id);
        let unread = || held.map_or(0, |held| held.socket.unread());
        self.turns.of(lane).push_again(now, turn, read, unread);
    }

    /// Reads from a connection, not more than so many bytes; how many, if there may be more: it is to have another turn.
    fn serve(&mut self, ground: &mut Ground<'_>, turn: Turn, bytes: usize) -> Option<usize> {
        let id = turn.id;
        let length = self.read(ground, id, turn.since, bytes);
        let now = self.clock.now();
        let held = self.sockets.get_mut(&id)?;
        let seen = self.turns.of(held.lane).note_read(now, turn, length);
        if let Some(unread) = &mut held.unread
            && let Some(room) = unread.see(now, seen)
        {
            make_room(&held.socket, room);
        }
        // Without an edge nobody tells of an end that is there already.
        held.is_in_turns = length == bytes || (held.has_ended && length > 0);
        if !held.is_in_turns {
            return None;
        }
        self.connections.leave_unread(now, id);
        Some(length)
    }

    fn serve_opening(
        &mut self,
        ground: &mut Ground<'_>,
        id: ConnectionId,
        ready: Ready,
        bytes: usize,
    ) {
        let Some(held) = self.sockets.get_mut(&id) else {
            return;
        };
        if held.interest == Interest::Write {
            if let Some(error) = held.socket.error() {
                let why = Some(error.to_string());
                return self.connections.failed(id, Why::NotConnected, why);
            }
            self.connections.connected(ground.now, id);
            self.set_interest(id, Interest::Read);
        }
        if ready.readable {
            self.read(ground, id, ground.now, bytes);
        }
        if ready.writable {
            self.write(ground.now, id);
        }
    }

    /// Reads once from a connection in which something waits since then, not more than so many bytes; how many.
    fn read(
        &mut self,
        ground: &mut Ground<'_>,
        id: ConnectionId,
        since: Duration,
        bytes: usize,
    ) -> usize {
        let Some(held) = self.sockets.get(&id) else {
            return 0;
        };
        let (node, out, now) = (&mut *ground.node, &mut *ground.out, ground.now);
        let (length, waited) = match held.socket.read_dated(&mut self.buffer[..bytes]) {
            Ok((0, _)) => {
                self.connections.closed(now, id, Why::Peer);
                return 0;
            }
            Ok((length, waited)) => (length, waited.unwrap_or_default()),
            Err(error) if is_later(&error) => {
                self.connections.is_read(now, id);
                return 0;
            }
            Err(error) => {
                self.fail(id, &error);
                return 0;
            }
        };
        let delay = waited.max(now.saturating_sub(since));
        self.is_late |= delay > LATE && held.lane == Lane::Known;
        // A request may come with the end of the handshake. It has waited for that, and not for requests before it.
        let is_opening = held.lane == Lane::Opening;
        node.handle_stream_delay(now, if is_opening { Duration::ZERO } else { delay });
        let mut asks = held.alias == Alias::Possible || is_opening;
        let mut port = None;
        let bytes = &self.buffer[..length];
        self.connections
            .receive(now, id, bytes, &mut |flow, heard| {
                if heard.bytes.is_empty() {
                    return;
                }
                if asks {
                    port = aliases::port_of(heard.bytes);
                    asks = port.is_none();
                }
                let datagram = Datagram {
                    flow,
                    bytes: heard.bytes,
                    truncated: heard.fault.is_some(),
                };
                node.handle_input(now, Input::Datagram(datagram), out);
            });
        if let Some(port) = port {
            self.set_alias(id, port);
        }
        length
    }
}

/// What waits unread in a connection has so much room from now on.
fn make_room(socket: &tcp::Stream, room: Room) {
    match room {
        Room::AtFirst | Room::Free => socket.allow_unread(room.memory()),
        Room::Limited(memory) => socket.limit_unread(memory),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write,
        iter,
        net::{SocketAddr, TcpStream},
        sync::Arc,
    };

    use node::{Node, Outbox, Shared, Transport};
    use socket::Clock;

    use super::*;
    use crate::{
        fixtures::shared,
        streams::{ACCEPTS, Bound, Security},
    };

    const REQUEST: &str = "OPTIONS sip:a@test SIP/2.0\r\nVia: SIP/2.0/TCP 127.0.0.1;branch=z9hG4bK1\r\n\
        Max-Forwards: 70\r\nFrom: <sip:a@test>;tag=1\r\nTo: <sip:b@test>\r\nCall-ID: 1\r\nCSeq: 1 OPTIONS\r\n\
        Content-Length: 0\r\n\r\n";
    const CALLERS: usize = 4;
    const REQUESTS: usize = 40;

    /// Connections at a listener of this transport, with where it listens.
    fn listening(
        transport: Transport,
        shared: &Arc<Shared>,
        clock: Clock,
    ) -> (Streams, SocketAddr) {
        let mut bound =
            tcp::Listener::bind_group(([127, 0, 0, 1], 0).into(), 1).expect("loopback has ports");
        let listener = bound.remove(0);
        let address = listener.local_addr();
        let security = Security::new(vec![Bound {
            transport,
            address,
            server: None,
            client: None,
            balancers: Vec::new(),
        }]);
        let streams = Streams::new(
            0,
            Arc::clone(shared),
            vec![(0, listener)],
            Arc::new(security),
            Arc::default(),
            iter::empty(),
            clock,
        );
        (streams.expect("the system has descriptors"), address)
    }

    /// The most messages that are read in a turn of strangers who have sent many, while known hosts wait too long or not.
    fn most_in_a_turn(is_late: bool) -> u64 {
        let (shared, clock) = (Arc::new(shared(Transport::Tcp, 1)), Clock::start());
        let (mut streams, address) = listening(Transport::Tcp, &shared, clock);
        let callers = [(); CALLERS].map(|()| {
            let mut caller = TcpStream::connect(address).expect("it listens");
            caller
                .write_all(REQUEST.repeat(REQUESTS).as_bytes())
                .expect("there is room");
            caller
        });
        let (mut node, mut out) = (Node::new(shared, 0, 1, clock.now()), Outbox::default());
        let (mut received, mut most) = (0, 0);
        while received < (CALLERS * REQUESTS) as u64 {
            streams.wait(STRANGERS_PAUSE);
            streams.is_late = is_late;
            let now = clock.now();
            let mut ground = Ground {
                now,
                node: &mut node,
                out: &mut out,
            };
            streams.turn(&mut ground, false);
            let all = streams.stats().counters.messages_received;
            most = most.max(all - received);
            received = all;
            out.clear();
        }
        drop(callers);
        most
    }

    /// A turn read hundreds of requests. Their servers' answers came before those to calls of peers, which waited for 0.4 s, and
    /// those that found no room were lost.
    #[test]
    fn strangers_have_few_messages_in_a_turn() {
        // What is read at once is served whole.
        let at_once = read_bytes(usize::MAX).div_ceil(REQUEST.len()) as u64;
        assert!(most_in_a_turn(false) <= STRANGERS_AT_ONCE + at_once);
        assert!(most_in_a_turn(true) <= STRANGERS_WHILE_LATE + at_once);
    }

    /// All who came were accepted at once. Most had to be refused, as their sources had all the handshakes that they may have.
    #[test]
    fn peers_are_accepted_as_fast_as_handshakes_go_on() {
        let (shared, clock) = (Arc::new(shared(Transport::Ws, 1)), Clock::start());
        let (mut streams, address) = listening(Transport::Ws, &shared, clock);
        let callers = [(); 3 * ACCEPTS].map(|()| TcpStream::connect(address).expect("it listens"));
        let (mut node, mut out) = (Node::new(shared, 0, 1, clock.now()), Outbox::default());
        streams.wait(STRANGERS_PAUSE);
        let mut ground = Ground {
            now: clock.now(),
            node: &mut node,
            out: &mut out,
        };
        streams.turn(&mut ground, false);
        assert_eq!(streams.stats().total, ACCEPTS);
        drop(callers);
    }
}

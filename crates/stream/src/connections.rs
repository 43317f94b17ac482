//! The table of connections.

use std::{collections::VecDeque, net::SocketAddr, time::Duration};

use slots::{Buffers, Table};
use transaction::{ConnectionId, Flow};

use crate::{
    Counters, Event, Heard, Layer, Limits, NotSent, Refused, Why,
    connection::{Connection, Opener, Phase},
    index::{Index, Most, Peer},
    reader::Reader,
};

/// How long the answer to a message that can't be read may take. It closes its connection.
const ANSWER_TIME: Duration = Duration::from_millis(100);

/// A buffer with more bytes than this is not used again.
const BUFFER_BYTES_MAX: usize = 64 * 1024;

/// Of the memory that connections may take, this part may lie idle.
const IDLE_PART: usize = 8;

/// Of all places this part is for connections of ours and those of known hosts, however many strangers there are.
const RESERVED_PART: usize = 16;

/// Of the handshakes that there is room for yet, a source may have this part. So some room is left when many sources
/// take all that they may have.
const OPENING_PART: usize = 4;

/// A source may have this part of all handshakes if there is any room, and so many at least. So a crowd of many sources fills
/// all of them before one is refused.
const OPENING_PART_OF_ALL: usize = 128;
const OPENING_MIN: usize = 4;

/// The connections of a worker.
///
/// ```
/// use std::time::Duration;
/// use sip::FrameLimits;
/// use stream::{Connections, Event, Limits, Plain};
/// use transaction::{Flow, NextHop, Transport};
///
/// let limits = Limits {
///     total: 1_000,
///     per_source: 100,
///     connecting: 100,
///     handshaking: 100,
///     handshake: Duration::from_secs(5),
///     idle: Duration::from_secs(600),
///     message: Duration::from_secs(10),
///     stall: Duration::from_secs(30),
///     linger: Duration::from_secs(5),
///     queue_bytes: 1 << 20,
///     total_bytes: 64 << 20,
///     frame: FrameLimits { head_bytes: 16_384, message_bytes: 65_535 },
/// };
/// let now = Duration::ZERO;
/// let mut connections = Connections::new(0, 7, limits, now);
/// let peer = NextHop { transport: Transport::Tcp, address: ([192, 0, 2, 1], 40_000).into() };
/// let id = connections.accept(now, Flow::to(0, peer), Plain).expect("there is room");
///
/// let request = b"OPTIONS sip:a SIP/2.0\r\nl: 0\r\n\r\n";
/// let mut flows = Vec::new();
/// connections.receive(now, id, request, &mut |flow, heard| {
///     assert_eq!(heard.bytes, request);
///     flows.push(flow);
/// });
/// assert_eq!(connections.find(flows[0]), Some(id));
///
/// connections.send(now, id, b"SIP/2.0 200 OK\r\nl: 0\r\n\r\n").expect("it is open");
/// assert_eq!(connections.next_event(), Some(Event::Opened(id)));
/// assert_eq!(connections.next_event(), Some(Event::Writable(id)));
/// let bytes = connections.to_write(id).len();
/// connections.wrote(now, id, bytes);
/// assert_eq!(connections.counters().messages_sent, 1);
/// ```
#[derive(Debug)]
pub struct Connections<L> {
    pub(crate) limits: Limits,
    pub(crate) table: Table<Connection<L>>,
    pub(crate) index: Index<Connection<L>>,
    pub(crate) buffers: Buffers,
    pub(crate) events: VecDeque<Event>,
    pub(crate) counters: Counters,
    /// How many are not open yet, by [`Opener`].
    pub(crate) opening: [usize; Opener::ALL.len()],
    /// How many each listener has.
    pub(crate) by_listener: Vec<usize>,
    /// The memory of all buffers in use, in bytes.
    pub(crate) held: usize,
    /// How many are backed up for too long.
    pub(crate) backed_up: usize,
}

impl<L: Layer> Connections<L> {
    /// No connection yet. The seed chooses the first number, and the key of the tables.
    #[must_use]
    pub fn new(worker: u8, seed: u64, limits: Limits, now: Duration) -> Self {
        Self {
            limits,
            table: Table::new(limits.total, now),
            index: Index::new(worker, seed),
            buffers: Buffers::of_capacity(limits.total_bytes / IDLE_PART, BUFFER_BYTES_MAX),
            events: VecDeque::new(),
            counters: Counters::default(),
            opening: [0; Opener::ALL.len()],
            by_listener: Vec::new(),
            held: 0,
            backed_up: 0,
        }
    }

    /// Puts new limits in force. What exists already and is beyond them stays.
    pub fn set_limits(&mut self, limits: Limits) {
        let total = self.limits.total;
        self.limits = Limits { total, ..limits };
    }

    /// Whether some peer's connection would be taken. One whose layer `is_open` at once needs no room for a handshake.
    /// A driver that does not accept before leaves peers in the kernel's queue, where they cost least.
    #[must_use]
    pub fn may_accept(&self, is_open: bool) -> bool {
        self.table.has_room(1) && (is_open || self.opening_free(Opener::Stranger) > 0)
    }

    /// Takes a connection that a peer opened. The flow names none.
    ///
    /// # Errors
    /// Which limit forbids it. The driver closes the socket.
    pub fn accept(&mut self, now: Duration, flow: Flow, layer: L) -> Result<ConnectionId, Refused> {
        self.accept_of(Opener::Stranger, now, flow, layer)
    }

    /// The same for a peer that is no stranger. It takes places and handshakes that strangers can't take, and may begin
    /// any number of handshakes at once.
    ///
    /// # Errors
    /// As with [`Self::accept`].
    pub fn accept_known(
        &mut self,
        now: Duration,
        flow: Flow,
        layer: L,
    ) -> Result<ConnectionId, Refused> {
        self.accept_of(Opener::Known, now, flow, layer)
    }

    fn accept_of(
        &mut self,
        opener: Opener,
        now: Duration,
        flow: Flow,
        layer: L,
    ) -> Result<ConnectionId, Refused> {
        let is_counted = !layer.awaits_remote();
        let reserved = match opener {
            Opener::Stranger => self.limits.total / RESERVED_PART,
            Opener::Us | Opener::Known => 0,
        };
        let most = Most {
            all: self.limits.per_source,
            // One that is open at once is opening for no longer than this call takes.
            opening: Some(match opener {
                Opener::Stranger if !layer.is_open() => self.opening_of_source(),
                _ => usize::MAX,
            }),
        };
        let refused = if !self.table.has_room(1 + reserved) {
            Some(Refused::Total)
        } else if !layer.is_open() && self.opening_free(opener) == 0 {
            Some(Refused::Handshaking)
        } else if is_counted && !self.index.admit(flow.remote, most) {
            Some(Refused::Source)
        } else {
            None
        };
        if let Some(why) = refused {
            return Err(self.counters.refuse(why));
        }
        self.counters.accepted += 1;
        let id = self.insert(now, flow, layer, opener, is_counted);
        let number = self.table.get(id).number;
        self.settle(now, id);
        Ok(number)
    }

    /// How many more may begin their handshake.
    fn opening_free(&self, opener: Opener) -> usize {
        let most = self.limits.handshaking;
        most.saturating_sub(self.opening[opener as usize])
    }

    /// How many handshakes a stranger's source may have at once.
    fn opening_of_source(&self) -> usize {
        let of_free = self.opening_free(Opener::Stranger) / OPENING_PART;
        let of_all = self.limits.handshaking / OPENING_PART_OF_ALL;
        of_free.max(of_all).max(OPENING_MIN)
    }

    /// Takes a connection that the driver begins to open, and tells the outcome of by [`connected`](Self::connected)
    /// or [`closed`](Self::closed). Messages can be sent at once: they wait.
    ///
    /// # Errors
    /// Which limit forbids it.
    pub fn open(&mut self, now: Duration, flow: Flow, layer: L) -> Result<ConnectionId, Refused> {
        let refused = if !self.table.has_room(1) {
            Some(Refused::Total)
        } else if self.connecting() >= self.limits.connecting {
            Some(Refused::Connecting)
        } else {
            None
        };
        if let Some(why) = refused {
            return Err(self.counters.refuse(why));
        }
        self.counters.opened += 1;
        let id = self.insert(now, flow, layer, Opener::Us, false);
        let number = self.table.get(id).number;
        self.settle(now, id);
        Ok(number)
    }

    /// The peer has taken the connection.
    pub fn connected(&mut self, now: Duration, id: ConnectionId) {
        let Some(id) = self.index.find(id) else {
            return;
        };
        self.table.get_mut(id).connect();
        self.settle(now, id);
    }

    /// Something has come that [`Self::receive`] is told later: until then the peer is not silent.
    pub fn leave_unread(&mut self, now: Duration, id: ConnectionId) {
        if let Some(id) = self.index.find(id) {
            self.table.get_mut(id).unread_since.get_or_insert(now);
        }
    }

    /// Nothing is left to read, so what is missing of a message is the peer's to send.
    pub fn is_read(&mut self, now: Duration, id: ConnectionId) {
        if let Some(id) = self.index.find(id) {
            self.table.get_mut(id).read(now);
            self.arm(id);
        }
    }

    /// Takes bytes that came in, and tells the messages that end in them. What `heard` is told has the flow to answer
    /// on.
    pub fn receive(
        &mut self,
        now: Duration,
        id: ConnectionId,
        bytes: &[u8],
        heard: &mut impl FnMut(Flow, Heard<'_>),
    ) {
        let Some(id) = self.index.find(id) else {
            return;
        };
        let opening = self.opening_of_source();
        let connection = self.table.get_mut(id);
        if connection.is_closing() {
            return;
        }
        connection.connect();
        connection.read(now);
        let most = Most {
            all: self.limits.per_source,
            opening: connection.is_opening().then_some(opening),
        };
        let index = &mut self.index;
        let is_counted = &mut connection.is_counted;
        let mut reader = Reader {
            framer: &mut connection.framer,
            inbound: &mut connection.inbound,
            buffers: &mut self.buffers,
            flow: connection.flow,
            message_bytes: self.limits.frame.message_bytes,
            redirect: |flow: &mut Flow, remote: SocketAddr| {
                let has_room = if *is_counted {
                    index.move_source(flow.remote, remote, most)
                } else {
                    index.admit(remote, most)
                };
                if has_room {
                    (*is_counted, flow.remote) = (true, remote);
                }
                has_room
            },
            messages: 0,
            pings: 0,
            is_alive: false,
            failed: None,
        };
        let result = connection
            .layer
            .receive(bytes, &mut |said| reader.take(said, heard));
        let (flow, pings, failed) = (reader.flow, reader.pings, reader.failed);
        self.counters.messages_received += reader.messages;
        let is_alive = reader.is_alive;
        connection.heard(now, is_alive);
        if flow.remote != connection.flow.remote {
            self.move_to(id, flow);
        }
        match (result, failed) {
            (Err(why), _) => self.fail(now, id, why),
            (Ok(()), Some(why)) => {
                // It may just have been opened.
                self.advance(now, id);
                self.end(now, id, why, ANSWER_TIME);
            }
            (Ok(()), None) if pings > 0 => self.answer_pings(now, id, pings),
            (Ok(()), None) => {}
        }
        self.settle(now, id);
    }

    /// The connection to send on: that of the flow, if it still takes something and leads to the same host; else one to the same
    /// address on the same transport and listener, the one on which least waits. A Via need not tell the port that a
    /// connection comes from.
    #[must_use]
    pub fn find(&self, flow: Flow) -> Option<ConnectionId> {
        let number = flow.connection;
        let own = number.and_then(|number| self.index.find(number));
        let own = own.map(|id| self.table.get(id));
        let is_same = |of: &&Connection<L>| is_of_host(of.flow, flow) && of.takes_answers();
        if let Some(own) = own.filter(is_same) {
            return Some(own.number);
        }
        let mut next = self.index.by_peer.get(&Peer::of(flow)).copied();
        let mut best = None;
        while let Some(id) = next {
            let connection = self.table.get(id);
            next = connection.before;
            if !connection.is_closing() {
                let rank = (connection.is_opening(), connection.queue.bytes());
                if best.is_none_or(|(best, _)| rank < best) {
                    best = Some((rank, connection.number));
                }
            }
        }
        best.map(|(_, number)| number)
    }

    /// The connections that were opened from here to where a flow leads, but for those that are being closed.
    pub fn ours_to(&self, flow: Flow) -> impl Iterator<Item = ConnectionId> {
        let mut next = self.index.by_peer.get(&Peer::of(flow)).copied();
        let all = std::iter::from_fn(move || {
            let connection = self.table.get(next?);
            next = connection.before;
            Some(connection)
        });
        all.filter(|connection| !connection.is_of_peer() && !connection.is_closing())
            .map(|connection| connection.number)
    }

    /// A peer's connection leads to where the peer listens, too. From now on it is found by that address, and what
    /// comes in on it is from there. The driver has checked that this peer listens there. RFC 5923 §8.2
    pub fn alias(&mut self, id: ConnectionId, remote: SocketAddr) {
        if let Some(id) = self.index.find(id) {
            let flow = self.table.get(id).flow;
            self.move_to(id, Flow { remote, ..flow });
        }
    }

    /// Whether the peer has opened a connection.
    #[must_use]
    pub fn is_of_peer(&self, id: ConnectionId) -> bool {
        let id = self.index.find(id);
        id.is_some_and(|id| self.table.get(id).is_of_peer())
    }

    /// Queues a message. What waits when the connection goes is told as [`Event::Unsent`], which may be at once.
    ///
    /// # Errors
    /// Why it is not queued.
    pub fn send(&mut self, now: Duration, id: ConnectionId, message: &[u8]) -> Result<(), NotSent> {
        let id = self.index.find(id).ok_or(NotSent::Gone)?;
        let connection = self.table.get_mut(id);
        if let Phase::Closing {
            open_until,
            has_ended,
            ..
        } = &mut connection.phase
        {
            if *has_ended {
                return Err(NotSent::Closing);
            }
            *open_until = now;
        }
        if connection.queue.bytes() + message.len() > self.limits.queue_bytes {
            self.drop(id, Why::QueueFull);
            return Err(NotSent::QueueFull);
        }
        connection.queue.push(message, &mut self.buffers);
        self.note_backlog(now, id);
        self.settle(now, id);
        Ok(())
    }

    /// The bytes that wait for the socket.
    #[must_use]
    pub fn to_write(&self, id: ConnectionId) -> &[u8] {
        let id = self.index.find(id);
        id.map_or(&[], |id| self.table.get(id).queue.to_write())
    }

    /// The socket took so many of them.
    pub fn wrote(&mut self, now: Duration, id: ConnectionId, bytes: usize) {
        let Some(id) = self.index.find(id) else {
            return;
        };
        let connection = self.table.get_mut(id);
        self.counters.messages_sent += connection.queue.wrote(bytes, &mut self.buffers);
        if bytes > 0 {
            connection.stalled_since = None;
            if connection.phase == Phase::Open {
                connection.quiet_since = now;
            }
        }
        self.settle(now, id);
    }

    /// Closes a connection when what waits on it is written.
    pub fn close(&mut self, now: Duration, id: ConnectionId) {
        if let Some(id) = self.index.find(id) {
            self.end(now, id, Why::Ours, Duration::ZERO);
            self.settle(now, id);
        }
    }

    /// The socket has ended or failed. [`Event::Close`] follows, if the connection was there.
    pub fn closed(&mut self, _: Duration, id: ConnectionId, why: Why) {
        self.failed(id, why, None);
    }

    /// The same, with what the system says of it.
    pub fn failed(&mut self, id: ConnectionId, why: Why, detail: Option<String>) {
        if let Some(id) = self.index.find(id) {
            let why = match self.table.get(id).phase {
                Phase::Closing { why, .. } => why,
                Phase::Connecting | Phase::Handshaking | Phase::Open => why,
            };
            self.drop_with(id, why, detail);
        }
    }

    /// Begins to close all connections, each when what waits on it is written.
    pub fn close_all(&mut self, now: Duration) {
        let all: Vec<_> = self.table.iter().map(|(id, _)| id).collect();
        for id in all {
            self.end(now, id, Why::Ours, Duration::ZERO);
            self.settle(now, id);
        }
    }

    /// Counts a message that there is no connection for.
    pub fn lose(&mut self, message: &[u8]) {
        self.counters.lose(message);
    }

    /// Ends what has taken too long.
    pub fn handle_timeout(&mut self, now: Duration) {
        while let Some(id) = self.table.pop_due(now) {
            let connection = self.table.get_mut(id);
            connection.armed = None;
            let (due, why) = connection.due(&self.limits);
            if now < due {
                self.arm(id);
                continue;
            }
            match connection.phase {
                Phase::Open if why == Why::Idle => self.end(now, id, why, Duration::ZERO),
                Phase::Closing {
                    has_ended: false, ..
                } if connection.queue.is_empty() => {}
                _ => {
                    self.drop(id, why);
                    continue;
                }
            }
            self.settle(now, id);
        }
    }

    /// When [`Self::handle_timeout`] wants to be called next, at the latest.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        self.table.deadline()
    }

    /// The next thing for the driver to do. It must ask until there is none.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// A connection's flow.
    #[must_use]
    pub fn flow(&self, id: ConnectionId) -> Option<Flow> {
        Some(self.table.get(self.index.find(id)?).flow)
    }

    /// A connection's layer.
    #[must_use]
    pub fn layer(&self, id: ConnectionId) -> Option<&L> {
        Some(&self.table.get(self.index.find(id)?).layer)
    }

    /// All connections, in no order that means anything: flow and layer.
    pub fn iter(&self) -> impl Iterator<Item = (Flow, &L)> {
        self.table.iter().map(|(_, of)| (of.flow, &of.layer))
    }

    /// How many connections there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// How many connections of ours are not open yet.
    #[must_use]
    pub const fn connecting(&self) -> usize {
        self.opening[Opener::Us as usize]
    }

    /// How many connections of peers are not open yet.
    #[must_use]
    pub const fn handshaking(&self) -> usize {
        self.opening[Opener::Known as usize] + self.opening[Opener::Stranger as usize]
    }

    /// How many connections each listener has, by its index. Listeners after the last are without.
    #[must_use]
    pub fn by_listener(&self) -> &[usize] {
        &self.by_listener
    }

    /// The memory of all bytes that wait, in bytes.
    #[must_use]
    pub const fn held_bytes(&self) -> usize {
        self.held
    }

    /// What has happened.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }
}

/// Whether two flows are of one host.
fn is_of_host(one: Flow, other: Flow) -> bool {
    let host = |flow: Flow| flow.remote.ip().to_canonical();
    one.transport == other.transport && host(one) == host(other)
}

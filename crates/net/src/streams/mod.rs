//! A worker's connections on sockets: accepts, connects, reads and writes without ever waiting.

mod ahead;
mod aliases;
mod allowance;
mod closings;
mod common;
mod layer;
mod limits;
mod serving;
mod turns;
mod watch;

use std::{
    collections::HashMap, io, mem, net::SocketAddr, os::fd::BorrowedFd, sync::Arc, time::Duration,
};

use node::{ConnectionId, Flow, Input, Node, Outbox, Quotation, Shared, Snapshot};
use socket::{Clock, Interest, seed, tcp};
use stream::{Connections, Counters, Event, READ_BYTES, Room, Unread, Why};
use wire::Wire;

use ahead::Ahead;
use aliases::Alias;
use allowance::Allowance;
pub use closings::Closing;
pub(crate) use common::Common;
pub use layer::{Bound, Security};
use limits::limits_of;
use turns::AllTurns;
use watch::{LISTENERS, Lane, Watch, token};

/// Peers that are accepted from one listener in one turn at most.
const ACCEPTS: usize = 16;

/// Listeners and connections of one worker.
pub(crate) struct Streams {
    clock: Clock,
    connections: Connections<Wire>,
    sockets: HashMap<ConnectionId, Held>,
    listeners: Vec<Listening>,
    watch: Watch,
    ahead: Ahead,
    common: Arc<Common>,
    security: Arc<Security>,
    shared: Arc<Shared>,
    message_bytes: usize,
    buffer: Box<[u8]>,
    /// Who was known when the connections were divided into lanes.
    divided_by: Arc<Snapshot>,
    /// Whether something that was read from a known host in this turn was late.
    is_late: bool,
    /// Open connections that wait for their turn.
    turns: AllTurns,
    /// When strangers were served last.
    strangers_at: Duration,
    allowance: Allowance,
    /// How long they were served since somebody asked last.
    strangers_took: Duration,
}

/// The connections of a worker as other threads see them.
#[derive(Clone, Debug, Default)]
pub struct ConnectionStats {
    /// All that there are.
    pub total: usize,
    /// Those that the node is opening.
    pub connecting: usize,
    /// Those of peers whose handshake is not done.
    pub handshaking: usize,
    /// How many each listener has, by its index. Listeners after the last are without.
    pub by_listener: Vec<usize>,
    /// Memory of what waits to be sent and of incomplete messages, in bytes.
    pub held_bytes: usize,
    /// What has happened since the start.
    pub counters: Counters,
}

struct Listening {
    index: u8,
    socket: tcp::Listener,
    lane: Lane,
    is_accepting: bool,
}

struct Held {
    socket: tcp::Stream,
    interest: Interest,
    lane: Lane,
    alias: Alias,
    /// Whether it waits for its turn.
    is_in_turns: bool,
    /// Whether the peer sends nothing more after what is there to read.
    has_ended: bool,
    /// None: the node has opened it.
    unread: Option<Unread>,
}

/// What a worker's connections have to work with.
pub(crate) struct Ground<'a> {
    pub(crate) now: Duration,
    pub(crate) node: &'a mut Node,
    pub(crate) out: &'a mut Outbox,
}

impl Streams {
    /// The worker waits for these descriptors of its own, too.
    ///
    /// # Errors
    /// The system has no descriptors left.
    pub(crate) fn new<'a>(
        worker: u8,
        shared: Arc<Shared>,
        listeners: Vec<(u8, tcp::Listener)>,
        security: Arc<Security>,
        common: Arc<Common>,
        own: impl Iterator<Item = BorrowedFd<'a>>,
        clock: Clock,
    ) -> io::Result<Self> {
        let now = clock.now();
        let divided_by = shared.snapshot();
        let limits = limits_of(divided_by.config(), shared.workers().len());
        let watch = Watch::new(own)?;
        let listeners: Vec<_> = listeners
            .into_iter()
            .map(|(index, socket)| Listening::new(index, socket, &security))
            .collect();
        for (place, listening) in listeners.iter().enumerate() {
            let token = LISTENERS + place as u64;
            listening.socket.allow_unread(Room::AtFirst.memory());
            watch.add(&listening.socket, token, Interest::Read, listening.lane)?;
        }
        Ok(Self {
            clock,
            connections: Connections::new(worker, seed(), limits, now),
            sockets: HashMap::new(),
            listeners,
            watch,
            ahead: Ahead::new(seed(), now),
            common,
            security,
            message_bytes: divided_by.config().limits.message_bytes,
            shared,
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
            divided_by,
            is_late: false,
            turns: AllTurns::default(),
            strangers_at: now,
            allowance: Allowance::default(),
            strangers_took: Duration::ZERO,
        })
    }

    /// New connections are secured like this.
    pub(crate) fn set_security(&mut self, security: Arc<Security>) {
        self.security = security;
    }

    /// Whether one of the worker's own descriptors is ready, and has an error.
    pub(crate) fn own(&self, place: usize) -> (bool, bool) {
        self.watch.own(place)
    }

    /// Closes all connections, each when what waits on it is written; whether none is left.
    pub(crate) fn close(&mut self, ground: &mut Ground<'_>) -> bool {
        self.connections.close_all(ground.now);
        self.settle(ground);
        self.connections.is_empty()
    }

    /// Ends what takes too long.
    pub(crate) fn handle_timeout(&mut self, ground: &mut Ground<'_>) {
        self.connections.handle_timeout(ground.now);
        self.divide_again(ground);
        self.keep_ahead(ground);
        self.settle(ground);
        for place in 0..self.listeners.len() {
            self.set_accepting(place, self.may_accept(place));
        }
    }

    /// Opens what is to be open before it is needed, and closes what no server needs any more.
    fn keep_ahead(&mut self, ground: &Ground<'_>) {
        let now = ground.now;
        let (due, gone) = self.ahead.look(now, &self.shared, &self.connections);
        for flow in due {
            if self.common.aliases.find(flow).is_none() {
                self.connect(now, flow);
            }
        }
        for id in gone {
            self.connections.close(now, id);
        }
    }

    /// Whether a listener's peers are taken. Where there is no handshake, those of other listeners stop nobody.
    fn may_accept(&self, place: usize) -> bool {
        let bound = self.security.listener(self.listeners[place].index);
        let is_open = bound.is_some_and(|bound| !bound.has_handshake());
        self.connections.may_accept(is_open)
    }

    /// Leaves a listener's peers in the kernel's queue, or takes them again.
    fn set_accepting(&mut self, place: usize, is_accepting: bool) {
        let listening = &mut self.listeners[place];
        if mem::replace(&mut listening.is_accepting, is_accepting) == is_accepting {
            return;
        }
        let interest = if is_accepting {
            Interest::Read
        } else {
            Interest::Nothing
        };
        let token = LISTENERS + place as u64;
        self.watch
            .change(&listening.socket, token, interest, listening.lane);
    }

    /// What there is, and what has happened.
    pub(crate) fn stats(&self) -> ConnectionStats {
        ConnectionStats {
            total: self.connections.len(),
            connecting: self.connections.connecting(),
            handshaking: self.connections.handshaking(),
            by_listener: self.connections.by_listener().to_vec(),
            held_bytes: self.connections.held_bytes(),
            counters: self.connections.counters().clone(),
        }
    }

    /// A flow, or that over another worker's connection if nothing else leads there.
    pub(crate) fn through(&self, flow: Flow) -> Flow {
        if flow.connection.is_some() {
            return flow;
        }
        let Some(alias) = self.common.aliases.find(flow) else {
            return flow;
        };
        match self.connections.find(flow) {
            Some(_) => flow,
            None => alias,
        }
    }

    /// Sends a message on the flow's connection, or opens one where it leads. False: there is none, and none can
    /// be opened.
    pub(crate) fn send(&mut self, now: Duration, flow: Flow, message: &[u8]) -> bool {
        let found = self.connections.find(flow);
        let found = found.or_else(|| {
            let may_open = flow.connection.is_none();
            may_open.then(|| self.connect(now, flow)).flatten()
        });
        let is_sent = found.is_some_and(|id| self.connections.send(now, id, message).is_ok());
        if !is_sent {
            self.connections.lose(message);
        }
        is_sent
    }

    /// Writes what waits, and tells the node what could not be sent.
    pub(crate) fn settle(&mut self, ground: &mut Ground<'_>) {
        while let Some(event) = self.connections.next_event() {
            match event {
                Event::Writable(id) => self.write_timed(ground.now, id),
                Event::Opened(id) => {
                    self.ahead.opened(self.connections.flow(id));
                    self.divide(id);
                    self.begin_alias(id);
                }
                Event::Close(closed) => {
                    let held = self.sockets.remove(&closed.id);
                    if held.is_some_and(|held| held.alias == Alias::Yes) {
                        self.common.aliases.remove(closed.id);
                    }
                    self.common.closings.tell(closed);
                }
                Event::Backlog { flow, is_backed_up } => {
                    ground.node.handle_backlog(flow, is_backed_up);
                }
                Event::Unsent { flow, message } => tell_unsent(ground, flow, &message),
            }
        }
    }

    /// Writes what waits. Strangers' part of it is in the time that they take.
    fn write_timed(&mut self, now: Duration, id: ConnectionId) {
        let held = self.sockets.get(&id);
        let is_strangers = held.is_some_and(|held| held.lane == Lane::Strangers);
        let began = is_strangers.then(|| self.clock.now());
        self.write(now, id);
        if let Some(began) = began {
            self.strangers_took += self.clock.now() - began;
        }
    }

    fn accept(&mut self, ground: &Ground<'_>, place: usize) {
        for _ in 0..ACCEPTS {
            if !self.may_accept(place) {
                return self.set_accepting(place, false);
            }
            let Listening { index, socket, .. } = &self.listeners[place];
            let (socket, remote) = match socket.accept() {
                Ok(accepted) => accepted,
                Err(error) if is_later(&error) => return,
                // Without descriptors the peer stays ready: until the next tick nobody looks.
                Err(_) => return self.set_accepting(place, false),
            };
            let Some(bound) = self.security.listener(*index) else {
                continue;
            };
            let flow = Flow {
                transport: bound.transport,
                listener: *index,
                remote,
                connection: None,
            };
            let Some(layer) = bound.accepted(remote.ip(), self.message_bytes) else {
                continue;
            };
            let accepted = match self.divided_by.is_known(remote.ip()) {
                true => self.connections.accept_known(ground.now, flow, layer),
                false => self.connections.accept(ground.now, flow, layer),
            };
            if let Ok(id) = accepted {
                self.hold(id, socket, Interest::Read, Some(Unread::new(ground.now)));
            }
        }
    }

    fn connect(&mut self, now: Duration, flow: Flow) -> Option<ConnectionId> {
        let bound = self.security.listener(flow.listener)?;
        let layer = bound.opened(
            flow.remote.ip(),
            self.shared.name_at(flow.remote).as_deref(),
            self.message_bytes,
        )?;
        let mut socket = tcp::Stream::connect(bound.address, flow.remote).ok()?;
        socket.keep_little_unsent();
        let id = self.connections.open(now, flow, layer).ok()?;
        self.hold(id, socket, Interest::Write, None);
        Some(id)
    }

    fn hold(
        &mut self,
        id: ConnectionId,
        socket: tcp::Stream,
        interest: Interest,
        unread: Option<Unread>,
    ) {
        let lane = Lane::Opening;
        if self.watch.add(&socket, token(id), interest, lane).is_err() {
            return self.connections.closed(Duration::ZERO, id, Why::Failed);
        }
        let held = Held {
            socket,
            interest,
            lane,
            alias: Alias::No,
            is_in_turns: false,
            has_ended: false,
            unread,
        };
        self.sockets.insert(id, held);
    }

    /// Moves an open connection to the lane of those who are like its peer.
    fn divide(&mut self, id: ConnectionId) {
        let (Some(held), Some(flow)) = (self.sockets.get_mut(&id), self.connections.flow(id))
        else {
            return;
        };
        let lane = match self.divided_by.is_known(flow.remote.ip()) {
            true => Lane::Known,
            false => Lane::Strangers,
        };
        let before = mem::replace(&mut held.lane, lane);
        if before == lane {
            return;
        }
        self.watch.remove(&held.socket, before);
        let added = self.watch.add(&held.socket, token(id), held.interest, lane);
        if added.is_err() {
            self.connections.closed(Duration::ZERO, id, Why::Failed);
        }
    }

    /// Moves connections to other lanes if others are known now.
    fn divide_again(&mut self, ground: &Ground<'_>) {
        let snapshot = self.shared.snapshot();
        if Arc::ptr_eq(&snapshot, &self.divided_by) {
            return;
        }
        self.divided_by = snapshot;
        let is_open =
            |(id, held): (&ConnectionId, &Held)| (held.lane != Lane::Opening).then_some(*id);
        let open: Vec<_> = self.sockets.iter().filter_map(is_open).collect();
        for id in open {
            self.divide(id);
            self.check_alias(ground.now, id);
            self.begin_alias(id);
        }
    }

    /// The next request on a connection may say that it leads to where its peer listens.
    fn begin_alias(&mut self, id: ConnectionId) {
        let may_be = self.may_be_alias(id);
        if let Some(held) = self.sockets.get_mut(&id)
            && held.alias == Alias::No
            && may_be
        {
            held.alias = Alias::Possible;
        }
    }

    /// Whether a connection is that of a known peer who has shown a certificate.
    fn may_be_alias(&self, id: ConnectionId) -> bool {
        let remote = self.connections.flow(id).map(|flow| flow.remote.ip());
        remote.is_some_and(|ip| self.divided_by.is_known(ip))
            && aliases::has_proof(&self.connections, id)
    }

    /// What a request on a connection has said of it: it leads to this port of its host, or to none.
    fn set_alias(&mut self, id: ConnectionId, port: Option<u16>) {
        let may_be = self.may_be_alias(id);
        let (Some(held), Some(flow)) = (self.sockets.get_mut(&id), self.connections.flow(id))
        else {
            return;
        };
        held.alias = Alias::No;
        let Some(port) = port.filter(|_| may_be) else {
            return;
        };
        let remote = SocketAddr::new(flow.remote.ip(), port);
        if aliases::proves(&self.connections, id, &self.shared, remote) {
            held.alias = Alias::Yes;
            self.connections.alias(id, remote);
            self.common.aliases.insert(Flow { remote, ..flow });
        }
    }

    /// Closes a connection that led to a server whose name is now another.
    fn check_alias(&mut self, now: Duration, id: ConnectionId) {
        let held = self.sockets.get(&id);
        if held.is_none_or(|held| held.alias != Alias::Yes) {
            return;
        }
        let remote = self.connections.flow(id).map(|flow| flow.remote);
        let is_proven = |remote| aliases::proves(&self.connections, id, &self.shared, remote);
        if !remote.is_some_and(is_proven) {
            self.common.aliases.remove(id);
            self.connections.close(now, id);
        }
    }

    fn fail(&mut self, id: ConnectionId, error: &io::Error) {
        self.connections
            .failed(id, Why::Failed, Some(error.to_string()));
    }

    /// Writes as much as the socket takes, and waits for room if that was not all.
    fn write(&mut self, now: Duration, id: ConnectionId) {
        let Some(held) = self.sockets.get(&id) else {
            return;
        };
        if held.interest == Interest::Write && held.lane == Lane::Opening {
            return;
        }
        loop {
            let bytes = self.connections.to_write(id);
            if bytes.is_empty() {
                return self.set_interest(id, Interest::Read);
            }
            match held.socket.write(bytes) {
                Ok(count) => self.connections.wrote(now, id, count),
                Err(error) if is_later(&error) => {
                    if !self.connections.is_backed_up(id) && held.socket.awaits_reader() {
                        self.connections.back_up(now, id);
                    }
                    return self.set_interest(id, Interest::Both);
                }
                Err(error) => return self.fail(id, &error),
            }
        }
    }

    fn set_interest(&mut self, id: ConnectionId, interest: Interest) {
        let Some(held) = self.sockets.get_mut(&id) else {
            return;
        };
        if held.interest == interest {
            return;
        }
        held.interest = interest;
        self.watch
            .change(&held.socket, token(id), interest, held.lane);
    }
}

impl Listening {
    fn new(index: u8, socket: tcp::Listener, security: &Security) -> Self {
        let bound = security.listener(index);
        let lane = match bound.is_some_and(Bound::has_handshake) {
            true => Lane::Opening,
            false => Lane::Known,
        };
        Self {
            index,
            socket,
            lane,
            is_accepting: true,
        }
    }
}

/// Tells the node that a message did not reach its peer, so that it can try another.
pub(crate) fn tell_unsent(ground: &mut Ground<'_>, flow: Flow, bytes: &[u8]) {
    let input = Input::Unreachable(Quotation { flow, bytes });
    ground.node.handle_input(ground.now, input, ground.out);
}

fn is_later(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

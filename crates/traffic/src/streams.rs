//! Connections of many phones and callers to one peer, or of many peers to a server.

use std::{collections::HashMap, io, net::SocketAddr, num::NonZeroU32, time::Duration};

use load::Outbox;
use sip::FrameLimits;
use socket::{Epoll, Interest, Ready, Trigger, seed, tcp};
use stream::{Connections, Counters, Event, Limits, Why};
use transaction::{ConnectionId, Flow, NextHop, Transport};
use wire::Wire;

use crate::Agent;

/// Connections that are served in one turn at most.
const SERVED: usize = 64;

/// Bytes that are read from one connection in one turn at most.
const READ_BYTES: usize = 64 * 1024;

const MESSAGE_BYTES: usize = 65_535;

/// Peers that are accepted in one turn at most.
const ACCEPTED: usize = 64;

/// Connections of a server at most.
const ACCEPTED_MAX: usize = 65_536;

/// The token of what peers connect to.
const LISTENER: u64 = 1 << 32;

/// The connections of one agent. Either it opens them, each in the place of a socket: when it first sends from there,
/// and again when it is lost and it sends. Or peers open them, and it answers.
#[derive(Debug)]
pub struct Streams {
    end: End,
    connections: Connections<Wire>,
    places: Vec<Place>,
    sockets: HashMap<ConnectionId, Held>,
    epoll: Epoll,
    ready: Vec<Ready>,
    buffer: Box<[u8]>,
    resumed: u64,
    lost: u64,
    /// Places whose connection was lost, or could not be opened, since the agent was told last.
    closed: Vec<usize>,
}

/// Where connections lead.
#[derive(Clone, Debug)]
pub struct To {
    /// What carries messages.
    pub transport: Transport,
    /// The peer's address.
    pub address: SocketAddr,
    /// The peer's name, which its certificate must have: a domain or an address.
    pub name: String,
    /// Begins handshakes, on transports that are secure.
    pub client: Option<tls::Client>,
}

/// Where peers connect.
#[derive(Debug)]
pub struct At {
    /// What carries messages.
    pub transport: Transport,
    /// What they connect to.
    pub address: SocketAddr,
    /// Takes handshakes, on transports that are secure.
    pub server: Option<tls::Server>,
}

#[derive(Debug)]
enum End {
    To(To),
    At(At, tcp::Listener),
}

#[derive(Debug)]
struct Place {
    local: SocketAddr,
    /// Has the local address, and waits to be connected.
    waiting: Option<tcp::Stream>,
    connection: Option<ConnectionId>,
}

#[derive(Debug)]
struct Held {
    place: usize,
    socket: tcp::Stream,
    interest: Interest,
    is_connected: bool,
}

impl Streams {
    /// As many connections as there are addresses; port 0 takes a free port. None is opened yet.
    ///
    /// # Errors
    /// The system's error: an address is not on this machine or in use, or there are no ports or descriptors left.
    pub fn new(from: &[SocketAddr], to: To) -> io::Result<Self> {
        let place = |&from: &SocketAddr| {
            let stream = tcp::Stream::at(from)?;
            Ok(Place {
                local: stream.local_addr()?,
                waiting: Some(stream),
                connection: None,
            })
        };
        let places = from.iter().map(place).collect::<io::Result<_>>()?;
        Self::with(End::To(to), places, from.len())
    }

    /// The connections that peers open; port 0 takes a free port.
    ///
    /// # Errors
    /// The system's error: the address is not on this machine or in use.
    pub fn listen(at: At) -> io::Result<Self> {
        let mut group = tcp::Listener::bind_group(at.address, 1)?;
        let listener = group.remove(0);
        let streams = Self::with(End::At(at, listener), Vec::new(), ACCEPTED_MAX)?;
        if let End::At(_, listener) = &streams.end {
            streams
                .epoll
                .add(listener, LISTENER, Interest::Read, Trigger::Level)?;
        }
        Ok(streams)
    }

    fn with(end: End, places: Vec<Place>, count: usize) -> io::Result<Self> {
        Ok(Self {
            end,
            connections: Connections::new(0, seed(), limits(count), Duration::ZERO),
            places,
            sockets: HashMap::new(),
            epoll: Epoll::new()?,
            ready: Vec::new(),
            buffer: vec![0; READ_BYTES].into_boxed_slice(),
            resumed: 0,
            lost: 0,
            closed: Vec::new(),
        })
    }

    /// The local addresses, by place.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        match &self.end {
            End::To(_) => self.places.iter().map(|place| place.local).collect(),
            End::At(_, listener) => vec![listener.local_addr()],
        }
    }

    /// What has happened to the connections.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        self.connections.counters()
    }

    /// How many connections were closed, by the reason.
    pub fn closed(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counters = self.connections.counters();
        let reasons = Why::ALL.iter();
        reasons.map(|&why| (why.label(), counters.closed(why)))
    }

    /// Handshakes that were spared by what a former connection left.
    #[must_use]
    pub fn resumed(&self) -> u64 {
        self.resumed
    }

    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    pub(crate) fn descriptor(&self) -> &Epoll {
        &self.epoll
    }

    /// Reads and writes what is ready, and gives messages to the agent.
    pub(crate) fn turn(&mut self, now: Duration, agent: &mut impl Agent, out: &mut Outbox) {
        self.connections.handle_timeout(now);
        self.ready.clear();
        self.ready.extend_from_slice(self.epoll.poll(SERVED));
        for at in 0..self.ready.len() {
            match self.ready[at].token {
                LISTENER => self.accept(now),
                _ => self.serve(now, self.ready[at], agent, out),
            }
        }
        self.settle(now);
    }

    /// Sends all messages of an outbox.
    pub(crate) fn flush(&mut self, now: Duration, out: &mut Outbox) {
        for (place, to, message) in out.datagrams() {
            let id = match &self.end {
                End::To(_) => {
                    let id = self.connect(now, place);
                    self.closed.extend(id.is_none().then_some(place));
                    id
                }
                End::At(at, _) => self.connections.find(flow(at.transport, to)),
            };
            let is_sent = id.is_some_and(|id| self.connections.send(now, id, message).is_ok());
            self.lost += u64::from(!is_sent);
        }
        out.clear();
        self.settle(now);
    }

    /// Tells the agent which connections were lost.
    pub(crate) fn tell_closed(&mut self, now: Duration, agent: &mut impl Agent) {
        for place in self.closed.drain(..) {
            agent.handle_closed(now, place);
        }
    }

    /// Takes peers that wait.
    fn accept(&mut self, now: Duration) {
        let End::At(at, listener) = &self.end else {
            return;
        };
        for _ in 0..ACCEPTED {
            let Ok((socket, remote)) = listener.accept() else {
                return;
            };
            let layer = wire::accept(at.transport, at.server.as_ref(), false, MESSAGE_BYTES);
            let Ok(layer) = layer else { continue };
            let flow = flow(at.transport, remote);
            // All that comes is measured, from however few hosts.
            let Ok(id) = self.connections.accept_known(now, flow, layer) else {
                continue;
            };
            let interest = Interest::Read;
            let added = self.epoll.add(&socket, token(id), interest, Trigger::Level);
            let held = Held {
                place: 0,
                socket,
                interest,
                is_connected: true,
            };
            self.sockets.insert(id, held);
            if added.is_err() {
                self.connections.closed(now, id, Why::Failed);
            }
        }
    }

    /// The connection of a place, which is opened if it is not there.
    fn connect(&mut self, now: Duration, place: usize) -> Option<ConnectionId> {
        let End::To(to) = &self.end else {
            return None;
        };
        let Place {
            local,
            waiting,
            connection,
        } = &mut self.places[place];
        if connection.is_some() {
            return *connection;
        }
        let To {
            transport, address, ..
        } = *to;
        let socket = match waiting.take() {
            Some(socket) => socket,
            None => tcp::Stream::at(SocketAddr::new(local.ip(), 0)).ok()?,
        };
        socket.begin(address).ok()?;
        let layer = wire::connect(transport, to.client.as_ref(), &to.name, MESSAGE_BYTES).ok()?;
        let flow = flow(transport, address);
        let id = self.connections.open(now, flow, layer).ok()?;
        *connection = Some(id);
        let interest = Interest::Write;
        let added = self.epoll.add(&socket, token(id), interest, Trigger::Level);
        let held = Held {
            place,
            socket,
            interest,
            is_connected: false,
        };
        self.sockets.insert(id, held);
        if added.is_err() {
            self.connections.closed(now, id, Why::Failed);
        }
        Some(id)
    }

    fn serve(&mut self, now: Duration, ready: Ready, agent: &mut impl Agent, out: &mut Outbox) {
        let Some(id) = connection(ready.token) else {
            return;
        };
        let Some(held) = self.sockets.get_mut(&id) else {
            return;
        };
        if !held.is_connected {
            if held.socket.error().is_some() {
                return self.connections.closed(now, id, Why::NotConnected);
            }
            held.is_connected = true;
            self.connections.connected(now, id);
        }
        if ready.readable {
            self.read(now, id, agent, out);
        }
        self.write(now, id);
    }

    fn read(&mut self, now: Duration, id: ConnectionId, agent: &mut impl Agent, out: &mut Outbox) {
        let Some(Held { place, socket, .. }) = self.sockets.get(&id) else {
            return;
        };
        match socket.read(&mut self.buffer) {
            Ok(0) => self.connections.closed(now, id, Why::Peer),
            Ok(length) => {
                let bytes = &self.buffer[..length];
                let mut hear = |flow: Flow, heard: stream::Heard<'_>| {
                    agent.handle_input(now, *place, flow.remote, heard.bytes, out);
                };
                self.connections.receive(now, id, bytes, &mut hear);
            }
            Err(error) if is_later(&error) => {}
            Err(_) => self.connections.closed(now, id, Why::Failed),
        }
    }

    /// Writes as much as the socket takes, and waits for room if that was not all.
    fn write(&mut self, now: Duration, id: ConnectionId) {
        let Some(held) = self.sockets.get_mut(&id) else {
            return;
        };
        if !held.is_connected {
            return;
        }
        let interest = loop {
            let bytes = self.connections.to_write(id);
            if bytes.is_empty() {
                break Interest::Read;
            }
            match held.socket.write(bytes) {
                Ok(count) => self.connections.wrote(now, id, count),
                Err(error) if is_later(&error) => break Interest::Both,
                Err(_) => return self.connections.closed(now, id, Why::Failed),
            }
        };
        if interest != held.interest {
            held.interest = interest;
            // It was added, so it is there.
            let _ = self
                .epoll
                .change(&held.socket, token(id), interest, Trigger::Level);
        }
    }

    fn settle(&mut self, now: Duration) {
        while let Some(event) = self.connections.next_event() {
            match event {
                Event::Writable(id) => self.write(now, id),
                Event::Opened(id) => {
                    let session = self.connections.layer(id).and_then(Wire::session);
                    self.resumed += u64::from(session.is_some_and(tls::Session::is_resumed));
                }
                Event::Close(closed) => {
                    let held = self.sockets.remove(&closed.id);
                    if let Some(held) = held
                        && let Some(place) = self.places.get_mut(held.place)
                    {
                        place.connection = None;
                        self.closed.push(held.place);
                    }
                }
                Event::Unsent { .. } => self.lost += 1,
                Event::Backlog { .. } => {}
            }
        }
    }
}

/// Load has to be patient where a node must not be: what is slow is measured, not ended.
fn limits(count: usize) -> Limits {
    Limits {
        total: count,
        per_source: count,
        connecting: count,
        handshaking: count,
        handshake: Duration::from_secs(32),
        idle: Duration::from_secs(7 * 24 * 3600),
        message: Duration::from_secs(32),
        stall: Duration::from_secs(32),
        linger: Duration::from_secs(1),
        queue_bytes: 4 << 20,
        total_bytes: 1 << 30,
        frame: FrameLimits {
            head_bytes: MESSAGE_BYTES,
            message_bytes: MESSAGE_BYTES,
        },
    }
}

fn flow(transport: Transport, address: SocketAddr) -> Flow {
    Flow::to(0, NextHop { transport, address })
}

fn token(id: ConnectionId) -> u64 {
    id.0.get().into()
}

fn connection(token: u64) -> Option<ConnectionId> {
    let number = u32::try_from(token).ok()?;
    NonZeroU32::new(number).map(ConnectionId)
}

fn is_later(error: &io::Error) -> bool {
    let kind = error.kind();
    matches!(kind, io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

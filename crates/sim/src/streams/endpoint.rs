//! A party's connections: what its process does with those that its system keeps.

use std::{
    collections::{BTreeMap, VecDeque},
    mem,
    net::SocketAddr,
    time::Duration,
};

use node::{ConnectionId, Flow, Transport, config::IpNet};
use sip::FrameLimits;
use stream::{Connections, Event, Limits, Plain, READ_BYTES, Why, read_bytes};

use super::{Buffers, EndId, Line, Read, What};
use crate::PartyId;

/// A connection that carries nothing for longer is closed.
pub(crate) const IDLE_MAX: Duration = Duration::from_secs(900);

/// How a process deals with connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conduct {
    /// The buffers of each.
    pub buffers: Buffers,
    /// The most bytes that are read at once.
    pub read_bytes: usize,
    /// Whether a node learns where something waits to be sent.
    pub tells_backlog: bool,
}

impl Default for Conduct {
    fn default() -> Self {
        Self {
            buffers: Buffers::default(),
            read_bytes: READ_BYTES,
            tells_backlog: true,
        }
    }
}

/// A party's connections.
#[derive(Debug)]
pub(crate) struct Endpoint {
    party: PartyId,
    /// Its listeners, or what it connects from.
    addresses: Vec<SocketAddr>,
    conduct: Conduct,
    is_reading: bool,
    connections: Connections<Plain>,
    held: BTreeMap<ConnectionId, Held>,
    numbers: BTreeMap<EndId, ConnectionId>,
    /// Who is no stranger.
    known: Vec<IpNet>,
    /// Those from which something can be read: of known hosts, and of strangers.
    ready: [VecDeque<ConnectionId>; 2],
    /// Who of both is next, if something can be read from both.
    turn: usize,
    buffer: Vec<u8>,
    missed: Vec<Missed>,
}

#[derive(Debug)]
struct Held {
    end: EndId,
    lane: usize,
    is_connected: bool,
    is_ready: bool,
}

/// What the process has to know of a connection.
#[derive(Debug)]
pub(crate) enum Missed {
    /// A message that could not be sent.
    Unsent(Flow, Vec<u8>),
    /// Whether something waits to be sent.
    Backlog(Flow, bool),
}

impl Endpoint {
    pub(crate) fn new(
        party: PartyId,
        worker: u8,
        addresses: Vec<SocketAddr>,
        conduct: Conduct,
        now: Duration,
    ) -> Self {
        Self {
            party,
            addresses,
            conduct,
            is_reading: true,
            connections: Connections::new(worker, 1, limits(), now),
            held: BTreeMap::new(),
            numbers: BTreeMap::new(),
            known: Vec::new(),
            ready: Default::default(),
            turn: 0,
            buffer: Vec::new(),
            missed: Vec::new(),
        }
    }

    /// The connections of the process that comes after it: none.
    pub(crate) fn restarted(&self, now: Duration) -> Self {
        Self::new(self.party, 0, self.addresses.clone(), self.conduct, now)
    }

    /// Whether this is one of its ends.
    pub(crate) fn has(&self, end: EndId) -> bool {
        self.numbers.contains_key(&end)
    }

    /// Whether something can be read.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_reading && self.ready.iter().any(|ready| !ready.is_empty())
    }

    /// Who is no stranger, from now on.
    pub(crate) fn set_known(&mut self, known: Vec<IpNet>) {
        self.known = known;
    }

    /// Lets it stop to read, or go on.
    pub(crate) fn set_reading(&mut self, is_reading: bool) {
        self.is_reading = is_reading;
    }

    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.connections.deadline()
    }

    pub(crate) fn connections(&self) -> &Connections<Plain> {
        &self.connections
    }

    /// What has to be known since this was asked last.
    pub(crate) fn take_missed(&mut self) -> Vec<Missed> {
        mem::take(&mut self.missed)
    }

    /// Its system tells of one of its ends.
    pub(crate) fn on(&mut self, line: &mut Line<'_>, end: EndId, what: What) {
        let now = line.now;
        if let What::Accepted { listener, remote } = what {
            let flow = Flow {
                transport: Transport::Tcp,
                listener,
                remote,
                connection: None,
            };
            match self.connections.accept(now, flow, Plain) {
                Ok(id) => self.hold(id, end, remote, true),
                Err(_) => line.reset(end),
            }
        } else if let Some(&id) = self.numbers.get(&end) {
            self.on_held(line, id, what);
        }
        self.settle(line);
    }

    fn on_held(&mut self, line: &mut Line<'_>, id: ConnectionId, what: What) {
        let now = line.now;
        let held = self.held.get_mut(&id).expect("it has a number");
        match what {
            What::Accepted { .. } => {}
            What::Connected => {
                held.is_connected = true;
                self.connections.connected(now, id);
            }
            What::Readable if held.is_ready => {}
            What::Readable => {
                held.is_ready = true;
                self.ready[held.lane].push_back(id);
            }
            What::Writable => self.write(line, id),
            What::Broken if held.is_connected => self.connections.closed(now, id, Why::Failed),
            What::Broken => self.connections.closed(now, id, Why::NotConnected),
        }
    }

    /// Reads once from the connection whose turn it is. What is heard has its flow, and when it came.
    pub(crate) fn read(
        &mut self,
        line: &mut Line<'_>,
        heard: &mut impl FnMut(Duration, Flow, &[u8]),
    ) {
        let ready = self.ready.iter().map(VecDeque::len).sum();
        let max = read_bytes(ready).min(self.conduct.read_bytes);
        let Some(id) = self.next_ready() else {
            return;
        };
        let Some(held) = self.held.get_mut(&id) else {
            return;
        };
        self.buffer.clear();
        match line.read(held.end, max, &mut self.buffer) {
            Read::Bytes(came) => {
                if line.tcp.is_readable(held.end) {
                    self.ready[held.lane].push_back(id);
                } else {
                    held.is_ready = false;
                }
                let mut take = |flow: Flow, heard_it: stream::Heard<'_>| {
                    if heard_it.fault.is_none() {
                        heard(came, flow, heard_it.bytes);
                    }
                };
                self.connections
                    .receive(line.now, id, &self.buffer, &mut take);
            }
            Read::Later => held.is_ready = false,
            Read::End => self.connections.closed(line.now, id, Why::Peer),
        }
        self.settle(line);
    }

    /// Known hosts and strangers take turns.
    fn next_ready(&mut self) -> Option<ConnectionId> {
        let [first, second] = [self.turn, 1 - self.turn];
        self.turn = second;
        let next = self.ready[first].pop_front();
        next.or_else(|| self.ready[second].pop_front())
    }

    /// Queues a message on the connection of a flow, or on a new one where it leads.
    pub(crate) fn send(&mut self, line: &mut Line<'_>, flow: Flow, message: &[u8]) {
        let found = self.connections.find(flow);
        let found = found.or_else(|| {
            let may_open = flow.connection.is_none();
            may_open.then(|| self.connect(line, flow)).flatten()
        });
        let now = line.now;
        if found.is_none_or(|id| self.connections.send(now, id, message).is_err()) {
            self.missed.push(Missed::Unsent(flow, message.to_vec()));
        }
        self.settle(line);
    }

    /// Ends what takes too long.
    pub(crate) fn handle_timeout(&mut self, line: &mut Line<'_>) {
        if self.deadline().is_some_and(|due| due <= line.now) {
            self.connections.handle_timeout(line.now);
            self.settle(line);
        }
    }

    fn connect(&mut self, line: &mut Line<'_>, flow: Flow) -> Option<ConnectionId> {
        let from = *self.addresses.get(usize::from(flow.listener))?;
        let id = self.connections.open(line.now, flow, Plain).ok()?;
        let end = line.connect(self.party, from, flow.remote, self.conduct.buffers);
        self.hold(id, end, flow.remote, false);
        Some(id)
    }

    fn hold(&mut self, id: ConnectionId, end: EndId, remote: SocketAddr, is_connected: bool) {
        let is_known = |known: &IpNet| known.contains(&remote.ip());
        let held = Held {
            end,
            lane: usize::from(!self.known.iter().any(is_known)),
            is_connected,
            is_ready: false,
        };
        self.held.insert(id, held);
        self.numbers.insert(end, id);
    }

    fn settle(&mut self, line: &mut Line<'_>) {
        while let Some(event) = self.connections.next_event() {
            match event {
                Event::Writable(id) => self.write(line, id),
                Event::Opened(_) => {}
                Event::Close(closed) => self.close(line, closed.id),
                Event::Backlog { flow, is_backed_up } if self.conduct.tells_backlog => {
                    self.missed.push(Missed::Backlog(flow, is_backed_up));
                }
                Event::Backlog { .. } => {}
                Event::Unsent { flow, message } => {
                    self.missed.push(Missed::Unsent(flow, message));
                }
            }
        }
    }

    fn close(&mut self, line: &mut Line<'_>, id: ConnectionId) {
        let Some(held) = self.held.remove(&id) else {
            return;
        };
        self.numbers.remove(&held.end);
        self.ready[held.lane].retain(|&ready| ready != id);
        line.close(held.end);
    }

    fn write(&mut self, line: &mut Line<'_>, id: ConnectionId) {
        let Some(held) = self.held.get_mut(&id).filter(|held| held.is_connected) else {
            return;
        };
        loop {
            let bytes = self.connections.to_write(id);
            if bytes.is_empty() {
                return;
            }
            let count = line.write(held.end, bytes);
            if count == 0 {
                return self.connections.back_up(line.now, id);
            }
            self.connections.wrote(line.now, id, count);
        }
    }
}

fn limits() -> Limits {
    Limits {
        total: 4_096,
        per_source: 1_024,
        connecting: 1_024,
        handshaking: 1_024,
        handshake: Duration::from_secs(5),
        idle: IDLE_MAX,
        message: Duration::from_secs(10),
        stall: Duration::from_secs(32),
        linger: Duration::from_secs(5),
        queue_bytes: 1 << 20,
        total_bytes: 256 << 20,
        frame: FrameLimits {
            head_bytes: 16_384,
            message_bytes: 16_384,
        },
    }
}

//! Runs the callers, phones and emulated servers of `load` on UDP sockets and on connections.
//!
//! An [`Endpoint`] is an agent with its sockets. It has no thread. Its driver calls
//! [`Endpoint::turn`] repeatedly, as often as its latencies must be exact. Or the driver lets a
//! [`Group`] wait until one of its endpoints has something to do. One thread may drive any number
//! of either with the same [`Buffers`].

mod agent;
mod group;
mod streams;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    time::Duration,
};

use load::Outbox;
use socket::{
    Clock,
    udp::{BATCH, Options, RecvBatch, SendBatch, Socket, Wait},
};

pub use agent::Agent;
pub use group::Group;
pub use streams::{At, Streams, To};

/// Bytes of each socket's buffers, as far as the system grants them.
const BUFFER_BYTES: usize = 4 << 20;

/// Longer than any message of a call through a few proxies.
const DATAGRAM_BYTES_MAX: usize = 4096;

/// Returns a free port of the loopback address.
pub const LOOPBACK: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0));

/// The memory of one thread's turns.
#[derive(Debug)]
pub struct Buffers {
    recv: RecvBatch,
    send: SendBatch,
    out: Outbox,
}

/// An agent and its sockets, in the order of its configuration.
#[derive(Debug)]
pub struct Endpoint<A> {
    agent: A,
    sockets: Vec<Socket>,
    /// What it has in the place of sockets, if it has.
    streams: Option<Box<Streams>>,
    lost: u64,
}

/// Opens a socket at this address; port 0 takes a free port.
///
/// # Errors
/// The system's error: the address is in use or not on this machine, or no port or descriptor is
/// left.
pub fn bind(address: SocketAddr) -> io::Result<Socket> {
    let options = Options {
        reuse_port: false,
        recv_buffer: Some(BUFFER_BYTES),
        send_buffer: Some(BUFFER_BYTES),
    };
    Socket::bind(address, options)
}

impl<A: Agent> Endpoint<A> {
    /// Connects an agent to its sockets: those whose addresses its configuration lists.
    #[must_use]
    pub fn new(agent: A, sockets: Vec<Socket>) -> Self {
        Self {
            agent,
            sockets,
            streams: None,
            lost: 0,
        }
    }

    /// Connects an agent to connections in the place of sockets.
    #[must_use]
    pub fn on_streams(agent: A, streams: Streams) -> Self {
        Self {
            agent,
            sockets: Vec::new(),
            streams: Some(Box::new(streams)),
            lost: 0,
        }
    }

    /// The connections, if it has them.
    #[must_use]
    pub fn streams(&self) -> Option<&Streams> {
        self.streams.as_deref()
    }

    /// The agent.
    #[must_use]
    pub fn agent(&self) -> &A {
        &self.agent
    }

    /// The agent, to change it or to take its counts.
    pub fn agent_mut(&mut self) -> &mut A {
        &mut self.agent
    }

    /// Replaces the agent on the sockets. The old agent's calls are forgotten.
    pub fn replace(&mut self, agent: A) {
        self.agent = agent;
    }

    /// The address of a socket.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        match &self.streams {
            Some(streams) => streams.addresses(),
            None => self.sockets.iter().map(Socket::local_addr).collect(),
        }
    }

    /// Datagrams that this machine lost: it could not send them, or had no space to receive them.
    #[must_use]
    pub fn lost(&self) -> u64 {
        let drops = |socket: &Socket| socket.kernel_drops().map_or(0, u64::from);
        let of_streams = self.streams.as_ref().map_or(0, |streams| streams.lost());
        self.lost + of_streams + self.sockets.iter().map(drops).sum::<u64>()
    }

    /// Does the work that is due, takes a batch from each socket, and sends the resulting
    /// datagrams. It does not block.
    pub fn turn(&mut self, clock: Clock, buffers: &mut Buffers) {
        self.turn_ready(clock, buffers, |_| true);
    }

    /// As [`Self::turn`], with the sockets at the places that are ready.
    fn turn_ready(
        &mut self,
        clock: Clock,
        buffers: &mut Buffers,
        is_ready: impl Fn(usize) -> bool,
    ) {
        self.agent.handle_timeout(clock.now(), &mut buffers.out);
        if let Some(streams) = &mut self.streams {
            streams.flush(clock.now(), &mut buffers.out);
            streams.turn(clock.now(), &mut self.agent, &mut buffers.out);
            streams.flush(clock.now(), &mut buffers.out);
            return streams.tell_closed(clock.now(), &mut self.agent);
        }
        self.flush(buffers);
        for place in 0..self.sockets.len() {
            if is_ready(place) && receive(&self.sockets[place], buffers) {
                self.take_batch(clock.now(), place, buffers);
            }
        }
        self.flush(buffers);
    }

    fn take_batch(&mut self, now: Duration, place: usize, buffers: &mut Buffers) {
        let Buffers { recv, out, .. } = buffers;
        for datagram in recv.datagrams() {
            self.agent
                .handle_input(now, place, datagram.from, datagram.bytes, out);
        }
    }

    fn flush(&mut self, buffers: &mut Buffers) {
        let Buffers { send, out, .. } = buffers;
        if out.is_empty() {
            return;
        }
        for (index, socket) in self.sockets.iter().enumerate() {
            let mine = out.datagrams().filter(|(from, ..)| *from == index);
            let sent = socket.send(send, mine.map(|(_, to, bytes)| (to, bytes)));
            self.lost += sent.lost();
        }
        out.clear();
    }
}

impl Buffers {
    /// Room for a batch in either direction.
    #[must_use]
    pub fn new() -> Self {
        Self {
            recv: RecvBatch::new(BATCH, DATAGRAM_BYTES_MAX),
            send: SendBatch::new(),
            out: Outbox::default(),
        }
    }
}

/// An error is the echo of a datagram that was refused, and its call will tell; but unheard errors
/// fill the socket's buffer and keep it ready.
fn forget_errors(socket: &Socket) {
    socket.unreachable(|_, _| {});
}

impl Default for Buffers {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether anything came in.
fn receive(socket: &Socket, buffers: &mut Buffers) -> bool {
    let received = socket.recv(&mut buffers.recv, Wait::Poll);
    if received.is_err() {
        forget_errors(socket);
    }
    received.unwrap_or(0) > 0
}

//! Traffic: the callers and emulated servers of `load`, on UDP sockets of `net`.
//!
//! A [`Calling`] is a caller with its sockets, an [`Answering`] a server with its own. Neither has
//! a thread or waits: whoever drives them calls `turn` again and again, as often as it wants its
//! latencies exact, and may drive any number of them from one thread with the same [`Buffers`].

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
};

use load::{Caller, Outbox, Server};
use net::{
    Clock,
    udp::{BATCH, Options, RecvBatch, SendBatch, Socket, Wait},
};

/// Bytes of each socket's buffers, as far as the system grants them.
const BUFFER_BYTES: usize = 4 << 20;

/// Longer than any message of a call through a few proxies.
const DATAGRAM_BYTES_MAX: usize = 4096;

/// The memory of one thread's turns.
#[derive(Debug)]
pub struct Buffers {
    recv: RecvBatch,
    send: SendBatch,
    out: Outbox,
}

/// A caller and the sockets it calls from, in the order of its configuration.
#[derive(Debug)]
pub struct Calling {
    caller: Caller,
    sockets: Vec<Socket>,
}

/// An emulated server and its socket.
#[derive(Debug)]
pub struct Answering {
    server: Server,
    socket: Socket,
}

/// A socket on a free port of the loopback address.
///
/// # Errors
/// The system's: it has no port or descriptor left.
pub fn bind() -> io::Result<Socket> {
    let options = Options {
        reuse_port: false,
        recv_buffer: Some(BUFFER_BYTES),
        send_buffer: Some(BUFFER_BYTES),
    };
    Socket::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), options)
}

impl Calling {
    /// Puts a caller on its sockets: those whose addresses its configuration lists.
    #[must_use]
    pub fn new(caller: Caller, sockets: Vec<Socket>) -> Self {
        Self { caller, sockets }
    }

    /// The caller.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The caller, to stop it or to take its counts.
    pub fn caller_mut(&mut self) -> &mut Caller {
        &mut self.caller
    }

    /// Another caller takes over the sockets; what is open is forgotten.
    pub fn replace(&mut self, caller: Caller) {
        self.caller = caller;
    }

    /// Where it calls from.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.sockets.iter().map(Socket::local_addr).collect()
    }

    /// Begins what is due, takes a batch from each socket, and sends what comes of it.
    pub fn turn(&mut self, clock: Clock, buffers: &mut Buffers) {
        let Buffers { recv, send, out } = buffers;
        self.caller.handle_timeout(clock.now(), out);
        flush(&self.sockets, send, out);
        for (index, socket) in self.sockets.iter().enumerate() {
            if !receive(socket, recv) {
                continue;
            }
            let now = clock.now();
            for datagram in recv.datagrams() {
                self.caller
                    .handle_input(now, index, datagram.from, datagram.bytes, out);
            }
        }
        flush(&self.sockets, send, out);
    }
}

impl Answering {
    /// Puts a server on the socket whose address its configuration names.
    #[must_use]
    pub fn new(server: Server, socket: Socket) -> Self {
        Self { server, socket }
    }

    /// The server.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.socket.local_addr()
    }

    /// Does what is due, takes a batch, and sends what comes of it.
    pub fn turn(&mut self, clock: Clock, buffers: &mut Buffers) {
        let Buffers { recv, send, out } = buffers;
        let received = receive(&self.socket, recv);
        let now = clock.now();
        self.server.handle_timeout(now, out);
        if received {
            for datagram in recv.datagrams() {
                self.server
                    .handle_input(now, datagram.from, datagram.bytes, out);
            }
        }
        flush(std::slice::from_ref(&self.socket), send, out);
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

impl Default for Buffers {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether anything came in. An error is the echo of a datagram that was refused; its call will
/// tell.
fn receive(socket: &Socket, recv: &mut RecvBatch) -> bool {
    socket.recv(recv, Wait::Poll).unwrap_or(0) > 0
}

fn flush(sockets: &[Socket], send: &mut SendBatch, out: &mut Outbox) {
    if out.is_empty() {
        return;
    }
    for (index, socket) in sockets.iter().enumerate() {
        let mine = out.datagrams().filter(|(from, ..)| *from == index);
        socket.send(send, mine.map(|(_, to, bytes)| (to, bytes)));
    }
    out.clear();
}

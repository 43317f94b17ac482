//! The load: callers and callees in one thread, on real sockets.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use fastrand::Rng;
use load::{Arrivals, Caller, CallerConfig, Law, Outbox, Server, ServerConfig};
use net::udp::{BATCH, Options, RecvBatch, SendBatch, Socket, Wait};

/// Callees, and as many sockets to call from: the floor relays between pairs of them.
pub(crate) const SERVERS: usize = 4;

const BUFFER_BYTES: usize = 4 << 20;
pub(crate) const DATAGRAM_BYTES_MAX: usize = 4096;

/// Callers and callees. It never sleeps, so that it measures the others' latency and not its own.
pub(crate) struct Generator {
    zero: Instant,
    rng: Rng,
    caller: Caller,
    callers: Vec<Socket>,
    servers: Vec<(Server, Socket)>,
    recv: RecvBatch,
    send: SendBatch,
    out: Outbox,
}

impl Generator {
    pub(crate) fn new(seed: u64) -> io::Result<Self> {
        let mut rng = Rng::with_seed(seed);
        let callers: Vec<_> = (0..SERVERS).map(|_| bind()).collect::<io::Result<_>>()?;
        let servers = (0..SERVERS).map(|_| {
            let socket = bind()?;
            Ok((
                Server::new(ServerConfig::prompt(socket.local_addr()), rng.fork()),
                socket,
            ))
        });
        let servers = servers.collect::<io::Result<_>>()?;
        let nobody = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
        let nothing = calls(&callers, nobody, Arrivals::Window(0), Law::ZERO, 0);
        Ok(Self {
            zero: Instant::now(),
            caller: Caller::new(nothing, rng.fork(), Duration::ZERO),
            rng,
            callers,
            servers,
            recv: RecvBatch::new(BATCH, DATAGRAM_BYTES_MAX),
            send: SendBatch::new(),
            out: Outbox::default(),
        })
    }

    pub(crate) fn server_addresses(&self) -> Vec<SocketAddr> {
        self.servers
            .iter()
            .map(|(_, socket)| socket.local_addr())
            .collect()
    }

    /// INVITEs that each callee has taken so far.
    pub(crate) fn placed(&self) -> Vec<u64> {
        self.servers
            .iter()
            .map(|(server, _)| server.stats().invites)
            .collect()
    }

    /// Begins to call through `proxy`.
    pub(crate) fn call(
        &mut self,
        proxy: SocketAddr,
        arrivals: Arrivals,
        holding: Law,
        calls_max: u64,
    ) {
        let config = calls(&self.callers, proxy, arrivals, holding, calls_max);
        self.caller = Caller::new(config, self.rng.fork(), self.zero.elapsed());
    }

    pub(crate) fn caller(&mut self) -> &mut Caller {
        &mut self.caller
    }

    /// Carries calls until the time is over or all calls are done.
    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.zero.elapsed() + time;
        while !self.caller.is_done() && self.zero.elapsed() < end {
            self.turn(|_| ());
        }
    }

    /// Takes and sends what there is. `sent` sees what callers send.
    pub(crate) fn turn(&mut self, mut sent: impl FnMut(&[u8])) {
        let now = self.zero.elapsed();
        self.caller.handle_timeout(now, &mut self.out);
        self.flush_callers(&mut sent);
        for (socket, index) in self.callers.iter().zip(0..) {
            // An error is the echo of a datagram that was refused; its call will tell.
            if socket.recv(&mut self.recv, Wait::Poll).unwrap_or(0) == 0 {
                continue;
            }
            let now = self.zero.elapsed();
            for datagram in self.recv.datagrams() {
                self.caller
                    .handle_input(now, index, datagram.from, datagram.bytes, &mut self.out);
            }
        }
        self.flush_callers(&mut sent);
        for (server, socket) in &mut self.servers {
            let now = self.zero.elapsed();
            server.handle_timeout(now, &mut self.out);
            if socket.recv(&mut self.recv, Wait::Poll).unwrap_or(0) > 0 {
                for datagram in self.recv.datagrams() {
                    server.handle_input(now, datagram.from, datagram.bytes, &mut self.out);
                }
            }
            let datagrams = self.out.datagrams().map(|(_, to, bytes)| (to, bytes));
            socket.send(&mut self.send, datagrams);
            self.out.clear();
        }
    }

    fn flush_callers(&mut self, sent: &mut impl FnMut(&[u8])) {
        if self.out.is_empty() {
            return;
        }
        self.out.datagrams().for_each(|(.., bytes)| sent(bytes));
        for (index, socket) in self.callers.iter().enumerate() {
            let datagrams = self.out.datagrams().filter(|(from, ..)| *from == index);
            socket.send(&mut self.send, datagrams.map(|(_, to, bytes)| (to, bytes)));
        }
        self.out.clear();
    }
}

pub(crate) fn bind() -> io::Result<Socket> {
    let options = Options {
        reuse_port: false,
        recv_buffer: Some(BUFFER_BYTES),
        send_buffer: Some(BUFFER_BYTES),
    };
    Socket::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), options)
}

fn calls(
    sockets: &[Socket],
    proxy: SocketAddr,
    arrivals: Arrivals,
    holding: Law,
    calls_max: u64,
) -> CallerConfig {
    let sockets = sockets.iter().map(Socket::local_addr).collect();
    CallerConfig {
        sockets,
        proxy,
        arrivals,
        holding,
        calls_max,
    }
}

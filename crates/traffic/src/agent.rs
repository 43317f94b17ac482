use std::{net::SocketAddr, time::Duration};

use load::{Caller, Outbox, Phones, Server};

/// An agent behind sockets: it takes datagrams and the time, and returns datagrams to send.
pub trait Agent {
    /// Takes a datagram that came to a socket, by the socket's place.
    fn handle_input(
        &mut self,
        now: Duration,
        socket: usize,
        from: SocketAddr,
        bytes: &[u8],
        out: &mut Outbox,
    );

    /// The connection in the place of a socket was lost, or could not be opened.
    fn handle_closed(&mut self, _now: Duration, _socket: usize) {}

    /// Does what is due.
    fn handle_timeout(&mut self, now: Duration, out: &mut Outbox);

    /// When [`Self::handle_timeout`] wants to be called next.
    fn deadline(&self) -> Option<Duration>;
}

macro_rules! delegate_time {
    () => {
        fn handle_timeout(&mut self, now: Duration, out: &mut Outbox) {
            self.handle_timeout(now, out);
        }

        fn deadline(&self) -> Option<Duration> {
            self.deadline()
        }
    };
}

impl Agent for Caller {
    fn handle_input(
        &mut self,
        now: Duration,
        socket: usize,
        from: SocketAddr,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        self.handle_input(now, socket, from, bytes, out);
    }

    delegate_time!();
}

impl Agent for Phones {
    fn handle_input(
        &mut self,
        now: Duration,
        socket: usize,
        from: SocketAddr,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        self.handle_input(now, socket, from, bytes, out);
    }

    fn handle_closed(&mut self, now: Duration, socket: usize) {
        self.handle_closed(now, socket);
    }

    delegate_time!();
}

impl Agent for Server {
    fn handle_input(
        &mut self,
        now: Duration,
        _socket: usize,
        from: SocketAddr,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        self.handle_input(now, from, bytes, out);
    }

    delegate_time!();
}

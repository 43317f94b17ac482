use std::net::SocketAddr;

/// The datagrams that a caller or a server sends, in order.
#[derive(Debug, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    transmits: Vec<Transmit>,
}

#[derive(Debug)]
struct Transmit {
    socket: usize,
    to: SocketAddr,
    end: usize,
}

impl Outbox {
    /// The datagrams to send: the index of the socket to send from, the destination, the bytes.
    pub fn datagrams(&self) -> impl Iterator<Item = (usize, SocketAddr, &[u8])> {
        let mut start = 0;
        self.transmits.iter().map(move |transmit| {
            let bytes = &self.bytes[start..transmit.end];
            start = transmit.end;
            (transmit.socket, transmit.to, bytes)
        })
    }

    /// Whether there is nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.transmits.is_empty()
    }

    /// Discards all datagrams and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.transmits.clear();
    }

    /// Takes the datagrams of another outbox, to send them from this socket.
    pub fn append(&mut self, other: &mut Self, socket: usize) {
        for (_, to, bytes) in other.datagrams() {
            self.send(socket, to, |out| out.extend_from_slice(bytes));
        }
        other.clear();
    }

    pub(crate) fn send(&mut self, socket: usize, to: SocketAddr, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        let end = self.bytes.len();
        self.transmits.push(Transmit { socket, to, end });
    }
}

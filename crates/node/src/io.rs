//! What goes into a node and what comes out of it.

use std::{net::SocketAddr, ops::Range};

use balance::ServerId;

use crate::stateful::Target;

/// One thing that happened to a worker's node.
#[derive(Debug)]
pub enum Input<'a> {
    /// A datagram came in.
    Datagram(Datagram<'a>),
    /// Another worker received it, but its call lives here.
    Handover(Handover),
    /// The network says that nobody listens at an address we sent to.
    Unreachable(SocketAddr),
    /// A look-up that this worker asked for has its answer.
    Found {
        /// [`Lookup::id`].
        lookup: u64,
        /// Where the request may go, or the status that it is refused with.
        targets: Result<&'a [Target], u16>,
    },
}

/// A received datagram.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// Index of the listener that was hit.
    pub listener: u8,
    /// The sender.
    pub from: SocketAddr,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// It was longer than the limit on message size; `bytes` holds its beginning.
    pub truncated: bool,
}

/// A datagram on its way to the worker that owns its call.
#[derive(Debug)]
pub struct Handover {
    /// The worker it goes to.
    pub worker: usize,
    /// Index of the listener that was hit.
    pub listener: u8,
    /// The sender.
    pub from: SocketAddr,
    /// Its bytes.
    pub bytes: Box<[u8]>,
    /// The server of the dialog that it names, once the owner of that dialog has been asked.
    pub follows: Option<Option<ServerId>>,
}

/// A question where a request may go. It waits for [`Input::Found`]; its caller, as long as it likes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// What the answer names.
    pub id: u64,
    /// The Request-URI.
    pub uri: Box<[u8]>,
}

/// A datagram to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Index of the listener to send from.
    pub listener: u8,
    /// Where to.
    pub to: SocketAddr,
    /// Where its bytes lie in [`Outbox::bytes`].
    pub range: Range<usize>,
}

/// Everything that a node wants done. The driver drains it after each batch of inputs.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Datagrams to send, in order.
    pub transmits: Vec<Transmit>,
    /// Datagrams for other workers.
    pub handovers: Vec<Handover>,
    /// Questions to the location service.
    pub lookups: Vec<Lookup>,
    /// The bytes of all transmits.
    pub bytes: Vec<u8>,
}

impl Outbox {
    /// Forgets all, keeps the memory.
    pub fn clear(&mut self) {
        self.transmits.clear();
        self.handovers.clear();
        self.lookups.clear();
        self.bytes.clear();
    }

    /// The bytes of one transmit.
    #[must_use]
    pub fn payload(&self, transmit: &Transmit) -> &[u8] {
        &self.bytes[transmit.range.clone()]
    }

    /// Queues what `write` appends, unless it appends nothing.
    pub fn send(&mut self, listener: u8, to: SocketAddr, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        write(&mut self.bytes);
        let range = start..self.bytes.len();
        if !range.is_empty() {
            self.transmits.push(Transmit {
                listener,
                to,
                range,
            });
        }
    }
}

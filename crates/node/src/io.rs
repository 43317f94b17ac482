//! What goes into a node and what comes out of it.

use std::{net::SocketAddr, ops::Range, time::Duration};

use balance::ServerId;
use sip::{Host, Scheme, Uri};

/// One thing that happened to a worker's node.
#[derive(Debug)]
pub enum Input<'a> {
    /// A datagram came in.
    Datagram(Datagram<'a>),
    /// Another worker received it, but its call lives here.
    Handover(Handover),
    /// The network says that nobody listens at an address we sent to.
    Unreachable(SocketAddr),
    /// A question that this worker asked has its answer.
    Answer {
        /// [`Question::id`].
        question: QuestionId,
        /// The answer.
        answer: Answer,
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

/// A question to the store of the location service, or to the DNS. Whoever waits for its [`Answer`]
/// waits a few seconds at most; an answer that comes later, or twice, is ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// What the answer names.
    pub id: QuestionId,
    /// The question.
    pub ask: Ask,
}

/// Tells a worker's questions apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuestionId {
    pub(crate) asker: Asker,
    pub(crate) place: u32,
    /// Tells the asker from those that had its place before.
    pub(crate) serial: u32,
}

/// Who waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// A request that goes where its user is.
    LookUp,
    /// The same, about the target of this number.
    Target(u8),
    /// A REGISTER.
    Registration,
    /// A request whose next hop is a name.
    NextHop,
}

/// What a store or the DNS is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The record of a key.
    Read {
        /// The key.
        key: Box<[u8]>,
    },
    /// Another record for a key, if its record is what was seen.
    Change {
        /// The key.
        key: Box<[u8]>,
        /// Its record as it was read.
        seen: Option<Record>,
        /// Its record as it shall be; none: it goes.
        next: Option<Record>,
    },
    /// Where a name leads over UDP: RFC 3263 §4.
    Locate {
        /// The name.
        name: Name,
        /// Decides what RFC 2782 leaves to chance: the same for all requests of a call.
        draw: u64,
    },
}

/// The host of a URI that is a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// The name.
    pub host: Box<str>,
    /// The port beside it. With one, the name has addresses and no services.
    pub port: Option<u16>,
}

impl Name {
    /// The name that a URI leads to over UDP, if it is one.
    pub(crate) fn of(uri: &Uri<'_>) -> Option<Self> {
        let is_udp = match uri.param(b"transport") {
            Some(transport) => transport?.eq_ignore_ascii_case(b"udp"),
            None => true,
        };
        match uri.destination()? {
            Host::Name(name) if is_udp && uri.scheme == Scheme::Sip => Some(Self {
                host: str::from_utf8(name).ok()?.into(),
                port: uri.port,
            }),
            Host::Name(_) | Host::Ip(_) => None,
        }
    }
}

/// A record of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its bytes.
    pub value: Box<[u8]>,
    /// When it ends: wall time since the UNIX epoch. None: never.
    pub expires: Option<Duration>,
}

/// What a store or the DNS says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The key's record. To [`Ask::Change`]: nothing is changed, as it was not what was seen.
    Record(Option<Record>),
    /// The change is made.
    Changed,
    /// Where a name leads, in the order in which it is to be tried; empty: there is no such name.
    Located(Vec<SocketAddr>),
    /// It can't be told or done, or may have been done.
    Failed,
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
    /// Questions to the store and the DNS.
    pub questions: Vec<Question>,
    /// The bytes of all transmits.
    pub bytes: Vec<u8>,
}

impl Outbox {
    /// Forgets all, keeps the memory.
    pub fn clear(&mut self) {
        self.transmits.clear();
        self.handovers.clear();
        self.questions.clear();
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

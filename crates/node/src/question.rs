//! What a node asks the store of the location service and the DNS.

use std::time::Duration;

use sip::{Host, Param, Scheme, Uri};
use slots::Ticket;
use transaction::{NextHop, Transport};

use crate::wire::way::transport_of;

/// A question to the store of the location service, or to the DNS. The request that waits for its
/// [`Answer`] waits a few seconds at most; an answer that comes later, or twice, is ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// What the answer names.
    pub id: QuestionId,
    /// The question.
    pub ask: Ask,
}

/// Tells a worker's questions apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuestionId(pub(crate) Asker);

/// What waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// A request that goes where its user is.
    LookUp(Ticket),
    /// The same, about the target of this number.
    Target(Ticket, u8),
    /// A REGISTER.
    Registration(Ticket),
    /// A request whose sender must be known.
    Caller(Ticket),
    /// A request whose next hop is a name.
    NextHop(Ticket),
    /// A binding whose flow is dead.
    Removal(Ticket),
    /// The same, found by a keep-alive.
    Unanswered(Ticket),
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
    /// Where a name leads: RFC 3263 §4.
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
    /// What shall carry messages there; none: what the DNS says. RFC 3263 §4.1
    pub transport: Option<Transport>,
}

impl Name {
    /// The name that a URI leads to, if it is one.
    pub(crate) fn of(uri: &Uri<'_>) -> Option<Self> {
        if !matches!(uri.scheme, Scheme::Sip | Scheme::Sips) {
            return None;
        }
        let is_open = uri.scheme == Scheme::Sip
            && uri.port.is_none()
            && matches!(uri.param(b"transport"), Param::Absent);
        let transport = Some(transport_of(uri)?).filter(|_| !is_open);
        let Host::Name(name) = uri.destination()? else {
            return None;
        };
        Some(Self {
            host: str::from_utf8(name).ok()?.into(),
            port: uri.port,
            transport,
        })
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
    Located(Vec<NextHop>),
    /// It can't be told or done, or may have been done.
    Failed,
}

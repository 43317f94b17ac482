//! New requests by who comes first, and how long they may wait.

use std::time::Duration;

use sip::{HeaderName, Message, Method, NameAddr};
use transaction::Flow;

use super::{lane::Lane, urgent::is_of};
use crate::{io::Datagram, snapshot::Snapshot, stats::Event};

/// How long a request may wait, in its socket and here. RFC 3261 has callers repeat an INVITE after 500 ms: if the first one
/// waits for longer and is refused, its copy is served in vain.
pub(super) const PATIENCE: Duration = Duration::from_millis(400);
/// The same while a share stays out: others come who need not wait. But a CFS quota has a node stand still for 40 ms.
const PATIENCE_OF_MANY: Duration = Duration::from_millis(90);
/// The same of a REGISTER: nobody listens for its answer, and its phone waits for 32 s. To drop it while the node is
/// idle again later would waste what it can serve.
const PATIENCE_OF_REGISTERS: Duration = Duration::from_secs(3);
/// How the Request-URI of a call for help begins.
const FOR_HELP: &[u8] = b"urn:service:sos";

/// New requests by who comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Calls for help (RFC 5031), what peers that are believed call urgent (RFC 4412), and calls of users that are listed.
    Emergency,
    /// REGISTERs with credentials: their senders have been challenged before.
    Login,
    /// INVITEs.
    Call,
    /// INVITEs that the sieve would have stopped some time ago: most of them have been repeated for long.
    Repeated,
    /// REGISTERs without credentials.
    Register,
    /// All others.
    Other,
}

/// The turns of the classes. An empty class passes its turn on, so a flood of one class, of calls for help too, leaves
/// the others theirs. A call has about six messages, so calls and logins take about as much of the node each.
pub(super) const TURNS: [Class; 12] = [
    Class::Emergency,
    Class::Call,
    Class::Login,
    Class::Register,
    Class::Login,
    Class::Other,
    Class::Emergency,
    Class::Call,
    Class::Login,
    Class::Register,
    Class::Login,
    Class::Register,
];

impl Class {
    /// The classes of new requests that come in a lane, the most usual one first.
    pub(crate) fn of(lane: Lane) -> &'static [Self] {
        match lane {
            Lane::Calls => &[Self::Call, Self::Repeated],
            Lane::Registers => &[Self::Register, Self::Login],
            Lane::Others => &[Self::Other],
            Lane::Urgent => &[Self::Emergency],
            Lane::OfCalls => &[],
        }
    }

    /// What its requests are, in the plural.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Emergency => "calls for help",
            Self::Login => "REGISTERs with credentials",
            Self::Call | Self::Repeated => "calls",
            Self::Register => "REGISTERs without credentials",
            Self::Other => "other requests",
        }
    }

    /// Counts that a request of it stays out.
    pub(crate) fn out(self) -> Event {
        match self {
            Self::Emergency => Event::EmergencyOut,
            Self::Login => Event::LoginOut,
            Self::Call | Self::Repeated => Event::CallOut,
            Self::Register => Event::RegisterOut,
            Self::Other => Event::OtherOut,
        }
    }

    /// Counts that what came in a lane stays out.
    pub(crate) fn out_of(lane: Lane) -> Event {
        Self::of(lane)
            .first()
            .map_or(Event::OfCallsOut, |class| class.out())
    }

    /// Counts that a lane's filter stops what comes; none: it stops nothing there.
    pub(crate) fn filtered_in(lane: Lane) -> Option<Event> {
        match lane {
            Lane::Calls => Some(Event::CallFiltered),
            Lane::Registers => Some(Event::RegisterFiltered),
            Lane::Others | Lane::Urgent | Lane::OfCalls => None,
        }
    }

    /// How long it may wait; shorter while a share of many stays out.
    pub(super) fn patience(self, are_many: bool) -> Duration {
        match self {
            Self::Login | Self::Register => PATIENCE_OF_REGISTERS,
            Self::Call | Self::Repeated if are_many => PATIENCE_OF_MANY,
            _ => PATIENCE,
        }
    }
}

/// How long what comes in a lane may have waited there when it is read; shorter while some of its kind stay out: who has
/// waited for longer than it takes to be repeated comes twice.
pub(super) fn patience_in(lane: Lane, [calls, registers]: [f64; 2]) -> Duration {
    match lane {
        Lane::Calls if calls < 1.0 => PATIENCE_OF_MANY,
        Lane::Registers if registers < 1.0 => PATIENCE_OF_MANY,
        Lane::Registers => PATIENCE_OF_REGISTERS,
        Lane::Calls | Lane::Others | Lane::Urgent | Lane::OfCalls => PATIENCE,
    }
}

/// The class of a new request; none: it belongs to something known, or a known host asks how we are.
pub(crate) fn class_of(
    snapshot: &Snapshot,
    datagram: &Datagram<'_>,
    message: &Message<'_>,
) -> Option<Class> {
    let method = message.method()?;
    if matches!(method, Method::Ack | Method::Cancel) || message.to_tag() != Ok(None) {
        return None;
    }
    match method {
        Method::Invite if is_urgent(snapshot, datagram.flow, message) => Some(Class::Emergency),
        Method::Invite => Some(Class::Call),
        Method::Register if message.header(HeaderName::Authorization).is_some() => {
            Some(Class::Login)
        }
        Method::Register => Some(Class::Register),
        Method::Options if snapshot.is_known(datagram.flow.remote.ip()) => None,
        _ => Some(Class::Other),
    }
}

/// Whether a request goes before others: somebody calls for help (RFC 5031) or a user of `[trust] urgent`, or a peer that
/// is believed says that it is urgent (RFC 4412 §8) or that such a user calls.
pub(crate) fn is_urgent(snapshot: &Snapshot, flow: Flow, message: &Message<'_>) -> bool {
    is_called_first(snapshot, message)
        || (is_said_urgent(snapshot, message) && snapshot.is_trusted(flow))
}

/// Whether a request goes before others whoever sends it: somebody calls for help, or one of the users that are listed.
pub(crate) fn is_called_first(snapshot: &Snapshot, message: &Message<'_>) -> bool {
    calls_for_help(message)
        || message
            .request_uri()
            .is_some_and(|uri| is_of(snapshot.urgent(), uri))
}

/// Whether it goes before others if its sender is believed: it says so, or asserts that one of the users that are listed
/// calls (RFC 3325). A From is what the caller wrote, whoever passes it on.
fn is_said_urgent(snapshot: &Snapshot, message: &Message<'_>) -> bool {
    let users = snapshot.urgent();
    let mut asserted = message.header_values(HeaderName::PAssertedIdentity);
    message.header(HeaderName::ResourcePriority).is_some()
        || !users.is_empty()
            && asserted.any(|it| NameAddr::first(it).is_some_and(|it| is_of(users, it.uri)))
}

/// Whether somebody calls for help. RFC 5031
fn calls_for_help(message: &Message<'_>) -> bool {
    let begin = message
        .request_uri()
        .and_then(|uri| uri.get(..FOR_HELP.len()));
    begin.is_some_and(|begin| begin.eq_ignore_ascii_case(FOR_HELP))
}

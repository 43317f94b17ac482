use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::{IpAddr, SocketAddr},
};

use sip::{HeaderName, Message, Method, StartLine};

use super::outcome::{Kind, Violation};
use crate::{Event, HEADERS_MAX, PartyId, Watch, What};

/// How many messages strangers remember of each kind.
const SEEN_MAX: usize = 64;

/// Sees to it that edges send only to those who take part, and to whom a stranger names as its source at
/// most one response a request. Remembers what strangers see.
#[derive(Debug)]
pub(super) struct Reach {
    edges: Vec<PartyId>,
    stranger: PartyId,
    /// Of servers and of callers, as edges see them.
    honest: Vec<IpAddr>,
    own: Vec<IpAddr>,
    is_tapped: bool,
    /// The network copies what servers answer, and what is copied is answered twice.
    has_copies: bool,
    /// The responses, and their bytes, that may go to an address that a stranger named as its source.
    owed: BTreeMap<SocketAddr, (u64, usize)>,
    /// Calls that a stranger began once more under its own address.
    begun_again: BTreeSet<Vec<u8>>,
    pub(super) seen: Seen,
    pub(super) violation: Option<Violation>,
}

/// What strangers know.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// 200s to INVITEs that began calls of their own.
    pub(super) answers: VecDeque<Vec<u8>>,
    /// Requests that edges sent to them.
    pub(super) requests: VecDeque<Vec<u8>>,
    /// What others sent to edges, and its source and destination.
    pub(super) overheard: VecDeque<(SocketAddr, SocketAddr, Vec<u8>)>,
}

impl Reach {
    pub(super) fn new(
        edges: Vec<PartyId>,
        honest: Vec<IpAddr>,
        (stranger, own): (PartyId, Vec<IpAddr>),
        is_tapped: bool,
        has_copies: bool,
    ) -> Self {
        Self {
            edges,
            stranger,
            honest,
            own,
            is_tapped,
            has_copies,
            owed: BTreeMap::new(),
            begun_again: BTreeSet::new(),
            seen: Seen::default(),
            violation: None,
        }
    }

    fn on_arrived_at_edge(&mut self, event: &Event<'_>) {
        if event.sender != self.stranger {
            if self.is_tapped {
                let overheard = (event.from, event.to, event.bytes.to_vec());
                remember(&mut self.seen.overheard, overheard);
            }
            return;
        }
        if !self.own.contains(&event.from.ip()) {
            let (responses, bytes) = self.owed.entry(event.from).or_default();
            *responses += 1;
            *bytes += 2 * event.bytes.len();
        }
    }

    /// Notes which calls begin once more. Over a connection it may be the beginning of a message, whose end is in the next one.
    fn on_sent_by_stranger(&mut self, event: &Event<'_>) {
        if self.own.contains(&event.from.ip())
            && event.bytes.starts_with(b"INVITE ")
            && line_of(event.bytes, b"\r\nTo: ").is_some_and(|to| !has_tag(to))
            && let Some(call_id) = line_of(event.bytes, b"\r\nCall-ID: ")
        {
            self.begun_again.insert(call_id.to_vec());
        }
    }

    fn on_sent_by_edge(&mut self, event: &Event<'_>) {
        if self.own.contains(&event.to.ip()) {
            return self.on_sent_to_stranger(event);
        }
        if self.honest.contains(&event.to.ip()) {
            return;
        }
        let is_response = event.bytes.starts_with(b"SIP/2.0 ");
        let (responses, bytes) = self.owed.entry(event.to).or_default();
        if is_response && *responses > 0 && self.has_copies {
            return;
        }
        if is_response && *responses > 0 && *bytes >= event.bytes.len() {
            *responses -= 1;
            *bytes -= event.bytes.len();
            return;
        }
        self.complain(event, "an edge sent this to a third address");
    }

    fn on_sent_to_stranger(&mut self, event: &Event<'_>) {
        let Ok(message) = Message::parse(event.bytes, HEADERS_MAX) else {
            return;
        };
        let StartLine::Response { status, .. } = message.start_line() else {
            let call_id = message.call_id().unwrap_or_default();
            if is_of_caller(call_id) && !self.begun_again.contains(call_id) {
                self.complain(event, "an edge sent a stranger what is a caller's");
            }
            return remember(&mut self.seen.requests, event.bytes.to_vec());
        };
        let is_to_invite = message.cseq().is_ok_and(|it| it.method == Method::Invite);
        let mut routes = message.header_values(HeaderName::RecordRoute);
        if status == 200 && is_to_invite && routes.next().is_some() {
            remember(&mut self.seen.answers, event.bytes.to_vec());
        }
    }

    fn complain(&mut self, event: &Event<'_>, what: &str) {
        let Event {
            at,
            from,
            to,
            bytes,
            ..
        } = event;
        let text = String::from_utf8_lossy(bytes);
        self.violation.get_or_insert_with(|| Violation {
            at: *at,
            kind: Kind::Safety,
            what: format!("{what}, from {from} to {to}:\n{text}"),
        });
    }
}

impl Watch for Reach {
    fn see(&mut self, event: &Event<'_>) {
        let is_to_edge = event.receiver.is_some_and(|to| self.edges.contains(&to));
        match event.what {
            What::Arrived if is_to_edge => self.on_arrived_at_edge(event),
            What::Arrived | What::Crashed | What::Restarted | What::Overflowed => {}
            What::Refused if event.receiver.is_some() => {}
            What::Sent | What::Copied if event.sender == self.stranger => {
                self.on_sent_by_stranger(event);
            }
            _ if self.edges.contains(&event.sender) => self.on_sent_by_edge(event),
            _ => {}
        }
    }
}

fn remember<T>(seen: &mut VecDeque<T>, one: T) {
    if seen.len() == SEEN_MAX {
        seen.pop_front();
    }
    seen.push_back(one);
}

/// Strangers' own Call-IDs are no hexadecimal numbers.
fn is_of_caller(call_id: &[u8]) -> bool {
    call_id.len() == 24 && call_id.iter().all(u8::is_ascii_hexdigit)
}

/// What stands in the first line that begins so, if its end is there.
fn line_of<'a>(bytes: &'a [u8], start: &[u8]) -> Option<&'a [u8]> {
    let at = bytes.windows(start.len()).position(|it| it == start)?;
    let rest = &bytes[at + start.len()..];
    let length = rest.iter().position(|&byte| byte == b'\r')?;
    Some(&rest[..length])
}

fn has_tag(to: &[u8]) -> bool {
    let tag = b";tag=";
    to.windows(tag.len()).any(|it| it == tag)
}

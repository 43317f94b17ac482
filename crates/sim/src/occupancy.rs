//! The numbers of requests that other requests find at a server when they arrive.

use std::{collections::BTreeMap, time::Duration};

use sip::{Message, Method, StartLine};

use crate::{Event, PartyId, Watch, What};

/// More header fields than any message of a simulated call has.
const HEADERS_MAX: usize = 128;

/// INVITEs and BYEs by the number of such requests that each found at the server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Occupancy {
    /// The first entry counts those that found none.
    pub requests: Vec<u64>,
    /// The sum of their response times, as their callers measured them.
    pub response_times: Vec<Duration>,
}

impl Occupancy {
    fn record(&mut self, found: usize, response_time: Duration) {
        let len = self.requests.len().max(found + 1);
        self.requests.resize(len, 0);
        self.response_times.resize(len, Duration::ZERO);
        self.requests[found] += 1;
        self.response_times[found] += response_time;
    }
}

/// Looks at one server, and at the callers for the response times.
pub(crate) struct Observer {
    server: PartyId,
    callers: Vec<PartyId>,
    open: BTreeMap<Key, Request>,
    at_server: usize,
    occupancy: Occupancy,
}

/// A request: a hash of its Call-ID, and whether it is a BYE.
type Key = (u64, bool);

struct Request {
    sent: Duration,
    /// What it found, once it has come to the server.
    found: Option<usize>,
    is_answered: bool,
}

impl Observer {
    pub(crate) fn new(server: PartyId, callers: Vec<PartyId>) -> Self {
        Self {
            server,
            callers,
            open: BTreeMap::new(),
            at_server: 0,
            occupancy: Occupancy::default(),
        }
    }

    pub(crate) fn occupancy(&self) -> &Occupancy {
        &self.occupancy
    }

    fn on_request(&mut self, key: Key, event: &Event<'_>) {
        match event.what {
            What::Sent if self.callers.contains(&event.sender) => {
                self.open.entry(key).or_insert(Request {
                    sent: event.at,
                    found: None,
                    is_answered: false,
                });
            }
            What::Arrived if event.receiver == Some(self.server) => {
                if let Some(request) = self.open.get_mut(&key)
                    && request.found.is_none()
                {
                    request.found = Some(self.at_server);
                    self.at_server += 1;
                }
            }
            _ => {}
        }
    }

    fn on_final_response(&mut self, key: Key, event: &Event<'_>) {
        match event.what {
            What::Sent if event.sender == self.server => {
                if let Some(request) = self.open.get_mut(&key)
                    && request.found.is_some()
                    && !std::mem::replace(&mut request.is_answered, true)
                {
                    self.at_server -= 1;
                }
            }
            What::Arrived if event.receiver.is_some_and(|r| self.callers.contains(&r)) => {
                if let Some(request) = self.open.remove(&key)
                    && let Some(found) = request.found
                {
                    self.occupancy.record(found, event.at - request.sent);
                }
            }
            _ => {}
        }
    }
}

impl Watch for Observer {
    fn see(&mut self, event: &Event<'_>) {
        let Ok(message) = Message::parse(event.bytes, HEADERS_MAX) else {
            return;
        };
        let (Ok(call_id), Ok(cseq)) = (message.call_id(), message.cseq()) else {
            return;
        };
        let key = (hash(call_id), cseq.method == Method::Bye);
        match message.start_line() {
            StartLine::Request {
                method: Method::Invite | Method::Bye,
                ..
            } => self.on_request(key, event),
            StartLine::Response { status, .. } if status >= 200 => {
                self.on_final_response(key, event);
            }
            _ => {}
        }
    }
}

/// FNV-1a.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

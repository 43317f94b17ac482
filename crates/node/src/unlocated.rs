//! Requests whose next hop is a name: they wait for the DNS, and nobody else does. RFC 3263 §4

use std::time::Duration;

use sip::Message;
use transaction::Wheel;

use crate::{
    io::{Answer, Ask, Asker, Outbox, Question, QuestionId},
    node::{Context, Origin, State},
    request::{Refusal, Request},
    routing::{RETRY_AFTER_S, unreachable_hop},
    snapshot::NoRoute,
    stats::Event,
    token::Direction,
    transaction::Retained,
};

/// How many may wait on a worker; more are told to come again.
const WAITING_MAX: usize = 1_024;

/// How long one may wait.
pub(crate) const NAME_WAIT_MAX: Duration = Duration::from_secs(4);

/// The requests of a worker that wait for the DNS; their buffers are used again.
#[derive(Debug)]
pub(crate) struct Unlocated {
    entries: Vec<Waiting>,
    free: Vec<u32>,
    patience: Wheel,
}

#[derive(Debug)]
struct Waiting {
    /// Tells it from those that had its place before.
    serial: u32,
    request: Retained,
    origin: Origin,
}

impl Unlocated {
    pub(crate) fn new(now: Duration) -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
            patience: Wheel::new(WAITING_MAX, now),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.patience.deadline()
    }

    /// Keeps a copy; none when there is no room.
    fn keep(&mut self, now: Duration, request: &Request<'_>, origin: Origin) -> Option<u32> {
        let place = match self.free.pop() {
            Some(place) => place,
            None if self.entries.len() == WAITING_MAX => return None,
            None => {
                self.entries.push(Waiting {
                    serial: 0,
                    request: Retained {
                        listener: 0,
                        from: request.datagram.from,
                        bytes: Vec::new(),
                    },
                    origin,
                });
                self.entries.len() as u32 - 1
            }
        };
        let entry = &mut self.entries[place as usize];
        entry.origin = origin;
        entry.request.listener = request.datagram.listener;
        entry.request.from = request.datagram.from;
        entry.request.bytes.clear();
        let bytes = request.message.bytes();
        entry.request.bytes.extend_from_slice(bytes);
        self.patience.arm(place, now + NAME_WAIT_MAX);
        Some(place)
    }

    /// Gives the place up; its buffer may be had back.
    fn close(&mut self, place: u32) {
        let entry = &mut self.entries[place as usize];
        entry.serial = entry.serial.wrapping_add(1);
        self.patience.disarm(place);
        self.free.push(place);
    }
}

impl State {
    /// Lets a request wait if it leads outwards, to a name.
    pub(crate) fn waits_for_name(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        origin: Origin,
        out: &mut Outbox,
    ) -> Result<bool, Refusal> {
        if !request.leads_to_name() || !leads_outward(cx, request) {
            return Ok(false);
        }
        let Some(name) = request.next_name() else {
            return Ok(false);
        };
        let Some(place) = self.unlocated.keep(cx.now, request, origin) else {
            cx.stats.count(Event::UnlocatedFull, 1);
            return Err(Refusal::unavailable(RETRY_AFTER_S));
        };
        let id = QuestionId {
            asker: Asker::NextHop,
            place,
            serial: self.unlocated.entries[place as usize].serial,
        };
        let draw = cx.snapshot.keys().of_session(request.key, &[b"name"]);
        let ask = Ask::Locate { name, draw };
        out.questions.push(Question { id, ask });
        Ok(true)
    }

    /// The DNS has answered.
    pub(crate) fn on_located(
        &mut self,
        cx: Context<'_>,
        question: QuestionId,
        answer: Answer,
        out: &mut Outbox,
    ) {
        let entry = self.unlocated.entries.get(question.place as usize);
        if entry.is_some_and(|entry| entry.serial == question.serial) {
            self.go_on_located(cx, question.place, answer, out);
        }
    }

    /// Those that have waited for too long go nowhere.
    pub(crate) fn on_unlocated_timers(&mut self, cx: Context<'_>, out: &mut Outbox) {
        while let Some(place) = self.unlocated.patience.pop(cx.now) {
            self.go_on_located(cx, place, Answer::Failed, out);
        }
    }

    fn go_on_located(&mut self, cx: Context<'_>, place: u32, answer: Answer, out: &mut Outbox) {
        let entry = &mut self.unlocated.entries[place as usize];
        let (origin, bytes) = (entry.origin, std::mem::take(&mut entry.request.bytes));
        let datagram = crate::io::Datagram {
            bytes: &bytes,
            ..entry.request.datagram()
        };
        self.unlocated.close(place);
        let Ok(message) = Message::parse(datagram.bytes, cx.snapshot.config().limits.headers)
        else {
            return;
        };
        let routed = Request::read(cx.snapshot, datagram, &message).and_then(|mut request| {
            request.located = reachable(cx, answer, datagram.listener).first().copied();
            match request.located {
                None => {
                    cx.stats.count(Event::NameNotFound, 1);
                    Err(unreachable_hop())
                }
                Some(_) if self.is_held(cx, &request, out) => Ok(()),
                Some(_) => self.route(cx, &request, origin, out),
            }
        });
        if let Err(refusal) = routed {
            self.refuse(cx, &datagram, &message, &refusal, out);
        }
        self.unlocated.entries[place as usize].request.bytes = bytes;
    }
}

/// Of the addresses of a name those that a listener reaches.
pub(crate) fn reachable(cx: Context<'_>, answer: Answer, hit: u8) -> Vec<std::net::SocketAddr> {
    let Answer::Located(mut addresses) = answer else {
        return Vec::new();
    };
    addresses.retain(|&address| cx.snapshot.listener_towards(address, hit).is_some());
    addresses
}

/// Whether a request is of a server's, to somebody outside: within a dialog, by its Route, or because
/// nobody here is responsible for whom it names. RFC 3261 §16.5
fn leads_outward(cx: Context<'_>, request: &Request<'_>) -> bool {
    let is_of_server = || cx.snapshot.member_at(request.datagram.from).is_some();
    if request.is_initial() {
        let is_foreign = || {
            let route = cx.snapshot.route(request.method, &request.path.target.host);
            matches!(route, Err(NoRoute::Host))
        };
        return is_of_server() && (request.path.next.is_some() || is_foreign());
    }
    match request.affinity(cx.snapshot) {
        Ok(Some(affinity)) => affinity.direction == Direction::FromServer,
        Ok(None) | Err(()) => is_of_server(),
    }
}

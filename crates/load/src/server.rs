mod calls;
mod queue;
mod reply;

use std::{net::SocketAddr, time::Duration};

use fastrand::Rng;
use sip::{Message, Method, StartLine};

pub(crate) use self::reply::put_reply;
use self::{
    calls::{Calls, Found, Phase},
    queue::Queue,
    reply::{NO_BODY, fill_headers, put_status_line, write_bye},
};
use crate::{
    HEADERS_MAX, Law, Outbox,
    template::session_description,
    timers::{PATIENCE, T1, T2, Timers},
};

/// What a [`Server`] emulates.
#[derive(Clone, Copy, Debug)]
pub struct ServerConfig {
    /// Its address, which stands in Contact.
    pub address: SocketAddr,
    /// How long its one processor works on a request.
    pub service: Service,
    /// The time from the 180 to the 200.
    pub ringing: Law,
    /// Pauses of the processor, such as a garbage collector makes.
    pub stall: Option<Stall>,
}

/// How long a request keeps the processor busy, by method. ACK and CANCEL take no time.
#[derive(Clone, Copy, Debug)]
pub struct Service {
    /// INVITE.
    pub invite: Law,
    /// BYE.
    pub bye: Law,
    /// Every other method.
    pub other: Law,
}

/// A pause of the processor.
#[derive(Clone, Copy, Debug)]
pub struct Stall {
    /// The first comes with this INVITE. Servers that get equal shares would all stall at once if
    /// each began its count at the same place.
    pub first: u64,
    /// The others come with every so many INVITEs after that.
    pub every: u64,
    /// How long it lasts.
    pub lasting: Duration,
}

/// What a server has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerStats {
    /// INVITEs that began a call.
    pub invites: u64,
    /// Calls answered with 200.
    pub answered: u64,
    /// BYEs that ended a call.
    pub byes: u64,
    /// Calls that were cancelled.
    pub cancelled: u64,
    /// Calls that the server ended because no ACK came.
    pub unconfirmed: u64,
    /// Requests of every other kind that were served, such as OPTIONS.
    pub others: u64,
    /// Requests that name a dialog or transaction of which the server knows nothing.
    pub strangers: u64,
    /// Requests that came again.
    pub repeated: u64,
    /// Responses, and the BYEs of unconfirmed calls, sent again.
    pub retransmissions: u64,
    /// Stalls that have begun.
    pub stalls: u64,
}

/// A user agent server that takes calls: 180, 200 and the response to BYE, each after the queue
/// in front of it.
///
/// Responses go to where the request came from (RFC 3581), so the last hop must send from the
/// address that its Via names.
#[derive(Debug)]
pub struct Server {
    config: ServerConfig,
    rng: Rng,
    contact: Vec<u8>,
    /// The To tag of responses that open no dialog. It is always the same, as RFC 3261 §8.2.7
    /// wants it for copies of one request.
    tag: String,
    /// The end of every 200 to an INVITE: the body and the fields about it.
    answer: Vec<u8>,
    calls: Calls,
    timers: Timers,
    queue: Queue,
    stats: ServerStats,
}

/// A request that has come in.
#[derive(Clone, Copy)]
struct Request<'a> {
    now: Duration,
    from: SocketAddr,
    message: &'a Message<'a>,
}

impl Service {
    /// No work at all.
    pub const NONE: Self = Self {
        invite: Law::ZERO,
        bye: Law::ZERO,
        other: Law::ZERO,
    };
}

impl ServerConfig {
    /// A server that answers at once and never stalls.
    #[must_use]
    pub fn prompt(address: SocketAddr) -> Self {
        Self {
            address,
            service: Service::NONE,
            ringing: Law::ZERO,
            stall: None,
        }
    }
}

impl Server {
    /// A server without calls; `rng` draws its times and its tags.
    #[must_use]
    pub fn new(config: ServerConfig, mut rng: Rng) -> Self {
        let body = session_description(config.address);
        let answer = format!(
            "Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        Self {
            calls: Calls::new(&mut rng),
            contact: format!("<sip:{}>", config.address).into_bytes(),
            tag: format!("{:08x}", rng.u32(..)),
            answer: answer.into_bytes(),
            config,
            rng,
            timers: Timers::default(),
            queue: Queue::default(),
            stats: ServerStats::default(),
        }
    }

    /// Takes a datagram.
    pub fn handle_input(
        &mut self,
        now: Duration,
        from: SocketAddr,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        let Ok(message) = Message::parse(bytes, HEADERS_MAX) else {
            return;
        };
        match message.start_line() {
            StartLine::Request { method, .. } => {
                let message = &message;
                self.on_request(method, Request { now, from, message }, out);
            }
            StartLine::Response { status, .. } => self.on_response(now, status, &message),
        }
    }

    /// Sends what is due.
    pub fn handle_timeout(&mut self, now: Duration, out: &mut Outbox) {
        self.queue.flush(now, out);
        while let Some(slot) = self
            .timers
            .pop(now, &mut self.calls.slots, |call| &mut call.alarm)
        {
            self.on_alarm(now, slot, out);
        }
    }

    /// When [`Self::handle_timeout`] wants to be called next.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        [self.queue.deadline(), self.timers.deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    /// What was counted since the start.
    #[must_use]
    pub fn stats(&self) -> ServerStats {
        self.stats
    }

    /// Calls from their INVITE to their BYE.
    #[must_use]
    pub fn open_calls(&self) -> usize {
        self.calls.open()
    }

    fn on_request(&mut self, method: Method<'_>, request: Request<'_>, out: &mut Outbox) {
        let Request { now, message, .. } = request;
        let (Ok(call_id), Ok(tag)) = (message.call_id(), message.to_tag()) else {
            return;
        };
        match (method, tag) {
            (Method::Ack, Some(tag)) => self.on_ack(now, self.calls.by_tag(tag)),
            (Method::Ack, None) => {}
            (Method::Invite, None) => self.on_invite(call_id, request, out),
            (Method::Cancel, _) => self.on_cancel(call_id, request, out),
            (Method::Bye, tag) => {
                let found = tag.map_or(Found::Unknown, |tag| self.calls.by_tag(tag));
                self.on_bye(found, request, out);
            }
            (_, Some(tag)) => {
                let known = matches!(self.calls.by_tag(tag), Found::Open(_));
                self.on_other(known, request, out);
            }
            (_, None) => self.on_other(true, request, out),
        }
    }

    fn on_invite(&mut self, call_id: &[u8], request: Request<'_>, out: &mut Outbox) {
        let Request { now, from, message } = request;
        match self.calls.by_call_id(call_id) {
            Found::Open(slot) => {
                self.stats.repeated += 1;
                return self.repeat_response(slot, out);
            }
            Found::Ended => {
                self.stats.repeated += 1;
                return;
            }
            Found::Unknown => {}
        }
        self.stats.invites += 1;
        let slot = self.calls.insert(now, call_id, from);
        let tag = self.calls.tag(slot);
        let call = &mut self.calls.slots[slot as usize];
        fill_headers(
            &mut call.headers,
            message,
            from,
            tag.as_str(),
            &self.contact,
        );
        if let Some(Ok(contact)) = message.contacts().next() {
            call.contact.extend_from_slice(contact.uri);
        }
        let service = self.config.service.invite.sample(&mut self.rng);
        let ready = self.queue.serve(now, service);
        self.stall(now);
        self.wait_until(now, ready, slot, out);
    }

    fn stall(&mut self, now: Duration) {
        if let Some(stall) = self.config.stall
            && self.stats.invites == stall.first + self.stats.stalls * stall.every
        {
            self.stats.stalls += 1;
            self.queue.serve(now, stall.lasting);
        }
    }

    /// Lets the call go on when `due` has come, which may be at once.
    fn wait_until(&mut self, now: Duration, due: Duration, slot: u32, out: &mut Outbox) {
        if due <= now {
            return self.on_alarm(now, slot, out);
        }
        let alarm = &mut self.calls.slots[slot as usize].alarm;
        self.timers.set(slot, alarm, due);
    }

    fn on_alarm(&mut self, now: Duration, slot: u32, out: &mut Outbox) {
        let call = &mut self.calls.slots[slot as usize];
        let over = now >= call.give_up;
        match call.phase {
            Phase::Queued => {
                call.phase = Phase::Ringing;
                self.send_response(slot, out);
                let ringing = self.config.ringing.sample(&mut self.rng);
                self.wait_until(now, now.saturating_add(ringing), slot, out);
            }
            Phase::Ringing => {
                self.stats.answered += 1;
                self.finish(now, slot, Phase::Answered, out);
            }
            Phase::Answered if over => {
                self.stats.unconfirmed += 1;
                self.finish(now, slot, Phase::Leaving, out);
            }
            Phase::Refused | Phase::Leaving if over => self.calls.remove(now, slot),
            Phase::Answered | Phase::Refused | Phase::Leaving => {
                call.interval = (call.interval * 2).min(T2);
                self.timers
                    .set(slot, &mut call.alarm, call.give_up.min(now + call.interval));
                self.repeat_response(slot, out);
            }
            Phase::Vacant | Phase::Confirmed => {}
        }
    }

    /// Sends what `phase` sends until it is acknowledged.
    fn finish(&mut self, now: Duration, slot: u32, phase: Phase, out: &mut Outbox) {
        let call = &mut self.calls.slots[slot as usize];
        call.phase = phase;
        call.interval = T1;
        call.give_up = now + PATIENCE;
        self.timers.set(slot, &mut call.alarm, now + T1);
        self.send_response(slot, out);
    }

    fn repeat_response(&mut self, slot: u32, out: &mut Outbox) {
        if !matches!(
            self.calls.slots[slot as usize].phase,
            Phase::Queued | Phase::Confirmed
        ) {
            self.stats.retransmissions += 1;
            self.send_response(slot, out);
        }
    }

    /// Sends the last response of the INVITE, or the BYE of a call that is being left.
    fn send_response(&self, slot: u32, out: &mut Outbox) {
        let call = &self.calls.slots[slot as usize];
        let (status, end) = match call.phase {
            Phase::Ringing => (180, NO_BODY),
            Phase::Answered => (200, &*self.answer),
            Phase::Refused => (487, NO_BODY),
            Phase::Leaving => return self.send_bye(slot, out),
            Phase::Vacant | Phase::Queued | Phase::Confirmed => return,
        };
        out.send(0, call.peer, |out| {
            put_status_line(out, status);
            out.extend_from_slice(&call.headers);
            out.extend_from_slice(end);
        });
    }

    fn on_ack(&mut self, now: Duration, found: Found) {
        let Found::Open(slot) = found else { return };
        let call = &mut self.calls.slots[slot as usize];
        match call.phase {
            Phase::Answered => {
                call.phase = Phase::Confirmed;
                call.alarm.stop();
                self.calls.shed(slot);
            }
            Phase::Refused => self.calls.remove(now, slot),
            _ => {}
        }
    }

    /// RFC 3261 §9.2.
    fn on_cancel(&mut self, call_id: &[u8], request: Request<'_>, out: &mut Outbox) {
        let Request { now, from, message } = request;
        let Found::Open(slot) = self.calls.by_call_id(call_id) else {
            return self.reply(now, 481, request, out);
        };
        let tag = self.calls.tag(slot);
        out.send(0, from, |out| {
            put_reply(message, from, 200, tag.as_str(), out)
        });
        self.refuse(now, slot, out);
    }

    /// Answers an INVITE that has no final response yet with 487.
    fn refuse(&mut self, now: Duration, slot: u32, out: &mut Outbox) {
        if matches!(
            self.calls.slots[slot as usize].phase,
            Phase::Queued | Phase::Ringing
        ) {
            self.stats.cancelled += 1;
            self.finish(now, slot, Phase::Refused, out);
        }
    }

    fn on_bye(&mut self, found: Found, request: Request<'_>, out: &mut Outbox) {
        let now = request.now;
        let service = self.config.service.bye.sample(&mut self.rng);
        let ready = self.queue.serve(now, service);
        let status = if found == Found::Unknown { 481 } else { 200 };
        self.reply(ready, status, request, out);
        match found {
            Found::Open(slot) => self.end(now, slot, out),
            Found::Ended => self.stats.repeated += 1,
            Found::Unknown => {}
        }
    }

    fn end(&mut self, now: Duration, slot: u32, out: &mut Outbox) {
        match self.calls.slots[slot as usize].phase {
            Phase::Answered | Phase::Confirmed => {
                self.stats.byes += 1;
                self.calls.remove(now, slot);
            }
            _ => self.refuse(now, slot, out),
        }
    }

    fn on_other(&mut self, known: bool, request: Request<'_>, out: &mut Outbox) {
        self.stats.others += u64::from(known);
        let service = self.config.service.other.sample(&mut self.rng);
        let ready = self.queue.serve(request.now, service);
        self.reply(ready, if known { 200 } else { 481 }, request, out);
    }

    fn reply(&mut self, ready: Duration, status: u16, request: Request<'_>, out: &mut Outbox) {
        let Request { now, from, message } = request;
        self.stats.strangers += u64::from(status == 481);
        self.queue.send_at(ready, now, from, out, |out| {
            put_reply(message, from, status, &self.tag, out)
        });
    }

    /// Ends a call that was never acknowledged (RFC 3261 §13.3.1.4).
    fn send_bye(&self, slot: u32, out: &mut Outbox) {
        let call = &self.calls.slots[slot as usize];
        let branch = self.calls.tag(slot);
        let mut bytes = Vec::new();
        if let Some(to) = write_bye(
            &call.headers,
            &call.contact,
            self.config.address,
            branch.as_str(),
            &mut bytes,
        ) {
            out.send(0, to, |out| out.extend_from_slice(&bytes));
        }
    }

    /// Only BYEs of this server have responses.
    fn on_response(&mut self, now: Duration, status: u16, message: &Message<'_>) {
        let Ok(call_id) = message.call_id() else {
            return;
        };
        if let Found::Open(slot) = self.calls.by_call_id(call_id)
            && self.calls.slots[slot as usize].phase == Phase::Leaving
            && status >= 200
        {
            self.calls.remove(now, slot);
        }
    }
}

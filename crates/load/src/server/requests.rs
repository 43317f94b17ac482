//! What a request does to a call.

use std::{net::SocketAddr, time::Duration};

use sip::{Message, Method};

use super::{
    Job, Server, Then,
    calls::{Found, Handle, Phase},
    reply::{fill_headers, put_registered, put_reply},
};
use crate::Outbox;

/// A request that has come in.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) now: Duration,
    pub(super) from: SocketAddr,
    pub(super) message: &'a Message<'a>,
}

impl Server {
    pub(super) fn on_request(
        &mut self,
        method: Method<'_>,
        request: Request<'_>,
        out: &mut Outbox,
    ) {
        let message = request.message;
        let (Ok(call_id), Ok(tag)) = (message.call_id(), message.to_tag()) else {
            return;
        };
        match (method, tag) {
            (Method::Ack, Some(tag)) => self.on_ack(tag, request),
            (Method::Ack, None) => {}
            (Method::Invite, None) => self.on_invite(call_id, request, out),
            (Method::Invite, Some(tag)) => self.on_reinvite(tag, request, out),
            (Method::Cancel, _) => self.on_cancel(call_id, request, out),
            (Method::Bye, tag) => self.on_bye(tag, request, out),
            (_, Some(tag)) => {
                let known = matches!(self.calls.by_tag(tag), Found::Open(_));
                self.on_other(known, request, out);
            }
            (Method::Register, None) => self.on_register(request, out),
            (_, None) => self.on_other(true, request, out),
        }
    }

    fn on_invite(&mut self, call_id: &[u8], request: Request<'_>, out: &mut Outbox) {
        let Request { now, from, .. } = request;
        match self.calls.by_call_id(call_id) {
            Found::Open(handle) => {
                return self.on_repeated(now, Then::Repeat(handle), out);
            }
            Found::Ended => {
                self.stats.repeated += 1;
                return;
            }
            Found::Unknown => {}
        }
        self.stats.invites += 1;
        self.stats
            .occupancy
            .saturating_record(self.processor.jobs() as u64);
        let handle = self.calls.insert(now, call_id, from);
        self.take_up(handle, Phase::Queued, request, out);
    }

    /// RFC 3261 §14.2.
    fn on_reinvite(&mut self, tag: &[u8], request: Request<'_>, out: &mut Outbox) {
        let Found::Open(handle) = self.calls.by_tag(tag) else {
            return self.on_other(false, request, out);
        };
        let call = &self.calls.slots[handle.slot as usize];
        if call.phase == Phase::HangingUp {
            return self.on_other(false, request, out);
        }
        let is_new = request
            .message
            .cseq()
            .is_ok_and(|cseq| cseq.number > call.cseq);
        // Who renews a call has its 200, even if the ACK is still on its way.
        if is_new && matches!(call.phase, Phase::Answered | Phase::Confirmed) {
            self.keep_first_headers(handle.slot);
            self.take_up(handle, Phase::Renewing, request, out);
        } else {
            self.on_repeated(request.now, Then::Repeat(handle), out);
        }
    }

    /// Puts an INVITE before the processor.
    fn take_up(&mut self, handle: Handle, phase: Phase, request: Request<'_>, out: &mut Outbox) {
        let Request { now, from, message } = request;
        let tag = self.calls.tag(handle.slot);
        let call = self.calls.renew(handle.slot);
        call.phase = phase;
        call.peer = from;
        call.cseq = message.cseq().map_or(0, |cseq| cseq.number);
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
        let work = self.config.service.invite.sample(&mut self.rng);
        let waits = !self.is_prompt(now, work);
        if waits && self.config.trying && self.processor.resumes_at() <= now {
            out.send(0, from, |out| put_reply(message, from, 100, "", out));
        }
        self.work(now, work, Then::Answer(handle), out);
    }

    /// A BYE of the server's own goes by the route of the first INVITE. RFC 3261 §12.2
    fn keep_first_headers(&mut self, slot: u32) {
        let call = &mut self.calls.slots[slot as usize];
        if call.first_headers.is_empty() {
            call.first_headers.extend_from_slice(&call.headers);
        }
    }

    fn on_ack(&mut self, tag: &[u8], request: Request<'_>) {
        let slot = match self.calls.by_tag(tag) {
            Found::Open(handle) => handle.slot,
            Found::Ended => return,
            Found::Unknown => {
                self.stats.strangers += u64::from(tag != self.tag.as_bytes());
                return;
            }
        };
        let call = &mut self.calls.slots[slot as usize];
        match call.phase {
            Phase::Answered if request.message.cseq().is_ok_and(|c| c.number == call.cseq) => {
                call.phase = Phase::Confirmed;
                match self.config.hang_up {
                    Some(law) => {
                        let due = request.now.saturating_add(law.sample(&mut self.rng));
                        self.timers.set(slot, &mut call.alarm, due);
                        self.keep_first_headers(slot);
                    }
                    None => {
                        call.alarm.stop();
                        self.calls.shed(slot);
                    }
                }
            }
            Phase::Refused => self.calls.remove(request.now, slot),
            _ => {}
        }
    }

    /// RFC 3261 §9.2.
    fn on_cancel(&mut self, call_id: &[u8], request: Request<'_>, out: &mut Outbox) {
        match self.calls.by_call_id(call_id) {
            Found::Open(handle) => {
                let then = Then::Refuse(handle);
                self.reply(Duration::ZERO, 200, then, request, out);
            }
            Found::Ended | Found::Unknown => {
                self.reply(Duration::ZERO, 481, Then::Nothing, request, out);
            }
        }
    }

    fn on_bye(&mut self, tag: Option<&[u8]>, request: Request<'_>, out: &mut Outbox) {
        match tag.map_or(Found::Unknown, |tag| self.calls.by_tag(tag)) {
            Found::Open(handle) => {
                let call = &mut self.calls.slots[handle.slot as usize];
                if std::mem::replace(&mut call.is_closing, true) {
                    return self.on_repeated(request.now, Then::Nothing, out);
                }
                let work = self.config.service.bye.sample(&mut self.rng);
                self.reply(work, 200, Then::End(handle), request, out);
            }
            Found::Ended => {
                self.stats.repeated += 1;
                let work = self.config.repeated.sample(&mut self.rng);
                self.reply(work, 200, Then::Nothing, request, out);
            }
            Found::Unknown => {
                let work = self.config.service.bye.sample(&mut self.rng);
                self.reply(work, 481, Then::Nothing, request, out);
            }
        }
    }

    /// Grants what is asked for, without keeping it (RFC 3261 §10.3).
    fn on_register(&mut self, request: Request<'_>, out: &mut Outbox) {
        self.stats.others += 1;
        let Request { now, from, message } = request;
        let work = self.config.service.other.sample(&mut self.rng);
        if self.is_prompt(now, work) {
            return out.send(0, from, |out| put_registered(message, from, &self.tag, out));
        }
        let mut bytes = self.spare.pop().unwrap_or_default();
        put_registered(message, from, &self.tag, &mut bytes);
        let reply = Some((from, bytes));
        let then = Then::Nothing;
        self.processor.begin(now, work, Job { reply, then });
    }

    fn on_other(&mut self, known: bool, request: Request<'_>, out: &mut Outbox) {
        self.stats.others += u64::from(known);
        let work = self.config.service.other.sample(&mut self.rng);
        let status = if known { 200 } else { 481 };
        self.reply(work, status, Then::Nothing, request, out);
    }
}

//! What a response does to a call.

use std::time::Duration;

use sip::{Message, Method};

use super::{CallName, Caller, Phase, config::Plan, wire};
use crate::{
    Outbox,
    stats::{Failure, record},
};

impl Caller {
    pub(super) fn on_response(
        &mut self,
        now: Duration,
        socket: usize,
        status: u16,
        message: &Message<'_>,
        out: &mut Outbox,
    ) {
        let (Some(name), Ok(cseq)) = (CallName::of(message), message.cseq()) else {
            self.stats.strays += 1;
            return;
        };
        match cseq.method {
            Method::Invite if cseq.number <= self.config.last_opening() => {
                if status >= 300 {
                    self.acknowledge_refusal(socket, name, cseq.number, message, out);
                }
                let is_open = self.state_of(name) != Phase::Vacant;
                if is_open && self.calls[name.slot as usize].opening() != cseq.number {
                    self.stats.strays += u64::from(status >= 200);
                    return;
                }
                self.on_invite_response(now, name, status, message, out);
            }
            Method::Invite => self.on_reinvite_response(now, name, cseq.number, status, out),
            Method::Cancel => self.on_cancel_response(name, status),
            Method::Bye if self.state_of(name) == Phase::Closing => {
                self.on_bye_response(now, name.slot, status);
            }
            _ => self.stats.strays += u64::from(status >= 200),
        }
    }

    fn on_invite_response(
        &mut self,
        now: Duration,
        name: CallName,
        status: u16,
        message: &Message<'_>,
        out: &mut Outbox,
    ) {
        let slot = name.slot;
        match self.state_of(name) {
            Phase::Calling | Phase::Proceeding => {
                let call = &mut self.calls[slot as usize];
                if status > 100 && !std::mem::replace(&mut call.is_heard, true) {
                    let elapsed = now.saturating_sub(call.began);
                    record(&mut self.stats.first_response_ns, elapsed);
                }
            }
            Phase::Cancelling => {}
            Phase::Holding | Phase::Renewing | Phase::Closing if (200..300).contains(&status) => {
                self.stats.strays += 1;
                let cseq = self.calls[slot as usize].opening();
                return self.send_in_dialog(slot, cseq, |requests| &requests.ack, out);
            }
            _ => {
                self.stats.strays += u64::from(status >= 200);
                return;
            }
        }
        match status {
            ..200 => self.proceed(now, slot, out),
            200..300 => self.confirm(now, slot, message, out),
            487 if self.calls[slot as usize].state == Phase::Cancelling => {
                self.stats.cancelled += 1;
                self.vacate(slot);
            }
            401 | 407 if self.meet(now, slot, message, status, out) => {}
            300.. => self.fail(slot, Failure::Rejected(status)),
        }
    }

    /// Needs no call: a refusal that comes again after its call is gone gets its ACK as well.
    fn acknowledge_refusal(
        &self,
        socket: usize,
        name: CallName,
        cseq: u32,
        refusal: &Message<'_>,
        out: &mut Outbox,
    ) {
        let mut to = Vec::new();
        wire::put_to(&mut to, refusal);
        let mut fill = name.fill(self.config.users, cseq);
        fill.lines = &to;
        out.send(socket, self.config.proxy, |out| {
            let opening = self.requests[socket].opening(cseq);
            opening.ack_of_refusal.write(&fill, out);
        });
    }

    fn proceed(&mut self, now: Duration, slot: u32, out: &mut Outbox) {
        let call = &mut self.calls[slot as usize];
        match (call.state, call.plan) {
            (Phase::Cancelling, _) => {}
            (_, Plan::Cancel) => self.request(slot, Phase::Cancelling, now, now, out),
            _ => {
                call.state = Phase::Proceeding;
                call.give_up = self.config.retransmission.rings_until(now, call.give_up);
                self.timers.set(slot, &mut call.alarm, call.give_up);
            }
        }
    }

    fn confirm(&mut self, now: Duration, slot: u32, answer: &Message<'_>, out: &mut Outbox) {
        let call = &mut self.calls[slot as usize];
        if call.state != Phase::Cancelling {
            let elapsed = now.saturating_sub(call.began);
            record(&mut self.stats.answer_ns, elapsed);
            self.cohorts.answer(call.member, elapsed);
        }
        call.dialog.confirm(answer, self.config.proxy);
        let cseq = self.calls[slot as usize].opening();
        self.send_in_dialog(slot, cseq, |requests| &requests.ack, out);
        match self.calls[slot as usize].plan {
            // The CANCEL came too late (RFC 3261 §9.1).
            Plan::Cancel => self.hang_up(now, now, slot, out),
            Plan::Renew => {
                let holding = self.config.holding.sample(&mut self.rng);
                self.calls[slot as usize].rest = holding / 2;
                self.hold(now, slot, holding - holding / 2, out);
            }
            Plan::Talk | Plan::Vanish => {
                let holding = self.config.holding.sample(&mut self.rng);
                self.hold(now, slot, holding, out);
            }
        }
    }

    /// RFC 3261 §14.1.
    fn on_reinvite_response(
        &mut self,
        now: Duration,
        name: CallName,
        cseq: u32,
        status: u16,
        out: &mut Outbox,
    ) {
        let slot = name.slot;
        let state = self.state_of(name);
        match status {
            ..200 if state == Phase::Renewing => {
                let call = &mut self.calls[slot as usize];
                call.give_up = self.config.retransmission.rings_until(now, call.give_up);
                self.timers.set(slot, &mut call.alarm, call.give_up);
            }
            ..200 => {}
            _ if state == Phase::Vacant => self.stats.strays += 1,
            200..300 => {
                self.send_in_dialog(slot, cseq, |requests| &requests.ack, out);
                if state != Phase::Renewing {
                    self.stats.strays += 1;
                    return;
                }
                let call = &mut self.calls[slot as usize];
                let elapsed = now.saturating_sub(call.began);
                record(&mut self.stats.reinvite_ns, elapsed);
                call.plan = Plan::Talk;
                let rest = call.rest;
                self.hold(now, slot, rest, out);
            }
            300.. => {
                self.send_in_dialog(slot, cseq, |requests| &requests.ack_of_reinvite, out);
                if state == Phase::Renewing {
                    self.fail_reinvite(now, slot, Failure::ReinviteRejected(status), out);
                }
            }
        }
    }

    /// After a final response to the CANCEL, that of the INVITE is waited for.
    fn on_cancel_response(&mut self, name: CallName, status: u16) {
        if self.state_of(name) == Phase::Cancelling && status >= 200 {
            let call = &mut self.calls[name.slot as usize];
            self.timers.set(name.slot, &mut call.alarm, call.give_up);
        }
    }

    fn on_bye_response(&mut self, now: Duration, slot: u32, status: u16) {
        let call = &self.calls[slot as usize];
        match (status, call.failure) {
            (..200, _) => {}
            (200..300, None) => {
                record(&mut self.stats.bye_ns, now.saturating_sub(call.began));
                self.carry(slot);
            }
            (_, Some(failure)) => self.fail(slot, failure),
            (_, None) => self.fail(slot, Failure::ByeRejected(status)),
        }
    }
}

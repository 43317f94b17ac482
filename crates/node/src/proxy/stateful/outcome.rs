//! What becomes of a held request: RFC 3261 §16.7 and §16.8.

use sip::Method;
use transaction::Key;

use super::{
    Stateful,
    branches::{Failure, client_id},
    context::{ContextId, Phase},
};
use crate::{
    context::Context,
    proxy::step::Step,
    stats::Event,
    wire::{
        branch::Purpose,
        relay,
        reply::{self, Reply},
        response::Response,
    },
    work::Progress,
};

impl Stateful {
    /// A response to a request that was sent on branch `number`. False: no transaction waits for it.
    pub(in crate::proxy) fn on_response(
        &mut self,
        step: &mut Step<'_>,
        number: u8,
        response: &Response<'_>,
    ) -> bool {
        if self.transactions.is_empty() {
            return false;
        }
        let id = client_id(response.branch.id, number);
        let key = Key::client(id, response.cseq.method);
        let Some(id) = self.transactions.find(key) else {
            return false;
        };
        let owner = self.transactions.owner(id);
        let is_held = matches!(response.branch.purpose, Purpose::Held { .. });
        if owner.is_some_and(|place| self.contexts.get(place).mark.is_none() != is_held) {
            return false;
        }
        let (now, message) = (step.cx.now, response.message);
        let is_news = self.transactions.on_response(now, id, message, step.out);
        if let Some(place) = owner.filter(|_| is_news)
            && let Some(number) = self.contexts.get(place).number_of(id)
        {
            self.on_news(step, place, number, response);
        }
        true
    }

    /// A response moves a context on.
    fn on_news(
        &mut self,
        step: &mut Step<'_>,
        place: ContextId,
        number: usize,
        response: &Response<'_>,
    ) {
        let context = self.contexts.get_mut(place);
        let branch = &mut context.branches[number];
        branch.is_answered = true;
        let was_final = branch.is_final;
        branch.is_final |= response.is_final();
        if let Some(open) = context.record.filter(|_| !was_final) {
            step.work.note_response(step.cx, open, response);
        }
        if !response.is_final() {
            self.on_provisional(step, place, was_final, response);
        } else if response.is_success() {
            self.on_success(step, place, response);
        } else if !was_final {
            self.on_failure(step, place, number, response);
        }
    }

    /// RFC 3261 §16.7 step 4: all but 100 go back, for an INVITE. RFC 4320 §4.1
    fn on_provisional(
        &mut self,
        step: &mut Step<'_>,
        place: ContextId,
        was_given_up: bool,
        response: &Response<'_>,
    ) {
        let context = self.contexts.get(place);
        if was_given_up || context.is_over() {
            return;
        }
        if let Some(open) = context.record {
            step.work.get_mut(open).progress = Progress::Provisional;
        }
        if context.is_invite && response.status > 100 {
            self.pass_back(step, place, response);
        }
    }

    /// RFC 3261 §16.7 step 5: each 2xx of an INVITE goes back, of other requests the first; what
    /// is left of the search ends, step 10.
    fn on_success(&mut self, step: &mut Step<'_>, place: ContextId, response: &Response<'_>) {
        let (cx, calls) = (step.cx, &mut step.work.calls);
        let context = self.contexts.get(place);
        let is_first = !context.is_over();
        if context.record.is_some() {
            self.close_record(step, place, response);
        } else if response.cseq.method == Method::Invite
            && let Some(session) = calls.find(context.key)
        {
            calls.follow(cx, session, response);
        }
        self.pass_back(step, place, response);
        if is_first {
            self.count_outcome(cx, place, response.status);
            self.contexts.stop_search(place, Phase::Over);
            self.cancel_branches(step, place);
        }
    }

    fn on_failure(
        &mut self,
        step: &mut Step<'_>,
        place: ContextId,
        number: usize,
        response: &Response<'_>,
    ) {
        let failure = match response.status {
            430 => Some(self.on_dead_flow(step, place, number)),
            408 => Some(Failure::FlowFailed),
            503 => Some(Failure::Refused),
            _ => None,
        };
        if failure.is_some_and(|failure| self.next_address(step, place, number, failure)) {
            return;
        }
        if response.status == 503
            && let Some(open) = self.contexts.get(place).record
        {
            step.work.back_off(step.cx, open, response);
            if self.fail_over(step, place) {
                return self.advance(step, place);
            }
        }
        if response.status == 400 && self.try_without_offer(step, place, number) {
            return self.advance(step, place);
        }
        self.close_record(step, place, response);
        if response.status == 430 && self.contexts.get(place).is_look_up() {
            // RFC 5626 §11.5: no endpoint shall get it.
            self.contexts.get_mut(place).best.offer_own(480);
            return self.advance(step, place);
        }
        let edits = &mut self.edits;
        let room = step.dynamic.room(step.cx, response);
        self.contexts.offer(place, response.message, |out| {
            relay::back(step.cx, edits, response, room);
            edits.apply(response.message.bytes(), out);
        });
        let context = self.contexts.get(place);
        if response.status >= 600 && context.is_invite && !context.is_over() {
            self.contexts.stop_search(place, Phase::LastTargets);
            self.cancel_branches(step, place);
        }
        self.advance(step, place);
    }

    /// The flow of a branch is dead: so is its binding, if it is one. RFC 5626 §7
    pub(super) fn on_dead_flow(
        &mut self,
        step: &mut Step<'_>,
        place: ContextId,
        number: usize,
    ) -> Failure {
        step.cx.stats.count(Event::FlowFailed, 1);
        let context = self.contexts.get(place);
        if let Some(target) = &context.branches[number].target {
            self.removals
                .remove(step.cx, &context.aor, &target.bound, step.out);
        }
        Failure::FlowFailed
    }

    /// A branch has no final response: RFC 3261 §16.8 has a timeout be a 408, §16.9 an unreachable
    /// next hop a 503.
    pub(super) fn on_branch_end(&mut self, step: &mut Step<'_>, place: ContextId, status: u16) {
        let record = self.contexts.get(place).record;
        if status == 408 {
            step.cx.stats.count(Event::TimedOut, 1);
            if let Some(open) = record {
                step.work.time_out(step.cx, open);
            }
        }
        if !self.fail_over(step, place) {
            self.contexts.get_mut(place).best.offer_own(status);
        }
        self.advance(step, place);
    }

    /// The search is over: the best response goes back. A 503 would say that we are the one to be
    /// left alone: RFC 3261 §16.7 step 6.
    pub(super) fn finish(&mut self, step: &mut Step<'_>, place: ContextId) {
        self.drop_record(step, place);
        self.contexts.stop_search(place, Phase::Over);
        let context = self.contexts.get(place);
        self.count_outcome(step.cx, place, context.best.status());
        match (context.best.status(), context.server) {
            (0 | 503, _) => self.reply(step, place, &Reply::new(500)),
            (status, Some(server)) if context.best.is_received() => {
                let (best, edits) = (&context.best, &mut self.edits);
                let write = |out: &mut Vec<u8>| best.write(edits, out);
                self.transactions
                    .respond(step.cx.now, server, status, step.out, write);
            }
            (_, None) => {}
            (status, Some(_)) => self.reply(step, place, &Reply::new(status)),
        }
        self.contexts.clear_best(place);
    }

    fn count_outcome(&self, cx: Context<'_>, place: ContextId, status: u16) {
        if self.contexts.get(place).begins_call {
            cx.count_outcome(status);
        }
    }

    /// Answers a held request ourselves.
    pub(super) fn reply(&mut self, step: &mut Step<'_>, place: ContextId, reply: &Reply) {
        let cx = step.cx;
        let context = self.contexts.get(place);
        let (Some(kept), Some(server)) = (&context.request, context.server) else {
            return;
        };
        let Some(message) = kept.message(cx.snapshot) else {
            return;
        };
        let datagram = kept.datagram();
        let mut fits = false;
        let write = |out: &mut Vec<u8>| {
            fits = reply::write_within(cx, &datagram, &message, reply, out);
        };
        self.transactions
            .respond(cx.now, server, reply.status, step.out, write);
        reply::count(cx, &datagram, &message, reply, fits);
    }

    /// Sends a response back as it is, but for our Via.
    fn pass_back(&mut self, step: &mut Step<'_>, place: ContextId, response: &Response<'_>) {
        let Some(server) = self.contexts.get(place).server else {
            return;
        };
        let (cx, edits) = (step.cx, &mut self.edits);
        let room = step.dynamic.room(cx, response);
        let write = |out: &mut Vec<u8>| {
            relay::back(cx, edits, response, room);
            edits.apply(response.message.bytes(), out);
        };
        self.transactions
            .respond(step.cx.now, server, response.status, step.out, write);
    }

    /// A final response takes a request off the ledger.
    fn close_record(&mut self, step: &mut Step<'_>, place: ContextId, response: &Response<'_>) {
        if let Some(open) = self.contexts.get_mut(place).record.take() {
            step.work.complete(step.cx, open, response);
        }
    }

    /// Takes a request off the ledger that has no final response.
    pub(super) fn drop_record(&mut self, step: &mut Step<'_>, place: ContextId) {
        if let Some(open) = self.contexts.get_mut(place).record.take() {
            step.work.abandon(step.cx, open);
        }
    }
}

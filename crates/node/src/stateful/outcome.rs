//! What becomes of a held request: RFC 3261 §16.7 and §16.8.

use sip::{Message, Method};
use transaction::Key;

use super::{branches::client_id, context::Phase};
use crate::{
    io::Outbox,
    node::{Context, State},
    relay,
    request::Refusal,
    response::Response,
    session::NONE,
    stats::{Dropped, Event},
    transaction::Progress,
};

impl State {
    /// A response to a request that was sent on branch `number`. RFC 6026 §7.3: one without a
    /// transaction goes nowhere.
    pub(crate) fn on_held_response(
        &mut self,
        cx: Context<'_>,
        number: u8,
        response: &Response<'_>,
        out: &mut Outbox,
    ) {
        let id = client_id(response.branch.id, number);
        let key = Key::client(id, response.cseq.method);
        let transactions = &mut self.stateful.transactions;
        let Some(id) = transactions.find(key) else {
            return cx.stats.drop_one(Dropped::Unmatched);
        };
        let place = transactions.owner(id);
        if !transactions.on_response(cx.now, id, response.message, out) {
            return;
        }
        let context = self.stateful.contexts.get_mut(place);
        let record = context.record;
        let Some(number) = context.number_of(id) else {
            return;
        };
        let branch = &mut context.branches[number];
        branch.is_answered = true;
        let was_final = branch.is_final;
        branch.is_final |= response.is_final();
        if record != NONE && !was_final {
            self.note_first_response(cx, record, response);
        }
        if !response.is_final() {
            self.on_held_provisional(cx, place, was_final, response, out);
        } else if response.is_success() {
            self.on_held_success(cx, place, response, out);
        } else if !was_final {
            self.on_held_failure(cx, place, number, response, out);
        }
    }

    /// RFC 3261 §16.7 step 4: all but 100 go back, for an INVITE. RFC 4320 §4.1
    fn on_held_provisional(
        &mut self,
        cx: Context<'_>,
        place: u32,
        was_given_up: bool,
        response: &Response<'_>,
        out: &mut Outbox,
    ) {
        let context = self.stateful.contexts.get(place);
        if was_given_up || context.is_over() {
            return;
        }
        if context.record != NONE {
            self.transactions.get_mut(context.record).progress = Progress::Provisional;
        }
        if context.is_invite && response.status > 100 {
            self.pass_held(cx, place, response, out);
        }
    }

    /// RFC 3261 §16.7 step 5: each 2xx of an INVITE goes back, of other requests the first; what
    /// is left of the search ends, step 10.
    fn on_held_success(
        &mut self,
        cx: Context<'_>,
        place: u32,
        response: &Response<'_>,
        out: &mut Outbox,
    ) {
        let context = self.stateful.contexts.get(place);
        let is_first = !context.is_over();
        if context.record != NONE {
            self.close_record(cx, place, response);
        } else if response.cseq.method == Method::Invite
            && let Some(entry) = self.sessions.find(context.key)
        {
            self.follow_dialog(cx, entry, response);
        }
        self.pass_held(cx, place, response, out);
        if is_first {
            self.stateful.contexts.stop_search(place, Phase::Over);
            self.cancel_branches(cx, place, out);
        }
    }

    fn on_held_failure(
        &mut self,
        cx: Context<'_>,
        place: u32,
        number: usize,
        response: &Response<'_>,
        out: &mut Outbox,
    ) {
        if response.status == 503 && self.next_address(cx, place, number, out) {
            return;
        }
        let record = self.stateful.contexts.get(place).record;
        if response.status == 503 && record != NONE {
            self.back_off(cx, record, response);
            if self.next_server(cx, place, out) {
                return self.advance(cx, place, out);
            }
        }
        self.close_record(cx, place, response);
        let context = self.stateful.contexts.get_mut(place);
        let edits = &mut self.edits;
        context.best.offer(response.message, |out| {
            edits.clear();
            edits.pop_via(response.message, &response.via);
            edits.apply(response.message.bytes(), out);
        });
        if response.status >= 600 && context.is_invite && !context.is_over() {
            self.stateful
                .contexts
                .stop_search(place, Phase::LastTargets);
            self.cancel_branches(cx, place, out);
        }
        self.advance(cx, place, out);
    }

    /// A branch had no final response in time: RFC 3261 §16.8 has that be a 408.
    pub(super) fn on_branch_timeout(&mut self, cx: Context<'_>, place: u32, out: &mut Outbox) {
        cx.stats.count(Event::TimedOut, 1);
        let record = self.stateful.contexts.get(place).record;
        if record != NONE {
            let progress = self.transactions.get(record).progress;
            if progress == Progress::Unanswered {
                self.blame(cx, record);
            }
            if progress != Progress::Provisional {
                self.count_failed(cx, record);
            }
        }
        if !self.next_server(cx, place, out) {
            self.stateful.contexts.get_mut(place).best.offer_own(408);
        }
        self.advance(cx, place, out);
    }

    /// The search is over: the best response goes back. A 503 would say that we are the one to be
    /// left alone: RFC 3261 §16.7 step 6.
    pub(super) fn finish(&mut self, cx: Context<'_>, place: u32, out: &mut Outbox) {
        self.drop_record(cx, place);
        self.stateful.contexts.stop_search(place, Phase::Over);
        let context = self.stateful.contexts.get_mut(place);
        let mut best = std::mem::take(&mut context.best);
        match best.status() {
            0 | 503 => self.reply_held(cx, place, &Refusal::new(500), out),
            status if best.is_received() => {
                let (transactions, edits) = (&mut self.stateful.transactions, &mut self.edits);
                if context.server != NONE {
                    let write = |out: &mut Vec<u8>| best.write(edits, out);
                    transactions.respond(cx.now, context.server, status, out, write);
                }
            }
            status => self.reply_held(cx, place, &Refusal::new(status), out),
        }
        best.clear();
        self.stateful.contexts.get_mut(place).best = best;
    }

    /// Answers a held request ourselves.
    pub(super) fn reply_held(
        &mut self,
        cx: Context<'_>,
        place: u32,
        refusal: &Refusal,
        out: &mut Outbox,
    ) {
        let context = self.stateful.contexts.get(place);
        let datagram = context.request.datagram();
        let message = Message::parse(datagram.bytes, cx.snapshot.config().limits.headers);
        let (Ok(message), true) = (message, context.server != NONE) else {
            return;
        };
        cx.stats.reply(refusal.status);
        let transactions = &mut self.stateful.transactions;
        transactions.respond(cx.now, context.server, refusal.status, out, |out| {
            relay::write_reply(cx.snapshot, &datagram, &message, refusal, out);
        });
    }

    /// Sends a response back as it is, but for our Via.
    fn pass_held(
        &mut self,
        cx: Context<'_>,
        place: u32,
        response: &Response<'_>,
        out: &mut Outbox,
    ) {
        let server = self.stateful.contexts.get(place).server;
        if server == NONE {
            return;
        }
        let edits = &mut self.edits;
        let transactions = &mut self.stateful.transactions;
        transactions.respond(cx.now, server, response.status, out, |out| {
            edits.clear();
            edits.pop_via(response.message, &response.via);
            edits.apply(response.message.bytes(), out);
        });
    }

    /// A final response takes a request off the ledger.
    fn close_record(&mut self, cx: Context<'_>, place: u32, response: &Response<'_>) {
        let context = self.stateful.contexts.get_mut(place);
        let record = std::mem::replace(&mut context.record, NONE);
        if record != NONE {
            self.on_final(cx, record, response);
        }
    }

    /// Takes a request off the ledger that has no final response.
    pub(super) fn drop_record(&mut self, cx: Context<'_>, place: u32) {
        let context = self.stateful.contexts.get_mut(place);
        let record = std::mem::replace(&mut context.record, NONE);
        if record == NONE {
            return;
        }
        let closed = self.close(cx, record);
        if let Some(tags) = closed.ends_dialog {
            self.sessions.remove_dialog(closed.session, tags);
        }
        self.settle(cx, closed.session);
    }
}

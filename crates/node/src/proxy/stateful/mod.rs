//! The stateful sender: RFC 3261 §16 on held transactions.
//!
//! A request of a stateful route opens a server transaction and a response context, and at each
//! target a client transaction. Responses and timers move the context on, until the best response
//! goes back. The ledger, the sessions and the servers' health see what they see of the stateless
//! sender.

mod best;
mod branches;
mod context;
mod look_up;
mod outcome;
mod target;

use std::time::Duration;

use sip::{Edits, Message, Method};
use slots::Ticket;
use transaction::{Event as Told, Flow, Key, Notice, Seen, Timing, Transactions};

use self::{
    branches::{Aim, Failure, client_id},
    context::{ContextId, Contexts, Phase, TransactionId},
};
use super::step::Step;
use crate::{
    admission::NotNow,
    calls::SessionId,
    config::Config,
    context::Context,
    control,
    question::Answer,
    registrar::Removals,
    stats::Event,
    wire::{
        mark::Mark,
        quote::Quote,
        reply::{self, Reply},
        request::Request,
        token::Direction,
    },
    work::{Course, Holder, Offer, OpenId},
};

/// How much more than a request somebody may get for it who may not have sent it.
const AMPLIFICATION: usize = 2;

/// What a worker holds of stateful routes.
#[derive(Debug)]
pub(super) struct Stateful {
    transactions: Transactions<ContextId>,
    contexts: Contexts,
    removals: Removals,
    edits: Edits,
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// With all that it was for.
    Done,
    /// A client's without a final response, which counts as one of this status.
    Silent(u16),
    /// A client's whose server wants no more, and gave no sign that it has it.
    Withheld,
}

impl Stateful {
    pub(super) fn new(config: &Config, limit: usize, now: Duration) -> Self {
        let message_bytes = config.limits.message_bytes;
        Self {
            transactions: Transactions::new(limit, message_bytes, timing(config), now),
            contexts: Contexts::new(limit, config.limits.message_bytes, now),
            removals: Removals::new(now),
            edits: Edits::default(),
        }
    }

    /// There is a new configuration.
    pub(super) fn renew(&mut self, config: &Config) {
        self.transactions.set_timing(timing(config));
    }

    /// Whether there is room for a request and its first branch.
    pub(super) fn room(&self) -> Result<(), NotNow> {
        if self.transactions.has_room(2) && self.contexts.has_room() {
            Ok(())
        } else {
            Err(NotNow::TransactionsFull)
        }
    }

    pub(super) fn len(&self) -> usize {
        self.transactions.len()
    }

    /// Memory that their messages take, in bytes.
    pub(super) fn kept_bytes(&self) -> usize {
        self.transactions.kept_bytes() + self.contexts.kept_bytes()
    }

    /// Requests without an answer yet that go where their users are.
    pub(super) fn looked_up(&self) -> usize {
        self.contexts.looked_up()
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        [
            self.transactions.deadline(),
            self.contexts.deadline(),
            self.removals.deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Whether a request is of a transaction that is held, which then has dealt with it.
    pub(super) fn absorb(&mut self, step: &mut Step<'_>, request: &Request<'_>) -> bool {
        if self.transactions.is_empty() {
            return false;
        }
        let method = match request.method {
            Method::Cancel => Method::Invite,
            method => method,
        };
        let key = Key::server(request.id, method);
        let Some(id) = self.transactions.find(key) else {
            return false;
        };
        let now = step.cx.now;
        match request.method {
            Method::Cancel => {
                self.cancel(step, request, id);
                true
            }
            Method::Ack => {
                self.believe(step.cx, request, id);
                self.transactions.on_request(now, id, true, step.out) == Seen::Absorbed
            }
            _ => {
                step.cx.stats.count(Event::Retransmission, 1);
                self.transactions.on_request(now, id, false, step.out);
                true
            }
        }
    }

    /// Only who got a failure can acknowledge it with its To tag.
    fn believe(&self, cx: Context<'_>, ack: &Request<'_>, id: TransactionId) {
        let headers_max = cx.snapshot.config().limits.headers;
        let failure = Message::parse(self.transactions.last_sent(id), headers_max);
        let tag = failure.as_ref().map(Message::to_tag);
        if ack.to_tag.is_some_and(|tag| !tag.is_empty()) && tag == Ok(Ok(ack.to_tag)) {
            cx.hears_us(self.transactions.flow(id));
        }
    }

    /// Takes a request whose course is known and sends it on its first branch.
    ///
    /// # Errors
    /// There is no room; nothing was opened.
    pub(super) fn hold(
        &mut self,
        step: &mut Step<'_>,
        request: &Request<'_>,
        course: &Course,
        session: SessionId,
        mark: Option<Mark>,
    ) -> Result<(), NotNow> {
        let cx = step.cx;
        let place = self.open_context(cx, request)?;
        let open = step
            .work
            .open(cx, request, course, session, Holder::Stateful);
        self.start(step, place, request, course, open, mark);
        Ok(())
    }

    /// Takes a request that was passed on without state before, because the node that held it has forgotten it.
    ///
    /// # Errors
    /// There is no room; it is as it was.
    pub(super) fn take_over(
        &mut self,
        step: &mut Step<'_>,
        request: &Request<'_>,
        course: &Course,
        open: OpenId,
    ) -> Result<(), NotNow> {
        let place = self.open_context(step.cx, request)?;
        step.work.hand_over(open);
        self.start(step, place, request, course, open, Some(Mark::Here));
        Ok(())
    }

    fn start(
        &mut self,
        step: &mut Step<'_>,
        place: ContextId,
        request: &Request<'_>,
        course: &Course,
        open: OpenId,
        mark: Option<Mark>,
    ) {
        let cx = step.cx;
        let context = self.contexts.get_mut(place);
        context.record = Some(open);
        context.mark = mark;
        context.may_move = request.is_initial() && course.direction == Direction::ToServer;
        let offers_control = control::offers(cx, course, context.may_move);
        step.work.get_mut(open).offer = Offer::of(offers_control);
        let aim = Aim {
            flow: Some(course.next_hop),
            uri: None,
            path: &[],
            affinity: course.ends(cx, request),
            breadth: context.breadth,
            offers_control,
        };
        self.start_branch(step, place, request, &aim);
        self.start_patience(step, place, course.server);
        self.advance(step, place);
    }

    /// Opens a request's response context and server transaction.
    fn open_context(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
    ) -> Result<ContextId, NotNow> {
        let place = self.contexts.open(request);
        let place = place.ok_or(NotNow::TransactionsFull)?;
        let flow = reply::return_flow(Some(&request.via), request.datagram.flow);
        let key = Key::server(request.id, request.method);
        let server = self.transactions.receive(cx.now, key, flow, place).ok();
        if let Some(server) = server.filter(|_| !request.is_proven() && !cx.has_heard_us(flow)) {
            let bytes = request.datagram.bytes.len();
            self.transactions
                .limit_unasked(server, AMPLIFICATION * bytes);
        }
        let context = self.contexts.get_mut(place);
        context.server = server;
        context.open = usize::from(server.is_some());
        context.is_invite = request.method == Method::Invite;
        context.begins_call = context.is_invite && request.is_initial();
        context.breadth = request.breadth();
        Ok(place)
    }

    /// RFC 3261 §16.10: the CANCEL has its own answer, the INVITE ends by that of its branches. It
    /// is answered anew each time it comes, which takes no transaction.
    fn cancel(&mut self, step: &mut Step<'_>, request: &Request<'_>, id: TransactionId) {
        let (datagram, message) = (&request.datagram, request.message);
        reply::send(step.cx, datagram, message, &Reply::new(200), step.out);
        let Some(place) = self.transactions.owner(id) else {
            return;
        };
        let context = self.contexts.get(place);
        if context.phase.is_look_up() {
            self.end_look_up(step, place, &Reply::new(487));
        } else if !context.is_over() {
            self.contexts.stop_search(place, Phase::LastTargets);
            self.contexts.get_mut(place).best.offer_own(487);
            self.cancel_branches(step, place);
            self.advance(step, place);
        }
    }

    /// The store has answered about a binding whose flow is dead.
    pub(super) fn on_removal(&mut self, step: &mut Step<'_>, ticket: Ticket, answer: Answer) {
        self.removals.on_answer(step.cx, ticket, answer, step.out);
    }

    /// What is due of held transactions.
    pub(super) fn on_timers(&mut self, step: &mut Step<'_>) {
        self.removals.on_timers(step.cx);
        while let Some(told) = self.poll(step) {
            self.on_told(step, told);
        }
        while let Some(place) = self.contexts.pop_due(step.cx.now) {
            if self.contexts.get(place).phase.is_look_up() {
                self.on_silent_look_up(step, place);
            } else {
                self.on_silent_branch(step, place);
            }
        }
    }

    fn poll(&mut self, step: &mut Step<'_>) -> Option<Told<ContextId>> {
        let (cx, out) = (step.cx, &mut *step.out);
        self.transactions
            .poll(cx.now, &mut control::Repeats { cx, out })
    }

    fn on_told(&mut self, step: &mut Step<'_>, told: Told<ContextId>) {
        let Told { id, owner, notice } = told;
        match notice {
            Notice::Trying => self.on_trying(step, owner),
            Notice::TimerC => self.transactions.cancel(step.cx.now, id, step.out),
            Notice::Timeout => self.on_transaction_end(step, owner, id, End::Silent(408)),
            Notice::Withheld => self.on_transaction_end(step, owner, id, End::Withheld),
            Notice::Ended => self.on_transaction_end(step, owner, id, End::Done),
        }
    }

    /// RFC 3261 §16.2: a 100 keeps the caller from repeating what has gone on. Until it has, one answer
    /// is all that a stranger gets. A peer would take us for dead.
    fn on_trying(&mut self, step: &mut Step<'_>, place: ContextId) {
        let context = self.contexts.get_mut(place);
        let from = context.server.map(|server| self.transactions.flow(server));
        let is_stranger = !from.is_some_and(|from| step.cx.snapshot.is_trusted(from));
        if context.phase.is_look_up() && is_stranger {
            context.owes_trying = true;
        } else {
            self.reply(step, place, &Reply::new(100));
        }
    }

    /// Nobody listens where a request went: its branch has failed. False: there is no such branch.
    pub(super) fn on_unreachable(
        &mut self,
        step: &mut Step<'_>,
        number: u8,
        quote: &Quote<'_>,
        flow: Flow,
    ) -> bool {
        let key = Key::client(client_id(quote.branch.id, number), quote.method);
        let Some(id) = self.transactions.find(key) else {
            return false;
        };
        let sent = self.transactions.flow(id);
        // Any connection to the peer was good for it, and the driver tells which it was.
        let connection = sent.connection.and(flow.connection);
        if sent != (Flow { connection, ..flow }) {
            return false;
        }
        let owner = self.transactions.owner(id);
        let is_over = self.transactions.on_transport_error(step.cx.now, id);
        if let Some(place) = owner.filter(|_| is_over) {
            self.on_transaction_end(step, place, id, End::Silent(503));
        }
        true
    }

    /// A transaction is gone.
    fn on_transaction_end(
        &mut self,
        step: &mut Step<'_>,
        place: ContextId,
        id: TransactionId,
        end: End,
    ) {
        let context = self.contexts.get_mut(place);
        context.open -= 1;
        if context.server == Some(id) {
            context.server = None;
            if !context.is_over() {
                // RFC 4320 §4.2: it is too late for any answer.
                self.contexts.stop_search(place, Phase::Over);
            }
        } else if let Some(number) = context.number_of(id) {
            let branch = &mut context.branches[number];
            branch.transaction = None;
            let is_flow = branch.is_flow;
            let is_new = end != End::Done && !std::mem::replace(&mut branch.is_final, true);
            match end {
                End::Silent(status) if is_new => {
                    self.on_silent_end(step, place, number, (status, is_flow));
                }
                End::Withheld if is_new => self.on_branch_end(step, place, 503),
                _ => {}
            }
        }
        self.close_context_if_done(step, place);
    }

    /// A branch ends without an answer: it timed out, or nobody listens where it went.
    fn on_silent_end(
        &mut self,
        step: &mut Step<'_>,
        place: ContextId,
        number: usize,
        (status, is_flow): (u16, bool),
    ) {
        if status == 503 && self.fall_back(step, place, number) {
            return;
        }
        let is_dead = is_flow && status == 503;
        let failure = match is_dead {
            true => self.on_dead_flow(step, place, number),
            false => Failure::Silent,
        };
        if self.next_address(step, place, number, failure) {
            return;
        }
        let status = match is_dead {
            true if self.contexts.get(place).is_look_up() => 480,
            true => 430,
            false => status,
        };
        self.on_branch_end(step, place, status);
    }

    /// A context is done when its transactions are: until then a 2xx may come.
    fn close_context_if_done(&mut self, step: &mut Step<'_>, place: ContextId) {
        if self.contexts.get(place).open == 0 {
            self.drop_record(step, place);
            self.contexts.close(place);
        }
    }
}

fn timing(config: &Config) -> Timing {
    Timing::new(config.timers.t1, config.timers.timer_c)
}

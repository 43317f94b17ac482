//! The stateful proxy: RFC 3261 §16 on held transactions.
//!
//! A request of a stateful route opens a server transaction and a response context, and at each
//! target a client transaction. Responses and timers move the context on, until the best response
//! goes back. The ledger, the sessions and the servers' health see what they see of the stateless
//! path.

mod best;
mod branches;
mod context;
mod look_up;
mod outcome;
mod target;

use std::time::Duration;

use sip::Method;
use transaction::{Event as Told, Flow, Key, Notice, Seen, Timing, Transactions, Transport, Wheel};

use crate::{
    config::Config,
    io::Outbox,
    node::{Context, State},
    relay,
    request::{Refusal, Request},
    routing::Course,
    session::NONE,
    stats::Event,
    token::{Direction, Starter},
};

pub(crate) use target::Target;

use branches::Aim;
use context::{Contexts, Phase};

/// What a worker holds of stateful routes.
#[derive(Debug)]
pub(crate) struct Stateful {
    transactions: Transactions,
    contexts: Contexts,
    /// When a server's silence has lasted too long, by context.
    patience: Wheel,
}

impl Stateful {
    pub(crate) fn new(config: &Config, limit: usize, now: Duration) -> Self {
        let timing = Timing::new(config.timers.t1, config.timers.timer_c);
        Self {
            transactions: Transactions::new(limit, timing, now),
            contexts: Contexts::default(),
            patience: Wheel::new(limit, now),
        }
    }

    /// Room for a request and its first branch.
    pub(crate) fn has_room(&self) -> bool {
        self.transactions.has_room(2)
    }

    pub(crate) fn len(&self) -> usize {
        self.transactions.len()
    }

    /// Requests without an answer yet that go where their users are.
    pub(crate) fn looked_up(&self) -> usize {
        self.contexts.looked_up()
    }

    pub(crate) fn deadline(&self) -> Option<Duration> {
        let deadlines = [self.transactions.deadline(), self.patience.deadline()];
        deadlines.into_iter().flatten().min()
    }
}

impl Transport for Outbox {
    fn send(&mut self, flow: Flow, bytes: &[u8]) {
        Self::send(self, flow.listener, flow.peer, |out| {
            out.extend_from_slice(bytes)
        });
    }
}

impl State {
    /// Whether a request is of a transaction that is held, which then has dealt with it.
    pub(crate) fn is_held(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        out: &mut Outbox,
    ) -> bool {
        if self.registrar.is_waiting(request.id) {
            cx.stats.count(Event::Retransmission, 1);
            return true;
        }
        if self.stateful.transactions.is_empty() {
            return false;
        }
        let method = match request.method {
            Method::Cancel => Method::Invite,
            method => method,
        };
        let key = Key::server(request.id, method);
        let Some(id) = self.stateful.transactions.find(key) else {
            return false;
        };
        match request.method {
            Method::Cancel => {
                self.cancel_held(cx, request, id, out);
                true
            }
            Method::Ack => {
                self.stateful.transactions.on_request(cx.now, id, true, out) == Seen::Absorbed
            }
            _ => {
                cx.stats.count(Event::Retransmission, 1);
                self.stateful
                    .transactions
                    .on_request(cx.now, id, false, out);
                true
            }
        }
    }

    /// Takes a request whose course is known and sends it on its first branch. There is room.
    pub(crate) fn hold(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        course: &Course,
        entry: u32,
        out: &mut Outbox,
    ) {
        let place = self.open_context(cx, request);
        let record = self.record(cx, request, course, entry, true);
        let context = self.stateful.contexts.get_mut(place);
        context.record = record;
        context.may_move = request.is_initial() && course.direction == Direction::ToServer;
        let server = course.server.and_then(|server| cx.snapshot.member(server));
        let starter = match course.direction {
            Direction::ToServer => Starter::Client,
            Direction::FromServer => Starter::Server,
        };
        let aim = Aim {
            to: course.next_hop,
            uri: None,
            path: &[],
            affinity: server.map(|member| (member.address, starter)),
            breadth: context.breadth,
        };
        self.start_branch(cx, place, request, &aim, out);
        self.start_patience(cx, place, course.server);
        self.advance(cx, place, out);
    }

    /// Opens a request's response context and server transaction. There is room.
    fn open_context(&mut self, cx: Context<'_>, request: &Request<'_>) -> u32 {
        let datagram = crate::io::Datagram {
            bytes: request.message.bytes(),
            ..request.datagram
        };
        let place = self
            .stateful
            .contexts
            .open(request.key, request.id, &datagram);
        let flow = Flow {
            listener: datagram.listener,
            peer: relay::return_address(Some(&request.via), datagram.from),
            reliable: false,
        };
        let key = Key::server(request.id, request.method);
        let server = self.stateful.transactions.receive(cx.now, key, flow, place);
        let context = self.stateful.contexts.get_mut(place);
        context.server = server.unwrap_or(NONE);
        context.open = usize::from(server.is_ok());
        context.is_invite = request.method == Method::Invite;
        context.breadth = branches::breadth_of(request.message);
        context.may_move = false;
        place
    }

    /// RFC 3261 §16.10: the CANCEL has its own answer, the INVITE ends by that of its branches. It
    /// is answered anew each time it comes, which takes no transaction.
    fn cancel_held(&mut self, cx: Context<'_>, request: &Request<'_>, id: u32, out: &mut Outbox) {
        cx.stats.reply(200);
        let (datagram, message) = (&request.datagram, request.message);
        relay::reply(cx.snapshot, datagram, message, &Refusal::new(200), out);
        let place = self.stateful.transactions.owner(id);
        if !self.stateful.contexts.get(place).is_over() {
            self.stateful
                .contexts
                .stop_search(place, Phase::LastTargets);
            self.stateful.contexts.get_mut(place).best.offer_own(487);
            self.cancel_branches(cx, place, out);
            self.advance(cx, place, out);
        }
    }

    /// What is due of held transactions.
    pub(crate) fn on_held_timers(&mut self, cx: Context<'_>, out: &mut Outbox) {
        while let Some(told) = self.stateful.transactions.poll(cx.now, out) {
            self.on_told(cx, told, out);
        }
        while let Some(place) = self.stateful.patience.pop(cx.now) {
            if self.stateful.contexts.get(place).phase.is_look_up() {
                self.on_silent_look_up(cx, place, out);
            } else {
                self.on_silent_branch(cx, place, out);
            }
        }
    }

    fn on_told(&mut self, cx: Context<'_>, told: Told, out: &mut Outbox) {
        let Told { id, owner, notice } = told;
        match notice {
            Notice::Trying => self.reply_held(cx, owner, &Refusal::new(100), out),
            Notice::TimerC => self.stateful.transactions.cancel(cx.now, id, out),
            Notice::Timeout | Notice::Ended => self.on_transaction_end(cx, told, out),
        }
    }

    fn on_transaction_end(&mut self, cx: Context<'_>, told: Told, out: &mut Outbox) {
        let place = told.owner;
        let context = self.stateful.contexts.get_mut(place);
        context.open -= 1;
        if context.server == told.id {
            context.server = NONE;
            if !context.is_over() {
                // RFC 4320 §4.2: it is too late for any answer.
                self.stateful.contexts.stop_search(place, Phase::Over);
            }
        } else if let Some(number) = context.number_of(told.id) {
            let branch = &mut context.branches[number];
            branch.transaction = NONE;
            if told.notice == Notice::Timeout
                && !std::mem::replace(&mut branch.is_final, true)
                && !self.next_address(cx, place, number, out)
            {
                self.on_branch_timeout(cx, place, out);
            }
        }
        self.close_context_if_done(cx, place);
    }

    /// A context is done when its transactions are: until then a 2xx may come.
    fn close_context_if_done(&mut self, cx: Context<'_>, place: u32) {
        if self.stateful.contexts.get(place).open == 0 {
            self.drop_record(cx, place);
            self.stateful.patience.disarm(place);
            self.stateful.contexts.close(place);
        }
    }
}

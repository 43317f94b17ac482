//! Where a held request goes next: RFC 3261 §16.6, with Max-Breadth and loops of RFC 5393.

use std::net::SocketAddr;

use balance::{Health, ServerId};
use sip::Message;
use transaction::{Flow, Key};

use super::context::{Branch as Target, Phase};
use crate::{
    branch::{BRANCHES_MAX, Branch, Purpose},
    io::{Lookup, Outbox},
    node::{Context, State},
    relay::{self, Hop},
    request::{Refusal, Request},
    routing::{Course, RETRY_AFTER_S},
    session::{NONE, Reason},
    stats::Event,
    token::{Direction, Starter},
    transaction::{ATTEMPTS_MAX, Progress},
};

/// RFC 5393 §5.3.3: what a request without Max-Breadth gets, and the most that one may bring.
const BREADTH_MAX: u32 = 60;

/// One target of a request, and what it takes along.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aim<'a> {
    pub(super) to: SocketAddr,
    /// Its Request-URI there, if that is another.
    pub(super) uri: Option<&'a [u8]>,
    /// The server end of a dialog that it may begin, and who starts that.
    pub(super) affinity: Option<(SocketAddr, Starter)>,
    pub(super) breadth: u32,
}

impl State {
    /// Holds a request and asks where it may go; [`State::on_found`] goes on.
    pub(crate) fn look_up(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        if !self.stateful.has_room() {
            cx.stats.count(Event::TransactionsFull, 1);
            return Err(Refusal::unavailable(RETRY_AFTER_S));
        }
        let route = route_part(cx, request);
        if has_looped(cx, request, route) {
            return Err(Refusal::new(482));
        }
        let place = self.open_context(cx, request);
        let context = self.stateful.contexts.get_mut(place);
        context.phase = Phase::LookUp;
        context.route = Some(route);
        out.lookups.push(Lookup {
            id: u64::from(context.serial) << 32 | u64::from(place),
            uri: request.path.uri.into(),
        });
        Ok(())
    }

    /// A look-up has its answer: targets, or the status that the request is refused with.
    pub(crate) fn on_found(
        &mut self,
        cx: Context<'_>,
        lookup: u64,
        found: Result<&[super::Target], u16>,
        out: &mut Outbox,
    ) {
        let (serial, place) = ((lookup >> 32) as u32, lookup as u32);
        let Some(context) = self.stateful.contexts.find(place, serial) else {
            return;
        };
        if context.phase != Phase::LookUp {
            return;
        }
        context.phase = Phase::Search;
        match found {
            Ok([]) => context.best.offer_own(480),
            Ok(targets) => context.targets.set(targets),
            Err(status) => context.best.offer_own(status),
        }
        self.advance(cx, place, out);
    }

    /// Sends the request to the next targets when those before have failed; after the last, the
    /// best response back.
    pub(super) fn advance(&mut self, cx: Context<'_>, place: u32, out: &mut Outbox) {
        loop {
            let context = self.stateful.contexts.get_mut(place);
            if matches!(context.phase, Phase::LookUp | Phase::Over)
                || context.active().next().is_some()
            {
                return;
            }
            if context.branches.len() == BRANCHES_MAX {
                context.targets.clear();
            }
            if context.targets.is_empty() {
                return self.finish(cx, place, out);
            }
            let started = self.with_request(cx, place, |state, request| {
                state.start_group(cx, place, request, out);
            });
            if started.is_none() {
                self.stateful.contexts.get_mut(place).targets.clear();
            }
        }
    }

    /// Sends the request to the targets that come next together. Where Max-Breadth doesn't reach
    /// for all, the others wait: RFC 5393 §5.3.3.
    fn start_group(
        &mut self,
        cx: Context<'_>,
        place: u32,
        request: &Request<'_>,
        out: &mut Outbox,
    ) {
        let context = self.stateful.contexts.get_mut(place);
        let breadth = context.breadth_left();
        let room = BRANCHES_MAX - context.branches.len();
        let count = context.targets.group().min(breadth as usize).min(room);
        let share = breadth / count as u32;
        for index in 0..count {
            let Some(target) = self.stateful.contexts.get_mut(place).targets.pop() else {
                return;
            };
            let first = if index == 0 {
                breadth % count as u32
            } else {
                0
            };
            let aim = Aim {
                to: target.address,
                uri: Some(&target.uri),
                affinity: Some((target.address, Starter::Client)),
                breadth: share + first,
            };
            self.start_branch(cx, place, request, &aim, out);
        }
    }

    /// Sends the request on one branch; one that can't be sent has failed: RFC 3261 §16.9.
    pub(super) fn start_branch(
        &mut self,
        cx: Context<'_>,
        place: u32,
        request: &Request<'_>,
        aim: &Aim<'_>,
        out: &mut Outbox,
    ) {
        let context = self.stateful.contexts.get_mut(place);
        let number = context.branches.len() as u8;
        let purpose = Purpose::Held {
            number,
            route: context.route,
        };
        let hop = Hop {
            to: aim.to,
            purpose,
            uri: aim.uri,
            affinity: aim.affinity.filter(|_| request.forms_dialog()),
        };
        let listener = relay::prepare(cx.snapshot, &mut self.edits, request, &hop);
        let sent = listener.and_then(|listener| {
            let (edits, message) = (&mut self.edits, request.message);
            set_breadth(edits, message, aim.breadth);
            let key = Key::client(client_id(request.id, number), request.method);
            let flow = Flow {
                listener,
                peer: aim.to,
                reliable: false,
            };
            let transactions = &mut self.stateful.transactions;
            let write = |out: &mut Vec<u8>| edits.apply(message.bytes(), out);
            transactions
                .request(cx.now, key, flow, place, out, write)
                .ok()
        });
        context.open += usize::from(sent.is_some());
        context.branches.push(Target {
            transaction: sent.unwrap_or(NONE),
            to: aim.to,
            breadth: aim.breadth,
            is_answered: false,
            is_final: sent.is_none(),
        });
        if sent.is_none() {
            context.best.offer_own(503);
        }
    }

    /// Cancels what still waits for an answer: RFC 3261 §16.7 step 10.
    pub(super) fn cancel_branches(&mut self, cx: Context<'_>, place: u32, out: &mut Outbox) {
        for branch in self.stateful.contexts.get(place).active() {
            self.stateful
                .transactions
                .cancel(cx.now, branch.transaction, out);
        }
    }

    /// Lets an INVITE go to another server when this one is silent for too long.
    pub(super) fn start_patience(&mut self, cx: Context<'_>, place: u32, server: Option<ServerId>) {
        let context = self.stateful.contexts.get(place);
        let member = server.and_then(|server| cx.snapshot.member(server));
        if let Some(pool) = member.and_then(|member| cx.snapshot.pool_of(member))
            && context.is_invite
            && context.may_move
        {
            let wait = pool.config().answer_timeout;
            self.stateful.patience.arm(place, cx.now + wait);
        }
    }

    /// The server of the latest branch let an INVITE wait too long. When there is another server,
    /// the INVITE goes there; should this one answer after all, it is cancelled, or wins by a 2xx.
    pub(super) fn on_silent_branch(&mut self, cx: Context<'_>, place: u32, out: &mut Outbox) {
        let context = self.stateful.contexts.get(place);
        let is_silent = |branch: &&Target| !branch.is_answered && !branch.is_final;
        if context.phase != Phase::Search || context.branches.last().filter(is_silent).is_none() {
            return;
        }
        let record = context.record;
        if record != NONE {
            self.blame(cx, record);
        }
        if !self.leave_branch(cx, place, out) && record != NONE {
            self.transactions.get_mut(record).progress = Progress::Overdue;
        }
    }

    /// What waits for servers that are down goes elsewhere, if there is an elsewhere.
    pub(crate) fn leave_fallen_branches(&mut self, cx: Context<'_>, out: &mut Outbox) {
        let is_fallen = |branch: &Target| {
            let member = cx.snapshot.member_at(branch.to);
            member.is_some_and(|member| member.server.health(cx.now) == Health::Down)
        };
        let contexts = self.stateful.contexts.searching();
        let lost: Vec<u32> = contexts
            .filter(|(_, context)| context.branches.last().is_some_and(is_fallen))
            .map(|(place, _)| place)
            .collect();
        for place in lost {
            self.leave_branch(cx, place, out);
        }
    }

    /// Gives the latest branch up for one at another server. False: there is none.
    fn leave_branch(&mut self, cx: Context<'_>, place: u32, out: &mut Outbox) -> bool {
        let latest = self.stateful.contexts.get(place).branches.len() - 1;
        if !self.next_server(cx, place, out) {
            return false;
        }
        let branch = &mut self.stateful.contexts.get_mut(place).branches[latest];
        branch.is_final = true;
        self.stateful
            .transactions
            .cancel(cx.now, branch.transaction, out);
        self.advance(cx, place, out);
        true
    }

    /// Sends a placed request to another server of its pool, with a new branch; what was counted
    /// moves with it. False: there is none.
    pub(super) fn next_server(&mut self, cx: Context<'_>, place: u32, out: &mut Outbox) -> bool {
        let context = self.stateful.contexts.get(place);
        let may_move = context.phase == Phase::Search
            && context.may_move
            && context.record != NONE
            && context.branches.len() < ATTEMPTS_MAX;
        may_move
            && self.with_request(cx, place, |state, request| {
                state.place_held(cx, place, request, out)
            }) == Some(true)
    }

    fn place_held(
        &mut self,
        cx: Context<'_>,
        place: u32,
        request: &Request<'_>,
        out: &mut Outbox,
    ) -> bool {
        let context = self.stateful.contexts.get(place);
        let (record, breadth) = (context.record, context.breadth);
        let (entry, server) = {
            let transaction = self.transactions.get(record);
            (transaction.session, transaction.server())
        };
        let tried: Vec<ServerId> = context
            .branches
            .iter()
            .filter_map(|branch| Some(cx.snapshot.member_at(branch.to)?.server.id()))
            .collect();
        let old = cx.snapshot.member(server);
        let Some(pool) = old.and_then(|old| cx.snapshot.pool_of(old)) else {
            return false;
        };
        let is_call = self.sessions.get(entry).is_call;
        let Some(new) = self.place(cx, request, pool, is_call, &tried) else {
            return false;
        };
        cx.stats.count(Event::FailedOver, 1);
        self.count_failed(cx, record);
        self.uncount_call(cx, entry);
        let session = self.sessions.get_mut(entry);
        (session.server, session.reason) = (new.server.id(), Reason::FailedOver);
        let course = Course {
            direction: Direction::ToServer,
            server: Some(new.server.id()),
            next_hop: new.address,
            session: Some(entry),
            is_placed: true,
        };
        self.close(cx, record);
        let moved = self.record(cx, request, &course, entry, true);
        self.stateful.contexts.get_mut(place).record = moved;
        let aim = Aim {
            to: new.address,
            uri: None,
            affinity: Some((new.address, Starter::Client)),
            breadth,
        };
        self.start_branch(cx, place, request, &aim, out);
        self.start_patience(cx, place, course.server);
        true
    }

    /// Works with the kept request. None: it can't be read any more.
    fn with_request<T>(
        &mut self,
        cx: Context<'_>,
        place: u32,
        work: impl FnOnce(&mut Self, &Request<'_>) -> T,
    ) -> Option<T> {
        let kept = &mut self.stateful.contexts.get_mut(place).request;
        let bytes = std::mem::take(&mut kept.bytes);
        let datagram = crate::io::Datagram {
            bytes: &bytes,
            ..kept.datagram()
        };
        let message = Message::parse(datagram.bytes, cx.snapshot.config().limits.headers).ok();
        let read = |message| Request::read(cx.snapshot, datagram, message).ok();
        let request = message.as_ref().and_then(read);
        let result = request.map(|request| work(self, &request));
        self.stateful.contexts.get_mut(place).request.bytes = bytes;
        result
    }
}

/// The number that stands for a branch: RFC 3261 §17.1.3.
pub(super) fn client_id(id: u64, number: u8) -> u64 {
    id.wrapping_add(number.into())
}

/// A request's Max-Breadth: RFC 5393 §5.3.3.
pub(super) fn breadth_of(message: &Message<'_>) -> u32 {
    let given = breadth_header(message).and_then(|value| str::from_utf8(value).ok()?.parse().ok());
    given.unwrap_or(BREADTH_MAX).clamp(1, BREADTH_MAX)
}

fn set_breadth(edits: &mut sip::Edits, message: &Message<'_>, breadth: u32) {
    match (breadth_header(message), message.call_id()) {
        (Some(value), _) => edits.replace(message.span_of(value), |out| {
            out.extend_from_slice(breadth.to_string().as_bytes())
        }),
        (None, Ok(call_id)) => edits.insert(message.span_of(call_id).end, |out| {
            out.extend_from_slice(format!("\r\nMax-Breadth: {breadth}").as_bytes())
        }),
        (None, Err(_)) => {}
    }
}

fn breadth_header<'a>(message: &Message<'a>) -> Option<&'a [u8]> {
    let is_it = |(name, _): &(&[u8], &[u8])| name.eq_ignore_ascii_case(b"Max-Breadth");
    message.headers().find(is_it).map(|(_, value)| value)
}

/// What decides where a request goes: RFC 5393 §4.2.1. It differs from request to request, so that
/// a clash of hashes does not last.
fn route_part(cx: Context<'_>, request: &Request<'_>) -> u32 {
    let next = request.path.next.map_or(&[][..], |next| next.uri);
    let number = request.cseq.number.to_be_bytes();
    let parts = [request.path.uri, next, &number, b"route"];
    cx.snapshot.keys().of_session(request.key, &parts) as u32
}

/// Whether a request was here before and comes back to the same: RFC 5393 §4.2.2.
fn has_looped(cx: Context<'_>, request: &Request<'_>, route: u32) -> bool {
    let mut vias = request.message.vias().map_while(Result::ok);
    vias.any(|via| {
        let branch = via.branch.and_then(Branch::read);
        let is_same = branch.is_some_and(|branch| {
            matches!(branch.purpose, Purpose::Held { route: Some(was), .. } if was == route)
        });
        is_same && cx.snapshot.is_us(via.host, via.port)
    })
}

//! Where a held request goes next: RFC 3261 §16.6, with Max-Breadth and loops of RFC 5393.

use std::net::SocketAddr;

use balance::{Health, ServerId};
use sip::Message;
use transaction::{Flow, Key};

use super::{
    context::{Branch, Phase},
    target::Target,
};
use crate::{
    branch::{BRANCHES_MAX, Purpose},
    io::Outbox,
    node::{Context, State},
    relay::{self, Hop},
    request::Request,
    routing::Course,
    session::{NONE, Reason},
    stats::Event,
    token::{Direction, Starter},
    transaction::{ATTEMPTS_MAX, Progress},
};

/// RFC 5393 §5.3.3: what a request without Max-Breadth gets, and the most that one may bring.
const BREADTH_MAX: u32 = 60;

/// How often T1 an address may be silent to an INVITE when its target has another.
const SILENCE_T1: u32 = 8;

/// One target of a request, and what it takes along.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aim<'a> {
    pub(super) to: SocketAddr,
    /// Its Request-URI there, if that is another.
    pub(super) uri: Option<&'a [u8]>,
    /// What its Route begins with there; may be empty.
    pub(super) path: &'a [u8],
    /// The server end of a dialog that it may begin, and who starts that.
    pub(super) affinity: Option<(SocketAddr, Starter)>,
    pub(super) breadth: u32,
}

impl State {
    /// Sends the request to the next targets when those before have failed; after the last, the
    /// best response back.
    pub(super) fn advance(&mut self, cx: Context<'_>, place: u32, out: &mut Outbox) {
        loop {
            let context = self.stateful.contexts.get_mut(place);
            if context.phase.is_look_up() || context.is_over() || context.active().next().is_some()
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
            self.start_target(cx, place, request, target, share + first, out);
        }
    }

    /// Sends the request to the first of a target's addresses to which it can be sent; the branch keeps
    /// the others.
    fn start_target(
        &mut self,
        cx: Context<'_>,
        place: u32,
        request: &Request<'_>,
        mut target: Target,
        breadth: u32,
        out: &mut Outbox,
    ) {
        while !target.addresses.is_empty() {
            let to = target.addresses.remove(0);
            let aim = Aim {
                to,
                uri: Some(&target.uri),
                path: &target.path,
                affinity: Some((target.far_end.unwrap_or(to), Starter::Client)),
                breadth,
            };
            self.start_branch(cx, place, request, &aim, out);
            let context = self.stateful.contexts.get_mut(place);
            let is_full = context.branches.len() == BRANCHES_MAX;
            let branch = context.branches.last_mut();
            let branch = branch.expect("it was started just now");
            if !branch.is_final || is_full {
                branch.target = Some(target).filter(|target| !target.addresses.is_empty());
                if branch.target.is_some() && context.is_invite {
                    let wait = cx.snapshot.config().timers.t1 * SILENCE_T1;
                    self.stateful.patience.arm(place, cx.now + wait);
                }
                return;
            }
        }
    }

    /// Sends what has failed at one address of a target to the next. False: there is none. RFC 3263 §4.3
    pub(super) fn next_address(
        &mut self,
        cx: Context<'_>,
        place: u32,
        number: usize,
        out: &mut Outbox,
    ) -> bool {
        let context = self.stateful.contexts.get_mut(place);
        if context.phase != Phase::Search || context.branches.len() == BRANCHES_MAX {
            return false;
        }
        let branch = &mut context.branches[number];
        let (breadth, target) = (branch.breadth, branch.target.take());
        let Some(target) = target else {
            return false;
        };
        cx.stats.count(Event::FailedOver, 1);
        let started = self.with_request(cx, place, |state, request| {
            state.start_target(cx, place, request, target, breadth, out);
        });
        started.is_some()
    }

    /// Leaves addresses that are silent for the next ones of their targets. False: there are none.
    fn leave_silent_addresses(&mut self, cx: Context<'_>, place: u32, out: &mut Outbox) -> bool {
        let mut has_left = false;
        for number in 0..self.stateful.contexts.get(place).branches.len() {
            let branch = &mut self.stateful.contexts.get_mut(place).branches[number];
            if branch.is_answered || branch.is_final || branch.target.is_none() {
                continue;
            }
            let transaction = branch.transaction;
            if self.next_address(cx, place, number, out) {
                self.stateful.contexts.get_mut(place).branches[number].is_final = true;
                let transactions = &mut self.stateful.transactions;
                transactions.cancel(cx.now, transaction, out);
                has_left = true;
            }
        }
        has_left
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
            path: aim.path,
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
        context.branches.push(Branch {
            transaction: sent.unwrap_or(NONE),
            to: aim.to,
            breadth: aim.breadth,
            target: None,
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
        if self.leave_silent_addresses(cx, place, out) {
            return;
        }
        let context = self.stateful.contexts.get(place);
        let is_silent = |branch: &&Branch| !branch.is_answered && !branch.is_final;
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
        let is_fallen = |branch: &Branch| {
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
            path: &[],
            affinity: Some((new.address, Starter::Client)),
            breadth,
        };
        self.start_branch(cx, place, request, &aim, out);
        self.start_patience(cx, place, course.server);
        true
    }

    /// Works with the kept request. None: it can't be read any more.
    pub(super) fn with_request<T>(
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

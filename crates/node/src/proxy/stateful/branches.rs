//! Where a held request goes next: RFC 3261 §16.6, with Max-Breadth and loops of RFC 5393.

use balance::{Health, ServerId};
use sip::{HeaderName, Message};
use transaction::{Flow, Key};

use super::{
    AMPLIFICATION, Stateful,
    context::{Branch, ContextId, Phase},
};
use crate::{
    context::Context,
    member::Member,
    proxy::{large::server_of_large, step::Step},
    registrar::Target,
    stats::Event,
    wire::{
        branch::{BRANCHES_MAX, Purpose},
        relay::{self, Hop},
        request::Request,
        token::{End, Starter},
    },
    work::{Offer, OpenId, Progress, Work},
};

/// How often T1 an address may be silent to an INVITE when its target has another.
const SILENCE_T1: u32 = 8;

/// Why a branch has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// Nobody has answered.
    Silent,
    /// The flow to the device is gone. RFC 5626 §5.3.1
    FlowFailed,
    /// The address has refused it.
    Refused,
}

/// One target of a request, and what it takes along.
#[derive(Clone, Copy, Debug)]
pub(super) struct Aim<'a> {
    /// None: no listener reaches it.
    pub(super) flow: Option<Flow>,
    /// Its Request-URI there, if that is another.
    pub(super) uri: Option<&'a [u8]>,
    /// What its Route begins with there; may be empty.
    pub(super) path: &'a [u8],
    /// The server end of a dialog that it may begin, and who starts that.
    pub(super) affinity: Option<(End, Starter)>,
    pub(super) breadth: u32,
    /// Whether the next hop is asked to tell how much to send it.
    pub(super) offers_control: bool,
}

impl Stateful {
    /// Sends the request to the next targets when those before have failed; after the last, the
    /// best response back.
    pub(super) fn advance(&mut self, step: &mut Step<'_>, place: ContextId) {
        loop {
            let context = self.contexts.get_mut(place);
            if context.phase.is_look_up() || context.is_over() || context.active().next().is_some()
            {
                return;
            }
            if context.branches.len() >= BRANCHES_MAX {
                context.targets.clear();
            }
            if context.targets.is_empty() {
                return self.finish(step, place);
            }
            let started = self.with_request(step, place, |stateful, step, request| {
                stateful.start_group(step, place, request);
            });
            if started.is_none() {
                self.contexts.get_mut(place).targets.clear();
            }
        }
    }

    /// Sends the request to the targets that come next together. Where Max-Breadth doesn't reach
    /// for all, the others wait: RFC 5393 §5.3.3.
    fn start_group(&mut self, step: &mut Step<'_>, place: ContextId, request: &Request<'_>) {
        let context = self.contexts.get_mut(place);
        let breadth = context.breadth_left();
        let room = BRANCHES_MAX.saturating_sub(context.branches.len());
        let count = context.targets.group().min(breadth as usize).min(room);
        let share = breadth / count as u32;
        for index in 0..count {
            let Some(target) = self.contexts.get_mut(place).targets.pop() else {
                return;
            };
            let first = if index == 0 {
                breadth % count as u32
            } else {
                0
            };
            self.start_target(step, place, request, target, share + first);
        }
    }

    /// Sends the request to the first of a target's addresses to which it can be sent; the branch keeps
    /// the others.
    fn start_target(
        &mut self,
        step: &mut Step<'_>,
        place: ContextId,
        request: &Request<'_>,
        mut target: Target,
        breadth: u32,
    ) {
        while !target.is_exhausted() {
            if target.flows.is_empty() {
                target.leave_way();
                continue;
            }
            let to = target.flows.remove(0);
            let aim = Aim {
                flow: Some(to),
                uri: Some(&target.uri),
                path: &target.path,
                affinity: Some((to.into(), Starter::Client)),
                breadth,
                offers_control: false,
            };
            self.start_branch(step, place, request, &aim);
            if !has_asked(step.cx, &target, to) {
                self.limit_repeats(place, request);
            }
            let context = self.contexts.get_mut(place);
            let is_full = context.branches.len() == BRANCHES_MAX;
            let branch = context.branches.last_mut();
            let branch = branch.expect("it was started just now");
            if !branch.is_final || is_full {
                let has_next = !target.is_exhausted();
                branch.is_flow |= target.is_flow;
                branch.target = Some(target);
                if has_next && context.is_invite {
                    let wait = step.cx.snapshot.config().timers.t1 * SILENCE_T1;
                    self.contexts.arm(place, step.cx.now + wait);
                }
                return;
            }
        }
    }

    /// Sends what has failed at one address of a target to the next: RFC 3263 §4.3. A device that has not
    /// answered is asked by its other flows, too: RFC 5626 §7. False: there is none.
    pub(super) fn next_address(
        &mut self,
        step: &mut Step<'_>,
        place: ContextId,
        number: usize,
        failure: Failure,
    ) -> bool {
        let context = self.contexts.get_mut(place);
        if context.phase != Phase::Search || context.branches.len() == BRANCHES_MAX {
            return false;
        }
        let branch = &mut context.branches[number];
        let Some(mut target) = branch.target.take() else {
            return false;
        };
        match failure {
            Failure::Silent => {}
            Failure::FlowFailed => target.leave_way(),
            Failure::Refused => target.others.clear(),
        }
        if target.is_exhausted() || (failure == Failure::Refused && target.flows.is_empty()) {
            return false;
        }
        let breadth = branch.breadth;
        step.cx.stats.count(Event::FailedOver, 1);
        let started = self.with_request(step, place, |stateful, step, request| {
            stateful.start_target(step, place, request, target, breadth);
        });
        started.is_some()
    }

    /// Leaves addresses that are silent for the next ones of their targets. False: there are none.
    fn leave_silent_addresses(&mut self, step: &mut Step<'_>, place: ContextId) -> bool {
        let mut has_left = false;
        for number in 0..self.contexts.get(place).branches.len() {
            let branch = &mut self.contexts.get_mut(place).branches[number];
            let target = branch.target.as_ref();
            let has_next = target.is_some_and(|target| !target.is_exhausted());
            if branch.is_answered || branch.is_final || !has_next {
                continue;
            }
            if self.next_address(step, place, number, Failure::Silent) {
                self.give_up_branch(step, place, number);
                has_left = true;
            }
        }
        has_left
    }

    /// Sends the request on one branch; one that can't be sent has failed: RFC 3261 §16.9.
    pub(super) fn start_branch(
        &mut self,
        step: &mut Step<'_>,
        place: ContextId,
        request: &Request<'_>,
        aim: &Aim<'_>,
    ) {
        let cx = step.cx;
        let context = self.contexts.get_mut(place);
        let number = context.branches.len() as u8;
        // Which node holds a request may be another when it comes again after a restart: its branch is the same.
        let purpose = match context.mark {
            Some(_) => Purpose::Relay(number),
            None => Purpose::Held {
                number,
                route: context.route,
            },
        };
        let mark = context.mark;
        let sent = aim.flow.and_then(|flow| {
            let hop = Hop {
                flow,
                purpose,
                uri: aim.uri,
                path: aim.path,
                affinity: aim.affinity.filter(|_| request.forms_dialog()),
                offers_control: aim.offers_control,
                mark,
            };
            let (edits, message) = (&mut self.edits, request.message);
            relay::prepare(cx.snapshot, edits, request, &hop);
            set_breadth(edits, message, aim.breadth);
            let id = purpose.seal(cx.snapshot.keys(), request.id);
            let key = Key::client(client_id(id, number), request.method);
            let write = |out: &mut Vec<u8>| edits.apply(message.bytes(), out);
            self.transactions
                .request(cx.now, key, flow, place, step.out, write)
                .ok()
        });
        context.open += usize::from(sent.is_some());
        context.branches.push(Branch {
            transaction: sent,
            flow: aim.flow,
            breadth: aim.breadth,
            target: None,
            is_flow: aim
                .flow
                .is_some_and(|flow| flow.connection.is_some() || request.path.phone == Some(flow)),
            is_answered: false,
            is_final: sent.is_none(),
        });
        if sent.is_none() {
            context.best.offer_own(503);
        }
    }

    /// Has the last branch repeat its request once or so until it is answered.
    fn limit_repeats(&mut self, place: ContextId, request: &Request<'_>) {
        let last = self.contexts.get(place).branches.last();
        if let Some(transaction) = last.and_then(|branch| branch.transaction) {
            let bytes = AMPLIFICATION * request.datagram.bytes.len();
            self.transactions.limit_unasked(transaction, bytes);
        }
    }

    /// Cancels what still waits for an answer: RFC 3261 §16.7 step 10.
    pub(super) fn cancel_branches(&mut self, step: &mut Step<'_>, place: ContextId) {
        for branch in self.contexts.get(place).active() {
            if let Some(transaction) = branch.transaction {
                self.transactions.cancel(step.cx.now, transaction, step.out);
            }
        }
    }

    /// Gives a branch up: nobody waits for its final response.
    fn give_up_branch(&mut self, step: &mut Step<'_>, place: ContextId, number: usize) {
        let branch = &mut self.contexts.get_mut(place).branches[number];
        branch.is_final = true;
        if let Some(transaction) = branch.transaction {
            self.transactions.cancel(step.cx.now, transaction, step.out);
        }
    }

    /// Lets an INVITE go to another server when this one is silent for too long.
    pub(super) fn start_patience(
        &mut self,
        step: &Step<'_>,
        place: ContextId,
        server: Option<ServerId>,
    ) {
        let cx = step.cx;
        let context = self.contexts.get(place);
        let member = server.and_then(|server| cx.snapshot.member(server));
        if let Some(pool) = member.and_then(|member| cx.snapshot.pool_of(member))
            && context.is_invite
            && context.may_move
        {
            let wait = pool.config().answer_timeout;
            self.contexts.arm(place, cx.now + wait);
        }
    }

    /// The server of the latest branch let an INVITE wait too long. When there is another server,
    /// the INVITE goes there; should this one answer after all, it is cancelled, or wins by a 2xx.
    pub(super) fn on_silent_branch(&mut self, step: &mut Step<'_>, place: ContextId) {
        if self.leave_silent_addresses(step, place) {
            return;
        }
        let context = self.contexts.get(place);
        let is_silent = |branch: &&Branch| !branch.is_answered && !branch.is_final;
        if context.phase != Phase::Search || context.branches.last().filter(is_silent).is_none() {
            return;
        }
        let record = context.record;
        if let Some(open) = record {
            step.work.blame(step.cx, open);
        }
        if !self.leave_branch(step, place)
            && let Some(open) = record
        {
            step.work.get_mut(open).progress = Progress::Overdue;
        }
    }

    /// What waits for servers that are down goes elsewhere, if there is an elsewhere.
    pub(in crate::proxy) fn leave_fallen_servers(&mut self, step: &mut Step<'_>) {
        let cx = step.cx;
        let is_fallen = |branch: &Branch| {
            let member = branch.flow.and_then(|flow| cx.snapshot.member_of(flow));
            member.is_some_and(|member| member.server.health() == Health::Down)
        };
        let contexts = self.contexts.searching();
        let lost: Vec<ContextId> = contexts
            .filter(|(_, context)| context.branches.last().is_some_and(is_fallen))
            .map(|(place, _)| place)
            .collect();
        for place in lost {
            self.leave_branch(step, place);
        }
    }

    /// Gives the latest branch up for one at another server. False: there is none.
    fn leave_branch(&mut self, step: &mut Step<'_>, place: ContextId) -> bool {
        let latest = self.contexts.get(place).branches.len() - 1;
        if !self.fail_over(step, place) {
            return false;
        }
        self.give_up_branch(step, place, latest);
        self.advance(step, place);
        true
    }

    /// Sends a placed request to another server of its pool, with a new branch. False: there is none.
    pub(super) fn fail_over(&mut self, step: &mut Step<'_>, place: ContextId) -> bool {
        self.send_anew(step, place, |work, cx, request, open| {
            work.fail_over(cx, request, open)
        })
    }

    /// A server that chokes on an offer of overload control gets the request without it, with a new
    /// branch. False: that is not it, or the request can't be sent anew.
    pub(super) fn try_without_offer(
        &mut self,
        step: &mut Step<'_>,
        place: ContextId,
        number: usize,
    ) -> bool {
        let is_latest = self.contexts.get(place).branches.len() == number + 1;
        is_latest
            && self.send_anew(step, place, |work, cx, _, open| {
                work.try_without_offer(cx, open)
            })
    }

    /// Sends a placed request anew with a new branch, to a server that `choose` has moved it to.
    fn send_anew(
        &mut self,
        step: &mut Step<'_>,
        place: ContextId,
        choose: impl for<'s> FnOnce(&mut Work, Context<'s>, &Request<'_>, OpenId) -> Option<&'s Member>,
    ) -> bool {
        let context = self.contexts.get(place);
        let Some(open) = context
            .record
            .filter(|_| context.phase == Phase::Search && context.may_move)
        else {
            return false;
        };
        let breadth = context.breadth;
        let sent = self.with_request(step, place, |stateful, step, request| {
            let Some(new) = choose(step.work, step.cx, request, open) else {
                return false;
            };
            let aim = Aim {
                flow: Some(request.flow_to_server(step.cx, new.address)),
                uri: None,
                path: &[],
                affinity: Some((new.address.into(), Starter::Client)),
                breadth,
                offers_control: step.work.get(open).offer == Offer::Made,
            };
            stateful.start_branch(step, place, request, &aim);
            stateful.start_patience(step, place, Some(new.server.id()));
            true
        });
        sent == Some(true)
    }

    /// Sends a long request to the same server by UDP, if that did not take it by TCP. False: that is not it.
    pub(super) fn fall_back(
        &mut self,
        step: &mut Step<'_>,
        place: ContextId,
        number: usize,
    ) -> bool {
        let context = self.contexts.get(place);
        let flow = context.branches[number].flow;
        let server = flow.and_then(|flow| server_of_large(step.cx.snapshot, flow));
        let Some(address) = server.map(|server| server.address) else {
            return false;
        };
        if context.is_over() || context.branches.len() == BRANCHES_MAX {
            return false;
        }
        let breadth = context.breadth;
        let sent = self.with_request(step, place, |stateful, step, request| {
            let aim = Aim {
                flow: Some(request.flow_to_server(step.cx, address)),
                uri: None,
                path: &[],
                affinity: Some((address.into(), Starter::Client)),
                breadth,
                offers_control: false,
            };
            stateful.start_branch(step, place, request, &aim);
        });
        sent.is_some()
    }

    /// Works with the kept request. None: it can't be read any more.
    pub(super) fn with_request<T>(
        &mut self,
        step: &mut Step<'_>,
        place: ContextId,
        work: impl FnOnce(&mut Self, &mut Step<'_>, &Request<'_>) -> T,
    ) -> Option<T> {
        let kept = self.contexts.get_mut(place).request.take()?;
        let result = kept.read(step.cx.snapshot, |request| work(self, step, request));
        self.contexts.get_mut(place).request = Some(kept);
        result
    }
}

/// The number that stands for a branch: RFC 3261 §17.1.3.
pub(super) fn client_id(id: u64, number: u8) -> u64 {
    id.wrapping_add(number.into())
}

fn set_breadth(edits: &mut sip::Edits, message: &Message<'_>, breadth: u32) {
    match (message.header(HeaderName::MaxBreadth), message.call_id()) {
        (Some(value), _) => edits.replace(message.span_of(value), |out| {
            out.extend_from_slice(breadth.to_string().as_bytes())
        }),
        (None, Ok(call_id)) => edits.insert(message.span_of(call_id).end, |out| {
            out.extend_from_slice(format!("\r\nMax-Breadth: {breadth}").as_bytes())
        }),
        (None, Err(_)) => {}
    }
}

/// Whether somebody at this address wants requests for a target: who registered it, or somebody who has heard us. A contact
/// can name any host.
fn has_asked(cx: Context<'_>, target: &Target, to: Flow) -> bool {
    let is_source = to.remote.ip().to_canonical() == target.source.ip().to_canonical();
    target.is_flow || is_source || cx.has_heard_us(to)
}

//! The stateless sender: what comes is passed on, and only the ledger waits for answers.
//! RFC 3261 §16.11
//!
//! An INVITE is kept until it is answered, so that it can go to another server when its server is
//! silent, refuses or dies.

use std::{net::SocketAddr, time::Duration};

use balance::Health;
use sip::{Edits, Method};
use transaction::Flow;

use super::step::{Step, Unsent};
use crate::{
    calls::{SessionId, tag_pair},
    context::Context,
    control,
    member::Member,
    stats::{Dropped, Event},
    wire::{
        branch::{Branch, Purpose},
        mark::Mark,
        quote::Quote,
        relay::{self, Hop},
        reply::{self, Reply},
        request::Request,
        response::Response,
        token::Direction,
    },
    work::{Course, Holder, Kind, Offer, OpenId, OpenRequest, Progress, Work},
};

/// Sends without transactions.
#[derive(Debug, Default)]
pub(super) struct Stateless {
    edits: Edits,
}

/// One copy of a request.
#[derive(Clone, Copy, Debug)]
struct Copy {
    /// How many servers the request was at before.
    attempt: u8,
    mark: Option<Mark>,
    offers_control: bool,
}

impl Copy {
    fn of(open: &OpenRequest) -> Self {
        Self {
            attempt: open.attempt,
            mark: open.mark,
            offers_control: open.offer == Offer::Made,
        }
    }
}

/// What becomes of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Pass,
    /// Its request has gone elsewhere: the caller gets that answer.
    Supersede,
}

/// Requests.
impl Stateless {
    /// Opens a request and sends it.
    pub(super) fn send(
        &mut self,
        step: &mut Step<'_>,
        request: &Request<'_>,
        course: &Course,
        session: SessionId,
        mark: Option<Mark>,
    ) {
        let cx = step.cx;
        let open = step
            .work
            .open(cx, request, course, session, Holder::Stateless);
        let may_retry = step.work.get(open).retained.is_some();
        let offers = control::offers(cx, course, may_retry);
        let open = step.work.get_mut(open);
        (open.offer, open.mark) = (Offer::of(offers), mark);
        let copy = Copy::of(open);
        self.forward_as(step, request, course, copy);
    }

    /// Sends a request that is open already, or need not be. `attempt` counts the servers that it was
    /// at before.
    pub(super) fn forward(
        &mut self,
        step: &mut Step<'_>,
        request: &Request<'_>,
        course: &Course,
        attempt: u8,
        mark: Option<Mark>,
    ) {
        let copy = Copy {
            attempt,
            mark,
            offers_control: control::offers(step.cx, course, false),
        };
        self.forward_as(step, request, course, copy);
    }

    fn forward_as(
        &mut self,
        step: &mut Step<'_>,
        request: &Request<'_>,
        course: &Course,
        copy: Copy,
    ) {
        let ends = course.ends(step.cx, request);
        let affinity = ends.filter(|_| request.forms_dialog());
        let hop = Hop {
            flow: course.next_hop,
            purpose: Purpose::Relay(copy.attempt),
            uri: None,
            path: &[],
            affinity,
            offers_control: copy.offers_control,
            mark: copy.mark,
        };
        self.relay(step, request, &hop);
    }

    /// Sends a CANCEL to a server that may have its INVITE, which was sent for this purpose.
    pub(super) fn copy(
        &mut self,
        step: &mut Step<'_>,
        request: &Request<'_>,
        purpose: Purpose,
        to: SocketAddr,
    ) {
        let hop = Hop {
            flow: request.flow_to_server(step.cx, to),
            purpose,
            uri: None,
            path: &[],
            affinity: None,
            offers_control: false,
            mark: None,
        };
        self.relay(step, request, &hop);
    }

    /// Sends a request of a dialog to the edge that keeps its client's connection, with all that leads there.
    pub(super) fn pass_on(&mut self, step: &mut Step<'_>, request: &Request<'_>, flow: Flow) {
        let snapshot = step.cx.snapshot;
        relay::pass_on(snapshot, &mut self.edits, request, flow, step.out);
    }

    fn relay(&mut self, step: &mut Step<'_>, request: &Request<'_>, hop: &Hop<'_>) {
        let snapshot = step.cx.snapshot;
        relay::request(snapshot, &mut self.edits, request, hop, step.out);
    }

    /// A retransmission goes where the request went, or elsewhere when that server is silent.
    pub(super) fn send_again(
        &mut self,
        step: &mut Step<'_>,
        request: &Request<'_>,
        mut course: Course,
        open: OpenId,
    ) {
        let cx = step.cx;
        if course.direction == Direction::ToServer {
            if is_stuck(step, request, open) {
                step.work.fail_over(cx, request, open);
            }
            let server = step.work.get(open).server();
            if let Some(member) = cx.snapshot.member(server) {
                let next_hop = request.flow_to_server(cx, member.address);
                (course.server, course.next_hop) = (Some(server), next_hop);
            }
        }
        let mut copy = Copy::of(step.work.get(open));
        copy.offers_control &= control::offers(cx, &course, false);
        self.forward_as(step, request, &course, copy);
    }

    /// Forwards a CANCEL with the branch of its INVITE. RFC 3261 §9.1
    pub(super) fn cancel(
        &mut self,
        step: &mut Step<'_>,
        request: &Request<'_>,
        mut course: Course,
        session: SessionId,
    ) -> Result<(), Reply> {
        let (cx, work) = (step.cx, &mut *step.work);
        let attempt = match work.find(session, request.id, false) {
            Some(invite) => {
                if !work.get(invite).is_cancelled {
                    work.cancel(cx, invite);
                    if work.room_in(session).is_ok() {
                        work.open(cx, request, &course, session, Holder::Stateless);
                    }
                }
                course.server = Some(work.get(invite).server());
                work.get(invite).attempt
            }
            None => attempt(step, Some(session), request.id)?,
        };
        self.forward(step, request, &course, attempt, None);
        Ok(())
    }

    /// Sends the request that is kept for an open one to another server. False: it can't be.
    pub(super) fn fail_over(&mut self, step: &mut Step<'_>, open: OpenId) -> bool {
        self.send_anew(step, open, |work, cx, request| {
            work.fail_over(cx, request, open)
        })
    }

    /// A server that chokes on an offer of overload control gets the request without it. False: that is
    /// not it, or the request can't be sent anew.
    fn try_without_offer(&mut self, step: &mut Step<'_>, open: OpenId) -> bool {
        self.send_anew(step, open, |work, cx, _| work.try_without_offer(cx, open))
    }

    /// Sends the request that is kept for an open one anew, to a server that `choose` has moved it to.
    fn send_anew(
        &mut self,
        step: &mut Step<'_>,
        open: OpenId,
        choose: impl for<'s> FnOnce(&mut Work, Context<'s>, &Request<'_>) -> Option<&'s Member>,
    ) -> bool {
        let Step {
            cx,
            work,
            dynamic,
            out,
        } = step;
        let cx = *cx;
        if !work.get(open).may_move() {
            return false;
        }
        let sent = work.with_retained(cx, open, |work, request| {
            let Some(new) = choose(work, cx, request) else {
                return false;
            };
            let course = Course {
                direction: Direction::ToServer,
                server: Some(new.server.id()),
                next_hop: request.flow_to_server(cx, new.address),
                session: Some(work.get(open).session),
                is_placed: true,
            };
            let copy = Copy::of(work.get(open));
            let step = &mut Step {
                cx,
                work,
                dynamic,
                out,
            };
            self.forward_as(step, request, &course, copy);
            true
        });
        sent == Some(true)
    }
}

/// Responses.
impl Stateless {
    /// A response to a request that was passed on, and whose session is known.
    pub(super) fn on_response(
        &mut self,
        step: &mut Step<'_>,
        session: SessionId,
        attempt: u8,
        response: &Response<'_>,
        back: Flow,
    ) {
        if self.fate(step, session, attempt, response) == Fate::Pass {
            return self.pass_back(step, response, back);
        }
        step.cx.stats.drop_one(Dropped::Superseded);
        let to = response.flow.remote;
        // Somebody who heard a server's answer may repeat it, and gets nothing.
        let is_of_server = step.cx.snapshot.has_member_at(to.ip());
        if response.cseq.method == Method::Invite && is_of_server {
            let method = if response.is_final() {
                Method::Ack
            } else {
                Method::Cancel
            };
            withdraw(step, method, response.branch, to, response);
        }
    }

    /// Sends a response on to the Via below ours, whose [flow](Response::way_back) this is.
    pub(super) fn pass_back(&mut self, step: &mut Step<'_>, response: &Response<'_>, back: Flow) {
        let room = step.dynamic.room(step.cx, response);
        relay::back(step.cx, &mut self.edits, response, room);
        let bytes = response.message.bytes();
        step.out.send(back, |out| self.edits.apply(bytes, out));
    }

    fn fate(
        &mut self,
        step: &mut Step<'_>,
        session: SessionId,
        attempt: u8,
        response: &Response<'_>,
    ) -> Fate {
        let is_cancel = response.cseq.method == Method::Cancel;
        let Some(open) = step.work.find(session, response.branch.id, is_cancel) else {
            return on_stray(step, session, attempt, response);
        };
        if !is_cancel && attempt != step.work.get(open).attempt {
            return on_late_answer(step, open, attempt, response);
        }
        step.work.note_response(step.cx, open, response);
        if !response.is_final() {
            on_provisional(step, open);
            return Fate::Pass;
        }
        if response.status == 503 && self.on_unavailable(step, open, response) {
            return Fate::Supersede;
        }
        if response.status == 400 && self.try_without_offer(step, open) {
            return Fate::Supersede;
        }
        step.work.complete(step.cx, open, response);
        Fate::Pass
    }

    /// A server that can't take a call now: it is left alone as long as it asks, and the request
    /// goes elsewhere. False: there is no elsewhere.
    fn on_unavailable(
        &mut self,
        step: &mut Step<'_>,
        open: OpenId,
        response: &Response<'_>,
    ) -> bool {
        let request = step.work.get_mut(open);
        if !request.is_charged || !request.is_initial {
            return false;
        }
        request.progress = Progress::Unanswered;
        step.work.back_off(step.cx, open, response);
        self.fail_over(step, open)
    }
}

/// Silence.
impl Stateless {
    /// Nobody listens where an open request went: an INVITE goes elsewhere if it can. None: there is
    /// no such request.
    pub(super) fn on_unreachable(
        &mut self,
        step: &mut Step<'_>,
        session: SessionId,
        attempt: u8,
        quote: &Quote<'_>,
        flow: Flow,
    ) -> Option<Unsent> {
        let is_cancel = quote.method == Method::Cancel;
        let open = step.work.find(session, quote.branch.id, is_cancel);
        let open = open.filter(|&open| step.work.get(open).attempt == attempt)?;
        let server = step.work.charged_server(step.cx, open);
        server.filter(|member| member.address == flow.remote)?;
        if self.fail_over(step, open) || !flow.transport.is_stream() {
            return Some(Unsent::Settled);
        }
        // The answer that it gets is not the server's.
        step.work.count_failed(step.cx, open);
        step.work.discharge(step.cx, open);
        Some(Unsent::Stuck)
    }

    /// Open requests whose time is over.
    pub(super) fn on_timers(&mut self, step: &mut Step<'_>) {
        while let Some(open) = step.work.pop_due(step.cx.now) {
            let request = step.work.get(open);
            let ends_at = request.began_at + step.cx.snapshot.transaction_max();
            let waits = request.kind == Kind::Invite && !request.is_cancelled;
            if waits && !request.is_answered() && step.cx.now < ends_at {
                self.on_silence(step, open, ends_at);
            } else if waits && request.is_answered() && request.retained.is_some() {
                end_ringing(step, open);
            } else {
                on_timeout(step, open);
            }
        }
    }

    /// A server let an INVITE wait too long: it goes elsewhere, if there is an elsewhere.
    fn on_silence(&mut self, step: &mut Step<'_>, open: OpenId, ends_at: Duration) {
        step.work.blame(step.cx, open);
        if !self.fail_over(step, open) {
            step.work.get_mut(open).progress = Progress::Overdue;
            step.work.arm(open, ends_at);
        }
    }

    /// The server of an open request is down: the request goes elsewhere if it can.
    pub(super) fn leave_fallen_server(&mut self, step: &mut Step<'_>, open: OpenId) {
        if self.fail_over(step, open) {
            return;
        }
        step.work.discharge(step.cx, open);
        if step.work.get(open).is_answered() {
            // A server that only stood still goes on to answer what rings there.
            let patience = step.cx.snapshot.transaction_max() / 4;
            step.work.arm(open, step.cx.now + patience);
        }
    }
}

/// How often the request with this identity was placed before. What belongs to a transaction that
/// ended at a server which its call has left since is refused.
pub(super) fn attempt(step: &Step<'_>, session: Option<SessionId>, id: u64) -> Result<u8, Reply> {
    let attempt = session.map_or(Some(0), |entry| step.work.calls.get(entry).attempt(id));
    attempt.ok_or_else(|| Reply::new(481))
}

/// Whether a request may and should go to another server.
fn is_stuck(step: &Step<'_>, request: &Request<'_>, open: OpenId) -> bool {
    let (cx, transaction) = (step.cx, step.work.get(open));
    let is_down = || {
        let member = cx.snapshot.member(transaction.server());
        member.is_none_or(|member| member.server.health() == Health::Down)
    };
    if transaction.is_initial {
        transaction.may_move() && (transaction.progress == Progress::Overdue || is_down())
    } else {
        transaction.may_move_within_cluster() && is_down() && request.is_for_cluster(cx.snapshot)
    }
}

fn on_provisional(step: &mut Step<'_>, open: OpenId) {
    let request = step.work.get_mut(open);
    request.progress = Progress::Provisional;
    if request.kind == Kind::Invite && !request.is_cancelled {
        // RFC 3261 §16.7 step 2: a provisional response starts Timer C again; 100 does not.
        let timer_c = step.cx.snapshot.config().timers.timer_c;
        step.work.arm(open, step.cx.now + timer_c);
    }
}

/// A server answers a request that was taken away from it. A 2xx still makes a call there, and
/// ends the attempt elsewhere.
fn on_late_answer(step: &mut Step<'_>, open: OpenId, attempt: u8, response: &Response<'_>) -> Fate {
    if !response.is_success() {
        return Fate::Supersede;
    }
    cancel_present_server(step, open, response);
    let (cx, work) = (step.cx, &mut *step.work);
    let request = work.get(open);
    let tried = request.tried.get(usize::from(attempt)).copied();
    let session = request.session;
    if let Some(answering) = tried.and_then(|server| cx.snapshot.member(server)) {
        work.calls.move_to(cx, session, answering);
        let session = work.calls.get_mut(session);
        session.set_attempt(response.branch.id, attempt);
    }
    work.complete(cx, open, response);
    Fate::Pass
}

/// RFC 3261 §16.7 step 10: after a 2xx the other branches of an INVITE are cancelled, but not
/// before they have answered, RFC 3261 §9.1: that answer is a stray then.
fn cancel_present_server(step: &mut Step<'_>, open: OpenId, response: &Response<'_>) {
    let request = step.work.get(open);
    let Some(member) = step.cx.snapshot.member(request.server()) else {
        return;
    };
    if request.kind == Kind::Invite && request.is_answered() {
        let branch = Branch {
            purpose: Purpose::Relay(request.attempt),
            ..response.branch
        };
        withdraw(step, Method::Cancel, branch, member.address, response);
    }
}

/// Ends an INVITE on a server that it was taken away from.
fn withdraw(
    step: &mut Step<'_>,
    method: Method<'_>,
    branch: Branch,
    to: SocketAddr,
    response: &Response<'_>,
) {
    let snapshot = step.cx.snapshot;
    relay::withdraw(snapshot, method, branch, to, response.message, step.out);
}

/// A response that no open request waits for: a fork's, a retransmission, the failure of a server
/// that the request was taken away from, or the end of a dialog whose BYE was not counted.
fn on_stray(step: &mut Step<'_>, session: SessionId, attempt: u8, response: &Response<'_>) -> Fate {
    let (cx, calls) = (step.cx, &mut step.work.calls);
    let is_success = response.is_success();
    if response.cseq.method == Method::Invite && is_success {
        calls.follow(cx, session, response);
    }
    if response.cseq.method == Method::Bye && response.is_final() {
        let tags = tag_pair(response.from_tag, response.to_tag);
        calls.end_dialog(cx, session, tags);
        calls.settle(cx, session);
    }
    cx.stats.count(Event::Stray, 1);
    let was_taken = calls.get(session).has_left(response.branch.id, attempt)
        && response.cseq.method != Method::Cancel;
    if was_taken && !is_success {
        Fate::Supersede
    } else {
        Fate::Pass
    }
}

/// No final response came in time.
fn on_timeout(step: &mut Step<'_>, open: OpenId) {
    let (cx, work) = (step.cx, &mut *step.work);
    cx.stats.count(Event::TimedOut, 1);
    work.time_out(cx, open);
    work.count_outcome(cx, open, 408);
    // Whoever still waits for an answer to a request that we keep gets one. RFC 3261 §16.8
    work.with_retained(cx, open, |_, request| {
        let (datagram, message) = (&request.datagram, request.message);
        reply::send(cx, datagram, message, &Reply::new(408), step.out);
    });
    step.work.abandon(cx, open);
}

/// An INVITE has rung until Timer C, or on a server that is down: the server is told to end it,
/// RFC 3261 §16.8. Its 487 goes back; for a server that is down the caller is answered at once.
fn end_ringing(step: &mut Step<'_>, open: OpenId) {
    let (cx, work) = (step.cx, &mut *step.work);
    let request = work.get_mut(open);
    request.is_cancelled = true;
    let (server, purpose) = (request.server(), Purpose::Relay(request.attempt));
    let is_down = !request.is_charged;
    if let Some(member) = cx.snapshot.member(server) {
        work.with_retained(cx, open, |_, request| {
            let branch = Branch {
                purpose,
                listener: request.datagram.flow.listener,
                id: request.id,
            };
            let (uri, invite) = (request.path.uri, request.message);
            relay::cancel(cx.snapshot, branch, member.address, uri, invite, step.out);
        });
    }
    if is_down {
        cx.stats.count(Event::RangOnFallen, 1);
        on_timeout(step, open);
    } else {
        cx.stats.count(Event::RangTooLong, 1);
        step.work.arm(open, cx.transaction_end());
    }
}

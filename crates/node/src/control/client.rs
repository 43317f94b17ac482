//! The client's part: what servers ask of the node.

use std::{ops::Range, time::Duration};

use balance::ServerId;
use overload::{Algorithm, Class, Terms};
use sip::{Message, Method, OVERLOAD_OFFER, Overload};
use transaction::{Flow, Sender};

use super::Control;
use crate::{
    admission::{self, NotNow, RETRY_AFTER_S},
    config,
    context::Context,
    io::Outbox,
    member::Member,
    snapshot::{PoolView, Snapshot},
    stats::Event,
    wire::{reply::Reply, request::Request, response::Response, token::Direction},
    work::{Course, Offer, OpenRequest},
};

/// RFC 7339 §4.3
const VALIDITY_MS_DEFAULT: u32 = 500;

/// Seconds by which the Retry-After of REGISTERs differ.
const JITTER_S: u64 = 16;

/// Whether a request carries an offer on its course. A server that never took part gets one
/// with what can be sent anew, so that nothing is lost should it choke.
pub(crate) fn offers(cx: Context<'_>, course: &Course, may_retry: bool) -> bool {
    if !cx.snapshot.offers_control() {
        return false;
    }
    let server = course
        .server
        .filter(|_| course.direction == Direction::ToServer);
    let member = server.and_then(|server| cx.snapshot.member(server));
    member.is_some_and(|member| may_offer(cx, member, may_retry))
}

/// Whether a request to a server carries an offer.
pub(crate) fn may_offer(cx: Context<'_>, member: &Member, may_retry: bool) -> bool {
    let pool = cx.snapshot.pool_of(member);
    pool.is_some_and(|pool| pool.config().overload_control)
        && member.control.may_offer(cx.now, may_retry)
}

/// Adds the servers of a pool that a request may not go to. Returns whether there are any.
pub(crate) fn withhold(
    cx: Context<'_>,
    request: &Request<'_>,
    pool: &PoolView,
    avoid: &mut Vec<ServerId>,
) -> bool {
    if !pool.config().overload_control {
        return false;
    }
    let before = avoid.len();
    let mut class = None;
    for server in pool.pool().all_servers() {
        let id = server.id();
        let Some(member) = cx.snapshot.member(id) else {
            continue;
        };
        let restriction = &member.control.restriction;
        if !restriction.is_active(cx.now) {
            continue;
        }
        let class = *class.get_or_insert_with(|| class_of(cx, request));
        if !restriction.admits(cx.now, class, draw(request.id, id)) {
            avoid.push(id);
        }
    }
    avoid.len() > before
}

/// Sends for held transactions. What they repeat counts as new to a server that has told a rate, which serves that as well.
/// So it goes only if others leave some of the rate, and to no server that has no room for what is new. What belongs to a call
/// always goes.
pub(crate) struct Repeats<'a, 'o> {
    pub(crate) cx: Context<'a>,
    pub(crate) out: &'o mut Outbox,
}

impl Repeats<'_, '_> {
    fn admits(&self, member: &Member, pool: &config::Pool, invite: &[u8]) -> bool {
        let now = self.cx.now;
        let restriction = &member.control.restriction;
        let is_restricted = pool.overload_control && restriction.is_active(now);
        let is_full = !member.has_room(now, Method::Invite, pool);
        if !is_full && !is_restricted {
            return true;
        }
        let Some(class) = class_of_repeated(self.cx.snapshot, invite) else {
            return true;
        };
        if is_full {
            return class == Class::Emergency;
        }
        let is_admitted = restriction.admits(now, class, 0);
        if is_admitted {
            restriction.pass(now);
        }
        is_admitted
    }
}

impl Sender for Repeats<'_, '_> {
    fn send(&mut self, flow: Flow, bytes: &[u8]) {
        Sender::send(self.out, flow, bytes);
    }

    fn withdraws(&mut self, flow: Flow, request: &[u8]) -> Option<Range<usize>> {
        let snapshot = self.cx.snapshot;
        if !snapshot.offers_control() || !snapshot.member_of(flow)?.control.may_choke() {
            return None;
        }
        offer_in(request)
    }

    fn may_repeat(&mut self, flow: Flow, invite: &[u8]) -> bool {
        let snapshot = self.cx.snapshot;
        let Some(member) = snapshot.member_of(flow) else {
            return true;
        };
        let Some(pool) = snapshot.pool_of(member) else {
            return true;
        };
        let is_admitted = self.admits(member, pool.config(), invite);
        if !is_admitted {
            self.cx.stats.count(Event::RepeatWithheld, 1);
        }
        is_admitted
    }
}

/// Where our offer is in a request that we sent.
fn offer_in(request: &[u8]) -> Option<Range<usize>> {
    let mut lines = request.split_inclusive(|&byte| byte == b'\n');
    let [first, top_via] = [lines.next()?, lines.next()?];
    let mut parts = top_via.windows(OVERLOAD_OFFER.len());
    let start = first.len() + parts.position(|part| part == OVERLOAD_OFFER)?;
    Some(start..start + OVERLOAD_OFFER.len())
}

/// None: it belongs to a call. Whether a peer may call it urgent is not known any more.
fn class_of_repeated(snapshot: &Snapshot, invite: &[u8]) -> Option<Class> {
    let message = Message::parse(invite, usize::MAX).ok()?;
    if message.to_tag().is_ok_and(|tag| tag.is_some()) {
        return None;
    }
    if admission::is_called_first(snapshot, &message) {
        return Some(Class::Emergency);
    }
    Some(Class::Repeated)
}

/// Refuses a request for which no server was found. Who calls is told to try elsewhere; phones that
/// register come back, but not all at once.
pub(crate) fn refuse(cx: Context<'_>, request: &Request<'_>, why: NotNow) -> Reply {
    let refusal = admission::refuse(cx, why);
    let is_told = matches!(why, NotNow::Restricted | NotNow::NoRoom);
    if !is_told || request.method != Method::Register {
        return refusal;
    }
    let after = RETRY_AFTER_S + (request.id >> 32) % JITTER_S;
    refusal.with("Retry-After", after.to_string())
}

/// An answer to a request that is open at a server.
pub(crate) fn on_response(cx: Context<'_>, open: &mut OpenRequest, response: &Response<'_>) {
    let is_told = response.overload.get().is_some();
    if !is_told && open.offer == Offer::No {
        return;
    }
    let Some(member) = cx.snapshot.member(open.server()) else {
        return;
    };
    if !open.is_charged || !member.is_at(response.flow) {
        return;
    }
    let pool = cx.snapshot.pool_of(member);
    if pool.is_some_and(|pool| pool.config().overload_control)
        && let Some(terms) = response.overload.take().and_then(terms_of)
    {
        cx.stats.count(Event::ControlTaken, 1);
        member.control.observe(cx.now, &terms);
    }
    if !is_told && open.offer == Offer::Made && response.status > 100 {
        member.control.is_silent();
    }
    judge_offer(cx, member, open, response.status);
}

/// What an answer tells of an offer. It may be an answer to what was repeated without one.
fn judge_offer(cx: Context<'_>, member: &Member, open: &mut OpenRequest, status: u16) {
    let t1 = cx.snapshot.config().timers.t1;
    let was_repeated = !member.transport.is_stream() && cx.now >= open.sent_at + t1;
    let control = &member.control;
    match (open.offer, status) {
        (Offer::No, _) | (Offer::Made, 400) | (Offer::Withdrawn, 100) => {}
        (Offer::Made, _) if !was_repeated || !control.may_choke() => control.welcomes(),
        (Offer::Withdrawn, 400) => open.offer = Offer::No,
        (Offer::Made | Offer::Withdrawn, _) => {
            open.offer = Offer::No;
            strike(cx, control);
        }
    }
}

/// A server did not answer a request in time. Over streams it was not repeated without the offer.
pub(crate) fn on_silence(cx: Context<'_>, member: &Member, open: &OpenRequest) {
    if open.offer == Offer::Made && member.transport.is_stream() && member.control.may_choke() {
        strike(cx, &member.control);
    }
}

/// A server has answered without an offer what it refused or ignored with one, or it may have ignored it.
fn strike(cx: Context<'_>, control: &Control) {
    if control.strike(cx.now) {
        cx.stats.count(Event::ControlRefused, 1);
    }
}

/// Counts what a response told and nobody took: it is forged, or late.
pub(crate) fn ignore_rest(cx: Context<'_>, response: &Response<'_>) {
    if response.overload.take().is_some() {
        cx.stats.count(Event::ControlIgnored, 1);
    }
}

/// None: no algorithm of ours, or several.
fn terms_of(told: Overload) -> Option<Terms> {
    let algorithm = match (told.has_loss, told.has_rate) {
        (true, false) => Algorithm::Loss,
        (false, true) => Algorithm::Rate,
        (true, true) | (false, false) => return None,
    };
    let validity_ms = told.validity_ms.unwrap_or(VALIDITY_MS_DEFAULT);
    Some(Terms {
        algorithm,
        value: told.value?,
        validity: Duration::from_millis(validity_ms.into()),
        sequence: told.sequence,
    })
}

fn class_of(cx: Context<'_>, request: &Request<'_>) -> Class {
    if admission::is_urgent(cx.snapshot, request.datagram.flow, request.message) {
        Class::Emergency
    } else {
        Class::New
    }
}

/// Evenly spread, the same for each retransmission, and another for each server.
fn draw(request: u64, server: ServerId) -> u64 {
    let mut bits = request ^ (u64::from(server.0) << 48);
    for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        bits = (bits ^ bits >> 33).wrapping_mul(factor);
    }
    bits ^ bits >> 33
}

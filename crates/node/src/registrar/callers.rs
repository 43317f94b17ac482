//! Requests that begin something and whose senders must prove who they are: RFC 3261 §22.3.
//!
//! Nothing is held for a request before its sender shows credentials; a challenge is answered and
//! forgotten. Then the request waits for the store as a REGISTER does, and goes on when the
//! credentials are good.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use location::Aor;
use sip::{HeaderName, Method, Uri};
use slots::{Id, Ticket};

use super::{
    Registrar,
    auth::{Claim, Role},
    waiting::{Waiting, Waitings},
};
use crate::{
    admission::{self, NotNow},
    config::{self, Mode},
    context::Context,
    io::{Origin, Outbox},
    question::{Answer, Ask, Asker, Question, QuestionId, Record},
    snapshot::Snapshot,
    stats::Event,
    wire::{
        mark::{self, Check},
        reply::{self, Reply},
        request::{Request, Sender},
    },
};

/// Accepted requests whose retransmissions a worker knows. One of those before is challenged again.
const ACCEPTED_MAX: usize = 65_536;

/// Whether a request may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// It may, with this known of its sender.
    Open(Sender),
    /// The store is asked who its sender is.
    Waits,
}

/// What a worker remembers of those who call.
#[derive(Debug)]
pub(super) struct Callers {
    waiting: Waitings<Origin>,
    accepted: Accepted,
}

impl Callers {
    pub(super) fn new(limit: usize, message_bytes: usize, now: Duration) -> Self {
        Self {
            waiting: Waitings::new(limit, message_bytes, now),
            accepted: Accepted::default(),
        }
    }

    pub(super) fn has(&self, id: u64) -> bool {
        self.waiting.has(id)
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.waiting.deadline()
    }

    fn room(&self, store_has_room: bool) -> Result<(), NotNow> {
        if self.waiting.has_room() && store_has_room {
            Ok(())
        } else {
            Err(NotNow::CallersFull)
        }
    }
}

impl Registrar {
    /// Asks the sender of a request for a proof if the request's route wants one. `may_leave`: whether a node
    /// behind may check what the sender shows.
    ///
    /// # Errors
    /// The challenge, or another refusal.
    pub(crate) fn access(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        origin: Origin,
        may_leave: impl FnOnce() -> bool,
        out: &mut Outbox,
    ) -> Result<Access, Reply> {
        match sender_of(cx.snapshot, request) {
            Sender::Unchecked => self.check(cx, request, origin, may_leave, out),
            known => Ok(Access::Open(known)),
        }
    }

    /// The same for a request whose sender has to prove who they are.
    pub(crate) fn check(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        origin: Origin,
        may_leave: impl FnOnce() -> bool,
        out: &mut Outbox,
    ) -> Result<Access, Reply> {
        if self.callers.accepted.has(cx, id(cx, request)) {
            return Ok(Access::Open(Sender::Proven));
        }
        admission::admit(cx, self.callers.room(self.store_has_room(cx)), || {
            self.auth.retry_after_s()
        })?;
        let config = config(cx)?;
        let user = user(request);
        let proof = self
            .auth
            .proof(cx, config, request, &claim(config, user.as_ref()))?;
        let proof = proof.ok_or_else(|| Reply::new(500))?;
        if proof.is_for_target(request) && may_leave() {
            return Ok(Access::Open(Sender::Unchecked));
        }
        let key = proof.subscriber;
        let waiting = &mut self.callers.waiting;
        let Some(place) = waiting.open(cx.now, request, |_| origin) else {
            return Err(self.not_now(cx, NotNow::CallersFull));
        };
        waiting.get_mut(place).asks(cx.now, &self.store);
        let id = QuestionId(Asker::Caller(waiting.ticket(place)));
        let ask = Ask::Read { key };
        out.questions.push(Question { id, ask });
        Ok(Access::Waits)
    }

    /// The store has answered who a caller is. Some: the request whose sender is proven;
    /// [`Self::release`] is to follow.
    pub(crate) fn on_caller(
        &mut self,
        cx: Context<'_>,
        ticket: Ticket,
        answer: Answer,
        out: &mut Outbox,
    ) -> Option<Waiting<Origin>> {
        let place = self.callers.waiting.find(ticket)?;
        let waiting = self.callers.waiting.get_mut(place);
        waiting.is_answered(cx.now, &self.store, &answer);
        let checked = match answer {
            Answer::Record(record) => self.check_caller(cx, place, record),
            Answer::Changed | Answer::Located(_) | Answer::Failed => {
                Err(self.not_now(cx, NotNow::StoreFailed))
            }
        };
        match checked {
            Ok(id) => {
                cx.stats.count(Event::Proven, 1);
                self.callers.accepted.add(cx, id);
                Some(self.callers.waiting.take(place))
            }
            Err(refusal) => {
                self.refuse_caller(cx, place, &refusal, out);
                None
            }
        }
    }

    /// Gives the memory of a request back.
    pub(crate) fn release(&mut self, taken: Waiting<Origin>) {
        self.callers.waiting.release(taken);
    }

    pub(super) fn refuse_silent_callers(&mut self, cx: Context<'_>, out: &mut Outbox) {
        while let Some(place) = self.callers.waiting.pop_due(cx.now) {
            let waiting = self.callers.waiting.get_mut(place);
            waiting.gives_up(cx.now, &self.store);
            let refusal = self.not_now(cx, NotNow::StoreFailed);
            self.refuse_caller(cx, place, &refusal, out);
        }
    }

    /// The [id] of a request whose sender is proven.
    fn check_caller(
        &mut self,
        cx: Context<'_>,
        place: Id<Waiting<Origin>>,
        record: Option<Record>,
    ) -> Result<u64, Reply> {
        let config = config(cx)?;
        let auth = &mut self.auth;
        let kept = &self.callers.waiting.get(place).request;
        let checked = kept.read(cx.snapshot, |request| {
            let user = user(request);
            let claim = claim(config, user.as_ref());
            let proof = auth.proof(cx, config, request, &claim)?;
            let proof = proof.ok_or_else(|| Reply::new(500))?;
            if auth.check(cx, config, request, &claim, &proof, record)? {
                return Err(auth.challenge(cx, config, request, &claim, true));
            }
            Ok(id(cx, request))
        });
        checked.unwrap_or_else(|| Err(Reply::new(500)))
    }

    fn refuse_caller(
        &mut self,
        cx: Context<'_>,
        place: Id<Waiting<Origin>>,
        refusal: &Reply,
        out: &mut Outbox,
    ) {
        let taken = self.callers.waiting.take(place);
        if let Some(message) = taken.request.message(cx.snapshot) {
            reply::send(cx, &taken.request.datagram(), &message, refusal, out);
        }
        self.release(taken);
    }
}

/// The registrar whose users may call. A reload may have taken it away.
fn config(cx: Context<'_>) -> Result<&config::Registrar, Reply> {
    let config = cx.snapshot.config().registrar.as_ref();
    config.ok_or_else(|| Reply::new(500))
}

/// What is known of a request's sender before it is checked here. An ACK can't be challenged, nor a CANCEL: RFC 3261
/// §22.1. The registrar itself asks who registers.
///
/// A peer is believed, or has believed whoever sent it the request. But where the nodes of a path settle who of them
/// checks, one says of each request whether it was checked; what a node's own branch comes without that is checked.
fn sender_of(snapshot: &Snapshot, request: &Request<'_>) -> Sender {
    let is_exempt = matches!(
        request.method,
        Method::Ack | Method::Cancel | Method::Register
    );
    if is_exempt || !request.is_initial() {
        return Sender::Unasked;
    }
    let asks = snapshot.route_that_asks(&request.traits());
    if asks.is_none() && !request.via.has_private {
        return Sender::Unasked;
    }
    let is_trusted = snapshot.is_trusted(request.datagram.flow);
    let told = is_trusted.then(|| Check::told(snapshot.keys(), request));
    match (told.flatten(), asks) {
        (Some(Check::Done), _) => Sender::Known,
        (Some(Check::Open), _) => Sender::Unchecked,
        (None, None) => Sender::Unasked,
        (None, Some(route)) => {
            let is_unmarked = route.state == Mode::Dynamic && mark::is_of_node(request);
            if is_trusted && !is_unmarked {
                Sender::Known
            } else {
                Sender::Unchecked
            }
        }
    }
}

/// Whether the sender of a request must prove who they are.
pub(crate) fn is_to_prove(snapshot: &Snapshot, request: &Request<'_>) -> bool {
    sender_of(snapshot, request) == Sender::Unchecked
}

/// The user in the From.
fn user(request: &Request<'_>) -> Option<Aor> {
    let from = request.message.from().ok()?;
    Aor::of(&Uri::parse(from.uri).ok()?)
}

/// A request has to be from the user in its From. Somebody of a foreign domain is asked for what they
/// can't show: a user of ours.
fn claim<'a>(config: &'a config::Registrar, user: Option<&'a Aor>) -> Claim<'a> {
    let is_ours = |user: &&Aor| config.domains.iter().any(|known| known == user.domain());
    let user = user.filter(is_ours);
    let first = config.domains.first().map_or("", String::as_str);
    Claim {
        role: Role::Proxy,
        realm: user.map_or(first, Aor::domain),
        user,
    }
}

/// What the retransmissions of a request have in common: its transaction, and what its credentials were
/// good for. Who copies the one can't change the other.
fn id(cx: Context<'_>, request: &Request<'_>) -> u64 {
    let from = request.message.header(HeaderName::From).unwrap_or_default();
    let (branch, method) = (request.id.to_be_bytes(), request.method.as_bytes());
    let parts = [&branch[..], method, from, request.path.uri];
    cx.snapshot.keys().of_session(request.key, &parts)
}

/// The marks of requests whose senders were proven: they come again until they are answered, and their
/// credentials are good once. RFC 3261 §17.1: for 64*T1 at most.
#[derive(Debug, Default)]
struct Accepted {
    marks: BTreeSet<u64>,
    /// With the moment until which each is known, the oldest first.
    order: VecDeque<(Duration, u64)>,
}

impl Accepted {
    fn add(&mut self, cx: Context<'_>, mark: u64) {
        self.forget(cx.now, ACCEPTED_MAX - 1);
        if self.marks.insert(mark) {
            self.order.push_back((cx.transaction_end(), mark));
        }
    }

    fn has(&mut self, cx: Context<'_>, mark: u64) -> bool {
        self.forget(cx.now, ACCEPTED_MAX);
        self.marks.contains(&mark)
    }

    fn forget(&mut self, now: Duration, left: usize) {
        while let Some((end, mark)) = self.order.front()
            && (*end <= now || self.order.len() > left)
        {
            self.marks.remove(mark);
            self.order.pop_front();
        }
    }
}

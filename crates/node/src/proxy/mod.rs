//! The proxy: RFC 3261 §16. It decides where requests go, and sends them with transactions or
//! without.
//!
//! [`routing`] finds the [`Course`]; [`stateless`] and [`stateful`] are the two senders, and
//! [`Proxy::transact`] alone decides which of them has a request. Both stand on [`Work`].

mod budget;
mod dynamic;
mod elsewhere;
mod flows;
mod large;
mod orphans;
mod parked;
mod routing;
mod stateful;
mod stateless;
mod step;
mod transact;

use std::time::Duration;

use fastrand::Rng;
use sip::Method;
use transaction::{Flow, NextHop};

use self::{
    dynamic::Dynamic, orphans::Orphans, parked::Parked, stateful::Stateful, stateless::Stateless,
    step::Step,
};
pub(crate) use self::{parked::ParkedRequest, step::Unsent};
use crate::{
    admission::{RETRY_AFTER_S, admit, refuse},
    calls::{SessionId, tag_pair},
    config,
    context::Context,
    io::{Named, Origin, Outbox},
    question::{Answer, Asker},
    snapshot::Snapshot,
    stats::{Dropped, Event, Sizes},
    wire::{
        branch::Purpose, mark::Mark, quote::Quote, reply::Reply, request::Request,
        response::Response, token::Direction,
    },
    work::{Course, Holder, Work},
};

/// What a worker's proxy remembers.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) work: Work,
    pub(crate) dynamic: Dynamic,
    stateless: Stateless,
    stateful: Stateful,
    parked: Parked,
    orphans: Orphans,
}

/// What became of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Routed<'s> {
    /// The proxy has dealt with it.
    Done,
    /// It is a REGISTER for this registrar.
    Registers(&'s config::Registrar),
    /// It names a dialog of this worker, which is to be asked where that is.
    Asks(usize),
    /// No node behind checks who sent it, so this one has to.
    IsUnchecked,
}

impl Proxy {
    /// `share` divides a limit among the workers.
    pub(crate) fn new(
        snapshot: &Snapshot,
        share: impl Fn(usize) -> usize,
        rng: Rng,
        now: Duration,
    ) -> Self {
        let config = snapshot.config();
        let limits = &config.limits;
        Self {
            work: Work::new(limits, &share, rng, now),
            dynamic: Dynamic::default(),
            stateless: Stateless::default(),
            stateful: Stateful::new(config, share(limits.held_transactions), now),
            parked: Parked::new(limits.message_bytes, now),
            orphans: Orphans::new(),
        }
    }

    /// There is a new configuration.
    pub(crate) fn renew(&mut self, config: &config::Config) {
        self.stateful.renew(config);
    }

    /// What it holds. The parts of registrar and lobby are left out.
    pub(crate) fn sizes(&self) -> Sizes {
        let (sessions_active, sessions_expired) = self.work.calls.sizes();
        Sizes {
            sessions_active,
            sessions_expired,
            transactions: self.work.len() + self.stateful.looked_up() + self.parked.len(),
            held_transactions: self.stateful.len(),
            retained_bytes: self.work.kept_bytes(),
            held_bytes: self.stateful.kept_bytes(),
            unlocated_bytes: self.parked.kept_bytes(),
            registrations_bytes: 0,
            lobby_bytes: 0,
        }
    }

    pub(crate) fn deadline(&self, now: Duration, transaction_max: Duration) -> Option<Duration> {
        [
            self.work.deadline(),
            self.work.calls.deadline(now, transaction_max),
            self.stateful.deadline(),
            self.parked.deadline(),
            self.dynamic.deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Whether a request is of a transaction that is held, which then has dealt with it.
    pub(crate) fn absorb(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        out: &mut Outbox,
    ) -> bool {
        let (stateful, _, mut step) = self.split(cx, out);
        stateful.absorb(&mut step, request)
    }

    /// Whether a request begins something, and is no retransmission.
    pub(crate) fn begins(&self, request: &Request<'_>) -> bool {
        let is_new = |session| self.work.is_new(request, Direction::ToServer, session);
        request.is_initial()
            && !matches!(request.method, Method::Ack | Method::Cancel)
            && self.work.calls.find(request.key).is_none_or(is_new)
    }

    /// Lets a request wait if the DNS has to be asked where it leads. False: it need not wait.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) fn park(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        origin: Origin,
        out: &mut Outbox,
    ) -> Result<bool, Reply> {
        let parked = self.parked.park(cx, request, origin, out);
        parked.map_err(|why| refuse(cx, why))
    }

    /// Of the addresses that the DNS told, the first that a listener reaches.
    pub(crate) fn first_reachable(
        &self,
        cx: Context<'_>,
        told: Answer,
        request: &Request<'_>,
    ) -> Option<NextHop> {
        let (hit, name) = (request.datagram.flow.listener, request.next_name()?);
        let reachable = parked::reachable(cx, told, hit, &name.host);
        reachable.first().map(|flow| flow.next_hop())
    }

    /// The next request that has waited for the DNS for too long.
    pub(crate) fn unpark_due(&mut self, now: Duration) -> Option<ParkedRequest> {
        self.parked.take_due(now)
    }

    /// Gives the memory of a request back that waited for the DNS.
    pub(crate) fn release(&mut self, parked: ParkedRequest) {
        self.parked.release(parked);
    }

    /// Sends a request where it belongs.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) fn route<'s>(
        &mut self,
        cx: Context<'s>,
        worker: usize,
        request: &Request<'_>,
        origin: Origin,
        out: &mut Outbox,
    ) -> Result<Routed<'s>, Reply> {
        let session = self.work.calls.find(request.key);
        let registrar = match request.method {
            Method::Cancel | Method::Ack => None,
            _ => routing::registrar(cx, request),
        };
        let course = match registrar {
            None => routing::known_course(cx, &mut self.work.calls, request, session)?,
            Some(_) => None,
        };
        if let Some(course) = course.as_ref().filter(|_| !is_of_invite(request.method)) {
            request.check_way(cx, course.next_hop.transport.is_secure())?;
        }
        match (request.method, course, registrar) {
            (Method::Cancel, course, _) => self.on_cancel(cx, request, course, out)?,
            (Method::Ack, course, _) => self.on_ack(cx, request, course, out)?,
            (_, Some(course), _) => return self.transact(cx, request, course, out),
            _ if !request.is_initial() => return Err(Reply::new(481)),
            (Method::Register, None, Some(registrar)) => return Ok(Routed::Registers(registrar)),
            (_, None, Some(_)) if request.is_unchecked() => return Ok(Routed::IsUnchecked),
            (_, None, Some(registrar)) => {
                let (stateful, _, mut step) = self.split(cx, out);
                stateful.look_up(&mut step, registrar, request)?;
            }
            (_, None, None) => return self.begin(cx, worker, request, origin, out),
        }
        Ok(Routed::Done)
    }

    /// Sends a request that belongs to nothing to a server, or outwards.
    fn begin<'s>(
        &mut self,
        cx: Context<'s>,
        worker: usize,
        request: &Request<'_>,
        origin: Origin,
        out: &mut Outbox,
    ) -> Result<Routed<'s>, Reply> {
        admit(cx, self.work.room(), || RETRY_AFTER_S)?;
        let named = match origin {
            Origin::Worker(named @ (Named::Nowhere | Named::At(_))) => named,
            Origin::Socket | Origin::Worker(Named::Unasked) => {
                if let Some(owner) = owner_of_named(cx, request).filter(|&owner| owner != worker) {
                    return Ok(Routed::Asks(owner));
                }
                self.find_named(cx, request)
            }
        };
        let named = match named {
            Named::At(server) => Some(server),
            Named::Unasked | Named::Nowhere => None,
        };
        let room = self.stateful.room();
        let course = routing::new_course(cx, &mut self.work, room, request, named)?;
        self.transact(cx, request, course, out)
    }

    /// Where the dialog is that a request names in Replaces, Join or Target-Dialog.
    pub(crate) fn find_named(&self, cx: Context<'_>, request: &Request<'_>) -> Named {
        let call_id = request.message.dialog_named();
        let key = call_id.map(|call_id| cx.snapshot.keys().session(call_id));
        let server = key.and_then(|key| self.work.calls.server_of(key));
        server.map_or(Named::Nowhere, Named::At)
    }

    /// ACK opens nothing and is never answered. For a failure it goes where the INVITE went and
    /// with its branch, RFC 3261 §17.1.1.3; for a 2xx it is a request of its own.
    fn on_ack(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        course: Option<Course>,
        out: &mut Outbox,
    ) -> Result<(), Reply> {
        let course = course.ok_or_else(|| Reply::new(481))?;
        if let Some(session) = course.session {
            let tags = tag_pair(request.from_tag, request.to_tag.unwrap_or_default());
            self.work.calls.acknowledge(session, tags);
        }
        let (_, stateless, mut step) = self.split(cx, out);
        let attempt = stateless::attempt(&step, course.session, request.id)?;
        stateless.forward(&mut step, request, &course, attempt, None);
        Ok(())
    }

    /// CANCEL goes where its INVITE went, with its branch. RFC 3261 §9.1, §16.10
    fn on_cancel(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        course: Option<Course>,
        out: &mut Outbox,
    ) -> Result<(), Reply> {
        let Some(course) = course else {
            return self.pass_orphaned_cancel(cx, request, out);
        };
        let (_, stateless, mut step) = self.split(cx, out);
        match course.session {
            Some(session) => stateless.cancel(&mut step, request, course, session),
            None => {
                stateless.forward(&mut step, request, &course, 0, None);
                Ok(())
            }
        }
    }

    /// Passes a CANCEL on with the branch that its INVITE had: to each server that may have got the
    /// INVITE.
    fn pass_orphaned_cancel(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        out: &mut Outbox,
    ) -> Result<(), Reply> {
        let (servers, purpose) = orphans::cancelled(cx, request).ok_or_else(|| Reply::new(481))?;
        if !self.orphans.spend(cx, request.datagram.flow) {
            cx.stats.count(Event::CancelsFull, 1);
            return Err(Reply::new(481));
        }
        cx.stats.count(Event::OrphanedCancel, 1);
        let (_, stateless, mut step) = self.split(cx, out);
        for to in servers {
            stateless.copy(&mut step, request, purpose, to);
        }
        Ok(())
    }

    /// A response to a request that passed here.
    pub(crate) fn on_response(
        &mut self,
        cx: Context<'_>,
        response: &Response<'_>,
        out: &mut Outbox,
    ) {
        let session = self.work.calls.find(response.key);
        // What somebody sends back that we have sent ourselves tells nothing of anybody.
        if response.branch.purpose != Purpose::Recheck && response.below.is_none() {
            if !self.ends_our_cancel(cx, response, out) {
                cx.stats.drop_one(Dropped::NoReturnPath);
            }
            return;
        }
        self.dynamic.hear(cx, response);
        match response.branch.purpose {
            Purpose::Relay(attempt) if self.is_of_held(cx, attempt, response, out) => {}
            Purpose::Relay(attempt) => self.on_relayed(cx, session, attempt, response, out),
            Purpose::Held { number, .. } => {
                let (stateful, _, mut step) = self.split(cx, out);
                if !stateful.on_response(&mut step, number, response) {
                    self.on_unmatched(cx, response, out);
                }
            }
            Purpose::KeepAlive => {}
            Purpose::Probe | Purpose::Recheck => {
                self.work.calls.on_recheck_answer(cx, session, response);
            }
        }
    }

    /// A response to a request of a stateful route, without a transaction: it goes nowhere,
    /// RFC 6026 §7.3, unless it answers a CANCEL that was passed on because its INVITE is not known.
    fn on_unmatched(&mut self, cx: Context<'_>, response: &Response<'_>, out: &mut Outbox) {
        let back = match response.way_back(cx.snapshot) {
            _ if response.cseq.method != Method::Cancel => Err(Dropped::Unmatched),
            Ok(_) if orphans::is_of_a_copy(cx, response) => Err(Dropped::OfACopy),
            back => back,
        };
        let (_, stateless, mut step) = self.split(cx, out);
        match back {
            Ok(back) => stateless.pass_back(&mut step, response, back),
            Err(reason) => cx.stats.drop_one(reason),
        }
    }

    /// Whether a response is to our own CANCEL, which has one Via, ours: RFC 3261 §9.1.
    fn ends_our_cancel(
        &mut self,
        cx: Context<'_>,
        response: &Response<'_>,
        out: &mut Outbox,
    ) -> bool {
        let (Purpose::Held { number, .. } | Purpose::Relay(number)) = response.branch.purpose
        else {
            return false;
        };
        let (stateful, _, mut step) = self.split(cx, out);
        response.cseq.method == Method::Cancel && stateful.on_response(&mut step, number, response)
    }

    /// Whether a response is to a request of a route with dynamic state that the node holds, or has held.
    fn is_of_held(
        &mut self,
        cx: Context<'_>,
        attempt: u8,
        response: &Response<'_>,
        out: &mut Outbox,
    ) -> bool {
        if Mark::is_of_other(response) {
            return false;
        }
        let (stateful, _, mut step) = self.split(cx, out);
        if stateful.on_response(&mut step, attempt, response) {
            return true;
        }
        let is_here = Mark::of_response(cx.snapshot, response) == Some(Mark::Here);
        if is_here {
            self.on_unmatched(cx, response, out);
        }
        is_here
    }

    fn on_relayed(
        &mut self,
        cx: Context<'_>,
        session: Option<SessionId>,
        attempt: u8,
        response: &Response<'_>,
        out: &mut Outbox,
    ) {
        let back = match response.way_back(cx.snapshot) {
            Ok(back) => back,
            Err(reason) => return cx.stats.drop_one(reason),
        };
        if response.is_success() && !response.to_tag.is_empty() {
            self.work.calls.moved.confirm(response.key, back);
        }
        let (_, stateless, mut step) = self.split(cx, out);
        match session {
            Some(session) => stateless.on_response(&mut step, session, attempt, response, back),
            None if orphans::is_of_a_copy(cx, response) => cx.stats.drop_one(Dropped::OfACopy),
            None => {
                orphans::adopt(cx, &mut step.work.calls, attempt, response);
                stateless.pass_back(&mut step, response, back);
            }
        }
    }

    /// Nobody listens where a request went, which is quoted. None: no such request is open.
    pub(crate) fn on_unreachable(
        &mut self,
        cx: Context<'_>,
        quote: &Quote<'_>,
        flow: Flow,
        out: &mut Outbox,
    ) -> Option<Unsent> {
        let key = quote
            .call_id
            .map(|call_id| cx.snapshot.keys().session(call_id));
        let session = key.and_then(|key| self.work.calls.find(key));
        let (stateful, stateless, mut step) = self.split(cx, out);
        match (quote.branch.purpose, session) {
            (Purpose::Held { number, .. }, _) => stateful
                .on_unreachable(&mut step, number, quote, flow)
                .then_some(Unsent::Settled),
            (Purpose::Relay(attempt), session) => {
                if stateful.on_unreachable(&mut step, attempt, quote, flow) {
                    return Some(Unsent::Settled);
                }
                stateless.on_unreachable(&mut step, session?, attempt, quote, flow)
            }
            (Purpose::Probe | Purpose::Recheck | Purpose::KeepAlive, _) => None,
        }
    }

    /// The store or the DNS has answered. Some: the request that waited for the DNS, and where its
    /// next hop is.
    pub(crate) fn on_answer(
        &mut self,
        cx: Context<'_>,
        asker: Asker,
        answer: Answer,
        out: &mut Outbox,
    ) -> Option<(ParkedRequest, Answer)> {
        let (stateful, _, mut step) = self.split(cx, out);
        match asker {
            Asker::LookUp(ticket) => stateful.on_looked_up(&mut step, ticket, answer),
            Asker::Target(ticket, number) => {
                stateful.on_target_located(&mut step, ticket, number, answer);
            }
            Asker::Removal(ticket) => stateful.on_removal(&mut step, ticket, answer),
            Asker::NextHop(ticket) => return Some((self.parked.take(ticket)?, answer)),
            Asker::Registration(_) | Asker::Caller(_) | Asker::Unanswered(_) => {}
        }
        None
    }

    /// Does what is due of requests and calls. Those that wait for the DNS are
    /// [`Self::unpark_due`]'s.
    pub(crate) fn on_timers(&mut self, cx: Context<'_>, out: &mut Outbox) {
        let (stateful, stateless, mut step) = self.split(cx, out);
        stateless.on_timers(&mut step);
        stateful.on_timers(&mut step);
    }

    /// What is open on servers that are down is closed in the ledger, and goes elsewhere if it can.
    pub(crate) fn leave_fallen_servers(&mut self, cx: Context<'_>, out: &mut Outbox) {
        let (stateful, stateless, mut step) = self.split(cx, out);
        for open in step.work.on_fallen_servers(cx) {
            match step.work.get(open).holder {
                Holder::Stateless => stateless.leave_fallen_server(&mut step, open),
                Holder::Stateful => step.work.discharge(cx, open),
            }
        }
        stateful.leave_fallen_servers(&mut step);
    }

    /// The senders, and what they work with.
    fn split<'a>(
        &'a mut self,
        cx: Context<'a>,
        out: &'a mut Outbox,
    ) -> (&'a mut Stateful, &'a mut Stateless, Step<'a>) {
        let step = Step {
            cx,
            work: &mut self.work,
            dynamic: &mut self.dynamic,
            out,
        };
        (&mut self.stateful, &mut self.stateless, step)
    }
}

/// Whether a request of this method follows an INVITE.
fn is_of_invite(method: Method<'_>) -> bool {
    matches!(method, Method::Ack | Method::Cancel)
}

/// The worker that owns the dialog that a request names.
fn owner_of_named(cx: Context<'_>, request: &Request<'_>) -> Option<usize> {
    let named = cx.snapshot.keys().session(request.message.dialog_named()?);
    Some(named.worker(cx.shared.workers().len()))
}

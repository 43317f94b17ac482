//! One worker's node: inputs in, datagrams out. It only dispatches: what changes has an owner each.

use std::{sync::Arc, time::Duration};

use fastrand::Rng;
use overload::Utilisation;
use sip::{Message, Method, ParseError};
use slots::Ticket;
use transaction::Flow;

use crate::{
    admission::{self, Lobby, NotNow, RETRY_AFTER_S, Taken, admit, refuse},
    context::Context,
    control,
    edges::{self, Exchange},
    io::{Datagram, Handover, Input, Named, Origin, Outbox, Quotation},
    keep_alive,
    probes::Probes,
    proxy::{ParkedRequest, Proxy, Routed},
    question::{Answer, Asker, QuestionId},
    registrar::{Access, Registrar},
    shared::Shared,
    snapshot::Snapshot,
    stats::{Dropped, Event},
    wire::{
        branch::Purpose,
        kept::KeptRequest,
        keys::worker_of,
        reply::{self, Reply},
        request::{Request, Sender, without_our_maddr},
        response::Response,
    },
    work::Learner,
};

/// One worker's part of a node: the sessions and transactions of its share of the calls.
#[derive(Debug)]
pub struct Node {
    pub(crate) shared: Arc<Shared>,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) desks: Desks,
    pub(crate) utilisation: Utilisation,
    generation: u64,
    falls: u64,
}

/// The owners of all that changes while messages pass.
#[derive(Debug)]
pub(crate) struct Desks {
    pub(crate) worker: usize,
    pub(crate) lobby: Lobby,
    pub(crate) proxy: Proxy,
    pub(crate) registrar: Registrar,
    exchange: Exchange,
    pub(crate) probes: Probes,
    learner: Learner,
}

impl Node {
    /// The node of worker number `worker`. `seed` decides every random choice.
    ///
    /// # Panics
    /// If `shared` has no such worker.
    pub fn new(shared: Arc<Shared>, worker: usize, seed: u64, now: Duration) -> Self {
        assert!(
            worker < shared.workers().len(),
            "each worker has its counters"
        );
        let snapshot = shared.snapshot();
        let limits = &snapshot.config().limits;
        let share = |limit: usize| limit.div_ceil(shared.workers().len());
        let is_first = worker == 0;
        let mut rng = Rng::with_seed(seed);
        let registrar = Registrar::new(
            (snapshot.keys(), worker),
            share(limits.registrations),
            limits.message_bytes,
            rng.fork(),
            now,
        );
        let probes = Probes::new(is_first, rng.fork());
        let desks = Desks {
            worker,
            lobby: Lobby::new(limits.message_bytes, Rng::with_seed(!seed), now),
            proxy: Proxy::new(&snapshot, share, rng, now),
            registrar,
            exchange: Exchange::new(is_first, snapshot.owner()),
            probes,
            learner: Learner::new(is_first, now),
        };
        Self {
            generation: shared.generation(),
            utilisation: Utilisation::new(now),
            falls: shared.falls(),
            shared,
            snapshot,
            desks,
        }
    }

    /// Takes one input; what is to be done goes to `out`.
    pub fn handle_input(&mut self, now: Duration, input: Input<'_>, out: &mut Outbox) {
        if out.tap.is_some() {
            let datagram = match input {
                Input::Datagram(datagram) => Some(datagram),
                _ => None,
            };
            return self.tapped(now, datagram, out, |node, out| node.take(now, input, out));
        }
        self.take(now, input, out);
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Duration, out: &mut Outbox) {
        if out.tap.is_some() {
            return self.tapped(now, None, out, |node, out| node.do_due(now, out));
        }
        self.do_due(now, out);
    }

    fn take(&mut self, now: Duration, input: Input<'_>, out: &mut Outbox) {
        let sent = out.transmits.len();
        self.refresh(now, out);
        let (desks, cx) = self.parts(now);
        match input {
            Input::Datagram(datagram) => {
                cx.stats.count(Event::Received, 1);
                desks.on_datagram(cx, datagram, Origin::Socket, out);
            }
            Input::Handover(handover) => {
                desks.on_handover(cx, &handover, out);
                self.leave_fallen_servers(now, out);
            }
            Input::Unreachable(quotation) => {
                desks.on_unreachable(cx, quotation, out);
                self.leave_fallen_servers(now, out);
            }
            Input::Answer { question, answer } => desks.on_answer(cx, question, answer, out),
        }
        let (_, cx) = self.parts(now);
        cx.stats.count(Event::Sent, out.transmits.len() - sent);
    }

    fn do_due(&mut self, now: Duration, out: &mut Outbox) {
        let sent = out.transmits.len();
        self.refresh(now, out);
        let (desks, cx) = self.parts(now);
        desks.on_timers(cx, out);
        self.leave_fallen_servers(now, out);
        let (desks, cx) = self.parts(now);
        cx.stats.count(Event::Sent, out.transmits.len() - sent);
        let mut sizes = desks.proxy.sizes();
        sizes.transactions += desks.registrar.len();
        sizes.registrations_bytes = desks.registrar.kept_bytes();
        sizes.lobby_bytes = desks.lobby.kept_bytes();
        cx.stats.set_sizes(&sizes);
        cx.stats.set_shares(desks.lobby.shares());
        cx.stats.set_custody(desks.proxy.dynamic.rates());
    }

    /// When [`Self::handle_timeout`] wants to be called next, at the latest.
    pub fn deadline(&self, now: Duration) -> Option<Duration> {
        let desks = &self.desks;
        let is_busy = desks.proxy.work.len() > 0;
        [
            desks.proxy.deadline(now, self.snapshot.transaction_max()),
            desks.registrar.deadline(),
            desks.probes.deadline(&self.shared, now),
            desks.exchange.deadline(is_busy),
            desks.lobby.deadline(now),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    pub(crate) fn parts(&mut self, now: Duration) -> (&mut Desks, Context<'_>) {
        let stats = &self.shared.workers()[self.desks.worker];
        (
            &mut self.desks,
            Context {
                now,
                shared: &self.shared,
                snapshot: &self.snapshot,
                stats,
            },
        )
    }

    /// Follows what other threads changed: the configuration, and servers that went down.
    fn refresh(&mut self, now: Duration, out: &mut Outbox) {
        let generation = self.shared.generation();
        if generation != self.generation {
            self.generation = generation;
            self.snapshot = self.shared.snapshot();
            self.desks.lobby.renew_sieve();
            self.desks.proxy.renew(self.snapshot.config());
        }
        self.leave_fallen_servers(now, out);
    }

    fn leave_fallen_servers(&mut self, now: Duration, out: &mut Outbox) {
        let falls = self.shared.falls();
        if falls != self.falls {
            self.falls = falls;
            let (desks, cx) = self.parts(now);
            desks.proxy.leave_fallen_servers(cx, out);
        }
    }
}

impl Desks {
    fn on_datagram(
        &mut self,
        cx: Context<'_>,
        datagram: Datagram<'_>,
        origin: Origin,
        out: &mut Outbox,
    ) {
        if cx.snapshot.is_our_address(datagram.flow.remote) {
            return cx.stats.drop_one(Dropped::FromUs);
        }
        if matches!(origin, Origin::Socket) && !cx.hears(datagram.flow) {
            return;
        }
        match Message::parse(datagram.bytes, cx.snapshot.config().limits.headers) {
            Ok(message) if message.is_cut() && !message.is_answerable() => {
                cx.drop_of(datagram.flow, Dropped::TooManyHeaders);
            }
            Ok(message) if message.is_request() => {
                self.on_request(cx, datagram, &message, origin, out);
            }
            Ok(message) => self.on_response(cx, datagram, &message, out),
            Err(_) if datagram.bytes.first() == Some(&edges::FIRST_BYTE) => {
                self.on_report(cx, datagram, out);
            }
            Err(_) if keep_alive::answer(&datagram, out) => cx.stats.count(Event::KeptAlive, 1),
            Err(ParseError::KeepAlive) => cx.stats.drop_one(Dropped::KeepAlive),
            Err(_) => cx.drop_of(datagram.flow, Dropped::Malformed),
        }
    }

    fn on_request(
        &mut self,
        cx: Context<'_>,
        datagram: Datagram<'_>,
        message: &Message<'_>,
        origin: Origin,
        out: &mut Outbox,
    ) {
        if matches!(origin, Origin::Socket) && cx.is_scanners(datagram.flow, message) {
            return cx.drop_of(datagram.flow, Dropped::Scanner);
        }
        let Some(class) = admission::class_of(cx.snapshot, &datagram, message) else {
            return self.begin(cx, datagram, message, origin, out);
        };
        if self.lobby.is_late(datagram.flow) && control::takes_part(cx, datagram.flow, message) {
            self.lobby.note_late_neighbour(cx.now);
        }
        match self.lobby.take_in(cx, class, &datagram, message, origin) {
            Taken::Passes => self.begin(cx, datagram, message, origin, out),
            Taken::Waits => cx.stats.count(Event::OverloadWaited, 1),
            Taken::WaitsAlready => cx.stats.drop_one(Dropped::Repeated),
            Taken::Refused => {
                cx.stats.count(class.out(), 1);
                self.send_away(cx, datagram, message, origin, out);
            }
            Taken::StaysOut => {
                control::note_refused(cx, datagram.flow, message);
                cx.stats.drop_one(Dropped::Overload);
                cx.stats.count(class.out(), 1);
            }
        }
    }

    /// Takes a request that need not wait, or has waited.
    pub(crate) fn begin(
        &mut self,
        cx: Context<'_>,
        datagram: Datagram<'_>,
        message: &Message<'_>,
        origin: Origin,
        out: &mut Outbox,
    ) {
        if let Some(bytes) = without_our_maddr(cx.snapshot, message) {
            let bytes = &bytes;
            return self.on_datagram(cx, Datagram { bytes, ..datagram }, origin, out);
        }
        let request = Request::read(cx.snapshot, datagram, message);
        if let (Ok(request), Some(tap)) = (&request, &mut out.tap) {
            tap.note_call(request.key.bits());
        }
        let served = request.and_then(|request| self.serve(cx, request, origin, out));
        if let Err(refusal) = served {
            answer(cx, &datagram, message, &refusal, out);
        }
    }

    /// Takes a request that could be read.
    ///
    /// # Errors
    /// The refusal.
    fn serve(
        &mut self,
        cx: Context<'_>,
        mut request: Request<'_>,
        origin: Origin,
        out: &mut Outbox,
    ) -> Result<(), Reply> {
        if let Some(reply) = request.answer_of_ours(cx.snapshot) {
            cx.charge(request.datagram.flow);
            admit(cx, Ok(()), || RETRY_AFTER_S)?;
            answer(cx, &request.datagram, request.message, &reply, out);
            return Ok(());
        }
        request.check(cx.snapshot)?;
        let owner = request.key.worker(cx.shared.workers().len());
        if owner != self.worker {
            let named = match origin {
                Origin::Socket => Named::Unasked,
                Origin::Worker(_) => self.proxy.find_named(cx, &request),
            };
            let Datagram { flow, bytes, .. } = request.datagram;
            hand_over(cx, flow, bytes, owner, Some(named), out);
            return Ok(());
        }
        if self.absorb(cx, &request, out) {
            return Ok(());
        }
        let Request {
            message,
            via,
            datagram,
            ..
        } = &request;
        let begins = || self.proxy.begins(&request);
        control::note(cx, datagram.flow, message, via, begins);
        if self.proxy.lead_elsewhere(cx, &mut request, out)? {
            return Ok(());
        }
        let dynamic = &self.proxy.dynamic;
        let may_leave = || dynamic.may_leave_unchecked(cx, &request);
        match self
            .registrar
            .access(cx, &request, origin, may_leave, out)?
        {
            Access::Waits => return Ok(()),
            Access::Open(sender) => request.sender = sender,
        }
        if self.proxy.park(cx, &request, origin, out)? {
            return Ok(());
        }
        self.route(cx, &request, origin, out)
    }

    /// Whether a request is of something that waits, and has dealt with it.
    fn absorb(&mut self, cx: Context<'_>, request: &Request<'_>, out: &mut Outbox) -> bool {
        if self.registrar.is_waiting(request.id) {
            cx.stats.count(Event::Retransmission, 1);
            return true;
        }
        self.proxy.absorb(cx, request, out)
    }

    fn route(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        origin: Origin,
        out: &mut Outbox,
    ) -> Result<(), Reply> {
        match self.proxy.route(cx, self.worker, request, origin, out)? {
            Routed::Done => Ok(()),
            Routed::Registers(config) => self.registrar.register(cx, config, request, out),
            Routed::IsUnchecked => {
                let access = self.registrar.check(cx, request, origin, || false, out)?;
                debug_assert_eq!(
                    access,
                    Access::Waits,
                    "who has proven it is not asked again"
                );
                Ok(())
            }
            Routed::Asks(worker) => {
                let Datagram { flow, bytes, .. } = request.datagram;
                hand_over(cx, flow, bytes, worker, Some(Named::Unasked), out);
                Ok(())
            }
        }
    }

    pub(crate) fn on_response(
        &mut self,
        cx: Context<'_>,
        datagram: Datagram<'_>,
        message: &Message<'_>,
        out: &mut Outbox,
    ) {
        let response = match Response::read(cx.snapshot, datagram, message) {
            Ok(response) => response,
            Err(reason) => return cx.drop_of(datagram.flow, reason),
        };
        if let Some(tap) = &mut out.tap {
            tap.note_call(response.key.bits());
        }
        let workers = cx.shared.workers().len();
        let owner = match response.branch.purpose {
            Purpose::Probe => 0,
            Purpose::KeepAlive => worker_of(response.branch.id, workers),
            Purpose::Relay(_) | Purpose::Held { .. } | Purpose::Recheck => {
                response.key.worker(workers)
            }
        };
        if owner != self.worker {
            let Datagram { flow, bytes, .. } = datagram;
            return hand_over(cx, flow, bytes, owner, Some(Named::Unasked), out);
        }
        match response.branch.purpose {
            Purpose::Probe => self.probes.on_answer(cx, &response),
            Purpose::KeepAlive => self.registrar.keep_alives.on_answer(cx, &response, out),
            Purpose::Relay(_) | Purpose::Held { .. } | Purpose::Recheck => {
                self.proxy.on_response(cx, &response, out);
            }
        }
        control::ignore_rest(cx, &response);
    }

    /// A datagram that is no SIP message but begins like a report. The first worker keeps what peers
    /// have told.
    fn on_report(&mut self, cx: Context<'_>, datagram: Datagram<'_>, out: &mut Outbox) {
        match edges::read_report(cx.snapshot.keys(), datagram.bytes) {
            Ok(_) if self.worker != 0 => {
                let Datagram { flow, bytes, .. } = datagram;
                hand_over(cx, flow, bytes, 0, Some(Named::Unasked), out);
            }
            Ok(report) => self.exchange.on_report(cx, datagram.flow, report),
            Err(reason) => cx.drop_of(datagram.flow, reason),
        }
    }

    fn on_handover(&mut self, cx: Context<'_>, handover: &Handover, out: &mut Outbox) {
        let (flow, bytes) = (handover.flow, &handover.bytes[..]);
        let Some(named) = handover.named else {
            return self.on_unreachable(cx, Quotation { flow, bytes }, out);
        };
        let datagram = Datagram {
            flow,
            bytes,
            truncated: false,
        };
        self.on_datagram(cx, datagram, Origin::Worker(named), out);
    }

    fn on_answer(
        &mut self,
        cx: Context<'_>,
        QuestionId(asker): QuestionId,
        answer: Answer,
        out: &mut Outbox,
    ) {
        if matches!(answer, Answer::Record(_) | Answer::Changed) {
            cx.shared.note_store_answer(cx.now);
        }
        if let Asker::Registration(ticket) = asker {
            self.registrar.on_answer(cx, ticket, answer, out);
        } else if let Asker::Unanswered(ticket) = asker {
            let keep_alives = &mut self.registrar.keep_alives;
            keep_alives.on_removal(cx, ticket, answer, out);
        } else if let Asker::Caller(ticket) = asker {
            self.on_caller(cx, ticket, answer, out);
        } else if let Some((parked, answer)) = self.proxy.on_answer(cx, asker, answer, out) {
            self.go_on(cx, parked, answer, out);
        }
    }

    fn on_timers(&mut self, cx: Context<'_>, out: &mut Outbox) {
        let is_behind = self.lobby.is_behind(cx.now);
        self.proxy.dynamic.on_timers(cx.now, is_behind);
        self.keep_lobby(cx, out);
        self.proxy.on_timers(cx, out);
        self.registrar.on_timers(cx, out);
        while let Some(parked) = self.proxy.unpark_due(cx.now) {
            self.go_on(cx, parked, Answer::Failed, out);
        }
        self.proxy.work.calls.on_timers(cx, out);
        self.probes.on_timers(cx, out);
        self.exchange.on_timers(cx, out);
        self.learner.on_timers(cx);
    }

    /// Routes a request whose sender the store was asked for, if that is who they say.
    fn on_caller(&mut self, cx: Context<'_>, ticket: Ticket, told: Answer, out: &mut Outbox) {
        let Some(proven) = self.registrar.on_caller(cx, ticket, told, out) else {
            return;
        };
        self.resume(cx, &proven.request, out, |desks, mut request, out| {
            request.sender = Sender::Proven;
            desks.route(cx, &request, proven.progress, out)
        });
        self.registrar.release(proven);
    }

    /// Routes a request that has waited for the DNS.
    fn go_on(&mut self, cx: Context<'_>, parked: ParkedRequest, told: Answer, out: &mut Outbox) {
        self.resume(cx, &parked.request, out, |desks, mut request, out| {
            request.located = desks.proxy.first_reachable(cx, told, &request);
            if request.located.is_none() {
                cx.stats.count(Event::NameNotFound, 1);
                return Err(refuse(cx, NotNow::Unreachable));
            }
            if desks.absorb(cx, &request, out) {
                return Ok(());
            }
            desks.route(cx, &request, parked.origin, out)
        });
        self.proxy.release(parked);
    }

    /// Goes on with a request that was kept. A refusal is its answer.
    fn resume(
        &mut self,
        cx: Context<'_>,
        kept: &KeptRequest,
        out: &mut Outbox,
        work: impl FnOnce(&mut Self, Request<'_>, &mut Outbox) -> Result<(), Reply>,
    ) {
        let Some(message) = kept.message(cx.snapshot) else {
            return;
        };
        let request = kept.request(cx.snapshot, &message);
        let done = request.and_then(|request| work(self, request, out));
        if let Err(refusal) = done {
            answer(cx, &kept.datagram(), &message, &refusal, out);
        }
    }
}

/// Answers a request ourselves. An ACK gets no answer, whatever is wrong with it.
pub(crate) fn answer(
    cx: Context<'_>,
    datagram: &Datagram<'_>,
    message: &Message<'_>,
    reply: &Reply,
    out: &mut Outbox,
) {
    if message.method() == Some(Method::Ack) {
        if reply::is_of_ours(cx.snapshot, message) {
            return cx.stats.drop_one(Dropped::AckOfOurs);
        }
        return cx.drop_of(datagram.flow, Dropped::RefusedAck);
    }
    reply::send(cx, datagram, message, reply, out);
}

/// Passes a datagram, or a quotation, to the worker that owns its call.
pub(crate) fn hand_over(
    cx: Context<'_>,
    flow: Flow,
    bytes: &[u8],
    worker: usize,
    named: Option<Named>,
    out: &mut Outbox,
) {
    cx.stats.count(Event::HandedOver, 1);
    out.handovers.push(Handover {
        worker,
        flow,
        bytes: bytes.into(),
        named,
    });
}

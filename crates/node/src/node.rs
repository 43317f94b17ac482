//! One worker's node: inputs in, datagrams out.

use std::{sync::Arc, time::Duration};

use balance::ServerId;
use sip::{Edits, Message, ParseError};
use transaction::Wheel;

use crate::{
    dialogs::CallLengths,
    exchange::Exchange,
    explain::Decisions,
    io::{Answer, Asker, Datagram, Handover, Input, Outbox, QuestionId},
    orphans::Budget,
    probe::Probes,
    registrar::Registrar,
    report,
    session::Sessions,
    shared::Shared,
    snapshot::Snapshot,
    stateful::Stateful,
    stats::{Dropped, Event, WorkerStats},
    transaction::{RetainedRequests, Transactions},
    unlocated::Unlocated,
};

/// Sessions note times in milliseconds.
const EXPIRY_GRAIN: Duration = Duration::from_millis(1);

/// One worker's part of a node: the sessions and transactions of its share of the calls.
#[derive(Debug)]
pub struct Node {
    pub(crate) shared: Arc<Shared>,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) state: State,
    generation: u64,
    falls: u64,
}

/// All that changes while messages pass.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) worker: usize,
    /// Breaks ties between servers.
    pub(crate) rng: fastrand::Rng,
    pub(crate) sessions: Sessions,
    pub(crate) session_timers: Wheel,
    pub(crate) transactions: Transactions,
    pub(crate) transaction_timers: Wheel,
    pub(crate) retained: RetainedRequests,
    pub(crate) stateful: Stateful,
    pub(crate) registrar: Registrar,
    pub(crate) unlocated: Unlocated,
    pub(crate) lengths: CallLengths,
    pub(crate) decisions: Decisions,
    pub(crate) probes: Probes,
    pub(crate) exchange: Exchange,
    pub(crate) learn_due: Duration,
    pub(crate) orphans: Budget,
    pub(crate) edits: Edits,
}

/// What every step reads and none changes.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) now: Duration,
    pub(crate) shared: &'a Shared,
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) stats: &'a WorkerStats,
}

impl Node {
    /// The node of worker number `worker`. `seed` decides every random choice.
    ///
    /// # Panics
    /// If `shared` has no such worker.
    pub fn new(shared: Arc<Shared>, worker: usize, seed: u64, now: Duration) -> Self {
        let snapshot = shared.snapshot();
        let limits = &snapshot.config().limits;
        let share = |limit: usize| limit.div_ceil(shared.workers().len());
        let mut rng = fastrand::Rng::with_seed(seed);
        let state = State {
            worker,
            sessions: Sessions::new(share(limits.sessions)),
            session_timers: Wheel::new(share(limits.sessions), now),
            transactions: Transactions::new(share(limits.transactions)),
            transaction_timers: Wheel::new(share(limits.transactions), now),
            retained: RetainedRequests::new(share(limits.retained_requests)),
            stateful: Stateful::new(snapshot.config(), share(limits.held_transactions), now),
            registrar: Registrar::new(
                snapshot.keys(),
                share(limits.registrations),
                rng.fork(),
                now,
            ),
            unlocated: Unlocated::new(now),
            lengths: CallLengths::default(),
            decisions: Decisions::default(),
            probes: Probes::new(worker == 0, rng.fork()),
            exchange: Exchange::new(worker == 0, snapshot.owner()),
            learn_due: now,
            orphans: Budget::default(),
            edits: Edits::default(),
            rng,
        };
        assert!(
            worker < shared.workers().len(),
            "each worker has its counters"
        );
        Self {
            generation: shared.generation(),
            falls: shared.falls(),
            shared,
            snapshot,
            state,
        }
    }

    /// Takes one input; what is to be done goes to `out`.
    pub fn handle_input(&mut self, now: Duration, input: Input<'_>, out: &mut Outbox) {
        let sent = out.transmits.len();
        self.refresh(now, out);
        let (state, cx) = self.parts(now);
        match input {
            Input::Datagram(datagram) => {
                cx.stats.count(Event::Received, 1);
                state.on_datagram(cx, datagram, Origin::Socket, out);
            }
            Input::Handover(handover) => state.on_handover(cx, &handover, out),
            Input::Unreachable(address) => {
                state.on_unreachable(cx, address);
                self.leave_fallen_servers(now, out);
            }
            Input::Answer { question, answer } => state.on_answer(cx, question, answer, out),
        }
        let stats = &self.shared.workers()[self.state.worker];
        stats.count(Event::Sent, out.transmits.len() - sent);
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Duration, out: &mut Outbox) {
        let sent = out.transmits.len();
        self.refresh(now, out);
        let (state, cx) = self.parts(now);
        state.on_transaction_timers(cx, out);
        state.on_held_timers(cx, out);
        state.on_registrar_timers(cx, out);
        state.on_unlocated_timers(cx, out);
        state.on_session_timers(cx, out);
        state.probe(cx, out);
        state.exchange(cx, out);
        state.learn(cx);
        self.leave_fallen_servers(now, out);
        let (state, cx) = self.parts(now);
        cx.stats.count(Event::Sent, out.transmits.len() - sent);
        cx.stats.set_sizes(
            state.sessions.active(),
            state.sessions.expired(),
            state.transactions.open()
                + state.stateful.looked_up()
                + state.registrar.len()
                + state.unlocated.len(),
            state.stateful.len(),
        );
    }

    /// When [`Self::handle_timeout`] wants to be called next, at the latest.
    pub fn deadline(&self, now: Duration) -> Option<Duration> {
        let state = &self.state;
        let expiry = state
            .sessions
            .oldest_expiry(now)
            .map(|at| at + self.snapshot.transaction_max() + EXPIRY_GRAIN);
        [
            state.transaction_timers.deadline(),
            state.stateful.deadline(),
            state.registrar.deadline(),
            state.unlocated.deadline(),
            state.session_timers.deadline(),
            state.probes.deadline(),
            state.exchange.deadline(state.transactions.open() > 0),
            expiry,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    pub(crate) fn parts(&mut self, now: Duration) -> (&mut State, Context<'_>) {
        let stats = &self.shared.workers()[self.state.worker];
        (
            &mut self.state,
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
        }
        self.leave_fallen_servers(now, out);
    }

    fn leave_fallen_servers(&mut self, now: Duration, out: &mut Outbox) {
        let falls = self.shared.falls();
        if falls != self.falls {
            self.falls = falls;
            let (state, cx) = self.parts(now);
            state.leave_fallen_servers(cx, out);
        }
    }
}

/// How a datagram came to this worker.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin {
    /// From the network.
    Socket,
    /// From another worker, which asks for the server of the dialog it names, or knows it.
    Worker { follows: Option<Option<ServerId>> },
}

impl State {
    pub(crate) fn on_datagram(
        &mut self,
        cx: Context<'_>,
        datagram: Datagram<'_>,
        origin: Origin,
        out: &mut Outbox,
    ) {
        match Message::parse(datagram.bytes, cx.snapshot.config().limits.headers) {
            Ok(message) if message.is_request() => {
                self.on_request(cx, datagram, &message, origin, out)
            }
            Ok(message) => self.on_response(cx, datagram, &message, out),
            Err(_) if datagram.bytes.first() == Some(&report::FIRST_BYTE) => {
                self.on_report(cx, &datagram, out);
            }
            Err(ParseError::KeepAlive) => cx.stats.drop_one(Dropped::KeepAlive),
            Err(ParseError::TooManyHeaders) => cx.stats.drop_one(Dropped::TooManyHeaders),
            Err(_) => cx.stats.drop_one(Dropped::Malformed),
        }
    }

    fn on_answer(
        &mut self,
        cx: Context<'_>,
        question: QuestionId,
        answer: Answer,
        out: &mut Outbox,
    ) {
        match question.asker {
            Asker::LookUp => self.on_looked_up(cx, question, answer, out),
            Asker::Target(number) => self.on_target_located(cx, question, number, answer, out),
            Asker::Registration => self.on_registrar_answer(cx, question, answer, out),
            Asker::NextHop => self.on_located(cx, question, answer, out),
        }
    }

    fn on_handover(&mut self, cx: Context<'_>, handover: &Handover, out: &mut Outbox) {
        let Handover {
            listener,
            from,
            ref bytes,
            follows,
            ..
        } = *handover;
        let datagram = Datagram {
            listener,
            from,
            bytes,
            truncated: false,
        };
        self.on_datagram(cx, datagram, Origin::Worker { follows }, out);
    }

    /// Passes a datagram to the worker that owns its call.
    pub(crate) fn hand_over(
        &self,
        cx: Context<'_>,
        datagram: &Datagram<'_>,
        worker: usize,
        follows: Option<Option<ServerId>>,
        out: &mut Outbox,
    ) {
        cx.stats.count(Event::HandedOver, 1);
        let Datagram {
            listener,
            from,
            bytes,
            ..
        } = *datagram;
        out.handovers.push(Handover {
            worker,
            listener,
            from,
            bytes: bytes.into(),
            follows,
        });
    }
}

//! The registrar: RFC 3261 §10.3.
//!
//! A REGISTER is read, its user proves who they are, their bindings are read, changed by a pure
//! function and written back on condition that nobody else has changed them. The store is asked by
//! [`Question`]s; while it thinks, the REGISTER waits in a [`Waiting`] and its retransmissions are
//! absorbed. An answered REGISTER leaves nothing behind: one that comes again changes nothing and gets
//! the same answer.

mod auth;
mod bindings;
mod reply;
mod targets;
mod waiting;
mod wish;

use std::time::Duration;

use sip::digest::{Nonces, Verifier};

use crate::{
    config,
    io::{Answer, Ask, Asker, Outbox, Question, QuestionId, Record},
    keys::Keys,
    node::{Context, State},
    relay,
    request::{Refusal, Request},
    stats::Event,
};

pub(crate) use targets::targets;

use auth::Proof;
use waiting::{Step, Waitings};
use wish::Wish;

/// How long a request waits for the store, all its questions together.
pub(crate) const STORE_WAIT_MAX: Duration = Duration::from_secs(3);

/// How long a nonce is good. Phones refresh their bindings with the one they have.
const NONCE_LIFETIME: Duration = Duration::from_secs(600);

/// Nonces whose counts a worker follows; of older ones it says that they are stale.
const NONCES_MAX: usize = 65_536;

/// How often a change is tried when others change the same record.
const TRIES_MAX: u8 = 8;

/// What a worker's registrar remembers.
#[derive(Debug)]
pub(crate) struct Registrar {
    waiting: Waitings,
    verifier: Verifier,
    rng: fastrand::Rng,
}

/// What a REGISTER does next.
enum Turn {
    Ask(Step, Ask),
    Reply(Refusal),
}

impl Registrar {
    pub(crate) fn new(keys: &Keys, limit: usize, rng: fastrand::Rng, now: Duration) -> Self {
        let nonces = Nonces::new(keys.nonce(), NONCE_LIFETIME);
        Self {
            waiting: Waitings::new(limit, now),
            verifier: Verifier::new(nonces, NONCES_MAX),
            rng,
        }
    }

    /// Whether the REGISTER with this identity waits for the store.
    pub(crate) fn is_waiting(&self, id: u64) -> bool {
        self.waiting.has(id)
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.waiting.deadline()
    }
}

impl State {
    /// Takes a REGISTER of one of the registrar's domains.
    pub(crate) fn register(
        &mut self,
        cx: Context<'_>,
        config: &config::Registrar,
        request: &Request<'_>,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let wish = Wish::read(cx, config, request)?;
        let (step, key) = match self.proof(cx, config, request, &wish)? {
            Some(Proof { subscriber, .. }) => (Step::Subscriber, subscriber),
            None => (Step::Bindings, wish.aor.key().into()),
        };
        let Some(place) = self.registrar.waiting.open(cx.now, request, step) else {
            cx.stats.count(Event::RegistrationsFull, 1);
            return Err(self.busy());
        };
        self.ask_store(place, Ask::Read { key }, out);
        Ok(())
    }

    /// The store has answered a question of a REGISTER.
    pub(crate) fn on_registrar_answer(
        &mut self,
        cx: Context<'_>,
        question: QuestionId,
        answer: Answer,
        out: &mut Outbox,
    ) {
        let place = question.place;
        if !self.registrar.waiting.is_at(place, question.serial) {
            return;
        }
        let turn = match answer {
            Answer::Changed => return self.grant(cx, place, out),
            Answer::Failed => {
                cx.stats.count(Event::StoreFailed, 1);
                Turn::Reply(self.busy())
            }
            answer => self.with_waiting(cx, place, |state, config, request| {
                state.go_on(cx, config, request, place, answer)
            }),
        };
        match turn {
            Turn::Ask(step, ask) => {
                self.registrar.waiting.get_mut(place).step = step;
                self.ask_store(place, ask, out);
            }
            Turn::Reply(reply) => self.answer_waiting(cx, place, &reply, out),
        }
    }

    /// Those that have waited for too long are told to come again.
    pub(crate) fn on_registrar_timers(&mut self, cx: Context<'_>, out: &mut Outbox) {
        while let Some(place) = self.registrar.waiting.pop_due(cx.now) {
            cx.stats.count(Event::StoreFailed, 1);
            let reply = self.busy();
            self.answer_waiting(cx, place, &reply, out);
        }
    }

    fn go_on(
        &mut self,
        cx: Context<'_>,
        config: &config::Registrar,
        request: &Request<'_>,
        place: u32,
        answer: Answer,
    ) -> Result<Turn, Refusal> {
        let wish = Wish::read(cx, config, request)?;
        let step = self.registrar.waiting.get(place).step;
        match (step, answer) {
            (Step::Subscriber, Answer::Record(record)) => {
                let proof = self.proof(cx, config, request, &wish)?;
                let proof = proof.ok_or_else(|| Refusal::new(500))?;
                let is_replay = self.check(cx, config, request, &wish, &proof, record)?;
                self.registrar.waiting.get_mut(place).is_replay = is_replay;
                let key = wish.aor.key().into();
                Ok(Turn::Ask(Step::Bindings, Ask::Read { key }))
            }
            (Step::Bindings | Step::Change, Answer::Record(record)) => {
                self.change(cx, config, request, &wish, place, record)
            }
            (_, Answer::Changed | Answer::Located(_) | Answer::Failed) => Err(Refusal::new(500)),
        }
    }

    /// Answers a REGISTER whose change is made.
    fn grant(&mut self, cx: Context<'_>, place: u32, out: &mut Outbox) {
        let waiting = self.registrar.waiting.get(place);
        cx.stats.count(Event::Bound, waiting.bound);
        cx.stats.count(Event::Unbound, waiting.unbound);
        cx.stats.reply(200);
        let listener = waiting.request.listener;
        out.send(listener, waiting.reply_to, |out| {
            out.extend_from_slice(&waiting.reply);
        });
        self.registrar.waiting.close(place);
    }

    /// Does to the bindings what the REGISTER wants, all of it or nothing.
    fn change(
        &mut self,
        cx: Context<'_>,
        config: &config::Registrar,
        request: &Request<'_>,
        wish: &Wish<'_>,
        place: u32,
        seen: Option<Record>,
    ) -> Result<Turn, Refusal> {
        let wall = cx.shared.wall(cx.now);
        let current = bindings::read(seen.as_ref(), wall)?;
        let changed = bindings::change(&current, wish, wall)?;
        let reply = reply::success(config, wish, &changed.bindings, wall);
        if changed.bound + changed.unbound == 0 {
            return Ok(Turn::Reply(reply));
        }
        let waiting = self.registrar.waiting.get_mut(place);
        if waiting.is_replay {
            return Err(self.challenge(cx, config, request, &wish.aor, true));
        }
        if changed.bound > 0 && changed.bindings.len() > config.contacts_max {
            cx.stats.count(Event::ContactsFull, 1);
            return Err(Refusal {
                reason: "Too Many Contacts",
                ..Refusal::new(403)
            });
        }
        waiting.tries += 1;
        if waiting.tries > TRIES_MAX {
            return Err(self.busy());
        }
        (waiting.bound, waiting.unbound) = (changed.bound, changed.unbound);
        let (datagram, message) = (&request.datagram, request.message);
        waiting.reply_to = relay::return_address(Some(&request.via), datagram.from);
        waiting.reply.clear();
        relay::write_reply(cx.snapshot, datagram, message, &reply, &mut waiting.reply);
        let key = wish.aor.key().into();
        let next = bindings::record(&changed.bindings);
        Ok(Turn::Ask(Step::Change, Ask::Change { key, seen, next }))
    }

    fn ask_store(&self, place: u32, ask: Ask, out: &mut Outbox) {
        let id = QuestionId {
            asker: Asker::Registration,
            place,
            serial: self.registrar.waiting.get(place).serial,
        };
        out.questions.push(Question { id, ask });
    }

    /// Not now. Phones that were all refused at once shall not all come back at once.
    fn busy(&mut self) -> Refusal {
        Refusal::unavailable(self.registrar.rng.u64(5..=15))
    }

    fn answer_waiting(&mut self, cx: Context<'_>, place: u32, reply: &Refusal, out: &mut Outbox) {
        let kept = &self.registrar.waiting.get(place).request;
        let datagram = kept.datagram();
        let headers_max = cx.snapshot.config().limits.headers;
        if let Ok(message) = sip::Message::parse(datagram.bytes, headers_max) {
            cx.stats.reply(reply.status);
            relay::reply(cx.snapshot, &datagram, &message, reply, out);
        }
        self.registrar.waiting.close(place);
    }

    /// Works with a REGISTER that waits. A reload may have taken its domain away.
    fn with_waiting(
        &mut self,
        cx: Context<'_>,
        place: u32,
        work: impl FnOnce(&mut Self, &config::Registrar, &Request<'_>) -> Result<Turn, Refusal>,
    ) -> Turn {
        let kept = &mut self.registrar.waiting.get_mut(place).request;
        let bytes = std::mem::take(&mut kept.bytes);
        let datagram = crate::io::Datagram {
            bytes: &bytes,
            ..kept.datagram()
        };
        let headers_max = cx.snapshot.config().limits.headers;
        let message = sip::Message::parse(&bytes, headers_max).ok();
        let request = message
            .as_ref()
            .and_then(|message| Request::read(cx.snapshot, datagram, message).ok());
        let turn = match (&cx.snapshot.config().registrar, request) {
            (Some(config), Some(request)) => work(self, config, &request),
            _ => Err(Refusal::new(500)),
        };
        self.registrar.waiting.get_mut(place).request.bytes = bytes;
        turn.unwrap_or_else(Turn::Reply)
    }
}

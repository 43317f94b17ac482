//! The registrar: RFC 3261 §10.3.
//!
//! A REGISTER is read, its user proves who they are, their bindings are read, changed by a pure
//! function and written back on condition that nobody else has changed them. The store is asked by
//! [`Question`]s; while it thinks, the REGISTER waits and its retransmissions are absorbed. An
//! answered REGISTER leaves nothing behind: one that comes again changes nothing and gets the same
//! answer. [`callers`] has the requests of other methods whose senders must prove who they are.

mod auth;
mod bindings;
mod callers;
mod keep_alives;
mod reach;
mod removals;
mod reply;
mod targets;
mod waiting;
mod wish;

use std::time::Duration;

use fastrand::Rng;
use location::Binding;
use overload::Limit;
use slots::{Buffers, Id, Ticket};

#[cfg(test)]
pub(crate) use self::removals::Bound;
use self::{
    auth::{Authenticator, Claim, Proof},
    bindings::Changed,
    callers::Callers,
    keep_alives::KeepAlives,
    waiting::{Progress, Step, Waitings},
    wish::{Wish, too_many_contacts},
};
pub(crate) use self::{
    callers::{Access, is_to_prove},
    removals::Removals,
    targets::{Target, targets},
    waiting::{STORE_WAIT_MAX, Waiting},
};
use crate::{
    admission::{self, NotNow},
    config::{self, KeepAliveMethod, WhenFull},
    context::Context,
    io::Outbox,
    question::{Answer, Ask, Asker, Question, QuestionId, Record},
    stats::Event,
    wire::{
        keys::Keys,
        reply::{self as wire_reply, Reply},
        request::Request,
    },
};

/// Nonces of a user that are followed at least. Phones that have more bindings than this have as many.
const NONCES_MIN: usize = 16;

/// How often a change is tried when others change the same record.
const TRIES_MAX: u8 = 8;
/// Of the questions that a slow store can take, the part that REGISTERs may have open.
const SHARE_OF_REGISTERS: f64 = 0.75;

/// What a worker's registrar remembers.
#[derive(Debug)]
pub(crate) struct Registrar {
    waiting: Waitings<Progress>,
    callers: Callers,
    auth: Authenticator,
    /// How many questions may be open at the store.
    store: Limit,
    is_store_limited: bool,
    pub(crate) keep_alives: KeepAlives,
}

/// What a REGISTER does next.
enum Turn {
    Ask(Step, Ask),
    Reply(Reply),
    NotNow(NotNow),
}

impl Registrar {
    pub(crate) fn new(
        (keys, worker): (&Keys, usize),
        limit: usize,
        message_bytes: usize,
        mut rng: Rng,
        now: Duration,
    ) -> Self {
        Self {
            keep_alives: KeepAlives::new(worker, rng.fork(), now),
            waiting: Waitings::new(limit, message_bytes, now),
            callers: Callers::new(limit, message_bytes, now),
            auth: Authenticator::new(keys, rng),
            store: Limit::default(),
            is_store_limited: true,
        }
    }

    /// Whether the request with this identity waits for the store.
    pub(crate) fn is_waiting(&self, id: u64) -> bool {
        self.waiting.has(id) || self.callers.has(id)
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + self.callers.len()
    }

    /// Memory that REGISTERs that wait take, in bytes.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.waiting.kept_bytes()
    }

    pub(crate) fn deadline(&self) -> Option<Duration> {
        [
            self.waiting.deadline(),
            self.callers.deadline(),
            self.keep_alives.deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Takes a REGISTER of one of the registrar's domains.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) fn register(
        &mut self,
        cx: Context<'_>,
        config: &config::Registrar,
        request: &Request<'_>,
        out: &mut Outbox,
    ) -> Result<(), Reply> {
        admission::admit(cx, self.room(cx), || self.auth.retry_after_s())?;
        let wish = Wish::read(cx, config, request)?;
        let (step, key) = match self.auth.proof(cx, config, request, &Claim::of(&wish))? {
            Some(Proof { subscriber, .. }) => (Step::Subscriber, subscriber),
            None => (Step::Bindings, wish.aor.key().into()),
        };
        let progress = |copies: &mut Buffers| Progress::new(step, request, copies.take());
        let Some(place) = self.waiting.open(cx.now, request, progress) else {
            return Err(self.not_now(cx, NotNow::RegistrationsFull));
        };
        self.ask_store(cx, place, Ask::Read { key }, out);
        Ok(())
    }

    fn store_has_room(&self, cx: Context<'_>) -> bool {
        self.store.has_room(cx.now) || !self.is_store_limited
    }

    /// Asks the store whatever comes. For comparisons.
    pub(crate) fn leave_store_unlimited(&mut self) {
        self.is_store_limited = false;
    }

    /// A flood of REGISTERs leaves callers a part of what a slow store can do.
    fn room(&self, cx: Context<'_>) -> Result<(), NotNow> {
        let waiting = self.waiting.len() as f64;
        let is_in_share = |limit: u32| waiting < (f64::from(limit) * SHARE_OF_REGISTERS).max(1.0);
        let limit = self.store.get(cx.now).filter(|_| self.is_store_limited);
        let has_room = self.store_has_room(cx) && limit.is_none_or(is_in_share);
        if self.waiting.has_room() && has_room {
            Ok(())
        } else {
            Err(NotNow::RegistrationsFull)
        }
    }

    /// The store has answered a question of a REGISTER.
    pub(crate) fn on_answer(
        &mut self,
        cx: Context<'_>,
        ticket: Ticket,
        answer: Answer,
        out: &mut Outbox,
    ) {
        let Some(place) = self.waiting.find(ticket) else {
            return;
        };
        let waiting = self.waiting.get_mut(place);
        waiting.is_answered(cx.now, &self.store, &answer);
        let turn = match answer {
            Answer::Changed => return self.grant(cx, place, out),
            Answer::Failed => Turn::NotNow(NotNow::StoreFailed),
            answer => self.next_turn(cx, place, answer),
        };
        match turn {
            Turn::Ask(step, ask) => {
                self.waiting.get_mut(place).progress.step = step;
                self.ask_store(cx, place, ask, out);
            }
            Turn::Reply(reply) => self.answer_waiting(cx, place, &reply, out),
            Turn::NotNow(why) => {
                let reply = self.not_now(cx, why);
                self.answer_waiting(cx, place, &reply, out);
            }
        }
    }

    /// Those that have waited for too long are told to come again.
    pub(crate) fn on_timers(&mut self, cx: Context<'_>, out: &mut Outbox) {
        while let Some(place) = self.waiting.pop_due(cx.now) {
            self.waiting.get_mut(place).gives_up(cx.now, &self.store);
            let reply = self.not_now(cx, NotNow::StoreFailed);
            self.answer_waiting(cx, place, &reply, out);
        }
        self.refuse_silent_callers(cx, out);
        self.keep_alives.on_timers(cx, out);
    }

    /// What follows from an answer. A reload may have taken the domain away.
    fn next_turn(&mut self, cx: Context<'_>, place: Id<Waiting<Progress>>, answer: Answer) -> Turn {
        let Waiting {
            request, progress, ..
        } = self.waiting.get_mut(place);
        let auth = &mut self.auth;
        let config = cx.snapshot.config().registrar.as_ref();
        let turn = config.and_then(|config| {
            request.read(cx.snapshot, |request| {
                go_on(cx, auth, config, request, progress, answer)
            })
        });
        let turn = turn.unwrap_or_else(|| Err(Reply::new(500)));
        turn.unwrap_or_else(Turn::Reply)
    }

    /// Answers a REGISTER whose change is made.
    fn grant(&mut self, cx: Context<'_>, place: Id<Waiting<Progress>>, out: &mut Outbox) {
        let Progress {
            bound,
            unbound,
            status,
            ref reply,
            reply_to,
            ..
        } = self.waiting.get(place).progress;
        cx.stats.count(Event::Bound, bound);
        cx.stats.count(Event::Unbound, unbound);
        cx.stats.reply(status);
        out.send(reply_to, |out| out.extend_from_slice(reply));
        let registrar = cx.snapshot.config().registrar.as_ref();
        let config = registrar.and_then(|registrar| registrar.keep_alive.as_ref());
        let change = self.waiting.get_mut(place).progress.keep_alives.take();
        if let (Some(config), Some(change)) = (config, change) {
            self.keep_alives.apply(cx, config, change);
        }
        self.waiting.close(place);
    }

    fn ask_store(
        &mut self,
        cx: Context<'_>,
        place: Id<Waiting<Progress>>,
        ask: Ask,
        out: &mut Outbox,
    ) {
        self.waiting.get_mut(place).asks(cx.now, &self.store);
        let id = QuestionId(Asker::Registration(self.waiting.ticket(place)));
        out.questions.push(Question { id, ask });
    }

    fn not_now(&mut self, cx: Context<'_>, why: NotNow) -> Reply {
        admission::refuse_for(cx, why, self.auth.retry_after_s())
    }

    fn answer_waiting(
        &mut self,
        cx: Context<'_>,
        place: Id<Waiting<Progress>>,
        reply: &Reply,
        out: &mut Outbox,
    ) {
        let kept = &self.waiting.get(place).request;
        if let Some(message) = kept.message(cx.snapshot) {
            wire_reply::send(cx, &kept.datagram(), &message, reply, out);
        }
        self.waiting.close(place);
    }
}

fn go_on(
    cx: Context<'_>,
    auth: &mut Authenticator,
    config: &config::Registrar,
    request: &Request<'_>,
    progress: &mut Progress,
    answer: Answer,
) -> Result<Turn, Reply> {
    let wish = Wish::read(cx, config, request)?;
    match (progress.step, answer) {
        (Step::Subscriber, Answer::Record(record)) => {
            let claim = Claim::of(&wish);
            let proof = auth.proof(cx, config, request, &claim)?;
            let proof = proof.ok_or_else(|| Reply::new(500))?;
            progress.is_replay = auth.check(cx, config, request, &claim, &proof, record)?;
            progress.used_nonce = proof.used_nonce();
            let key = wish.aor.key().into();
            Ok(Turn::Ask(Step::Bindings, Ask::Read { key }))
        }
        (Step::Bindings | Step::Change, Answer::Record(record)) => {
            change(cx, auth, config, request, &wish, progress, record)
        }
        (_, Answer::Changed | Answer::Located(_) | Answer::Failed) => Err(Reply::new(500)),
    }
}

/// Does to the bindings what the REGISTER wants, all of it or nothing, and notes the nonce of its
/// credentials. So no node takes them again, even for something that this one refuses.
fn change(
    cx: Context<'_>,
    auth: &mut Authenticator,
    config: &config::Registrar,
    request: &Request<'_>,
    wish: &Wish<'_>,
    progress: &mut Progress,
    seen: Option<Record>,
) -> Result<Turn, Reply> {
    let wall = cx.wall();
    let mut location = bindings::read(seen.as_ref(), wall)?;
    let was_used = |used| !location.nonces.is_new(used);
    let is_replay = progress.is_replay || progress.used_nonce.is_some_and(was_used);
    let changed = changed(cx, config, wish, &location.bindings);
    let changes = |changed: &Changed<'_>| changed.bound + changed.unbound > 0;
    let reply = match &changed {
        Ok(changed) if is_replay && changes(changed) => {
            auth.challenge(cx, config, request, &Claim::of(wish), true)
        }
        Ok(changed) => reply::success(cx, config, wish, &changed.bindings),
        Err(refusal) => refusal.clone(),
    };
    let new_nonce = progress.used_nonce.filter(|_| !is_replay);
    if new_nonce.is_none() && (is_replay || !changed.as_ref().is_ok_and(changes)) {
        return Ok(Turn::Reply(reply));
    }
    progress.tries += 1;
    if progress.tries > TRIES_MAX {
        return Ok(Turn::NotNow(NotNow::Contended));
    }
    (progress.bound, progress.unbound) = (0, 0);
    if let Ok(changed) = changed {
        (progress.bound, progress.unbound) = (changed.bound, changed.unbound);
        progress.keep_alives = keep_alives(cx, config, request, wish, &changed.bindings);
        location.bindings = changed.bindings;
    }
    if let Some(used) = new_nonce {
        let max = config.contacts_max.max(NONCES_MIN);
        location.nonces.note(used, wall, max);
    }
    let (flow, message) = (request.datagram.flow, request.message);
    progress.reply_to = wire_reply::return_flow(Some(&request.via), flow);
    progress.status = reply.status;
    progress.reply.clear();
    wire_reply::write(cx, flow, message, &reply, &mut progress.reply);
    let key = wish.aor.key().into();
    let next = bindings::record(&location);
    Ok(Turn::Ask(Step::Change, Ask::Change { key, seen, next }))
}

/// What a REGISTER makes of the bindings that are kept alive, if any are.
fn keep_alives(
    cx: Context<'_>,
    config: &config::Registrar,
    request: &Request<'_>,
    wish: &Wish<'_>,
    bindings: &[Binding<'_>],
) -> Option<keep_alives::Change> {
    let wanted = config.keep_alive.as_ref()?;
    let hit = request.datagram.flow.listener;
    // Empty lines end at the next hop: what is behind an edge gets none from here.
    let is_kept = |binding: &Binding<'_>| {
        let is_here = || targets::is_here(cx.snapshot, binding);
        wish.has_set(binding) && (wanted.method == KeepAliveMethod::Options || is_here())
    };
    Some(keep_alives::Change::new(
        cx, &wish.aor, bindings, hit, is_kept,
    ))
}

/// The bindings as the REGISTER wants them, if they may lead there and there is room for them.
fn changed<'a>(
    cx: Context<'_>,
    config: &config::Registrar,
    wish: &'a Wish<'_>,
    current: &[Binding<'a>],
) -> Result<Changed<'a>, Reply> {
    let lead_astray = wish.check_contacts(cx.snapshot);
    lead_astray.inspect_err(|_| cx.stats.count(Event::ForbiddenContact, 1))?;
    let mut changed = bindings::change(current, wish, cx.wall())?;
    if changed.bound == 0 {
        return Ok(changed);
    }
    if config.when_full == WhenFull::ReplaceOldest {
        let dropped = changed.drop_oldest(wish, config.contacts_max);
        cx.stats.count(Event::ContactsReplaced, dropped);
    }
    if changed.bindings.len() > config.contacts_max {
        return Err(too_many_contacts(cx));
    }
    Ok(changed)
}

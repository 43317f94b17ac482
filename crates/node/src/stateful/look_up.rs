//! Requests to users of the registrar's domains: RFC 3261 §16.5.

use location::{Aor, Subscriber};

use super::context::Phase;
use crate::{
    branch::{Branch, Purpose},
    config,
    io::{Answer, Ask, Asker, Outbox, Question, QuestionId, Record},
    node::{Context, State},
    registrar::{STORE_WAIT_MAX, targets},
    request::{Refusal, Request},
    routing::RETRY_AFTER_S,
    stats::Event,
    unlocated::{NAME_WAIT_MAX, reachable},
};

impl State {
    /// Holds a request and asks where its user is; [`State::on_looked_up`] goes on.
    pub(crate) fn look_up(
        &mut self,
        cx: Context<'_>,
        config: &config::Registrar,
        request: &Request<'_>,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let target = &request.path.target;
        let aor = Aor::of(target).filter(|_| config.has(&target.host));
        let aor = aor.ok_or_else(|| Refusal::new(404))?;
        if !self.stateful.has_room() {
            cx.stats.count(Event::TransactionsFull, 1);
            return Err(Refusal::unavailable(RETRY_AFTER_S));
        }
        let route = route_part(cx, request);
        if has_looped(cx, request, route) {
            return Err(Refusal::new(482));
        }
        cx.stats.count(Event::LookedUp, 1);
        let place = self.open_context(cx, request);
        self.stateful.contexts.look_up(place, route);
        self.stateful.patience.arm(place, cx.now + STORE_WAIT_MAX);
        let key = aor.key().into();
        self.ask_where(place, key, out);
        Ok(())
    }

    /// The store has answered.
    pub(crate) fn on_looked_up(
        &mut self,
        cx: Context<'_>,
        question: QuestionId,
        answer: Answer,
        out: &mut Outbox,
    ) {
        let place = question.place;
        let Some(context) = self.stateful.contexts.find(place, question.serial) else {
            return;
        };
        match (context.phase, answer) {
            (Phase::LookUp, Answer::Record(Some(record))) => {
                self.on_bindings(cx, place, &record, out)
            }
            (Phase::LookUp, Answer::Record(None)) => self.identify(cx, place, out),
            (Phase::Identify, Answer::Record(user)) => {
                let status = if user.is_some() { 480 } else { 404 };
                self.end_look_up(cx, place, &Refusal::new(status), out);
            }
            (Phase::LookUp | Phase::Identify, _) => self.on_silent_store(cx, place, out),
            _ => {}
        }
    }

    /// The store failed, or was silent.
    fn on_silent_store(&mut self, cx: Context<'_>, place: u32, out: &mut Outbox) {
        cx.stats.count(Event::StoreFailed, 1);
        self.end_look_up(cx, place, &Refusal::unavailable(RETRY_AFTER_S), out);
    }

    fn on_bindings(&mut self, cx: Context<'_>, place: u32, record: &Record, out: &mut Outbox) {
        match targets(record, cx.shared.wall(cx.now)) {
            Ok(targets) if !targets.is_empty() => {
                self.stateful.contexts.get_mut(place).targets.set(&targets);
                self.locate_targets(cx, place, out);
            }
            Ok(_) => self.end_look_up(cx, place, &Refusal::new(480), out),
            Err(refusal) => self.end_look_up(cx, place, &refusal, out),
        }
    }

    /// Asks the DNS for the targets that are names; without any, goes on.
    fn locate_targets(&mut self, cx: Context<'_>, place: u32, out: &mut Outbox) {
        let context = self.stateful.contexts.get_mut(place);
        let draw = cx.snapshot.keys().of_session(context.key, &[b"name"]);
        let asked = out.questions.len();
        for (number, name) in context.targets.names() {
            let id = QuestionId {
                asker: Asker::Target(number),
                place,
                serial: context.serial,
            };
            let name = name.clone();
            let ask = Ask::Locate { name, draw };
            out.questions.push(Question { id, ask });
        }
        if out.questions.len() == asked {
            return self.search(cx, place, out);
        }
        context.phase = Phase::Locate;
        self.stateful.patience.arm(place, cx.now + NAME_WAIT_MAX);
    }

    /// The DNS has answered for a target.
    pub(crate) fn on_target_located(
        &mut self,
        cx: Context<'_>,
        question: QuestionId,
        number: u8,
        answer: Answer,
        out: &mut Outbox,
    ) {
        let place = question.place;
        let context = self.stateful.contexts.find(place, question.serial);
        let Some(context) = context.filter(|context| context.phase == Phase::Locate) else {
            return;
        };
        let addresses = reachable(cx, answer, context.request.listener);
        if addresses.is_empty() {
            cx.stats.count(Event::NameNotFound, 1);
        }
        context.targets.locate(number, addresses);
        if context.targets.names().next().is_none() {
            self.search(cx, place, out);
        }
    }

    /// Whoever was asked has let a request wait for too long.
    pub(super) fn on_silent_look_up(&mut self, cx: Context<'_>, place: u32, out: &mut Outbox) {
        if self.stateful.contexts.get(place).phase == Phase::Locate {
            cx.stats.count(Event::NameNotFound, 1);
            self.search(cx, place, out);
        } else {
            self.on_silent_store(cx, place, out);
        }
    }

    fn search(&mut self, cx: Context<'_>, place: u32, out: &mut Outbox) {
        self.stateful.patience.disarm(place);
        let context = self.stateful.contexts.get_mut(place);
        context.targets.drop_unreachable();
        if context.targets.is_empty() {
            return self.end_look_up(cx, place, &Refusal::new(480), out);
        }
        context.phase = Phase::Search;
        self.advance(cx, place, out);
    }

    /// RFC 3261 §21.4.5, §21.4.18: a user who is nowhere differs from one who does not exist, where
    /// users are known.
    fn identify(&mut self, cx: Context<'_>, place: u32, out: &mut Outbox) {
        let config = cx.snapshot.config().registrar.as_ref();
        let knows_users = config.is_some_and(|config| !config.algorithms.is_empty());
        let user = |_: &mut Self, request: &Request<'_>| Aor::of(&request.path.target);
        match self.with_request(cx, place, user).flatten() {
            Some(aor) if knows_users => {
                self.stateful.contexts.get_mut(place).phase = Phase::Identify;
                self.ask_where(place, Subscriber::key_of(&aor).into(), out);
            }
            _ => self.end_look_up(cx, place, &Refusal::new(480), out),
        }
    }

    fn end_look_up(&mut self, cx: Context<'_>, place: u32, refusal: &Refusal, out: &mut Outbox) {
        self.stateful.patience.disarm(place);
        self.stateful.contexts.stop_search(place, Phase::Over);
        self.reply_held(cx, place, refusal, out);
    }

    fn ask_where(&self, place: u32, key: Box<[u8]>, out: &mut Outbox) {
        let id = QuestionId {
            asker: Asker::LookUp,
            place,
            serial: self.stateful.contexts.get(place).serial,
        };
        let ask = Ask::Read { key };
        out.questions.push(Question { id, ask });
    }
}

/// What decides where a request goes: RFC 5393 §4.2.1. It differs from request to request, so that
/// a clash of hashes does not last.
fn route_part(cx: Context<'_>, request: &Request<'_>) -> u32 {
    let next = request.path.next.map_or(&[][..], |next| next.uri);
    let number = request.cseq.number.to_be_bytes();
    let parts = [request.path.uri, next, &number, b"route"];
    cx.snapshot.keys().of_session(request.key, &parts) as u32
}

/// Whether a request was here before and comes back to the same: RFC 5393 §4.2.2.
fn has_looped(cx: Context<'_>, request: &Request<'_>, route: u32) -> bool {
    let mut vias = request.message.vias().map_while(Result::ok);
    vias.any(|via| {
        let branch = via.branch.and_then(Branch::read);
        let is_same = branch.is_some_and(|branch| {
            matches!(branch.purpose, Purpose::Held { route: Some(was), .. } if was == route)
        });
        is_same && cx.snapshot.is_us(via.host, via.port)
    })
}

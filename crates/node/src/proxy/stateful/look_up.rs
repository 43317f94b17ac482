//! Requests to users of the registrar's domains: RFC 3261 §16.5.

use location::{Aor, Subscriber};
use slots::Ticket;

use super::{
    Stateful,
    context::{ContextId, Phase},
};
use crate::{
    admission::{NotNow, RETRY_AFTER_S, admit, refuse},
    config,
    context::Context,
    proxy::{
        parked::{NAME_WAIT_MAX, reachable},
        step::Step,
    },
    question::{Answer, Ask, Asker, Question, QuestionId, Record},
    registrar::{STORE_WAIT_MAX, targets},
    stats::Event,
    wire::{
        branch::{Branch, Purpose},
        gruu::{self, Gruu},
        reply::{self, Reply},
        request::Request,
    },
};

impl Stateful {
    /// Holds a request and asks where its user is; [`Self::on_looked_up`] goes on.
    ///
    /// # Errors
    /// The refusal.
    pub(in crate::proxy) fn look_up(
        &mut self,
        step: &mut Step<'_>,
        config: &config::Registrar,
        request: &Request<'_>,
    ) -> Result<(), Reply> {
        let cx = step.cx;
        admit(cx, self.room(), || RETRY_AFTER_S)?;
        let target = &request.path.target;
        let (aor, device) = match gruu::read(cx.snapshot.keys(), target) {
            Gruu::No => (Aor::of(target), None),
            Gruu::Of(aor, device) => (Some(aor), Some(device)),
            Gruu::Foreign => (None, None),
        };
        let aor = aor.filter(|_| config.has(&target.host));
        let aor = aor.ok_or_else(|| Reply::new(404))?;
        let route = route_part(cx, request);
        if has_looped(cx, request, route) {
            return Err(Reply::new(482));
        }
        let place = self.open_context(cx, request);
        let place = place.map_err(|why| refuse(cx, why))?;
        cx.stats.count(Event::LookedUp, 1);
        self.contexts.look_up(place, route, aor.key(), device);
        self.contexts.get_mut(place).is_sips = request.is_sips();
        self.contexts.arm(place, cx.now + STORE_WAIT_MAX);
        self.ask_where(step, place, aor.key().into());
        Ok(())
    }

    /// The store has answered.
    pub(in crate::proxy) fn on_looked_up(
        &mut self,
        step: &mut Step<'_>,
        ticket: Ticket,
        answer: Answer,
    ) {
        let Some(place) = self.contexts.find(ticket) else {
            return;
        };
        match (self.contexts.get(place).phase, answer) {
            (Phase::LookUp, Answer::Record(Some(record))) => {
                self.on_bindings(step, place, &record);
            }
            (Phase::LookUp, Answer::Record(None)) => self.identify(step, place),
            (Phase::Identify, Answer::Record(user)) => {
                let status = if user.is_some() { 480 } else { 404 };
                self.end_look_up(step, place, &Reply::new(status));
            }
            (Phase::LookUp | Phase::Identify, _) => self.on_silent_store(step, place),
            _ => {}
        }
    }

    /// The store failed, or was silent.
    fn on_silent_store(&mut self, step: &mut Step<'_>, place: ContextId) {
        let reply = refuse(step.cx, NotNow::StoreFailed);
        self.end_look_up(step, place, &reply);
    }

    fn on_bindings(&mut self, step: &mut Step<'_>, place: ContextId, record: &Record) {
        let context = self.contexts.get(place);
        let (hit, wanted) = (context.hit(), (context.device, context.is_sips));
        match targets(step.cx, record, hit, wanted) {
            Ok(targets) if !targets.is_empty() => {
                self.contexts.get_mut(place).targets.set(&targets);
                self.locate_targets(step, place);
            }
            Ok(_) => self.end_look_up(step, place, &Reply::new(480)),
            Err(refusal) => self.end_look_up(step, place, &refusal),
        }
    }

    /// Asks the DNS for the targets that are names; without any, goes on.
    fn locate_targets(&mut self, step: &mut Step<'_>, place: ContextId) {
        let context = self.contexts.get(place);
        let ticket = self.contexts.ticket(place);
        let draw = step.cx.snapshot.keys().of_session(context.key, &[b"name"]);
        let asked = step.out.questions.len();
        for (number, name) in context.targets.names() {
            let id = QuestionId(Asker::Target(ticket, number));
            let name = name.clone();
            let ask = Ask::Locate { name, draw };
            step.out.questions.push(Question { id, ask });
        }
        if step.out.questions.len() == asked {
            return self.search(step, place);
        }
        self.contexts.get_mut(place).phase = Phase::Locate;
        self.contexts.arm(place, step.cx.now + NAME_WAIT_MAX);
    }

    /// The DNS has answered for the target of this number.
    pub(in crate::proxy) fn on_target_located(
        &mut self,
        step: &mut Step<'_>,
        ticket: Ticket,
        number: u8,
        answer: Answer,
    ) {
        let is_asked = |place: &ContextId| self.contexts.get(*place).phase == Phase::Locate;
        let Some(place) = self.contexts.find(ticket).filter(is_asked) else {
            return;
        };
        let context = self.contexts.get_mut(place);
        let mut names = context.targets.names();
        let host = names.find_map(|(of, name)| (of == number).then(|| name.host.clone()));
        drop(names);
        let host = host.unwrap_or_default();
        let flows = reachable(step.cx, answer, context.hit(), &host);
        if flows.is_empty() {
            step.cx.stats.count(Event::NameNotFound, 1);
        }
        let targets = &mut context.targets;
        let forbidden = targets.locate(step.cx.snapshot, number, flows);
        step.cx.stats.count(Event::ForbiddenTarget, forbidden);
        if context.targets.names().next().is_none() {
            self.search(step, place);
        }
    }

    /// Whoever was asked has let a request wait for too long.
    pub(super) fn on_silent_look_up(&mut self, step: &mut Step<'_>, place: ContextId) {
        if self.contexts.get(place).phase == Phase::Locate {
            step.cx.stats.count(Event::NameNotFound, 1);
            self.search(step, place);
        } else {
            self.on_silent_store(step, place);
        }
    }

    fn search(&mut self, step: &mut Step<'_>, place: ContextId) {
        self.contexts.disarm(place);
        let context = self.contexts.get_mut(place);
        context.targets.drop_unreachable();
        if context.targets.is_empty() {
            return self.end_look_up(step, place, &Reply::new(480));
        }
        context.phase = Phase::Search;
        if context.owes_trying {
            self.reply(step, place, &Reply::new(100));
        }
        self.advance(step, place);
    }

    /// RFC 3261 §21.4.5, §21.4.18: a user who is nowhere differs from one who does not exist, where
    /// users are known.
    fn identify(&mut self, step: &mut Step<'_>, place: ContextId) {
        let knows_users = step.cx.snapshot.knows_users();
        let context = self.contexts.get(place);
        if context.device.is_some_and(|of| of.registration.is_some()) {
            // RFC 5627 §5.3: it ends with the last contact of its device.
            return self.end_look_up(step, place, &Reply::new(404));
        }
        match Aor::from_key(&context.aor) {
            Some(aor) if knows_users => {
                self.contexts.get_mut(place).phase = Phase::Identify;
                self.ask_where(step, place, Subscriber::key_of(&aor).into());
            }
            _ => self.end_look_up(step, place, &Reply::new(480)),
        }
    }

    /// Refuses a request that went nowhere, and forgets it. Its sender may be anybody, and the address
    /// anybody's: so it gets one answer, which comes again only with the request. RFC 3261 §8.2.7
    pub(super) fn end_look_up(&mut self, step: &mut Step<'_>, place: ContextId, refusal: &Reply) {
        self.contexts.stop_search(place, Phase::Over);
        let context = self.contexts.get_mut(place);
        if let Some(server) = context.server.take() {
            context.open -= 1;
            self.transactions.forget(server);
        }
        if let Some(kept) = &context.request
            && let Some(message) = kept.message(step.cx.snapshot)
        {
            reply::send(step.cx, &kept.datagram(), &message, refusal, step.out);
        }
        self.close_context_if_done(step, place);
    }

    fn ask_where(&self, step: &mut Step<'_>, place: ContextId, key: Box<[u8]>) {
        let id = QuestionId(Asker::LookUp(self.contexts.ticket(place)));
        let ask = Ask::Read { key };
        step.out.questions.push(Question { id, ask });
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

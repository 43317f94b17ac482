//! Requests that begin or repeat a transaction: which of the two senders has them, and whether they may go at all.

use super::{
    Proxy, Routed,
    dynamic::{self, mark_of_uncounted},
    stateless::{self, Stateless},
    step::Step,
};
use crate::{
    admission::{NotNow, refuse},
    calls::SessionId,
    context::Context,
    io::Outbox,
    stats::Event,
    wire::{mark::Mark, reply::Reply, request::Request},
    work::{Course, Holder},
};

impl Proxy {
    /// Forwards a request other than ACK and CANCEL, and opens it unless it is a retransmission.
    pub(super) fn transact<'s>(
        &mut self,
        cx: Context<'s>,
        request: &Request<'_>,
        course: Course,
        out: &mut Outbox,
    ) -> Result<Routed<'s>, Reply> {
        let (stateful, stateless, mut step) = self.split(cx, out);
        let step = &mut step;
        let session = course.session;
        let open = session.and_then(|session| step.work.find(session, request.id, false));
        let is_left = |open| step.work.get(open).is_unchecked;
        let is_new = |session| step.work.is_new(request, course.direction, session);
        let is_new = open.is_none() && session.is_some_and(is_new);
        if request.is_unchecked() && !is_new && !open.is_some_and(is_left) {
            return Ok(Routed::IsUnchecked);
        }
        match (session, open) {
            (Some(session), None) if is_new => {
                return self.send_new(cx, request, course, session, out);
            }
            (_, Some(open)) => {
                cx.stats.count(Event::Retransmission, 1);
                let is_orphaned = dynamic::renew(cx, request, step.work.get_mut(open));
                let is_taken_over = is_orphaned
                    && stateful.room().is_ok()
                    && stateful.take_over(step, request, &course, open).is_ok();
                if is_taken_over {
                    cx.stats.count(Event::Held, 1);
                } else {
                    stateless.send_again(step, request, course, open);
                }
            }
            (session, None) => {
                let attempt = match session {
                    Some(_) => {
                        cx.stats.count(Event::Retransmission, 1);
                        stateless::attempt(step, session, request.id)?
                    }
                    None => 0,
                };
                let mark = mark_of_uncounted(cx, request, &course);
                stateless.forward(step, request, &course, attempt, mark);
            }
        }
        Ok(Routed::Done)
    }

    /// Opens a request and sends it, if it need not be checked here first.
    fn send_new<'s>(
        &mut self,
        cx: Context<'s>,
        request: &Request<'_>,
        mut course: Course,
        session: SessionId,
        out: &mut Outbox,
    ) -> Result<Routed<'s>, Reply> {
        let (stateful, stateless, mut step) = self.split(cx, out);
        let step = &mut step;
        let has_room = stateful.room().is_ok();
        if request.is_unchecked() && !step.leaves_unchecked(request, &course, has_room) {
            step.work.take_back(cx, request, &course, session);
            return Ok(Routed::IsUnchecked);
        }
        let mut verdict = step.dynamic.decide(cx, request, &course, has_room);
        let room = step.work.room_in(session);
        let room = room.and_then(|()| match verdict.holder {
            Holder::Stateless => Ok(()),
            Holder::Stateful => stateful.room(),
        });
        if let Err(why) = room {
            let passed = pass_uncounted(stateless, step, request, &course, why);
            if passed.is_err() && request.is_initial() {
                step.work.take_back(cx, request, &course, session);
            }
            return passed.map(|()| Routed::Done);
        }
        let direction = course.direction;
        step.work.calls.go_on(cx, request, direction, session);
        step.work
            .leave_fallen_server(cx, request, &mut course, session);
        let is_left = verdict.mark == Some(Mark::Open);
        let is_taken = is_left && step.dynamic.takes(cx, request, &course);
        debug_assert!(is_taken || !request.is_unchecked(), "it is checked here");
        if is_left && has_room && !is_taken {
            (verdict.holder, verdict.mark) = (Holder::Stateful, Some(Mark::Here));
        }
        dynamic::count(cx, request, verdict);
        match verdict.holder {
            Holder::Stateless => stateless.send(step, request, &course, session, verdict.mark),
            Holder::Stateful => stateful
                .hold(step, request, &course, session, verdict.mark)
                .map_err(|why| refuse(cx, why))?,
        }
        Ok(Routed::Done)
    }
}

/// Without room for its transaction what starts something is refused, while what goes on or
/// ends passes: a call that can't be ended would only fill the table for longer. Where the call
/// itself has too many open requests, only what ends it passes.
fn pass_uncounted(
    stateless: &mut Stateless,
    step: &mut Step<'_>,
    request: &Request<'_>,
    course: &Course,
    why: NotNow,
) -> Result<(), Reply> {
    let refusal = refuse(step.cx, why);
    let only_adds = why == NotNow::SessionBusy && !request.ends_dialog();
    if request.is_initial() || only_adds {
        return Err(refusal);
    }
    step.cx.stats.count(Event::Uncounted, 1);
    let mark = mark_of_uncounted(step.cx, request, course);
    stateless.forward(step, request, course, 0, mark);
    Ok(())
}

//! Open requests that are sent once more, and requests that are not sent yet.

use super::{Course, Holder, Kind, Offer, OpenId, Work};
use crate::{
    calls::SessionId, context::Context, member::Member, snapshot::PoolView, wire::request::Request,
};

impl Work {
    /// Takes back the offer of overload control of a request that was answered 400: it is to be sent anew to
    /// the same server. None: it had none, or may not be sent anew.
    pub(crate) fn try_without_offer<'s>(
        &mut self,
        cx: Context<'s>,
        open: OpenId,
    ) -> Option<&'s Member> {
        let request = self.get(open);
        if request.offer != Offer::Made || !request.may_move() || !request.is_charged {
            return None;
        }
        let member = cx.snapshot.member(request.server())?;
        let pool = cx.snapshot.pool_of(member)?;
        let moved = self.requests.get_mut(open);
        moved.attempt += 1;
        moved.tried[usize::from(moved.attempt)] = member.server.id();
        moved.offer = Offer::Withdrawn;
        moved.enters(cx.now, member);
        self.wait_again(cx, open, pool);
        Some(member)
    }

    /// An open request is sent anew.
    pub(super) fn wait_again(&mut self, cx: Context<'_>, open: OpenId, pool: &PoolView) {
        let moved = self.requests.get_mut(open);
        moved.sent_at = cx.now;
        let (id, attempt, session) = (moved.id, moved.attempt, moved.session);
        if moved.holder == Holder::Stateless {
            let wait = match moved.kind {
                Kind::Invite => pool.config().answer_timeout,
                Kind::Cancel | Kind::Other => cx.snapshot.transaction_max(),
            };
            self.arm(open, cx.now + wait);
            self.calls.get_mut(session).set_attempt(id, attempt);
        }
    }

    /// Forgets a new request that is not sent: that it was placed, and the session that it began.
    pub(crate) fn take_back(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        course: &Course,
        session: SessionId,
    ) {
        let placed = course.server.filter(|_| course.is_placed);
        if let Some(member) = placed.and_then(|server| cx.snapshot.member(server)) {
            let cost = cx.snapshot.cost(member, request.method);
            member.server.close_transaction(cost);
        }
        self.calls.settle(cx, session);
    }
}

//! What open requests tell of the room at their servers.

use std::time::Duration;

use balance::ServerId;
use overload::Limit;

use super::{Kind, OpenRequest, Work};
use crate::{
    admission::is_urgent,
    context::Context,
    member::Member,
    snapshot::PoolView,
    wire::{request::Request, response::Response},
};

impl OpenRequest {
    fn limit<'m>(&self, member: &'m Member) -> &'m Limit {
        match self.kind {
            Kind::Invite => &member.room.calls,
            Kind::Cancel | Kind::Other => &member.room.others,
        }
    }

    /// It begins something, and goes to a server.
    pub(super) fn enters(&mut self, now: Duration, member: &Member) {
        let is_reliable = member.transport.is_stream();
        self.wait = Some(self.limit(member).begin(now, is_reliable));
    }

    /// It has its first response, which may have been here since so long ago.
    pub(super) fn is_served(
        &mut self,
        now: Duration,
        late: Duration,
        member: &Member,
        response: &Response<'_>,
    ) {
        let limit = self.limit(member);
        match self.wait.take() {
            None => {}
            Some(wait) if response.status == 503 => limit.refused(now, late, wait),
            Some(wait) => limit.answered(now, late, wait),
        }
    }

    /// Its server was silent for so long that it is given up.
    pub(super) fn waits_in_vain(&mut self, now: Duration, member: &Member) {
        if let Some(wait) = self.wait.take() {
            self.limit(member).silent(now, wait);
        }
    }

    /// It is open there no longer.
    pub(super) fn leaves(&mut self, member: &Member) {
        if let Some(wait) = self.wait.take() {
            self.limit(member).end(wait);
        }
    }
}

impl Work {
    /// What is read from now on has waited here for so long, at most.
    pub(crate) fn note_delay(&mut self, delay: Duration) {
        self.late = delay;
    }

    /// A server reads what it gets, or does not. Some are in several pools: each is told of once.
    pub(crate) fn note_backlog(&mut self, server: ServerId, is_backed_up: bool) {
        self.backed_up.retain(|&other| other != server);
        if is_backed_up {
            self.backed_up.push(server);
        }
    }

    /// Adds the servers that have not read what they got before. Returns whether there are any. What is urgent is
    /// sent there all the same.
    pub(super) fn avoid_backed_up(
        &self,
        cx: Context<'_>,
        request: &Request<'_>,
        pool: &PoolView,
        avoid: &mut Vec<ServerId>,
    ) -> bool {
        let is_urgent = || is_urgent(cx.snapshot, request.datagram.flow, request.message);
        if self.backed_up.is_empty() || is_urgent() {
            return false;
        }
        let before = avoid.len();
        let servers = pool.pool().all_servers().map(|server| server.id());
        avoid.extend(servers.filter(|server| self.backed_up.contains(server)));
        avoid.len() > before
    }
}

/// Adds the servers of a pool that have no room for a request. Returns whether there are any. What is urgent finds
/// room everywhere, and whoever tells how much it takes has room for that.
pub(super) fn avoid_full(
    cx: Context<'_>,
    request: &Request<'_>,
    pool: &PoolView,
    avoid: &mut Vec<ServerId>,
) -> bool {
    if !pool.config().learn_room {
        return false;
    }
    let before = avoid.len();
    for server in pool.pool().all_servers() {
        let member = cx.snapshot.member(server.id());
        if member.is_some_and(|member| !member.has_room(cx.now, request.method, pool.config())) {
            avoid.push(server.id());
        }
    }
    if avoid.len() > before && is_urgent(cx.snapshot, request.datagram.flow, request.message) {
        avoid.truncate(before);
    }
    avoid.len() > before
}

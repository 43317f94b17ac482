//! What comes after an INVITE that this node does not know, as it passed before a restart or by another
//! node: its CANCEL, its final response and the ACK. RFC 3261 §16.10, §16.11

use std::{net::SocketAddr, sync::Arc, time::Duration};

use balance::Health;
use sip::Method;

use crate::{
    branch::Purpose,
    config::Mode,
    io::Outbox,
    keys::tag_hash,
    node::{Context, State},
    relay::{self, Hop},
    request::{Refusal, Request},
    response::Response,
    routing::is_ours,
    session::Reason,
    shared::Member,
    snapshot::PoolView,
    stats::Event,
    token::Direction,
};

/// Servers that get a copy of a CANCEL at most. A pool that has more gets none: 481.
const COPIES_MAX: usize = 32;

/// CANCELs that a worker copies in a second at most, so that nobody turns it on its own servers: 481
/// for what is more.
const CANCELS_PER_S_MAX: u32 = 100;

/// How many CANCELs may be copied still.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    second: u64,
    spent: u32,
}

impl Budget {
    fn spend(&mut self, now: Duration) -> bool {
        if self.second != now.as_secs() {
            *self = Self {
                second: now.as_secs(),
                spent: 0,
            };
        }
        let may = self.spent < CANCELS_PER_S_MAX;
        self.spent += u32::from(may);
        may
    }
}

impl State {
    /// Passes a CANCEL on with the branch that its INVITE had: to each server that may have got the
    /// INVITE, as which one did is not known.
    pub(crate) fn pass_orphaned_cancel(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let hops = hops(cx, request).filter(|_| self.orphans.spend(cx.now));
        let hops = hops.ok_or_else(|| Refusal::new(481))?;
        cx.stats.count(Event::OrphanedCancel, 1);
        for to in hops {
            let hop = Hop {
                to,
                purpose: Purpose::Relay(0),
                uri: None,
                path: &[],
                affinity: None,
            };
            relay::request(cx.snapshot, &mut self.edits, request, &hop, out);
        }
        Ok(())
    }

    /// An INVITE that is not known has its final response. If it is accepted its call counts from now on;
    /// if not, its ACK has to find the server that waits for it. What comes again of it is no new call.
    pub(crate) fn on_orphaned_response(
        &mut self,
        cx: Context<'_>,
        attempt: u8,
        response: &Response<'_>,
    ) {
        if response.cseq.method != Method::Invite || !response.is_final() {
            return;
        }
        let Some((member, direction)) = invited(cx, response) else {
            return;
        };
        if self.sessions.is_full() && !self.sessions.forget_oldest() {
            return;
        }
        let key = cx.snapshot.keys().session(response.call_id);
        let server = member.server.id();
        let entry = self.sessions.insert(cx.now, key, server, Reason::Answered);
        let session = self.sessions.get_mut(entry);
        session.starter_tag = tag_hash(response.from_tag);
        session.from_server = direction == Direction::FromServer;
        session.begin(response.branch.id);
        session.set_attempt(response.branch.id, attempt);
        session.cseq_next[direction as usize] = response.cseq.number.saturating_add(1);
        if response.is_success() {
            cx.stats.count(Event::Rebuilt, 1);
            session.is_call = true;
            member.server.open_call();
            self.follow_dialog(cx, entry, response);
        }
        self.settle(cx, entry);
    }
}

/// The server at one end of an INVITE, and which way that went. A failure tells of no token; it comes from
/// the server.
fn invited<'s>(cx: Context<'s>, response: &Response<'_>) -> Option<(&'s Arc<Member>, Direction)> {
    if !response.is_success() {
        let member = cx.snapshot.member_at(response.from)?;
        return Some((member, Direction::ToServer));
    }
    let affinity = response.affinity(cx.snapshot)?;
    let member = cx.snapshot.member_at(affinity.server)?;
    Some((member, affinity.direction))
}

/// Whether a response says no more than that this server, of the several that got a CANCEL, is not the
/// one that got its INVITE.
pub(crate) fn is_of_a_copy(cx: Context<'_>, response: &Response<'_>) -> bool {
    if response.cseq.method != Method::Cancel || response.status != 481 {
        return false;
    }
    let member = cx.snapshot.member_at(response.from);
    let pool = member.and_then(|member| cx.snapshot.pool_of(member));
    pool.is_some_and(|pool| usable(cx, pool).len() > 1)
}

/// Where a request that is not known would have gone; none: nowhere, to too many, or to servers whose
/// answers belong to transactions that are gone with the node that held them.
fn hops(cx: Context<'_>, request: &Request<'_>) -> Option<Vec<SocketAddr>> {
    if !request.is_initial() {
        return None;
    }
    if let Some(member) = cx.snapshot.member_at(request.datagram.from)
        && let Some(hop) = request.next_hop().filter(|&hop| !is_ours(cx, request, hop))
    {
        let is_stateful = cx.snapshot.is_stateful(request, Some(member.server.id()));
        return (!is_stateful).then(|| vec![hop]);
    }
    let host = &request.path.target.host;
    let route = cx.snapshot.route(Method::Invite, host).ok()?;
    let pool = cx
        .snapshot
        .pool_at(route)
        .filter(|_| route.state == Mode::Stateless)?;
    let servers = usable(cx, pool);
    (1..=COPIES_MAX).contains(&servers.len()).then_some(servers)
}

fn usable(cx: Context<'_>, pool: &PoolView) -> Vec<SocketAddr> {
    let up = pool
        .pool()
        .servers()
        .iter()
        .filter(|server| server.health(cx.now) == Health::Up);
    up.filter_map(|server| Some(cx.snapshot.member(server.id())?.address))
        .collect()
}

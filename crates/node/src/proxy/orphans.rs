//! What comes after an INVITE that this node does not know, as it passed before a restart or by another
//! node: its CANCEL, its final response and the ACK. RFC 3261 §16.10, §16.11

use std::{net::SocketAddr, sync::Arc, time::Duration};

use balance::Health;
use sip::Method;

use super::routing::outward;
use crate::{
    calls::Calls,
    config::Mode,
    context::Context,
    member::Member,
    routes::Traits,
    snapshot::PoolView,
    wire::{request::Request, response::Response, token::Direction},
};

/// Servers that get a copy of a CANCEL at most. A pool that has more gets none: 481.
const COPIES_MAX: usize = 32;

/// CANCELs that a worker copies in a second at most, so that nobody turns it on its own servers: 481
/// for what is more.
const CANCELS_PER_S_MAX: u32 = 100;

/// How many CANCELs may be copied still.
#[derive(Debug, Default)]
pub(super) struct Budget {
    second: u64,
    spent: u32,
}

impl Budget {
    pub(super) fn spend(&mut self, now: Duration) -> bool {
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

/// An INVITE that is not known has its final response: its session begins with that.
pub(super) fn adopt(cx: Context<'_>, calls: &mut Calls, attempt: u8, response: &Response<'_>) {
    if response.cseq.method == Method::Invite
        && response.is_final()
        && let Some((member, direction)) = invited(cx, response)
    {
        calls.rebuild_answered(cx, response, member, direction, attempt);
    }
}

/// The server at one end of an INVITE, and which way that went. A failure tells of no token; it comes from
/// the server.
fn invited<'s>(cx: Context<'s>, response: &Response<'_>) -> Option<(&'s Arc<Member>, Direction)> {
    if !response.is_success() {
        let member = cx.snapshot.member_of(response.flow)?;
        return Some((member, Direction::ToServer));
    }
    let affinity = response.affinity(cx.snapshot)?;
    let member = cx.snapshot.member_at(affinity.server)?;
    Some((member, affinity.direction))
}

/// Whether a response says no more than that this server, of the several that got a CANCEL, is not the
/// one that got its INVITE.
pub(super) fn is_of_a_copy(cx: Context<'_>, response: &Response<'_>) -> bool {
    if response.cseq.method != Method::Cancel || response.status != 481 {
        return false;
    }
    let member = cx.snapshot.member_of(response.flow);
    let pool = member.and_then(|member| cx.snapshot.pool_of(member));
    pool.is_some_and(|pool| usable(cx, pool).len() > 1)
}

/// Each server that may have got the INVITE of a CANCEL, as which one did is not known; none: there is
/// none, there are too many, or their answers belong to transactions that are gone with the node that
/// held them.
pub(super) fn cancelled(cx: Context<'_>, request: &Request<'_>) -> Option<Vec<SocketAddr>> {
    if !request.is_initial() {
        return None;
    }
    if let Some((member, hop)) = outward(cx, request) {
        let server = Some(member.server.id());
        let is_stateful = cx.snapshot.is_stateful(&request.traits(), true, server);
        return (!is_stateful).then(|| vec![hop]);
    }
    let invite = Traits {
        method: Method::Invite,
        ..request.traits()
    };
    let route = cx.snapshot.route(&invite).ok()?;
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

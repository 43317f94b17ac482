//! What comes after an INVITE that this node does not know, as it passed before a restart or by another
//! node: its CANCEL, its final response and the ACK. RFC 3261 §16.10, §16.11

use std::{net::SocketAddr, sync::Arc};

use balance::Health;
use sip::Method;
use transaction::Flow;

use super::{
    budget::{Budget, PerSource},
    routing::outward,
};
use crate::{
    calls::Calls,
    config::Mode,
    context::Context,
    member::Member,
    routes::Traits,
    snapshot::PoolView,
    wire::{branch::Purpose, request::Request, response::Response, token::Affinity},
};

/// Servers that get a copy of a CANCEL at most. A pool that has more gets none: 481.
const COPIES_MAX: usize = 32;

/// CANCELs from one source that a worker copies in a second at most, so that nobody turns it on its own
/// servers: 481 for what is more.
const CANCELS_PER_S_MAX: u32 = 50;

/// The same of all sources that may be forged.
const FORGED_PER_S_MAX: u32 = 200;

/// How many CANCELs may be copied.
#[derive(Debug)]
pub(super) struct Orphans {
    per_source: PerSource,
    may_be_forged: Budget,
}

impl Orphans {
    pub(super) fn new() -> Self {
        Self {
            per_source: PerSource::new(CANCELS_PER_S_MAX),
            may_be_forged: Budget::default(),
        }
    }

    /// Whether one more from there may be copied.
    pub(super) fn spend(&mut self, cx: Context<'_>, from: Flow) -> bool {
        let source = cx.snapshot.keys().source(from.remote.ip());
        self.per_source.spend(cx.now, source)
            && (cx.has_heard_us(from) || self.may_be_forged.spend(cx.now, FORGED_PER_S_MAX))
    }
}

/// An INVITE that is not known has its final response: its session begins with that.
pub(super) fn adopt(cx: Context<'_>, calls: &mut Calls, attempt: u8, response: &Response<'_>) {
    if response.cseq.method == Method::Invite
        && response.is_final()
        && let Some((member, affinity)) = invited(cx, response)
    {
        calls.rebuild_answered(cx, response, member, affinity, attempt);
    }
}

/// The server at one end of an INVITE, and its token. A failure tells of no token; it comes from the
/// server.
fn invited<'s>(
    cx: Context<'s>,
    response: &Response<'_>,
) -> Option<(&'s Arc<Member>, Option<Affinity>)> {
    if !response.is_success() {
        return Some((cx.snapshot.member_of(response.flow)?, None));
    }
    let affinity = response.affinity(cx.snapshot)?;
    let member = cx.snapshot.member_at(affinity.server.address)?;
    Some((member, Some(affinity)))
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

/// Each server that may have got the INVITE of a CANCEL, as which one did is not known, and the purpose that
/// the INVITE was sent for. None: there is no server, or there are too many.
pub(super) fn cancelled(
    cx: Context<'_>,
    request: &Request<'_>,
) -> Option<(Vec<SocketAddr>, Purpose)> {
    if !request.is_initial() {
        return None;
    }
    let invite = Traits {
        method: Method::Invite,
        ..request.traits()
    };
    if let Some((member, hop)) = outward(cx, request) {
        let server = Some(member.server.id());
        let mode = cx.snapshot.mode_of(&invite, true, server);
        return Some((vec![hop.remote], first_purpose(mode)));
    }
    let route = cx.snapshot.route(&invite).ok()?;
    let servers = usable(cx, cx.snapshot.pool_at(route)?);
    let is_few = (1..=COPIES_MAX).contains(&servers.len());
    is_few.then(|| (servers, first_purpose(route.state)))
}

/// What the branch of a request says when it is sent for the first time.
fn first_purpose(mode: Mode) -> Purpose {
    match mode {
        Mode::Stateful => Purpose::Held {
            number: 0,
            route: None,
        },
        Mode::Stateless | Mode::Dynamic => Purpose::Relay(0),
    }
}

fn usable(cx: Context<'_>, pool: &PoolView) -> Vec<SocketAddr> {
    let up = pool
        .pool()
        .all_servers()
        .filter(|server| server.health() == Health::Up);
    up.filter_map(|server| Some(cx.snapshot.member(server.id())?.address))
        .collect()
}

//! Which way a request goes: by its token, by its session, or by the routes.

use std::net::SocketAddr;

use balance::ServerId;
use sip::Method;

use crate::{
    admission::{NotNow, refuse},
    calls::{Calls, Life, Reason, SessionId},
    config::{self, Mode},
    context::Context,
    member::Member,
    routes::NoRoute,
    snapshot::PoolView,
    stats::Event,
    wire::{
        keys::tag_hash,
        reply::Reply,
        request::Request,
        token::{Affinity, Direction},
    },
    work::{Course, Work},
};

/// The course of a request whose call has one: by its token, by its session, or because a
/// server sends it within a dialog that passed here.
pub(super) fn known_course(
    cx: Context<'_>,
    calls: &mut Calls,
    request: &Request<'_>,
    session: Option<SessionId>,
) -> Result<Option<Course>, Reply> {
    let affinity = request.affinity(cx.snapshot).unwrap_or_else(|()| {
        if !request.is_initial() {
            cx.stats.count(Event::ForgedToken, 1);
        }
        None
    });
    if let Some(affinity) = affinity {
        return token_course(cx, calls, request, session, affinity).map(Some);
    }
    let from = request.datagram.flow;
    if let Some(entry) = session.filter(|&entry| !is_another_call(calls, request, entry)) {
        let server = calls.get(entry).server;
        let sender = cx.snapshot.member_of_or(Some(server), from);
        let direction = match sender {
            Some(member) if member.server.id() == server => Direction::FromServer,
            _ => Direction::ToServer,
        };
        return course(cx, request, direction, Some(server), None, session).map(Some);
    }
    match cx.snapshot.member_of(from) {
        Some(member) if !request.is_initial() => {
            let server = Some(member.server.id());
            course(cx, request, Direction::FromServer, server, None, None).map(Some)
        }
        _ => Ok(None),
    }
}

/// A peer that starts over uses an old Call-ID for a new call.
fn is_another_call(calls: &Calls, request: &Request<'_>, entry: SessionId) -> bool {
    let session = calls.get(entry);
    request.is_initial()
        && session.life == Life::Expired
        && session.starter_tag != tag_hash(request.from_tag)
}

fn token_course(
    cx: Context<'_>,
    calls: &mut Calls,
    request: &Request<'_>,
    session: Option<SessionId>,
    affinity: Affinity,
) -> Result<Course, Reply> {
    let Affinity {
        server: address,
        direction,
    } = affinity;
    let of_session = session.map(|entry| calls.get(entry).server);
    let member = cx.snapshot.member_at_or(of_session, address);
    let server = member.map(|member| member.server.id());
    let mut course = course(cx, request, direction, server, Some(address), session)?;
    if session.is_none()
        && let Some(server) = server
    {
        course.session = calls.rebuild(cx, request, direction, server);
    }
    Ok(course)
}

/// The next hop of a request whose direction is known. RFC 3261 §16.6: a server's requests go where
/// Route and Request-URI say, and those to a user's phone where Route says.
fn course(
    cx: Context<'_>,
    request: &Request<'_>,
    direction: Direction,
    server: Option<ServerId>,
    address: Option<SocketAddr>,
    session: Option<SessionId>,
) -> Result<Course, Reply> {
    let next_hop = match direction {
        Direction::FromServer => outward_hop(cx, request),
        Direction::ToServer if server.is_none() && request.path.next.is_some() => {
            request.next_hop().or(address)
        }
        Direction::ToServer => address.or_else(|| Some(cx.snapshot.member(server?)?.address)),
    };
    match next_hop {
        Some(next_hop) => Ok(Course {
            direction,
            server,
            next_hop,
            session,
            is_placed: false,
        }),
        None if direction == Direction::FromServer => Err(refuse(cx, NotNow::Unreachable)),
        None => Err(Reply::new(481)),
    }
}

/// The course of a request that starts something: outwards when a server sends it to an
/// address, else to the server that the route's pool chooses.
pub(super) fn new_course(
    cx: Context<'_>,
    work: &mut Work,
    held: Result<(), NotNow>,
    request: &Request<'_>,
    named: Option<ServerId>,
) -> Result<Course, Reply> {
    if let Some((member, next_hop)) = outward(cx, request) {
        let begun = work.calls.originate(cx, request, member);
        return Ok(Course {
            direction: Direction::FromServer,
            server: Some(member.server.id()),
            next_hop,
            session: Some(begun.map_err(|why| refuse(cx, why))?),
            is_placed: false,
        });
    }
    let route = route(cx, request)?;
    if route.state == Mode::Stateful {
        held.map_err(|why| refuse(cx, why))?;
    }
    let pool = cx.snapshot.pool_at(route);
    let pool = pool.ok_or_else(|| Reply::new(404))?;
    let named = named.and_then(|server| cx.snapshot.member(server));
    let (member, reason) = match named {
        Some(member) => {
            open_on(member, pool, request);
            (&**member, Reason::NamedDialog)
        }
        None => {
            let is_call = request.method == Method::Invite;
            let chosen = work.place(cx, request, pool, is_call, &[]);
            let chosen = chosen.ok_or_else(|| refuse(cx, NotNow::NoServer))?;
            (chosen, Reason::Placed)
        }
    };
    let server = member.server.id();
    let begun = work.calls.begin(cx, request, server, reason);
    Ok(Course {
        direction: Direction::ToServer,
        server: Some(server),
        next_hop: member.address,
        session: Some(begun.map_err(|why| refuse(cx, why))?),
        is_placed: true,
    })
}

fn route<'s>(cx: Context<'s>, request: &Request<'_>) -> Result<&'s config::Route, Reply> {
    let traits = request.traits();
    cx.snapshot.route(&traits).map_err(|none| match none {
        NoRoute::Target => Reply::new(404),
        NoRoute::Method => Reply::new(405).with("Allow", cx.snapshot.methods(&traits)),
    })
}

/// Counts a request on the server that it must go to.
fn open_on(member: &Member, pool: &PoolView, request: &Request<'_>) {
    member.server.open_transaction(pool.cost(request.method));
    if request.method == Method::Invite {
        member.server.open_call();
    }
}

/// The registrar, if a request leads there: one that belongs to nothing, and that no server sends to
/// an address.
pub(super) fn registrar<'s>(
    cx: Context<'s>,
    request: &Request<'_>,
) -> Option<&'s config::Registrar> {
    let registrar = cx.snapshot.registrar(&request.traits());
    registrar.filter(|_| request.is_initial() && outward(cx, request).is_none())
}

/// The server that sends a request to somebody outside, and where to.
pub(super) fn outward<'s>(
    cx: Context<'s>,
    request: &Request<'_>,
) -> Option<(&'s Member, SocketAddr)> {
    let member = cx.snapshot.member_of(request.datagram.flow)?;
    Some((member, outward_hop(cx, request)?))
}

fn outward_hop(cx: Context<'_>, request: &Request<'_>) -> Option<SocketAddr> {
    let is_ours = |hop: &SocketAddr| {
        cx.snapshot.is_our_address(*hop)
            || (request.path.next.is_none() && cx.snapshot.is_our_uri(&request.path.target))
    };
    request.next_hop().filter(|hop| !is_ours(hop))
}

/// Whether a request is of a server's, to somebody outside: within a dialog, by its Route, or because
/// nobody here is responsible for whom it names. RFC 3261 §16.5
pub(super) fn leads_outward(cx: Context<'_>, request: &Request<'_>) -> bool {
    let is_of_server = || cx.snapshot.member_of(request.datagram.flow).is_some();
    if request.is_initial() {
        let is_foreign = || {
            let route = cx.snapshot.route(&request.traits());
            matches!(route, Err(NoRoute::Target))
        };
        return is_of_server() && (request.path.next.is_some() || is_foreign());
    }
    match request.affinity(cx.snapshot) {
        Ok(Some(affinity)) => affinity.direction == Direction::FromServer,
        Ok(None) | Err(()) => is_of_server(),
    }
}

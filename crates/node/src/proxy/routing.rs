//! Which way a request goes: by its token, by its session, or by the routes.

use std::{net::SocketAddr, sync::Arc};

use balance::ServerId;
use sip::Method;
use transaction::{Flow, NextHop};

use crate::{
    admission::{NotNow, refuse},
    calls::{Calls, Life, Reason, SessionId},
    config::{self, Mode},
    context::Context,
    control,
    member::Member,
    routes::NoRoute,
    stats::Event,
    wire::{
        keys::tag_hash,
        reply::{self, Reply},
        request::{Forged, Request},
        token::{Affinity, Client, Direction, Starter},
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
    let affinity = request.affinity().unwrap_or_else(|Forged| {
        if !request.is_initial() {
            cx.stats.count(Event::ForgedToken, 1);
        }
        None
    });
    if let Some(affinity) = affinity {
        return token_course(cx, calls, request, session, affinity).map(Some);
    }
    let from = request.datagram.flow;
    let session = session.filter(|&entry| !is_another_call(calls, request, entry));
    if request.path.phone.is_some() {
        return phone_course(cx, calls, request, session);
    }
    if let Some(entry) = session {
        let server = calls.get(entry).server;
        let sender = cx.snapshot.member_of_or(Some(server), from);
        let is_server = |member: &&Arc<Member>| {
            member.server.id() == server && is_of_server_side(calls, request, entry, member)
        };
        let course = match sender.filter(is_server) {
            Some(_) => {
                let client = calls.get(entry).client.get();
                outwards(cx, request, Some(server), client, session)
            }
            None => {
                let member = cx.snapshot.member(server);
                to_server(
                    cx,
                    request,
                    Some(server),
                    member.map(|member| member.address),
                    session,
                )
            }
        };
        return course.map(Some);
    }
    match cx.snapshot.member_of(from) {
        Some(member) if !request.is_initial() => {
            let server = Some(member.server.id());
            outwards(cx, request, server, None, None).map(Some)
        }
        _ => Ok(None),
    }
}

/// Whether a request of a session is of its server's side. Who is connected from the server's host is told by
/// the tag: a caller may be there, too.
fn is_of_server_side(
    calls: &Calls,
    request: &Request<'_>,
    entry: SessionId,
    member: &Member,
) -> bool {
    let session = calls.get(entry);
    let is_of_starter = session.starter_tag == tag_hash(request.from_tag);
    member.address == request.datagram.flow.remote || is_of_starter == session.from_server
}

/// The course of a request to a phone that registered through here. None: it starts a call. A call that its
/// caller sent through here, too, counts once: what the server sends on to the phone has no session.
fn phone_course(
    cx: Context<'_>,
    calls: &Calls,
    request: &Request<'_>,
    session: Option<SessionId>,
) -> Result<Option<Course>, Reply> {
    let sender = request.datagram.flow;
    if !cx.snapshot.is_trusted(sender) {
        cx.stats.count(Event::NotOfServer, 1);
        return Err(Reply::new(403));
    }
    let member = cx.snapshot.member_of(sender);
    let is_of_call = matches!(request.method, Method::Ack | Method::Cancel);
    if session.is_none() && member.is_some() && !is_of_call {
        return Ok(None);
    }
    let session = session.filter(|&entry| calls.get(entry).from_server);
    let server = member.map(|member| member.server.id());
    outwards(cx, request, server, None, session).map(Some)
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
    let sender = request.datagram.flow;
    if affinity.direction == Direction::ToServer
        && sender.remote.ip() == affinity.client.flow.remote.ip()
    {
        cx.hears_us(sender);
    }
    let is_known = session.is_some();
    let from_server = affinity.starter == Starter::Server;
    let session = session.filter(|&entry| calls.get(entry).from_server == from_server);
    let of_session = session.map(|entry| calls.get(entry));
    let latest = of_session.and_then(|session| session.client.get());
    let of_session = of_session.map(|session| session.server);
    let address = affinity.server.address;
    let member = cx.snapshot.member_at_or(of_session, address);
    let server = member.map(|member| member.server.id());
    let mut course = match affinity.direction {
        Direction::ToServer => {
            let mut course = to_server(cx, request, server, Some(address), session)?;
            let phone = affinity.server.connected(cx.snapshot, sender.listener);
            course.next_hop = phone.unwrap_or(course.next_hop);
            let flow = reply::return_flow(Some(&request.via), sender);
            if session.is_none() && !request.is_initial() && flow != affinity.client.flow {
                calls.moved.notice(request.key, affinity.client.flow, flow);
            }
            course
        }
        Direction::FromServer => {
            if server.is_some() && !may_follow(cx, request, affinity) {
                cx.stats.count(Event::NotOfServer, 1);
                return Err(Reply::new(403));
            }
            let told = affinity.client;
            let moved = || calls.moved.find(request.key, told.flow);
            let flow = latest.is_none().then(moved).flatten();
            let flow = flow.unwrap_or(told.flow);
            let client = latest.unwrap_or(Client { flow, ..told });
            outwards(cx, request, server, Some(client), session)?
        }
    };
    if !is_known && let Some(server) = server {
        course.session = calls.rebuild(cx, request, affinity, server);
    }
    Ok(course)
}

/// Whether a request may go the way of its token. One of the server's side of its dialog must come from the
/// server's host, or from whom the node trusts.
pub(super) fn may_follow(cx: Context<'_>, request: &Request<'_>, affinity: Affinity) -> bool {
    let sender = request.datagram.flow;
    affinity.direction == Direction::ToServer
        || sender.remote.ip() == affinity.server.address.ip()
        || cx.snapshot.is_trusted(sender)
}

/// The course of a request to the server at this address.
fn to_server(
    cx: Context<'_>,
    request: &Request<'_>,
    server: Option<ServerId>,
    address: Option<SocketAddr>,
    session: Option<SessionId>,
) -> Result<Course, Reply> {
    let address = address.ok_or_else(|| Reply::new(481))?;
    Ok(Course {
        direction: Direction::ToServer,
        server,
        next_hop: request.flow_to_server(cx, address),
        session,
        is_placed: false,
    })
}

/// The course of a request from a server's side: to its client's flow, so that one behind a NAT gets it.
/// RFC 3261 §16.6: where Route and Request-URI say, if its client is reached by them, or if it is not
/// known.
fn outwards(
    cx: Context<'_>,
    request: &Request<'_>,
    server: Option<ServerId>,
    client: Option<Client>,
    session: Option<SessionId>,
) -> Result<Course, Reply> {
    let is_trusted = || cx.snapshot.is_trusted(request.datagram.flow);
    let next_hop = match client {
        Some(client) if !client.has_route_set || !is_trusted() => {
            Some(client.flow).filter(|flow| !cx.snapshot.is_our_address(flow.remote))
        }
        _ => outward_hop(cx, request),
    };
    Ok(Course {
        direction: Direction::FromServer,
        server,
        next_hop: next_hop.ok_or_else(|| refuse(cx, NotNow::Unreachable))?,
        session,
        is_placed: false,
    })
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
        request.check_way(cx, next_hop.transport.is_secure())?;
        let begun = work.calls.originate(cx, request, member, next_hop);
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
    let mut servers = pool.config().servers.iter();
    request.check_way(cx, servers.all(|server| server.transport.is_secure()))?;
    let named = named.and_then(|server| cx.snapshot.member(server));
    let (member, reason) = match named {
        Some(member) => {
            open_on(cx, member, request);
            (&**member, Reason::NamedDialog)
        }
        None => {
            let is_call = request.method == Method::Invite;
            let chosen = work.place(cx, request, pool, is_call, &[]);
            let chosen = chosen.map_err(|why| control::refuse(cx, request, why))?;
            (chosen, Reason::Placed)
        }
    };
    let server = member.server.id();
    let begun = work.calls.begin(cx, request, server, reason);
    Ok(Course {
        direction: Direction::ToServer,
        server: Some(server),
        next_hop: request.flow_to_server(cx, member.address),
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
fn open_on(cx: Context<'_>, member: &Member, request: &Request<'_>) {
    member
        .server
        .open_transaction(cx.snapshot.cost(member, request.method));
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
    registrar.filter(|_| {
        request.is_initial() && request.path.phone.is_none() && outward(cx, request).is_none()
    })
}

/// The server that sends a request to somebody outside, and where to.
pub(super) fn outward<'s>(cx: Context<'s>, request: &Request<'_>) -> Option<(&'s Member, Flow)> {
    let member = cx.snapshot.member_of(request.datagram.flow)?;
    Some((member, outward_hop(cx, request)?))
}

fn outward_hop(cx: Context<'_>, request: &Request<'_>) -> Option<Flow> {
    if request.path.phone.is_some() {
        return request.path.phone;
    }
    let is_ours = |hop: &NextHop| {
        cx.snapshot.is_our_address(hop.address)
            || (request.path.next.is_none() && cx.snapshot.is_our_uri(&request.path.target))
    };
    let hop = request.next_hop().filter(|hop| !is_ours(hop))?;
    cx.snapshot.flow_to(hop, request.datagram.flow.listener)
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
    match request.affinity() {
        Ok(Some(Affinity {
            direction, client, ..
        })) => {
            let is_trusted = || cx.snapshot.is_trusted(request.datagram.flow);
            direction == Direction::FromServer && client.has_route_set && is_trusted()
        }
        Ok(None) | Err(Forged) => is_of_server(),
    }
}

//! Requests: which call, which server, onwards.

use std::net::SocketAddr;

use balance::{Arrival, ServerId};
use sip::{Message, Method};

use crate::{
    branch::Purpose,
    config::{self, Mode},
    dialogs::member_at,
    explain::Ledgers,
    io::{Datagram, Outbox},
    node::{Context, Origin, State},
    relay::Hop,
    request::{Refusal, Request},
    session::{DialogId, Reason, State as Life, tag_pair},
    shared::Member,
    snapshot::{NoRoute, PoolView},
    stats::{Dropped, Event},
    token::{Affinity, Direction, Starter},
};

/// What a caller is told to wait when no server can take its call, in seconds.
pub(crate) const RETRY_AFTER_S: u64 = 5;

/// Where a request goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    pub(crate) direction: Direction,
    /// The server at the inner end; none: it isn't configured here, a token named its address.
    pub(crate) server: Option<ServerId>,
    pub(crate) next_hop: SocketAddr,
    pub(crate) session: Option<u32>,
    /// The server was chosen just now: the ledger has the request.
    pub(crate) is_placed: bool,
}

impl State {
    pub(crate) fn on_request(
        &mut self,
        cx: Context<'_>,
        datagram: Datagram<'_>,
        message: &Message<'_>,
        origin: Origin,
        out: &mut Outbox,
    ) {
        let routed = Request::read(cx.snapshot, datagram, message).and_then(|request| {
            let is_to_route =
                self.is_owner(cx, &request, origin, out) && !self.is_held(cx, &request, out);
            if is_to_route && !self.waits_for_name(cx, &request, origin, out)? {
                self.route(cx, &request, origin, out)?;
            }
            Ok(())
        });
        if let Err(refusal) = routed {
            self.refuse(cx, &datagram, message, &refusal, out);
        }
    }

    /// Whether the request's call lives on this worker; if not, it is passed on.
    fn is_owner(
        &self,
        cx: Context<'_>,
        request: &Request<'_>,
        origin: Origin,
        out: &mut Outbox,
    ) -> bool {
        let owner = request.key.worker(cx.shared.workers().len());
        if owner == self.worker {
            return true;
        }
        let follows = match origin {
            Origin::Socket => None,
            Origin::Worker { .. } => Some(self.named_server(cx, request)),
        };
        self.hand_over(cx, &request.datagram, owner, follows, out);
        false
    }

    /// The server of the dialog that a request names in Replaces, Join or Target-Dialog.
    fn named_server(&self, cx: Context<'_>, request: &Request<'_>) -> Option<ServerId> {
        let key = cx.snapshot.keys().session(request.message.dialog_named()?);
        Some(self.sessions.get(self.sessions.find(key)?).server)
    }

    pub(crate) fn route(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        origin: Origin,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let session = self.sessions.find(request.key);
        match request.method {
            Method::Cancel => return self.on_cancel(cx, request, session, out),
            Method::Ack => return self.on_ack(cx, request, session, out),
            _ => {}
        }
        let registrar = registrar(cx, request);
        if registrar.is_none()
            && let Some(course) = self.known_course(cx, request, session)?
        {
            return self.transact(cx, request, course, out);
        }
        if !request.is_initial() {
            return Err(Refusal::new(481));
        }
        if cx.shared.is_draining() {
            return Err(Refusal::unavailable(RETRY_AFTER_S));
        }
        if let Some(registrar) = registrar {
            return match request.method {
                Method::Register => self.register(cx, registrar, request, out),
                _ => self.look_up(cx, registrar, request, out),
            };
        }
        if let Some((worker, ask)) = self.whom_to_ask(cx, request, origin) {
            self.hand_over(cx, &request.datagram, worker, ask, out);
            return Ok(());
        }
        let named = match origin {
            Origin::Worker {
                follows: Some(server),
            } => server,
            _ => self.named_server(cx, request),
        };
        let course = self.new_course(cx, request, named)?;
        self.transact(cx, request, course, out)
    }

    /// The worker that owns the dialog that a request names, when that has not been asked yet.
    fn whom_to_ask(
        &self,
        cx: Context<'_>,
        request: &Request<'_>,
        origin: Origin,
    ) -> Option<(usize, Option<Option<ServerId>>)> {
        if matches!(origin, Origin::Worker { follows: Some(_) }) {
            return None;
        }
        let named = cx.snapshot.keys().session(request.message.dialog_named()?);
        let owner = named.worker(cx.shared.workers().len());
        (owner != self.worker).then_some((owner, None))
    }

    /// The course of a request whose call has one: by its token, by its session, or because a
    /// server sends it within a dialog that passed here.
    fn known_course(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        session: Option<u32>,
    ) -> Result<Option<Course>, Refusal> {
        let affinity = request.affinity(cx.snapshot).unwrap_or_else(|()| {
            if !request.is_initial() {
                cx.stats.count(Event::ForgedToken, 1);
            }
            None
        });
        if let Some(affinity) = affinity {
            return self.token_course(cx, request, session, affinity).map(Some);
        }
        let from = cx.snapshot.member_at(request.datagram.from);
        if let Some(entry) = session.filter(|&entry| !self.is_another_call(request, entry)) {
            let server = self.sessions.get(entry).server;
            let is_from_server = from.is_some_and(|member| member.server.id() == server)
                || cx
                    .snapshot
                    .member(server)
                    .is_some_and(|m| m.address == request.datagram.from);
            let direction = if is_from_server {
                Direction::FromServer
            } else {
                Direction::ToServer
            };
            return course(cx, request, direction, Some(server), None, session).map(Some);
        }
        match from {
            Some(member) if !request.is_initial() => course(
                cx,
                request,
                Direction::FromServer,
                Some(member.server.id()),
                None,
                None,
            )
            .map(Some),
            _ => Ok(None),
        }
    }

    /// A peer that starts over uses an old Call-ID for a new call.
    fn is_another_call(&self, request: &Request<'_>, entry: u32) -> bool {
        let session = self.sessions.get(entry);
        request.is_initial()
            && session.state == Life::Expired
            && session.starter_tag != crate::keys::tag_hash(request.from_tag)
    }

    fn token_course(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        session: Option<u32>,
        affinity: Affinity,
    ) -> Result<Course, Refusal> {
        let of_session = session.map(|entry| self.sessions.get(entry).server);
        let member = member_at(cx, of_session, affinity.server);
        let server = member.map(|member| member.server.id());
        let mut course = course(
            cx,
            request,
            affinity.direction,
            server,
            Some(affinity.server),
            session,
        )?;
        if session.is_none()
            && let Some(server) = server
        {
            course.session = self.rebuild(cx, request, affinity.direction, server);
        }
        Ok(course)
    }

    /// Builds the session of a dialog that another node, or this one before it was restarted, let
    /// through. Without room for it the request passes all the same.
    fn rebuild(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        direction: Direction,
        server: ServerId,
    ) -> Option<u32> {
        self.make_room(cx, request).ok()?;
        cx.stats.count(Event::Rebuilt, 1);
        let entry = self.add_session(cx, request, server, Reason::Token);
        let is_call = !matches!(request.method, Method::Subscribe | Method::Notify);
        let session = self.sessions.get_mut(entry);
        session.is_call = is_call;
        // The number of an ACK is that of an INVITE that was answered.
        session.cseq_next[direction as usize] = match request.method {
            Method::Ack => request.cseq.number.saturating_add(1),
            _ => request.cseq.number,
        };
        if is_call {
            cx.snapshot.member(server)?.server.open_call();
        }
        let to_tag = request.to_tag.unwrap_or_default();
        let (client_tag, server_tag) = match direction {
            Direction::ToServer => (request.from_tag, to_tag),
            Direction::FromServer => (to_tag, request.from_tag),
        };
        self.sessions.add_dialog(
            entry,
            DialogId {
                server,
                call_id: request.call_id,
                client_tag,
                server_tag,
            },
        );
        self.watch(cx, entry);
        Some(entry)
    }

    /// The course of a request that starts something: outwards when a server sends it to an
    /// address, else to the server that the route's pool chooses.
    fn new_course(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        named: Option<ServerId>,
    ) -> Result<Course, Refusal> {
        if self.transactions.is_full() {
            cx.stats.count(Event::TransactionsFull, 1);
            return Err(Refusal::unavailable(RETRY_AFTER_S));
        }
        self.make_room(cx, request)?;
        if let Some(member) = cx.snapshot.member_at(request.datagram.from)
            && let Some(next_hop) = request.next_hop().filter(|&hop| !is_ours(cx, request, hop))
        {
            return Ok(self.outward_course(cx, request, member, next_hop));
        }
        let route = cx
            .snapshot
            .route(request.method, &request.path.target.host)
            .map_err(|none| match none {
                NoRoute::Host => Refusal::new(404),
                NoRoute::Method => {
                    Refusal::method_not_allowed(cx.snapshot.methods(&request.path.target.host))
                }
            })?;
        if route.state == Mode::Stateful && !self.stateful.has_room() {
            cx.stats.count(Event::TransactionsFull, 1);
            return Err(Refusal::unavailable(RETRY_AFTER_S));
        }
        let pool = cx
            .snapshot
            .pool_at(route)
            .ok_or_else(|| Refusal::new(404))?;
        let is_call = request.method == Method::Invite;
        let named = named.and_then(|server| cx.snapshot.member(server));
        let (member, reason) = match named {
            Some(member) => {
                open_on(member, pool, request);
                (&**member, Reason::NamedDialog)
            }
            None => {
                let chosen = self.place(cx, request, pool, is_call, &[]);
                (
                    chosen.ok_or_else(|| Refusal::unavailable(RETRY_AFTER_S))?,
                    Reason::Placed,
                )
            }
        };
        let server = member.server.id();
        let session = Some(self.add_session(cx, request, server, reason));
        let direction = Direction::ToServer;
        Ok(Course {
            direction,
            server: Some(server),
            next_hop: member.address,
            session,
            is_placed: true,
        })
    }

    fn outward_course(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        member: &Member,
        next_hop: SocketAddr,
    ) -> Course {
        let server = member.server.id();
        let entry = self.add_session(cx, request, server, Reason::Originated);
        let session = self.sessions.get_mut(entry);
        session.from_server = true;
        if session.is_call {
            member.server.open_call();
        }
        let direction = Direction::FromServer;
        Course {
            direction,
            server: Some(server),
            next_hop,
            session: Some(entry),
            is_placed: false,
        }
    }

    /// Chooses a server and counts the request on it.
    pub(crate) fn place<'s>(
        &mut self,
        cx: Context<'s>,
        request: &Request<'_>,
        pool: &PoolView,
        is_call: bool,
        avoid: &[ServerId],
    ) -> Option<&'s Member> {
        let policy = pool.pool().policy();
        let key = request.placement_key(policy == balance::Policy::UserHash);
        let ledgers = Ledgers::of(pool);
        let arrival = Arrival {
            key,
            cost: pool.cost(request.method),
            call: is_call,
            avoid,
        };
        let server = pool.pool().place(cx.now, &arrival, &mut self.rng)?.id();
        self.decisions.record(request.key, cx.now, policy, ledgers);
        cx.snapshot.member(server).map(|member| &**member)
    }

    /// Makes sure that a session can be added; a previous, expired one of the same name goes.
    fn make_room(&mut self, cx: Context<'_>, request: &Request<'_>) -> Result<(), Refusal> {
        if let Some(entry) = self.sessions.find(request.key) {
            debug_assert_eq!(self.sessions.get(entry).state, Life::Expired);
            self.sessions.forget(entry);
        }
        if !self.sessions.is_full() {
            return Ok(());
        }
        if !self.sessions.forget_oldest() {
            cx.stats.count(Event::SessionsFull, 1);
            return Err(Refusal::unavailable(RETRY_AFTER_S));
        }
        cx.stats.count(Event::ExpiredEarly, 1);
        Ok(())
    }

    fn add_session(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        server: ServerId,
        reason: Reason,
    ) -> u32 {
        let entry = self.sessions.insert(cx.now, request.key, server, reason);
        let session = self.sessions.get_mut(entry);
        session.starter_tag = crate::keys::tag_hash(request.from_tag);
        session.is_call = request.method == Method::Invite;
        entry
    }

    /// ACK opens nothing and is never answered. For a failure it goes where the INVITE went and
    /// with its branch, RFC 3261 §17.1.1.3; for a 2xx it is a request of its own.
    fn on_ack(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        session: Option<u32>,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let Some(course) = self.known_course(cx, request, session)? else {
            return Err(Refusal::new(481));
        };
        if let Some(entry) = course.session {
            let tags = tag_pair(request.from_tag, request.to_tag.unwrap_or_default());
            self.sessions.set_acknowledged(entry, tags, true);
        }
        let attempt = self.attempt(course.session, request.id)?;
        self.forward(cx, request, &course, attempt, out);
        Ok(())
    }

    /// CANCEL goes where its INVITE went, with its branch. RFC 3261 §9.1, §16.10
    fn on_cancel(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        session: Option<u32>,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let Some(course) = self.known_course(cx, request, session)? else {
            return self.pass_orphaned_cancel(cx, request, out);
        };
        if course.session.is_some() {
            return self.transact_cancel(cx, request, course, out);
        }
        self.forward(cx, request, &course, 0, out);
        Ok(())
    }

    /// How often the request with this identity was placed before. Refused is what belongs to a
    /// transaction that ended at a server which its call has left since.
    pub(crate) fn attempt(&self, session: Option<u32>, id: u64) -> Result<u8, Refusal> {
        let attempt = session.map_or(Some(0), |entry| self.sessions.get(entry).attempt(id));
        attempt.ok_or_else(|| Refusal::new(481))
    }

    /// Answers a request ourselves. An ACK gets no answer, whatever is wrong with it.
    pub(crate) fn refuse(
        &mut self,
        cx: Context<'_>,
        datagram: &Datagram<'_>,
        message: &Message<'_>,
        refusal: &Refusal,
        out: &mut Outbox,
    ) {
        if message.method() == Some(Method::Ack) {
            cx.stats.drop_one(Dropped::RefusedAck);
            return;
        }
        cx.stats.reply(refusal.status);
        crate::relay::reply(cx.snapshot, datagram, message, refusal, out);
    }

    pub(crate) fn forward(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        course: &Course,
        attempt: u8,
        out: &mut Outbox,
    ) {
        let starter = match course.direction {
            Direction::ToServer => Starter::Client,
            Direction::FromServer => Starter::Server,
        };
        let server = course
            .server
            .and_then(|server| cx.snapshot.member(server))
            .map(|member| member.address);
        let affinity = server
            .filter(|_| request.forms_dialog())
            .map(|server| (server, starter));
        let hop = Hop {
            to: course.next_hop,
            purpose: Purpose::Relay(attempt),
            uri: None,
            path: &[],
            affinity,
        };
        crate::relay::request(cx.snapshot, &mut self.edits, request, &hop, out);
    }
}

/// The registrar, if a request leads there: one that belongs to nothing, and that no server sends to
/// an address.
fn registrar<'s>(cx: Context<'s>, request: &Request<'_>) -> Option<&'s config::Registrar> {
    let registrar = cx
        .snapshot
        .registrar(request)
        .filter(|_| request.is_initial())?;
    let is_outward = cx.snapshot.member_at(request.datagram.from).is_some()
        && request
            .next_hop()
            .is_some_and(|hop| !is_ours(cx, request, hop));
    (!is_outward).then_some(registrar)
}

/// Counts a request on the server that it must go to.
fn open_on(member: &Member, pool: &PoolView, request: &Request<'_>) {
    member.server.open_transaction(pool.cost(request.method));
    if request.method == Method::Invite {
        member.server.open_call();
    }
}

pub(crate) fn is_ours(cx: Context<'_>, request: &Request<'_>, next_hop: SocketAddr) -> bool {
    cx.snapshot.is_our_address(next_hop)
        || (request.path.next.is_none() && cx.snapshot.is_our_uri(&request.path.target))
}

/// The next hop of a request whose direction is known. RFC 3261 §16.6: a server's requests go where
/// Route and Request-URI say, and those to a user's phone where Route says.
fn course(
    cx: Context<'_>,
    request: &Request<'_>,
    direction: Direction,
    server: Option<ServerId>,
    address: Option<SocketAddr>,
    session: Option<u32>,
) -> Result<Course, Refusal> {
    let next_hop = match direction {
        Direction::FromServer => request.next_hop().filter(|&hop| !is_ours(cx, request, hop)),
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
        None if direction == Direction::FromServer => Err(unreachable_hop()),
        None => Err(Refusal::new(481)),
    }
}

/// RFC 3261 §16.9: a next hop that can't be reached counts as a 503.
pub(crate) fn unreachable_hop() -> Refusal {
    Refusal {
        reason: "Next Hop Unreachable",
        ..Refusal::unavailable(RETRY_AFTER_S)
    }
}

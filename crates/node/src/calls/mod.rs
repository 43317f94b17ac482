//! The calls of a worker: their sessions, when their dialogs begin and end, and what becomes of
//! dialogs that are silent.
//!
//! [`Calls`] alone counts open calls on servers. What requests a call has open is the business of
//! [`Work`](crate::work::Work), which hangs them on the session.

mod dialogs;
mod lengths;
mod moved;
mod recheck;
pub(crate) mod session;
mod sessions;

use std::time::Duration;

use balance::ServerId;
use sip::Method;
use slots::Wheel;
use transaction::Flow;

use self::{dialogs::DialogId, lengths::CallLengths, moved::Moved, sessions::Sessions};
pub(crate) use self::{
    dialogs::tag_pair,
    session::{Life, Reason, Session, SessionId},
};
use crate::{
    admission::NotNow,
    context::Context,
    io::Outbox,
    member::Member,
    stats::{Dropped, Event},
    wire::{
        keys::{SessionKey, tag_hash},
        request::Request,
        response::Response,
        token::{Affinity, Client, Direction, Starter},
    },
};

/// Re-checks without an answer after which a dialog is taken for gone.
const CHECKS_MAX: u8 = 4;
/// RFC 6665 §4.2.1 leaves a missing Expires to the event; an hour is the usual value.
const SUBSCRIPTION_S: u32 = 3600;
/// Nobody may ask for more than a week.
const INTERVAL_MAX_S: u32 = 7 * 24 * 3600;
/// Sessions note times in milliseconds.
const EXPIRY_GRAIN: Duration = Duration::from_millis(1);

/// The calls that a worker owns.
#[derive(Debug)]
pub(crate) struct Calls {
    sessions: Sessions,
    timers: Wheel<Session>,
    lengths: CallLengths,
    pub(crate) moved: Moved,
}

impl Calls {
    pub(crate) fn new(limit: usize, now: Duration) -> Self {
        Self {
            sessions: Sessions::new(limit),
            timers: Wheel::new(limit, now),
            lengths: CallLengths::default(),
            moved: Moved::default(),
        }
    }

    /// Sessions that are alive, and those that are kept for strays.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        (self.sessions.active(), self.sessions.expired())
    }

    pub(crate) fn find(&self, key: SessionKey) -> Option<SessionId> {
        self.sessions.find(key)
    }

    pub(crate) fn get(&self, entry: SessionId) -> &Session {
        self.sessions.get(entry)
    }

    pub(crate) fn get_mut(&mut self, entry: SessionId) -> &mut Session {
        self.sessions.get_mut(entry)
    }

    /// Every session, alive or expired.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Session> {
        self.sessions.iter()
    }

    /// The server of the session with this key.
    pub(crate) fn server_of(&self, key: SessionKey) -> Option<ServerId> {
        Some(self.get(self.find(key)?).server)
    }

    pub(crate) fn has_dialog_of(&self, entry: SessionId, tags: u32) -> bool {
        self.sessions.has_dialog_of(entry, tags)
    }

    /// The ACK of a 2xx has come.
    pub(crate) fn acknowledge(&mut self, entry: SessionId, tags: u32) {
        self.sessions.set_acknowledged(entry, tags, true);
    }

    /// Whether a session may begin: there is room, or an expired one that may go.
    pub(crate) fn room(&self) -> Result<(), NotNow> {
        if self.sessions.is_full() && self.sessions.expired() == 0 {
            return Err(NotNow::SessionsFull);
        }
        Ok(())
    }

    /// Begins the session of a request; a previous, expired one of the same name goes.
    ///
    /// # Errors
    /// There is no room.
    pub(crate) fn begin(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        server: ServerId,
        reason: Reason,
    ) -> Result<SessionId, NotNow> {
        if let Some(entry) = self.sessions.find(request.key) {
            debug_assert_eq!(self.get(entry).life, Life::Expired);
            self.sessions.forget(entry);
        }
        if self.sessions.is_full() {
            self.room()?;
            self.sessions.forget_oldest();
            cx.stats.count(Event::ExpiredEarly, 1);
        }
        let entry = self.sessions.insert(cx.now, request.key, server, reason);
        let session = self.sessions.get_mut(entry);
        session.starter_tag = tag_hash(request.from_tag);
        session.is_call = request.method == Method::Invite;
        session.client = request.client(cx.snapshot).into();
        Ok(entry)
    }

    /// Begins the session of a request that a server sends to somebody outside, and counts its call.
    ///
    /// # Errors
    /// There is no room.
    pub(crate) fn originate(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        member: &Member,
        next_hop: Flow,
    ) -> Result<SessionId, NotNow> {
        let entry = self.begin(cx, request, member.server.id(), Reason::Originated)?;
        let session = self.sessions.get_mut(entry);
        session.from_server = true;
        session.client = request.called_client(next_hop).into();
        if session.is_call {
            member.server.open_call();
        }
        Ok(entry)
    }

    /// Builds the session of a dialog that another node, or this one before it was restarted, let
    /// through. Without room for it the request passes all the same.
    pub(crate) fn rebuild(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        affinity: Affinity,
        server: ServerId,
    ) -> Option<SessionId> {
        let Affinity {
            direction, client, ..
        } = affinity;
        let begun = self.begin(cx, request, server, Reason::Token);
        if begun == Err(NotNow::SessionsFull) {
            cx.stats.count(Event::SessionsFull, 1);
        }
        let entry = begun.ok()?;
        cx.stats.count(Event::Rebuilt, 1);
        let is_call = !matches!(request.method, Method::Subscribe | Method::Notify);
        let session = self.sessions.get_mut(entry);
        session.is_call = is_call;
        session.client = client.into();
        session.from_server = affinity.starter == Starter::Server;
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
        self.add_dialog(
            cx,
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

    /// Builds the session of an INVITE that is not known, from its final response. If it is accepted its
    /// call counts from now on; if not, its ACK has to find the server that waits for it. What comes
    /// again of it is no new call.
    pub(crate) fn rebuild_answered(
        &mut self,
        cx: Context<'_>,
        response: &Response<'_>,
        member: &Member,
        affinity: Option<Affinity>,
        attempt: u8,
    ) {
        if self.sessions.is_full() && !self.sessions.forget_oldest() {
            return;
        }
        let server = member.server.id();
        let entry = self
            .sessions
            .insert(cx.now, response.key, server, Reason::Answered);
        let session = self.sessions.get_mut(entry);
        session.starter_tag = tag_hash(response.from_tag);
        let direction = affinity.map_or(Direction::ToServer, |affinity| affinity.direction);
        session.from_server = direction == Direction::FromServer;
        if let Some(Affinity { client, .. }) = affinity {
            session.client = client.into();
        }
        session.begin(response.branch.id);
        session.set_attempt(response.branch.id, attempt);
        session.cseq_next[direction as usize] = response.cseq.number.saturating_add(1);
        if response.is_success() {
            cx.stats.count(Event::Rebuilt, 1);
            session.is_call = true;
            member.server.open_call();
            self.follow(cx, entry, response);
        }
        self.settle(cx, entry);
    }

    /// A request of a session goes on. An expired session whose peer goes on, such as with
    /// credentials after a challenge, counts again; a session that was none becomes a call with an
    /// INVITE.
    pub(crate) fn go_on(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        direction: Direction,
        entry: SessionId,
    ) {
        let next = &mut self.sessions.get_mut(entry).cseq_next[direction as usize];
        *next = (*next).max(request.cseq.number.saturating_add(1));
        let is_over = self.get(entry).life == Life::Expired;
        if is_over {
            self.sessions.revive(cx.now, entry);
        }
        let session = self.sessions.get_mut(entry);
        let begins = request.method == Method::Invite && !session.is_call;
        if begins || (is_over && session.is_call) {
            let member = cx.snapshot.member(session.server);
            session.is_call = member.is_some();
            if let Some(member) = member {
                member.server.open_call();
            }
        }
        session.seen(cx.now);
        if request.is_initial() {
            session.begin(request.id);
        }
    }

    /// A server has accepted a request of its client's within the dialog: where that request came from, the
    /// client is now. A NAT may have given it another port, and nobody else's request is accepted.
    pub(crate) fn move_client(&mut self, entry: SessionId, response: &Response<'_>) {
        let session = self.sessions.get_mut(entry);
        if let Some(client) = session.client.get()
            && let Some(flow) = response.return_flow()
        {
            session.client = Client { flow, ..client }.into();
        }
    }

    /// What a final response says of its dialog.
    pub(crate) fn follow(&mut self, cx: Context<'_>, entry: SessionId, response: &Response<'_>) {
        let session = self.get(entry);
        if session.life == Life::Expired || !concerns(session.is_call, response.cseq.method) {
            return;
        }
        if response.is_success() {
            if matches!(
                response.cseq.method,
                Method::Invite | Method::Subscribe | Method::Refer
            ) {
                self.begin_dialog(cx, entry, response);
            }
            self.refresh(cx, entry, response);
        } else if matches!(response.status, 408 | 481) {
            // RFC 3261 §12.2.1.2: these end the dialog for whoever gets them.
            self.end_dialog(cx, entry, tag_pair(response.from_tag, response.to_tag));
        }
    }

    fn begin_dialog(&mut self, cx: Context<'_>, entry: SessionId, response: &Response<'_>) {
        let Response {
            call_id,
            from_tag,
            to_tag,
            ..
        } = *response;
        let (client_tag, server_tag) = if self.get(entry).from_server {
            (to_tag, from_tag)
        } else {
            (from_tag, to_tag)
        };
        let own = self.get(entry).server;
        let member = cx.snapshot.member_of_or(Some(own), response.flow);
        let server = member.map_or(own, |member| member.server.id());
        self.add_dialog(
            cx,
            entry,
            DialogId {
                server,
                // Of a server that is none of ours, such as one taken out, nothing can be asked.
                call_id: member.map_or(&[], |_| call_id),
                client_tag,
                server_tag,
            },
        );
        if response.cseq.method == Method::Invite {
            let tags = tag_pair(from_tag, to_tag);
            self.sessions.set_acknowledged(entry, tags, false);
        }
    }

    fn add_dialog(&mut self, cx: Context<'_>, entry: SessionId, id: DialogId<'_>) {
        if !self.sessions.add_dialog(entry, id) {
            cx.stats.count(Event::DialogsFull, 1);
        }
    }

    /// Session-Expires (RFC 4028) and Expires (RFC 6665) say how long silence may last.
    fn refresh(&mut self, cx: Context<'_>, entry: SessionId, response: &Response<'_>) {
        let message = response.message;
        let interval = match response.cseq.method {
            Method::Invite | Method::Update => message.session_expires().unwrap_or(0),
            Method::Subscribe | Method::Refer => message.expires().unwrap_or(SUBSCRIPTION_S).max(1),
            _ => return,
        };
        let session = self.sessions.get_mut(entry);
        session.interval_s = interval.min(INTERVAL_MAX_S);
        session.seen(cx.now);
        if self.sessions.has_dialog(entry) {
            self.watch(cx, entry);
        }
    }

    /// A dialog is over, and a call that it was has its length.
    pub(crate) fn end_dialog(&mut self, cx: Context<'_>, entry: SessionId, tags: u32) {
        if self.sessions.remove_dialog(entry, tags) && self.get(entry).is_call {
            self.lengths.record(self.get(entry).age(cx.now));
        }
    }

    /// A dialog is over by a failure: how long it would have lasted is not known.
    pub(crate) fn drop_dialog(&mut self, entry: SessionId, tags: u32) {
        self.sessions.remove_dialog(entry, tags);
    }

    /// Takes a session's call off its server, which need not be that of each of its requests.
    pub(crate) fn uncount(&self, cx: Context<'_>, entry: SessionId) {
        let session = self.get(entry);
        if session.is_call
            && let Some(member) = cx.snapshot.member(session.server)
        {
            member.server.close_call();
        }
    }

    /// Leads a session to a server that was chosen anew, and where its call is counted already.
    pub(crate) fn fail_over(&mut self, cx: Context<'_>, entry: SessionId, to: &Member) {
        self.uncount(cx, entry);
        let session = self.sessions.get_mut(entry);
        (session.server, session.reason) = (to.server.id(), Reason::FailedOver);
    }

    /// Counts a session's call on another server from here on.
    pub(crate) fn move_to(&mut self, cx: Context<'_>, entry: SessionId, to: &Member) {
        self.uncount(cx, entry);
        let session = self.sessions.get_mut(entry);
        session.server = to.server.id();
        if session.is_call {
            to.server.open_call();
        }
    }

    /// After the last open request and the last dialog of a session, it is over. With dialogs at
    /// another server only, its call is counted there.
    pub(crate) fn settle(&mut self, cx: Context<'_>, entry: SessionId) {
        let session = self.get(entry);
        if session.life == Life::Expired || session.requests.is_some() {
            return;
        }
        match self.sessions.server_of_dialogs(entry) {
            Some(server) if server == session.server => {}
            Some(server) => {
                if let Some(member) = cx.snapshot.member(server) {
                    self.move_to(cx, entry, member);
                    self.sessions.get_mut(entry).move_to_dialog();
                }
            }
            None => {
                self.uncount(cx, entry);
                self.timers.disarm(entry);
                self.sessions.expire(cx.now, entry);
            }
        }
    }
}

/// Silent dialogs.
impl Calls {
    /// When [`Self::on_timers`] wants to be called next.
    pub(crate) fn deadline(&self, now: Duration, transaction_max: Duration) -> Option<Duration> {
        let expiry = self.sessions.oldest_expiry(now);
        let forgotten = expiry.map(|at| at + transaction_max + EXPIRY_GRAIN);
        [self.timers.deadline(), forgotten]
            .into_iter()
            .flatten()
            .min()
    }

    /// Sessions that were silent long enough to be doubted, and expired ones to be forgotten.
    pub(crate) fn on_timers(&mut self, cx: Context<'_>, out: &mut Outbox) {
        while let Some(entry) = self.timers.pop(cx.now) {
            self.doubt(cx, entry, out);
        }
        let before = cx.now.saturating_sub(cx.snapshot.transaction_max());
        while self.sessions.forget_expired(before) {}
    }

    /// Arms the timer of a session with a dialog.
    fn watch(&mut self, cx: Context<'_>, entry: SessionId) {
        let wait = self.silence_max(cx, entry);
        self.timers.arm(entry, cx.now + wait);
    }

    /// How long a session's dialogs may be silent.
    fn silence_max(&self, cx: Context<'_>, entry: SessionId) -> Duration {
        let call_max = cx.snapshot.config().timers.call_max;
        if self.sessions.unacknowledged(entry).is_some() {
            return cx.snapshot.transaction_max();
        }
        match self.get(entry).interval_s {
            0 if self.sessions.dialog(entry).is_none() => call_max,
            0 => self.lengths.bound().min(call_max),
            seconds => Duration::from_secs(seconds.into()) + cx.snapshot.transaction_max(),
        }
    }

    fn doubt(&mut self, cx: Context<'_>, entry: SessionId, out: &mut Outbox) {
        let session = self.get(entry);
        let (checks, silence) = (session.checks, session.silence(cx.now));
        let silence_max = self.silence_max(cx, entry);
        if silence < silence_max {
            self.timers.arm(entry, cx.now + (silence_max - silence));
            return;
        }
        if self.sessions.unacknowledged(entry).is_some() {
            return self.give_up_unacknowledged(cx, entry);
        }
        let can_ask = self.get(entry).interval_s == 0 && self.sessions.dialog(entry).is_some();
        if can_ask && checks < CHECKS_MAX {
            self.ask(cx, entry, out);
            let patience = cx.snapshot.transaction_max() / 4;
            self.timers.arm(entry, cx.now + patience);
        } else {
            self.leak(cx, entry);
        }
    }

    fn ask(&mut self, cx: Context<'_>, entry: SessionId, out: &mut Outbox) {
        let session = self.sessions.get_mut(entry);
        session.checks += 1;
        let number = session.checks;
        cx.stats.count(Event::Rechecked, 1);
        if let Some(dialog) = self.sessions.dialog(entry) {
            recheck::ask(cx, dialog, number, out);
        }
    }

    /// Only the server that was asked may answer: anybody can write a response with our Via.
    pub(crate) fn on_recheck_answer(
        &mut self,
        cx: Context<'_>,
        session: Option<SessionId>,
        response: &Response<'_>,
    ) {
        let tags = tag_pair(response.from_tag, response.to_tag);
        let asked = session.filter(|&entry| {
            let server = self.sessions.server_of_dialog(entry, tags);
            let from = cx.snapshot.member_of_or(server, response.flow);
            self.get(entry).checks > 0
                && server.is_some()
                && from.map(|from| from.server.id()) == server
        });
        let Some(entry) = asked else {
            return cx.stats.drop_one(Dropped::StaleProbe);
        };
        if !response.is_final() {
            return;
        }
        self.sessions.get_mut(entry).seen(cx.now);
        if response.status == 481 {
            self.give_up(cx, entry, tags);
        } else {
            self.watch(cx, entry);
        }
    }

    /// Dialogs whose 2xx got no ACK for 64*T1 are over: they make no call. RFC 3261 §13.3.1.4
    fn give_up_unacknowledged(&mut self, cx: Context<'_>, entry: SessionId) {
        while let Some(tags) = self.sessions.unacknowledged(entry) {
            cx.stats.count(Event::Leaked, 1);
            self.sessions.remove_dialog(entry, tags);
        }
        self.go_on_without(cx, entry);
    }

    /// A dialog is over without a BYE: its server doesn't know it.
    fn give_up(&mut self, cx: Context<'_>, entry: SessionId, tags: u32) {
        cx.stats.count(Event::Leaked, 1);
        self.sessions.remove_dialog(entry, tags);
        self.go_on_without(cx, entry);
    }

    /// A session has lost dialogs: it is over if these were all.
    fn go_on_without(&mut self, cx: Context<'_>, entry: SessionId) {
        if self.sessions.has_dialog(entry) {
            self.watch(cx, entry);
        }
        self.settle(cx, entry);
    }

    /// A dialog that nobody ended is over.
    fn leak(&mut self, cx: Context<'_>, entry: SessionId) {
        cx.stats.count(Event::Leaked, 1);
        self.sessions.drop_dialogs(entry);
        self.settle(cx, entry);
    }
}

/// Whether a method is of a call, else of a subscription: a dialog may serve both, and one must
/// not be taken for the other. RFC 5057 §4. What becomes of a CANCEL or PRACK says nothing of it.
fn concerns(is_call: bool, method: Method<'_>) -> bool {
    match method {
        Method::Subscribe | Method::Notify | Method::Refer => !is_call,
        Method::Cancel | Method::Prack => false,
        _ => is_call,
    }
}

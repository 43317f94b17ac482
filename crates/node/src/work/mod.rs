//! The open work: requests that servers have and that wait for their answers.
//!
//! [`Work`] alone opens and closes requests in the ledger, chooses servers, and takes a request from
//! one server to another. Both senders of the [proxy](crate::proxy) stand on it. It owns the
//! [`Calls`], whose sessions list their open requests.

mod anew;
mod course;
mod learn;
pub(crate) mod open;
mod place;
mod room;

use std::{mem, time::Duration};

use balance::{Cost, Health, ServerId};
use fastrand::Rng;
use sip::Method;
use slots::{Buffers, Id, Slab, Table};

use self::open::OPEN_MAX;
pub(crate) use self::{
    course::Course,
    learn::Learner,
    open::{ATTEMPTS_MAX, Holder, Kind, Offer, OpenId, OpenRequest, Progress},
    place::Behind,
};
use crate::{
    admission::NotNow,
    calls::{Calls, SessionId, tag_pair},
    config::Limits,
    context::Context,
    control,
    decisions::Decisions,
    health,
    member::Member,
    snapshot::PoolView,
    stats::{Event, MethodLabel},
    wire::{
        kept::{KeptRequest, copies_of},
        request::Request,
        response::Response,
        token::Direction,
    },
};

/// The open requests of a worker's calls.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) calls: Calls,
    pub(crate) decisions: Decisions,
    requests: Table<OpenRequest>,
    retained: Slab<KeptRequest>,
    copies: Buffers,
    /// Servers that a request may not go to; memory that is used again.
    avoided: Vec<ServerId>,
    /// Of calls that came from no neighbour who is told how much to send.
    behind: Behind,
    /// Servers that have not read what was sent to them.
    backed_up: Vec<ServerId>,
    /// How long what is read now has waited for it, at most.
    late: Duration,
    /// Breaks ties between servers.
    rng: Rng,
}

impl Work {
    /// `share` divides a limit among the workers.
    pub(crate) fn new(
        limits: &Limits,
        share: impl Fn(usize) -> usize,
        rng: Rng,
        now: Duration,
    ) -> Self {
        let retained = share(limits.retained_requests);
        Self {
            calls: Calls::new(share(limits.sessions), now),
            decisions: Decisions::default(),
            requests: Table::new(share(limits.transactions), now),
            retained: Slab::new(retained),
            copies: copies_of(retained, limits.message_bytes),
            avoided: Vec::new(),
            behind: Behind::default(),
            backed_up: Vec::new(),
            late: Duration::ZERO,
            rng,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Memory that INVITEs take which may go elsewhere, in bytes.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.copies.kept_bytes()
    }

    /// Whether a request may be opened.
    fn has_room(&self) -> bool {
        self.requests.has_room(1)
    }

    /// Whether a request of a session may be opened.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn room_in(&self, session: SessionId) -> Result<(), NotNow> {
        if self.of_session(session).nth(OPEN_MAX - 1).is_some() {
            return Err(NotNow::SessionBusy);
        }
        if self.has_room() {
            Ok(())
        } else {
            Err(NotNow::TransactionsFull)
        }
    }

    /// Whether a session with an open request may begin.
    pub(crate) fn room(&self) -> Result<(), NotNow> {
        if !self.has_room() {
            return Err(NotNow::TransactionsFull);
        }
        self.calls.room()
    }

    pub(crate) fn get(&self, open: OpenId) -> &OpenRequest {
        self.requests.get(open)
    }

    pub(crate) fn get_mut(&mut self, open: OpenId) -> &mut OpenRequest {
        self.requests.get_mut(open)
    }

    /// Every open request.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (OpenId, &OpenRequest)> {
        self.requests.iter()
    }

    /// A session's open requests.
    pub(crate) fn of_session(&self, session: SessionId) -> impl Iterator<Item = OpenId> {
        let first = self.calls.get(session).requests;
        std::iter::successors(first, |&open| self.get(open).next)
    }

    /// A session's open request with this identity, unless the stateful proxy has it.
    pub(crate) fn find(&self, session: SessionId, id: u64, is_cancel: bool) -> Option<OpenId> {
        self.of_session(session).find(|&open| {
            let request = self.get(open);
            let is_its = request.id == id && (request.kind == Kind::Cancel) == is_cancel;
            is_its && request.holder == Holder::Stateless
        })
    }

    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.requests.deadline()
    }

    pub(crate) fn pop_due(&mut self, now: Duration) -> Option<OpenId> {
        self.requests.pop_due(now)
    }

    pub(crate) fn arm(&mut self, open: OpenId, at: Duration) {
        self.requests.arm(open, at);
    }

    /// Whether a request that is not open is new; else it is a late retransmission.
    /// Forked dialogs number their requests each for itself, RFC 3261 §12.2.1.1: one that ends a
    /// dialog is new while there is that dialog.
    pub(crate) fn is_new(
        &self,
        request: &Request<'_>,
        direction: Direction,
        session: SessionId,
    ) -> bool {
        request.cseq.number >= self.calls.get(session).cseq_next[direction as usize]
            || self
                .ended_dialog(request, session)
                .is_some_and(|tags| self.calls.has_dialog_of(session, tags))
    }

    /// The tags of the dialog that is over when the request is answered. The last NOTIFY of a
    /// transfer does not end the call whose dialog it shares. RFC 3515 §2.4.4
    fn ended_dialog(&self, request: &Request<'_>, session: SessionId) -> Option<u32> {
        let shares = self.calls.get(session).is_call && request.method == Method::Notify;
        let tags = || tag_pair(request.from_tag, request.to_tag.unwrap_or_default());
        (request.ends_dialog() && !shares).then(tags)
    }
}

/// Opening and closing.
impl Work {
    /// Opens a request in the ledger and in its session; there is room. The ledger has it already if
    /// its server was chosen just now.
    pub(crate) fn open(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        course: &Course,
        session: SessionId,
        holder: Holder,
    ) -> OpenId {
        let member = course.server.and_then(|server| cx.snapshot.member(server));
        let pool = member.and_then(|member| cx.snapshot.pool_of(member));
        let cost = member.map_or(Cost::ONE, |member| cx.snapshot.cost(member, request.method));
        let is_charged = course.direction == Direction::ToServer && member.is_some();
        if let Some(member) = member.filter(|_| is_charged && !course.is_placed) {
            member.server.open_transaction(cost);
        }
        let (waits, met_idle) = match member {
            Some(member) if is_charged => begin_service(member, pool),
            _ => (false, false),
        };
        let mut tried = [ServerId(u16::MAX); ATTEMPTS_MAX];
        tried[0] = course.server.unwrap_or(tried[0]);
        let kind = Kind::of(request.method);
        let is_initial = request.is_initial() && kind != Kind::Cancel && is_charged;
        let mut opened = OpenRequest {
            id: request.id,
            sent_at: cx.now,
            began_at: cx.now,
            session,
            before: None,
            next: self.calls.get(session).requests,
            retained: None,
            cost,
            tried,
            attempt: 0,
            kind,
            label: MethodLabel::from(request.method),
            progress: Progress::Unanswered,
            ends_dialog: self.ended_dialog(request, session),
            is_charged,
            is_initial,
            begins_call: request.is_initial() && kind == Kind::Invite,
            holder,
            is_cancelled: false,
            waits,
            met_idle,
            offer: Offer::No,
            wait: None,
            mark: None,
            is_unchecked: request.is_unchecked(),
        };
        if let Some(member) = member.filter(|_| is_initial) {
            opened.enters(cx.now, member);
        }
        let next = opened.next;
        let open = self.requests.insert(opened).expect("there is room");
        self.calls.get_mut(session).requests = Some(open);
        if let Some(next) = next {
            self.get_mut(next).before = Some(open);
        }
        if holder == Holder::Stateless {
            self.wait(cx, request, pool, open);
        }
        open
    }

    /// Arms the timer of a request that no transaction watches, and keeps an INVITE that may go
    /// elsewhere until its final response.
    fn wait(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        pool: Option<&PoolView>,
        open: OpenId,
    ) {
        let may_move = self.get(open).is_initial && self.get(open).kind == Kind::Invite;
        if may_move {
            let kept = KeptRequest::new(request, &mut self.copies);
            let retained = kept.and_then(|kept| self.retain(kept));
            if retained.is_none() {
                cx.stats.count(Event::RetainedFull, 1);
            }
            self.get_mut(open).retained = retained;
        }
        let pool = pool.filter(|_| may_move);
        let wait = pool.map(|pool| pool.config().answer_timeout);
        let wait = wait.unwrap_or_else(|| cx.snapshot.transaction_max());
        self.arm(open, cx.now + wait);
    }

    /// Works with the request that is kept for an open one. None: there is none.
    pub(crate) fn with_retained<T>(
        &mut self,
        cx: Context<'_>,
        open: OpenId,
        work: impl FnOnce(&mut Self, &Request<'_>) -> T,
    ) -> Option<T> {
        let place = self.get_mut(open).retained.take()?;
        let kept = self.retained.remove(place);
        let result = kept.read(cx.snapshot, |request| work(self, request));
        self.get_mut(open).retained = self.retain(kept);
        result
    }

    /// Keeps a copy; without room it gives its memory back.
    fn retain(&mut self, kept: KeptRequest) -> Option<Id<KeptRequest>> {
        if self.retained.has_room(1) {
            return self.retained.insert(kept);
        }
        self.copies.release(kept.bytes);
        None
    }

    /// Gives an open request to the stateful proxy, which keeps its time and its copy itself.
    pub(crate) fn hand_over(&mut self, open: OpenId) {
        self.forget_retained(open);
        self.requests.disarm(open);
        self.get_mut(open).holder = Holder::Stateful;
    }

    fn forget_retained(&mut self, open: OpenId) {
        if let Some(place) = self.get_mut(open).retained.take() {
            let kept = self.retained.remove(place);
            self.copies.release(kept.bytes);
        }
    }

    /// An INVITE that is cancelled goes nowhere else, and has 64*T1 to end. RFC 3261 §9.1
    pub(crate) fn cancel(&mut self, cx: Context<'_>, invite: OpenId) {
        self.get_mut(invite).is_cancelled = true;
        self.forget_retained(invite);
        self.arm(invite, cx.transaction_end());
    }

    /// Takes an open request off the ledger. It stays open for its responses.
    pub(crate) fn discharge(&mut self, cx: Context<'_>, open: OpenId) {
        self.end_service(cx, open, None);
        let request = self.requests.get_mut(open);
        if let Some(member) = cx.snapshot.member(request.server()) {
            request.leaves(member);
        }
        if mem::take(&mut request.is_charged)
            && let Some(member) = cx.snapshot.member(request.server())
        {
            member.server.close_transaction(request.cost);
        }
    }

    /// Closes an open request: off the ledger, off its session, forgotten.
    fn close(&mut self, cx: Context<'_>, open: OpenId) -> OpenRequest {
        self.discharge(cx, open);
        self.forget_retained(open);
        let closed = self.requests.remove(open);
        match closed.before {
            Some(before) => self.get_mut(before).next = closed.next,
            None => self.calls.get_mut(closed.session).requests = closed.next,
        }
        if let Some(next) = closed.next {
            self.get_mut(next).before = closed.before;
        }
        closed
    }

    /// Closes a request with its final response.
    pub(crate) fn complete(&mut self, cx: Context<'_>, open: OpenId, response: &Response<'_>) {
        if response.status == 503 {
            self.count_failed(cx, open);
        }
        let is_answer_to_client = response.is_success() && self.get(open).is_charged;
        self.count_outcome(cx, open, response.status);
        let closed = self.close(cx, open);
        if is_answer_to_client && !closed.is_initial {
            self.calls.move_client(closed.session, response);
        }
        self.calls.follow(cx, closed.session, response);
        if let Some(tags) = closed.ends_dialog {
            self.calls.end_dialog(cx, closed.session, tags);
        }
        self.calls.settle(cx, closed.session);
    }

    /// Counts what became of a call. Of what is held its response context tells that.
    pub(crate) fn count_outcome(&self, cx: Context<'_>, open: OpenId, status: u16) {
        let request = self.get(open);
        if request.begins_call && request.holder == Holder::Stateless {
            cx.count_outcome(status);
        }
    }

    /// Closes a request that has no final response.
    pub(crate) fn abandon(&mut self, cx: Context<'_>, open: OpenId) {
        let closed = self.close(cx, open);
        if let Some(tags) = closed.ends_dialog {
            self.calls.drop_dialog(closed.session, tags);
        }
        self.calls.settle(cx, closed.session);
    }
}

/// Choosing servers.
impl Work {
    /// Chooses another server for a request that starts over, after a challenge, when its server is
    /// down; also for one of a dialog, when that server is a node of the cluster, any of which knows
    /// where the dialog leads.
    pub(crate) fn leave_fallen_server(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        course: &mut Course,
        session: SessionId,
    ) {
        if course.is_placed || course.direction == Direction::FromServer {
            return;
        }
        let Some(old) = course.server.and_then(|server| cx.snapshot.member(server)) else {
            return;
        };
        let is_down = old.server.health() == Health::Down;
        let leaves = if request.is_initial() {
            is_down
        } else {
            (is_down || old.server.is_removed()) && request.is_for_cluster(cx.snapshot)
        };
        let Some(pool) = cx.snapshot.pool_of(old).filter(|_| leaves) else {
            return;
        };
        let is_call = self.calls.get(session).is_call;
        if let Ok(new) = self.place(cx, request, pool, is_call, &[old.server.id()]) {
            self.calls.fail_over(cx, session, new);
            let next_hop = request.flow_to_server(cx, new.address);
            (course.server, course.next_hop, course.is_placed) =
                (Some(new.server.id()), next_hop, true);
        }
    }

    /// Takes an open request from its server to another one of the pool that it was not at; what was
    /// counted moves with it, and the sender has to send it there. None: there is no other server.
    pub(crate) fn fail_over<'s>(
        &mut self,
        cx: Context<'s>,
        request: &Request<'_>,
        open: OpenId,
    ) -> Option<&'s Member> {
        let before = self.get(open).clone();
        let old = cx.snapshot.member(before.server())?;
        let pool = cx.snapshot.pool_of(old)?;
        if !before.has_attempts_left() {
            return None;
        }
        let is_call = self.calls.get(before.session).is_call;
        let tried = &before.tried[..=usize::from(before.attempt)];
        let new = self.place(cx, request, pool, is_call, tried).ok()?;
        cx.stats.count(Event::FailedOver, 1);
        self.discharge(cx, open);
        old.server.count_failed();
        self.calls.fail_over(cx, before.session, new);
        let moved = self.requests.get_mut(open);
        moved.attempt += 1;
        moved.tried[usize::from(moved.attempt)] = new.server.id();
        moved.progress = Progress::Unanswered;
        moved.is_charged = true;
        (moved.waits, moved.met_idle) = begin_service(new, Some(pool));
        // This server may choke on an offer, as the one before may have.
        let was_offered = before.offer != Offer::No;
        moved.offer = Offer::of(control::may_offer(cx, new, !was_offered));
        moved.enters(cx.now, new);
        self.wait_again(cx, open, pool);
        Some(new)
    }

    /// The requests that are counted on servers that are down.
    pub(crate) fn on_fallen_servers(&self, cx: Context<'_>) -> Vec<OpenId> {
        let is_fallen = |request: &OpenRequest| {
            let member = cx.snapshot.member(request.server());
            member.is_some_and(|member| member.server.health() == Health::Down)
        };
        let fallen =
            |(_, request): &(OpenId, &OpenRequest)| request.is_charged && is_fallen(request);
        self.iter().filter(fallen).map(|(open, _)| open).collect()
    }
}

/// What answers and silences tell of servers.
impl Work {
    /// The server that an open request counts on.
    pub(crate) fn charged_server<'s>(&self, cx: Context<'s>, open: OpenId) -> Option<&'s Member> {
        let request = self.get(open);
        let member = cx.snapshot.member(request.server())?;
        request.is_charged.then_some(member)
    }

    /// Counts a request that its server failed to serve.
    pub(crate) fn count_failed(&self, cx: Context<'_>, open: OpenId) {
        if let Some(member) = self.charged_server(cx, open) {
            member.server.count_failed();
        }
    }

    /// Holds a silence against the server.
    pub(crate) fn blame(&mut self, cx: Context<'_>, open: OpenId) {
        if let Some(member) = self.charged_server(cx, open) {
            health::on_silence(cx, member, self.get(open).sent_at);
            control::on_silence(cx, member, self.get(open));
            self.requests.get_mut(open).waits_in_vain(cx.now, member);
        }
    }

    /// No final response came in time.
    pub(crate) fn time_out(&mut self, cx: Context<'_>, open: OpenId) {
        let progress = self.get(open).progress;
        if progress == Progress::Unanswered {
            self.blame(cx, open);
        }
        if progress != Progress::Provisional {
            self.count_failed(cx, open);
        }
    }

    /// Leaves the server of a request alone as its 503 asks, if other calls have it, too. Whoever knows our branch can
    /// write a 503, so it has to come from there.
    pub(crate) fn back_off(&self, cx: Context<'_>, open: OpenId, response: &Response<'_>) {
        let member = cx.snapshot.member(self.get(open).server());
        if let Some(member) = member.filter(|member| member.is_at(response.flow)) {
            health::on_refusal(cx, member, response);
        }
    }

    /// RWMA and the histograms see the time to the first response: what comes later is the user's
    /// time, not the server's.
    pub(crate) fn note_response(&mut self, cx: Context<'_>, open: OpenId, response: &Response<'_>) {
        control::on_response(cx, self.requests.get_mut(open), response);
        let request = self.get(open);
        let after = cx.now.saturating_sub(request.sent_at);
        if let Some(member) = self.charged_server(cx, open) {
            health::on_answer(cx, member, response);
            if !request.is_answered() {
                member.server.first_response(cx.now, after);
                let times = &member.responses[request.label as usize];
                times.record(cx.now, after, response.call_id);
            }
            if response.is_success() {
                member.server.final_response(cx.now, after);
            }
        }
        if let Some(member) = self.charged_server(cx, open) {
            let request = self.requests.get_mut(open);
            request.is_served(cx.now, self.late, member, response);
        }
        // A 100 comes before the work, and a failure of the server instead of it.
        if self.get(open).waits && response.status > 100 {
            self.end_service(cx, open, (response.status < 500).then_some(after));
        }
    }

    /// The server has done its work for a request, in this time; none if that can't be told.
    fn end_service(&mut self, cx: Context<'_>, open: OpenId, time: Option<Duration>) {
        let request = self.requests.get_mut(open);
        if !mem::take(&mut request.waits) {
            return;
        }
        let Some(member) = cx.snapshot.member(request.server()) else {
            return;
        };
        member.service.end();
        if let Some(time) = time.filter(|_| request.met_idle) {
            member.service.record(request.label, time);
        }
    }
}

/// A request goes to a server. Returns whether its time is taken, and whether it met the server
/// idle.
fn begin_service(member: &Member, pool: Option<&PoolView>) -> (bool, bool) {
    if !pool.is_some_and(|pool| pool.config().learn_costs) {
        return (false, false);
    }
    let nothing_elsewhere = member.server.elsewhere().transactions == 0;
    (true, member.service.begin() && nothing_elsewhere)
}

//! Opening and closing transactions, and taking a request to another server.

use std::time::Duration;

use balance::{Health, ServerId};
use sip::{Message, Method};

use crate::{
    branch::{Branch, Purpose},
    io::{Datagram, Outbox},
    node::{Context, State},
    relay,
    request::{Refusal, Request},
    routing::Course,
    session::{NONE, Reason, State as Life, tag_pair},
    shared::Member,
    stats::{Event, MethodLabel},
    token::Direction,
    transaction::{ATTEMPTS_MAX, Kind, Progress, Transaction},
};

impl State {
    /// Forwards a request other than ACK and CANCEL, and opens its transaction unless it is a
    /// retransmission.
    pub(crate) fn transact(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        mut course: Course,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let Some(entry) = course.session else {
            self.forward(cx, request, &course, 0, out);
            return Ok(());
        };
        let first = self.sessions.get(entry).transactions;
        if let Some(open) = self.transactions.find(first, request.id, false) {
            cx.stats.count(Event::Retransmission, 1);
            self.send_again(cx, request, course, open, out);
            return Ok(());
        }
        if !self.is_new(request, &course, entry) {
            cx.stats.count(Event::Retransmission, 1);
            let attempt = self.attempt(course.session, request.id)?;
            self.forward(cx, request, &course, attempt, out);
            return Ok(());
        }
        let is_held = cx.snapshot.is_stateful(request, course.server);
        if self.transactions.is_full() || (is_held && !self.stateful.has_room()) {
            return self.pass_uncounted(cx, request, &course, out);
        }
        let next = &mut self.sessions.get_mut(entry).cseq_next[course.direction as usize];
        *next = (*next).max(request.cseq.number.saturating_add(1));
        self.revive(cx, request, entry);
        self.leave_fallen_server(cx, request, &mut course, entry);
        if is_held {
            self.hold(cx, request, &course, entry, out);
        } else {
            self.open(cx, request, &course, entry);
            self.forward(cx, request, &course, 0, out);
        }
        Ok(())
    }

    /// Without room for its transaction what starts something is refused, while what goes on or
    /// ends passes: a call that can't be ended would only fill the table for longer.
    fn pass_uncounted(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        course: &Course,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        cx.stats.count(Event::TransactionsFull, 1);
        if request.is_initial() {
            return Err(Refusal::unavailable(1));
        }
        cx.stats.count(Event::Uncounted, 1);
        self.forward(cx, request, course, 0, out);
        Ok(())
    }

    /// Forwards a CANCEL with the branch of its INVITE.
    pub(crate) fn transact_cancel(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        mut course: Course,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let entry = course.session.expect("the caller saw to it");
        let first = self.sessions.get(entry).transactions;
        let open = self.transactions.find(first, request.id, false);
        if let Some(invite) = open {
            if !self.transactions.get(invite).is_cancelled {
                self.cancel(cx, invite);
                if !self.transactions.is_full() {
                    self.open(cx, request, &course, entry);
                }
            }
            course.server = Some(self.transactions.get(invite).server());
        }
        let attempt = match open {
            Some(invite) => self.transactions.get(invite).attempt,
            None => self.attempt(course.session, request.id)?,
        };
        self.forward(cx, request, &course, attempt, out);
        Ok(())
    }

    /// An INVITE that is cancelled goes nowhere else, and has 64*T1 to end. RFC 3261 §9.1
    fn cancel(&mut self, cx: Context<'_>, invite: u32) {
        let transaction = self.transactions.get_mut(invite);
        transaction.is_cancelled = true;
        let retained = std::mem::replace(&mut transaction.retained, NONE);
        self.retained.release(retained);
        self.transaction_timers
            .arm(invite, cx.now + cx.snapshot.transaction_max());
    }

    /// Whether a request without an open transaction is new; else it is a late retransmission.
    /// Forked dialogs number their requests each for itself, RFC 3261 §12.2.1.1: one that ends a
    /// dialog is new while there is that dialog.
    fn is_new(&self, request: &Request<'_>, course: &Course, entry: u32) -> bool {
        request.cseq.number >= self.sessions.get(entry).cseq_next[course.direction as usize]
            || self
                .ended_dialog(request, entry)
                .is_some_and(|tags| self.sessions.has_dialog_of(entry, tags))
    }

    /// The tags of the dialog that is over when the request is answered. The last NOTIFY of a
    /// transfer does not end the call whose dialog it shares. RFC 3515 §2.4.4
    fn ended_dialog(&self, request: &Request<'_>, entry: u32) -> Option<u32> {
        let shares = self.sessions.get(entry).is_call && request.method == Method::Notify;
        let tags = || tag_pair(request.from_tag, request.to_tag.unwrap_or_default());
        (request.ends_dialog() && !shares).then(tags)
    }

    /// An expired session whose peer goes on, such as with credentials after a challenge, counts
    /// again; a session that was none becomes a call with an INVITE.
    fn revive(&mut self, cx: Context<'_>, request: &Request<'_>, entry: u32) {
        let is_over = self.sessions.get(entry).state == Life::Expired;
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

    /// A request that starts over, after a challenge, need not go to a server that is down; nor need one
    /// of a dialog if that server is a node of the cluster, any of which knows where it leads.
    fn leave_fallen_server(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        course: &mut Course,
        entry: u32,
    ) {
        if course.is_placed || course.direction == Direction::FromServer {
            return;
        }
        let Some(old) = course.server.and_then(|server| cx.snapshot.member(server)) else {
            return;
        };
        let is_down = old.server.health(cx.now) == Health::Down;
        let leaves = if request.is_initial() {
            is_down
        } else {
            (is_down || old.server.is_removed()) && request.is_for_cluster(cx.snapshot)
        };
        if !leaves {
            return;
        }
        let is_call = self.sessions.get(entry).is_call;
        let Some(pool) = cx.snapshot.pool_of(old) else {
            return;
        };
        let Some(new) = self.place(cx, request, pool, is_call, &[old.server.id()]) else {
            return;
        };
        self.uncount_call(cx, entry);
        let session = self.sessions.get_mut(entry);
        (session.server, session.reason) = (new.server.id(), Reason::FailedOver);
        (course.server, course.next_hop, course.is_placed) =
            (Some(new.server.id()), new.address, true);
    }

    /// Opens a transaction and waits for its answer.
    fn open(&mut self, cx: Context<'_>, request: &Request<'_>, course: &Course, entry: u32) {
        let open = self.record(cx, request, course, entry, false);
        let transaction = self.transactions.get(open);
        let may_move = transaction.is_initial && transaction.kind == Kind::Invite;
        let member = course.server.filter(|_| may_move);
        let member = member.and_then(|server| cx.snapshot.member(server));
        let pool = member.and_then(|member| cx.snapshot.pool_of(member));
        let wait = pool.map_or_else(
            || cx.snapshot.transaction_max(),
            |pool| pool.config().answer_timeout,
        );
        self.transaction_timers.arm(open, cx.now + wait);
    }

    /// Enters a transaction in the ledger and in its session. The ledger has it already if its
    /// request was placed just now. One that is held waits for nothing here.
    pub(crate) fn record(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        course: &Course,
        entry: u32,
        is_held: bool,
    ) -> u32 {
        let member = course.server.and_then(|server| cx.snapshot.member(server));
        let pool = member.and_then(|member| cx.snapshot.pool_of(member));
        let cost = pool.map_or(balance::Cost::ONE, |pool| pool.cost(request.method));
        let is_charged = course.direction == Direction::ToServer && member.is_some();
        if let Some(member) = member.filter(|_| is_charged && !course.is_placed) {
            member.server.open_transaction(cost);
        }
        let (waits, met_idle) = match member {
            Some(member) if is_charged => Self::begin_service(member, pool),
            _ => (false, false),
        };
        let mut tried = [ServerId(u16::MAX); ATTEMPTS_MAX];
        tried[0] = course.server.unwrap_or(tried[0]);
        let kind = match request.method {
            Method::Invite => Kind::Invite,
            Method::Cancel => Kind::Cancel,
            _ => Kind::Other,
        };
        let is_initial = request.is_initial() && kind != Kind::Cancel && is_charged && !is_held;
        let retained = if is_initial && kind == Kind::Invite {
            self.retain(cx, request)
        } else {
            NONE
        };
        let ends_dialog = self.ended_dialog(request, entry);
        let session = self.sessions.get_mut(entry);
        let transaction = self.transactions.insert(Transaction {
            id: request.id,
            sent_at: cx.now,
            began_at: cx.now,
            session: entry,
            next: session.transactions,
            retained,
            cost,
            tried,
            attempt: 0,
            kind,
            label: MethodLabel::from(request.method),
            progress: Progress::Unanswered,
            ends_dialog,
            is_charged,
            is_initial,
            is_held,
            is_cancelled: false,
            waits,
            met_idle,
        });
        session.transactions = transaction;
        transaction
    }

    /// Keeps a copy of a request until its final response.
    fn retain(&mut self, cx: Context<'_>, request: &Request<'_>) -> u32 {
        let Datagram { listener, from, .. } = request.datagram;
        let retained = self.retained.keep(listener, from, request.message.bytes());
        if retained == NONE {
            cx.stats.count(Event::RetainedFull, 1);
        }
        retained
    }

    /// A retransmission goes where the request went, or elsewhere when that server is silent.
    fn send_again(
        &mut self,
        cx: Context<'_>,
        request: &Request<'_>,
        mut course: Course,
        open: u32,
        out: &mut Outbox,
    ) {
        if course.direction == Direction::ToServer {
            if self.is_stuck(cx, request, open) {
                self.place_again(cx, request, open);
            }
            let server = self.transactions.get(open).server();
            if let Some(member) = cx.snapshot.member(server) {
                (course.server, course.next_hop) = (Some(server), member.address);
            }
        }
        let attempt = self.transactions.get(open).attempt;
        self.forward(cx, request, &course, attempt, out);
    }

    /// Whether a request may and should go to another server.
    fn is_stuck(&self, cx: Context<'_>, request: &Request<'_>, open: u32) -> bool {
        let transaction = self.transactions.get(open);
        let down = || {
            cx.snapshot
                .member(transaction.server())
                .is_none_or(|m| m.server.health(cx.now) == Health::Down)
        };
        if transaction.is_initial {
            transaction.may_move() && (transaction.progress == Progress::Overdue || down())
        } else {
            transaction.may_move_within_cluster() && down() && request.is_for_cluster(cx.snapshot)
        }
    }

    /// Places an unanswered request on another server; what was counted moves with it. False:
    /// there is none.
    fn place_again(&mut self, cx: Context<'_>, request: &Request<'_>, open: u32) -> bool {
        let transaction = self.transactions.get(open).clone();
        let entry = transaction.session;
        let old = cx.snapshot.member(transaction.server());
        let Some(pool) = old.and_then(|old| cx.snapshot.pool_of(old)) else {
            return false;
        };
        let is_call = self.sessions.get(entry).is_call;
        let tried = &transaction.tried[..=usize::from(transaction.attempt)];
        let Some(new) = self.place(cx, request, pool, is_call, tried) else {
            return false;
        };
        cx.stats.count(Event::FailedOver, 1);
        self.discharge(cx, open);
        if let Some(old) = old {
            old.server.count_failed();
        }
        self.uncount_call(cx, entry);
        let attempt = transaction.attempt + 1;
        let moved = self.transactions.get_mut(open);
        moved.tried[usize::from(attempt)] = new.server.id();
        moved.attempt = attempt;
        moved.progress = Progress::Unanswered;
        moved.is_charged = true;
        (moved.waits, moved.met_idle) = Self::begin_service(new, Some(pool));
        moved.sent_at = cx.now;
        let wait = if moved.kind == Kind::Invite {
            pool.config().answer_timeout
        } else {
            cx.snapshot.transaction_max()
        };
        self.transaction_timers.arm(open, cx.now + wait);
        let session = self.sessions.get_mut(entry);
        (session.server, session.reason) = (new.server.id(), Reason::FailedOver);
        session.set_attempt(transaction.id, attempt);
        true
    }

    /// Sends a retained request to another server with a new branch. False: it can't be.
    pub(crate) fn fail_over(&mut self, cx: Context<'_>, open: u32, out: &mut Outbox) -> bool {
        let send =
            |state: &mut Self, request: &Request<'_>| state.send_elsewhere(cx, open, request, out);
        self.transactions.get(open).may_move() && self.with_retained(cx, open, send) == Some(true)
    }

    fn send_elsewhere(
        &mut self,
        cx: Context<'_>,
        open: u32,
        request: &Request<'_>,
        out: &mut Outbox,
    ) -> bool {
        if !self.place_again(cx, request, open) {
            return false;
        }
        let transaction = self.transactions.get(open);
        let (server, attempt) = (transaction.server(), transaction.attempt);
        let Some(member) = cx.snapshot.member(server) else {
            return false;
        };
        let course = Course {
            direction: Direction::ToServer,
            server: Some(server),
            next_hop: member.address,
            session: Some(transaction.session),
            is_placed: true,
        };
        self.forward(cx, request, &course, attempt, out);
        true
    }

    /// Works with the request that is kept for a transaction. None: there is none.
    fn with_retained<T>(
        &mut self,
        cx: Context<'_>,
        open: u32,
        work: impl FnOnce(&mut Self, &Request<'_>) -> T,
    ) -> Option<T> {
        let place = self.transactions.get(open).retained;
        if place == NONE {
            return None;
        }
        let retained = self.retained.take(place);
        let datagram = retained.datagram();
        let message = Message::parse(datagram.bytes, cx.snapshot.config().limits.headers).ok();
        let read = |message| Request::read(cx.snapshot, datagram, message).ok();
        let result = message
            .as_ref()
            .and_then(read)
            .map(|request| work(self, &request));
        self.retained.put_back(place, retained);
        result
    }

    /// Takes a transaction off the ledger. It stays open for its responses.
    pub(crate) fn discharge(&mut self, cx: Context<'_>, open: u32) {
        self.end_service(cx, open, None);
        let transaction = self.transactions.get_mut(open);
        if std::mem::take(&mut transaction.is_charged)
            && let Some(member) = cx.snapshot.member(transaction.server())
        {
            member.server.close_transaction(transaction.cost);
        }
    }

    /// Closes a transaction: off the ledger, off its session, forgotten.
    pub(crate) fn close(&mut self, cx: Context<'_>, open: u32) -> Transaction {
        self.discharge(cx, open);
        self.transaction_timers.disarm(open);
        let closed = self.transactions.remove(open);
        self.retained.release(closed.retained);
        let session = self.sessions.get_mut(closed.session);
        if session.transactions == open {
            session.transactions = closed.next;
        } else {
            let mut before = session.transactions;
            while self.transactions.get(before).next != open {
                before = self.transactions.get(before).next;
            }
            self.transactions.get_mut(before).next = closed.next;
        }
        closed
    }

    /// Takes a session's call off its server, which need not be that of each of its transactions.
    pub(crate) fn uncount_call(&self, cx: Context<'_>, entry: u32) {
        let session = self.sessions.get(entry);
        if session.is_call
            && let Some(member) = cx.snapshot.member(session.server)
        {
            member.server.close_call();
        }
    }

    /// Counts a session's call on another server from here on.
    pub(crate) fn move_call(&mut self, cx: Context<'_>, entry: u32, to: &Member) {
        self.uncount_call(cx, entry);
        let session = self.sessions.get_mut(entry);
        session.server = to.server.id();
        if session.is_call {
            to.server.open_call();
        }
    }

    /// After the last transaction and the last dialog of a session, it is over. With dialogs at
    /// another server only, its call is counted there.
    pub(crate) fn settle(&mut self, cx: Context<'_>, entry: u32) {
        let session = self.sessions.get(entry);
        if session.state == Life::Expired || session.transactions != NONE {
            return;
        }
        match self.sessions.server_of_dialogs(entry) {
            Some(server) if server == session.server => {}
            Some(server) => {
                if let Some(member) = cx.snapshot.member(server) {
                    self.move_call(cx, entry, member);
                    self.sessions.get_mut(entry).move_to_dialog();
                }
            }
            None => {
                self.uncount_call(cx, entry);
                self.session_timers.disarm(entry);
                self.sessions.expire(cx.now, entry);
            }
        }
    }

    /// Transactions whose time is over.
    pub(crate) fn on_transaction_timers(&mut self, cx: Context<'_>, out: &mut Outbox) {
        while let Some(open) = self.transaction_timers.pop(cx.now) {
            let began_at = self.transactions.get(open).began_at;
            let ends_at = began_at + cx.snapshot.transaction_max();
            let transaction = self.transactions.get(open);
            let waits = transaction.kind == Kind::Invite && !transaction.is_cancelled;
            if waits && !transaction.is_answered() && cx.now < ends_at {
                self.on_silence(cx, open, ends_at, out);
            } else if waits && transaction.is_answered() && transaction.retained != NONE {
                self.end_ringing(cx, open, out);
            } else {
                self.on_timeout(cx, open, out);
            }
        }
    }

    /// A server let an INVITE wait too long: it goes elsewhere, if there is an elsewhere.
    fn on_silence(&mut self, cx: Context<'_>, open: u32, ends_at: Duration, out: &mut Outbox) {
        self.blame(cx, open);
        if !self.fail_over(cx, open, out) {
            self.transactions.get_mut(open).progress = Progress::Overdue;
            self.transaction_timers.arm(open, ends_at);
        }
    }

    /// No final response came in time.
    fn on_timeout(&mut self, cx: Context<'_>, open: u32, out: &mut Outbox) {
        cx.stats.count(Event::TimedOut, 1);
        let progress = self.transactions.get(open).progress;
        if progress == Progress::Unanswered {
            self.blame(cx, open);
        }
        if progress != Progress::Provisional {
            self.count_failed(cx, open);
        }
        self.answer_timed_out(cx, open, out);
        let closed = self.close(cx, open);
        if let Some(tags) = closed.ends_dialog {
            self.sessions.remove_dialog(closed.session, tags);
        }
        self.settle(cx, closed.session);
    }

    /// An INVITE has rung until Timer C, or on a server that is down: the server is told to end it,
    /// RFC 3261 §16.8. Its 487 goes back; for a server that is down the caller is answered at once.
    fn end_ringing(&mut self, cx: Context<'_>, open: u32, out: &mut Outbox) {
        let transaction = self.transactions.get_mut(open);
        transaction.is_cancelled = true;
        let (server, purpose) = (transaction.server(), Purpose::Relay(transaction.attempt));
        let is_down = !transaction.is_charged;
        if let Some(member) = cx.snapshot.member(server) {
            self.with_retained(cx, open, |_, request| {
                let branch = Branch {
                    purpose,
                    listener: request.datagram.listener,
                    id: request.id,
                };
                let (uri, invite) = (request.path.uri, request.message);
                relay::cancel(cx.snapshot, branch, member.address, uri, invite, out);
            });
        }
        if is_down {
            cx.stats.count(Event::RangOnFallen, 1);
            self.on_timeout(cx, open, out);
        } else {
            cx.stats.count(Event::RangTooLong, 1);
            let ends_at = cx.now + cx.snapshot.transaction_max();
            self.transaction_timers.arm(open, ends_at);
        }
    }

    /// Whoever still waits for an answer to a request that we keep gets one. RFC 3261 §16.8
    fn answer_timed_out(&mut self, cx: Context<'_>, open: u32, out: &mut Outbox) {
        self.with_retained(cx, open, |_, request| {
            cx.stats.reply(408);
            let (datagram, message) = (&request.datagram, request.message);
            relay::reply(cx.snapshot, datagram, message, &Refusal::new(408), out);
        });
    }

    /// The server that a transaction counts on.
    pub(crate) fn charged_server<'s>(&self, cx: Context<'s>, open: u32) -> Option<&'s Member> {
        let transaction = self.transactions.get(open);
        let member = cx.snapshot.member(transaction.server())?;
        transaction.is_charged.then_some(member)
    }

    /// Counts a request that its server failed to serve.
    pub(crate) fn count_failed(&self, cx: Context<'_>, open: u32) {
        if let Some(member) = self.charged_server(cx, open) {
            member.server.count_failed();
        }
    }

    /// Counts a silence against the health of the server, unless its answer may have been lost here.
    pub(crate) fn blame(&self, cx: Context<'_>, open: u32) {
        if cx
            .shared
            .has_lost_since(self.transactions.get(open).sent_at)
        {
            return;
        }
        let Some(member) = self.charged_server(cx, open) else {
            return;
        };
        let fall = cx.snapshot.pool_of(member).map_or(1, |pool| pool.fall());
        if member.server.timed_out(cx.now, fall) {
            cx.shared.server_fell();
        }
    }

    /// What is open on servers that are down is closed in the ledger, and goes elsewhere if it can.
    pub(crate) fn leave_fallen_servers(&mut self, cx: Context<'_>, out: &mut Outbox) {
        let fallen = |id: ServerId| {
            cx.snapshot
                .member(id)
                .is_some_and(|m| m.server.health(cx.now) == Health::Down)
        };
        let transactions = self.transactions.iter();
        let lost: Vec<u32> = transactions
            .filter(|(_, t)| t.is_charged && fallen(t.server()))
            .map(|(open, _)| open)
            .collect();
        for open in lost {
            if self.fail_over(cx, open, out) {
                continue;
            }
            self.discharge(cx, open);
            let transaction = self.transactions.get(open);
            if transaction.is_answered() && !transaction.is_held {
                // A server that only stood still goes on to answer what rings there.
                let ends_at = cx.now + cx.snapshot.transaction_max() / 4;
                self.transaction_timers.arm(open, ends_at);
            }
        }
        self.leave_fallen_branches(cx, out);
    }
}

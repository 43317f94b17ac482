//! Responses: back along the Via stack, and off the ledger.

use std::{net::SocketAddr, time::Duration};

use sip::{CSeq, Fault, Message, Method, Uri, Via};

use crate::{
    branch::{Branch, Purpose},
    io::{Datagram, Outbox},
    node::{Context, State},
    orphans, relay,
    session::tag_pair,
    snapshot::Snapshot,
    stats::{Dropped, Event},
    token::{self, Affinity},
    transaction::{Kind, Progress},
};

/// No Retry-After keeps a server out for longer: what it knew then may have changed.
const BACK_OFF_MAX: Duration = Duration::from_secs(300);

/// A response whose topmost Via is ours.
#[derive(Debug)]
pub(crate) struct Response<'a> {
    pub(crate) message: &'a Message<'a>,
    /// Who sent it.
    pub(crate) from: SocketAddr,
    pub(crate) via: Via<'a>,
    pub(crate) status: u16,
    pub(crate) cseq: CSeq<'a>,
    pub(crate) call_id: &'a [u8],
    pub(crate) from_tag: &'a [u8],
    pub(crate) to_tag: &'a [u8],
    pub(crate) branch: Branch,
}

impl<'a> Response<'a> {
    /// None: the topmost Via isn't ours. RFC 3261 §18.1.2
    fn read(
        cx: Context<'_>,
        from: SocketAddr,
        message: &'a Message<'a>,
    ) -> Result<Option<Self>, Fault> {
        let sip::Essentials {
            via,
            from_tag,
            to_tag,
            call_id,
            cseq,
            ..
        } = message.essentials()?;
        let branch = via.branch.and_then(Branch::read);
        let branch = branch.filter(|branch| cx.snapshot.has_listener(branch.listener));
        let Some(branch) = branch.filter(|_| cx.snapshot.is_us(via.host, via.port)) else {
            return Ok(None);
        };
        Ok(Some(Self {
            from,
            via,
            status: message.status().ok_or(Fault::StartLine)?,
            cseq,
            call_id,
            from_tag: from_tag.unwrap_or_default(),
            to_tag: to_tag.unwrap_or_default(),
            branch,
            message,
        }))
    }

    /// The affinity in the Record-Route value that is ours, if a server gave it back.
    pub(crate) fn affinity(&self, snapshot: &Snapshot) -> Option<Affinity> {
        let routes = self.message.record_routes().map_while(Result::ok);
        let uris = routes.filter_map(|route| Uri::parse(route.uri).ok());
        let ours = uris.filter(|uri| snapshot.is_our_uri(uri));
        let (call_id, from_tag, to_tag) = (self.call_id, self.from_tag, self.to_tag);
        ours.filter_map(|uri| uri.user)
            .find_map(|text| token::read(snapshot.keys(), text, call_id, from_tag, to_tag))
    }

    pub(crate) fn is_final(&self) -> bool {
        self.status >= 200
    }

    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// What becomes of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Pass,
    /// Its request has gone elsewhere: the caller gets that answer.
    Supersede,
}

impl State {
    pub(crate) fn on_response(
        &mut self,
        cx: Context<'_>,
        datagram: Datagram<'_>,
        message: &Message<'_>,
        out: &mut Outbox,
    ) {
        let response = match Response::read(cx, datagram.from, message) {
            Ok(Some(response)) if !datagram.truncated => response,
            Ok(None) => return cx.stats.drop_one(Dropped::ForeignResponse),
            Ok(Some(_)) | Err(_) => return cx.stats.drop_one(Dropped::MalformedResponse),
        };
        let key = cx.snapshot.keys().session(response.call_id);
        let is_probe = response.branch.purpose == Purpose::Probe;
        let owner = if is_probe {
            0
        } else {
            key.worker(cx.shared.workers().len())
        };
        if owner != self.worker {
            return self.hand_over(cx, &datagram, owner, None, out);
        }
        if is_probe {
            return self.on_probe_answer(cx, &datagram, response.branch.id, &response);
        }
        let session = self.sessions.find(key);
        let attempt = match response.branch.purpose {
            Purpose::Relay(attempt) => attempt,
            Purpose::Held { number, .. } => {
                return self.on_held_response(cx, number, &response, out);
            }
            Purpose::Probe | Purpose::Recheck => {
                return self.on_recheck_answer(cx, session, &response);
            }
        };
        let fate = match session {
            Some(entry) => self.on_session_response(cx, entry, attempt, &response, out),
            None if orphans::is_of_a_copy(cx, &response) => {
                return cx.stats.drop_one(Dropped::OfACopy);
            }
            None => {
                self.on_orphaned_response(cx, attempt, &response);
                Fate::Pass
            }
        };
        match fate {
            Fate::Pass => self.pass_back(cx, &response, out),
            Fate::Supersede => {
                cx.stats.drop_one(Dropped::Superseded);
                if response.cseq.method == Method::Invite {
                    let (to, is_final) = (response.from, response.is_final());
                    let method = if is_final {
                        Method::Ack
                    } else {
                        Method::Cancel
                    };
                    relay::withdraw(cx.snapshot, method, response.branch, to, &response, out);
                }
            }
        }
    }

    /// Sends a response on to the Via below ours.
    fn pass_back(&mut self, cx: Context<'_>, response: &Response<'_>, out: &mut Outbox) {
        let via = response.message.via_below(&response.via);
        match via.and_then(|via| via.response_address()) {
            Some(to) => relay::response(
                &mut self.edits,
                response.message,
                &response.via,
                response.branch.listener,
                to,
                out,
            ),
            None => cx.stats.drop_one(Dropped::NoReturnPath),
        }
    }

    fn on_session_response(
        &mut self,
        cx: Context<'_>,
        entry: u32,
        attempt: u8,
        response: &Response<'_>,
        out: &mut Outbox,
    ) -> Fate {
        let first = self.sessions.get(entry).transactions;
        let is_cancel = response.cseq.method == Method::Cancel;
        let Some(open) = self.transactions.find(first, response.branch.id, is_cancel) else {
            return self.on_stray(cx, entry, attempt, response);
        };
        if !is_cancel && attempt != self.transactions.get(open).attempt {
            return self.on_late_answer(cx, open, attempt, response, out);
        }
        self.note_first_response(cx, open, response);
        self.note_service(cx, open, response);
        if !response.is_final() {
            self.on_provisional(cx, open);
            return Fate::Pass;
        }
        if response.status == 503 && self.on_unavailable(cx, open, response, out) {
            return Fate::Supersede;
        }
        self.on_final(cx, open, response);
        Fate::Pass
    }

    /// RWMA and the histograms see the time to the first response: what comes later is the user's
    /// time, not the server's.
    pub(crate) fn note_first_response(&self, cx: Context<'_>, open: u32, response: &Response<'_>) {
        let Some(member) = self.charged_server(cx, open) else {
            return;
        };
        let transaction = self.transactions.get(open);
        let after = cx.now.saturating_sub(transaction.sent_at);
        if !transaction.is_answered() {
            member.server.first_response(cx.now, after);
            member.responses[transaction.label as usize].record(after);
            if response.status != 503 {
                member.server.answered();
            }
        }
        if response.is_success() {
            member.server.final_response(cx.now, after);
        }
    }

    /// A 100 comes before the work, and a failure of the server instead of it.
    fn note_service(&mut self, cx: Context<'_>, open: u32, response: &Response<'_>) {
        let transaction = self.transactions.get(open);
        if transaction.waits && response.status > 100 {
            let time = cx.now.saturating_sub(transaction.sent_at);
            self.end_service(cx, open, (response.status < 500).then_some(time));
        }
    }

    fn on_provisional(&mut self, cx: Context<'_>, open: u32) {
        let transaction = self.transactions.get_mut(open);
        transaction.progress = Progress::Provisional;
        if transaction.kind == Kind::Invite && !transaction.is_cancelled {
            // RFC 3261 §16.7 step 2: a provisional response starts Timer C again; 100 does not.
            self.transaction_timers
                .arm(open, cx.now + cx.snapshot.config().timers.timer_c);
        }
    }

    /// A server that can't take a call now: it is left alone as long as it asks, and the request
    /// goes elsewhere. False: there is no elsewhere.
    fn on_unavailable(
        &mut self,
        cx: Context<'_>,
        open: u32,
        response: &Response<'_>,
        out: &mut Outbox,
    ) -> bool {
        let transaction = self.transactions.get(open);
        if !transaction.is_charged || !transaction.is_initial {
            return false;
        }
        self.back_off(cx, open, response);
        self.transactions.get_mut(open).progress = Progress::Unanswered;
        self.fail_over(cx, open, out)
    }

    /// Leaves the server of a transaction alone for as long as its 503 asks.
    pub(crate) fn back_off(&self, cx: Context<'_>, open: u32, response: &Response<'_>) {
        let server = self.transactions.get(open).server();
        if let Some(member) = cx.snapshot.member(server)
            && let Some(seconds) = response.message.retry_after()
        {
            let wish = Duration::from_secs(seconds.into());
            member.server.back_off(cx.now + wish.min(BACK_OFF_MAX));
        }
    }

    /// A server answers a request that was taken away from it. A 2xx still makes a call there, and
    /// ends the attempt elsewhere.
    fn on_late_answer(
        &mut self,
        cx: Context<'_>,
        open: u32,
        attempt: u8,
        response: &Response<'_>,
        out: &mut Outbox,
    ) -> Fate {
        if !response.is_success() {
            return Fate::Supersede;
        }
        self.cancel_present_server(cx, open, response, out);
        let transaction = self.transactions.get(open);
        let tried = transaction.tried.get(usize::from(attempt)).copied();
        let entry = transaction.session;
        if let Some(answering) = tried.and_then(|server| cx.snapshot.member(server)) {
            self.move_call(cx, entry, answering);
            let session = self.sessions.get_mut(entry);
            session.set_attempt(response.branch.id, attempt);
        }
        self.on_final(cx, open, response);
        Fate::Pass
    }

    /// RFC 3261 §16.7 step 10: after a 2xx the other branches of an INVITE are cancelled, but not
    /// before they have answered, RFC 3261 §9.1: that answer is a stray then.
    fn cancel_present_server(
        &self,
        cx: Context<'_>,
        open: u32,
        response: &Response<'_>,
        out: &mut Outbox,
    ) {
        let transaction = self.transactions.get(open);
        let Some(member) = cx.snapshot.member(transaction.server()) else {
            return;
        };
        if transaction.kind == Kind::Invite && transaction.is_answered() {
            let purpose = Purpose::Relay(transaction.attempt);
            let branch = Branch {
                purpose,
                ..response.branch
            };
            let to = member.address;
            relay::withdraw(cx.snapshot, Method::Cancel, branch, to, response, out);
        }
    }

    pub(crate) fn on_final(&mut self, cx: Context<'_>, open: u32, response: &Response<'_>) {
        if response.status == 503 {
            self.count_failed(cx, open);
        }
        let closed = self.close(cx, open);
        self.follow_dialog(cx, closed.session, response);
        if let Some(tags) = closed.ends_dialog {
            self.end_dialog(cx, closed.session, tags);
        }
        self.settle(cx, closed.session);
    }

    /// A response without an open transaction: a fork's, a retransmission, the failure of a server
    /// that the request was taken away from, or the end of a dialog whose BYE was not counted.
    fn on_stray(
        &mut self,
        cx: Context<'_>,
        entry: u32,
        attempt: u8,
        response: &Response<'_>,
    ) -> Fate {
        let is_success = response.is_success();
        if response.cseq.method == Method::Invite && is_success {
            self.follow_dialog(cx, entry, response);
        }
        if response.cseq.method == Method::Bye && response.is_final() {
            self.end_dialog(cx, entry, tag_pair(response.from_tag, response.to_tag));
            self.settle(cx, entry);
        }
        cx.stats.count(Event::Stray, 1);
        let session = self.sessions.get(entry);
        let was_taken =
            session.has_left(response.branch.id, attempt) && response.cseq.method != Method::Cancel;
        if was_taken && !is_success {
            Fate::Supersede
        } else {
            Fate::Pass
        }
    }
}

//! The dialogs of a session: when they begin and end, and what becomes of those that are silent.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use balance::ServerId;
use sip::Method;

use crate::{
    branch::{Branch, Purpose},
    io::Outbox,
    node::{Context, State},
    response::Response,
    session::{DialogId, State as Life, tag_pair},
    shared::Member,
    stats::{Dropped, Event},
};

/// A call is asked after when it is older than this quantile of the calls seen.
const QUANTILE: f64 = 0.99;
/// After so many calls each the quantile is taken anew.
const CALLS_KNOWN: u64 = 100;
const BOUND_UNKNOWN: Duration = Duration::from_secs(30 * 60);
const BOUND_MIN: Duration = Duration::from_secs(60);
/// Re-checks without an answer after which a dialog is taken for gone.
const CHECKS_MAX: u8 = 4;
/// RFC 6665 §4.2.1 leaves a missing Expires to the event; an hour is the usual value.
const SUBSCRIPTION_S: u32 = 3600;
/// Nobody may ask for more than a week.
const INTERVAL_MAX_S: u32 = 7 * 24 * 3600;

/// Lengths of the calls that ended, in classes that grow by a quarter.
#[derive(Debug)]
pub(crate) struct CallLengths {
    classes: [u64; 64],
    count: u64,
    /// The age from which on a call may have leaked.
    bound: Duration,
}

impl Default for CallLengths {
    fn default() -> Self {
        Self {
            classes: [0; 64],
            count: 0,
            bound: BOUND_UNKNOWN,
        }
    }
}

impl CallLengths {
    fn record(&mut self, length: Duration) {
        let class = (length.as_secs_f64().max(1.0).ln() / 1.25_f64.ln()).ceil() as usize;
        self.classes[class.min(63)] += 1;
        self.count += 1;
        if self.count.is_multiple_of(CALLS_KNOWN) {
            self.bound = self.quantile().max(BOUND_MIN);
        }
    }

    /// The length that few calls exceed.
    fn quantile(&self) -> Duration {
        let mut left = (self.count as f64 * (1.0 - QUANTILE)) as u64;
        let mut class = 63;
        while self.classes[class] <= left && class > 0 {
            left -= self.classes[class];
            class -= 1;
        }
        Duration::from_secs_f64(1.25_f64.powi(class as i32))
    }
}

impl State {
    /// What a final response says of its dialog.
    pub(crate) fn follow_dialog(&mut self, cx: Context<'_>, entry: u32, response: &Response<'_>) {
        let session = self.sessions.get(entry);
        if session.state == Life::Expired || !concerns(session.is_call, response.cseq.method) {
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

    fn begin_dialog(&mut self, cx: Context<'_>, entry: u32, response: &Response<'_>) {
        let Response {
            call_id,
            from_tag,
            to_tag,
            ..
        } = *response;
        let (client_tag, server_tag) = if self.sessions.get(entry).from_server {
            (to_tag, from_tag)
        } else {
            (from_tag, to_tag)
        };
        let own = self.sessions.get(entry).server;
        let member = member_at(cx, Some(own), response.from);
        let server = member.map_or(own, |member| member.server.id());
        self.sessions.add_dialog(
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

    /// Session-Expires (RFC 4028) and Expires (RFC 6665) say how long silence may last.
    fn refresh(&mut self, cx: Context<'_>, entry: u32, response: &Response<'_>) {
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

    pub(crate) fn end_dialog(&mut self, cx: Context<'_>, entry: u32, tags: u32) {
        if self.sessions.remove_dialog(entry, tags) && self.sessions.get(entry).is_call {
            self.lengths.record(self.sessions.get(entry).age(cx.now));
        }
    }

    /// Arms the timer of a session with a dialog.
    pub(crate) fn watch(&mut self, cx: Context<'_>, entry: u32) {
        let wait = self.silence_max(cx, entry);
        self.session_timers.arm(entry, cx.now + wait);
    }

    /// How long a session's dialogs may be silent.
    fn silence_max(&self, cx: Context<'_>, entry: u32) -> Duration {
        if self.sessions.unacknowledged(entry).is_some() {
            return cx.snapshot.transaction_max();
        }
        match self.sessions.get(entry).interval_s {
            0 if self.sessions.dialog(entry).is_none() => cx.snapshot.config().timers.call_max,
            0 => self.lengths.bound.min(cx.snapshot.config().timers.call_max),
            seconds => Duration::from_secs(seconds.into()) + cx.snapshot.transaction_max(),
        }
    }

    /// Sessions that were silent long enough to be doubted, and expired ones to be forgotten.
    pub(crate) fn on_session_timers(&mut self, cx: Context<'_>, out: &mut Outbox) {
        while let Some(entry) = self.session_timers.pop(cx.now) {
            self.doubt(cx, entry, out);
        }
        let before = cx.now.saturating_sub(cx.snapshot.transaction_max());
        while self.sessions.forget_expired(before) {}
    }

    fn doubt(&mut self, cx: Context<'_>, entry: u32, out: &mut Outbox) {
        let session = self.sessions.get(entry);
        let (checks, silence) = (session.checks, session.silence(cx.now));
        let silence_max = self.silence_max(cx, entry);
        if silence < silence_max {
            self.session_timers
                .arm(entry, cx.now + (silence_max - silence));
            return;
        }
        if let Some(tags) = self.sessions.unacknowledged(entry) {
            return self.give_up(cx, entry, tags);
        }
        let can_ask =
            self.sessions.get(entry).interval_s == 0 && self.sessions.dialog(entry).is_some();
        if can_ask && checks < CHECKS_MAX {
            self.ask(cx, entry, out);
            self.session_timers
                .arm(entry, cx.now + cx.snapshot.transaction_max() / 4);
        } else {
            self.leak(cx, entry);
        }
    }

    /// A dialog is over without a BYE: its server doesn't know it, or its 2xx got no ACK for 64*T1,
    /// which makes no call. RFC 3261 §13.3.1.4
    fn give_up(&mut self, cx: Context<'_>, entry: u32, tags: u32) {
        cx.stats.count(Event::Leaked, 1);
        self.sessions.remove_dialog(entry, tags);
        if self.sessions.has_dialog(entry) {
            self.watch(cx, entry);
        }
        self.settle(cx, entry);
    }

    /// A dialog that nobody ended is over.
    fn leak(&mut self, cx: Context<'_>, entry: u32) {
        cx.stats.count(Event::Leaked, 1);
        self.sessions.drop_dialogs(entry);
        self.settle(cx, entry);
    }

    /// Asks the server whether a dialog lives: an OPTIONS within it, with a CSeq that is out of
    /// date. A server that knows the dialog refuses it without touching the dialog (RFC 3261
    /// §12.2.2), one that doesn't answers 481.
    fn ask(&mut self, cx: Context<'_>, entry: u32, out: &mut Outbox) {
        let session = self.sessions.get_mut(entry);
        session.checks += 1;
        let id = u64::from(session.checks);
        cx.stats.count(Event::Rechecked, 1);
        let Some(dialog) = self.sessions.dialog(entry) else {
            return;
        };
        let Some(member) = cx.snapshot.member(dialog.server) else {
            return;
        };
        let Some(listener) = cx.snapshot.listener_towards(member.address, 0) else {
            return;
        };
        let branch = Branch {
            purpose: Purpose::Recheck,
            listener,
            id,
        };
        out.send(listener, member.address, |out| {
            let request = format!("OPTIONS sip:{} SIP/2.0\r\nVia: ", member.address);
            out.extend_from_slice(request.as_bytes());
            crate::relay::write_via(cx.snapshot, listener, branch, out);
            out.extend_from_slice(b"\r\nMax-Forwards: 1\r\nFrom: <sip:sipyard.invalid>;tag=");
            out.extend_from_slice(dialog.client_tag);
            out.extend_from_slice(b"\r\nTo: <sip:sipyard.invalid>;tag=");
            out.extend_from_slice(dialog.server_tag);
            out.extend_from_slice(b"\r\nCall-ID: ");
            out.extend_from_slice(dialog.call_id);
            out.extend_from_slice(b"\r\nCSeq: 0 OPTIONS\r\nContent-Length: 0\r\n\r\n");
        });
    }

    /// Only the server that was asked may answer: anybody can write a response with our Via.
    pub(crate) fn on_recheck_answer(
        &mut self,
        cx: Context<'_>,
        session: Option<u32>,
        response: &Response<'_>,
    ) {
        let tags = tag_pair(response.from_tag, response.to_tag);
        let asked = session.filter(|&entry| {
            let server = self.sessions.server_of_dialog(entry, tags);
            let member = server.and_then(|server| cx.snapshot.member(server));
            self.sessions.get(entry).checks > 0
                && member.is_some_and(|m| m.address == response.from)
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
}

/// The server at an address: the one of the session, if it is there.
pub(crate) fn member_at(
    cx: Context<'_>,
    session: Option<ServerId>,
    address: SocketAddr,
) -> Option<&Arc<Member>> {
    let member = session.and_then(|server| cx.snapshot.member(server));
    member
        .filter(|member| member.address == address)
        .or_else(|| cx.snapshot.member_at(address))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_follows_the_lengths_seen() {
        let mut lengths = CallLengths::default();
        assert_eq!(lengths.bound, BOUND_UNKNOWN);
        for second in 1..=1_000 {
            lengths.record(Duration::from_secs(second));
        }
        let bound = lengths.bound.as_secs();
        assert!((990..=1_240).contains(&bound), "{bound}");
        for _ in 0..1_000_000 {
            lengths.record(Duration::from_secs(5));
        }
        assert_eq!(lengths.bound, BOUND_MIN);
    }
}

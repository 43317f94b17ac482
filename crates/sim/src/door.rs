//! Another's overload control before a node, to compare it with the node's own.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt::Debug,
    time::Duration,
};

use node::{Flow, Outbox};
use sip::{HeaderName, Message, Method, write_reply};

use crate::{HEADERS_MAX, processor::Waiting};

/// The To tag of its refusals.
const TAG: &str = "at-the-door";
/// Calls that are not answered in this time count as open no longer.
const GIVEN_UP: Duration = Duration::from_secs(2);
/// For how long the copies of a call's INVITE may come. RFC 3261 Timer B
const COPIES: Duration = Duration::from_secs(32);

/// A scheme that lets a node's new calls and logins in, or refuses them.
pub trait Scheme: Debug {
    /// Whether a call that has waited for `delay` may go in; `open` calls wait or have no final response.
    /// `user` names its caller.
    fn admits(&mut self, now: Duration, delay: Duration, open: usize, user: u64) -> bool;

    /// A call that it has let in was answered after so long.
    fn answered(&mut self, _now: Duration, _took: Duration) {}

    /// Whether the calls that came last are looked at first.
    fn is_last_in_first_out(&self, _now: Duration) -> bool {
        false
    }
}

/// What is done with a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    Refused,
    Absorbed,
}

/// A scheme, the new calls that wait for it, and those that it has let in.
#[derive(Debug)]
pub(crate) struct Door {
    scheme: Box<dyn Scheme>,
    waiting: VecDeque<(Duration, Waiting)>,
    /// When each call has come, while it is open.
    calls: BTreeMap<Box<[u8]>, Option<Duration>>,
    open: usize,
    unanswered: VecDeque<(Duration, Box<[u8]>)>,
    begun: VecDeque<(Duration, Box<[u8]>)>,
}

impl Door {
    pub(crate) fn new(scheme: Box<dyn Scheme>) -> Self {
        Self {
            scheme,
            waiting: VecDeque::new(),
            calls: BTreeMap::new(),
            open: 0,
            unanswered: VecDeque::new(),
            begun: VecDeque::new(),
        }
    }

    /// Keeps a datagram if it begins a call, or else gives it back.
    pub(crate) fn sort(&mut self, came: Duration, waiting: Waiting) -> Option<Waiting> {
        if !begins_call(&waiting.bytes) {
            return Some(waiting);
        }
        self.waiting.push_back((came, waiting));
        None
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The next call to look at.
    pub(crate) fn pop(&mut self, now: Duration) -> Option<(Duration, Waiting)> {
        match self.scheme.is_last_in_first_out(now) {
            true => self.waiting.pop_back(),
            false => self.waiting.pop_front(),
        }
    }

    /// Decides on a datagram when the processor has come to it.
    pub(crate) fn judge(
        &mut self,
        now: Duration,
        delay: Duration,
        waiting: &Waiting,
        out: &mut Outbox,
    ) -> Verdict {
        let Ok(message) = Message::parse(&waiting.bytes, HEADERS_MAX) else {
            return Verdict::Pass;
        };
        let Some(call) = name_of(&message) else {
            return Verdict::Pass;
        };
        let call = &*call;
        self.forget(now);
        if message.status().is_some() {
            self.note_answer(now, &message);
            return Verdict::Pass;
        }
        if message.method() == Some(Method::Ack) && message.to_tag() == Ok(Some(TAG.as_bytes())) {
            return Verdict::Absorbed;
        }
        if !begins_call(&waiting.bytes) || self.calls.contains_key(call) {
            return Verdict::Pass;
        }
        let user = number_of(call);
        if self
            .scheme
            .admits(now, delay, self.open + self.waiting.len(), user)
        {
            self.calls.insert(call.into(), Some(now - delay));
            self.open += 1;
            self.unanswered.push_back((now, call.into()));
            self.begun.push_back((now, call.into()));
            return Verdict::Pass;
        }
        refuse(waiting.flow, &message, out);
        Verdict::Refused
    }

    /// The node sends this.
    pub(crate) fn note_sent(&mut self, now: Duration, bytes: &[u8]) {
        if let Ok(message) = Message::parse(bytes, HEADERS_MAX) {
            self.note_answer(now, &message);
        }
    }

    fn note_answer(&mut self, now: Duration, message: &Message<'_>) {
        let is_final = message.status().is_some_and(|status| status >= 200);
        if is_final
            && let Some(name) = name_of(message)
            && let Some(begun) = self.close(&name)
        {
            self.scheme.answered(now, now - begun);
        }
    }

    /// When a call has come that is open no longer.
    fn close(&mut self, call: &[u8]) -> Option<Duration> {
        let begun = self.calls.get_mut(call)?.take()?;
        self.open -= 1;
        Some(begun)
    }

    fn forget(&mut self, now: Duration) {
        let is_old = |begun: &mut (Duration, _)| begun.0 + GIVEN_UP < now;
        while let Some((_, call)) = self.unanswered.pop_front_if(is_old) {
            self.close(&call);
        }
        while let Some((_, call)) = self.begun.pop_front_if(|begun| begun.0 + COPIES < now) {
            self.calls.remove(&call);
        }
    }
}

fn refuse(flow: Flow, request: &Message<'_>, out: &mut Outbox) {
    let pause: &[(&str, &str)] = match request.method() {
        Some(Method::Register) => &[("Retry-After", "5")],
        _ => &[],
    };
    out.send(flow, |bytes| {
        write_reply(
            request,
            503,
            "Service Unavailable",
            Some(TAG),
            flow.remote,
            pause,
            bytes,
        );
    });
}

/// Whether it begins a call, or a login of somebody who has been challenged.
fn begins_call(bytes: &[u8]) -> bool {
    let is_begin = |message: Message<'_>| match message.method() {
        Some(Method::Invite) => message.to_tag() == Ok(None),
        Some(Method::Register) => message.header(HeaderName::Authorization).is_some(),
        _ => false,
    };
    let may_be = bytes.starts_with(b"INVITE") || bytes.starts_with(b"REGISTER");
    may_be && Message::parse(bytes, HEADERS_MAX).is_ok_and(is_begin)
}

/// Names the call or the login that a message belongs to.
fn name_of(message: &Message<'_>) -> Option<Box<[u8]>> {
    let mut name = message.call_id().ok()?.to_vec();
    let cseq = message.cseq().ok()?;
    if cseq.method == Method::Register {
        name.extend(cseq.number.to_be_bytes());
    }
    Some(name.into())
}

/// The same number for the same caller.
fn number_of(call: &[u8]) -> u64 {
    let mixed = call.iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    mixed ^ mixed >> 29
}

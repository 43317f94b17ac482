//! Spans of calls: one for each attempt, and one below it for each transaction and branch.
//!
//! A request that came in is a span until the node has sent its final response, and each copy that went out is one until
//! its final response came. All spans of a Call-ID are of one trace, on all nodes with one secret.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    hash::Hasher as _,
    mem,
    net::SocketAddr,
    time::Duration,
};

use node::{Snapshot, tap::Tap};
use sip::{Message, Method};
use siphasher::sip::SipHasher24;

use crate::{
    passed::{Passed, Waiting, in_order},
    reading::read,
};

/// How long a request may come again: 64*T1. RFC 3261 §17.1.1.2
const REPEATS_MAX: Duration = Duration::from_secs(32);
/// An INVITE rings no longer than Timer C of three minutes and a bit. RFC 3261 §16.6
const RINGING_MAX: Duration = Duration::from_secs(200);
/// Text of a peer that is kept.
const TEXT_MAX: usize = 200;

/// A request that is over. Times count from the node's zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The same for all spans of a Call-ID.
    pub trace: u128,
    /// Its own number.
    pub id: u64,
    /// The span that it belongs to.
    pub parent: Option<u64>,
    /// The request went out; or else it came in.
    pub is_client: bool,
    /// Its method.
    pub method: Box<str>,
    /// Its Call-ID.
    pub call_id: Box<str>,
    /// Its CSeq number.
    pub cseq: u32,
    /// The other end.
    pub peer: SocketAddr,
    /// The transport, in small letters.
    pub transport: Box<str>,
    /// When it passed first.
    pub begun: Duration,
    /// When its final response passed, or when nothing more was to be expected.
    pub ended: Duration,
    /// Its final response; none: there was none.
    pub status: Option<u16>,
}

/// What was told and what was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceCounts {
    /// Requests that are followed.
    pub open: usize,
    /// Spans told.
    pub told: u64,
    /// Requests without a span, as too many were open.
    pub crowded_out: u64,
}

/// Follows the requests of calls that pass a node.
#[derive(Debug)]
pub struct Traces {
    node: u64,
    one_in: u32,
    open_max: usize,
    open: HashMap<Which, Open>,
    /// When to look at a request, the earliest first.
    due: BinaryHeap<Reverse<(Duration, Which)>>,
    waiting: Vec<Waiting>,
    counts: TraceCounts,
}

/// A request on one side of the node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Which {
    call: u64,
    is_client: bool,
    /// Its branch and method; of an attempt nothing, as it comes again with credentials on another branch.
    name: Box<[u8]>,
}

#[derive(Debug)]
struct Open {
    span: Span,
    /// When nothing more is to be expected of it.
    until: Duration,
    /// Told already: it is known so that a repetition begins nothing.
    is_told: bool,
}

impl Traces {
    /// A follower of at most so many requests at a time, of one call in so many.
    #[must_use]
    pub fn new(node: &str, open_max: usize, one_in: u32) -> Self {
        Self {
            node: hash(&[node.as_bytes()]),
            one_in: one_in.max(1),
            open_max,
            open: HashMap::new(),
            due: BinaryHeap::new(),
            waiting: Vec::new(),
            counts: TraceCounts::default(),
        }
    }

    /// What it has done.
    #[must_use]
    pub fn counts(&self) -> TraceCounts {
        TraceCounts {
            open: self.open.len(),
            ..self.counts
        }
    }

    /// Takes what the workers' taps have seen, and tells the spans that are over. What is later than `until` waits for
    /// the next time.
    pub fn take(
        &mut self,
        taps: &[Tap],
        until: Duration,
        snapshot: &Snapshot,
        tell: &mut impl FnMut(Span),
    ) {
        let waiting = mem::take(&mut self.waiting);
        let (passed, due) = in_order(&waiting, taps, until);
        self.waiting = passed[due..].iter().map(Waiting::new).collect();
        for passed in &passed[..due] {
            if let Some((message, call)) = read(passed.bytes, snapshot)
                && call.is_multiple_of(u64::from(self.one_in))
            {
                self.follow(passed, &message, call, tell);
            }
        }
    }

    /// Tells the requests that no response is to be expected for.
    pub fn look(&mut self, now: Duration, tell: &mut impl FnMut(Span)) {
        while let Some(Reverse((due, _))) = self.due.peek()
            && *due <= now
            && let Some(Reverse((at, which))) = self.due.pop()
        {
            if self.open.get(&which).is_none_or(|open| open.until > at) {
                continue;
            }
            if let Some(Open {
                mut span, is_told, ..
            }) = self.open.remove(&which)
                && !is_told
            {
                if span.status.is_none() {
                    span.ended = now;
                }
                self.counts.told += 1;
                tell(span);
            }
        }
    }

    fn follow(
        &mut self,
        passed: &Passed<'_>,
        message: &Message<'_>,
        call: u64,
        tell: &mut impl FnMut(Span),
    ) {
        let (Ok(cseq), Ok(via)) = (message.cseq(), message.top_via()) else {
            return;
        };
        let Some(branch) = via.branch else {
            return;
        };
        // A response takes its request's way back.
        let is_client = message.is_request() != passed.came_in;
        let attempt = Which {
            call,
            is_client,
            name: Box::default(),
        };
        let transaction = Which {
            name: [branch, b" ", cseq.method.as_bytes()].concat().into(),
            ..attempt.clone()
        };
        let is_invite = cseq.method == Method::Invite && !is_client;
        match message.status() {
            None if cseq.method == Method::Ack => {}
            None if is_invite && message.to_tag().ok().flatten().is_none() => {
                self.begin(passed, message, attempt);
            }
            None => self.begin(passed, message, transaction),
            Some(..200) => {}
            Some(status) => {
                let is_attempts = is_invite && self.is_open(&attempt, cseq.number);
                let which = if is_attempts { attempt } else { transaction };
                // The credentials that are asked for may come yet.
                let may_go_on = is_attempts && matches!(status, 401 | 407);
                self.answer(passed.at, &which, status, may_go_on, tell);
            }
        }
    }

    fn is_open(&self, which: &Which, cseq: u32) -> bool {
        let open = self.open.get(which);
        open.is_some_and(|open| !open.is_told && open.span.cseq == cseq)
    }

    fn begin(&mut self, passed: &Passed<'_>, message: &Message<'_>, which: Which) {
        let (Ok(cseq), Ok(via)) = (message.cseq(), message.top_via()) else {
            return;
        };
        let mut comes_anew = false;
        if let Some(open) = self.open.get_mut(&which) {
            comes_anew = open.is_told && which.name.is_empty() && cseq.number > open.span.cseq;
            if !comes_anew {
                open.span.cseq = open.span.cseq.max(cseq.number);
                return;
            }
        }
        if !comes_anew && self.open.len() >= self.open_max {
            self.counts.crowded_out += 1;
            return;
        }
        let root = hash(&[&self.node.to_be_bytes(), &which.call.to_be_bytes()]);
        let is_root = which.name.is_empty() && !comes_anew;
        let side = [u8::from(which.is_client)];
        let number = cseq.number.to_be_bytes();
        let own = || hash(&[&root.to_be_bytes(), &side, &number, &which.name]);
        let span = Span {
            trace: trace_of(which.call),
            id: if is_root { root } else { own() },
            parent: (!is_root).then_some(root),
            is_client: which.is_client,
            method: text(cseq.method.as_bytes()),
            call_id: text(message.call_id().unwrap_or_default()),
            cseq: cseq.number,
            peer: passed.flow.remote,
            transport: text(&via.transport.to_ascii_lowercase()),
            begun: passed.at,
            ended: passed.at,
            status: None,
        };
        let wait = match cseq.method {
            Method::Invite => RINGING_MAX,
            _ => REPEATS_MAX,
        };
        let until = passed.at + wait;
        self.due.push(Reverse((until, which.clone())));
        let open = Open {
            span,
            until,
            is_told: false,
        };
        self.open.insert(which, open);
    }

    fn answer(
        &mut self,
        at: Duration,
        which: &Which,
        status: u16,
        may_go_on: bool,
        tell: &mut impl FnMut(Span),
    ) {
        let Some(open) = self.open.get_mut(which).filter(|open| !open.is_told) else {
            return;
        };
        (open.span.ended, open.span.status) = (at, Some(status));
        if !may_go_on {
            open.is_told = true;
            self.counts.told += 1;
            tell(open.span.clone());
        }
    }
}

/// The trace of a call: [`Span::trace`]. `call` is [`Snapshot::session_of`] its Call-ID.
#[must_use]
pub fn trace_of(call: u64) -> u128 {
    u128::from(call) << 64 | u128::from(hash(&[&call.to_be_bytes()]))
}

/// A number that is no secret and never 0, which stands for none.
fn hash(parts: &[&[u8]]) -> u64 {
    let mut hasher = SipHasher24::new();
    for part in parts {
        hasher.write(part);
    }
    hasher.finish().max(1)
}

fn text(bytes: &[u8]) -> Box<str> {
    let text = String::from_utf8_lossy(bytes);
    text.chars().take(TEXT_MAX).collect()
}

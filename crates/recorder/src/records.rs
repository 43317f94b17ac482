//! Call records: one for each attempt at a call, told when it is over.
//!
//! An INVITE begins an attempt. It is over with its final response if that refuses, else with the BYE that is
//! accepted. A BYE that is accepted of a call whose INVITE passed elsewhere, or before a restart, is a record too: it
//! knows the end alone. So each call that ends has one record, whichever node sees the end.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, VecDeque},
    mem,
    net::SocketAddr,
    time::Duration,
};

use node::{Flow, Snapshot, tap::Tap};
use serde::Serialize;
use sip::{Glance, Message, Method};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{
    mask::Mask,
    passed::{Passed, Waiting, in_order, read_passed},
    reading::read,
    state::{End, State, Summary},
};

/// How long a request may come again: 64*T1. RFC 3261 §17.1.1.2
const REPEATS_MAX: Duration = Duration::from_secs(32);
/// A call in which nothing was said for so long is told without an end.
const CALL_MAX: Duration = Duration::from_secs(24 * 3600);
/// Servers of one attempt that are told.
const TRIED_MAX: usize = 16;

/// What became of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// They talked.
    Answered,
    /// It got a final response of 300 or more.
    Refused,
    /// The caller gave up.
    Cancelled,
    /// It got no final response.
    Lost,
    /// It was answered, and for a day nothing was heard of it.
    Unended,
}

/// A server that an attempt went to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Tried {
    /// Its address.
    pub server: SocketAddr,
    /// Its latest response; none: it did not answer.
    pub status: Option<u16>,
}

/// An attempt at a call that is over. Times are UTC as RFC 3339 writes them; those that the node did not see are
/// none.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Record {
    /// The same for all records of a Call-ID, on all nodes with one secret.
    pub id: String,
    /// The node that tells it.
    pub node: String,
    /// Its Call-ID.
    pub call_id: Box<str>,
    /// What became of it.
    pub outcome: Outcome,
    /// The final response that the caller got.
    pub status: Option<u16>,
    /// Who called. If the beginning is not known: who hung up.
    pub from: Box<str>,
    /// Who was called. If the beginning is not known: the other one.
    pub to: Box<str>,
    /// Where the INVITE came from.
    pub source: Option<SocketAddr>,
    /// When the INVITE came.
    pub begun: Option<String>,
    /// When the caller was first told of ringing.
    pub rang: Option<String>,
    /// When the caller was told that the call is accepted.
    pub answered: Option<String>,
    /// When the attempt was over.
    pub ended: Option<String>,
    /// From its answer to its end, in seconds.
    pub talked_s: Option<f64>,
    /// Who hung up.
    pub ended_by: Option<End>,
    /// The pool of the server.
    pub pool: Option<String>,
    /// The server that it went to last.
    pub server: Option<SocketAddr>,
    /// All servers that it went to, in their order.
    pub tried: Vec<Tried>,
}

/// What was told and what was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordCounts {
    /// Attempts that are not over.
    pub open: usize,
    /// Records told.
    pub told: u64,
    /// Attempts without a record of their beginning, as too many were open.
    pub crowded_out: u64,
}

/// Follows all attempts that pass a node.
#[derive(Debug)]
pub struct Records {
    node: String,
    mask: Mask,
    /// The most attempts that are followed at a time.
    open_max: usize,
    /// By [`Snapshot::session_of`].
    open: HashMap<u64, Attempt>,
    /// When to look at an attempt, the earliest first.
    due: BinaryHeap<Reverse<(Duration, u64)>>,
    /// The highest CSeq of calls that were told lately, as their requests may come again.
    told: HashMap<u64, u32>,
    forgetting: VecDeque<(Duration, u64)>,
    /// Messages that were too new the last time.
    waiting: Vec<Waiting>,
    counts: RecordCounts,
}

#[derive(Debug)]
struct Attempt {
    summary: Summary,
    /// The INVITE did not pass here: only the end is known.
    is_end_alone: bool,
    pool: Option<String>,
    tried: Vec<Tried>,
    bye: Option<Bye>,
    cseq_max: u32,
}

/// A BYE that has no answer yet.
#[derive(Clone, Copy, Debug)]
struct Bye {
    cseq: u32,
    at: Duration,
    by: Option<End>,
}

impl Records {
    /// A follower of at most so many attempts at a time. `mask` hides users if there is a key for that.
    #[must_use]
    pub fn new(node: String, open_max: usize, mask: Option<[u8; 16]>) -> Self {
        Self {
            node,
            mask: Mask::new(mask.unwrap_or_default(), mask.is_some(), false),
            open_max,
            open: HashMap::new(),
            due: BinaryHeap::new(),
            told: HashMap::new(),
            forgetting: VecDeque::new(),
            waiting: Vec::new(),
            counts: RecordCounts::default(),
        }
    }

    /// Follows at most so many attempts from now on, and hides users if there is a key for that: those of open attempts,
    /// too. Open attempts beyond `open_max` are followed to their end.
    pub fn set(&mut self, open_max: usize, mask: Option<[u8; 16]>) {
        let hid_users = self.mask.users;
        self.open_max = open_max;
        self.mask = Mask::new(mask.unwrap_or_default(), mask.is_some(), false);
        if self.mask.users && !hid_users {
            let open = self.open.values_mut();
            open.for_each(|attempt| attempt.summary.hide_users(&self.mask));
        }
    }

    /// What it has done.
    #[must_use]
    pub fn counts(&self) -> RecordCounts {
        RecordCounts {
            open: self.open.len(),
            ..self.counts
        }
    }

    /// Takes what the workers' taps have seen, and tells the attempts that are over. What happened later than `until`
    /// waits for the next time, as another worker's tap may lack what came before. `zero` is the wall time of the
    /// node's zero since the UNIX epoch.
    pub fn take(
        &mut self,
        taps: &[Tap],
        until: Duration,
        snapshot: &Snapshot,
        zero: Duration,
        tell: &mut impl FnMut(Record),
    ) {
        let waiting = mem::take(&mut self.waiting);
        let (passed, due) = in_order(&waiting, taps, until);
        self.waiting = passed[due..].iter().map(Waiting::new).collect();
        self.follow_all(&passed[..due], snapshot, zero, tell);
    }

    /// Takes what an earlier process has [written](crate::write_passed), and tells the attempts that were over later
    /// than `since`: it has told the others. Times count from that process's zero, whose wall time was `zero`. Of
    /// attempts that go on nothing is kept.
    pub fn replay(
        &mut self,
        written: &[u8],
        since: Duration,
        snapshot: &Snapshot,
        zero: Duration,
        tell: &mut impl FnMut(Record),
    ) {
        let mut passed: Vec<_> = read_passed(written).collect();
        passed.sort_by_key(|passed| passed.at);
        let (before, after) = passed.split_at(passed.partition_point(|passed| passed.at <= since));
        self.follow_all(before, snapshot, zero, &mut drop);
        self.counts.told = 0;
        self.follow_all(after, snapshot, zero, tell);
        self.open.clear();
        self.due.clear();
        // Requests of calls that were told may come again now.
        for (at, _) in &mut self.forgetting {
            *at = Duration::ZERO;
        }
    }

    fn follow_all(
        &mut self,
        passed: &[Passed<'_>],
        snapshot: &Snapshot,
        zero: Duration,
        tell: &mut impl FnMut(Record),
    ) {
        for passed in passed {
            if let Some((message, key)) = read(passed.bytes, snapshot)
                && concerns(&message)
            {
                self.follow(passed, &message, key, snapshot);
                if let Some(outcome) = self.open.get(&key).and_then(Attempt::outcome) {
                    self.tell(key, outcome, zero, tell);
                }
            }
        }
    }

    /// Tells the attempts that nothing more is to be expected of.
    pub fn look(&mut self, now: Duration, zero: Duration, tell: &mut impl FnMut(Record)) {
        while let Some(&Reverse((at, key))) = self.due.peek()
            && at <= now
        {
            self.due.pop();
            let Some(attempt) = self.open.get(&key) else {
                continue;
            };
            match attempt.is_silent(now) {
                Ok(Some(outcome)) => self.tell(key, outcome, zero, tell),
                Ok(None) => drop(self.open.remove(&key)),
                Err(later) => self.due.push(Reverse((later, key))),
            }
        }
        while let Some(&(at, key)) = self.forgetting.front()
            && (at + REPEATS_MAX <= now || self.forgetting.len() > self.open_max)
        {
            self.forgetting.pop_front();
            self.told.remove(&key);
        }
    }

    fn follow(
        &mut self,
        passed: &Passed<'_>,
        message: &Message<'_>,
        key: u64,
        snapshot: &Snapshot,
    ) {
        let &Passed {
            at, came_in, flow, ..
        } = passed;
        if came_in && message.is_request() {
            self.begin(at, flow, message, key);
        }
        if let Some(attempt) = self.open.get_mut(&key) {
            attempt.follow(at, came_in, flow, message, snapshot);
        }
    }

    /// A request that came in may begin an attempt, or end one that is not known.
    fn begin(&mut self, at: Duration, flow: Flow, message: &Message<'_>, key: u64) {
        let Ok(cseq) = message.cseq() else {
            return;
        };
        let is_initial = message.to_tag().ok().flatten().is_none();
        let begins = match cseq.method {
            Method::Invite => is_initial,
            Method::Bye => !is_initial,
            _ => false,
        };
        let was_told = self.told.get(&key).is_some_and(|&told| {
            // Either side counts its own requests.
            cseq.method == Method::Bye || cseq.number <= told
        });
        if !begins || was_told || self.open.contains_key(&key) {
            return;
        }
        if self.open.len() >= self.open_max {
            self.counts.crowded_out += 1;
            return;
        }
        let attempt = Attempt {
            summary: Summary::new(message, flow.remote, at, &self.mask),
            is_end_alone: cseq.method == Method::Bye,
            pool: None,
            tried: Vec::new(),
            bye: None,
            cseq_max: cseq.number,
        };
        self.open.insert(key, attempt);
        self.due.push(Reverse((at + REPEATS_MAX, key)));
    }

    fn tell(&mut self, key: u64, outcome: Outcome, zero: Duration, tell: &mut impl FnMut(Record)) {
        let Some(attempt) = self.open.remove(&key) else {
            return;
        };
        self.counts.told += 1;
        self.told.insert(key, attempt.cseq_max);
        self.forgetting.push_back((attempt.summary.latest, key));
        tell(attempt.record(key, self.node.clone(), outcome, zero));
    }
}

impl Attempt {
    fn follow(
        &mut self,
        at: Duration,
        came_in: bool,
        flow: Flow,
        message: &Message<'_>,
        snapshot: &Snapshot,
    ) {
        let Some(glance) = Glance::at(message) else {
            return;
        };
        let member = snapshot.member_of(flow);
        if let Some(member) = member.filter(|_| !came_in && message.is_request()) {
            self.pool = Some(member.pool.clone());
        }
        let is_server = || member.is_some();
        self.summary
            .follow(at, came_in, flow, is_server, &glance, Some(message));
        let cseq = glance.cseq;
        self.cseq_max = self.cseq_max.max(cseq.number);
        match (cseq.method, message.status()) {
            (Method::Invite, None) if !came_in && self.summary.answered.is_none() => {
                self.note_server(flow.remote);
            }
            (Method::Invite, Some(status)) if came_in => {
                let tried = self.tried.iter_mut().rev();
                let mut here = tried.filter(|tried| tried.server == flow.remote);
                if let Some(tried) = here.next().filter(|_| self.summary.answered.is_none()) {
                    tried.status = Some(status);
                }
            }
            (Method::Bye, None) if came_in && self.bye.is_none() => {
                self.bye = Some(Bye {
                    cseq: cseq.number,
                    at,
                    by: self.summary.end,
                });
            }
            (Method::Bye, Some(status)) if !came_in => self.on_bye_answer(cseq.number, status),
            _ => {}
        }
    }

    fn note_server(&mut self, server: SocketAddr) {
        let is_known = self.tried.iter().any(|tried| tried.server == server);
        if !is_known && self.tried.len() < TRIED_MAX {
            self.tried.push(Tried {
                server,
                status: None,
            });
        }
    }

    /// A BYE that is not accepted ends nothing: anybody could have sent it.
    fn on_bye_answer(&mut self, cseq: u32, status: u16) {
        match self.bye.filter(|bye| bye.cseq == cseq) {
            Some(bye) if (200..300).contains(&status) => {
                (self.summary.ended, self.summary.end) = (Some(bye.at), bye.by);
                self.bye = None;
            }
            Some(_) if status >= 300 => {
                self.bye = None;
                (self.summary.ended, self.summary.end) = (None, None);
            }
            _ => {}
        }
    }

    /// What became of it, if it is over.
    fn outcome(&self) -> Option<Outcome> {
        let summary = &self.summary;
        summary.answered?;
        match summary.status {
            200..300 if self.is_end_alone => Some(Outcome::Answered),
            _ if self.is_end_alone => None,
            200..300 => {
                (summary.ended.is_some() && self.bye.is_none()).then_some(Outcome::Answered)
            }
            // The credentials that are asked for may come yet.
            401 | 407 => None,
            _ if summary.state(summary.latest) == State::Cancelled => Some(Outcome::Cancelled),
            _ => Some(Outcome::Refused),
        }
    }

    /// What became of it if nothing more will come, nothing if that is not worth a record; or when to look again.
    fn is_silent(&self, now: Duration) -> Result<Option<Outcome>, Duration> {
        let latest = self.summary.latest;
        let state = self.summary.state(now);
        let wait = match state {
            State::Talking if self.bye.is_none() => CALL_MAX,
            State::Ringing => 7 * REPEATS_MAX,
            _ => REPEATS_MAX,
        };
        if now < latest + wait {
            return Err(latest + wait);
        }
        Ok(match state {
            _ if self.is_end_alone => None,
            State::Talking => Some(Outcome::Unended),
            // Nobody has answered the BYE.
            State::Done => Some(Outcome::Answered),
            State::Refused => Some(Outcome::Refused),
            State::Cancelled => Some(Outcome::Cancelled),
            State::Lost | State::Ringing | State::Trying => Some(Outcome::Lost),
        })
    }

    fn record(self, key: u64, node: String, outcome: Outcome, zero: Duration) -> Record {
        let summary = self.summary;
        let time = |at: Duration| written(zero + at);
        let is_known = !self.is_end_alone;
        let is_accepted = (200..300).contains(&summary.status);
        let answered = summary.answered.filter(|_| is_known);
        let ended = match outcome {
            Outcome::Answered if self.is_end_alone => Some(summary.began),
            Outcome::Answered => summary.ended,
            Outcome::Refused | Outcome::Cancelled => summary.answered,
            Outcome::Lost | Outcome::Unended => None,
        };
        let talked = ended.zip(answered.filter(|_| is_accepted));
        Record {
            id: format!("{key:016x}"),
            node,
            outcome,
            status: Some(summary.status).filter(|&status| status > 0 && is_known),
            source: Some(summary.source).filter(|_| is_known),
            begun: Some(time(summary.began)).filter(|_| is_known),
            rang: summary.rang.filter(|_| is_known).map(time),
            answered: answered.filter(|_| is_accepted).map(time),
            ended: ended.map(time),
            talked_s: talked.map(|(ended, answered)| ended.saturating_sub(answered).as_secs_f64()),
            ended_by: summary.end.filter(|_| is_known),
            pool: self.pool,
            server: summary.server,
            tried: self.tried,
            call_id: summary.call_id,
            from: summary.from,
            to: summary.to,
        }
    }
}

/// Whether a message may begin an attempt, answer it or end it.
fn concerns(message: &Message<'_>) -> bool {
    let method = message.cseq().map(|cseq| cseq.method);
    matches!(method, Ok(Method::Invite | Method::Bye | Method::Cancel))
}

/// A time since the UNIX epoch as RFC 3339 writes it.
#[must_use]
pub fn written(since_epoch: Duration) -> String {
    let micros = since_epoch.as_micros() as i128;
    let time = OffsetDateTime::from_unix_timestamp_nanos(micros * 1_000);
    let written = time.ok().and_then(|time| time.format(&Rfc3339).ok());
    written.unwrap_or_default()
}

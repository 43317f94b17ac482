//! What an edge did: its calls, where it placed them, and how long servers took.

use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    time::Duration,
};

use capture::Datagram;
use fastrand::Rng;
use sip::{Message, Method};

use crate::HEADERS_MAX;

/// Calls that are replayed; later ones are counted.
const CALLS_MAX: usize = 2_000_000;
/// Times that are kept for each server and method.
const TIMES_MAX: usize = 2_048;
/// So many times of idle servers say enough.
const TIMES_MIN: usize = 8;
/// A request without an answer for so long occupies its server no more: 4*T1 and more.
const UNANSWERED: Duration = Duration::from_secs(4);

/// Who ends a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Caller,
    Server,
}

/// A request that began something, and what became of it.
#[derive(Debug)]
pub(crate) struct Call {
    /// When the edge got it.
    pub(crate) at: Duration,
    pub(crate) caller: SocketAddr,
    pub(crate) edge: SocketAddr,
    pub(crate) method: Box<str>,
    pub(crate) cseq: u32,
    pub(crate) request: Box<[u8]>,
    /// The server that the edge sent it to first.
    pub(crate) server: Option<SocketAddr>,
    /// When the server first answered past 100.
    heard: Option<Duration>,
    /// Between the server's first answer past 100 and its last; none: they are one.
    pub(crate) ring: Duration,
    /// The last answer's status.
    pub(crate) status: Option<u16>,
    /// Until the caller got the first answer past 100.
    pub(crate) first: Option<Duration>,
    /// When the caller got the last answer.
    answered: Option<Duration>,
    /// Who hung up, and how long after the answer.
    pub(crate) end: Option<(Side, Duration)>,
}

/// What was taken from a capture, besides calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// SIP messages from or to the edge.
    pub messages: u64,
    /// Calls beyond what is replayed.
    pub left_out: u64,
}

/// What an edge did.
#[derive(Debug)]
pub struct History {
    edges: Vec<SocketAddr>,
    any_port: bool,
    pub(crate) calls: Vec<Call>,
    /// The latest call of each Call-ID.
    by_id: HashMap<Box<[u8]>, usize>,
    /// Requests without an answer: of which server, since when, whether it had nothing else.
    open: HashMap<(u64, u32, u8), (SocketAddr, Duration, bool)>,
    busy: HashMap<SocketAddr, Vec<Duration>>,
    pub(crate) times: Times,
    /// What was taken.
    pub taken: Taken,
}

/// How long servers take, by server and method.
#[derive(Debug, Default)]
pub(crate) struct Times {
    idle: BTreeMap<(Box<str>, SocketAddr), Vec<Duration>>,
    idle_of_all: BTreeMap<Box<str>, Vec<Duration>>,
    any: BTreeMap<Box<str>, Vec<Duration>>,
}

impl History {
    /// An empty history of edges at these addresses, or at all ports of their hosts.
    #[must_use]
    pub fn new(edges: Vec<SocketAddr>, any_port: bool) -> Self {
        Self {
            edges,
            any_port,
            calls: Vec::new(),
            by_id: HashMap::new(),
            open: HashMap::new(),
            busy: HashMap::new(),
            times: Times::default(),
            taken: Taken::default(),
        }
    }

    /// The servers that the edge sent calls to, in order.
    #[must_use]
    pub fn servers(&self) -> Vec<SocketAddr> {
        let mut servers: Vec<SocketAddr> = self.calls.iter().filter_map(|it| it.server).collect();
        servers.sort_unstable();
        servers.dedup();
        servers
    }

    /// How many requests began something.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.calls.len()
    }

    /// Takes a datagram of the capture.
    pub fn take(&mut self, datagram: &Datagram<'_>) {
        let (from_edge, to_edge) = (
            self.is_edge(datagram.source),
            self.is_edge(datagram.destination),
        );
        if from_edge == to_edge {
            return;
        }
        let Ok(message) = Message::parse(datagram.payload, HEADERS_MAX) else {
            return;
        };
        self.taken.messages += 1;
        match (message.status(), to_edge) {
            (None, true) => self.asked(datagram, &message),
            (None, false) => self.passed_on(datagram, &message),
            (Some(status), true) => self.server_answered(datagram, &message, status),
            (Some(status), false) => self.answered(datagram, &message, status),
        }
    }

    fn is_edge(&self, address: SocketAddr) -> bool {
        let is =
            |edge: &SocketAddr| *edge == address || (self.any_port && edge.ip() == address.ip());
        self.edges.iter().any(is)
    }

    /// Somebody sent a request to the edge.
    fn asked(&mut self, datagram: &Datagram<'_>, message: &Message<'_>) {
        let (Some(method), Ok(call_id), Ok(cseq)) =
            (message.method(), message.call_id(), message.cseq())
        else {
            return;
        };
        let known = self.by_id.get(call_id).copied();
        if message.to_tag() != Ok(None) {
            if let Some(call) = known.map(|at| &mut self.calls[at])
                && method == Method::Bye
                && call.end.is_none()
                && let Some(answered) = call.answered
            {
                let is_server = call
                    .server
                    .is_some_and(|server| server.ip() == datagram.source.ip())
                    && call.caller != datagram.source;
                let side = if is_server {
                    Side::Server
                } else {
                    Side::Caller
                };
                call.end = Some((side, datagram.time.saturating_sub(answered)));
            }
            return;
        }
        let begins = !matches!(method, Method::Ack | Method::Cancel | Method::Bye);
        let is_copy = known.is_some_and(|at| self.calls[at].cseq >= cseq.number);
        if !begins || is_copy {
            return;
        }
        if self.calls.len() >= CALLS_MAX {
            self.taken.left_out += 1;
            return;
        }
        self.by_id.insert(call_id.into(), self.calls.len());
        self.calls.push(Call {
            at: datagram.time,
            caller: datagram.source,
            edge: datagram.destination,
            method: String::from_utf8_lossy(method.as_bytes()).into(),
            cseq: cseq.number,
            request: datagram.payload.into(),
            server: None,
            heard: None,
            ring: Duration::ZERO,
            status: None,
            first: None,
            answered: None,
            end: None,
        });
    }

    /// The edge sent a request to somebody.
    fn passed_on(&mut self, datagram: &Datagram<'_>, message: &Message<'_>) {
        let Some(method) = message.method() else {
            return;
        };
        if matches!(method, Method::Ack | Method::Cancel) {
            return;
        }
        let server = datagram.destination;
        if message.to_tag() == Ok(None)
            && let Some(call) = self.call(message)
        {
            call.server.get_or_insert(server);
        }
        let Some(key) = key(message) else {
            return;
        };
        if self.open.contains_key(&key) {
            return;
        }
        let busy = self.busy.entry(server).or_default();
        busy.retain(|since| datagram.time.saturating_sub(*since) < UNANSWERED);
        self.open
            .insert(key, (server, datagram.time, busy.is_empty()));
        busy.push(datagram.time);
    }

    fn server_answered(&mut self, datagram: &Datagram<'_>, message: &Message<'_>, status: u16) {
        if status <= 100 {
            return;
        }
        if let Some((server, since, was_idle)) = key(message).and_then(|key| self.open.remove(&key))
        {
            if let Some(busy) = self.busy.get_mut(&server)
                && let Some(at) = busy.iter().position(|begun| *begun == since)
            {
                busy.swap_remove(at);
            }
            let time = datagram.time.saturating_sub(since);
            if let Ok(cseq) = message.cseq() {
                let method = String::from_utf8_lossy(cseq.method.as_bytes());
                self.times.record(&method, server, time, was_idle);
            }
        }
        let now = datagram.time;
        if let Some(call) = self.call(message) {
            let heard = *call.heard.get_or_insert(now);
            if status >= 200 && call.status.is_none() {
                call.ring = now.saturating_sub(heard);
                call.status = Some(status);
            }
        }
    }

    /// The edge answered somebody.
    fn answered(&mut self, datagram: &Datagram<'_>, message: &Message<'_>, status: u16) {
        let now = datagram.time;
        let Some(call) = self
            .call(message)
            .filter(|call| call.caller == datagram.destination)
        else {
            return;
        };
        if status > 100 && call.first.is_none() {
            call.first = Some(now.saturating_sub(call.at));
        }
        if status >= 200 && call.answered.is_none() {
            call.answered = Some(now);
            call.status.get_or_insert(status);
        }
    }

    /// The call that a message's transaction began.
    fn call(&mut self, message: &Message<'_>) -> Option<&mut Call> {
        let cseq = message.cseq().ok()?;
        let call = &mut self.calls[*self.by_id.get(message.call_id().ok()?)?];
        let is_its = call.cseq == cseq.number && call.method.as_bytes() == cseq.method.as_bytes();
        is_its.then_some(call)
    }
}

impl Times {
    fn record(&mut self, method: &str, server: SocketAddr, time: Duration, was_idle: bool) {
        let add = |times: &mut Vec<Duration>| {
            if times.len() < TIMES_MAX {
                times.push(time);
            }
        };
        add(self.any.entry(method.into()).or_default());
        if was_idle {
            add(self.idle_of_all.entry(method.into()).or_default());
            add(self.idle.entry((method.into(), server)).or_default());
        }
    }

    /// How long a server takes for a request that meets it idle: one of the times that were measured.
    pub(crate) fn draw(&self, method: &str, server: SocketAddr, rng: &mut Rng) -> Duration {
        let key = (Box::from(method), server);
        let enough = |times: &&Vec<Duration>| times.len() >= TIMES_MIN;
        let idle = self.idle.get(&key).filter(enough);
        let idle = idle.or_else(|| self.idle_of_all.get(method).filter(enough));
        // Of servers that were never idle, the quickest answers waited least.
        let quick = || self.any.get(method).map(|times| quicker_quarter(times));
        let drawn = match idle {
            Some(times) => times.get(rng.usize(..times.len())).copied(),
            None => quick().and_then(|times| times.get(rng.usize(..times.len().max(1))).copied()),
        };
        drawn.unwrap_or(Duration::from_millis(1))
    }

    /// How many times were measured by method: of idle servers, and of all.
    pub(crate) fn methods(&self) -> impl Iterator<Item = (&str, usize, usize)> {
        self.any.iter().map(|(method, any)| {
            let idle = self.idle_of_all.get(method).map_or(0, Vec::len);
            (&**method, idle, any.len())
        })
    }
}

fn quicker_quarter(times: &[Duration]) -> Vec<Duration> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.truncate((sorted.len() / 4).max(1));
    sorted
}

/// A transaction, as far as one Call-ID has few.
fn key(message: &Message<'_>) -> Option<(u64, u32, u8)> {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let cseq = message.cseq().ok()?;
    let mut hasher = DefaultHasher::new();
    message.call_id().ok()?.hash(&mut hasher);
    let method = cseq.method.as_bytes();
    Some((
        hasher.finish(),
        cseq.number,
        method
            .iter()
            .fold(0, |sum: u8, byte| sum.wrapping_mul(31) ^ byte),
    ))
}

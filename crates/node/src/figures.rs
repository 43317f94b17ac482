//! The figures of a node: what each is called, what it counts in, what it means, how it is read.
//!
//! Metrics, `ctl status` and whatever else shows figures goes through these tables, so that they all
//! tell the same. Counts with a reason are in [`stats`](crate::stats).

use std::{sync::Arc, time::Duration};

use balance::Health;
use overload::Algorithm;

use crate::{
    config::{Connections, Limits},
    edges::PeerView,
    member::Member,
    shared::Shared,
    stats::{Event, WorkerStats},
};

/// A number that a subject of type `S` has.
#[derive(Clone, Copy, Debug)]
pub struct Figure<S> {
    /// Its name: lower case, words joined by `_`, without the unit.
    pub name: &'static str,
    /// What it counts in.
    pub unit: Unit,
    /// Whether it only grows.
    pub kind: Kind,
    /// What it means.
    pub help: &'static str,
    read: fn(&S) -> Option<Value>,
}

/// What a figure counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things, or nothing.
    None,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
}

/// Whether a figure only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It counts from the start of the node on.
    Counter,
    /// It comes and goes.
    Gauge,
}

/// The value of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A whole number.
    Count(u64),
    /// Any other.
    Number(f64),
}

impl Value {
    /// As a number.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Count(count) => count as f64,
            Self::Number(number) => number,
        }
    }
}

impl<S> Figure<S> {
    /// The value; none: it is not known yet.
    #[must_use]
    pub fn read(&self, subject: &S) -> Option<Value> {
        (self.read)(subject)
    }

    /// The name with the unit behind it.
    #[must_use]
    pub fn full_name(&self) -> String {
        match self.unit {
            Unit::None => self.name.to_owned(),
            Unit::Seconds => format!("{}_seconds", self.name),
            Unit::Bytes => format!("{}_bytes", self.name),
        }
    }

    const fn gauge(name: &'static str, help: &'static str, read: fn(&S) -> Option<Value>) -> Self {
        Self {
            name,
            unit: Unit::None,
            kind: Kind::Gauge,
            help,
            read,
        }
    }

    const fn counter(
        name: &'static str,
        help: &'static str,
        read: fn(&S) -> Option<Value>,
    ) -> Self {
        Self {
            kind: Kind::Counter,
            ..Self::gauge(name, help, read)
        }
    }

    const fn bytes(name: &'static str, help: &'static str, read: fn(&S) -> Option<Value>) -> Self {
        Self {
            unit: Unit::Bytes,
            ..Self::gauge(name, help, read)
        }
    }

    const fn seconds(
        name: &'static str,
        help: &'static str,
        read: fn(&S) -> Option<Value>,
    ) -> Self {
        Self {
            unit: Unit::Seconds,
            ..Self::gauge(name, help, read)
        }
    }
}

/// A node at a moment.
#[derive(Clone, Debug)]
pub struct NodeAt {
    /// The node.
    pub shared: Arc<Shared>,
    /// The moment.
    pub now: Duration,
}

/// A server at a moment.
#[derive(Clone, Debug)]
pub struct ServerAt {
    /// The server.
    pub member: Arc<Member>,
    /// The slow start of its pool.
    pub slow_start: Duration,
    /// The moment.
    pub now: Duration,
}

/// A peer at a moment.
#[derive(Clone, Debug)]
pub struct PeerAt {
    /// The peer.
    pub peer: PeerView,
    /// The moment.
    pub now: Duration,
}

/// Figures of the whole node.
pub const NODE: &[Figure<NodeAt>] = &[
    Figure::gauge("draining", "1 while the node refuses new calls", |at| {
        flag(at.shared.is_draining())
    }),
    Figure::gauge("bans", "Sources that are banned", |at| {
        size(at.shared.guard().bans(at.now).len())
    }),
    Figure::gauge("sources", "Sources that have cost something lately", |at| {
        size(at.shared.guard().followed(at.now))
    }),
    Figure::gauge(
        "neighbours",
        "Neighbours that take part in overload control",
        |at| size(at.shared.neighbours().followed()),
    ),
    Figure::gauge(
        "overload_capacity",
        "New requests per second that the node divides among its neighbours while it is overloaded",
        |at| number(at.shared.neighbours().capacity()?),
    ),
    Figure::seconds("uptime", "Time since the start of the node", |at| {
        seconds(at.now)
    }),
];

/// Bounds of the node; [`Limits`] says what happens at each.
pub const LIMITS: &[Figure<Limits>] = &[
    Figure::gauge("sessions", "Sessions held at most", |l| size(l.sessions)),
    Figure::gauge("transactions", "Transactions open at most", |l| {
        size(l.transactions)
    }),
    Figure::gauge(
        "held_transactions",
        "Transactions of stateful routes at most",
        |l| size(l.held_transactions),
    ),
    Figure::gauge(
        "registrations",
        "REGISTERs that wait for the store at most, and as many calls of users",
        |l| size(l.registrations),
    ),
    Figure::gauge("retained_requests", "INVITEs kept at most", |l| {
        size(l.retained_requests)
    }),
    Figure::gauge("message_bytes", "Bytes of a message at most", |l| {
        size(l.message_bytes)
    }),
    Figure::gauge("headers", "Header fields of a message at most", |l| {
        size(l.headers)
    }),
    Figure::gauge(
        "handover_queue",
        "Messages that wait for a worker at most",
        |l| size(l.handover_queue),
    ),
    Figure::gauge("strangers", "Strangers who are followed at most", |l| {
        size(l.strangers)
    }),
];

/// Bounds of connections; [`Connections`] says what happens at each.
pub const CONNECTION_LIMITS: &[Figure<Connections>] = &[
    Figure::gauge("connections", "Connections at most", |c| size(c.total)),
    Figure::gauge(
        "connections_per_source",
        "Connections that one source opens at most",
        |c| size(c.per_source),
    ),
    Figure::gauge(
        "handshakes",
        "Peers that have not ended their handshake at most, and as many connections that are being opened",
        |c| size(c.handshakes),
    ),
    Figure::gauge(
        "connections_per_server",
        "Connections that each worker keeps open to each server",
        |c| size(c.per_server),
    ),
    Figure::seconds(
        "handshake",
        "Time that a connection takes to open at most",
        |c| seconds(c.handshake),
    ),
    Figure::seconds(
        "message",
        "Time that a message takes to arrive at most, from its first byte on",
        |c| seconds(c.message),
    ),
    Figure::seconds(
        "idle",
        "Time that a connection carries nothing at most",
        |c| seconds(c.idle),
    ),
    Figure::bytes("queue", "Bytes that wait on a connection at most", |c| {
        size(c.queue_bytes)
    }),
    Figure::bytes(
        "connection_memory",
        "Memory of what waits on all connections at most",
        |c| size(c.total_bytes),
    ),
];

/// Figures of a server.
pub const SERVER: &[Figure<ServerAt>] = &[
    Figure::gauge("calls", "Open calls", |at| count(at.member.server.calls())),
    Figure::gauge("transactions", "Open transactions", |at| {
        count(at.member.server.transactions())
    }),
    Figure::gauge(
        "work",
        "Sum of the costs of the open transactions; a BYE costs 1",
        |at| number(at.member.server.work()),
    ),
    Figure::gauge(
        "calls_elsewhere",
        "Open calls that other edges have reported",
        |at| count(at.member.server.elsewhere().calls),
    ),
    Figure::gauge(
        "transactions_elsewhere",
        "Transactions that other edges have reported to stay open",
        |at| count(at.member.server.elsewhere().transactions),
    ),
    Figure::gauge(
        "capacity",
        "Share of the calls relative to other servers",
        |at| number(at.member.server.capacity()),
    ),
    Figure::gauge(
        "effective_capacity",
        "The part of the capacity that is in use during a slow start",
        |at| number(at.member.server.effective_capacity(at.now, at.slow_start)),
    ),
    Figure::gauge("up", "1 while the server answers", |at| {
        flag(at.member.server.health() == Health::Up)
    }),
    Figure::gauge("draining", "1 while the operator drains the server", |at| {
        flag(at.member.server.is_draining())
    }),
    Figure::gauge(
        "removed",
        "1 after the server has left the configuration",
        |at| flag(at.member.server.is_removed()),
    ),
    Figure::gauge(
        "wanted_rate",
        "New requests per second that the server wants at most. RFC 7415",
        |at| told(at, Algorithm::Rate, 1.0),
    ),
    Figure::gauge(
        "unwanted_share",
        "Share of the requests that the server does not want. RFC 7339",
        |at| told(at, Algorithm::Loss, 100.0),
    ),
    Figure::gauge(
        "unanswered",
        "Requests that begin something and wait for their first response, without those that are taken for lost",
        |at| count(at.member.unanswered().into()),
    ),
    Figure::gauge(
        "unanswered_calls_max",
        "INVITEs that may wait for their first response, as learned; only while the server answers slowly",
        |at| count(at.member.room.calls.get(at.now)?.into()),
    ),
    Figure::gauge(
        "unanswered_others_max",
        "The same of other requests that begin something",
        |at| count(at.member.room.others.get(at.now)?.into()),
    ),
    Figure::counter("placed", "Arrivals placed on the server", |at| {
        count(at.member.server.placed())
    }),
    Figure::counter("failed", "Requests that the server failed", |at| {
        count(at.member.server.failed())
    }),
    Figure::counter(
        "underflows",
        "Requests or calls closed that were not open; more than 0 is a bug in Sipyard",
        |at| count(at.member.server.underflows()),
    ),
    Figure::seconds(
        "first_response",
        "Weighted mean time to the first response of the last requests",
        |at| seconds(at.member.server.first_response_time()?),
    ),
    Figure::seconds(
        "final_response",
        "Weighted mean time to the 2xx of the last requests",
        |at| seconds(at.member.server.final_response_time()?),
    ),
];

/// Figures of another edge before the same servers.
pub const PEER: &[Figure<PeerAt>] = &[
    Figure::gauge(
        "heard",
        "1 while what the peer reports counts; a silent peer's share does not",
        |at| flag(at.peer.is_heard),
    ),
    Figure::seconds("age", "Time since the latest report of the peer", |at| {
        seconds(at.now.saturating_sub(at.peer.heard_at))
    }),
    Figure::gauge("calls", "Open calls that the peer has reported", |at| {
        count(at.peer.calls)
    }),
    Figure::gauge("rate", "Arrivals that the peer places per second", |at| {
        count(at.peer.rate.into())
    }),
    Figure::counter("reports", "Reports of the peer that were taken", |at| {
        count(at.peer.reports)
    }),
];

/// Sizes of a worker's tables. [`events`] has what it counts.
pub const WORKER: &[Figure<WorkerStats>] = &[
    Figure::gauge("sessions_active", "Sessions that are alive", |w| {
        count(w.sessions_active())
    }),
    Figure::gauge(
        "sessions_expired",
        "Ended sessions that are kept for late messages",
        |w| count(w.sessions_expired()),
    ),
    Figure::gauge("transactions", "Open transactions", |w| {
        count(w.transactions())
    }),
    Figure::gauge(
        "held_transactions",
        "Transactions of stateful routes, including ended ones that wait for retransmissions",
        |w| count(w.held_transactions()),
    ),
    Figure::bytes(
        "retained_requests",
        "Memory of INVITEs that may go to another server",
        |w| count(w.retained_bytes()),
    ),
    Figure::bytes(
        "held_transactions",
        "Memory of the messages of stateful routes",
        |w| count(w.held_bytes()),
    ),
    Figure::bytes(
        "unlocated_requests",
        "Memory of requests that wait for the DNS",
        |w| count(w.unlocated_bytes()),
    ),
    Figure::bytes(
        "registrations",
        "Memory of REGISTERs that wait for the store",
        |w| count(w.registrations_bytes()),
    ),
    Figure::gauge(
        "share_let_in",
        "Share of new calls that are let in; 1 unless there are more than can be served",
        |w| number(w.shares()[0]),
    ),
    Figure::gauge(
        "registers_let_in",
        "Share of REGISTERs that are let in; 1 unless there are more than can be served",
        |w| number(w.shares()[1]),
    ),
    Figure::gauge(
        "state_held_per_second",
        "Requests of routes with dynamic state that are held here",
        |w| number(w.custody()[0]).filter(is_known),
    ),
    Figure::gauge(
        "state_room_per_second",
        "Requests of routes with dynamic state that could be held here",
        |w| number(w.custody()[1]).filter(is_known),
    ),
    Figure::bytes(
        "lobby",
        "Memory of new requests that wait while the node is behind",
        |w| count(w.lobby_bytes()),
    ),
    Figure::bytes(
        "handover_queue",
        "Messages that other workers received and that wait for this one",
        |w| count(w.handover_bytes()),
    ),
];

/// What a worker counts: name, meaning, value.
pub fn events(stats: &WorkerStats) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
    let events = Event::ALL.iter();
    events.map(|&event| (event.label(), event.help(), stats.event(event)))
}

/// What a server tells by this algorithm; none: it tells nothing so.
fn told(at: &ServerAt, algorithm: Algorithm, unit: f64) -> Option<Value> {
    let terms = at.member.control.restriction.terms(at.now)?;
    let is_it = terms.algorithm == algorithm;
    number(f64::from(terms.value) / unit).filter(|_| is_it)
}

fn count(count: u64) -> Option<Value> {
    Some(Value::Count(count))
}

fn size(size: usize) -> Option<Value> {
    count(size as u64)
}

fn flag(is_so: bool) -> Option<Value> {
    count(is_so.into())
}

fn number(number: f64) -> Option<Value> {
    Some(Value::Number(number))
}

fn is_known(value: &Value) -> bool {
    match value {
        Value::Count(_) => true,
        Value::Number(number) => number.is_finite(),
    }
}

fn seconds(time: Duration) -> Option<Value> {
    number(time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two limits were in the configuration and not in the metrics.
    #[test]
    fn every_limit_has_a_figure() {
        let limits = Limits {
            sessions: 1,
            transactions: 2,
            held_transactions: 3,
            registrations: 4,
            retained_requests: 5,
            message_bytes: 6,
            headers: 7,
            handover_queue: 8,
            strangers: 9,
        };
        let shown = LIMITS.iter().map(|figure| {
            let value = figure.read(&limits).unwrap();
            format!("{}: {}", figure.name, value.as_f64())
        });
        let shown: Vec<String> = shown.collect();
        assert_eq!(
            format!("Limits {{ {} }}", shown.join(", ")),
            format!("{limits:?}")
        );
    }

    #[test]
    fn every_limit_of_connections_has_a_figure() {
        let connections = Connections::default();
        let fields = format!("{connections:?}").matches(": ").count();
        let no_limits = ["flow_timer", "large_by_tcp"].len();
        let values = CONNECTION_LIMITS
            .iter()
            .map(|figure| figure.read(&connections));
        assert_eq!(values.flatten().count() + no_limits, fields);
    }
}

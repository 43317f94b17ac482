//! What the admin API tells of a node, as JSON: made here from the node's counters, read by `ctl`.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use balance::{Health, Ineligible};
use net::{Stats, Workers};
use node::{
    Member, PeerView, Shared, Snapshot,
    config::{Config, Limits},
    stats::{Dropped, Event, REPLIES, WorkerStats},
};
use serde::{Deserialize, Serialize};
use store::Address;

use crate::members::Members;

/// A node at one moment.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Status {
    /// The node's name.
    pub(crate) name: String,
    /// The program's version.
    pub(crate) version: String,
    /// Whether it takes new calls.
    pub(crate) state: State,
    /// Seconds since its start.
    pub(crate) uptime_s: f64,
    /// Where it listens.
    pub(crate) listeners: Vec<Listener>,
    /// Its pools, as configured.
    pub(crate) pools: Vec<Pool>,
    /// Servers that left the configuration and still have calls.
    pub(crate) removed: Vec<Server>,
    /// Its registrar.
    pub(crate) registrar: Option<Registrar>,
    /// The other edges before the same servers.
    pub(crate) peers: Vec<Peer>,
    /// Its workers.
    pub(crate) workers: Vec<Worker>,
    /// Its bounds, by their names in the configuration.
    pub(crate) limits: BTreeMap<String, u64>,
}

/// Whether a node takes new calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// It does.
    Serving,
    /// It is about to stop.
    Draining,
}

/// A socket address and its public name.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Listener {
    pub(crate) transport: String,
    pub(crate) address: SocketAddr,
    pub(crate) advertise: String,
}

/// A pool and its servers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Pool {
    pub(crate) name: String,
    pub(crate) policy: String,
    /// What a transaction of each method costs, as configured or learned.
    pub(crate) costs: BTreeMap<String, f64>,
    /// Whether costs and capacities are learned from live traffic.
    pub(crate) learns_costs: bool,
    /// Where servers come from that the configuration does not name one by one.
    pub(crate) sources: Vec<Source>,
    pub(crate) servers: Vec<Server>,
}

/// A registrar.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Registrar {
    pub(crate) domains: Vec<String>,
    /// Where its records are, as in the configuration but for passwords.
    pub(crate) store: String,
}

/// A name in a pool's `servers`, and whom it stands for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Source {
    pub(crate) name: String,
    /// Its servers in the pool, and those that are there for when none of the first is live.
    pub(crate) used: usize,
    pub(crate) reserve: usize,
    /// Why its servers may be out of date.
    pub(crate) problem: Option<String>,
}

/// A server of a pool.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Server {
    pub(crate) pool: String,
    pub(crate) address: SocketAddr,
    /// Whether it gets new calls, or why not.
    pub(crate) state: ServerState,
    /// Its configured share, and what is effective of it during a slow start.
    pub(crate) capacity: f64,
    pub(crate) effective_capacity: f64,
    /// Open calls.
    pub(crate) calls: u64,
    /// Open transactions, and the sum of their costs.
    pub(crate) transactions: u64,
    pub(crate) work: f64,
    /// What other edges have open on it: calls, and transactions that stay open for a while.
    pub(crate) calls_elsewhere: u64,
    pub(crate) transactions_elsewhere: u64,
    /// Placed and failed since the start.
    pub(crate) placed: u64,
    pub(crate) failed: u64,
    /// Weighted means of the last response times, in milliseconds.
    pub(crate) first_response_ms: Option<f64>,
    pub(crate) final_response_ms: Option<f64>,
}

/// Whether a server gets new calls, or why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ServerState {
    Up,
    /// It works up to its full share.
    SlowStart,
    Down,
    Draining,
    BackingOff,
    Removed,
}

impl ServerState {
    /// As people read it.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::SlowStart => "slow start",
            Self::Down => "down",
            Self::Draining => "draining",
            Self::BackingOff => "backing off",
            Self::Removed => "removed",
        }
    }
}

/// Another edge before the same servers, as it last reported.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Peer {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    /// Whether what it reported counts; a silent peer's share does not.
    pub(crate) is_heard: bool,
    /// Seconds since its latest report.
    pub(crate) age_s: f64,
    /// Arrivals that it places, per second.
    pub(crate) rate: u32,
    /// Its open calls on servers that are ours too.
    pub(crate) calls: u64,
    /// Reports of it that were taken.
    pub(crate) reports: u64,
}

/// One worker's tables and counters, the latter since the start.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Worker {
    pub(crate) sessions_active: u64,
    pub(crate) sessions_expired: u64,
    pub(crate) transactions: u64,
    pub(crate) events: BTreeMap<String, u64>,
    pub(crate) dropped: BTreeMap<String, u64>,
    /// Answers of the node's own, by status.
    pub(crate) replies: BTreeMap<String, u64>,
    /// Datagrams that its sockets did not receive or send, by reason.
    pub(crate) lost: BTreeMap<String, u64>,
}

/// What was refused, and why.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Refused {
    pub(crate) problems: Vec<String>,
}

/// What was done.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Done {
    pub(crate) done: String,
}

/// The node at `now`, which is also its age.
pub(crate) fn status(
    shared: &Shared,
    workers: &Workers,
    members_of: &Members,
    store: Option<&Address>,
    now: Duration,
) -> Status {
    let snapshot = shared.snapshot();
    let config = snapshot.config();
    Status {
        name: config.name.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        state: if shared.is_draining() {
            State::Draining
        } else {
            State::Serving
        },
        uptime_s: now.as_secs_f64(),
        listeners: listeners(config),
        pools: pools(&snapshot, members_of, now),
        removed: members(&snapshot)
            .filter(|member| member.server.is_removed())
            .map(|member| server(member, Duration::ZERO, now))
            .collect(),
        registrar: registrar(config, store),
        peers: shared.peers().iter().map(|view| peer(view, now)).collect(),
        workers: shared
            .workers()
            .iter()
            .enumerate()
            .map(|(number, stats)| worker(stats, &workers.stats(number)))
            .collect(),
        limits: limits(&config.limits),
    }
}

fn registrar(config: &Config, store: Option<&Address>) -> Option<Registrar> {
    Some(Registrar {
        domains: config.registrar.as_ref()?.domains.clone(),
        store: store?.to_string(),
    })
}

/// The servers that are configured, and removed ones that have something open.
pub(crate) fn members(snapshot: &Snapshot) -> impl Iterator<Item = &Member> {
    let members = snapshot.members().iter().flatten().map(AsRef::as_ref);
    members.filter(|Member { server, .. }| {
        !server.is_removed() || server.calls() + server.transactions() > 0
    })
}

/// Why a server gets no new calls, or whether it gets fewer than its share.
pub(crate) fn state_of(member: &Member, slow_start: Duration, now: Duration) -> ServerState {
    let server = &member.server;
    match server.eligibility(now) {
        Ok(()) if server.effective_capacity(now, slow_start) < server.capacity() => {
            ServerState::SlowStart
        }
        Ok(()) | Err(Ineligible::AboveBound | Ineligible::OtherCluster) => ServerState::Up,
        Err(Ineligible::Removed) => ServerState::Removed,
        Err(Ineligible::Draining) => ServerState::Draining,
        Err(Ineligible::Down) => ServerState::Down,
        Err(Ineligible::BackingOff) => ServerState::BackingOff,
    }
}

/// Whether a server answers, for the gauge.
pub(crate) fn is_up(member: &Member, now: Duration) -> bool {
    member.server.health(now) == Health::Up
}

fn listeners(config: &Config) -> Vec<Listener> {
    let listener = |listener: &node::config::Listener| Listener {
        transport: "udp".to_owned(),
        address: listener.address,
        advertise: listener.advertise.clone(),
    };
    config.listeners.iter().map(listener).collect()
}

fn pools(snapshot: &Snapshot, members_of: &Members, now: Duration) -> Vec<Pool> {
    let pool = |config: &node::config::Pool| Pool {
        name: config.name.clone(),
        policy: config.policy.to_string(),
        costs: config.costs.iter().cloned().collect(),
        learns_costs: config.learn_costs,
        sources: members_of.view(config),
        servers: members(snapshot)
            .filter(|member| member.pool == config.name && !member.server.is_removed())
            .map(|member| server(member, config.slow_start, now))
            .collect(),
    };
    snapshot.config().pools.iter().map(pool).collect()
}

fn server(member: &Member, slow_start: Duration, now: Duration) -> Server {
    let ms = |time: Option<Duration>| time.map(|time| time.as_secs_f64() * 1e3);
    let server = &member.server;
    Server {
        pool: member.pool.clone(),
        address: member.address,
        state: state_of(member, slow_start, now),
        capacity: server.capacity(),
        effective_capacity: server.effective_capacity(now, slow_start),
        calls: server.calls(),
        transactions: server.transactions(),
        work: server.work(),
        calls_elsewhere: server.elsewhere().calls,
        transactions_elsewhere: server.elsewhere().transactions,
        placed: server.placed(),
        failed: server.failed(),
        first_response_ms: ms(server.first_response_time()),
        final_response_ms: ms(server.final_response_time()),
    }
}

/// A peer as people read it.
fn peer(view: &PeerView, now: Duration) -> Peer {
    Peer {
        name: view.name.clone(),
        address: view.address,
        is_heard: view.is_heard,
        age_s: now.saturating_sub(view.heard_at).as_secs_f64(),
        rate: view.rate,
        calls: view.calls,
        reports: view.reports,
    }
}

fn worker(stats: &WorkerStats, sockets: &Stats) -> Worker {
    let named = |(name, number): (&str, u64)| (name.to_owned(), number);
    let events = Event::ALL.map(|(event, name)| (name, stats.event(event)));
    let dropped = Dropped::ALL.map(|(reason, name)| (name, stats.dropped(reason)));
    Worker {
        sessions_active: stats.sessions_active(),
        sessions_expired: stats.sessions_expired(),
        transactions: stats.transactions(),
        events: events.into_iter().map(named).collect(),
        dropped: dropped.into_iter().map(named).collect(),
        replies: replies(stats).collect(),
        lost: lost(sockets).into_iter().map(named).collect(),
    }
}

/// Datagrams that a worker's sockets did not receive or send, by reason.
pub(crate) fn lost(sockets: &Stats) -> [(&'static str, u64); 6] {
    [
        ("receive_buffer_full", sockets.receive_dropped),
        ("receive_error", sockets.receive_errors),
        ("send_too_long", sockets.send_too_long),
        ("send_unreachable", sockets.send_unreachable),
        ("send_no_room", sockets.send_no_room),
        ("send_refused", sockets.send_refused),
    ]
}

/// Answers of the node's own, by status.
pub(crate) fn replies(stats: &WorkerStats) -> impl Iterator<Item = (String, u64)> {
    let label = |status: u16| match status {
        0 => "other".to_owned(),
        status => status.to_string(),
    };
    let places = REPLIES.into_iter().enumerate();
    places.map(move |(place, status)| (label(status), stats.replies(place)))
}

fn limits(limits: &Limits) -> BTreeMap<String, u64> {
    [
        ("sessions", limits.sessions),
        ("transactions", limits.transactions),
        ("registrations", limits.registrations),
        ("retained_requests", limits.retained_requests),
        ("message_bytes", limits.message_bytes),
        ("headers", limits.headers),
        ("handover_queue", limits.handover_queue),
    ]
    .into_iter()
    .map(|(name, limit)| (name.to_owned(), limit as u64))
    .collect()
}

//! What the admin API tells of a node, as JSON: made here from the node's counters, read by `ctl`.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use balance::Ineligible;
use net::{ConnectionStats, Stats, Workers};
use node::{
    Ban, Member, PeerView, Shared, Snapshot,
    config::Config,
    figures::{self, Figure, NodeAt, PeerAt, ServerAt, Value},
    stats::{Dropped, REPLIES, WorkerStats},
};
use serde::{Deserialize, Serialize};
use serde_json::Number;
use store::Address;

use crate::{
    certificates::{self, Certificate},
    connections,
    dashboard::servers::Servers,
    members::Members,
};

/// A node at one moment.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Status {
    /// The node's name.
    pub(crate) name: String,
    /// The program's version.
    pub(crate) version: String,
    /// Whether it takes new calls.
    pub(crate) state: NodeState,
    /// [`figures::NODE`].
    #[serde(flatten)]
    pub(crate) figures: Figures,
    /// Where it listens.
    pub(crate) listeners: Vec<Listener>,
    /// What it shows to peers on secure connections.
    #[serde(default)]
    pub(crate) certificates: Vec<Certificate>,
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
    pub(crate) limits: Figures,
}

/// The figures of something, by their full names.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Figures(BTreeMap<String, Number>);

impl Figures {
    fn of<S>(table: &[Figure<S>], subject: &S) -> Self {
        let known = table.iter().filter_map(|figure| {
            let value = match figure.read(subject)? {
                Value::Count(count) => Number::from(count),
                Value::Number(number) => Number::from_f64(number)?,
            };
            Some((figure.full_name(), value))
        });
        Self(known.collect())
    }

    fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    /// The figure of this name; none: it is not known yet.
    pub(crate) fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name)?.as_f64()
    }

    /// The same of something that is counted.
    pub(crate) fn count(&self, name: &str) -> u64 {
        let count = self.0.get(name).and_then(Number::as_u64);
        count.unwrap_or_default()
    }
}

/// Whether a node takes new calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NodeState {
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
    /// Its connections; none: it has datagrams.
    #[serde(default)]
    pub(crate) connections: Option<usize>,
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
    /// The latest change of its health, and how long it was ago; none since the node's start.
    #[serde(default)]
    pub(crate) why: Option<String>,
    #[serde(default)]
    pub(crate) since_seconds: Option<u64>,
    /// [`figures::SERVER`].
    #[serde(flatten)]
    pub(crate) figures: Figures,
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
    /// It gets new calls only if no server before it may get them.
    Reserve,
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
            Self::Reserve => "reserve",
        }
    }
}

/// Another edge before the same servers, as it last reported.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Peer {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    /// [`figures::PEER`].
    #[serde(flatten)]
    pub(crate) figures: Figures,
}

/// One worker's tables and counters, the latter since the start.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Worker {
    /// [`figures::WORKER`] and [`figures::events`].
    #[serde(flatten)]
    pub(crate) figures: Figures,
    pub(crate) dropped: BTreeMap<String, u64>,
    /// Answers of the node's own, by status.
    pub(crate) replies: BTreeMap<String, u64>,
    /// Datagrams that its sockets did not receive or send, by reason.
    pub(crate) lost: BTreeMap<String, u64>,
    /// Its connections: what there is, and what has happened.
    #[serde(default)]
    pub(crate) connections: BTreeMap<String, u64>,
    /// Connections that were closed or refused, by reason.
    #[serde(default)]
    pub(crate) closed: BTreeMap<String, u64>,
}

/// What was refused, and why.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Refused {
    pub(crate) problems: Vec<String>,
}

impl Refused {
    /// Reads the body of an answer that refuses. What is no JSON is itself the problem: another program may stand before
    /// the node.
    pub(crate) fn read(body: &[u8]) -> Self {
        serde_json::from_slice(body).unwrap_or_else(|_| {
            let problem = match String::from_utf8_lossy(body).trim() {
                "" => "it refuses without a reason: is the node of another version?".to_owned(),
                text => text.to_owned(),
            };
            Self {
                problems: vec![problem],
            }
        })
    }
}

/// What was done.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Done {
    pub(crate) done: String,
}

/// All sources that are banned.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Bans {
    pub(crate) bans: Vec<BanView>,
}

/// A source that is banned.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct BanView {
    /// An IPv4 address, or an IPv6 network of 64 bits.
    pub(crate) source: String,
    /// How long it has been banned.
    pub(crate) age_seconds: u64,
    /// When the ban ends.
    pub(crate) left_seconds: u64,
    pub(crate) why: String,
}

/// The bans of a node at `now`.
pub(crate) fn bans(shared: &Shared, now: Duration) -> Bans {
    let view = |ban: &Ban| BanView {
        source: ban.source.to_string(),
        age_seconds: now.saturating_sub(ban.since).as_secs(),
        left_seconds: ban.until.saturating_sub(now).as_secs(),
        why: why(ban),
    };
    Bans {
        bans: shared.guard().bans(now).iter().map(view).collect(),
    }
}

/// Why a source is banned. Text of strangers is between quotes and has neither quotes nor control
/// characters.
pub(crate) fn why(ban: &Ban) -> String {
    let user = ban.last_user.escape_default();
    format!("too many failed logins, the last as \"{user}\"")
}

/// The node at `now`, which is also its age.
pub(crate) fn status(
    shared: &Arc<Shared>,
    workers: &Workers,
    members_of: &Members,
    store: Option<&Address>,
    news: &Servers,
    now: Duration,
) -> Status {
    let snapshot = shared.snapshot();
    let config = snapshot.config();
    Status {
        name: config.name.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        state: if shared.is_draining() {
            NodeState::Draining
        } else {
            NodeState::Serving
        },
        figures: Figures::of(
            figures::NODE,
            &NodeAt {
                shared: Arc::clone(shared),
                now,
            },
        ),
        listeners: listeners(config, workers, shared.workers().len()),
        certificates: certificates::shown(config, &workers.security()),
        pools: pools(&snapshot, members_of, news, now),
        removed: members(&snapshot)
            .filter(|member| member.server.is_removed())
            .map(|member| server(member, Duration::ZERO, news, now))
            .collect(),
        registrar: registrar(config, store),
        peers: shared
            .peers()
            .into_iter()
            .map(|view| peer(view, now))
            .collect(),
        workers: shared
            .workers()
            .iter()
            .enumerate()
            .map(|(number, stats)| {
                let connections = workers.connections(number);
                worker(stats, &workers.stats(number), &connections)
            })
            .collect(),
        limits: Figures::of(figures::LIMITS, &config.limits)
            .and(Figures::of(figures::CONNECTION_LIMITS, &config.connections)),
    }
}

fn registrar(config: &Config, store: Option<&Address>) -> Option<Registrar> {
    Some(Registrar {
        domains: config.registrar.as_ref()?.domains.clone(),
        store: store?.to_string(),
    })
}

/// The servers that are configured, and removed ones that have something open.
pub(crate) fn members(snapshot: &Snapshot) -> impl Iterator<Item = &Arc<Member>> {
    let members = snapshot.members().iter().flatten();
    members.filter(|member| {
        let server = &member.server;
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
        Ok(()) | Err(Ineligible::AboveBound | Ineligible::OtherCluster | Ineligible::InReserve) => {
            ServerState::Up
        }
        Err(Ineligible::Removed) => ServerState::Removed,
        Err(Ineligible::Draining) => ServerState::Draining,
        Err(Ineligible::Down) => ServerState::Down,
        Err(Ineligible::BackingOff) => ServerState::BackingOff,
    }
}

/// Where a node with so many workers listens.
pub(crate) fn listeners(config: &Config, workers: &Workers, count: usize) -> Vec<Listener> {
    let stats: Vec<_> = (0..count).map(|it| workers.connections(it)).collect();
    let connections = |place: usize| {
        let of = stats.iter().filter_map(|it| it.by_listener.get(place));
        of.sum()
    };
    let listener = |(place, listener): (usize, &node::config::Listener)| Listener {
        connections: listener.transport.is_stream().then(|| connections(place)),
        transport: listener.transport.label().to_owned(),
        address: listener.address,
        advertise: listener.advertise.clone(),
    };
    config.listeners.iter().enumerate().map(listener).collect()
}

fn pools(snapshot: &Snapshot, members_of: &Members, news: &Servers, now: Duration) -> Vec<Pool> {
    let pool = |config: &node::config::Pool| Pool {
        name: config.name.clone(),
        policy: config.policy.to_string(),
        costs: config.costs.iter().cloned().collect(),
        learns_costs: config.learn_costs,
        sources: members_of.view(config),
        servers: members(snapshot)
            .filter(|member| member.pool == config.name && !member.server.is_removed())
            .map(|member| Server {
                state: state_in(config, member, now),
                ..server(member, config.slow_start, news, now)
            })
            .collect(),
    };
    snapshot.config().pools.iter().map(pool).collect()
}

fn server(member: &Arc<Member>, slow_start: Duration, news: &Servers, now: Duration) -> Server {
    let latest = news.of(&member.pool, member.address);
    let at = ServerAt {
        member: Arc::clone(member),
        slow_start,
        now,
    };
    Server {
        pool: member.pool.clone(),
        address: member.address,
        state: state_of(member, slow_start, now),
        since_seconds: latest
            .as_ref()
            .map(|news| now.saturating_sub(news.at).as_secs()),
        why: latest.map(|news| news.why),
        figures: Figures::of(figures::SERVER, &at),
    }
}

/// The same in its pool, whose reserve gets no calls while others do.
fn state_in(pool: &node::config::Pool, member: &Member, now: Duration) -> ServerState {
    let is_it = |it: &&node::config::PoolServer| it.address == member.address;
    let is_in_reserve = pool
        .servers
        .iter()
        .find(is_it)
        .is_some_and(|it| it.priority > 0);
    match state_of(member, pool.slow_start, now) {
        ServerState::Up | ServerState::SlowStart if is_in_reserve => ServerState::Reserve,
        state => state,
    }
}

fn peer(peer: PeerView, now: Duration) -> Peer {
    Peer {
        name: peer.name.clone(),
        address: peer.address,
        figures: Figures::of(figures::PEER, &PeerAt { peer, now }),
    }
}

fn worker(stats: &WorkerStats, sockets: &Stats, of: &ConnectionStats) -> Worker {
    let mut figures = Figures::of(figures::WORKER, stats);
    let events = figures::events(stats);
    let events = events.map(|(name, _, count)| (name.to_owned(), count.into()));
    figures.0.extend(events);
    let named = |(name, number): (&str, u64)| (name.to_owned(), number);
    Worker {
        figures,
        dropped: dropped(stats).map(named).collect(),
        replies: replies(stats).collect(),
        lost: lost(sockets).into_iter().map(named).collect(),
        connections: connections::figures(of).map(named).collect(),
        closed: connections::closed(of).collect(),
    }
}

/// Messages that the node dropped, by reason.
pub(crate) fn dropped(stats: &WorkerStats) -> impl Iterator<Item = (&'static str, u64)> {
    let reasons = Dropped::ALL.iter();
    reasons.map(|&reason| (reason.label(), stats.dropped(reason)))
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

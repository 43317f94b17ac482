//! What the workers of a node share.

use std::{
    collections::VecDeque,
    mem,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use abuse::Guard;
use balance::ServerId;
use overload::Neighbours;

use crate::{
    admission::{lane::Lane, unruly::Unruly},
    changes::{Cause, Change, Changes},
    config::{Config, Pool, PoolServer, bytes_of},
    edges::PeerView,
    member::Member,
    snapshot::Snapshot,
    stats::{Dropped, WorkerStats},
    wire::keys::EdgeTag,
};

/// Servers that one process can know at a time: tables hold their numbers in 16 bits.
const SERVERS_MAX: usize = u16::MAX as usize;

/// The store is up for so long after it has answered.
const STORE_UP_FOR: Duration = Duration::from_secs(1);

const NEVER: u64 = u64::MAX;

/// Configuration, servers and counters of a node. The workers read an immutable [`Snapshot`]; a
/// reload builds the next and swaps it whole.
#[derive(Debug)]
pub struct Shared {
    snapshot: RwLock<Arc<Snapshot>>,
    generation: AtomicU64,
    falls: AtomicU64,
    suspicions: AtomicU64,
    changes: Changes,
    draining: AtomicBool,
    incarnation: AtomicU64,
    wall_zero_ms: AtomicU64,
    /// When messages were lost last, in nanoseconds.
    lost_at: AtomicU64,
    /// When the store has answered something last.
    store_answered_at: AtomicU64,
    peers: Mutex<Vec<PeerView>>,
    /// The names that the DNS has given addresses for, of those that are reached by TLS, the latest last.
    named: RwLock<VecDeque<(SocketAddr, Arc<str>)>>,
    /// The tags of other edges that are heard, and where they listen.
    edges: RwLock<Vec<(EdgeTag, SocketAddr)>>,
    guard: Guard,
    neighbours: Neighbours,
    unruly: Unruly,
    workers: Vec<WorkerStats>,
    /// What may wait for a worker.
    handover_bytes_max: usize,
}

/// Peers whose names are known from the DNS at most; one more makes the first forgotten.
const NAMED_MAX: usize = 1_024;

/// Why a configuration can't be taken while the node runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReloadError {
    /// This part is fixed at start.
    Fixed(&'static str),
    /// More servers than a process can know.
    TooManyServers,
}

impl std::fmt::Display for ReloadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fixed(what) => write!(f, "{what} can't change while the node runs: restart it"),
            Self::TooManyServers => write!(f, "more than {SERVERS_MAX} servers"),
        }
    }
}

impl std::error::Error for ReloadError {}

impl Shared {
    /// A node with this configuration and so many workers. All its servers are taken for up.
    ///
    /// # Errors
    /// When the configuration names more servers than a process can know.
    pub fn new(config: Config, workers: usize) -> Result<Self, ReloadError> {
        let members = next_members(&[], &config, None, |_, _| true)?;
        let limits = &config.limits;
        let handover_bytes_max = bytes_of(limits.handover_queue, limits.message_bytes);
        let strangers = limits.strangers;
        let snapshot = Snapshot::new(config, members);
        Ok(Self {
            handover_bytes_max,
            guard: Guard::new(snapshot.keys().guard(), strangers),
            neighbours: Neighbours::new(workers.max(1)),
            unruly: Unruly::default(),
            snapshot: RwLock::new(Arc::new(snapshot)),
            generation: AtomicU64::new(0),
            falls: AtomicU64::new(0),
            suspicions: AtomicU64::new(0),
            changes: Changes::default(),
            draining: AtomicBool::new(false),
            incarnation: AtomicU64::new(0),
            wall_zero_ms: AtomicU64::new(0),
            lost_at: AtomicU64::new(NEVER),
            store_answered_at: AtomicU64::new(NEVER),
            peers: Mutex::default(),
            edges: RwLock::default(),
            named: RwLock::default(),
            workers: (0..workers.max(1))
                .map(|_| WorkerStats::default())
                .collect(),
        })
    }

    /// Swaps the configuration whole. Servers that stay keep their ledgers and their health, but a
    /// server that probes took down is tried by calls if there are no probes any more; those that go
    /// get no new calls and drain; those that come start slowly. Calls are not touched.
    ///
    /// # Errors
    /// When something changed that is fixed at start; nothing has changed then.
    pub fn reload(&self, config: Config, now: Duration) -> Result<(), ReloadError> {
        let mut snapshot = self
            .snapshot
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        check_fixed(snapshot.config(), &config)?;
        let members = next_members(snapshot.members(), &config, Some(now), |_, _| true)?;
        let is_probed = |member: &Member| {
            let mut pools = config.pools.iter();
            pools.any(|pool| pool.name == member.pool && pool.probe.is_some())
        };
        for member in members.iter().flatten().filter(|member| !is_probed(member)) {
            member.server.judge_by_calls(now);
        }
        *snapshot = Arc::new(Snapshot::new(config, members).after(&snapshot));
        self.generation.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Gives a pool these servers, as a reload would that changes nothing else. Capacities that are not
    /// other ones than before stay as they were set in the meantime.
    ///
    /// # Errors
    /// When there are more servers than a process can know; nothing has changed then.
    pub fn set_servers(
        &self,
        pool: &str,
        servers: Vec<PoolServer>,
        now: Duration,
    ) -> Result<(), ReloadError> {
        let mut snapshot = self
            .snapshot
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let mut config = snapshot.config().clone();
        let mut before = Vec::new();
        if let Some(pool) = config.pools.iter_mut().find(|it| it.name == pool) {
            before = mem::replace(&mut pool.servers, servers);
        }
        let is_same = |before: &PoolServer, server: &PoolServer| {
            (before.address, before.capacity) == (server.address, server.capacity)
        };
        let is_new = |of: &str, server: &PoolServer| {
            of == pool && !before.iter().any(|before| is_same(before, server))
        };
        let members = next_members(snapshot.members(), &config, Some(now), is_new)?;
        *snapshot = Arc::new(Snapshot::new(config, members).after(&snapshot));
        self.generation.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Gives a pool the costs that were learned, in place of those it had.
    pub(crate) fn set_costs(&self, pool: &str, costs: Vec<(String, f64)>) {
        let mut snapshot = self
            .snapshot
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let mut config = snapshot.config().clone();
        for pool in config.pools.iter_mut().filter(|p| p.name == pool) {
            pool.costs
                .retain(|(known, _)| costs.iter().all(|(learned, _)| learned != known));
            pool.costs.extend_from_slice(&costs);
            pool.costs.sort_by(|(left, _), (right, _)| left.cmp(right));
        }
        let next = Snapshot::new(config, snapshot.members().to_vec());
        *snapshot = Arc::new(next.after(&snapshot));
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// The configuration and servers of this moment.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What is known of the sources of messages: whom the node hears, who is banned.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Those that send to the node and may be told how much to send: RFC 7339.
    pub fn neighbours(&self) -> &Neighbours {
        &self.neighbours
    }

    /// Neighbours whose new requests wait as those of strangers do.
    pub(crate) fn unruly(&self) -> &Unruly {
        &self.unruly
    }

    /// Hosts whose new requests have lanes though the node knows them, as they send more than their share whatever they are told.
    pub fn unruly_hosts(&self) -> Vec<IpAddr> {
        self.unruly.hosts()
    }

    /// How often [`Self::unruly_hosts`] have changed.
    pub fn unruly_changes(&self) -> u64 {
        self.unruly.changes()
    }

    /// The lane of a datagram from a host; none: it comes in at the listener's own socket.
    pub fn lane_of(&self, snapshot: &Snapshot, bytes: &[u8], host: IpAddr) -> Option<Lane> {
        let lane = Lane::of(bytes, snapshot.urgent());
        let has_it = match lane {
            Lane::OfCalls => !snapshot.is_known(host),
            _ => self.has_lanes(snapshot, host),
        };
        has_it.then_some(lane)
    }

    /// Whether new requests of a host wait in [lanes](crate::Lane) while too much comes.
    pub fn has_lanes(&self, snapshot: &Snapshot, host: IpAddr) -> bool {
        !snapshot.is_known(host) || self.unruly.contains(host)
    }

    /// The workers' counters.
    pub fn workers(&self) -> &[WorkerStats] {
        &self.workers
    }

    /// New calls are refused from here on; open ones go on.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// New calls are taken again.
    pub fn undrain(&self) {
        self.draining.store(false, Ordering::Relaxed);
    }

    /// Whether new calls are refused.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Tells which life of the node this is: a number greater than at its last start, such as the
    /// wall clock's. Peers drop reports of an earlier life.
    pub fn set_incarnation(&self, incarnation: u64) {
        self.incarnation.store(incarnation, Ordering::Relaxed);
    }

    /// Tells which wall time it is, since the UNIX epoch. Said again from time to time, it follows a
    /// clock that is set.
    pub fn set_wall(&self, now: Duration, wall: Duration) {
        let zero = wall.saturating_sub(now).as_millis() as u64;
        self.wall_zero_ms.store(zero, Ordering::Relaxed);
    }

    /// The wall time since the UNIX epoch.
    pub(crate) fn wall(&self, now: Duration) -> Duration {
        Duration::from_millis(self.wall_zero_ms.load(Ordering::Relaxed)) + now
    }

    pub(crate) fn incarnation(&self) -> u64 {
        self.incarnation.load(Ordering::Relaxed)
    }

    /// The other edges before the same servers, as they were at the last report.
    pub fn peers(&self) -> Vec<PeerView> {
        self.peers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn set_peers(&self, peers: Vec<PeerView>) {
        *self.peers.lock().unwrap_or_else(PoisonError::into_inner) = peers;
    }

    /// What a peer is called whose certificate is to be checked: as it is configured, or as the DNS was asked. RFC 5922 §7.1
    pub fn name_at(&self, address: SocketAddr) -> Option<Arc<str>> {
        if let Some(host) = self.snapshot().host_at(address) {
            return Some(host.into());
        }
        let named = self.named.read().unwrap_or_else(PoisonError::into_inner);
        let found = named.iter().rev().find(|(at, _)| *at == address);
        found.map(|(_, name)| Arc::clone(name))
    }

    /// The DNS has given this address, which is reached by TLS, for a name.
    pub(crate) fn set_name(&self, address: SocketAddr, name: &str) {
        if self.name_at(address).is_some_and(|known| *known == *name) {
            return;
        }
        let mut named = self.named.write().unwrap_or_else(PoisonError::into_inner);
        named.retain(|(at, _)| *at != address);
        if named.len() == NAMED_MAX {
            named.pop_front();
        }
        named.push_back((address, name.into()));
    }

    /// Where the edge with this tag listens, if it is heard. Only a request for a connection of another edge asks,
    /// so the lock is none of the steady path's.
    pub(crate) fn edge_at(&self, edge: EdgeTag) -> Option<SocketAddr> {
        let edges = self.edges.read().unwrap_or_else(PoisonError::into_inner);
        let found = edges.iter().find(|(tag, _)| *tag == edge);
        found.map(|&(_, address)| address)
    }

    pub(crate) fn set_edges(&self, edges: Vec<(EdgeTag, SocketAddr)>) {
        *self.edges.write().unwrap_or_else(PoisonError::into_inner) = edges;
    }

    /// Open transactions of all workers.
    pub fn transactions(&self) -> u64 {
        self.workers.iter().map(WorkerStats::transactions).sum()
    }

    /// Lets so many bytes wait for a worker, up to the
    /// [budget](crate::config::Limits::handover_queue); [`Self::took_over`] is to follow. False: there
    /// is no room for them.
    pub fn may_hand_over(&self, worker: usize, bytes: usize) -> bool {
        self.workers[worker].add_handover(bytes, self.handover_bytes_max)
    }

    /// Whether at least half of the bytes wait for a worker that may.
    pub fn is_half_handed_over(&self, worker: usize) -> bool {
        2 * self.workers[worker].handover_bytes() >= self.handover_bytes_max as u64
    }

    /// So many bytes wait for a worker no longer.
    pub fn took_over(&self, worker: usize, bytes: usize) {
        self.workers[worker].remove_handover(bytes);
    }

    /// Counts a message that the queue to another worker had no room for.
    pub fn count_handover_dropped(&self, worker: usize, now: Duration) {
        self.workers[worker].drop_one(Dropped::HandoverFull);
        self.lose(now);
    }

    /// Messages have been lost here, up to now: a server's answer may have been one of them, so no
    /// silence that lasts already tells of a server.
    pub fn lose(&self, now: Duration) {
        self.lost_at.store(now.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Whether messages were lost here at that time or since.
    pub(crate) fn has_lost_since(&self, since: Duration) -> bool {
        let lost_at = self.lost_at.load(Ordering::Relaxed);
        lost_at != NEVER && lost_at >= since.as_nanos() as u64
    }

    pub(crate) fn note_store_answer(&self, now: Duration) {
        let now = now.as_nanos() as u64;
        self.store_answered_at.store(now, Ordering::Relaxed);
    }

    /// Whether the store, or a copy of it, has answered something lately. What it does not answer then is out of reach alone.
    pub(crate) fn is_store_up(&self, now: Duration) -> bool {
        let answered_at = self.store_answered_at.load(Ordering::Relaxed);
        answered_at != NEVER && now <= Duration::from_nanos(answered_at) + STORE_UP_FOR
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// A server's health has changed. When it went down, every worker closes what it has open there.
    pub(crate) fn tell(&self, member: &Member, cause: Cause) {
        self.changes.push(member, cause);
        if cause.is_fall() {
            self.falls.fetch_add(1, Ordering::Release);
        }
    }

    /// The changes of the servers' health since the last call, the latest 4,096 at most.
    pub fn take_changes(&self) -> impl Iterator<Item = Change> {
        self.changes.take().into_iter()
    }

    /// A server is suspected: the first worker probes it at once.
    pub(crate) fn ask_probes(&self) {
        self.suspicions.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn suspicions(&self) -> u64 {
        self.suspicions.load(Ordering::Acquire)
    }

    pub(crate) fn falls(&self) -> u64 {
        self.falls.load(Ordering::Acquire)
    }
}

fn check_fixed(old: &Config, new: &Config) -> Result<(), ReloadError> {
    let fixed = [
        (old.secret == new.secret, "node.secret"),
        (old.listeners == new.listeners, "listen"),
        (old.limits == new.limits, "limits"),
    ];
    match fixed.into_iter().find(|(same, _)| !same) {
        Some((_, what)) => Err(ReloadError::Fixed(what)),
        None => Ok(()),
    }
}

/// Members by number: those of `old` keep theirs, free numbers are used again. Those of a pool that are
/// to have another capacity get it. `now` is none at the start.
fn next_members(
    old: &[Option<Arc<Member>>],
    config: &Config,
    now: Option<Duration>,
    has_other_capacity: impl Fn(&str, &PoolServer) -> bool,
) -> Result<Vec<Option<Arc<Member>>>, ReloadError> {
    let linger = config.timers.t1 * 64;
    let mut members: Vec<_> = old
        .iter()
        .map(|member| member.clone().filter(|m| m.is_needed(now, linger)))
        .collect();
    let wanted = |pool: &str, address| {
        let mut servers = config
            .pools
            .iter()
            .filter(|p| p.name == pool)
            .flat_map(|p| &p.servers);
        servers.any(|server| server.address == address)
    };
    let kept = members.iter().flatten().count();
    if kept + number_of_new(&members, config) > SERVERS_MAX {
        return Err(ReloadError::TooManyServers);
    }
    for member in members.iter().flatten() {
        if !wanted(&member.pool, member.address) {
            member.server.remove();
        }
    }
    for pool in &config.pools {
        for wanted in &pool.servers {
            let known = members
                .iter_mut()
                .flatten()
                .find(|m| m.pool == pool.name && m.address == wanted.address);
            if let Some(member) = known {
                if !member.is_reached_as(wanted) {
                    *member = Arc::new(member.reached_as(wanted));
                }
                if has_other_capacity(&pool.name, wanted)
                    && (member.forget_weight() || !pool.learn_costs)
                {
                    member.server.set_capacity(wanted.capacity);
                }
                if let Some(now) = now.filter(|_| member.server.is_removed()) {
                    member.server.add(now);
                }
                continue;
            }
            let place = members
                .iter()
                .position(Option::is_none)
                .unwrap_or(members.len());
            let mut known = members.iter().flatten();
            let known = known.find(|member| member.address == wanted.address);
            let of_address = known.map(|member| (member.control.clone(), member.room.clone()));
            let of_address = of_address.unwrap_or_default();
            let id = ServerId(place as u16);
            let member = Arc::new(Member::new(id, &pool.name, wanted, of_address, now));
            if place == members.len() {
                members.push(None);
            }
            members[place] = Some(member);
        }
    }
    Ok(members)
}

/// Servers that no member is.
fn number_of_new(members: &[Option<Arc<Member>>], config: &Config) -> usize {
    let is_known = |pool: &str, server: &PoolServer| {
        let mut known = members.iter().flatten();
        known.any(|member| member.pool == pool && member.address == server.address)
    };
    let new = |pool: &Pool| {
        let servers = pool.servers.iter();
        servers
            .filter(|server| !is_known(&pool.name, server))
            .count()
    };
    config.pools.iter().map(new).sum()
}

//! Servers that can replace each other, and the policy that chooses among them.

mod down;
mod reserve;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use crate::cost::Cost;
use crate::hash;
use crate::ledger::Open;
use crate::lottery::{Candidate, Lottery};
use crate::maglev::Table;
use crate::policy::Policy;
use crate::round_robin::Turns;
use crate::server::Server;
use crate::standing::Ineligible;
use crate::{ServerId, nanos};

pub use down::LAST_RESORT_EVERY;

/// How often a choice is made again because another thread was faster. Each time somebody has
/// placed something, so this is rarely reached; beyond it the last choice is good enough.
const ATTEMPTS: usize = 16;

/// How far above its fair share of calls `user-hash` and `bounded-hash` let a server go.
const BOUND: f64 = 1.25;

/// The part of the servers that are not hot to `prequal`: 2^-0.25, as its authors have it.
const COLD: f64 = 0.84;

/// How many servers `prequal` looks at to tell how many open transactions make one hot.
const SAMPLE: usize = 16;

/// Added to the score of hot servers, so that any other is lower: seconds, eleven days.
const HOT: f64 = 1e6;

/// What a server without response times is taken for by policies that multiply: seconds.
const UNMEASURED: f64 = 1e-9;

/// A pool: servers that can all take an arrival, and the policy.
///
/// If no server is eligible, servers that only back off get the arrival. If all are down, the pool
/// places one arrival in [`LAST_RESORT_EVERY`] on any of them, and nothing else. A quick refusal
/// lets the caller try elsewhere; a guess would make it wait for a server that does not answer.
#[derive(Debug)]
pub struct Pool {
    policy: Policy,
    servers: Vec<Arc<Server>>,
    slow_start: u64,
    turns: Turns,
    /// Empty but for `maglev`.
    table: Table,
    /// The hash of each server's cluster; empty: they are all one.
    clusters: Vec<u64>,
    /// When the next arrival may go to a server that is down.
    last_resort_at: AtomicU64,
    reserve: Option<Box<Self>>,
}

/// An arrival to place.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// The key of the hashing policies: the Call-ID, or the user for `user-hash`.
    pub key: &'a [u8],
    /// The cost of the transaction that it opens.
    pub cost: Cost,
    /// Whether it also opens a call.
    pub call: bool,
    /// Servers that have already been tried; the pool avoids them.
    pub avoid: &'a [ServerId],
}

impl Pool {
    /// A pool of servers. Their order matters to `hash`, `fnv-hash` and `round-robin`. A server
    /// that comes up, is undrained or is added takes `slow_start` to reach its whole capacity.
    pub fn new(policy: Policy, servers: Vec<Arc<Server>>, slow_start: Duration) -> Self {
        let turns = Turns::new(servers.iter().map(|server| server.capacity()));
        let rows = servers.iter().map(|s| (s.name_hash(), s.capacity()));
        let table = match policy {
            Policy::Maglev => Table::new(&rows.collect::<Vec<_>>()),
            _ => Table::default(),
        };
        Self {
            policy,
            servers,
            slow_start: nanos(slow_start),
            turns,
            table,
            clusters: Vec::new(),
            last_resort_at: AtomicU64::new(0),
            reserve: None,
        }
    }

    /// Divides the servers into clusters, by a cluster name for each server. `user-hash` and
    /// `bounded-hash` give each cluster an equal part of the keys. A key does not go to another
    /// cluster while a server of its own is there, because the key's state is only in its own
    /// cluster.
    ///
    /// # Panics
    /// If the number of names differs from the number of servers.
    #[must_use]
    pub fn with_clusters<'a>(mut self, names: impl Iterator<Item = &'a str>) -> Self {
        self.clusters = names.map(|name| hash::fnv1a(name.as_bytes())).collect();
        assert_eq!(self.clusters.len(), self.servers.len(), "one for each");
        self
    }

    /// The servers in their order, without those of the reserve.
    pub fn servers(&self) -> &[Arc<Server>] {
        &self.servers
    }

    /// The policy.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// How long a slow start takes.
    pub fn slow_start(&self) -> Duration {
        Duration::from_nanos(self.slow_start)
    }

    /// Chooses a server and counts the arrival on it in one step: its transaction is then open, and
    /// its call if it opens one. `None` if no server is eligible, other than those to avoid.
    ///
    /// If the policy finds servers equal, the pool draws one in proportion to capacity times
    /// [preference](Server::set_preference). If the policy compares counts and another thread
    /// changes a count after the comparison, the choice starts again, so that threads do not all
    /// choose the same server.
    pub fn place(
        &self,
        now: Duration,
        arrival: &Arrival<'_>,
        rng: &mut fastrand::Rng,
    ) -> Option<&Arc<Server>> {
        let now = nanos(now);
        let mut tiers = self.tiers();
        let placed = tiers.find_map(|tier| tier.place_on_eligible(now, arrival, rng));
        if placed.is_some() || self.tiers().any(|tier| tier.is_eligible(now)) {
            return placed;
        }
        let mut tiers = self.tiers();
        let placed = tiers.find_map(|tier| tier.place_unsparing(now, arrival, rng));
        placed.or_else(|| self.place_at_last(now, arrival, rng))
    }

    /// Places an arrival on a server that is due for a try, or is eligible.
    fn place_on_eligible(
        &self,
        now: u64,
        arrival: &Arrival<'_>,
        rng: &mut fastrand::Rng,
    ) -> Option<&Arc<Server>> {
        self.retry(now, arrival).or_else(|| {
            let moment = self.moment(now, arrival.key);
            self.place_at(&moment, arrival, rng)
        })
    }

    /// Places an arrival on a server that backs off.
    fn place_unsparing(
        &self,
        now: u64,
        arrival: &Arrival<'_>,
        rng: &mut fastrand::Rng,
    ) -> Option<&Arc<Server>> {
        let mut moment = self.moment(now, arrival.key);
        moment.spares = false;
        self.place_at(&moment, arrival, rng)
    }

    /// Chooses a server and counts the arrival on it.
    fn place_at(
        &self,
        moment: &Moment,
        arrival: &Arrival<'_>,
        rng: &mut fastrand::Rng,
    ) -> Option<&Arc<Server>> {
        for _ in 0..ATTEMPTS {
            let chosen = self.choose(moment, arrival.avoid, rng)?;
            if self.claim(moment, chosen, arrival) {
                return Some(&self.servers[chosen.index]);
            }
        }
        let chosen = self.choose(moment, arrival.avoid, rng)?;
        let server = &self.servers[chosen.index];
        server.ledger().place(arrival.call, arrival.cost);
        Some(server)
    }

    /// Returns what `place` would compare for this key: each server's score, of which the lowest
    /// wins, or the reason why the server is skipped.
    ///
    /// The scores are work, transactions or calls divided by capacity (`tlwl` and `p2c`, `tjsq`,
    /// `cjsq`), seconds (`rwma`, `oracle`, and `prequal`, which adds a million to hot servers'), seconds
    /// times transactions (`peak-ewma`), 0 for idle and 1 for busy (`jiq`), places after the one
    /// hashed to (`hash`, `fnv-hash`), entries looked at before (`maglev`), the moment the next turn
    /// is due, in turns per capacity (`round-robin`), and the rendezvous rank (`user-hash`,
    /// `bounded-hash`).
    pub fn scores(&self, now: Duration, key: &[u8]) -> Vec<(ServerId, Result<f64, Ineligible>)> {
        let moment = self.moment(nanos(now), key);
        let score = |index| Ok(self.assess(self.policy, &moment, index)?.score);
        let own = (0..self.servers.len()).map(|index| (self.servers[index].id(), score(index)));
        let is_needed = !self.is_eligible(moment.now);
        let reserve = self
            .reserve
            .iter()
            .flat_map(|reserve| reserve.scores(now, key));
        let reserve = reserve.map(|(id, score)| match score {
            Ok(_) if !is_needed => (id, Err(Ineligible::InReserve)),
            score => (id, score),
        });
        own.chain(reserve).collect()
    }
}

/// What all servers are measured against for one arrival.
struct Moment {
    now: u64,
    /// The key's hash, reduced to a place in the order for `hash` and `fnv-hash`.
    hash: u64,
    /// How many calls a server may hold per capacity (`user-hash`, `bounded-hash`), or how many
    /// transactions per capacity without being hot (`prequal`).
    bound: f64,
    /// The cluster that the key belongs to.
    cluster: Option<u64>,
    /// Whether servers that back off are spared.
    spares: bool,
}

/// An eligible server as it was seen.
struct Assessment {
    candidate: Candidate,
    /// The lowest wins.
    score: f64,
    capacity: f64,
    /// How much it is ours, where others choose too.
    preference: f64,
}

impl Pool {
    fn moment(&self, now: u64, key: &[u8]) -> Moment {
        let places = self.servers.len().max(1) as u64;
        let (hash, bound) = match self.policy {
            Policy::Hash => (u64::from(hash::openser(key)) % places, 0.0),
            Policy::FnvHash => (hash::fnv1a(key) % places, 0.0),
            Policy::UserHash | Policy::BoundedHash => return self.moment_of_user(now, key),
            Policy::Maglev => (hash::fnv1a(key), 0.0),
            Policy::Prequal => (0, self.hot_bound(now)),
            _ => (0, 0.0),
        };
        Moment {
            now,
            hash,
            bound,
            cluster: None,
            spares: true,
        }
    }

    fn moment_of_user(&self, now: u64, key: &[u8]) -> Moment {
        let hash = hash::fnv1a(key);
        let cluster = self.cluster_of(now, hash);
        Moment {
            now,
            hash,
            bound: self.calls_bound(now, cluster),
            cluster,
            spares: true,
        }
    }

    /// The cluster of a key, by rendezvous among those that are there: when one goes, its keys alone move.
    fn cluster_of(&self, now: u64, key_hash: u64) -> Option<u64> {
        let there = self
            .clusters
            .iter()
            .zip(&self.servers)
            .filter(|(_, server)| {
                let eligibility = server.standing().eligibility(now);
                matches!(eligibility, Ok(()) | Err(Ineligible::BackingOff))
            });
        let draw = |cluster: u64| hash::draw(key_hash, cluster);
        there
            .map(|(cluster, _)| *cluster)
            .max_by(|one, other| draw(*one).total_cmp(&draw(*other)))
    }

    /// Whether a server is of another cluster than the key.
    fn is_foreign(&self, cluster: Option<u64>, index: usize) -> bool {
        cluster.is_some_and(|cluster| self.clusters[index] != cluster)
    }

    /// The calls of the eligible servers of a cluster, or of all, divided by their capacity, and a quarter
    /// more.
    fn calls_bound(&self, now: u64, cluster: Option<u64>) -> f64 {
        let (mut calls, mut capacity) = (0, 0.0);
        for (index, server) in self.servers.iter().enumerate() {
            if !self.is_foreign(cluster, index) && server.standing().eligibility(now).is_ok() {
                calls += server.calls_anywhere();
                capacity += server.capacity();
            }
        }
        BOUND * calls as f64 / capacity
    }

    /// The open transactions per capacity that [`COLD`] of the servers don't exceed, by an even
    /// sample of them.
    fn hot_bound(&self, now: u64) -> f64 {
        let mut sample = [0.0; SAMPLE];
        let mut sampled = 0;
        let stride = self.servers.len().div_ceil(SAMPLE).max(1);
        for server in self.servers.iter().step_by(stride) {
            if server.standing().eligibility(now).is_ok() {
                let elsewhere = server.standing().elsewhere().transactions();
                let transactions = server.transactions() + elsewhere;
                sample[sampled] = transactions as f64 / server.capacity();
                sampled += 1;
            }
        }
        let sample = &mut sample[..sampled];
        sample.sort_unstable_by(f64::total_cmp);
        let cold = (COLD * sampled as f64).ceil() as usize;
        sample.get(cold.wrapping_sub(1)).copied().unwrap_or(0.0)
    }

    fn choose(
        &self,
        moment: &Moment,
        avoid: &[ServerId],
        rng: &mut fastrand::Rng,
    ) -> Option<Candidate> {
        // A policy handed on as a constant needs no match for each server.
        match self.policy {
            Policy::Tlwl => self.lowest(Policy::Tlwl, moment, avoid, rng),
            Policy::Tjsq => self.lowest(Policy::Tjsq, moment, avoid, rng),
            Policy::Cjsq => self.lowest(Policy::Cjsq, moment, avoid, rng),
            Policy::RoundRobin => self.first_due(moment, avoid),
            policy @ (Policy::P2c | Policy::PeakEwma | Policy::PeakEwma200) => {
                self.better_of_two(policy, moment, avoid, rng)
            }
            Policy::UserHash | Policy::BoundedHash => self.ranked_first(moment, avoid, rng),
            Policy::Maglev => self.looked_up(moment, avoid, rng),
            other => self.lowest(other, moment, avoid, rng),
        }
    }

    #[inline(always)]
    fn lowest(
        &self,
        policy: Policy,
        moment: &Moment,
        avoid: &[ServerId],
        rng: &mut fastrand::Rng,
    ) -> Option<Candidate> {
        let mut lottery = Lottery::new();
        self.assess_all(policy, moment, avoid, |seen| {
            let weight = seen.capacity * seen.preference;
            lottery.offer(seen.candidate, seen.score, weight, rng);
        });
        lottery.winner()
    }

    fn first_due(&self, moment: &Moment, avoid: &[ServerId]) -> Option<Candidate> {
        let mut first: Option<Assessment> = None;
        self.assess_all(Policy::RoundRobin, moment, avoid, |seen| {
            if first.as_ref().is_none_or(|first| seen.score < first.score) {
                first = Some(seen);
            }
        });
        Some(first?.candidate)
    }

    /// A server above the bound is better than none, when the others are to be avoided.
    fn ranked_first(
        &self,
        moment: &Moment,
        avoid: &[ServerId],
        rng: &mut fastrand::Rng,
    ) -> Option<Candidate> {
        let unbounded = Moment {
            bound: f64::INFINITY,
            ..*moment
        };
        self.lowest(Policy::UserHash, moment, avoid, rng)
            .or_else(|| self.lowest(Policy::UserHash, &unbounded, avoid, rng))
    }

    fn looked_up(
        &self,
        moment: &Moment,
        avoid: &[ServerId],
        rng: &mut fastrand::Rng,
    ) -> Option<Candidate> {
        let found = self.table.probes(moment.hash).find(|index| {
            let server = &self.servers[*index];
            !avoid.contains(&server.id()) && server.standing().eligibility(moment.now).is_ok()
        });
        match found {
            Some(index) => Some(Candidate { index, observed: 0 }),
            None => self.lowest(Policy::Maglev, moment, avoid, rng),
        }
    }

    fn better_of_two(
        &self,
        policy: Policy,
        moment: &Moment,
        avoid: &[ServerId],
        rng: &mut fastrand::Rng,
    ) -> Option<Candidate> {
        let mut draw = |except: usize| {
            let mut lottery = Lottery::new();
            self.assess_all(policy, moment, avoid, |seen| {
                if seen.candidate.index != except {
                    lottery.offer(seen.candidate, 0.0, seen.capacity, rng);
                }
            });
            lottery.winner()
        };
        let first = draw(usize::MAX)?;
        let Some(second) = draw(first.index) else {
            return Some(first);
        };
        let score = |drawn: Candidate| {
            let seen = self.assess(policy, moment, drawn.index);
            seen.map_or(f64::INFINITY, |seen| seen.score)
        };
        Some(if score(second) < score(first) {
            second
        } else {
            first
        })
    }

    #[inline(always)]
    fn assess_all(
        &self,
        policy: Policy,
        moment: &Moment,
        avoid: &[ServerId],
        mut each: impl FnMut(Assessment),
    ) {
        for (index, server) in self.servers.iter().enumerate() {
            if avoid.contains(&server.id()) {
                continue;
            }
            if let Ok(seen) = self.assess(policy, moment, index) {
                each(seen);
            }
        }
    }

    #[inline(always)]
    fn assess(
        &self,
        policy: Policy,
        moment: &Moment,
        index: usize,
    ) -> Result<Assessment, Ineligible> {
        let server = &self.servers[index];
        let standing = server.standing();
        moment.admits(server)?;
        if self.is_foreign(moment.cluster, index) {
            return Err(Ineligible::OtherCluster);
        }
        let share = standing.share(moment.now, self.slow_start);
        let capacity = standing.capacity() * share;
        let (ledger, elsewhere) = (server.ledger(), standing.elsewhere());
        let transactions = |open: Open| (open.transactions() + elsewhere.transactions()) as f64;
        let (observed, score) = match policy {
            Policy::Tlwl | Policy::P2c => {
                let open = ledger.open();
                let work = open.thousandths() + elsewhere.work_thousandths();
                (open.bits(), work as f64 / (capacity * 1_000.0))
            }
            Policy::Tjsq => {
                let open = ledger.open();
                (open.bits(), transactions(open) / capacity)
            }
            Policy::Cjsq => {
                let calls = ledger.calls();
                (calls, (calls + elsewhere.calls()) as f64 / capacity)
            }
            Policy::Rwma => (0, seconds(server.first_response_time()) / share),
            Policy::Rwma200 => (0, seconds(server.final_response_time()) / share),
            Policy::Hash | Policy::FnvHash => (0, self.places_after(moment.hash, index)),
            Policy::RoundRobin => {
                let observed = self.turns.observe(index);
                (observed, self.turns.due(observed))
            }
            Policy::UserHash | Policy::BoundedHash => (0, moment.rank(server)?),
            Policy::Maglev => {
                let mut probes = self.table.probes(moment.hash);
                (
                    0,
                    probes.by_ref().take_while(|probe| *probe != index).count() as f64,
                )
            }
            Policy::PeakEwma | Policy::PeakEwma200 => {
                let mean = match policy {
                    Policy::PeakEwma => server.first_response_peak(),
                    _ => server.final_response_peak(),
                };
                let latency = mean.seconds(moment.now).max(UNMEASURED) / share;
                (0, latency * (transactions(ledger.open()) + 1.0))
            }
            Policy::Prequal => {
                let transactions = transactions(ledger.open()) / capacity;
                let is_hot = transactions > moment.bound;
                let latency = seconds(server.first_response_time()) / share;
                (0, if is_hot { HOT + transactions } else { latency })
            }
            Policy::Jiq => (0, transactions(ledger.open()).min(1.0)),
            Policy::Oracle => (0, server.backlog().as_secs_f64() / share),
        };
        Ok(Assessment {
            candidate: Candidate { index, observed },
            score,
            capacity,
            preference: elsewhere.preference(),
        })
    }

    fn places_after(&self, hashed: u64, index: usize) -> f64 {
        let hashed = hashed as usize;
        let wrapped = if index < hashed {
            self.servers.len()
        } else {
            0
        };
        (index + wrapped - hashed) as f64
    }

    /// Counts the arrival on the chosen server unless what made it the choice has changed.
    fn claim(&self, moment: &Moment, chosen: Candidate, arrival: &Arrival<'_>) -> bool {
        let Candidate { index, observed } = chosen;
        let Arrival { call, cost, .. } = *arrival;
        let ledger = self.servers[index].ledger();
        match self.policy {
            Policy::Tlwl | Policy::Tjsq => ledger.place_if_open_is(observed, call, cost),
            Policy::Cjsq => ledger.place_if_calls_are(observed, call, cost),
            Policy::RoundRobin => {
                let standing = self.servers[index].standing();
                let capacity = standing.capacity() * standing.share(moment.now, self.slow_start);
                let taken = self.turns.take(index, observed, capacity);
                if taken {
                    ledger.place(call, cost);
                }
                taken
            }
            _ => {
                ledger.place(call, cost);
                true
            }
        }
    }
}

impl Moment {
    fn admits(&self, server: &Server) -> Result<(), Ineligible> {
        match server.standing().eligibility(self.now) {
            Err(Ineligible::BackingOff) if !self.spares => Ok(()),
            other => other,
        }
    }

    /// The lowest rank wins each server its share of the keys: of exponential variables, the one
    /// with rate `c` is the least with a chance in proportion to `c`.
    fn rank(&self, server: &Server) -> Result<f64, Ineligible> {
        let capacity = server.capacity();
        if server.calls_anywhere() as f64 > self.bound * capacity + 1.0 {
            return Err(Ineligible::AboveBound);
        }
        Ok(-hash::draw(self.hash, server.name_hash()).ln() / capacity)
    }
}

fn seconds(mean: Option<Duration>) -> f64 {
    mean.unwrap_or_default().as_secs_f64()
}

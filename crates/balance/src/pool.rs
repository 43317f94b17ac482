//! Servers that stand in for each other, and the policy that chooses among them.

use std::sync::Arc;
use std::time::Duration;

use crate::cost::Cost;
use crate::hash;
use crate::ledger::{Metric, Opening};
use crate::lottery::Lottery;
use crate::policy::Policy;
use crate::round_robin::Turns;
use crate::server::Server;
use crate::standing::Ineligible;
use crate::{ServerId, nanos};

/// How often a choice is made again because another thread was faster. Each time somebody has
/// placed something, so this is rarely reached; beyond it the last choice is good enough.
const ATTEMPTS: usize = 16;

/// How far above its fair share of calls `user-hash` lets a server go.
const BOUND: f64 = 1.25;

/// A pool: servers, of which any may take an arrival, and the policy.
///
/// When no server is eligible nothing is placed, also when all are down: a quick refusal lets the
/// caller try elsewhere, where a guess would make it wait for a server that doesn't answer.
#[derive(Debug)]
pub struct Pool {
    policy: Policy,
    servers: Vec<Arc<Server>>,
    slow_start: u64,
    turns: Turns,
}

/// Something to place.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// What the hashing policies hash: the Call-ID, or the user for `user-hash`.
    pub key: &'a [u8],
    /// The cost of the transaction it opens.
    pub cost: Cost,
    /// Whether it opens a call as well.
    pub call: bool,
    /// Servers it has been tried on already; they are not tried again.
    pub avoid: &'a [ServerId],
}

impl Pool {
    /// A pool of servers, whose order matters to `hash`, `fnv-hash` and `round-robin`. Servers that
    /// come up, are undrained or added take `slow_start` to reach their whole capacity.
    pub fn new(policy: Policy, servers: Vec<Arc<Server>>, slow_start: Duration) -> Self {
        let turns = Turns::new(servers.iter().map(|server| server.capacity()));
        Self {
            policy,
            servers,
            slow_start: nanos(slow_start),
            turns,
        }
    }

    /// The servers in their order.
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

    /// Chooses a server and counts the arrival on it in one step: its transaction is open, and its
    /// call if it opens one. `None` when no server is eligible that is not to be avoided.
    ///
    /// Servers that the policy thinks equal are drawn from in proportion to their capacity. Where
    /// the policy compares counts, a count that another thread changed after it was compared makes
    /// the choice start over, so that threads don't follow each other onto the same server.
    pub fn place(
        &self,
        now: Duration,
        arrival: &Arrival<'_>,
        rng: &mut fastrand::Rng,
    ) -> Option<&Arc<Server>> {
        let moment = self.moment(nanos(now), arrival.key);
        let opening = Opening {
            call: arrival.call,
            cost: arrival.cost,
        };
        for _ in 0..ATTEMPTS {
            let chosen = self.choose(&moment, arrival.avoid, rng)?;
            if self.claim(&chosen, opening) {
                return Some(chosen.server);
            }
        }
        let chosen = self.choose(&moment, arrival.avoid, rng)?;
        chosen.server.ledger().place(opening);
        Some(chosen.server)
    }

    /// What `place` would compare for this key: each server's score, of which the lowest wins, or
    /// why the server is passed over.
    ///
    /// The scores are work, transactions or calls divided by capacity (`tlwl` and `p2c`, `tjsq`,
    /// `cjsq`), seconds (`rwma`), places after the one hashed to (`hash`, `fnv-hash`), the moment
    /// the next turn is due, in turns per capacity (`round-robin`), and the rendezvous rank
    /// (`user-hash`).
    pub fn scores(&self, now: Duration, key: &[u8]) -> Vec<(ServerId, Result<f64, Ineligible>)> {
        let moment = self.moment(nanos(now), key);
        let score = |index| Ok(self.assess(&moment, index)?.score);
        (0..self.servers.len())
            .map(|index| (self.servers[index].id(), score(index)))
            .collect()
    }
}

/// What all servers are measured against for one arrival.
struct Moment {
    now: u64,
    /// The key's hash, reduced to a place in the order for `hash` and `fnv-hash`.
    hash: u64,
    /// How many calls a server may hold per capacity: `user-hash` only.
    calls_bound: f64,
}

/// An eligible server as it was seen.
struct Candidate<'a> {
    index: usize,
    server: &'a Arc<Server>,
    capacity: f64,
    /// The lowest wins.
    score: f64,
    /// What the score was made of, for [`Pool::claim`] to find unchanged.
    observed: u64,
}

impl Pool {
    fn moment(&self, now: u64, key: &[u8]) -> Moment {
        let places = self.servers.len().max(1) as u64;
        let (hash, calls_bound) = match self.policy {
            Policy::Hash => (u64::from(hash::openser(key)) % places, 0.0),
            Policy::FnvHash => (hash::fnv1a(key) % places, 0.0),
            Policy::UserHash => (hash::fnv1a(key), self.calls_bound(now)),
            _ => (0, 0.0),
        };
        Moment {
            now,
            hash,
            calls_bound,
        }
    }

    /// The eligible servers' calls divided by their capacity, and a quarter more.
    fn calls_bound(&self, now: u64) -> f64 {
        let (mut calls, mut capacity) = (0, 0.0);
        for server in &self.servers {
            if server.standing().eligibility(now).is_ok() {
                calls += server.calls();
                capacity += server.capacity();
            }
        }
        BOUND * calls as f64 / capacity
    }

    fn choose(
        &self,
        moment: &Moment,
        avoid: &[ServerId],
        rng: &mut fastrand::Rng,
    ) -> Option<Candidate<'_>> {
        if self.policy == Policy::P2c {
            return self.better_of_two(moment, avoid, rng);
        }
        let in_order = self.policy == Policy::RoundRobin;
        let mut best = f64::INFINITY;
        let mut lottery = Lottery::new();
        for candidate in self.candidates(moment, avoid) {
            let capacity = candidate.capacity;
            if candidate.score < best {
                best = candidate.score;
                lottery = Lottery::of(candidate, capacity);
            } else if candidate.score == best && !in_order {
                lottery.offer(candidate, capacity, rng);
            }
        }
        lottery.winner
    }

    fn better_of_two(
        &self,
        moment: &Moment,
        avoid: &[ServerId],
        rng: &mut fastrand::Rng,
    ) -> Option<Candidate<'_>> {
        let mut draw = |except: Option<usize>| {
            let mut lottery = Lottery::new();
            for candidate in self.candidates(moment, avoid) {
                if Some(candidate.index) != except {
                    let capacity = candidate.capacity;
                    lottery.offer(candidate, capacity, rng);
                }
            }
            lottery.winner
        };
        let first = draw(None)?;
        match draw(Some(first.index)) {
            Some(second) if second.score < first.score => Some(second),
            _ => Some(first),
        }
    }

    fn candidates(
        &self,
        moment: &Moment,
        avoid: &[ServerId],
    ) -> impl Iterator<Item = Candidate<'_>> {
        (0..self.servers.len())
            .filter(|index| !avoid.contains(&self.servers[*index].id()))
            .filter_map(|index| self.assess(moment, index).ok())
    }

    fn assess(&self, moment: &Moment, index: usize) -> Result<Candidate<'_>, Ineligible> {
        let server = &self.servers[index];
        let standing = server.standing();
        standing.eligibility(moment.now)?;
        let share = standing.share(moment.now, self.slow_start);
        let capacity = standing.capacity() * share;
        let mut observed = 0;
        let score = match self.policy {
            Policy::Tlwl | Policy::P2c => {
                observed = server.ledger().metric(Metric::Work);
                observed as f64 / (capacity * 1_000.0)
            }
            Policy::Tjsq => {
                observed = server.ledger().metric(Metric::Transactions);
                observed as f64 / capacity
            }
            Policy::Cjsq => {
                observed = server.ledger().metric(Metric::Calls);
                observed as f64 / capacity
            }
            Policy::Rwma => seconds(server.first_response_time()) / share,
            Policy::Rwma200 => seconds(server.final_response_time()) / share,
            Policy::Hash | Policy::FnvHash => {
                let places = self.servers.len();
                ((index + places - moment.hash as usize) % places) as f64
            }
            Policy::RoundRobin => {
                let (bits, due) = self.turns.due(index);
                observed = bits;
                due
            }
            Policy::UserHash => moment.rank(server)?,
        };
        Ok(Candidate {
            index,
            server,
            capacity,
            score,
            observed,
        })
    }

    /// Counts the arrival on the chosen server unless what made it the choice has changed.
    fn claim(&self, chosen: &Candidate<'_>, opening: Opening) -> bool {
        let ledger = chosen.server.ledger();
        let counted = |metric| ledger.place_if(metric, chosen.observed, opening);
        match self.policy {
            Policy::Tlwl => counted(Metric::Work),
            Policy::Tjsq => counted(Metric::Transactions),
            Policy::Cjsq => counted(Metric::Calls),
            Policy::RoundRobin => {
                let (index, capacity) = (chosen.index, chosen.capacity);
                let taken = self
                    .turns
                    .take(index, chosen.observed, chosen.score, capacity);
                if taken {
                    ledger.place(opening);
                }
                taken
            }
            _ => {
                ledger.place(opening);
                true
            }
        }
    }
}

impl Moment {
    /// The lowest rank wins each server its share of the keys: of exponential variables, the one
    /// with rate `c` is the least with a chance in proportion to `c`.
    fn rank(&self, server: &Server) -> Result<f64, Ineligible> {
        let capacity = server.capacity();
        if server.calls() as f64 > self.calls_bound * capacity + 1.0 {
            return Err(Ineligible::AboveBound);
        }
        Ok(-hash::draw(self.hash, server.name_hash()).ln() / capacity)
    }
}

fn seconds(mean: Option<Duration>) -> f64 {
    mean.unwrap_or_default().as_secs_f64()
}

//! Which server the policy chose, and what it saw.

use std::{net::SocketAddr, time::Duration};

use balance::{Ineligible, Policy, ServerId};

use crate::{
    snapshot::{PoolView, Snapshot},
    wire::keys::SessionKey,
};

/// Placements that a worker remembers.
const DECISIONS_MAX: usize = 4096;
/// Servers of a pool whose ledgers are remembered with a placement.
const LEDGERS_MAX: usize = 8;

/// The latest placements of a worker.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    ring: Vec<Decision>,
    next: usize,
    /// Placements so far.
    made: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Decision {
    key: SessionKey,
    at: Duration,
    policy: Policy,
    chosen: ServerId,
    ledgers: Ledgers,
}

/// The ledgers of a pool's first servers at a moment.
#[derive(Clone, Debug)]
pub(crate) struct Ledgers {
    first: [Option<Ledger>; LEDGERS_MAX],
    /// Servers beyond these.
    more: u16,
}

#[derive(Clone, Copy, Debug)]
struct Ledger {
    server: ServerId,
    calls: u32,
    transactions: u32,
    work: f32,
    capacity: f32,
    passed_over: Option<Ineligible>,
}

impl Ledgers {
    pub(crate) fn of(pool: &PoolView, now: Duration) -> Self {
        let servers = pool.pool().servers();
        let slow_start = pool.config().slow_start;
        let first = std::array::from_fn(|place| {
            let server = servers.get(place)?;
            Some(Ledger {
                server: server.id(),
                calls: server.calls() as u32,
                transactions: server.transactions() as u32,
                work: server.work() as f32,
                capacity: server.effective_capacity(now, slow_start) as f32,
                passed_over: server.eligibility(now).err(),
            })
        });
        let more = servers.len().saturating_sub(LEDGERS_MAX) as u16;
        Self { first, more }
    }
}

impl Decisions {
    pub(crate) fn record(
        &mut self,
        key: SessionKey,
        at: Duration,
        policy: Policy,
        chosen: ServerId,
        ledgers: Ledgers,
    ) {
        let decision = Decision {
            key,
            at,
            policy,
            chosen,
            ledgers,
        };
        if self.ring.len() < DECISIONS_MAX {
            self.ring.push(decision);
        } else {
            self.ring[self.next] = decision;
        }
        self.next = (self.next + 1) % DECISIONS_MAX;
        self.made += 1;
    }

    pub(crate) fn made(&self) -> u64 {
        self.made
    }

    /// The placements since so many had been made, oldest first, if they are remembered.
    pub(crate) fn since(&self, made: u64) -> impl Iterator<Item = &Decision> {
        let count = (self.made - made).min(self.ring.len() as u64) as usize;
        let len = self.ring.len();
        (0..count).map(move |place| &self.ring[(self.next + len - count + place) % len])
    }

    pub(crate) fn find(&self, key: SessionKey) -> Option<&Decision> {
        let (newer, older) = self.ring.split_at(self.next.min(self.ring.len()));
        newer
            .iter()
            .rev()
            .chain(older.iter().rev())
            .find(|decision| decision.key == key)
    }
}

/// A placement, and what the policy saw.
#[derive(Clone, Debug, PartialEq)]
pub struct DecisionView {
    /// Time since the choice.
    pub ago: Duration,
    /// The policy that chose.
    pub policy: Policy,
    /// The server that it chose; none: it has left the configuration since.
    pub chosen: Option<SocketAddr>,
    /// The pool's first servers as they were before.
    pub ledgers: Vec<LedgerView>,
    /// Servers of the pool beyond these.
    pub more: u16,
}

/// A server as a policy saw it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LedgerView {
    /// The server.
    pub server: SocketAddr,
    /// Its open calls.
    pub calls: u32,
    /// Its open transactions.
    pub transactions: u32,
    /// Their work.
    pub work: f32,
    /// Its capacity, which is less during a slow start.
    pub capacity: f32,
    /// Why it could not be chosen.
    pub passed_over: Option<Ineligible>,
}

impl Decision {
    /// [`Snapshot::session_of`] the call.
    pub(crate) fn session(&self) -> u64 {
        self.key.bits()
    }

    pub(crate) fn at(&self) -> Duration {
        self.at
    }

    pub(crate) fn view(&self, now: Duration, snapshot: &Snapshot) -> DecisionView {
        let address = |server| snapshot.member(server).map(|member| member.address);
        let ledgers = self.ledgers.first.iter().flatten().filter_map(|ledger| {
            Some(LedgerView {
                server: address(ledger.server)?,
                calls: ledger.calls,
                transactions: ledger.transactions,
                work: ledger.work,
                capacity: ledger.capacity,
                passed_over: ledger.passed_over,
            })
        });
        DecisionView {
            ago: now.saturating_sub(self.at),
            policy: self.policy,
            chosen: address(self.chosen),
            more: self.ledgers.more,
            ledgers: ledgers.collect(),
        }
    }
}

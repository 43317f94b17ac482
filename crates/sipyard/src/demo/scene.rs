//! Everything that the demo shows at one moment, as plain values.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, time::Duration};

use load::Failure;

use super::{
    edge::Edge,
    schedule::POLICIES,
    user_agents::{Moment, SAMPLE, Tally, Uas, UserAgents},
};
use crate::view::{ServerState, members, state_of};

/// The cluster at one moment.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    /// The address at which the edge takes calls.
    pub(super) edge: SocketAddr,
    /// The Unix socket of the edge's admin API.
    pub(super) admin: PathBuf,
    /// Time since the first call.
    pub(super) elapsed: Duration,
    pub(super) act: Act,
    pub(super) servers: Vec<ServerScene>,
    pub(super) policies: Vec<PolicyScene>,
    /// Calls in progress.
    pub(super) open: usize,
    /// Calls that the servers accepted in the last second.
    pub(super) calls_per_s: f64,
    /// The reasons of failed calls, and how many calls failed for each.
    pub(super) failures: BTreeMap<Failure, u64>,
    /// The latest intervals, the newest last.
    pub(super) moments: Vec<Moment>,
}

/// What the demo does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Calls start under the policy at this index of [`POLICIES`], until the next policy.
    Calling {
        policy: usize,
        next: Option<usize>,
        left: Duration,
    },
    /// No calls start; the calls in progress end.
    Ending,
}

/// A server, from the edge's view and its own.
#[derive(Clone, Debug)]
pub(super) struct ServerScene {
    pub(super) address: SocketAddr,
    pub(super) state: ServerState,
    pub(super) is_stalled: bool,
    /// Open calls, open transactions and the sum of their costs, from the edge's ledger.
    pub(super) calls: u64,
    pub(super) transactions: u64,
    pub(super) work: f64,
    /// Transactions that the server failed, as the edge counts them.
    pub(super) failed: u64,
    /// Calls that the server accepted since the start, and in the last second.
    pub(super) taken: u64,
    pub(super) calls_per_s: f64,
    pub(super) stalls: u64,
}

/// The results of the calls that started under one policy.
#[derive(Clone, Debug)]
pub(super) struct PolicyScene {
    pub(super) name: &'static str,
    pub(super) offered: u64,
    pub(super) carried: u64,
    pub(super) failed: u64,
    pub(super) stalls: u64,
    /// Times from INVITE to the first response; none before the first response.
    pub(super) response: Option<ResponseTimes>,
}

/// A summary of a distribution.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResponseTimes {
    pub(super) mean: Duration,
    pub(super) p50: Duration,
    pub(super) p99: Duration,
    pub(super) max: Duration,
}

impl Scene {
    /// The cluster at `now`, `elapsed` after the first call.
    pub(super) fn new(
        edge: &Edge,
        agents: &UserAgents,
        act: Act,
        now: Duration,
        elapsed: Duration,
    ) -> Self {
        let rates = rates(agents);
        let servers = agents.servers().iter().zip(&rates);
        let servers = servers.map(|(uas, rate)| ServerScene::new(edge, uas, *rate, now));
        let policies = POLICIES.iter().zip(agents.tallies());
        let policies = policies.map(|(policy, tally)| PolicyScene::new(policy.name(), tally));
        let mut failures = BTreeMap::new();
        for (&failure, calls) in agents.tallies().iter().flat_map(|t| &t.stats.failed) {
            *failures.entry(failure).or_default() += calls;
        }
        Self {
            edge: edge.address(),
            admin: edge.admin().to_owned(),
            elapsed,
            act,
            servers: servers.collect(),
            policies: policies.collect(),
            open: agents.open_calls(),
            calls_per_s: rates.iter().sum(),
            failures,
            moments: agents.moments().iter().cloned().collect(),
        }
    }

    /// Calls started, carried and failed under all policies.
    pub(super) fn totals(&self) -> (u64, u64, u64) {
        let sum = |count: fn(&PolicyScene) -> u64| self.policies.iter().map(count).sum();
        (sum(|p| p.offered), sum(|p| p.carried), sum(|p| p.failed))
    }
}

impl ServerScene {
    fn new(edge: &Edge, uas: &Uas, calls_per_s: f64, now: Duration) -> Self {
        let snapshot = edge.shared().snapshot();
        let member = members(&snapshot)
            .find(|member| member.address == uas.address())
            .expect("the edge knows all servers");
        let server = &member.server;
        Self {
            address: member.address,
            state: state_of(member, Duration::ZERO, now),
            is_stalled: uas.is_stalled(now),
            calls: server.calls(),
            transactions: server.transactions(),
            work: server.work(),
            failed: server.failed(),
            taken: uas.taken(),
            calls_per_s,
            stalls: uas.stalls(),
        }
    }
}

impl PolicyScene {
    fn new(name: &'static str, tally: &Tally) -> Self {
        let Tally { stats, stalls } = tally;
        let times = &stats.first_response_ns;
        let quantile = |quantile| Duration::from_nanos(times.value_at_quantile(quantile));
        Self {
            name,
            offered: stats.offered,
            carried: stats.carried,
            failed: stats.failures(),
            stalls: *stalls,
            response: (!times.is_empty()).then(|| ResponseTimes {
                mean: Duration::from_nanos(times.mean() as u64),
                p50: quantile(0.5),
                p99: quantile(0.99),
                max: Duration::from_nanos(times.max()),
            }),
        }
    }
}

/// Calls per second that each server accepted in the last second.
fn rates(agents: &UserAgents) -> Vec<f64> {
    const SAMPLES: usize = 2;
    let moments = agents.moments();
    let Some(newest) = moments.back() else {
        return vec![0.0; agents.servers().len()];
    };
    let before = moments.len().checked_sub(1 + SAMPLES);
    let before = before.map(|place| &moments[place].taken);
    let rate = |(server, &taken): (usize, &u64)| {
        let calls = taken - before.map_or(0, |before| before[server]);
        calls as f64 / (SAMPLES as f64 * SAMPLE.as_secs_f64())
    };
    newest.taken.iter().enumerate().map(rate).collect()
}

//! Is it well? What a node's figures tell, and how fast they change.

use std::{collections::HashMap, net::SocketAddr};

use crate::view::{NodeState, Server, ServerState, Status, Worker};

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Grade {
    Good,
    Warning,
    Bad,
}

/// What has been counted since the node's start.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    placed: HashMap<(String, SocketAddr), u64>,
    calls: u64,
    failed: u64,
    received: u64,
    refused: u64,
    dropped: u64,
    lost: u64,
    store_failed: u64,
}

/// Changes per second; none: there is nothing to compare with yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Rates {
    pub(super) calls: Option<f64>,
    pub(super) failed: Option<f64>,
    pub(super) received: Option<f64>,
    pub(super) refused: Option<f64>,
    pub(super) dropped: Option<f64>,
    lost: Option<f64>,
    store_failed: Option<f64>,
    placed: HashMap<(String, SocketAddr), f64>,
}

/// All servers, those that have left the configuration last.
pub(super) fn servers(status: &Status) -> impl Iterator<Item = &Server> {
    let configured = status.pools.iter().flat_map(|pool| &pool.servers);
    configured.chain(&status.removed)
}

impl Totals {
    pub(super) fn of(status: &Status) -> Self {
        let placed = servers(status).map(|server| {
            let key = (server.pool.clone(), server.address);
            (key, server.figures.count("placed"))
        });
        let placed: HashMap<_, _> = placed.collect();
        let failed = servers(status).map(|server| server.figures.count("failed"));
        let of_workers = |count: fn(&Worker) -> u64| status.workers.iter().map(count).sum();
        let named = |counts: &std::collections::BTreeMap<String, u64>, name: &str| {
            counts.get(name).copied().unwrap_or_default()
        };
        let of = |name: &str, of: fn(&Worker) -> &std::collections::BTreeMap<String, u64>| {
            status.workers.iter().map(|it| named(of(it), name)).sum()
        };
        Self {
            calls: placed.values().sum(),
            placed,
            failed: failed.sum(),
            received: of_workers(|worker| worker.figures.count("messages_received")),
            refused: of("503", |worker| &worker.replies),
            dropped: of_workers(|worker| worker.dropped.values().sum()),
            lost: of("receive_buffer_full", |worker| &worker.lost),
            store_failed: of_workers(|worker| worker.figures.count("store_failed")),
        }
    }

    /// How fast they have changed since some seconds ago.
    pub(super) fn since(&self, before: &Self, seconds: f64) -> Rates {
        let rate = |now: u64, then: u64| {
            let grown = now.saturating_sub(then) as f64;
            (seconds > 0.0).then(|| grown / seconds)
        };
        let placed = self.placed.iter().filter_map(|(key, &now)| {
            let then = before.placed.get(key)?;
            Some((key.clone(), rate(now, *then)?))
        });
        Rates {
            calls: rate(self.calls, before.calls),
            failed: rate(self.failed, before.failed),
            received: rate(self.received, before.received),
            refused: rate(self.refused, before.refused),
            dropped: rate(self.dropped, before.dropped),
            lost: rate(self.lost, before.lost),
            store_failed: rate(self.store_failed, before.store_failed),
            placed: placed.collect(),
        }
    }
}

impl Rates {
    /// Requests that a server is sent per second.
    pub(super) fn placed_at(&self, server: &Server) -> Option<f64> {
        let key = (server.pool.clone(), server.address);
        self.placed.get(&key).copied()
    }
}

/// All that needs a look, the worst first.
pub(super) fn problems(status: &Status, rates: &Rates) -> Vec<(Grade, String)> {
    let mut found = Vec::new();
    if status.state == NodeState::Draining {
        found.push((
            Grade::Bad,
            "the node drains: it takes no new calls".to_owned(),
        ));
    }
    of_pools(status, &mut found);
    let above = |rate: Option<f64>| rate.filter(|rate| *rate > 0.0);
    if let Some(rate) = above(rates.lost) {
        let told = format!("the kernel drops {rate:.1} datagrams/s: the workers are too slow");
        found.push((Grade::Bad, told));
    }
    if above(rates.store_failed).is_some() {
        found.push((Grade::Bad, "the store fails requests".to_owned()));
    }
    if let Some(rate) = above(rates.refused) {
        let told = format!("the node refuses {rate:.1} requests/s with 503");
        found.push((Grade::Warning, told));
    }
    let shares = status
        .workers
        .iter()
        .filter_map(|it| it.figures.get("share_let_in"));
    let share = shares.fold(1.0, f64::min);
    if share < 1.0 {
        let told = format!(
            "overload: {:.0} % of the new requests are let in",
            share * 100.0
        );
        found.push((Grade::Warning, told));
    }
    for peer in status
        .peers
        .iter()
        .filter(|it| it.figures.count("heard") == 0)
    {
        let told = format!("edge {} at {} is silent", peer.name, peer.address);
        found.push((Grade::Warning, told));
    }
    for certificate in &status.certificates {
        let warning = certificate.warning.iter();
        let grade = if certificate.days_left < 0 {
            Grade::Bad
        } else {
            Grade::Warning
        };
        found.extend(warning.map(|it| (grade, format!("{}: {it}", certificate.shown))));
    }
    found.sort_by_key(|(grade, _)| std::cmp::Reverse(*grade));
    found
}

fn of_pools(status: &Status, found: &mut Vec<(Grade, String)>) {
    for pool in &status.pools {
        let takes_calls =
            |it: &&Server| matches!(it.state, ServerState::Up | ServerState::SlowStart);
        let down = pool
            .servers
            .iter()
            .filter(|it| it.state == ServerState::Down);
        let down: Vec<String> = down.map(|it| it.address.to_string()).collect();
        if !pool.servers.is_empty() && pool.servers.iter().filter(takes_calls).count() == 0 {
            let told = format!("no server of pool {} takes calls", pool.name);
            found.push((Grade::Bad, told));
        } else if !down.is_empty() {
            let told = format!(
                "{} of {} servers of pool {} are down: {}",
                down.len(),
                pool.servers.len(),
                pool.name,
                down[..down.len().min(3)].join(", ")
            );
            found.push((Grade::Warning, told));
        }
        let sources = pool.sources.iter();
        found.extend(sources.filter_map(|source| {
            let problem = source.problem.as_ref()?;
            Some((Grade::Warning, format!("{}: {problem}", source.name)))
        }));
    }
}

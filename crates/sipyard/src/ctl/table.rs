//! Answers as tables for people.

use std::collections::BTreeMap;

use crate::view::{Peer, Pool, Registrar, Server, Source, State, Status, Worker};

/// Left-aligned or right-aligned cells.
type Row = Vec<String>;

/// A node's status: one table for the servers of all pools, one for the workers.
pub(super) fn status(status: &Status) -> String {
    let state = match status.state {
        State::Serving => "serving",
        State::Draining => "draining",
    };
    let mut text = format!(
        "{} {}: {state}, up {}\n",
        status.name,
        status.version,
        age(status.uptime_s)
    );
    for listener in &status.listeners {
        let (transport, address, name) =
            (&listener.transport, listener.address, &listener.advertise);
        text += &format!("listens on {transport} {address} as {name}\n");
    }
    text.push('\n');
    text += &servers(status);
    for pool in &status.pools {
        text.extend(pool.sources.iter().map(|source| found(&pool.name, source)));
    }
    for pool in status.pools.iter().filter(|pool| pool.learns_costs) {
        let costs = pool.costs.iter();
        let costs: Vec<String> = costs
            .map(|(method, cost)| format!("{method} {cost:.2}"))
            .collect();
        text += &format!("{} has learned: {}\n", pool.name, costs.join(", "));
    }
    if !status.peers.is_empty() {
        text.push('\n');
        text += &peers(status);
    }
    if let Some(registrar) = &status.registrar {
        text.push('\n');
        text += &registrations(registrar, &status.workers);
    }
    text.push('\n');
    text += &workers(status);
    text
}

fn found(pool: &str, source: &Source) -> String {
    let Source { name, used, .. } = source;
    let servers = if *used == 1 { "server" } else { "servers" };
    let reserve = match source.reserve {
        0 => String::new(),
        reserve => format!(", {reserve} in reserve"),
    };
    let problem = match &source.problem {
        None => String::new(),
        Some(problem) => format!("; {problem}: they are as they were"),
    };
    format!("{pool} has {used} {servers} of {name}{reserve}{problem}\n")
}

fn servers(status: &Status) -> String {
    let header = [
        "POOL",
        "POLICY",
        "SERVER",
        "STATE",
        "CAPACITY",
        "CALLS",
        "TRANSACTIONS",
        "WORK",
        "ELSEWHERE",
        "PLACED",
        "FAILED",
        "FIRST MS",
        "FINAL MS",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for Pool {
        policy, servers, ..
    } in &status.pools
    {
        rows.extend(servers.iter().map(|server| server_row(policy, server)));
    }
    rows.extend(status.removed.iter().map(|server| server_row("-", server)));
    align(&rows, 4)
}

fn server_row(policy: &str, server: &Server) -> Row {
    let ms = |ms: Option<f64>| ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.2}"));
    vec![
        server.pool.clone(),
        policy.to_owned(),
        server.address.to_string(),
        server.state.label().to_owned(),
        server.capacity.to_string(),
        server.calls.to_string(),
        server.transactions.to_string(),
        format!("{:.2}", server.work),
        server.calls_elsewhere.to_string(),
        server.placed.to_string(),
        server.failed.to_string(),
        ms(server.first_response_ms),
        ms(server.final_response_ms),
    ]
}

fn peers(status: &Status) -> String {
    let header = [
        "PEER", "ADDRESS", "STATE", "AGE S", "CALLS", "PLACES/S", "REPORTS",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    let row = |peer: &Peer| {
        let state = if peer.is_heard { "heard" } else { "silent" };
        vec![
            peer.name.clone(),
            peer.address.to_string(),
            state.to_owned(),
            format!("{:.1}", peer.age_s),
            peer.calls.to_string(),
            peer.rate.to_string(),
            peer.reports.to_string(),
        ]
    };
    rows.extend(status.peers.iter().map(row));
    align(&rows, 3)
}

/// What the registrar did since the start.
fn registrations(registrar: &Registrar, workers: &[Worker]) -> String {
    let header = [
        "REGISTRAR",
        "STORE",
        "BOUND",
        "UNBOUND",
        "LOOKED UP",
        "WRONG CREDENTIALS",
        "STORE FAILED",
        "ANSWERS",
    ];
    let event = |name| {
        let counts = workers.iter().filter_map(|worker| worker.events.get(name));
        counts.sum::<u64>().to_string()
    };
    let row = vec![
        registrar.domains.join(", "),
        registrar.store.clone(),
        event("bound"),
        event("unbound"),
        event("looked_up"),
        event("wrong_credentials"),
        event("store_failed"),
        answers(workers),
    ];
    align(&[header.map(str::to_owned).to_vec(), row], 2)
}

/// The node's own answers, by status.
fn answers(workers: &[Worker]) -> String {
    let mut answers = BTreeMap::<&str, u64>::new();
    for (status, count) in workers.iter().flat_map(|worker| &worker.replies) {
        *answers.entry(status).or_default() += count;
    }
    let given = answers.iter().filter(|(_, count)| **count > 0);
    let given: Vec<String> = given
        .map(|(status, count)| format!("{count} x {status}"))
        .collect();
    given.join(", ")
}

fn workers(status: &Status) -> String {
    let header = [
        "WORKER",
        "SESSIONS",
        "EXPIRED",
        "TRANSACTIONS",
        "RECEIVED",
        "SENT",
        "HANDED OVER",
        "DROPPED",
        "WHY",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    let workers = status.workers.iter().enumerate();
    rows.extend(workers.map(|(number, worker)| worker_row(number, worker)));
    align(&rows, 1)
}

fn worker_row(number: usize, worker: &Worker) -> Row {
    let event = |name: &str| worker.events.get(name).copied().unwrap_or_default();
    let missed = worker.dropped.iter().chain(&worker.lost);
    let reasons: Vec<String> = missed
        .clone()
        .filter(|(_, count)| **count > 0)
        .map(|(reason, count)| format!("{reason} {count}"))
        .collect();
    vec![
        number.to_string(),
        worker.sessions_active.to_string(),
        worker.sessions_expired.to_string(),
        worker.transactions.to_string(),
        event("received").to_string(),
        event("sent").to_string(),
        event("handed_over").to_string(),
        missed.map(|(_, count)| count).sum::<u64>().to_string(),
        reasons.join(", "),
    ]
}

fn age(seconds: f64) -> String {
    let seconds = seconds as u64;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m {}s", seconds % 60),
        (0, ..) => format!("{hours}h {minutes}m"),
        _ => format!("{days}d {hours}h"),
    }
}

/// Columns as wide as their widest cell: the first `words` to the left, numbers to the right, and
/// what follows the last number as it is.
fn align(rows: &[Row], words: usize) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].len())
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate();
        let cells: Vec<String> = cells
            .map(|(column, (cell, &width))| {
                if column < words || ["WHY", "ANSWERS"].contains(&&*rows[0][column]) {
                    format!("{cell:width$}")
                } else {
                    format!("{cell:>width$}")
                }
            })
            .collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    text
}

use std::{collections::BTreeMap, net::SocketAddr};

use crate::{Edge, PartyId, World, server_address};

/// What an edge's ledger says against what its workers have open.
pub(super) fn check(edge: &Edge) -> Result<(), String> {
    let mut open: BTreeMap<_, (u64, u64, f64)> = BTreeMap::new();
    for (server, counted) in edge.nodes().iter().flat_map(node::Node::recount) {
        let sum = open.entry(server).or_default();
        sum.0 += counted.calls;
        sum.1 += counted.transactions;
        sum.2 += counted.work;
    }
    for member in edge.shared().snapshot().members().iter().flatten() {
        let server = &member.server;
        let told = (server.calls(), server.transactions(), server.work());
        let counted = open.remove(&server.id()).unwrap_or_default();
        let same = (told.0, told.1) == (counted.0, counted.1) && (told.2 - counted.2).abs() < 1e-6;
        if !same || server.underflows() > 0 {
            return Err(format!(
                "the ledger of {} says {told:?} (calls, transactions, work), open are {counted:?}, \
                 closed once too often {}",
                member.address,
                server.underflows()
            ));
        }
    }
    match open.first_key_value() {
        Some((server, counted)) => Err(format!("{counted:?} open on {server:?}, which is gone")),
        None => Ok(()),
    }
}

/// Finds what edges still hold although nothing is in progress. A call whose caller vanished may
/// stay while the server has it open, because the server confirms it when the edge asks.
pub(super) fn left(world: &World, edges: &[PartyId], servers: &[PartyId]) -> Result<(), String> {
    for (number, &server) in servers.iter().enumerate() {
        let address = server_address(number);
        let counted = edges
            .iter()
            .map(|&edge| calls_on(world.edge(edge), address));
        let (counted, open) = (counted.sum::<u64>(), world.server(server).open_calls());
        if counted > open as u64 {
            return Err(format!(
                "{counted} calls stay counted on {address}, which has {open} open"
            ));
        }
    }
    edges.iter().try_for_each(|&edge| left_on(world.edge(edge)))
}

/// Calls that an edge counts on a server.
pub(super) fn calls_on(edge: &Edge, address: SocketAddr) -> u64 {
    let snapshot = edge.shared().snapshot();
    let members = snapshot.members().iter().flatten();
    let there = members.filter(|member| member.address == address);
    there.map(|member| member.server.calls()).sum()
}

fn left_on(edge: &Edge) -> Result<(), String> {
    let mut calls = 0;
    for member in edge.shared().snapshot().members().iter().flatten() {
        let server = &member.server;
        calls += server.calls();
        let (transactions, unanswered) = (server.transactions(), member.unanswered());
        if (transactions, unanswered, server.work()) != (0, 0, 0.0) {
            return Err(format!(
                "{transactions} transactions, {} of work, stay counted on {}, and {unanswered} requests wait there",
                server.work(),
                member.address
            ));
        }
    }
    let workers = edge.shared().workers().iter();
    let sizes = workers.fold((0, 0, 0, 0), |sum, stats| {
        (
            sum.0 + stats.sessions_active(),
            sum.1 + stats.sessions_expired(),
            sum.2 + stats.transactions(),
            sum.3 + stats.held_transactions(),
        )
    });
    if sizes != (calls, 0, 0, 0) {
        return Err(format!(
            "{calls} calls are open, the tables hold {sizes:?} (open sessions, expired ones, \
             transactions, held ones)"
        ));
    }
    Ok(())
}

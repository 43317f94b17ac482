//! What is told of connections.

use net::{ConnectionStats, Counters, Refused, Why};

/// A worker's connections: what there is, and what has happened.
pub(crate) fn figures(of: &ConnectionStats) -> impl Iterator<Item = (&'static str, u64)> {
    let now = [
        ("total", of.total as u64),
        ("connecting", of.connecting as u64),
        ("handshaking", of.handshaking as u64),
        ("held_bytes", of.held_bytes as u64),
    ];
    now.into_iter().chain(events(&of.counters))
}

/// What has happened to connections.
pub(crate) fn events(of: &Counters) -> [(&'static str, u64); 9] {
    [
        ("accepted", of.accepted),
        ("opened", of.opened),
        ("established", of.established),
        ("messages_received", of.messages_received),
        ("messages_sent", of.messages_sent),
        ("messages_unsent", of.unsent),
        ("responses_unsent", of.responses_unsent),
        ("backed_up", of.backed_up),
        ("kept_alive", of.kept_alive),
    ]
}

/// Connections that were closed or refused, by reason.
pub(crate) fn closed(of: &ConnectionStats) -> impl Iterator<Item = (String, u64)> {
    let counters = &of.counters;
    let closed = Why::ALL.iter();
    let closed = closed.map(|&why| (why.label().to_owned(), counters.closed(why)));
    let refused = Refused::ALL.iter();
    closed.chain(refused.map(|&why| (format!("refused_{}", why.label()), counters.refused(why))))
}

//! No source takes what others need.

#![allow(clippy::unwrap_used)]

mod common;

use common::{LIMITS, ZERO, end, flow, hear, slow};
use stream::{Connections, Limits, Plain, Refused, Why};

/// One host began as many handshakes as there is room for and ended none, so that nobody else could connect.
#[test]
fn no_source_takes_all_handshakes() {
    let limits = Limits {
        total: 1_000,
        per_source: 1_000,
        handshaking: 100,
        ..LIMITS
    };
    let taken = |hosts_in_a_row: &[u8]| {
        let mut connections = Connections::new(0, 1, limits, ZERO);
        let mut taken = [0; 20];
        for (&host, port) in hosts_in_a_row.iter().zip(0..) {
            let id = connections.accept(ZERO, flow(host, port), slow(false));
            taken[usize::from(host)] += usize::from(id.is_ok());
        }
        connections.recount();
        taken
    };
    let one_after_the_other: Vec<_> = (0..5).flat_map(|host| [host; 100]).collect();
    assert_eq!(taken(&one_after_the_other)[..5], [20, 16, 13, 10, 8]);
    let by_turns: Vec<_> = [[1, 2, 3, 4, 5, 6, 7, 8]; 100].concat();
    assert_eq!(taken(&by_turns)[1..9], [9, 8, 8, 8, 8, 8, 8, 8]);
    let last: Vec<_> = [by_turns.clone(), vec![9; 100]].concat();
    assert_eq!(taken(&last)[9], 7);
}

/// The last of many sources were refused while handshakes were free: a quarter of these was less than the others had.
#[test]
fn a_crowd_of_many_sources_fills_all_handshakes() {
    let limits = Limits {
        total: 10_000,
        per_source: 1_000,
        handshaking: 1_280,
        ..LIMITS
    };
    let mut connections = Connections::new(0, 1, limits, ZERO);
    for (host, port) in (0..10).flat_map(|port| (0..128).map(move |host| (host, port))) {
        let id = connections.accept(ZERO, flow(host, port), slow(false));
        assert!(id.is_ok(), "{host} {port}");
    }
    assert!(!connections.may_accept(false));
}

/// A host behind a balancer is a source, too: its handshakes are counted once its address is told.
#[test]
fn handshakes_behind_a_balancer_are_counted_by_host() {
    let limits = Limits {
        total: 1_000,
        per_source: 1_000,
        handshaking: 100,
        ..LIMITS
    };
    let mut connections = Connections::new(0, 1, limits, ZERO);
    let mut ids = Vec::new();
    for port in 0..40 {
        let id = connections.accept(ZERO, flow(1, port), slow(true)).unwrap();
        hear(&mut connections, ZERO, id, &[7]);
        ids.push(id);
    }
    let ends = end(&mut connections);
    assert!(ends.len() >= 20 && ends.iter().all(|&why| why == Why::SourceFull));
    for &id in &ids {
        hear(&mut connections, ZERO, id, b"x");
    }
    connections.recount();
    assert_eq!(connections.handshaking(), 0);
    let id = connections.accept(ZERO, flow(1, 99), slow(true)).unwrap();
    hear(&mut connections, ZERO, id, &[7]);
    assert_eq!(end(&mut connections), []);
}

/// Strangers' handshakes kept servers, other edges and trusted peers out.
#[test]
fn known_hosts_have_handshakes_of_their_own() {
    let mut connections = Connections::new(0, 1, LIMITS, ZERO);
    let full = Err(Refused::Handshaking);
    for host in 1..=2 {
        let id = connections.accept(ZERO, flow(host, 1), slow(false));
        assert!(id.is_ok());
    }
    let refused = connections.accept(ZERO, flow(3, 1), slow(false));
    assert_eq!(refused, full);
    for port in 0..2 {
        let id = connections.accept_known(ZERO, flow(9, port), slow(false));
        assert!(id.is_ok());
    }
    let refused = connections.accept_known(ZERO, flow(9, 2), slow(false));
    assert_eq!(refused, full);
    assert_eq!(connections.handshaking(), 4);
    connections.recount();
}

/// Strangers took all places, and the node could not connect to its servers.
#[test]
fn places_are_left_to_known_hosts_and_to_connections_of_ours() {
    let limits = Limits {
        total: 32,
        per_source: 100,
        ..LIMITS
    };
    let mut connections = Connections::new(0, 1, limits, ZERO);
    let taken = (0..40).filter(|&port| {
        let taken = connections.accept(ZERO, flow(1, port), Plain);
        taken.is_ok()
    });
    assert_eq!(taken.count(), 30);
    assert_eq!(connections.counters().refused(Refused::Total), 10);
    assert!(connections.may_accept(true));
    connections.open(ZERO, flow(2, 1), Plain).unwrap();
    connections.accept_known(ZERO, flow(3, 1), Plain).unwrap();
    assert!(!connections.may_accept(true));
    connections.recount();
}

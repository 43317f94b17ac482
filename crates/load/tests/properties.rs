//! What holds for any network, and for any bytes.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod common;

use std::time::Duration;

use common::{Faults, PROXY, World, address, assert_carried, assert_counted};
use fastrand::Rng;
use load::{Arrivals, Caller, CallerConfig, Law, Outbox, Server, ServerConfig};
use proptest::prelude::*;

const CALLER: &str = "192.0.2.101:5070";
const SERVERS: [&str; 2] = ["192.0.2.11:7001", "192.0.2.12:7002"];
const DAY: Duration = Duration::from_secs(86_400);

fn world(seed: u64, calls_max: u64, window: usize, holding: Law, faults: Faults) -> World {
    let caller = CallerConfig {
        holding,
        calls_max,
        ..CallerConfig::plain(
            vec![address(CALLER)],
            address(PROXY),
            Arrivals::Window(window),
        )
    };
    let servers = SERVERS.map(|server| ServerConfig {
        ringing: Law::Exponential(Duration::from_millis(200)),
        ..ServerConfig::prompt(address(server))
    });
    World::new(seed, caller, servers.to_vec(), faults)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(40) })]

    #[test]
    fn every_call_is_counted_once(
        seed: u64,
        window in 1..50_usize,
        holding_ms in 0..3_000_u64,
        loss in 0.0..0.5,
        latency_ms in 0..300_u64,
        jitter_ms in 0..1_000_u64,
    ) {
        let faults = Faults {
            loss,
            latency: Duration::from_millis(latency_ms),
            jitter: Duration::from_millis(jitter_ms),
        };
        let holding = Law::Exponential(Duration::from_millis(holding_ms));
        let mut world = world(seed, 200, window, holding, faults);
        world.run(DAY);
        assert_counted(&world, 200);
        let invites: u64 = world.servers.iter().map(|server| server.stats().invites).sum();
        prop_assert!(invites <= 200, "{invites}");
    }

    #[test]
    fn nothing_that_comes_in_breaks_anything(
        noise in proptest::collection::vec(any::<u8>(), 0..60),
        at in any::<prop::sample::Index>(),
        seed: u64,
    ) {
        let mut rng = Rng::with_seed(seed);
        let config = CallerConfig {
            calls_max: 1,
            ..CallerConfig::plain(vec![address(CALLER)], address(PROXY), Arrivals::Window(1))
        };
        let mut caller = Caller::new(config, rng.fork(), Duration::ZERO);
        let mut server = Server::new(ServerConfig::prompt(address(SERVERS[0])), rng, Duration::ZERO);
        let (mut requests, mut responses) = (Outbox::default(), Outbox::default());
        caller.handle_timeout(Duration::ZERO, &mut requests);
        for (.., invite) in requests.datagrams() {
            server.handle_input(Duration::ZERO, address(CALLER), &damaged(invite, &noise, at), &mut responses);
            server.handle_input(Duration::ZERO, address(CALLER), invite, &mut responses);
        }
        for (.., response) in responses.datagrams() {
            let mut out = Outbox::default();
            caller.handle_input(Duration::ZERO, 0, address(PROXY), &damaged(response, &noise, at), &mut out);
            caller.handle_input(Duration::ZERO, 0, address(PROXY), &noise, &mut out);
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_calls() {
    let faults = Faults {
        loss: 0.1,
        latency: Duration::from_millis(10),
        jitter: Duration::from_millis(20),
    };
    let runs = [7, 7, 8].map(|seed| {
        let mut world = world(
            seed,
            500,
            20,
            Law::Exponential(Duration::from_millis(500)),
            faults,
        );
        world.run(DAY);
        let stats = world.caller.stats();
        (
            world.now,
            world.datagrams,
            stats.carried,
            stats.retransmissions,
            stats.answer_ns.clone(),
        )
    });
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
}

#[test]
fn a_quiet_network_carries_all() {
    let mut world = world(9, 500, 20, Law::ZERO, Faults::default());
    world.run(DAY);
    assert_carried(&world, 500);
}

/// The message with noise in place of what stood at some point.
fn damaged(message: &[u8], noise: &[u8], at: prop::sample::Index) -> Vec<u8> {
    let start = at.index(message.len());
    let end = (start + noise.len()).min(message.len());
    [&message[..start], noise, &message[end..]].concat()
}

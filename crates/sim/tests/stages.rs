//! Two stages of nodes carry what their processors can do, and find every user.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod common;

use std::time::Duration;

use balance::Policy;
use common::{s, setup};
use load::{Law, Retransmission, ServerConfig};
use sim::{
    Capacity, Cluster, Duty, Experiment, Outcome, Second, ServerSetup, Setup, Span, server_address,
};

/// Edges of 105 calls/s, nodes of 90, phones that answer at once.
fn stages(edges: usize, nodes: usize, duty: Duty, rate: f64) -> Setup {
    let capacity = |per_s| Capacity {
        per_s,
        messages: 6.0,
        waiting_max: 50,
        waiting_max_of_new: 25,
    };
    let mut setup = Setup {
        edges,
        edge_capacity: Some(capacity(105.0)),
        second: Some(Second {
            nodes,
            duty,
            users: 200,
            is_shared: false,
            capacity: Some(capacity(90.0)),
        }),
        servers: vec![
            ServerSetup {
                config: ServerConfig::prompt(server_address(0)),
                speed: 1.0,
                capacity: 1.0,
                is_spare: false,
            };
            4
        ],
        ..setup()
    };
    setup.pool.policy = Policy::UserHash;
    setup.pool.answer_timeout = s(32);
    setup.calls.rate = rate;
    setup.calls.holding = Law::ZERO;
    setup.calls.retransmission = Retransmission::Sipstone;
    setup
}

fn run(setup: Setup) -> Outcome {
    let experiment = Experiment {
        setup,
        warm_up: s(3),
        measured: Span::Time(s(20)),
        actions: Vec::new(),
        noise: None,
        watches_occupancy: false,
    };
    sim::run(&experiment, 1).unwrap()
}

fn check(edges: usize, nodes: usize, duty: Duty, rate: f64, expected: f64) {
    let setup = stages(edges, nodes, duty, rate);
    let predicted = setup.predicted_per_s();
    let outcome = run(setup);
    let carried = outcome.calls.carried as f64 / outcome.time.as_secs_f64();
    let what = format!("S{edges}P{nodes}, {duty:?} at {rate}/s");
    assert!(
        (predicted / expected - 1.0).abs() < 0.05,
        "{what}: {predicted} predicted"
    );
    assert!(
        (carried / predicted - 1.0).abs() < 0.05,
        "{what}: {carried}, not {predicted}"
    );
}

#[test]
fn throughput_is_as_the_formula_says() {
    for duty in [Duty::Proxy, Duty::LookUp] {
        check(0, 1, duty, 60.0, 60.0);
        check(0, 1, duty, 200.0, 90.0);
        check(1, 2, duty, 80.0, 80.0);
        check(1, 2, duty, 200.0, 105.0);
        check(2, 2, duty, 400.0, 180.0);
    }
    check(2, 2, Duty::Register, 100.0, 100.0);
}

#[test]
fn a_processor_works_as_long_as_its_messages_take() {
    let outcome = run(stages(1, 1, Duty::Proxy, 45.0));
    let busy = |time: Duration| time.div_duration_f64(outcome.time);
    let (edge, node) = (busy(outcome.edges_busy), busy(outcome.nodes_busy));
    assert!((edge - 45.0 / 105.0).abs() < 0.03, "{edge}");
    assert!((node - 45.0 / 90.0).abs() < 0.03, "{node}");
    assert_eq!(outcome.overflowed, 0);
}

#[test]
fn registered_users_are_found_where_they_registered() {
    let setup = stages(2, 3, Duty::LookUp, 50.0);
    let mut cluster = Cluster::new(&setup, 1).unwrap();
    let registered = cluster.world.phones(cluster.phones[0]).registered();
    assert_eq!(registered, 200);
    let end = cluster.world.now() + s(20);
    cluster.world.run_until(end, &mut ());
    for &caller in &cluster.callers {
        let stats = cluster.world.caller(caller).stats();
        assert!(stats.carried > 400, "{stats:?}");
        assert_eq!(stats.failures(), 0, "{stats:?}");
    }
}

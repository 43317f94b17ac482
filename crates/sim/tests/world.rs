//! Worlds run as their seeds say, and parties die and come back.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod common;

use std::time::Duration;

use common::{s, setup};
use sim::{
    Action, Cluster, Criterion, Death, Deed, Digest, Experiment, Link, Noise, Search, Span, Trace,
    Who,
};

fn digest(seed: u64, link: Link) -> u64 {
    let mut setup = setup();
    setup.edges = 2;
    setup.workers = 2;
    setup.link = link;
    let mut digest = Digest::default();
    let mut cluster = Cluster::new(&setup, seed).unwrap();
    cluster.world.run_until(s(5), &mut digest);
    cluster
        .world
        .crash(cluster.servers[0], Death::Process, &mut digest);
    cluster.world.run_until(s(8), &mut digest);
    cluster
        .world
        .restart(cluster.servers[0], &mut digest)
        .unwrap();
    cluster
        .world
        .crash(cluster.edges[0], Death::Machine, &mut digest);
    cluster.world.run_until(s(9), &mut digest);
    cluster
        .world
        .restart(cluster.edges[0], &mut digest)
        .unwrap();
    cluster.world.run_until(s(20), &mut digest);
    assert!(cluster.world.arrivals() > 1_000);
    digest.value()
}

#[test]
fn a_seed_fixes_a_run() {
    let bad = Link {
        latency: load::Law::Exponential(Duration::from_millis(5)),
        loss: 0.05,
        duplication: 0.05,
        reordering: 0.05,
        held_back: Duration::from_millis(600),
        ..Link::clean(Duration::ZERO)
    };
    for link in [Link::clean(Duration::from_millis(1)), bad] {
        assert_eq!(digest(1, link), digest(1, link));
        assert_ne!(digest(1, link), digest(2, link));
    }
}

#[test]
fn every_call_is_carried_and_leaves_nothing() {
    let mut cluster = Cluster::new(&setup(), 1).unwrap();
    cluster.world.run_until(s(20), &mut ());
    cluster.world.caller_mut(cluster.callers[0]).stop();
    cluster.world.run_until(s(120), &mut ());
    let stats = cluster.world.caller(cluster.callers[0]).stats();
    assert!(stats.offered > 800, "{}", stats.offered);
    assert_eq!((stats.carried, stats.failures()), (stats.offered, 0));
    let edge = cluster.world.edge(cluster.edges[0]);
    for member in edge.shared().snapshot().members().iter().flatten() {
        assert_eq!(
            (member.server.calls(), member.server.transactions()),
            (0, 0)
        );
    }
    assert_eq!(cluster.world.in_flight(), 0);
}

#[test]
fn calls_go_round_a_dead_server() {
    for death in [Death::Process, Death::Machine] {
        let mut cluster = Cluster::new(&setup(), 1).unwrap();
        cluster.world.run_until(s(5), &mut ());
        cluster.world.crash(cluster.servers[0], death, &mut ());
        cluster.world.run_until(s(60), &mut ());
        let _ = cluster
            .world
            .caller_mut(cluster.callers[0])
            .stats_mut()
            .take();
        cluster.world.run_until(s(80), &mut ());
        let stats = cluster.world.caller(cluster.callers[0]).stats();
        assert!(stats.carried > 800, "{death:?}: {stats:?}");
        assert_eq!(stats.failures(), 0, "{death:?}");
    }
}

#[test]
fn a_cut_server_is_reached_again_once_mended() {
    let mut cluster = Cluster::new(&setup(), 1).unwrap();
    let (edge, server) = (cluster.edges[0], cluster.servers[0]);
    let calls = |cluster: &Cluster| cluster.world.server(server).stats().invites;
    cluster.world.network_mut().set_cut(edge, server, true);
    cluster.world.run_until(s(10), &mut ());
    assert_eq!(calls(&cluster), 0);
    cluster.world.network_mut().set_cut(edge, server, false);
    cluster.world.run_until(s(60), &mut ());
    assert!(calls(&cluster) > 50);
}

#[test]
fn a_trace_is_for_people() {
    let cluster = &mut Cluster::new(&setup(), 1).unwrap();
    let mut trace = Trace::new(cluster.world.names(), 10);
    cluster.world.run_until(s(1), &mut trace);
    let lines: Vec<&str> = trace
        .text()
        .lines()
        .filter(|l| !l.starts_with('#'))
        .collect();
    assert_eq!(lines.len(), 10);
    let invite: Vec<&str> = lines[0].split_whitespace().collect();
    assert_eq!(
        invite[1..7],
        ["came", "caller-1", "edge-1", "INVITE", "1", "INVITE"]
    );
    assert!(lines[1].contains("edge-1"), "{}", lines[1]);
}

#[test]
fn an_experiment_measures_what_happens() {
    let action = |at, deed| Action { at: s(at), deed };
    let mut setup = setup();
    setup.servers[3].is_spare = true;
    setup.pool.policy = balance::Policy::RoundRobin;
    let experiment = Experiment {
        setup,
        warm_up: s(10),
        measured: Span::Time(s(60)),
        actions: vec![
            action(1, Deed::Add(3, 1.0)),
            action(5, Deed::Kill(Who::Server(0), Death::Machine)),
            action(20, Deed::Restart(Who::Server(0))),
            action(30, Deed::Drain(1)),
            action(40, Deed::Speed(2, 0.5)),
            action(41, Deed::Stall(3, s(1))),
            action(45, Deed::Cut(Who::Edge(0), Who::Server(2))),
            action(50, Deed::Mend(Who::Edge(0), Who::Server(2))),
        ],
        noise: Some(Noise {
            by: 0.5,
            every: s(5),
        }),
        watches_occupancy: true,
    };
    let outcome = sim::run(&experiment, 1).unwrap();
    assert_eq!(outcome.time, s(60));
    assert!(outcome.calls.offered > 2_500, "{:?}", outcome.calls);
    assert!(
        outcome.placed.iter().all(|&calls| calls > 100),
        "{outcome:?}"
    );
    assert!(outcome.failed_over > 0);
    let watched: u64 = outcome.occupancy.requests.iter().sum();
    assert!(watched > 100, "{watched}");
    assert_eq!(
        outcome.occupancy,
        sim::run(&experiment, 1).unwrap().occupancy
    );
}

#[test]
fn the_peak_of_one_server_is_its_capacity() {
    let mut setup = setup();
    setup.servers.truncate(1);
    let capacity = setup.capacity();
    let experiment = Experiment {
        setup,
        warm_up: s(8),
        measured: Span::Time(s(20)),
        actions: Vec::new(),
        noise: None,
        watches_occupancy: false,
    };
    let search = Search {
        low: 0.5 * capacity,
        high: 1.5 * capacity,
        step: 0.05 * capacity,
        criterion: Criterion {
            within: s(1),
            share: 0.9999,
        },
    };
    let peak = search.run(&experiment, 1).unwrap() / capacity;
    assert!((0.9..1.1).contains(&peak), "{peak}");
}

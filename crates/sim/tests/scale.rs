//! A part of the design in experiments/scale/hundred-million.toml on the real node: three sites, of which one is lost
//! at the busy hour; a shard of a store is lost; and all nodes are replaced. docs/scale.md has the figures.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod common;
mod continents;

use std::time::Duration;

use common::s;
use continents::{Continents, EUROPE, NODES, SITES};
use sim::{Event, Watch, What};

/// When a site is lost, or the upgrade begins.
const BEGIN: u64 = 30;

/// What was seen in a second.
#[derive(Clone, Copy, Debug, Default)]
struct Second {
    offered: u64,
    answered: u64,
    /// The same for calls between sites that are alive.
    offered_alive: u64,
    answered_alive: u64,
    failed: u64,
    /// How busy the busiest edge and the busiest registrar were.
    busy: [f64; 2],
    /// Phones of the lost site that are back.
    back: usize,
}

/// Runs a second, and counts.
fn second(world: &mut Continents) -> Second {
    let before: Vec<Duration> = world
        .nodes()
        .map(|id| world.world.edge(id).busy())
        .collect();
    let calls = world.run(s(1));
    let after = world.nodes().map(|id| world.world.edge(id).busy());
    let busy: Vec<f64> = after
        .zip(before)
        .map(|(after, before)| after.saturating_sub(before).as_secs_f64())
        .collect();
    let busiest = |kind: usize| busy.iter().skip(kind * NODES).take(NODES);
    let mut seen = Second {
        busy: [0, 1].map(|kind| busiest(kind).copied().fold(0.0, f64::max)),
        back: world.back(),
        ..Second::default()
    };
    for (pair, stats) in calls {
        let answered = stats.answer_ns.len();
        seen.offered += stats.offered;
        seen.answered += answered;
        seen.failed += stats.failures();
        if !pair.contains(&EUROPE) {
            seen.offered_alive += stats.offered;
            seen.answered_alive += answered;
        }
    }
    seen
}

/// What the loss of a site costs.
#[derive(Debug)]
struct Loss {
    /// Calls that began and were not answered, by those who call from and to sites that are alive, and by all.
    lost_alive: u64,
    lost: u64,
    /// Seconds until all calls that are offered are answered, for good, the lost site's users included.
    healed: Option<usize>,
    /// Seconds until the lost site's phones that had a connection are back.
    back: Option<usize>,
    busy_before: [f64; 2],
    busy_most: [f64; 2],
}

fn lose_a_site(scale: u32, spare: f64, seed: u64, watched: u64) -> Loss {
    let mut world = Continents::new(scale, spare, seed);
    let before: Vec<Second> = (0..BEGIN).map(|_| second(&mut world)).collect();
    world.lose_europe();
    let after: Vec<Second> = (0..watched)
        .map(|at| {
            world.go_on(at);
            second(&mut world)
        })
        .collect();
    let sum = |of: fn(&Second) -> u64| after.iter().map(of).sum::<u64>();
    let most = |seconds: &[Second], kind: usize| {
        let busy = seconds.iter().map(|second| second.busy[kind]);
        busy.fold(0.0, f64::max)
    };
    // Some calls are answered in the next window.
    let is_bad = |window: &[Second]| {
        let offered: u64 = window.iter().map(|second| second.offered).sum();
        let answered: u64 = window.iter().map(|second| second.answered).sum();
        (answered as f64) < 0.95 * offered as f64
    };
    let last_bad = after.windows(10).rposition(is_bad);
    let returning = world.returning();
    Loss {
        lost_alive: sum(|it| it.offered_alive).saturating_sub(sum(|it| it.answered_alive)),
        lost: sum(|it| it.offered).saturating_sub(sum(|it| it.answered)),
        healed: match last_bad {
            None => Some(0),
            Some(last) if last + 20 < after.len() => Some(last + 10),
            Some(_) => None,
        },
        back: after.iter().position(|second| second.back >= returning),
        busy_before: [0, 1].map(|kind| most(&before[before.len() / 2..], kind)),
        busy_most: [0, 1].map(|kind| most(&after, kind)),
    }
}

/// Replaces all nodes, one after another. Returns the calls that were offered, those that failed, and the most
/// that any node was busy.
fn upgrade(scale: u32, seed: u64, pause_s: u64) -> (u64, u64, f64) {
    let mut world = Continents::new(scale, 2.0, seed);
    let mut seen: Vec<Second> = (0..BEGIN).map(|_| second(&mut world)).collect();
    for node in 0..2 * NODES {
        world.stop(node);
        seen.push(second(&mut world));
        world.start(node);
        seen.extend((0..pause_s).map(|_| second(&mut world)));
    }
    // Who began last is told after 32 s at the latest.
    world.hold_off();
    let end: Vec<Second> = (0..64 + 40).map(|_| second(&mut world)).collect();
    let offered = seen.iter().map(|it| it.offered).sum();
    let all = seen.iter().chain(&end);
    let failed = all.clone().map(|it| it.failed).sum();
    let busy = seen.iter().flat_map(|it| it.busy).fold(0.0, f64::max);
    (offered, failed, busy)
}

/// What the loss of a shard costs: in each pair how many there were, and how many of them failed.
#[derive(Debug, Default)]
struct ShardLoss {
    /// Calls to users of the site, and all others.
    to_site: [u64; 2],
    elsewhere: [u64; 2],
    /// REGISTERs of the site's phones.
    registers: [u64; 2],
}

/// One of three shards of a site's store is lost for as long as a Redis cluster takes by default to notice that.
fn lose_a_shard(scale: u32, spare: f64, seed: u64) -> ShardLoss {
    const SITE: usize = 0;
    let (mut world, mut loss) = (Continents::new(scale, spare, seed), ShardLoss::default());
    world.run(s(BEGIN));
    world.take_refreshed();
    world.lose_shard(SITE, s(15));
    let mut calls = world.run(s(60));
    let refreshed = world.take_refreshed().swap_remove(SITE);
    loss.registers = [refreshed.offered, refreshed.failures()];
    world.hold_off();
    calls.extend(world.run(s(104)));
    for (pair, stats) in calls {
        let [offered, failed] = match pair[1] {
            SITE => &mut loss.to_site,
            _ => &mut loss.elsewhere,
        };
        *offered += stats.offered;
        *failed += stats.failures();
    }
    loss
}

#[test]
fn a_lost_site_costs_others_no_call() {
    let loss = lose_a_site(4_000, 20.0, 1, 120);
    assert_eq!(loss.lost_alive, 0, "{loss:?}");
    assert!(loss.healed.is_some_and(|healed| healed < 60), "{loss:?}");
    assert!(loss.back.is_some(), "{loss:?}");
    // Europe's callers wait for ten seconds, and its users for their phones.
    assert!((1..500).contains(&loss.lost), "{loss:?}");
    for (before, most) in loss.busy_before.into_iter().zip(loss.busy_most) {
        assert!(before < most && most < 1.0, "{loss:?}");
    }
}

#[test]
fn all_nodes_are_replaced_and_few_calls_fail() {
    let (offered, failed, busy) = upgrade(4_000, 1, 3);
    assert!(offered > 300, "{offered}");
    assert!(failed * 100 <= offered, "{failed} of {offered}");
    assert!(busy < 1.0, "{busy}");
}

/// A node took its own socket for late for as long as nothing came there, and read no lane. The world stood still.
#[test]
fn time_goes_on() {
    let mut world = Continents::new(4_000, 2.0, 1);
    world.run(s(BEGIN + 60));
    world.hold_off();
    world.run(s(104));
}

#[test]
fn a_lost_shard_costs_only_those_whose_records_it_has() {
    let losses: Vec<_> = (1..=2).map(|seed| lose_a_shard(1_000, 2.0, seed)).collect();
    let sum = |of: fn(&ShardLoss) -> [u64; 2]| {
        let add = |sum: [u64; 2], more: [u64; 2]| [sum[0] + more[0], sum[1] + more[1]];
        losses.iter().map(of).fold([0; 2], add)
    };
    let [calls, failed] = sum(|loss| loss.to_site);
    // A third of the users, in 15 of 60 s. Half of the calls failed, as 503s had edges leave the site's registrars alone.
    let reach = calls / 4 / 3;
    assert!(failed > reach / 2 && failed <= reach * 5 / 4, "{losses:?}");
    let [calls, failed] = sum(|loss| loss.elsewhere);
    assert!(calls > 400 && failed == 0, "{losses:?}");
    // A REGISTER needs two records.
    let [registers, refused] = sum(|loss| loss.registers);
    assert!(
        refused > 0 && refused <= registers / 4 * 5 / 9,
        "{losses:?}"
    );
}

/// Bytes of SIP and of what is below it that an edge exchanges with callers and phones.
#[derive(Default)]
struct Bytes {
    edges: Vec<sim::PartyId>,
    others: Vec<sim::PartyId>,
    calls: u64,
    registers: u64,
}

/// IPv4 and UDP.
const BELOW: u64 = 28;

impl Watch for Bytes {
    fn see(&mut self, event: &Event<'_>) {
        let ends = [Some(event.sender), event.receiver];
        let is_inside =
            |end: &Option<sim::PartyId>| end.is_some_and(|it| self.others.contains(&it));
        if event.what != What::Sent || ends.iter().any(is_inside) {
            return;
        }
        let bytes = event.bytes.len() as u64 + BELOW;
        let is_register = find(event.bytes, b" REGISTER\r\n");
        match is_register {
            true => self.registers += bytes,
            false => self.calls += bytes,
        }
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

/// `cargo test -p sim --test scale bytes -- --ignored --nocapture`
#[test]
#[ignore = "it prints how long messages are"]
#[expect(clippy::print_stdout, reason = "it prints")]
fn bytes() {
    let mut world = Continents::new(10_000, 40.0, 1);
    let mut watch = Bytes {
        edges: world.edges.clone(),
        others: world
            .registrars
            .iter()
            .chain(&world.servers)
            .copied()
            .collect(),
        ..Bytes::default()
    };
    let (calls, registers) = world.count(s(120), &mut watch);
    println!(
        "a call: {} bytes on its caller's side of an edge, a REGISTER: {} bytes ({} edges)",
        watch.calls / calls,
        watch.registers / registers,
        watch.edges.len()
    );
}

/// `SCALE=100 cargo test --release -p sim --test scale costs -- --ignored --nocapture`
#[test]
#[ignore = "it prints what the loss of a site, of a shard and an upgrade cost"]
#[expect(clippy::print_stdout, reason = "it prints")]
fn costs() {
    let variable = |name: &str, usual: u32| {
        std::env::var(name).map_or(usual, |number| number.parse().unwrap())
    };
    let (scale, seeds) = (variable("SCALE", 1_000), variable("SEEDS", 1));
    println!("1/{scale} of the users and calls, {SITES} sites");
    for seed in 1..=u64::from(seeds) {
        for spare in [1.0, 4.0, 16.0] {
            let loss = lose_a_site(scale, spare, seed, 400);
            println!("seed {seed}, {spare} times the processors that the aims ask for: {loss:?}");
        }
        let loss = lose_a_shard(scale, 2.0, seed);
        println!("seed {seed}, a shard: {loss:?}");
        let (offered, failed, busy) = upgrade(scale, seed, 15);
        println!(
            "seed {seed}, upgrade: {failed} of {offered} calls failed, busy at most {busy:.2}"
        );
    }
}

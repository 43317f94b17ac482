//! Nodes that decide each for itself, beside the linear program that knows all of them.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod world;

use fastrand::Rng;
use proptest::prelude::*;
use topology::{Node, Path, Topology};
use world::World;

const PAPER: (f64, f64) = (5700.0, 4700.0);

fn topology(nodes: &[(f64, f64)], paths: &[(&[usize], f64)]) -> Topology {
    let node = |(index, &(stateless, stateful)): (usize, &(f64, f64))| Node {
        name: format!("n{index}"),
        stateless,
        stateful,
    };
    let path = |(nodes, share): &(&[usize], f64)| Path {
        nodes: nodes.to_vec(),
        share: *share,
    };
    Topology {
        nodes: nodes.iter().enumerate().map(node).collect(),
        paths: paths.iter().map(path).collect(),
    }
}

/// The shares of the best that come and are carried in 6 s when so much of it is offered, after so many seconds.
fn offered_and_carried(topology: &Topology, load: f64, after: f64, seed: u64) -> (f64, f64) {
    let best = topology.best().unwrap().calls_per_s;
    let mut world = World::new(topology, seed);
    world.run(best * load, after);
    world.take_offered();
    world.take_carried();
    world.run(best * load, 6.0);
    let of_best = |number: u64| number as f64 / 6.0 / best;
    (of_best(world.take_offered()), of_best(world.take_carried()))
}

/// The share of the best that is carried after 3 s.
fn carried(topology: &Topology, load: f64, seed: u64) -> f64 {
    offered_and_carried(topology, load, 3.0, seed).1
}

fn check(what: &str, topology: &Topology) {
    for load in [0.5, 0.9, 0.97] {
        let carried = carried(topology, load, 1);
        assert!(carried > load - 0.015, "{what} at {load}: {carried:.3}");
    }
    let over = carried(topology, 1.05, 2);
    assert!(over > 0.96, "{what} over: {over:.3}");
}

#[test]
fn nodes_in_series_carry_nearly_the_best() {
    for count in 1..=5_usize {
        let all: Vec<usize> = (0..count).collect();
        let series = topology(&vec![PAPER; count], &[(&all, 1.0)]);
        check(&format!("{count} in series"), &series);
    }
}

#[test]
fn nodes_of_different_speed_carry_nearly_the_best() {
    let slow = (2850.0, 2350.0);
    check("slow first", &topology(&[slow, PAPER], &[(&[0, 1], 1.0)]));
    check("slow last", &topology(&[PAPER, slow], &[(&[0, 1], 1.0)]));
    let dear = (5700.0, 2000.0);
    check("dear first", &topology(&[dear, PAPER], &[(&[0, 1], 1.0)]));
    check("dear last", &topology(&[PAPER, dear], &[(&[0, 1], 1.0)]));
}

#[test]
fn trees_and_diamonds_carry_nearly_the_best() {
    let branches = topology(&[PAPER; 3], &[(&[0, 1], 1.0), (&[0, 2], 1.0)]);
    check("a tree", &branches);
    let uneven = topology(&[PAPER; 3], &[(&[0, 1], 3.0), (&[0, 2], 1.0)]);
    check("an uneven tree", &uneven);
    let merging = topology(&[PAPER; 3], &[(&[0, 2], 1.0), (&[1, 2], 2.0)]);
    check("edges before a core", &merging);
    let diamond = topology(&[PAPER; 4], &[(&[0, 1, 3], 1.0), (&[0, 2, 3], 1.0)]);
    check("a diamond", &diamond);
    let slow = (2850.0, 2350.0);
    let askew = topology(
        &[PAPER, slow, PAPER, PAPER],
        &[(&[0, 1, 3], 1.0), (&[0, 2, 3], 2.0)],
    );
    check("a diamond with a slow side", &askew);
}

#[test]
fn calls_in_both_directions_carry_nearly_the_best() {
    let both = topology(&[PAPER; 2], &[(&[0, 1], 1.0), (&[1, 0], 1.0)]);
    check("both directions", &both);
    let uneven = topology(&[PAPER; 3], &[(&[0, 1, 2], 3.0), (&[2, 1, 0], 1.0)]);
    check("three, both directions", &uneven);
}

#[test]
fn with_little_to_do_the_first_node_holds_all() {
    let two = topology(&[PAPER; 3], &[(&[0, 1, 2], 1.0)]);
    let mut world = World::new(&two, 3);
    world.run(3000.0, 5.0);
    assert_eq!(&world.held()[1..], &[0, 0]);
}

#[test]
fn a_step_settles_within_two_seconds() {
    let two = topology(&[PAPER; 2], &[(&[0, 1], 1.0)]);
    let best = two.best().unwrap().calls_per_s;
    let mut world = World::new(&two, 4);
    world.run(0.5 * best, 3.0);
    world.run(0.98 * best, 2.0);
    world.take_carried();
    for second in 0..5 {
        world.run(0.98 * best, 1.0);
        let carried = world.take_carried() as f64 / best;
        assert!(carried > 0.95, "second {second}: {carried:.3}");
    }
}

/// The last node loses half of its speed, and gets it back.
#[test]
fn half_a_node_lost_is_noticed() {
    let two = topology(&[PAPER; 2], &[(&[0, 1], 1.0)]);
    let mut world = World::new(&two, 5);
    world.run(2600.0, 3.0);
    world.set_speed(1, 0.5);
    world.run(2600.0, 2.0);
    world.take_carried();
    world.run(2600.0, 3.0);
    assert!(world.take_carried() as f64 > 0.97 * 3.0 * 2600.0);
    world.set_speed(1, 1.0);
    world.run(5000.0, 2.0);
    world.take_carried();
    world.run(5000.0, 3.0);
    assert!(world.take_carried() as f64 > 0.97 * 3.0 * 5000.0);
}

/// What a full node did was taken for its costs, and the node behind took 15 % more at a time. So calls were lost for two seconds.
#[test]
fn a_first_node_that_slows_leaves_all_open_within_half_a_second() {
    let two = topology(&[PAPER; 2], &[(&[0, 1], 1.0)]);
    for seed in 0..6 {
        let mut world = World::new(&two, seed);
        world.run(2790.0, 3.0);
        world.set_speed(0, 0.5);
        world.run(2790.0, 0.5);
        world.take_carried();
        world.run(2790.0, 2.0);
        let carried = world.take_carried() as f64 / 2.0 / 2790.0;
        assert!(carried > 0.97, "seed {seed}: {carried:.3}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A bound of 0.95 of the best failed where less than 0.97 had come, by chance. Five of 1,500 needed more than 3 s to settle.
    #[test]
    fn random_chains_and_trees_carry_nearly_the_best(seed: u64) {
        let mut rng = Rng::with_seed(seed);
        let random = world::random_tree(&mut rng);
        let (offered, carried) = offered_and_carried(&random, 0.97, 9.0, seed);
        prop_assert!(carried > 0.98 * offered, "{carried:.4} of {offered:.4}: {random:?}");
    }
}

/// `cargo test -p custody --test optimum -- --ignored --nocapture`
#[test]
#[ignore = "it prints where nodes stand"]
#[expect(clippy::print_stdout, reason = "it prints")]
fn trace() {
    let nodes: &[(f64, f64)] = &[(5700.0, 2000.0), PAPER];
    let chain = topology(nodes, &[(&[0, 1], 1.0)]);
    let best = chain.best().unwrap();
    println!("{best:?} {:?}", chain.loads(&best));
    let mut world = World::new(&chain, 1);
    for _ in 0..24 {
        world.run(0.97 * best.calls_per_s, 0.5);
        println!("{:5} {:?}", world.take_carried() * 2, world.figures());
    }
}

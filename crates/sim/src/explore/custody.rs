//! Random chains and trees of nodes with dynamic state: one node holds each transaction, whatever happens.

use std::time::Duration;

use fastrand::Rng;
use node::config::Mode;
use topology::{Node, Path, Topology};

use super::outcome::{Kind, Outcome, Violation};
use crate::{
    Death, Link,
    farm::{Checks, Farm, Holders, Users},
};

/// One seed in so many draws such nodes, too.
pub(super) const ONE_IN: u64 = 8;

/// The longest that a call can take to end: 64*T1 for its INVITE and for its BYE, and then some.
const LINGER: Duration = Duration::from_secs(70);

/// Runs the nodes of a seed, and adds what came of it to an outcome.
pub(super) fn run(seed: u64, outcome: &mut Outcome) {
    let mut rng = Rng::with_seed(seed.rotate_left(17));
    let topology = draw(&mut rng);
    let found = play(&mut rng, &topology, seed, outcome);
    if let Some((at, kind, what)) = found
        && outcome.violation.is_none()
    {
        let what = format!("{what}; dynamic state on {topology:?}");
        outcome.violation = Some(Violation { at, kind, what });
    }
}

fn play(
    rng: &mut Rng,
    topology: &Topology,
    seed: u64,
    outcome: &mut Outcome,
) -> Option<(Duration, Kind, String)> {
    let link = Link {
        loss: 0.03 * rng.f64(),
        duplication: 0.02 * rng.f64(),
        reordering: 0.1 * rng.f64(),
        held_back: Duration::from_millis(rng.u64(1..50)),
        ..Link::clean(Duration::from_millis(1))
    };
    let bad = |what: String| Some((Duration::ZERO, Kind::Safety, what));
    let Ok(best) = topology.best() else {
        return bad("the linear program has no answer".to_owned());
    };
    // Every other seed's callers must prove who they are.
    let asks = seed / ONE_IN % 2 == 1;
    let users = asks.then(|| Users::of(topology, Duration::from_micros(500)));
    let farm = Farm::of_users(topology, |_| Mode::Dynamic, seed, link, users);
    let Ok(mut farm) = farm else {
        return bad("a node refuses its configuration".to_owned());
    };
    let servers = farm.servers().to_vec();
    let mut watch = (Holders::new(servers.clone()), Checks::new(servers));
    let seconds = rng.u64(3..12);
    let load = 0.3 + 0.9 * rng.f64();
    farm.call(load * best.calls_per_s, Duration::from_secs(seconds));
    for _ in 0..seconds {
        let stats = farm.stats(Duration::from_secs(1), &mut watch);
        outcome.calls += stats.offered;
        if rng.u8(..4) == 0 {
            let node = farm.nodes()[rng.usize(..farm.nodes().len())];
            let death = if rng.bool() {
                Death::Process
            } else {
                Death::Machine
            };
            farm.world.crash(node, death, &mut watch);
            farm.stats(Duration::from_millis(rng.u64(1..500)), &mut watch);
            if farm.world.restart(node, &mut watch).is_err() {
                return bad("a node can't restart".to_owned());
            }
        }
    }
    let stats = farm.stats(LINGER, &mut watch);
    outcome.failed += stats.failed.values().sum::<u64>();
    outcome.messages += farm.world.arrivals();
    outcome.lasted += farm.world.now();
    let (now, tally) = (farm.world.now(), watch.0.tally());
    let is_unchecked = asks && watch.1.unchecked() > 0;
    if (tally.by_none, tally.by_two) != (0, 0) || is_unchecked {
        let what = format!("{tally:?}, {:?}", watch.1);
        return Some((now, Kind::Safety, what));
    }
    let before = tally.transactions;
    farm.call(20.0, Duration::from_secs(5));
    let later = farm.stats(LINGER, &mut watch);
    if watch.0.tally().transactions == before || later.carried + 5 < later.offered {
        let what = format!(
            "{} of {} later calls were carried",
            later.carried, later.offered
        );
        return Some((now, Kind::Liveness, what));
    }
    None
}

/// A root with branches: in the simplest case a chain. Calls go down, and sometimes up, too.
fn draw(rng: &mut Rng) -> Topology {
    let count = rng.usize(2..6);
    let nodes = (0..count).map(|index| {
        let stateless = 200.0 + 300.0 * rng.f64();
        Node {
            name: format!("n{index}"),
            stateless,
            stateful: stateless * (0.5 + 0.45 * rng.f64()),
        }
    });
    let nodes: Vec<Node> = nodes.collect();
    let is_chain = rng.bool();
    let parents: Vec<usize> = (1..count)
        .map(|index| {
            if is_chain {
                index - 1
            } else {
                rng.usize(..index)
            }
        })
        .collect();
    let mut paths = Vec::new();
    for leaf in (0..count).filter(|node| !parents.contains(node)) {
        let mut nodes = vec![leaf];
        let mut at = leaf;
        while at > 0 {
            at = parents[at - 1];
            nodes.push(at);
        }
        if rng.u8(..3) == 0 {
            let nodes = nodes.clone();
            paths.push(Path {
                nodes,
                share: 0.2 + rng.f64(),
            });
        }
        nodes.reverse();
        paths.push(Path {
            nodes,
            share: 0.5 + rng.f64(),
        });
    }
    Topology { nodes, paths }
}

#[cfg(test)]
#[allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "it prints, for as long as it is told"
)]
mod tests {
    use std::{env, time::Instant};

    use super::*;

    /// `FIRST=0 SECONDS=600 cargo test --release -p sim --lib -- --ignored --nocapture chains`
    ///
    /// Chains and trees alone, without the worlds that the same seeds draw besides.
    #[test]
    #[ignore = "it takes as long as it is told"]
    fn chains() {
        let number =
            |name, usual| env::var(name).map_or(usual, |text| text.parse().expect("a number"));
        let (first, seconds) = (number("FIRST", 0), number("SECONDS", 60));
        let (began, mut seed) = (Instant::now(), first);
        let (mut calls, mut found) = (0, 0);
        while began.elapsed() < Duration::from_secs(seconds) {
            let mut outcome = Outcome::default();
            run(seed, &mut outcome);
            calls += outcome.calls;
            if let Some(violation) = outcome.violation {
                println!("seed {seed}: {violation}");
                found += 1;
            }
            seed += ONE_IN;
        }
        println!("seeds {first} to {seed}: {calls} calls, {found} violations");
        assert_eq!(found, 0);
    }
}

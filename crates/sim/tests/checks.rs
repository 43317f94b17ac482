//! Who checks those who call on a path of nodes: real nodes, callers with passwords, and every INVITE that
//! reaches a server.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod paths;

use std::time::Duration;

use node::{config::Mode, stats};
use paths::topology;
use sim::{
    Death, Link, PartyId,
    farm::{Checks, Farm, Holders, Users},
};

/// A tenth of the paper's nodes.
const TENTH: (f64, f64) = (570.0, 470.0);

fn s(s: u64) -> Duration {
    Duration::from_secs(s)
}

fn proven(farm: &Farm) -> u64 {
    let of = |&node: &PartyId| {
        let shared = farm.world.edge(node).shared();
        shared.workers()[0].event(stats::Event::Proven)
    };
    farm.nodes().iter().map(of).sum()
}

/// With a network that loses nothing each call is checked once, and much of it behind the first node.
#[test]
fn each_call_is_checked_once() {
    let two = topology(&[TENTH; 2], &[(&[0, 1], 1.0)]);
    let check = Duration::from_micros(300);
    let link = Link::clean(Duration::from_millis(1));
    let users = Users::of(&two, check);
    let mut farm = Farm::of_users(&two, |_| Mode::Dynamic, 1, link, Some(users)).unwrap();
    let mut watch = Checks::new(farm.servers().to_vec());
    farm.call(430.0, s(20));
    let stats = farm.stats(s(60), &mut watch);
    assert_eq!(watch.unchecked(), 0);
    assert!(
        stats.carried > 8_000 && stats.carried == stats.offered,
        "{stats:?}"
    );
    assert_eq!(proven(&farm), stats.carried);
    assert!(watch.left() > 400, "{watch:?}");
}

/// What went wrong: two nodes that leave calls to each other held none of what they checked. A node took an unchecked call
/// for one that it might leave to its neighbour, which had just left it here. It went back on that only after it had
/// noted the CSeq; once checked, the call passed for a late retransmission.
#[test]
fn calls_of_both_directions_are_held() {
    let two = topology(&[TENTH; 2], &[(&[0, 1], 1.0), (&[1, 0], 1.0)]);
    let link = Link::clean(Duration::from_millis(1));
    let users = Users::of(&two, Duration::from_micros(300));
    let mut farm = Farm::of_users(&two, |_| Mode::Dynamic, 1, link, Some(users)).unwrap();
    let servers = farm.servers().to_vec();
    let mut watch = (Holders::new(servers.clone()), Checks::new(servers));
    for node in 0..2 {
        farm.fix(node, Some(0.7));
    }
    farm.call(200.0, s(10));
    let stats = farm.stats(s(60), &mut watch);
    let tally = watch.0.tally();
    assert_eq!((tally.by_none, tally.by_two), (0, 0), "{tally:?}");
    assert!(tally.left_open > 100, "{tally:?}");
    assert_eq!((watch.1.unchecked(), proven(&farm)), (0, stats.carried));
}

/// No request reaches a server unchecked, whatever the network loses and whichever node restarts.
#[test]
fn no_request_passes_unchecked() {
    let four = topology(
        &[TENTH; 4],
        &[(&[0, 1, 3], 2.0), (&[0, 2, 3], 1.0), (&[3, 1, 0], 1.0)],
    );
    let link = Link {
        loss: 0.02,
        duplication: 0.01,
        reordering: 0.05,
        held_back: Duration::from_millis(30),
        ..Link::clean(Duration::from_millis(1))
    };
    let users = Users::of(&four, Duration::from_micros(300));
    let mut farm = Farm::of_users(&four, |_| Mode::Dynamic, 7, link, Some(users)).unwrap();
    let mut watch = Checks::new(farm.servers().to_vec());
    farm.call(400.0, s(40));
    for second in 0..75 {
        farm.stats(s(1), &mut watch);
        if second % 5 == 4 && second < 40 {
            let node = farm.nodes()[(second / 5) as usize % 4];
            farm.world.crash(node, Death::Process, &mut watch);
            farm.stats(Duration::from_millis(50), &mut watch);
            farm.world.restart(node, &mut watch).unwrap();
        }
    }
    assert!(watch.invites() > 10_000 && watch.left() > 500, "{watch:?}");
    assert_eq!(watch.unchecked(), 0, "{watch:?}");
}

/// `cargo test -p sim --test checks -- --ignored --nocapture carried`
///
/// A check costs as much as passing a call on: what the linear program says of that, and what two nodes carry.
#[test]
#[ignore = "it prints what is carried"]
#[expect(clippy::print_stdout, reason = "it prints")]
fn carried() {
    let (pass, hold) = (1.0 / TENTH.0, 1.0 / TENTH.1);
    for check in [0.0, 0.25, 0.5, 1.0] {
        let check = check * pass;
        // The challenge costs the first node three messages more, of six.
        let first = (1.0 / (1.5 * pass), 1.0 / (0.5 * pass + hold + check));
        let second = (1.0 / pass, 1.0 / (hold + check));
        let told = topology(&[first, second], &[(&[0, 1], 1.0)]);
        let (best, fixed) = (told.best().unwrap(), told.fixed().unwrap());
        let two = topology(&[TENTH; 2], &[(&[0, 1], 1.0)]);
        let users = Users::of(&two, Duration::from_secs_f64(check));
        let link = Link::clean(Duration::from_millis(1));
        let mut farm = Farm::of_users(&two, |_| Mode::Dynamic, 1, link, Some(users)).unwrap();
        farm.call(best.calls_per_s, s(24));
        farm.run(s(4));
        println!(
            "check {:.0} us: best {:.0}/s, fixed {:.0}/s, carried {:.0}/s",
            1e6 * check,
            best.calls_per_s,
            fixed.calls_per_s,
            farm.run(s(20))
        );
    }
}

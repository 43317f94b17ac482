//! A store that can't answer all that is asked limits what needs it, and nothing else.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod common;
mod site;

use std::time::Duration;

use common::s;
use site::{PACE, Site};

/// A login takes three questions, so the store carries 66 logins a second; the node could do 5,000.
const TAKES: Duration = Duration::from_millis(5);
const LOGINS_PER_S: f64 = 1.0 / (3.0 * 0.005);
const CALLS_PER_S: f64 = 400.0;

/// Calls that were carried and offered in `seconds`, and the phones that have registered in that time.
fn run(site: &mut Site, seconds: u64) -> ([u64; 2], usize) {
    let before = site.registered();
    let stats = site.run(s(seconds));
    ([stats.carried, stats.offered], site.registered() - before)
}

/// All REGISTERs waited in one line at the store. When it was longer than three seconds, each was given up just before
/// its last answer, and none was registered.
#[test]
fn what_needs_a_slow_store_is_limited_alone() {
    for times in [1.5, 3.0, 10.0] {
        let mut site = Site::new(PACE, 7, 20_000);
        site.store.set_takes(TAKES);
        site.call(CALLS_PER_S, s(50));
        site.register(times * LOGINS_PER_S);
        run(&mut site, 10);
        let ([carried, offered], logins) = run(&mut site, 20);
        assert!(
            carried as f64 > 0.99 * offered as f64,
            "{times} x: {carried} of {offered} calls"
        );
        let can = 20.0 * LOGINS_PER_S;
        assert!(
            logins as f64 > 0.9 * can,
            "{times} x: {logins} of {can} logins"
        );
    }
}

#[test]
fn a_store_that_was_locked_is_used_at_once() {
    let mut site = Site::new(PACE, 7, 20_000);
    site.store.set_takes(TAKES);
    site.call(CALLS_PER_S, s(60));
    site.register(0.7 * LOGINS_PER_S);
    run(&mut site, 10);
    site.store.lock(site.world.now() + s(20));
    let ([carried, offered], _) = run(&mut site, 20);
    assert!(
        carried as f64 > 0.99 * offered as f64,
        "{carried} of {offered} calls"
    );
    let seconds: Vec<_> = (0..10).map(|_| run(&mut site, 1).1).collect();
    let after: usize = seconds[1..].iter().sum();
    assert!(after as f64 > 0.9 * 9.0 * LOGINS_PER_S, "{seconds:?}");
}

/// A third of the records is out of reach for so long as a replica takes to stand in.
#[test]
fn a_lost_shard_costs_users_of_others_nothing() {
    const SHARDS: usize = 3;
    const LOST_S: u64 = 15;
    for rate in [100.0, 1_000.0] {
        let mut site = Site::new(PACE, 7, 60_000);
        site.call(CALLS_PER_S, s(60));
        site.register(rate);
        run(&mut site, 10);
        site.store.lose_shard(SHARDS, site.world.now() + s(LOST_S));
        let ([carried, offered], logins) = run(&mut site, LOST_S);
        assert!(
            carried as f64 > 0.99 * offered as f64,
            "{carried} of {offered} calls"
        );
        // A user's secret and bindings are two records.
        let left = (1.0 - 1.0 / SHARDS as f64).powi(2);
        let can = left * rate * LOST_S as f64;
        assert!(logins as f64 > 0.95 * can, "{logins} of {can} logins");
        let (_, after) = run(&mut site, 20);
        let all = rate * (LOST_S + 20) as f64;
        assert!(
            (logins + after) as f64 > 0.97 * all,
            "{logins} and {after} of {all} logins"
        );
    }
}

//! All phones register at once, and calls are carried meanwhile.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod common;
mod site;

use std::time::Duration;

use common::s;
use sim::Pace;
use site::{PACE, Site};

const PHONES: u32 = 100_000;
const CALLS_PER_S: f64 = 200.0;

/// Each REGISTER that waited for 0.2 s was dropped, and the node was idle until its copy came 4 s later. 20,000 phones
/// took longer than a minute at a node that can register them in 4 s.
#[test]
fn phones_that_all_register_at_once_are_done_in_half_as_long_again() {
    let mut site = Site::new(PACE, 7, PHONES);
    site.call(CALLS_PER_S, s(90));
    site.run(s(5));
    site.register(20_000.0);
    let begin = site.world.now();
    let (mut calls, mut offered, mut seen) = (0, 0, Vec::new());
    while site.registered() < PHONES as usize && site.world.now() < begin + s(60) {
        let stats = site.run(s(1));
        calls += stats.carried;
        offered += stats.offered;
        seen.push(site.registered());
    }
    let took = site.world.now() - begin;
    // What is left beside the calls, of six messages each, for logins of two.
    let left = 1.0 - CALLS_PER_S * 6.0 * PACE.serve.as_secs_f64();
    let ideal = 2.0 * PACE.serve.mul_f64(f64::from(PHONES)).as_secs_f64() / left;
    assert!(
        took < Duration::from_secs_f64(1.5 * ideal),
        "{took:?}, {ideal} s: {seen:?}"
    );
    assert!(calls as f64 > 0.99 * offered as f64, "{calls} of {offered}");
}

/// After more calls than the node could carry, their share was small. A flood of REGISTERs took all that was left, so it
/// stayed small for most of a minute. Of 80 calls/s, less than half of what is theirs, about 50 were carried.
#[test]
fn a_flood_of_registers_does_not_keep_the_share_of_calls_small() {
    let mut site = Site::new(Pace::of(Duration::from_micros(833)), 3, 60_000);
    site.register(500.0);
    site.call(400.0, s(20));
    site.run(s(60));
    site.call(80.0, s(40));
    site.run(s(1));
    let stats = site.run(s(20));
    assert!(
        stats.carried as f64 > 0.95 * stats.offered as f64,
        "{} of {}",
        stats.carried,
        stats.offered
    );
}

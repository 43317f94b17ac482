//! Some seeds of random exploration; `sipyard sim explore` tries more.

use sim::explore::{Fault, Plan, explore};

/// Explores the first seeds whose plans are as wanted.
fn explore_those(number: usize, is_wanted: impl Fn(&Plan) -> bool) {
    for seed in (0..)
        .filter(|&seed| is_wanted(&Plan::draw(seed)))
        .take(number)
    {
        let outcome = explore(seed, &mut ());
        assert_eq!(outcome.violation, None, "{}", Plan::draw(seed));
    }
}

#[test]
fn nothing_goes_wrong_that_must_not() {
    explore_those(40, |_| true);
}

#[test]
fn nothing_is_kept_out_when_a_surge_is_over() {
    explore_those(12, |plan| {
        let mut faults = plan.faults.iter();
        faults.any(|(_, fault)| matches!(fault, Fault::Surge(..)))
    });
}

#[test]
fn connections_that_break_and_stall_cost_nothing_later() {
    explore_those(24, |plan| plan.streams.is_some());
}

#[test]
fn a_seed_fixes_what_happens() {
    assert_eq!(explore(7, &mut ()), explore(7, &mut ()));
}

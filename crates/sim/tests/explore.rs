//! Some seeds of random exploration; `sipyard sim explore` tries more.

use sim::explore::{Plan, explore};

#[test]
fn nothing_goes_wrong_that_must_not() {
    for seed in 0..40 {
        let outcome = explore(seed, &mut ());
        assert_eq!(outcome.violation, None, "{}", Plan::draw(seed));
    }
}

#[test]
fn a_seed_fixes_what_happens() {
    assert_eq!(explore(7, &mut ()), explore(7, &mut ()));
}

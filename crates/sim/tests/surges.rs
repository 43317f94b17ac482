//! Random worlds in which more comes than an edge can serve.

use sim::explore::{Fault, Plan, explore};

#[test]
fn nothing_is_kept_out_when_a_surge_is_over() {
    let has_surges = |seed: &u64| {
        let plan = Plan::draw(*seed);
        let mut faults = plan.faults.iter();
        faults.any(|(_, fault)| matches!(fault, Fault::Surge(..)))
    };
    for seed in (0..).filter(has_surges).take(12) {
        let outcome = explore(seed, &mut ());
        assert_eq!(outcome.violation, None, "{}", Plan::draw(seed));
    }
}

//! Who holds the state of a call on its path of nodes: real nodes beside the linear program.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod common;
mod paths;

use common::s;
use node::config::Mode;
use paths::{Farm, PAPER, series};

/// `cargo test -p sim --test custody -- --ignored --nocapture`
#[test]
#[ignore = "it prints where nodes stand"]
#[expect(clippy::print_stdout, reason = "it prints")]
fn trace() {
    let two = series(&[PAPER; 2]);
    let best = two.best().unwrap().calls_per_s;
    for load in [0.5, 0.9, 0.98, 1.0] {
        let mut farm = Farm::new(&two, Mode::Dynamic, 1);
        farm.call(load * best, s(20));
        for _ in 0..6 {
            let carried = farm.run(s(1));
            println!("{load} {:.3} {:?}", carried / best, farm.figures());
        }
    }
}

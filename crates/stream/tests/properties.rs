//! What holds for any peers and any driver: no count leaks, and each message is either written or told as unsent.

#![allow(clippy::unwrap_used)]

use std::fs;

use proptest::prelude::*;

#[path = "../../../fuzz/fuzz_targets/connections_exercise.rs"]
#[allow(unreachable_pub, reason = "the fuzz target shares it")]
mod connections_exercise;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_count_leaks(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        connections_exercise::connections(&bytes);
    }
}

#[test]
fn corpus() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/connections");
    let entries = fs::read_dir(directory).unwrap();
    let games: Vec<_> = entries
        .map(|entry| fs::read(entry.unwrap().path()).unwrap())
        .collect();
    assert!(!games.is_empty());
    for game in games {
        connections_exercise::connections(&game);
    }
}

//! All that the fuzzer has found, and the torture messages, replayed.

#![allow(clippy::unwrap_used)]

#[path = "../../../fuzz/fuzz_targets/exercise.rs"]
#[allow(unreachable_pub, reason = "the fuzz target shares it")]
mod exercise;

use std::{fs, path::Path};

fn replay(directory: &str) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let entries =
        fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    assert!(!paths.is_empty());
    for path in paths {
        exercise::parser(&fs::read(path).unwrap());
    }
}

#[test]
fn corpus() {
    replay("../../fuzz/corpus/parser");
}

#[test]
fn torture_messages() {
    replay("tests/corpus/rfc4475");
    replay("tests/corpus/rfc5118");
}

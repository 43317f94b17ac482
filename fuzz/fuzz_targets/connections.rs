#![no_main]

mod connections_exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| connections_exercise::connections(bytes));

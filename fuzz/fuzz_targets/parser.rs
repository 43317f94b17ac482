#![no_main]

mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exercise::parser(bytes));

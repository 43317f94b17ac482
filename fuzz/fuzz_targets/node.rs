#![no_main]

mod play;

libfuzzer_sys::fuzz_target!(|script: &[u8]| {
    play::play(script);
});

#![no_main]

mod websocket_exercise;

// The first byte chooses the steps in which the others arrive.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let [first, frames @ ..] = bytes {
        websocket_exercise::websocket(frames, 1 + usize::from(*first));
    }
});

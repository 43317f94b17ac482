#![no_main]

mod framing_exercise;

// The first byte chooses the steps in which the others arrive.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let [first, stream @ ..] = bytes {
        framing_exercise::framing(stream, |call| 1 + (usize::from(*first) + call * 7) % 61);
    }
});

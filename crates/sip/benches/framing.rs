//! How fast messages are found in a stream.

use divan::{Bencher, black_box, counter::BytesCount};
use sip::{Frame, FrameLimits, Framer};

const INVITE: &[u8] = include_bytes!("invite.sip");

const LIMITS: FrameLimits = FrameLimits {
    head_bytes: 16_384,
    message_bytes: 65_535,
};

fn main() {
    divan::main();
}

fn count(framer: &mut Framer, mut bytes: &[u8]) -> usize {
    let mut messages = 0;
    while let Frame::Message(message) = framer.next(bytes) {
        bytes = &bytes[message.len()..];
        messages += 1;
    }
    messages
}

/// A thousand INVITEs of 710 bytes, one behind the other.
#[divan::bench]
fn pipelined(bencher: Bencher<'_, '_>) {
    let stream = INVITE.repeat(1000);
    bencher
        .counter(BytesCount::of_slice(&stream))
        .bench(|| assert_eq!(count(&mut Framer::new(LIMITS), black_box(&stream)), 1000));
}

/// The same INVITE in single bytes.
#[divan::bench]
fn single_bytes(bencher: Bencher<'_, '_>) {
    bencher.counter(BytesCount::of_slice(INVITE)).bench(|| {
        let mut framer = Framer::new(LIMITS);
        let stream = black_box(INVITE);
        let messages = (1..=stream.len()).map(|end| count(&mut framer, &stream[..end]));
        assert_eq!(messages.sum::<usize>(), 1);
    });
}

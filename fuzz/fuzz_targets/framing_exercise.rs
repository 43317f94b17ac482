//! What a stream of any bytes must withstand. Run by the fuzz target and by the tests.

use sip::{Frame, FrameFault, FrameLimits, Framer, Message};

pub const LIMITS: FrameLimits = FrameLimits {
    head_bytes: 512,
    message_bytes: 1024,
};

/// What a framer found, with a copy of its bytes.
#[derive(Debug, PartialEq)]
pub enum Found {
    Message(Vec<u8>),
    Ping,
    Fault(FrameFault, Vec<u8>),
}

/// The frames of a stream that arrives in steps, up to the first fault.
pub fn frames(stream: &[u8], step: impl Fn(usize) -> usize) -> Vec<Found> {
    let mut framer = Framer::new(LIMITS);
    let mut found = Vec::new();
    let (mut read, mut come, mut calls) = (0, 0, 0);
    while come < stream.len() {
        come = (come + step(calls)).min(stream.len());
        calls += 1;
        while read < come {
            match framer.next(&stream[read..come]) {
                Frame::Partial { missing } => {
                    assert!(missing > 0);
                    break;
                }
                Frame::LineEnds { bytes, pings } => {
                    assert!(bytes > 0);
                    read += bytes;
                    found.extend((0..pings).map(|_| Found::Ping));
                }
                Frame::Message(message) => {
                    read += message.len();
                    found.push(Found::Message(message.to_vec()));
                }
                Frame::Fault { fault, head } => {
                    found.push(Found::Fault(fault, head.to_vec()));
                    return found;
                }
            }
        }
    }
    found
}

/// Checks that the frames don't depend on the steps, and that the parser sees them as the framer does.
pub fn framing(stream: &[u8], step: impl Fn(usize) -> usize) {
    let found = frames(stream, |_| stream.len());
    assert_eq!(frames(stream, step), found);
    assert_eq!(frames(stream, |_| 1), found);
    for frame in &found {
        match frame {
            Found::Message(bytes) => {
                let message = Message::parse(bytes, usize::MAX).expect("a frame is a message");
                assert_eq!(message.bytes(), bytes);
            }
            Found::Fault(_, head) if !head.is_empty() => {
                let message = Message::parse(head, usize::MAX).expect("a head is one");
                assert!(message.body().is_empty());
            }
            Found::Fault(..) | Found::Ping => {}
        }
    }
}

//! Where a stream's messages begin and end (RFC 3261 §18.3), however its bytes arrive.

#![allow(clippy::unwrap_used)]

use std::fs;

use proptest::prelude::*;
use sip::{Frame, FrameFault, FrameLimits, Framer};

#[path = "../../../fuzz/fuzz_targets/framing_exercise.rs"]
#[allow(unreachable_pub, reason = "the fuzz target shares it")]
mod framing_exercise;

use framing_exercise::{Found, LIMITS, frames};

const OK: &str = "SIP/2.0 200 OK\r\n";

fn check(stream: &str, expected: &[Found]) {
    for step in [1, 2, 3, 7, stream.len().max(1)] {
        let found = frames(stream.as_bytes(), |_| step);
        assert_eq!(found, expected, "{stream:?} in steps of {step}");
    }
}

fn message(text: &str) -> Found {
    Found::Message(text.as_bytes().to_vec())
}

fn fault(fault: FrameFault, head: &str) -> Found {
    Found::Fault(fault, head.as_bytes().to_vec())
}

#[test]
fn lengths_are_read_in_all_forms() {
    let forms = [
        "Content-Length: 2\r\n",
        "content-length:2\r\n",
        "CONTENT-LENGTH \t:\t 2 \r\n",
        "l: 2\r\n",
        "L : 0002\r\n",
        "Content-Length:\r\n 2\r\n",
        "l\t:\r\n\t\r\n  2\r\n",
        "l: 2\n",
        "X: y\r\nCall-ID: 3\r\nContact: 4\r\nc: 5\r\nl: 2\r\nlast: 9\r\n",
        "Subject: folded\r\n l: 9\r\nl: 2\r\n",
        "l: 2\r\nContent-Length: 2\r\n",
    ];
    for form in forms {
        let text = format!("{OK}{form}\r\nhi");
        check(&format!("{text}{text}"), &[message(&text), message(&text)]);
    }
}

#[test]
fn lines_may_end_with_a_bare_line_feed() {
    let one = "OPTIONS sip:a SIP/2.0\nl: 1\n\nx";
    let two = "OPTIONS sip:a SIP/2.0\r\nl: 1\n\r\n\n";
    check(&format!("{one}{two}"), &[message(one), message(two)]);
}

#[test]
fn unreadable_lengths_are_told_with_the_head() {
    let faults = [
        ("X: 1\r\n", FrameFault::NoLength),
        ("Content-Lengths: 1\r\n", FrameFault::NoLength),
        ("Content-Length\r\n : 1\r\n", FrameFault::NoLength),
        ("l: -1\r\n", FrameFault::BadLength),
        ("l: +1\r\n", FrameFault::BadLength),
        ("l:\r\n", FrameFault::BadLength),
        ("l: 0x10\r\n", FrameFault::BadLength),
        ("l: 1, 1\r\n", FrameFault::BadLength),
        ("l: 1\r\n 2\r\n", FrameFault::BadLength),
        ("l: 1\r\nContent-Length: 2\r\n", FrameFault::TwoLengths),
        ("l: x\r\nl: 1\r\n", FrameFault::BadLength),
        ("l: 1\r\nl: x\r\n", FrameFault::BadLength),
        ("l: 2000\r\n", FrameFault::MessageTooLong),
        ("l: 4294967296\r\n", FrameFault::MessageTooLong),
        ("l: 99999999999999999999999\r\n", FrameFault::MessageTooLong),
    ];
    for (lines, expected) in faults {
        let head = format!("{OK}{lines}\r\n");
        check(&format!("{head}body"), &[fault(expected, &head)]);
    }
}

#[test]
fn what_does_not_begin_as_a_message_is_not_waited_for() {
    let stop = [fault(FrameFault::NotSip, "")];
    check("\x16\x03\x01\x02\x00\x01", &stop);
    check("GET / HTTP/1.1\r\n", &stop);
    check("SIP/2.0 nonsense\r\n", &stop);
    check(" INVITE sip:a SIP/2.0\r\n", &stop);
}

#[test]
fn a_head_ends_within_its_limit() {
    let short = format!("{OK}l: 0\r\n");
    let padding = LIMITS.head_bytes - short.len() - "x:\r\n\r\n".len();
    let fits = format!("{short}x:{}\r\n\r\n", "y".repeat(padding));
    check(&fits, &[message(&fits)]);
    let long = format!("{short}x:{}\r\n\r\n", "y".repeat(padding + 1));
    check(&long, &[fault(FrameFault::HeadTooLong, "")]);
    check(
        &"a".repeat(LIMITS.head_bytes),
        &[fault(FrameFault::HeadTooLong, "")],
    );
    check(&"a".repeat(LIMITS.head_bytes - 1), &[]);
}

/// RFC 5626 §4.4.1: a double CRLF between messages is a ping, a single one only separates.
#[test]
fn keep_alives_are_told_from_line_ends() {
    let text = format!("{OK}l: 4\r\n\r\n\r\n\r\n");
    check("\r\n\r\n", &[Found::Ping]);
    check("\r\n", &[]);
    check("\r\n\r\n\r\n\r\n\r\n", &[Found::Ping, Found::Ping]);
    check("\n\n\r\r\n\n", &[]);
    check("\r\n\r\r\n\r\n", &[Found::Ping]);
    check(
        &format!("\r\n{text}\r\n{text}\r\n\r\n"),
        &[message(&text), message(&text), Found::Ping],
    );
}

/// A sender of single bytes made a framer that looks from the start each time work for its square.
#[test]
fn single_bytes_cost_linear_time() {
    let limits = FrameLimits {
        head_bytes: 60_000,
        message_bytes: 65_535,
    };
    let head = format!("{OK}l: 0\r\nx: {}\r\n\r\n", "y".repeat(59_000));
    let mut framer = Framer::new(limits);
    for end in 1..head.len() {
        let frame = framer.next(&head.as_bytes()[..end]);
        assert_eq!(frame, Frame::Partial { missing: 1 });
        assert!(framer.is_within());
    }
    assert_eq!(
        framer.next(head.as_bytes()),
        Frame::Message(head.as_bytes())
    );
    assert!(!framer.is_within());
}

#[test]
fn a_known_length_says_what_is_missing() {
    let mut framer = Framer::new(LIMITS);
    let head = format!("{OK}l: 100\r\n\r\n");
    let frame = framer.next(head.as_bytes());
    assert_eq!(frame, Frame::Partial { missing: 100 });
}

#[test]
fn corpus() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/framing");
    let entries = fs::read_dir(directory).unwrap();
    let streams: Vec<_> = entries
        .map(|entry| fs::read(entry.unwrap().path()).unwrap())
        .collect();
    assert!(!streams.is_empty());
    for stream in streams {
        framing_exercise::framing(&stream[1..], |call| 1 + call * 7 % 61);
    }
}

proptest! {
    #[test]
    fn frames_do_not_depend_on_how_bytes_arrive(
        parts in prop::collection::vec(
            prop_oneof![
                Just("\r\n"), Just("\n"), Just("\r"), Just(" "), Just(OK), Just("l: 3\r\n"), Just("l"), Just(": "),
                Just("5"), Just("abc"), Just("Content-Length: 1\r\n"), Just("\r\n\r\n"),
                Just("INVITE sip:a@b SIP/2.0\r\n"), Just("SIP/2.0 200 OK\r\nl: 3\r\n\r\nabc"),
            ],
            0..40,
        ),
        steps in prop::collection::vec(1_usize..40, 1..20),
    ) {
        let stream = parts.concat();
        framing_exercise::framing(stream.as_bytes(), |call| steps[call % steps.len()]);
    }
}

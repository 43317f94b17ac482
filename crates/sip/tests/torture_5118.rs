//! RFC 5118's IPv6 torture messages, each with what a proxy makes of it.
//!
//! The RFC's archive has bare line feeds. What the messages mean is checked on copies with CR LF; the originals must
//! be understood as well.

#![allow(clippy::unwrap_used)]

mod common;

use common::{
    Case, HEADERS_MAX,
    Outcome::{Forward, Refuse, Silence},
    check, outcome,
};
use sip::{Fault, Host, Message, ParseError, Uri};

const fn case(
    file: &'static str,
    outcome: common::Outcome,
    start: &'static str,
    call_id: &'static str,
    vias: usize,
    to_tag: &'static str,
) -> Case {
    Case {
        file,
        outcome,
        start,
        call_id,
        vias,
        tags: ["81x2", to_tag],
    }
}

#[rustfmt::skip]
const CASES: &[Case] = &[
    case("ipv6-good", Forward, "REGISTER", "SSG9559905523997077@hlau_4100", 1, ""),
    // An IPv6 address without brackets in the Request-URI.
    case("ipv6-bad", Refuse(Fault::RequestUri), "REGISTER", "SSG9559905523997077@hlau_4100", 1, ""),
    // The port is within the brackets: another address than was meant, but one.
    case("port-ambiguous", Forward, "REGISTER", "SSG9559905523997077@hlau_4100", 1, ""),
    case("port-unambiguous", Forward, "REGISTER", "SSG9559905523997077@hlau_4100", 1, ""),
    case("via-received-param-with-delim", Forward, "BYE", "SSG9559905523997077@hlau_4100", 1, "bd76ya"),
    case("via-received-param-no-delim", Forward, "OPTIONS", "SSG95523997077@hlau_4100", 1, ""),
    // The archive's Content-Length is beyond even the copy's body.
    case("ipv6-in-sdp", Refuse(Fault::Body), "INVITE", "SSG9559905523997077@hlau_4100", 1, ""),
    case("mult-ip-in-header", Forward, "BYE", "997077@lau_4100", 3, "9817--94"),
    case("mult-ip-in-sdp", Forward, "INVITE", "SSG9559905523997077@hlau_4100", 1, ""),
    case("ipv4-mapped-ipv6", Forward, "INVITE", "SSG9559905523997077@hlau_4100", 2, ""),
    // The archive's copies of these two lack the empty line; `completed` has them with one.
    case("ipv6-correct-abnf-2-colons", Silence(ParseError::Truncated), "", "", 0, ""),
    case("ipv6-bug-abnf-3-colons", Silence(ParseError::Truncated), "", "", 0, ""),
];

fn read(file: &str) -> Vec<u8> {
    let path = format!("{}/tests/corpus/rfc5118/{file}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn with_crlf(bytes: &[u8]) -> Vec<u8> {
    bytes
        .iter()
        .flat_map(|&byte| {
            if byte == b'\n' {
                vec![b'\r', b'\n']
            } else {
                vec![byte]
            }
        })
        .collect()
}

#[test]
fn each_message_has_its_outcome() {
    for case in CASES {
        check(case, &with_crlf(&read(case.file)));
    }
}

#[test]
fn no_message_is_left_out() {
    let directory = format!("{}/tests/corpus/rfc5118", env!("CARGO_MANIFEST_DIR"));
    assert_eq!(std::fs::read_dir(directory).unwrap().count(), CASES.len());
}

/// Line feeds alone make no difference but to the body's length.
#[test]
fn bare_line_feeds_are_understood() {
    for case in CASES {
        let bytes = read(case.file);
        let expected = match case.file {
            "mult-ip-in-sdp" => Refuse(Fault::Body),
            _ => case.outcome,
        };
        check(
            &Case {
                outcome: expected,
                ..*case
            },
            &bytes,
        );
    }
}

/// RFC 5118 §4.10: one colon too many before an IPv4 tail must be tolerated.
#[test]
fn completed() {
    for file in ["ipv6-correct-abnf-2-colons", "ipv6-bug-abnf-3-colons"] {
        let bytes = with_crlf(&[&read(file)[..], b"\n"].concat());
        assert_eq!(outcome(&bytes), Forward, "{file}");
        let message = Message::parse(&bytes, HEADERS_MAX).unwrap();
        let uri = Uri::parse(message.request_uri().unwrap()).unwrap();
        assert_eq!(
            uri.host,
            Host::Ip("2001:db8::192.0.2.1".parse().unwrap()),
            "{file}"
        );
    }
}

/// RFC 5118 §4.5: received may have brackets, though the grammar has none.
#[test]
fn response_addresses() {
    let check = |file: &str, expected: &str| {
        let bytes = read(file);
        let via = Message::parse(&bytes, HEADERS_MAX)
            .unwrap()
            .top_via()
            .unwrap();
        assert_eq!(
            via.response_address(),
            Some(expected.parse().unwrap()),
            "{file}"
        );
    };
    check("via-received-param-with-delim", "[2001:db8::9:255]:5060");
    check("via-received-param-no-delim", "[2001:db8::9:255]:5060");
    check("mult-ip-in-header", "[2001:db8::9:1]:6050");
    check("ipv4-mapped-ipv6", "[::ffff:192.0.2.10]:19823");
}

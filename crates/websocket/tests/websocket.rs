//! Handshakes and frames, good and bad.

#![allow(clippy::unwrap_used)]

use std::{fs, str};

use proptest::prelude::*;
use stream::{Layer, Plain, Said, Why};
use websocket::{BadName, WebSocket};

#[path = "../../../fuzz/fuzz_targets/websocket_exercise.rs"]
#[allow(unreachable_pub, reason = "the fuzz target shares it")]
mod websocket_exercise;

use websocket_exercise::{MESSAGE_BYTES, Outcome, REQUEST, serve};

/// A masked frame, as clients send them.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = match payload.len() {
        length @ ..126 => vec![first, 0x80 | length as u8],
        length => [&[first, 0x80 | 126][..], &(length as u16).to_be_bytes()].concat(),
    };
    let mask = [1, 2, 3, 4];
    frame.extend(mask);
    let masked = payload.iter().zip(mask.iter().cycle());
    frame.extend(masked.map(|(byte, mask)| byte ^ mask));
    frame
}

/// What a server says to frames after the handshake.
fn check(frames: &[Vec<u8>], messages: &[&[u8]], said: &[u8], end: Option<Why>) {
    let request = format!("{REQUEST}Sec-WebSocket-Protocol: sip\r\n\r\n");
    let bytes = [request.as_bytes(), &frames.concat()].concat();
    let greeting = serve(request.as_bytes(), 1_000).said;
    for step in [1, 7, bytes.len()] {
        let outcome = serve(&bytes, step);
        assert_eq!(outcome.messages, messages);
        assert_eq!(outcome.end, end);
        assert_eq!(outcome.said.strip_prefix(&greeting[..]), Some(said));
    }
}

#[test]
fn only_sip_is_spoken() {
    let sip = |line: &str| format!("{REQUEST}{line}\r\n");
    let good = [
        "Sec-WebSocket-Protocol: sip\r\n",
        "sec-websocket-protocol: msrp, SIP\r\n",
        "Sec-WebSocket-Protocol: msrp\r\nSec-WebSocket-Protocol: sip\r\n",
    ];
    for line in good {
        let Outcome { said, end, .. } = serve(sip(line).as_bytes(), 1_000);
        let said = str::from_utf8(&said).unwrap();
        assert!(
            said.starts_with("HTTP/1.1 101 Switching Protocols\r\n"),
            "{said}"
        );
        assert!(said.contains("sec-websocket-protocol: sip\r\n"), "{said}");
        assert!(
            said.contains("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"),
            "{said}"
        );
        assert_eq!(end, None);
    }
    let silent = Outcome {
        end: Some(Why::WebSocket),
        ..Outcome::default()
    };
    assert_eq!(serve(b"\x16\x03\x01", 1), silent, "TLS where there is none");
    assert_eq!(
        serve(&[b'G'; 9_000], 100),
        silent,
        "a request without an end"
    );
}

#[test]
fn other_requests_are_told_what_is_wrong() {
    let sip = |line: &str| format!("{REQUEST}{line}\r\n");
    let bad = [
        (
            sip(""),
            "400 Bad Request\r\nSec-WebSocket-Protocol: sip",
            Why::Subprotocol,
        ),
        (
            sip("Sec-WebSocket-Protocol: sips\r\n"),
            "400",
            Why::Subprotocol,
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n".into(),
            "426 Upgrade",
            Why::WebSocket,
        ),
        (
            "POST / HTTP/1.1\r\nHost: a\r\n\r\n".into(),
            "405",
            Why::WebSocket,
        ),
        (
            "GET / HTTP/1.1\r\nHost a\r\n\r\n".into(),
            "400",
            Why::WebSocket,
        ),
        (sip("").replace("13", "12"), "426", Why::WebSocket),
        (sip("").replace("dGhl", ""), "400", Why::WebSocket),
    ];
    for (request, status, why) in bad {
        for step in [1, 1_000] {
            let Outcome { said, end, .. } = serve(request.as_bytes(), step);
            let said = str::from_utf8(&said).unwrap();
            assert!(said.starts_with(&format!("HTTP/1.1 {status}")), "{said}");
            assert!(
                said.ends_with("Connection: close\r\nContent-Length: 0\r\n\r\n"),
                "{said}"
            );
            assert_eq!(end, Some(why));
        }
    }
}

#[test]
fn each_message_is_one_of_sip() {
    let hello = &b"hello"[..];
    check(
        &[frame(0x81, hello), frame(0x82, b"\xff\0")],
        &[hello, b"\xff\0"],
        b"",
        None,
    );
    let long = [b'x'; MESSAGE_BYTES];
    check(&[frame(0x81, &long)], &[&long], b"", None);
    // In three fragments, with a ping between them.
    let parts = [
        frame(0x01, b"he"),
        frame(0x00, b"ll"),
        frame(0x89, b"?"),
        frame(0x80, b"o"),
    ];
    check(&parts, &[hello], b"\x8a\x01?", None);
    check(&[frame(0x8a, b"")], &[], b"", None);
}

#[test]
fn bad_frames_end_it() {
    let protocol = b"\x88\x02\x03\xea";
    let too_big = b"\x88\x02\x03\xf1";
    let web = Some(Why::WebSocket);
    check(&[vec![0x81, 1, b'x']], &[], protocol, web);
    check(&[frame(0xf1, b"x")], &[], protocol, web);
    check(&[frame(0x83, b"x")], &[], protocol, web);
    check(&[frame(0x80, b"x")], &[], protocol, web);
    check(&[frame(0x01, b"x"), frame(0x81, b"y")], &[], protocol, web);
    check(&[frame(0x89, &[0; 126])], &[], protocol, web);
    check(&[frame(0x81, b"\xff")], &[], b"\x88\x02\x03\xef", web);

    let long = Some(Why::MessageTooLong);
    check(
        &[frame(0x81, &[b'x'; MESSAGE_BYTES + 1])],
        &[],
        too_big,
        long,
    );
    // A frame that claims all memory there is costs none.
    check(
        &[[&[0x81, 0xff][..], &[0x7f; 8]].concat()],
        &[],
        too_big,
        long,
    );
    check(
        &[[&[0x81, 0xff][..], &[0xff; 8]].concat()],
        &[],
        too_big,
        long,
    );
    let half = [b'x'; MESSAGE_BYTES / 2 + 1];
    check(
        &[frame(0x01, &half), frame(0x80, &half)],
        &[],
        too_big,
        long,
    );
}

#[test]
fn a_close_is_answered() {
    let close = frame(0x88, &[3, 0xe8]);
    let peer = Some(Why::Peer);
    check(
        &[frame(0x81, b"a"), close.clone(), frame(0x81, b"b")],
        &[b"a"],
        b"\x88\x02\x03\xe8",
        peer,
    );
    check(
        &[frame(0x01, b"a"), frame(0x88, b"")],
        &[],
        b"\x88\x00",
        peer,
    );
}

/// What was sent by one side is heard by the other.
struct Pair {
    sides: [WebSocket<Plain>; 2],
    heard: [Vec<Vec<u8>>; 2],
}

impl Pair {
    fn talk(&mut self) -> Result<(), Why> {
        for from in [0, 1, 0, 1] {
            let mut wire = Vec::new();
            self.sides[from].write_own(&mut wire);
            self.carry(from, &wire)?;
        }
        Ok(())
    }

    fn carry(&mut self, from: usize, wire: &[u8]) -> Result<(), Why> {
        let heard = &mut self.heard[1 - from];
        let mut hear = |said: Said<'_>| {
            if let Said::Message(bytes) = said {
                heard.push(bytes.to_vec());
            }
        };
        self.sides[1 - from].receive(wire, &mut hear)
    }
}

#[test]
fn client_and_server_understand_each_other() {
    let client = WebSocket::client(Plain, "example.com:8080", "/ws?x=1", 1_000).unwrap();
    let mut pair = Pair {
        sides: [client, WebSocket::server(Plain, 1_000)],
        heard: [vec![], vec![]],
    };
    assert!(pair.sides.iter().all(|side| !side.is_open()));
    pair.talk().unwrap();
    assert!(pair.sides.iter().all(Layer::is_open));
    for from in [0, 1] {
        for message in [&b"REGISTER"[..], b"\xff\xfe"] {
            let mut wire = Vec::new();
            pair.sides[from].send(message, &mut wire).unwrap();
            pair.carry(from, &wire).unwrap();
        }
        assert_eq!(pair.heard[1 - from], [&b"REGISTER"[..], b"\xff\xfe"]);
    }
    let mut wire = Vec::new();
    pair.sides[1].close(&mut wire);
    assert_eq!(wire, b"\x88\x02\x03\xe9");
    assert_eq!(pair.carry(1, &wire), Err(Why::Peer));
    assert_eq!(pair.sides[0].send(b"x", &mut wire), Err(Why::WebSocket));
    for (host, path) in [("a\r\nb", "/"), ("a", "no path"), ("a", "")] {
        let client = WebSocket::client(Plain, host, path, 1_000);
        assert_eq!(client.err(), Some(BadName));
    }
}

#[test]
fn a_client_checks_the_answer() {
    let answers = [
        (
            "HTTP/1.1 404 Not Found\r\n\r\n",
            Why::WebSocket,
            "the server answered 404 Not Found",
        ),
        (
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n",
            Why::WebSocket,
            "the server answered 101 Switching Protocols",
        ),
        (
            "SIP/2.0 200 OK\r\n\r\n",
            Why::WebSocket,
            "WebSocket protocol error: httparse error: invalid HTTP version",
        ),
    ];
    for (answer, why, detail) in answers {
        let mut client = WebSocket::client(Plain, "a", "/", 1_000).unwrap();
        let taken = client.receive(answer.as_bytes(), &mut |_| ());
        assert_eq!(taken, Err(why));
        assert_eq!(client.detail().as_deref(), Some(detail));
    }
    // A server that answers well, but does not speak SIP.
    let mut client = WebSocket::client(Plain, "a", "/", 1_000).unwrap();
    let mut request = Vec::new();
    client.write_own(&mut request);
    let answer = serve(&request, 1_000).said;
    let answer = str::from_utf8(&answer).unwrap().replace(": sip", ": msrp");
    let taken = client.receive(answer.as_bytes(), &mut |_| ());
    assert_eq!(taken, Err(Why::Subprotocol));
}

#[test]
fn corpus() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/websocket");
    let entries = fs::read_dir(directory).unwrap();
    let games: Vec<_> = entries
        .map(|entry| fs::read(entry.unwrap().path()).unwrap())
        .collect();
    assert!(!games.is_empty());
    for game in games {
        websocket_exercise::websocket(&game[1..], 1 + usize::from(game[0]));
    }
}

proptest! {
    #[test]
    fn frames_do_not_depend_on_how_bytes_arrive(
        frames in prop::collection::vec(
            prop_oneof![
                (any::<u8>(), prop::collection::vec(any::<u8>(), 0..200)).prop_map(|(first, payload)| frame(first, &payload)),
                ("[ -~]{0,150}").prop_map(|text| frame(0x81, text.as_bytes())),
                (0_u8..2).prop_map(|last| frame(last * 0x80, b"more")),
                prop::collection::vec(any::<u8>(), 0..20),
            ],
            0..10,
        ),
        step in 1_usize..50,
    ) {
        websocket_exercise::websocket(&frames.concat(), step);
    }
}

//! Rewriting: what goes in, what comes out.

#![allow(clippy::unwrap_used)]

use sip::{Edits, Message, write_reply};

const INVITE: &str = "\
INVITE sip:strict.example.com SIP/2.0
Route: <sip:r1;lr>, <sip:r2;lr> ,
 <sip:r3;lr>
v: SIP/2.0/UDP a.example.com:5070;rport;branch=z9hG4bK1 , SIP/2.0/UDP b;branch=z9hG4bK2
Via: SIP/2.0/UDP c;branch=z9hG4bK3
Record-Route: <sip:rr1;lr>
Max-Forwards: 70
Route: <sip:r4;lr>
f: <sip:a@example.com>;tag=1
t: <sip:b@example.com>
i: 1
CSeq: 1 INVITE
Content-Length: 4

body";

fn crlf(text: &str) -> String {
    text.replace('\n', "\r\n")
}

/// Edits `text` and holds the result against `expected`, both with bare line feeds.
fn check_on(text: &str, expected: &str, edit: impl FnOnce(&mut Edits, &Message<'_>)) {
    let bytes = crlf(text);
    let message = Message::parse(bytes.as_bytes(), 64).unwrap();
    let (mut edits, mut out) = (Edits::default(), Vec::new());
    edit(&mut edits, &message);
    edits.apply(message.bytes(), &mut out);
    assert_eq!(
        String::from_utf8(out).unwrap().replace("\r\n", "\n"),
        expected
    );
    let mut unchanged = Vec::new();
    edits.apply(message.bytes(), &mut unchanged);
    assert_eq!(unchanged, message.bytes(), "apply forgets the edits");
}

/// Edits the INVITE; `changes` are the lines as they were and as they should be.
fn check(changes: &[(&str, &str)], edit: impl FnOnce(&mut Edits, &Message<'_>)) {
    let expected = changes.iter().fold(INVITE.to_owned(), |text, (old, new)| {
        assert!(text.contains(old), "{old}");
        text.replacen(old, new, 1)
    });
    check_on(INVITE, &expected, edit);
}

const ROUTES: &str = "Route: <sip:r1;lr>, <sip:r2;lr> ,\n <sip:r3;lr>\n";

#[test]
fn vias() {
    check(&[("v: SIP", "Via: y\nVia: x\nv: SIP")], |edits, message| {
        edits.push_via(message, |out| out.push(b'x'));
        edits.push_via(message, |out| out.push(b'y'));
    });
    check(
        &[(
            "SIP/2.0/UDP a.example.com:5070;rport;branch=z9hG4bK1 , ",
            "",
        )],
        |edits, message| {
            edits.pop_via(message, &message.top_via().unwrap());
        },
    );
    check_on(
        "OPTIONS sip:a SIP/2.0\nVia: SIP/2.0/UDP a\n \nVia: x\n\n",
        "OPTIONS sip:a SIP/2.0\nVia: x\n\n",
        |edits, message| {
            edits.pop_via(message, &message.top_via().unwrap());
        },
    );
}

/// What a Via becomes by the address that its request came from.
fn check_received(via: &str, from: &str, expected: &str) {
    let text = |via: &str| format!("OPTIONS sip:a SIP/2.0\nVia: {via}\n\n");
    check_on(&text(via), &text(expected), |edits, message| {
        edits.set_received(message, &message.top_via().unwrap(), from.parse().unwrap())
    });
}

/// A NAT knows nothing of the port in sent-by.
#[test]
fn received_behind_a_nat() {
    for (via, expected) in [
        (
            "SIP/2.0/UDP 10.0.0.1:5060;branch=b",
            "SIP/2.0/UDP 10.0.0.1:5060;branch=b;rport=5070;received=203.0.113.1",
        ),
        (
            "SIP/2.0/UDP 10.0.0.1;received=1.2.3.4;branch=b",
            "SIP/2.0/UDP 10.0.0.1;received=203.0.113.1;branch=b;rport=5070",
        ),
        (
            "SIP/2.0/TCP 10.0.0.1",
            "SIP/2.0/TCP 10.0.0.1;received=203.0.113.1",
        ),
    ] {
        check_received(via, "203.0.113.1:5070", expected);
    }
}

#[test]
fn received() {
    let check = check_received;
    let from = "192.0.2.1:5070";
    check(
        "SIP/2.0/UDP 192.0.2.1;branch=b",
        from,
        "SIP/2.0/UDP 192.0.2.1;branch=b",
    );
    check(
        "SIP/2.0/UDP a;branch=b",
        from,
        "SIP/2.0/UDP a;branch=b;received=192.0.2.1",
    );
    check(
        "SIP/2.0/UDP a , SIP/2.0/UDP b",
        from,
        "SIP/2.0/UDP a;received=192.0.2.1 , SIP/2.0/UDP b",
    );
    check(
        "SIP/2.0/UDP a;rport;branch=b",
        from,
        "SIP/2.0/UDP a;rport=5070;branch=b;received=192.0.2.1",
    );
    check(
        "SIP/2.0/UDP a;branch=b;rport",
        from,
        "SIP/2.0/UDP a;branch=b;rport=5070;received=192.0.2.1",
    );
    check(
        "SIP/2.0/UDP 192.0.2.1;rport",
        from,
        "SIP/2.0/UDP 192.0.2.1;rport=5070;received=192.0.2.1",
    );
    check(
        "SIP/2.0/UDP a;received=192.0.2.66;rport = 1;x",
        from,
        "SIP/2.0/UDP a;received=192.0.2.1;rport=5070;x",
    );
    check(
        "SIP/2.0/UDP a;rport=1;received=x;x",
        from,
        "SIP/2.0/UDP a;rport=5070;received=192.0.2.1;x",
    );
    check(
        "SIP/2.0/UDP a;received;x",
        from,
        "SIP/2.0/UDP a;received;x;received=192.0.2.1",
    );
    check(
        "SIP/2.0/UDP [2001:db8::1]",
        "[2001:db8::1]:5060",
        "SIP/2.0/UDP [2001:db8::1]",
    );
    check(
        "SIP/2.0/UDP a",
        "[2001:db8::1]:5060",
        "SIP/2.0/UDP a;received=2001:db8::1",
    );
    check(
        "SIP/2.0/UDP 192.0.2.1",
        "[::ffff:192.0.2.1]:5060",
        "SIP/2.0/UDP 192.0.2.1",
    );
}

#[test]
fn routes() {
    check(&[("Route: <sip:r1;lr>, ", "Route: ")], |edits, message| {
        edits.pop_routes(message, 1)
    });
    check(
        &[("<sip:r1;lr>, <sip:r2;lr> ,\n ", "")],
        |edits, message| edits.pop_routes(message, 2),
    );
    check(&[(ROUTES, "")], |edits, message| {
        edits.pop_routes(message, 3)
    });
    check(
        &[(ROUTES, ""), ("Route: <sip:r4;lr>\n", "")],
        |edits, message| edits.pop_routes(message, 4),
    );
    check(
        &[(ROUTES, ""), ("Route: <sip:r4;lr>\n", "")],
        |edits, message| edits.pop_routes(message, 9),
    );
    check(&[("Route: <sip:r4;lr>\n", "")], |edits, message| {
        edits.remove_last_route(message)
    });
    check(
        &[
            (ROUTES, ""),
            (
                "Route: <sip:r4;lr>\n",
                "Route: <sip:r4;lr>\nRoute: <sip:x>\n",
            ),
        ],
        |edits, message| {
            edits.pop_routes(message, 3);
            edits.push_last_route(message, b"sip:x");
        },
    );
    check(
        &[(
            "Record-Route",
            "Record-Route: y\nRecord-Route: x\nRecord-Route",
        )],
        |edits, message| {
            edits.push_record_route(message, |out| out.push(b'x'));
            edits.push_record_route(message, |out| out.push(b'y'));
        },
    );
}

/// RFC 3261 §16.4 and §16.12.1.3: what came through a strict router, and what goes to one.
#[test]
fn strict_routes() {
    check(
        &[
            ("sip:strict.example.com", "sip:r4;lr"),
            ("Route: <sip:r4;lr>\n", ""),
            ("<sip:r1;lr>, ", ""),
        ],
        |edits, message| {
            edits.undo_strict_route(message);
            edits.pop_routes(message, 1);
        },
    );
    check(
        &[
            ("sip:strict.example.com", "sip:r1;lr"),
            ("<sip:r1;lr>, ", ""),
            (
                "Route: <sip:r4;lr>\n",
                "Route: <sip:r4;lr>\nRoute: <sip:target>\n",
            ),
        ],
        |edits, message| {
            edits.set_request_uri(message, b"sip:target");
            let next_hop = message.routes().next().unwrap().unwrap();
            edits.redo_strict_route(message, &next_hop);
        },
    );
}

#[test]
fn routes_from_both_ends() {
    let text = |routes: &str, uri: &str| {
        format!("OPTIONS sip:{uri} SIP/2.0\n{routes}Via: SIP/2.0/UDP a\n\n")
    };
    let both = |edits: &mut Edits, message: &Message<'_>| {
        edits.pop_routes(message, 1);
        edits.undo_strict_route(message);
    };
    check_on(&text("Route: <sip:1>,<sip:2>\n", "0"), &text("", "2"), both);
    check_on(
        &text("Route: <sip:1>,<sip:2>,<sip:3>\n", "0"),
        &text("Route: <sip:2>\n", "3"),
        both,
    );
    check_on(&text("Route: <sip:1>\n", "0"), &text("", "1"), both);
    let other_order = |edits: &mut Edits, message: &Message<'_>| {
        edits.undo_strict_route(message);
        edits.pop_routes(message, 1);
    };
    check_on(
        &text("Route: <sip:1>,<sip:2>\n", "0"),
        &text("", "2"),
        other_order,
    );
    check_on(
        &text("Route: <sip:1>\n", "0"),
        &text("Route: <sip:0>\n", "1"),
        |edits, message| {
            let next_hop = message.routes().next().unwrap().unwrap();
            edits.redo_strict_route(message, &next_hop);
        },
    );
}

#[test]
fn the_rest() {
    check(&[("sip:strict.example.com", "sip:y")], |edits, message| {
        edits.set_request_uri(message, b"sip:x");
        edits.set_request_uri(message, b"sip:y");
    });
    check(&[("s: 70", "s: 69")], |edits, message| {
        edits.set_max_forwards(message, 69)
    });
    check_on(
        "OPTIONS sip:a SIP/2.0\nVia: x\n\n",
        "OPTIONS sip:a SIP/2.0\nMax-Forwards: 70\nVia: x\n\n",
        |edits, message| {
            edits.set_max_forwards(message, 70);
        },
    );
    check(&[("i: 1", "i: 2"), ("body", "b0dy")], |edits, message| {
        let call_id = message.span_of(message.call_id().unwrap());
        let body = message.span_of(message.body());
        edits.replace(
            sip::Span {
                start: body.start + 1,
                end: body.start + 2,
            },
            |out| out.push(b'0'),
        );
        edits.replace(call_id, |out| out.push(b'2'));
    });
}

/// RFC 3261 §8.2.6.
#[test]
fn replies() {
    let check = |text: &str, status: u16, expected: &str| {
        let bytes = crlf(text);
        let request = Message::parse(bytes.as_bytes(), 64).unwrap();
        let mut out = Vec::new();
        let headers = [("Retry-After", "2")];
        write_reply(
            &request,
            status,
            "Reason",
            Some("tag"),
            "192.0.2.1:5070".parse().unwrap(),
            &headers,
            &mut out,
        );
        assert_eq!(String::from_utf8(out).unwrap(), crlf(expected));
    };
    let vias = "Via: SIP/2.0/UDP a.example.com:5070;rport=5070;branch=z9hG4bK1;received=192.0.2.1 , SIP/2.0/UDP b;branch=z9hG4bK2\n\
                Via: SIP/2.0/UDP c;branch=z9hG4bK3\n";
    let rest = "Call-ID: 1\nCSeq: 1 INVITE\nRetry-After: 2\nContent-Length: 0\n\n";
    check(
        INVITE,
        503,
        &format!(
            "SIP/2.0 503 Reason\n{vias}From: <sip:a@example.com>;tag=1\nTo: <sip:b@example.com>;tag=tag\n{rest}"
        ),
    );
    check(
        INVITE,
        100,
        &format!(
            "SIP/2.0 100 Reason\n{vias}From: <sip:a@example.com>;tag=1\nTo: <sip:b@example.com>\n{rest}"
        ),
    );
    check(
        "BYE <x> SIP/2.0\nVia: nonsense\nTo: \"x <sip:a>\nFrom: <sip:b>;tag=2;tag=3\n\n",
        400,
        "SIP/2.0 400 Reason\nVia: nonsense\nFrom: <sip:b>;tag=2;tag=3\nTo: \"x <sip:a>\nRetry-After: 2\nContent-Length: 0\n\n",
    );
}

#[test]
fn headers_are_removed_by_name_and_value() {
    let with =
        |more: &str| INVITE.replace("Max-Forwards: 70\n", &format!("Max-Forwards: 70\n{more}"));
    let text = with("X-Edge: one\nx-edge : two\n x\nX-Edges: three\nSUBJECT: s\n");
    for (name, value, expected) in [
        ("X-EDGE", "", "X-Edges: three\nSUBJECT: s\n"),
        (
            "x-edge",
            "one",
            "x-edge : two\n x\nX-Edges: three\nSUBJECT: s\n",
        ),
        (
            "Subject",
            "",
            "X-Edge: one\nx-edge : two\n x\nX-Edges: three\n",
        ),
        (
            "X",
            "",
            "X-Edge: one\nx-edge : two\n x\nX-Edges: three\nSUBJECT: s\n",
        ),
    ] {
        check_on(&text, &with(expected), |edits, message| {
            edits.remove_header(message, name.as_bytes(), |found| {
                value.is_empty() || found == value.as_bytes()
            });
        });
    }
    let without = INVITE.replace("i: 1\n", "");
    check_on(INVITE, &without, |edits, message| {
        edits.remove_header(message, b"call-id", |_| true);
    });
}

#[test]
fn headers_are_added_below_all_others() {
    let added = INVITE.replace("\n\nbody", "\nX-Edge: one\nX-Edge: two\n\nbody");
    check_on(INVITE, &added, |edits, message| {
        for value in ["one", "two"] {
            edits.append_header(message, "X-Edge", |out| {
                out.extend_from_slice(value.as_bytes());
            });
        }
    });
}

//! The Via parameters of overload control: RFC 7339 §4 and §9, RFC 7415 §3.2.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use sip::{
    Back, Edits, Message, OVERLOAD_OFFER, OVERLOAD_SEQUENCE_PER_S, Overload, OverloadTerms,
    write_reply_with,
};

const TERMS: OverloadTerms = OverloadTerms {
    is_rate: true,
    value: 120,
    validity_ms: 500,
    sequence: 1_282_321_615 * OVERLOAD_SEQUENCE_PER_S + 78_200,
};
const WRITTEN: &str = ";oc=120;oc-algo=\"rate\";oc-validity=500;oc-seq=1282321615.78200";

fn message(via: &str) -> String {
    format!(
        "OPTIONS sip:b@example.com SIP/2.0\r\nVia: {via}\r\nFrom: <sip:a@example.com>;tag=1\r\n\
         To: <sip:b@example.com>\r\nCall-ID: 1\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n"
    )
}

fn read(params: &str) -> Option<Overload> {
    let text = message(&format!(
        "SIP/2.0/UDP a.example.com;branch=z9hG4bK1{params}"
    ));
    let message = Message::parse(text.as_bytes(), 16).unwrap();
    message.top_via().unwrap().overload(&message)
}

#[test]
fn what_is_written_is_read() {
    let offer = str::from_utf8(OVERLOAD_OFFER).unwrap();
    let both = Overload {
        has_loss: true,
        has_rate: true,
        ..Overload::default()
    };
    assert_eq!(read(offer), Some(both));
    let terms = Overload {
        value: Some(120),
        has_loss: false,
        has_rate: true,
        validity_ms: Some(500),
        sequence: Some(TERMS.sequence),
    };
    assert_eq!(read(WRITTEN), Some(terms));
}

#[test]
fn what_others_write_is_read() {
    let loss = Overload {
        has_loss: true,
        ..Overload::default()
    };
    let none = Overload::default();
    let value = |value| Some(value);
    for (params, expected) in [
        ("", None),
        (";occurs=1;o", None),
        (";oc-algo=\"loss\"", None),
        (";oc", Some(loss)),
        (";OC;OC-Algo=\"Loss\"", Some(loss)),
        (";oc ; oc-algo = \"loss , A\"", Some(loss)),
        (";oc;oc-algo=loss", Some(loss)),
        (";oc;oc-algo=\"A\"", Some(none)),
        (";oc=20;oc-validity=500;oc-seq=1282321615.782", {
            let sequence = value(TERMS.sequence);
            Some(Overload {
                value: Some(20),
                validity_ms: Some(500),
                sequence,
                ..loss
            })
        }),
        (";oc=0;oc-validity=0;oc-seq=7", {
            let sequence = value(7 * OVERLOAD_SEQUENCE_PER_S);
            Some(Overload {
                value: Some(0),
                validity_ms: Some(0),
                sequence,
                ..loss
            })
        }),
        (";oc=-1;oc-validity=x;oc-seq=1.2.3", Some(loss)),
        (
            ";oc=99999999999;oc-validity;oc-seq=1234567890123.1",
            Some(loss),
        ),
    ] {
        assert_eq!(read(params), expected, "{params}");
    }
}

#[test]
fn terms_take_the_place_of_an_offer() {
    for (via, bare) in [
        (
            "SIP/2.0/UDP 192.0.2.9:5070;oc;branch=z9hG4bK1;oc-algo=\"loss,rate\"",
            "SIP/2.0/UDP 192.0.2.9:5070;branch=z9hG4bK1",
        ),
        (
            "SIP/2.0/UDP 192.0.2.9:5070 ;branch=z9hG4bK1 ; oc ;oc-seq=1.1, SIP/2.0/UDP b;oc",
            "SIP/2.0/UDP 192.0.2.9:5070 ;branch=z9hG4bK1|, SIP/2.0/UDP b;oc",
        ),
        (
            "SIP/2.0/UDP 192.0.2.9:5070;branch=z9hG4bK1",
            "SIP/2.0/UDP 192.0.2.9:5070;branch=z9hG4bK1",
        ),
    ] {
        let (own, rest) = bare.split_once('|').unwrap_or((bare, ""));
        let text = message(via);
        let parsed = Message::parse(text.as_bytes(), 16).unwrap();
        let top = parsed.top_via().unwrap();
        for (terms, written) in [(None, ""), (Some(&TERMS), WRITTEN)] {
            let (mut edits, mut out) = (Edits::default(), Vec::new());
            edits.set_overload(&parsed, &top, terms);
            edits.apply(parsed.bytes(), &mut out);
            assert_eq!(
                String::from_utf8(out).unwrap(),
                message(&format!("{own}{written}{rest}"))
            );
        }
    }
}

fn replied(via: &str, terms: Option<OverloadTerms>) -> String {
    let text = message(via);
    let request = Message::parse(text.as_bytes(), 16).unwrap();
    let from = "192.0.2.1:5071".parse().unwrap();
    let mut out = Vec::new();
    write_reply_with(
        &request,
        503,
        "No",
        None,
        Back { from, terms },
        &[],
        &mut out,
    );
    let reply = String::from_utf8(out).unwrap();
    reply.lines().nth(1).unwrap().to_owned()
}

#[test]
fn replies_say_the_terms() {
    let via = "SIP/2.0/UDP a;oc;rport;oc-algo=\"loss\";branch=z9hG4bK1, SIP/2.0/UDP b";
    assert_eq!(
        replied(via, Some(TERMS)),
        format!(
            "Via: SIP/2.0/UDP a;rport=5071;branch=z9hG4bK1;received=192.0.2.1{WRITTEN}, SIP/2.0/UDP b"
        )
    );
    assert_eq!(
        replied(via, None),
        "Via: SIP/2.0/UDP a;oc;rport=5071;oc-algo=\"loss\";branch=z9hG4bK1;received=192.0.2.1, \
         SIP/2.0/UDP b"
    );
}

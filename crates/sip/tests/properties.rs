//! What holds for any bytes and any message.

#![allow(clippy::unwrap_used)]

#[path = "../../../fuzz/fuzz_targets/exercise.rs"]
#[allow(unreachable_pub, reason = "the fuzz target shares it")]
mod exercise;

use proptest::prelude::*;
use sip::{Edits, Message};

/// A well-formed request: its Via values and Route values spread over fields, other headers between them.
#[derive(Clone, Debug)]
struct Request {
    /// The number of values in each field.
    vias: Vec<usize>,
    routes: Vec<usize>,
    record_routes: usize,
    max_forwards: Option<u32>,
    compact: bool,
    fold: bool,
    body: String,
}

impl Request {
    fn text(&self) -> String {
        let separator = if self.fold { " ,\r\n\t" } else { ", " };
        let fields = |name: &str, counts: &[usize], value: &dyn Fn(usize) -> String| {
            let mut index = 0;
            let mut field = |count: &usize| {
                let values: Vec<_> = (index..index + count).map(value).collect();
                index += count;
                format!("{name}: {}\r\n", values.join(separator))
            };
            counts.iter().map(&mut field).collect::<Vec<_>>()
        };
        let via = if self.compact { "v" } else { "Via" };
        let vias = fields(via, &self.vias, &|index| {
            format!("SIP/2.0/UDP h{index};branch=z9hG4bK{index};rport")
        });
        let routes = fields("Route", &self.routes, &|index| {
            format!("\"a, <b>\" <sip:r{index};lr>;x=\"y,z\"")
        });
        let record_routes = "Record-Route: <sip:rr;lr>\r\n".repeat(self.record_routes);
        let max_forwards = self
            .max_forwards
            .map(|hops| format!("Max-Forwards: {hops}\r\n"))
            .unwrap_or_default();
        format!(
            "INVITE sip:target@example.com SIP/2.0\r\n{}X-Y: z\r\n{}{record_routes}{}{max_forwards}From: <sip:a>;tag=1\r\n\
             To: <sip:b>\r\n{}Call-ID: c\r\nCSeq: 1 INVITE\r\nContent-Length: {}\r\n\r\n{}",
            vias[0],
            routes.first().map_or("", String::as_str),
            vias[1..].concat(),
            routes.get(1..).unwrap_or_default().concat(),
            self.body.len(),
            self.body,
        )
    }
}

fn requests() -> impl Strategy<Value = Request> {
    let counts = |least: usize| prop::collection::vec(1..4usize, least..4);
    let ends = (any::<bool>(), any::<bool>(), "[ -~]{0,40}");
    (
        counts(1),
        counts(0),
        0..3usize,
        prop::option::of(0..=255u32),
        ends,
    )
        .prop_map(
            |(vias, routes, record_routes, max_forwards, (compact, fold, body))| Request {
                vias,
                routes,
                record_routes,
                max_forwards,
                compact,
                fold,
                body,
            },
        )
}

fn hosts<'a>(message: &Message<'a>) -> Vec<&'a [u8]> {
    message.vias().map(|via| via.unwrap().host).collect()
}

fn routes<'a>(message: &Message<'a>) -> Vec<&'a [u8]> {
    message.routes().map(|route| route.unwrap().uri).collect()
}

/// Pieces of messages in any order reach further into the parser than bytes at random do.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "INVITE ",
            "sip:a@b:5060;lr ",
            "SIP/2.0",
            "SIP/2.0 200 OK",
            "\r\n",
            "\n",
            "\r",
            "Via: SIP/2.0/UDP a;rport=",
            "v:",
            "Route: <sip:r;lr>",
            "Record-Route: ",
            "From: <sip:a>;tag=1",
            "t: \"",
            "i: x",
            "CSeq: 1 INVITE",
            "l: 4",
            "Max-Forwards: 7",
            ", ",
            ";",
            "=",
            "<",
            ">",
            "[::1]",
            "\"",
            "\\",
            " ",
            "\t",
            "received=",
            "maddr=192.0.2.1",
            ":",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_bytes_are_withstood(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        exercise::parser(&bytes);
    }

    #[test]
    fn any_pieces_are_withstood(bytes in pieces()) {
        exercise::parser(&bytes);
    }

    #[test]
    fn truncation_is_withstood(request in requests()) {
        let text = request.text();
        for end in 0..text.len() {
            exercise::parser(&text.as_bytes()[..end]);
        }
    }

    #[test]
    fn what_is_written_is_read(request in requests()) {
        let text = request.text();
        let message = Message::parse(text.as_bytes(), 64).unwrap();
        prop_assert_eq!(message.validate(), Ok(()));
        prop_assert_eq!(message.vias().count(), request.vias.iter().sum::<usize>());
        prop_assert_eq!(message.routes().count(), request.routes.iter().sum::<usize>());
        prop_assert_eq!(message.record_routes().count(), request.record_routes);
        prop_assert_eq!(message.max_forwards(), Ok(request.max_forwards));
        prop_assert_eq!(message.body(), request.body.as_bytes());
        exercise::parser(text.as_bytes());
    }

    #[test]
    fn edits_do_what_they_say(request in requests(), popped in 0..5usize, cut in any::<bool>(), hops in 0..=255u32) {
        let text = request.text();
        let message = Message::parse(text.as_bytes(), 64).unwrap();
        let (mut edits, mut out) = (Edits::default(), Vec::new());
        edits.pop_routes(&message, popped);
        if cut {
            edits.undo_strict_route(&message);
        }
        edits.pop_via(&message, &message.top_via().unwrap());
        edits.push_via(&message, |out| out.extend_from_slice(b"SIP/2.0/UDP new"));
        edits.push_record_route(&message, |out| out.extend_from_slice(b"<sip:new;lr>"));
        edits.set_max_forwards(&message, hops);
        edits.apply(message.bytes(), &mut out);

        let sent = Message::parse(&out, 64).unwrap();
        prop_assert_eq!(sent.validate(), Ok(()));
        prop_assert_eq!(&hosts(&sent)[1..], &hosts(&message)[1..]);
        prop_assert_eq!(hosts(&sent)[0], b"new");
        prop_assert_eq!(sent.record_routes().next().unwrap().unwrap().uri, b"sip:new;lr");
        prop_assert_eq!(sent.max_forwards(), Ok(Some(hops)));
        prop_assert_eq!(sent.body(), message.body());
        let before = routes(&message);
        let end = before.len() - usize::from(cut && !before.is_empty());
        prop_assert_eq!(routes(&sent), &before[popped.min(end)..end]);
        let target = if end < before.len() { before[end] } else { message.request_uri().unwrap() };
        prop_assert_eq!(sent.request_uri(), Some(target));
    }
}

//! What happens when a table is full.

use node::{
    Config, Datagram, Flow,
    stats::{Dropped, Event},
};

use crate::{
    harness::{ALICE, Cluster, ONE, TWO, config, stateful},
    message::{Msg, request},
};

fn limited(change: impl FnOnce(&mut node::config::Limits)) -> Config {
    let mut config = config(&[ONE, TWO]);
    change(&mut config.limits);
    config
}

#[test]
fn the_oldest_session_that_is_over_goes_first() {
    let mut cluster = Cluster::new(limited(|limits| limits.sessions = 3));
    let mut ended = cluster.establish("ended");
    cluster.exchange(&ended.caller.request("BYE"), 200);
    let mut later = cluster.establish("later");
    cluster.exchange(&later.caller.request("BYE"), 200);
    cluster.establish("up");
    cluster.establish("next");
    assert_eq!(cluster.event(Event::ExpiredEarly), 1);
    assert_eq!(cluster.sizes(), (2, 1, 0));
    assert!(
        cluster.nodes[0]
            .explain_call(cluster.now, b"ended@test")
            .is_none()
    );
    assert!(
        cluster.nodes[0]
            .explain_call(cluster.now, b"later@test")
            .is_some()
    );
}

#[test]
fn a_new_call_is_refused_when_all_sessions_are_up() {
    let mut cluster = Cluster::new(limited(|limits| limits.sessions = 2));
    let mut up = [cluster.establish("one"), cluster.establish("two")];
    let refused = cluster.pass(&request("INVITE", ALICE, "three"));
    assert_eq!(refused.status(), 503);
    assert!(!refused.get("Retry-After").is_empty());
    assert_eq!(cluster.event(Event::SessionsFull), 1);
    assert_eq!(cluster.total(), (2, 0, 0.0));
    cluster.exchange(&up[0].caller.request("INFO"), 200);
    cluster.exchange(&up[0].caller.request("BYE"), 200);
    cluster.establish("three");
    assert_eq!(cluster.total(), (2, 0, 0.0));
}

/// A dialog of another node passes even where no session can be built for it.
#[test]
fn a_token_is_followed_without_room_for_a_session() {
    let with_two = || limited(|limits| limits.sessions = 2);
    let mut cluster = Cluster::new(with_two());
    let mut call = cluster.establish("call");
    cluster.restart(with_two());
    cluster.establish("one");
    cluster.establish("two");
    let bye = cluster.exchange(&call.caller.request("BYE"), 200);
    assert_eq!(bye.to, call.server);
    assert_eq!(cluster.total(), (2, 0, 0.0));
}

#[test]
fn a_new_request_is_refused_when_all_transactions_are_open() {
    let mut cluster = Cluster::new(limited(|limits| limits.transactions = 3));
    let mut up = cluster.establish("up");
    let waiting: Vec<_> = (0..3)
        .map(|number| cluster.pass(&request("OPTIONS", ALICE, &format!("wait{number}"))))
        .collect();
    let invite = request("INVITE", ALICE, "late");
    let refused = cluster.pass(&invite);
    assert_eq!(refused.status(), 503);
    assert_eq!(cluster.event(Event::TransactionsFull), 1);
    assert_eq!(cluster.total(), (1, 3, 3.0));
    cluster.pass(&waiting[0].respond(200));
    cluster.exchange(&up.caller.request("INFO"), 200);
    cluster.exchange(&up.caller.request("BYE"), 200);
    assert_eq!(cluster.total(), (0, 2, 2.0));
}

/// Calls could not be ended, and stayed counted, while the table was full: their BYE got a 503.
#[test]
fn what_goes_on_passes_when_all_transactions_are_open() {
    let mut cluster = Cluster::new(limited(|limits| limits.transactions = 1));
    let mut up = cluster.establish("up");
    let mut down = cluster.establish("down");
    let waiting = cluster.pass(&request("OPTIONS", ALICE, "wait"));
    let info = cluster.exchange(&up.caller.request("INFO"), 200);
    assert_eq!(info.to, up.server);
    assert_eq!(cluster.total(), (2, 1, 1.0));
    for bye in [up.caller.request("BYE"), down.callee.request("BYE")] {
        cluster.exchange(&bye, 200);
    }
    assert_eq!(cluster.total(), (0, 1, 1.0));
    assert_eq!(cluster.event(Event::Uncounted), 3);
    cluster.pass(&waiting.respond(200));
    assert_eq!(cluster.total(), (0, 0, 0.0));
}

/// The request that passed uncounted for want of room comes again, and counts.
#[test]
fn an_uncounted_request_is_new_when_it_comes_again() {
    let mut cluster = Cluster::new(limited(|limits| limits.transactions = 1));
    let mut up = cluster.establish("up");
    let waiting = cluster.pass(&request("OPTIONS", ALICE, "wait"));
    let bye = up.caller.request("BYE");
    assert_eq!(cluster.pass(&bye).to, up.server);
    cluster.pass(&waiting.respond(200));
    let again = cluster.pass(&bye);
    assert_eq!(cluster.total(), (1, 1, 1.0));
    cluster.pass(&again.respond(200));
    assert_eq!(cluster.total(), (0, 0, 0.0));
}

/// RFC 3261 §9.1: what its caller gave up goes nowhere else, room for the CANCEL or not.
#[test]
fn a_cancel_counts_even_when_all_transactions_are_open() {
    let mut cluster = Cluster::new(limited(|limits| limits.transactions = 1));
    let invite = request("INVITE", ALICE, "call");
    let received = cluster.pass(&invite);
    let cancel = cluster.pass(&invite.cancel());
    assert_eq!(
        (cancel.to, cancel.branch()),
        (received.to, received.branch())
    );
    assert!(cluster.wait(crate::harness::s(20)).is_empty());
    cluster.pass(&cancel.respond(200));
    cluster.pass(&received.respond(487));
    assert_eq!(cluster.total(), (0, 0, 0.0));
}

/// Long requests used up the bytes of kept copies while the table had room. The next request was
/// counted on its server and not held, so it stayed counted for ever.
#[test]
fn a_request_without_room_for_its_copy_counts_nowhere() {
    let mut config = stateful(&[ONE]);
    config.limits.held_transactions = 16;
    let long = "x".repeat(config.limits.message_bytes - 1000);
    let mut cluster = Cluster::new(config);
    let invite = |call: &str| request("INVITE", ALICE, call).with("X-Long", &long);
    let mut held = 0_u32;
    let refused = loop {
        let sent = cluster.pass(&invite(&format!("call{held}")));
        if !sent.is_request() {
            break sent;
        }
        held += 1;
    };
    assert_eq!(refused.status(), 503);
    assert!((1..8).contains(&held), "{held} held: the table was full");
    let work = 1.75 * f64::from(held);
    assert_eq!(cluster.total(), (held.into(), held.into(), work));
}

/// A request with more than 128 header fields met silence, and its sender sent it again and again.
#[test]
fn too_many_header_fields_are_answered() {
    let mut cluster = Cluster::new(limited(|limits| limits.headers = 12));
    let few = request("OPTIONS", ALICE, "few");
    let received = cluster.pass(&few);
    let many = |message: Msg| (0..9).fold(message, |message, n| message.with("X", n));
    let refused = cluster.pass(&many(few));
    assert_eq!(
        (refused.to, refused.status()),
        (ALICE.parse().unwrap(), 400)
    );
    assert!(refused.start.ends_with("400 Too Many Header Fields"));
    assert_eq!(refused.get("Call-ID"), "few@test");
    let response = many(many(received.respond(200)));
    assert!(cluster.send(&response).is_empty(), "responses are dropped");
    let mut late = request("OPTIONS", ALICE, "late");
    let x = ("X".to_owned(), String::new());
    late.headers.splice(0..0, vec![x; 12]);
    assert!(cluster.send(&late).is_empty(), "nothing says how to answer");
    assert_eq!(cluster.dropped(Dropped::TooManyHeaders), 2);
    assert_eq!(cluster.total(), (0, 1, 1.0));
}

#[test]
fn a_request_longer_than_the_limit_is_answered() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let message = request("MESSAGE", ALICE, "long");
    let sent = cluster.send_datagram(Datagram {
        flow: Flow::udp(0, message.from),
        bytes: message.to_string().as_bytes(),
        truncated: true,
    });
    assert_eq!((sent.len(), sent[0].status()), (1, 513));
    assert_eq!(cluster.replies(513), 1);
}

#[test]
fn a_response_longer_than_the_limit_is_dropped() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let received = cluster.pass(&request("MESSAGE", ALICE, "long"));
    let response = received.respond(200).to_string();
    let sent = cluster.send_datagram(Datagram {
        flow: Flow::udp(0, received.to),
        bytes: response.replace("Content-Length: 0\r\n", "").as_bytes(),
        truncated: true,
    });
    assert!(sent.is_empty(), "half of its body is missing");
    assert_eq!(cluster.dropped(Dropped::MalformedResponse), 1);
}

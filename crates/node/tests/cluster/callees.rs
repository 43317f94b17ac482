//! What those who are called, or would be, make the node do.

use node::stats::{Dropped, Event};

use crate::{
    forking::{PHONE, binding, record_of},
    harness::{ALICE, BOB, Cluster, ONE, TRANSACTION_MAX, TWO, config, location, ms, s, stateful},
    message::request,
};

const VICTIM: &str = "198.51.100.99:5060";

/// Whoever was called had the node send responses to anybody: the address was that in the caller's Via, which came
/// back as they had written it.
#[test]
fn a_response_goes_where_its_request_came_from() {
    for (written, forged) in [
        ("received=203.0.113.7", "received=198.51.100.99"),
        ("received=203.0.113.7", "received=10.0.0.9"),
        ("rport=5070", "rport=53"),
        (";w=", ";w=1"),
        (";w=", ";v="),
    ] {
        let mut cluster = Cluster::new(config(&[ONE]));
        let sent = request("INVITE", ALICE, "call");
        let received = cluster.pass(&sent);
        let answer = received.respond(200);
        let text = answer.to_string();
        let aimed = text.replace(written, forged);
        assert_ne!(aimed, text);
        let sent_on = cluster.send_bytes(0, received.to, aimed.as_bytes());
        assert!(sent_on.is_empty(), "{forged}: {sent_on:?}");
        assert_eq!(cluster.dropped(Dropped::ForgedWay), 1, "{forged}");
        assert_eq!(cluster.pass(&answer).to, sent.from);
    }
}

/// Each 2xx with another To tag began a dialog of its call, whoever sent it: one call could fill the table of all, and
/// then no other counted.
#[test]
fn a_call_has_so_many_dialogs() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let received = cluster.pass(&request("INVITE", ALICE, "call"));
    for fork in 0..40 {
        let answer = received.respond(200);
        let to = format!("<sip:bob@example.com>;tag=fork{fork}");
        cluster.pass(&answer.set("To", to));
    }
    assert_eq!(cluster.event(Event::DialogsFull), 8);
    assert_eq!(cluster.total(), (1, 0, 0.0));
    cluster.wait(TRANSACTION_MAX + ms(20));
    assert_eq!(cluster.total(), (0, 0, 0.0), "none had its ACK");
    assert_eq!(cluster.event(Event::Leaked), 32);
}

/// A callee that wrote 503s with Retry-After itself, as it knows the branch that its server sent on, had all servers but
/// one left alone.
#[test]
fn who_is_no_server_benches_none() {
    for config in [config(&[ONE, TWO]), stateful(&[ONE, TWO])] {
        let mut cluster = Cluster::new(config);
        for call in 0..10 {
            let received = cluster.pass(&request("INVITE", ALICE, &format!("call{call}")));
            let refusal = received.respond(503).with("Retry-After", 10);
            cluster.send_bytes(0, BOB.parse().unwrap(), refusal.to_string().as_bytes());
        }
        for server in [ONE, TWO] {
            assert!(cluster.member(server).server.is_eligible(cluster.now));
        }
    }
}

/// A user who registered another's address had each of their requests sent there seven to eleven times.
#[test]
fn who_has_not_asked_for_requests_gets_few() {
    for (contact, expected) in [(PHONE, 7), (VICTIM, 2)] {
        let mut cluster = Cluster::new(location());
        assert!(cluster.send(&request("INVITE", ALICE, "call")).is_empty());
        let contact = format!("sip:bob@{contact}");
        let mut sent = cluster.answer(record_of(&[binding(&contact)]));
        for _ in 0..32 {
            sent.extend(cluster.wait(s(1)));
        }
        let invites = sent
            .iter()
            .filter(|sent| sent.is_request() && sent.method() == "INVITE");
        assert_eq!(invites.count(), expected, "{contact}");
    }
}

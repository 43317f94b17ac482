//! Held transactions towards a pool: what is repeated, absorbed, cancelled and sent elsewhere.

use node::stats::{Dropped, Event};

use crate::{
    harness::{ALICE, Cluster, Established, ONE, Sent, TRANSACTION_MAX, TWO, ms, s, stateful},
    message::{Dialog, Msg, request},
    originated::outward,
};

/// How the messages begin, in order.
fn starts(sent: &[Sent]) -> Vec<String> {
    let word = |sent: &Sent| match sent.status() {
        0 => sent.method().to_owned(),
        status => status.to_string(),
    };
    sent.iter().map(word).collect()
}

/// What went to an address.
fn to(sent: &[Sent], address: &str) -> Vec<String> {
    let sent: Vec<Sent> = sent
        .iter()
        .filter(|sent| sent.to.to_string() == address)
        .cloned()
        .collect();
    starts(&sent)
}

/// All transactions are over, and nothing is counted.
fn is_idle(cluster: &mut Cluster) {
    cluster.wait(s(181) + TRANSACTION_MAX * 3);
    assert_eq!(cluster.total(), (0, 0, 0.0));
    assert_eq!(cluster.held(), 0);
}

#[test]
fn a_call_passes_and_leaves_nothing() {
    let mut cluster = Cluster::new(stateful(&[ONE, TWO]));
    let Established {
        mut caller, server, ..
    } = cluster.establish("call");
    assert_eq!(cluster.ledger(&server.to_string()), (1, 0, 0.0));
    let bye = cluster.exchange(&caller.request("BYE"), 200);
    assert_eq!(bye.to, server);
    is_idle(&mut cluster);
    assert_eq!(cluster.event(Event::Retransmission), 0);
}

#[test]
fn the_callee_can_hang_up() {
    let mut cluster = Cluster::new(stateful(&[ONE]));
    let mut call = cluster.establish("call");
    cluster.exchange(&call.callee.request("BYE"), 200);
    is_idle(&mut cluster);
}

/// RFC 3261 §17.2.1, RFC 6026 §7.1
#[test]
fn an_invite_that_comes_twice_is_absorbed() {
    let mut cluster = Cluster::new(stateful(&[ONE]));
    let invite = request("INVITE", ALICE, "call");
    let received = cluster.pass(&invite);
    assert!(cluster.send(&invite).is_empty(), "nothing to repeat yet");
    let ringing = cluster.pass(&received.respond(180));
    assert_eq!(cluster.pass(&invite).bytes, ringing.bytes);
    cluster.pass(&received.respond(200));
    assert!(
        cluster.send(&invite).is_empty(),
        "the server repeats its 2xx"
    );
    assert_eq!(
        cluster.pass(&received.respond(200)).status(),
        200,
        "each 2xx is passed on"
    );
    assert_eq!(cluster.event(Event::Retransmission), 3);
}

/// RFC 3261 §17.2.1: 100 within 200 ms, unless something else was sent.
#[test]
fn the_caller_hears_100_in_time() {
    let mut cluster = Cluster::new(stateful(&[ONE]));
    let invite = request("INVITE", ALICE, "call");
    let received = cluster.pass(&invite);
    assert!(
        cluster.send(&received.respond(100)).is_empty(),
        "RFC 3261 §16.7 step 4"
    );
    let sent = cluster.wait(ms(200));
    assert_eq!(to(&sent, ALICE), ["100"]);
    assert!(!sent[0].get("To").contains("tag="));

    let mut cluster = Cluster::new(stateful(&[ONE]));
    let received = cluster.pass(&invite);
    cluster.pass(&received.respond(180));
    assert_eq!(to(&cluster.wait(s(10)), ALICE), [""; 0]);
}

/// A 100 and a 487 of the node's own were counted among the `other` answers.
#[test]
fn answers_of_the_node_are_counted_by_their_status() {
    let mut cluster = Cluster::new(stateful(&[ONE]));
    let invite = request("INVITE", ALICE, "call");
    let received = cluster.pass(&invite);
    cluster.send(&received.respond(180));
    cluster.send(&invite.cancel());
    let sent = cluster.wait(TRANSACTION_MAX * 2);
    assert_eq!(to(&sent, ALICE)[0], "487");
    assert_eq!(cluster.replies(487), 1);

    let mut cluster = Cluster::new(stateful(&[ONE]));
    cluster.pass(&invite);
    assert_eq!(to(&cluster.wait(ms(200)), ALICE), ["100"]);
    assert_eq!((cluster.replies(100), cluster.replies(0)), (1, 0));
}

/// RFC 3261 §17.1.1.2
#[test]
fn a_lost_invite_is_sent_again() {
    let mut config = stateful(&[ONE]);
    config.pools[0].answer_timeout = s(30);
    let mut cluster = Cluster::new(config);
    let received = cluster.pass(&request("INVITE", ALICE, "call"));
    let sent = cluster.wait(s(8));
    assert_eq!(to(&sent, ONE), ["INVITE"; 4]);
    assert!(
        sent[1..]
            .iter()
            .filter(|s| s.to == received.to)
            .all(|s| s.bytes == received.bytes)
    );
    cluster.pass(&received.respond(180));
    assert!(cluster.wait(s(20)).is_empty());
}

/// RFC 3261 §17.1.1.3: the ACK of a failure is each hop's own.
#[test]
fn failures_are_acknowledged_on_both_sides() {
    let mut config = stateful(&[ONE]);
    config.trust.peers = vec!["203.0.113.7/32".parse().unwrap()];
    let mut cluster = Cluster::new(config);
    let invite = request("INVITE", ALICE, "call");
    let received = cluster.pass(&invite);
    let sent = cluster.send(&received.respond(486));
    assert_eq!(starts(&sent), ["ACK", "486"]);
    assert_eq!(
        (sent[0].to, sent[0].branch()),
        (received.to, received.branch())
    );
    assert_eq!(starts(&cluster.send(&received.respond(486))), ["ACK"]);
    assert_eq!(to(&cluster.wait(ms(520)), ALICE), ["486"], "Timer G");
    assert!(cluster.send(&invite.ack_of(&sent[1])).is_empty());
    assert!(cluster.wait(s(20)).is_empty());
    is_idle(&mut cluster);
}

/// RFC 3261 §9 and §16.10
#[test]
fn a_cancel_is_answered_and_cancels() {
    let mut cluster = Cluster::new(stateful(&[ONE, TWO]));
    let invite = request("INVITE", ALICE, "call");
    let received = cluster.pass(&invite);
    assert_eq!(
        starts(&cluster.send(&invite.cancel())),
        ["200"],
        "nothing has come back yet"
    );
    let sent = cluster.send(&received.respond(100));
    assert_eq!(starts(&sent), ["CANCEL"]);
    assert_eq!(
        (sent[0].to, sent[0].branch()),
        (received.to, received.branch())
    );
    assert_eq!(
        starts(&cluster.send(&invite.cancel())),
        ["200"],
        "once more"
    );
    assert!(cluster.send(&sent[0].respond(200)).is_empty());
    assert_eq!(
        starts(&cluster.send(&received.respond(487))),
        ["ACK", "487"]
    );
    is_idle(&mut cluster);
}

#[test]
fn a_cancel_that_crosses_the_answer_changes_nothing() {
    let mut cluster = Cluster::new(stateful(&[ONE]));
    let invite = request("INVITE", ALICE, "call");
    let received = cluster.pass(&invite);
    cluster.pass(&received.respond(180));
    assert_eq!(starts(&cluster.send(&invite.cancel())), ["200", "CANCEL"]);
    let answered = cluster.pass(&received.respond(200));
    assert_eq!(answered.status(), 200);
    let caller = Dialog::of_caller(&invite, &answered);
    assert_eq!(cluster.pass(&caller.ack()).to, received.to);
    assert_eq!(cluster.total().0, 1);
}

/// RFC 3261 §16.7: another target, a new branch.
#[test]
fn an_invite_leaves_a_server_that_refuses() {
    let mut cluster = Cluster::new(stateful(&[ONE, TWO]));
    let invite = request("INVITE", ALICE, "call");
    let first = cluster.pass(&invite);
    let sent = cluster.send(&first.respond(503).with("Retry-After", 10));
    assert_eq!(starts(&sent), ["ACK", "INVITE"]);
    let second = &sent[1];
    assert_ne!(second.to, first.to);
    assert_ne!(second.branch(), first.branch());
    assert_eq!(second.all("Max-Forwards"), ["69"]);
    assert_eq!(cluster.ledger(&first.to.to_string()), (0, 0, 0.0));
    assert_eq!(cluster.ledger(&second.to.to_string()), (1, 1, 1.75));
    let answered = cluster.pass(&second.respond(200));
    let mut caller = Dialog::of_caller(&invite, &answered);
    assert_eq!(cluster.pass(&caller.ack()).to, second.to);
    assert_eq!(cluster.exchange(&caller.request("BYE"), 200).to, second.to);
    is_idle(&mut cluster);
}

/// RFC 3261 §16.7 step 6: a 503 is about the one that sends it.
#[test]
fn the_last_503_becomes_a_500() {
    let mut cluster = Cluster::new(stateful(&[ONE, TWO]));
    let first = cluster.pass(&request("INVITE", ALICE, "call"));
    let second = cluster.send(&first.respond(503)).remove(1);
    assert_eq!(starts(&cluster.send(&second.respond(503))), ["ACK", "500"]);
    is_idle(&mut cluster);
}

#[test]
fn an_invite_leaves_a_silent_server() {
    let mut cluster = Cluster::new(stateful(&[ONE, TWO]));
    let invite = request("INVITE", ALICE, "call");
    let first = cluster.pass(&invite);
    let sent = cluster.wait(s(1) + ms(20));
    let other = if first.to.to_string() == ONE {
        TWO
    } else {
        ONE
    };
    assert_eq!(to(&sent, other), ["INVITE"]);
    assert_eq!(to(&sent, &first.to.to_string()), ["INVITE"], "Timer A");
    assert_eq!(cluster.ledger(&first.to.to_string()), (0, 0, 0.0));
    let second = sent
        .into_iter()
        .find(|sent| sent.to.to_string() == other)
        .unwrap();
    cluster.pass(&second.respond(180));

    // It was only slow: it is asked to stop, and its 487 concerns nobody.
    assert_eq!(starts(&cluster.send(&first.respond(180))), ["CANCEL"]);
    assert_eq!(starts(&cluster.send(&first.respond(487))), ["ACK"]);
    let answered = cluster.pass(&second.respond(200));
    assert_eq!(answered.to, invite.from);
    let caller = Dialog::of_caller(&invite, &answered);
    assert_eq!(cluster.pass(&caller.ack()).to, second.to);
    assert_eq!(cluster.ledger(other), (1, 0, 0.0));
}

#[test]
fn a_late_2xx_wins() {
    let mut cluster = Cluster::new(stateful(&[ONE, TWO]));
    let invite = request("INVITE", ALICE, "call");
    let first = cluster.pass(&invite);
    let sent = cluster.wait(s(1) + ms(20));
    let second = sent
        .into_iter()
        .find(|s| s.to != first.to && s.is_request())
        .unwrap();
    cluster.pass(&second.respond(180));
    let sent = cluster.send(&first.respond(200));
    assert_eq!(starts(&sent), ["200", "CANCEL"]);
    assert_eq!(sent[1].to, second.to);
    let mut caller = Dialog::of_caller(&invite, &sent[0]);
    assert_eq!(cluster.pass(&caller.ack()).to, first.to);
    assert_eq!(cluster.ledger(&first.to.to_string()), (1, 0, 0.0));
    assert_eq!(cluster.ledger(&second.to.to_string()), (0, 0, 0.0));
    assert_eq!(starts(&cluster.send(&second.respond(487))), ["ACK"]);
    cluster.exchange(&caller.request("BYE"), 200);
    is_idle(&mut cluster);
}

#[test]
fn a_call_leaves_a_server_that_dies() {
    for status in [None, Some(180)] {
        let mut cluster = Cluster::new(stateful(&[ONE, TWO]));
        let invite = request("INVITE", ALICE, "call");
        let first = cluster.pass(&invite);
        if let Some(status) = status {
            cluster.pass(&first.respond(status));
        }
        let sent = cluster.unreachable(&first.to.to_string());
        let second = sent.into_iter().find(|s| s.method() == "INVITE").unwrap();
        assert_ne!(second.to, first.to);
        assert_eq!(cluster.ledger(&second.to.to_string()), (1, 1, 1.75));
        cluster.pass(&second.respond(200));
        is_idle(&mut cluster);
    }
}

/// RFC 3261 §16.7: a branch without any response counts as a 408.
#[test]
fn an_invite_that_nobody_answers_ends() {
    let mut cluster = Cluster::new(stateful(&[ONE]));
    cluster.pass(&request("INVITE", ALICE, "call"));
    let sent = cluster.wait(TRANSACTION_MAX + ms(100));
    assert_eq!(to(&sent, ALICE), ["100", "408"]);
    assert_eq!(cluster.total(), (0, 0, 0.0));
    is_idle(&mut cluster);
}

/// RFC 3261 §16.8
#[test]
fn an_invite_does_not_ring_for_ever() {
    let mut cluster = Cluster::new(stateful(&[ONE]));
    let received = cluster.pass(&request("INVITE", ALICE, "call"));
    cluster.pass(&received.respond(180));
    let sent = cluster.wait(s(181) + ms(100));
    assert_eq!(to(&sent, ONE), ["CANCEL"]);
    let sent = cluster.wait(TRANSACTION_MAX + ms(100));
    assert_eq!(to(&sent, ALICE), ["408"]);
    is_idle(&mut cluster);
}

/// RFC 4320 §4
#[test]
fn other_requests_get_no_408_and_no_late_answer() {
    let mut cluster = Cluster::new(stateful(&[ONE]));
    let options = request("OPTIONS", ALICE, "call");
    let received = cluster.pass(&options);
    assert!(cluster.send(&options).is_empty());
    assert!(cluster.send(&received.respond(183)).is_empty());
    let sent = cluster.wait(TRANSACTION_MAX + s(1));
    assert_eq!(to(&sent, ALICE), ["100"]);
    assert!(cluster.send(&received.respond(200)).is_empty());
    assert_eq!(cluster.dropped(Dropped::Unmatched), 1);
    is_idle(&mut cluster);
}

#[test]
fn other_requests_are_repeated_on_both_sides() {
    let mut cluster = Cluster::new(stateful(&[ONE]));
    let message = request("MESSAGE", ALICE, "call");
    let received = cluster.pass(&message);
    assert_eq!(to(&cluster.wait(ms(1_600)), ONE), ["MESSAGE"; 2]);
    let answer = cluster.pass(&received.respond(200));
    assert_eq!(cluster.pass(&message).bytes, answer.bytes);
    assert!(cluster.send(&received.respond(200)).is_empty());
    is_idle(&mut cluster);
}

/// RFC 6026 §7.3
#[test]
fn a_response_without_a_transaction_goes_nowhere() {
    let mut cluster = Cluster::new(stateful(&[ONE]));
    let received = cluster.pass(&request("INVITE", ALICE, "call"));
    cluster.send(&received.respond(486));
    cluster.wait(s(40));
    assert!(cluster.send(&received.respond(200)).is_empty());
    assert_eq!(cluster.dropped(Dropped::Unmatched), 1);
}

/// A challenge, then the request anew: the same call, another transaction.
#[test]
fn a_call_starts_over_after_a_challenge() {
    let mut cluster = Cluster::new(stateful(&[ONE, TWO]));
    let invite = request("INVITE", ALICE, "call");
    let first = cluster.pass(&invite);
    let sent = cluster.send(
        &first
            .respond(407)
            .with("Proxy-Authenticate", "Digest realm=\"a\""),
    );
    assert_eq!(starts(&sent), ["ACK", "407"]);
    assert_eq!(sent[1].get("Proxy-Authenticate"), "Digest realm=\"a\"");
    cluster.send(&invite.ack_of(&sent[1]));
    let again = invite.again(2, "again");
    let second = cluster.pass(&again);
    assert_eq!(second.to, first.to);
    cluster.pass(&second.respond(200));
    assert_eq!(cluster.total(), (1, 0, 0.0));
}

/// A node that holds as many transactions as it may.
fn full() -> Cluster {
    let mut config = stateful(&[ONE]);
    config.limits.held_transactions = 4;
    let mut cluster = Cluster::new(config);
    for call in ["one", "two"] {
        cluster.pass(&request("INVITE", ALICE, call));
    }
    cluster
}

#[test]
fn a_full_table_answers_503() {
    let mut cluster = full();
    let refused = cluster.pass(&request("INVITE", ALICE, "three"));
    assert_eq!(refused.status(), 503);
    assert_eq!(cluster.event(Event::TransactionsFull), 1);
    assert_eq!(cluster.total(), (2, 2, 3.5));
}

/// A call that a server sent out and that was refused for lack of room stayed on its ledger and in the table of sessions
/// for good.
#[test]
fn what_a_full_table_refuses_is_not_counted() {
    let mut cluster = full();
    assert_eq!(cluster.pass(&outward("INVITE", ONE)).status(), 503);
    assert_eq!(cluster.ledger(ONE), (2, 2, 3.5));
    cluster.check();
}

/// There was no room for the branch at the second server, and the caller was never told.
#[test]
fn a_full_table_ends_what_would_move() {
    let mut config = stateful(&[ONE, TWO]);
    config.limits.held_transactions = 4;
    let mut cluster = Cluster::new(config);
    let first = cluster.pass(&request("INVITE", ALICE, "one"));
    cluster.pass(&request("INVITE", ALICE, "two"));
    assert_eq!(starts(&cluster.send(&first.respond(503))), ["ACK", "500"]);
    assert_eq!(cluster.total(), (1, 1, 1.75));
}

/// Only what a stateful route leads to is held.
#[test]
fn stateless_routes_stay_stateless() {
    let mut config = stateful(&[ONE]);
    config
        .routes
        .insert(0, crate::harness::route(&["MESSAGE"], &[], "app"));
    let mut cluster = Cluster::new(config);
    let message = request("MESSAGE", ALICE, "message");
    cluster.pass(&message);
    assert_eq!(
        cluster.pass(&message).method(),
        "MESSAGE",
        "passed on again"
    );
    let invite = request("INVITE", ALICE, "call");
    cluster.pass(&invite);
    assert!(cluster.send(&invite).is_empty());
}

/// RFC 3261 §16.10: a CANCEL of what is not known here is passed on; RFC 2543 peers are known.
#[test]
fn peers_without_a_cookie_are_served() {
    let mut cluster = Cluster::new(stateful(&[ONE]));
    let via = format!("SIP/2.0/UDP {ALICE};rport");
    let invite = request("INVITE", ALICE, "call").set("Via", via);
    let received = cluster.pass(&invite);
    assert!(cluster.send(&invite).is_empty());
    let sent = cluster.send(&received.respond(486));
    assert!(cluster.send(&invite.ack_of(&sent[1])).is_empty());
    assert!(cluster.wait(s(20)).is_empty(), "the ACK was understood");
}

/// The same branches after a restart: the server knows the INVITE again.
#[test]
fn a_restart_changes_no_branch() {
    let mut cluster = Cluster::new(stateful(&[ONE]));
    let invite = request("INVITE", ALICE, "call");
    let before = cluster.pass(&invite);
    cluster.restart(stateful(&[ONE]));
    assert_eq!(cluster.pass(&invite).branch(), before.branch());
}

#[test]
fn workers_hold_what_they_own() {
    let mut cluster = Cluster::with_workers(stateful(&[ONE, TWO]), 3);
    for call in 0..20 {
        let call = format!("call{call}");
        let invite = request("INVITE", ALICE, &call);
        let received = cluster.pass(&invite);
        assert!(cluster.send(&invite).is_empty());
        let sent = cluster.send(&received.respond(486));
        let back: Vec<&Msg> = sent.iter().map(|s| &s.message).collect();
        assert_eq!(starts(&sent), ["ACK", "486"], "{back:?}");
        assert!(cluster.send(&invite.ack_of(&sent[1])).is_empty());
    }
    is_idle(&mut cluster);
}

//! Calls from the first request to the last response, and what the ledger says at each step.

use node::stats::Event;

use crate::{
    harness::{ALICE, Cluster, EDGE, ONE, TRANSACTION_MAX, TWO, config, ms, s, stateful},
    message::{Dialog, param, request},
    originated::outward,
};

#[test]
fn the_ledger_follows_a_call() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let invite = request("INVITE", ALICE, "call");
    let received = cluster.pass(&invite);
    assert_eq!(cluster.ledger(ONE), (1, 1, 1.75));
    cluster.pass(&received.respond(180));
    assert_eq!(cluster.ledger(ONE), (1, 1, 1.75));
    let answer = received.respond(200);
    let answered = cluster.pass(&answer);
    assert_eq!(cluster.ledger(ONE), (1, 0, 0.0));
    let mut caller = Dialog::of_caller(&invite, &answered);
    cluster.pass(&caller.ack());
    assert_eq!(cluster.ledger(ONE), (1, 0, 0.0));
    let bye = cluster.pass(&caller.request("BYE"));
    assert_eq!(cluster.ledger(ONE), (1, 1, 1.0));
    cluster.pass(&bye.respond(200));
    assert_eq!(cluster.ledger(ONE), (0, 0, 0.0));
    assert_eq!(cluster.sizes(), (0, 1, 0));
    cluster.wait(TRANSACTION_MAX + ms(20));
    assert_eq!(cluster.sizes(), (0, 0, 0));
}

/// RFC 3261 §16.6, RFC 3581 §4
#[test]
fn a_request_goes_on_with_what_a_proxy_adds() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let invite = request("INVITE", ALICE, "call")
        .set("Via", "SIP/2.0/UDP 192.168.1.4:5060;rport;branch=z9hG4bK-1")
        .with("Via", "SIP/2.0/UDP 192.168.1.3;branch=z9hG4bK-0");
    let received = cluster.pass(&invite);
    let vias = received.all("Via");
    assert_eq!(received.to, ONE.parse().unwrap());
    assert!(
        vias[0].starts_with(&format!("SIP/2.0/UDP {EDGE};branch=z9hG4bK")),
        "{}",
        vias[0]
    );
    assert!(
        vias[1].starts_with("SIP/2.0/UDP 192.168.1.4:5060;"),
        "{}",
        vias[1]
    );
    assert_eq!(param(vias[1], "received"), Some("203.0.113.7"));
    assert_eq!(param(vias[1], "rport"), Some("5070"));
    assert_eq!(vias[2], "SIP/2.0/UDP 192.168.1.3;branch=z9hG4bK-0");
    assert_eq!(received.all("Max-Forwards"), ["69"]);
    assert_eq!(received.all("Record-Route").len(), 1);
    let record_route = received.get("Record-Route");
    assert!(
        record_route.ends_with(&format!("@{EDGE};lr>")),
        "{record_route}"
    );
    assert_eq!(received.uri(), invite.uri());
    assert_eq!(received.get("Contact"), invite.get("Contact"));
}

/// RFC 3261 §16.6 step 3
#[test]
fn max_forwards_is_added_where_it_is_missing() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let invite = request("INVITE", ALICE, "call").without("Max-Forwards");
    assert_eq!(cluster.pass(&invite).all("Max-Forwards"), ["70"]);
}

/// RFC 3261 §16.7 steps 3 and 9, §18.2.2
#[test]
fn responses_go_back_along_the_vias() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let invite = request("INVITE", ALICE, "call");
    let received = cluster.pass(&invite);
    for status in [100, 180, 486] {
        let back = cluster.pass(&received.respond(status));
        assert_eq!((back.to, back.status()), (invite.from, status));
        assert_eq!(back.all("Via").len(), 1);
        assert_eq!(back.branch(), invite.branch());
    }
}

#[test]
fn a_retransmitted_invite_is_not_placed_again() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let invite = request("INVITE", ALICE, "call");
    let first = cluster.pass(&invite);
    let counted = cluster.total();
    for _ in 0..20 {
        cluster.wait(ms(10));
        let again = cluster.pass(&invite);
        assert_eq!((again.to, again.message), (first.to, first.message.clone()));
    }
    assert_eq!(cluster.total(), counted);
    assert_eq!(cluster.event(Event::Retransmission), 20);
}

/// RFC 6076 §4.6 to §4.8
#[test]
fn the_outcome_of_each_call_is_counted_once() {
    for config in [config(&[ONE]), stateful(&[ONE])] {
        let mut cluster = Cluster::new(config);
        for (call, status) in [200, 486, 603, 500, 504, 404, 487, 302, 407]
            .iter()
            .enumerate()
        {
            let invite = request("INVITE", ALICE, &format!("call{call}"));
            let received = cluster.pass(&invite);
            cluster.send(&received.respond(*status));
            cluster.send(&received.respond(*status));
        }
        let options = cluster.pass(&request("OPTIONS", ALICE, "options"));
        cluster.pass(&options.respond(200));
        let outcomes = [
            Event::CallsAnswered,
            Event::CallsDeclined,
            Event::CallsIneffective,
            Event::CallsFailed,
        ];
        assert_eq!(outcomes.map(|event| cluster.event(event)), [1, 2, 2, 2]);
    }
}

/// A farm that fell silent counted no ineffective call on stateless routes, and calls that servers began counted only on
/// stateful ones.
#[test]
fn outcomes_are_counted_on_all_routes_alike() {
    for config in [config(&[ONE]), stateful(&[ONE])] {
        let mut cluster = Cluster::new(config);
        cluster.pass(&request("INVITE", ALICE, "silent"));
        cluster.wait(TRANSACTION_MAX + ms(1_000));
        assert_eq!(cluster.event(Event::CallsIneffective), 1);
        let begun = cluster.pass(&outward("INVITE", ONE));
        cluster.send(&begun.respond(486));
        assert_eq!(cluster.event(Event::CallsDeclined), 1);
    }
}

/// RFC 3261 §9.1, §16.10
#[test]
fn a_cancel_follows_its_invite() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let invite = request("INVITE", ALICE, "call");
    let received = cluster.pass(&invite);
    cluster.pass(&received.respond(180));
    let cancel = cluster.pass(&invite.cancel());
    assert_eq!(
        (cancel.to, cancel.branch()),
        (received.to, received.branch())
    );
    assert_eq!(cluster.total(), (1, 2, 2.75));
    cluster.pass(&invite.cancel());
    assert_eq!(
        cluster.total(),
        (1, 2, 2.75),
        "its retransmission is not counted"
    );
    cluster.pass(&cancel.respond(200));
    assert_eq!(cluster.total(), (1, 1, 1.75));
    let failure = cluster.pass(&received.respond(487));
    assert_eq!(cluster.total(), (0, 0, 0.0));
    let ack = cluster.pass(&invite.ack_of(&failure));
    assert_eq!((ack.to, ack.branch()), (received.to, received.branch()));
}

#[test]
fn a_late_cancel_leaves_the_call_alone() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let invite = request("INVITE", ALICE, "call");
    let received = cluster.pass(&invite);
    cluster.pass(&received.respond(200));
    let cancel = cluster.pass(&invite.cancel());
    cluster.pass(&cancel.respond(481));
    assert_eq!(cluster.ledger(ONE), (1, 0, 0.0));
}

/// The server answered before the CANCEL came: 481 is of the CANCEL, not of the dialog.
#[test]
fn a_cancel_that_crosses_the_answer_does_not_end_the_call() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let invite = request("INVITE", ALICE, "call");
    let received = cluster.pass(&invite);
    let cancel = cluster.pass(&invite.cancel());
    cluster.pass(&received.respond(200));
    cluster.pass(&cancel.respond(481));
    assert_eq!(cluster.ledger(ONE), (1, 0, 0.0));
}

/// RFC 3261 §17.1.1.3
#[test]
fn the_ack_of_a_failure_has_the_branch_of_its_invite() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let invite = request("INVITE", ALICE, "call");
    let received = cluster.pass(&invite);
    let failure = cluster.pass(&received.respond(486));
    assert_eq!(cluster.total(), (0, 0, 0.0));
    let ack = cluster.pass(&invite.ack_of(&failure));
    assert_eq!((ack.to, ack.branch()), (received.to, received.branch()));
    assert_eq!(cluster.total(), (0, 0, 0.0));
}

/// RFC 3261 §13.2.2.4
#[test]
fn the_ack_of_a_success_is_a_request_of_its_own() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let call = cluster.establish("call");
    let ack = cluster.pass(&call.caller.ack());
    assert_eq!(ack.to, call.server);
    assert_ne!(ack.branch(), call.invite.branch());
    assert!(ack.all("Route").is_empty());
    assert_eq!(cluster.total(), (1, 0, 0.0));
}

/// RFC 3261 §22.2
#[test]
fn a_challenged_invite_stays_on_its_server() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let invite = request("INVITE", ALICE, "call");
    let received = cluster.pass(&invite);
    let challenge = cluster.pass(&received.respond(407));
    assert_eq!(cluster.total(), (0, 0, 0.0));
    cluster.pass(&invite.ack_of(&challenge));
    cluster.wait(s(5));
    let again = invite.again(2, "again");
    let second = cluster.pass(&again);
    assert_eq!(second.to, received.to);
    assert_ne!(second.branch(), received.branch());
    assert_eq!(cluster.total(), (1, 1, 1.75));
    let answered = cluster.pass(&second.respond(200));
    let mut caller = Dialog::of_caller(&again, &answered);
    cluster.exchange(&caller.request("BYE"), 200);
    assert_eq!(cluster.total(), (0, 0, 0.0));
}

#[test]
fn an_old_call_id_of_another_caller_is_a_new_call() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let invite = request("INVITE", ALICE, "call");
    let received = cluster.pass(&invite);
    cluster.pass(&received.respond(486));
    let other = request("INVITE", ALICE, "other").set("Call-ID", invite.get("Call-ID"));
    cluster.pass(&other);
    assert_eq!(cluster.member(ONE).server.placed(), 2);
    assert_eq!(cluster.ledger(ONE), (1, 1, 1.75));
}

#[test]
fn nothing_is_counted_again_after_its_final_response() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let mut call = cluster.establish("call");
    let invite = request("INVITE", ALICE, "call");
    let again = cluster.pass(&invite);
    assert_eq!(
        (again.to, again.branch()),
        (call.server, call.invite.branch())
    );
    assert_eq!(cluster.total(), (1, 0, 0.0));
    let bye = call.caller.request("BYE");
    cluster.exchange(&bye, 200);
    let again = cluster.pass(&bye);
    assert_eq!(again.to, call.server);
    assert_eq!(cluster.total(), (0, 0, 0.0));
    cluster.pass(&again.respond(200));
    assert_eq!(cluster.total(), (0, 0, 0.0));
}

#[test]
fn a_repeated_2xx_after_the_bye_does_not_reopen_the_call() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let mut call = cluster.establish("call");
    let bye = cluster.pass(&call.caller.request("BYE"));
    cluster.pass(&call.answer);
    cluster.pass(&bye.respond(200));
    cluster.pass(&call.answer);
    assert_eq!(cluster.ledger(ONE), (0, 0, 0.0));
    assert_eq!(cluster.sizes(), (0, 1, 0));
}

/// The session is still open because another request waits for its answer.
#[test]
fn a_repeated_2xx_between_bye_and_a_late_answer_does_not_reopen_the_call() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let mut call = cluster.establish("call");
    let info = cluster.pass(&call.caller.request("INFO"));
    cluster.exchange(&call.caller.request("BYE"), 200);
    cluster.pass(&call.answer);
    cluster.pass(&info.respond(481));
    assert_eq!(cluster.ledger(ONE), (0, 0, 0.0));
    assert_eq!(cluster.sizes(), (0, 1, 0));
}

#[test]
fn a_bye_of_the_server_ends_the_call() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let mut call = cluster.establish("call");
    let bye = cluster.pass(&call.callee.request("BYE"));
    assert_eq!(bye.to, ALICE.parse().unwrap());
    assert_eq!(
        cluster.ledger(ONE),
        (1, 0, 0.0),
        "the caller's work is not the server's"
    );
    cluster.pass(&bye.respond(200));
    assert_eq!(cluster.ledger(ONE), (0, 0, 0.0));
}

#[test]
fn a_bye_without_an_answer_ends_the_call_too() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let mut call = cluster.establish("call");
    cluster.pass(&call.caller.request("BYE"));
    cluster.wait(TRANSACTION_MAX + ms(20));
    assert_eq!(cluster.ledger(ONE), (0, 0, 0.0));
    assert_eq!(cluster.event(Event::TimedOut), 1);
}

/// RFC 3261 §16.6 step 11: Timer C starts again with each provisional response.
#[test]
fn a_ringing_call_is_counted_as_long_as_timer_c_runs() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let received = cluster.pass(&request("INVITE", ALICE, "call"));
    cluster.pass(&received.respond(180));
    cluster.wait(s(170));
    cluster.pass(&received.respond(180));
    cluster.wait(s(170));
    assert_eq!(cluster.ledger(ONE), (1, 1, 1.75));
    cluster.wait(s(12) + TRANSACTION_MAX);
    assert_eq!(cluster.ledger(ONE), (0, 0, 0.0));
}

#[test]
fn clients_that_follow_no_route_are_served_by_the_session() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let mut call = cluster.establish("call");
    call.caller.routes.clear();
    call.callee.routes.clear();
    let info = cluster.exchange(&call.caller.request("INFO"), 200);
    assert_eq!(info.to, call.server);
    let bye = cluster.exchange(&call.callee.request("BYE"), 200);
    assert_eq!(bye.to, ALICE.parse().unwrap());
    assert_eq!(cluster.total(), (0, 0, 0.0));
}

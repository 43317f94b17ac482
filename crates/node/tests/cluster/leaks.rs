//! Calls that nobody ends.

use std::time::Duration;

use node::stats::{Dropped, Event};

use crate::{
    harness::{ALICE, Cluster, Established, ONE, Sent, TRANSACTION_MAX, TWO, config, ms, s},
    message::{Dialog, request},
};

/// How long a call may be silent while nothing is known of the lengths of calls.
const BOUND: Duration = Duration::from_secs(30 * 60);

/// A call without a BYE, and the node's question after the bound.
fn asked(cluster: &mut Cluster) -> (Established, Sent) {
    let call = cluster.establish("call");
    assert!(cluster.wait(BOUND - ms(100)).is_empty());
    let mut sent = cluster.wait(ms(200));
    assert_eq!(sent.len(), 1, "{sent:#?}");
    (call, sent.remove(0))
}

#[test]
fn a_silent_call_is_asked_after() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let (call, question) = asked(&mut cluster);
    assert_eq!((question.to, question.method()), (call.server, "OPTIONS"));
    assert_eq!(question.get("Call-ID"), call.invite.get("Call-ID"));
    let tag = |value: &str| value.split_once(";tag=").unwrap().1.to_owned();
    assert_eq!(tag(question.get("From")), tag(call.invite.get("From")));
    assert_eq!(tag(question.get("To")), tag(call.answer.get("To")));
    assert_eq!(cluster.event(Event::Rechecked), 1);
    assert_eq!(cluster.ledger(ONE), (1, 0, 0.0));
}

#[test]
fn a_call_that_its_server_does_not_know_is_over() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let (_, question) = asked(&mut cluster);
    assert!(cluster.send(&question.respond(481)).is_empty());
    assert_eq!(cluster.ledger(ONE), (0, 0, 0.0));
    assert_eq!(cluster.event(Event::Leaked), 1);
}

#[test]
fn a_call_that_its_server_knows_goes_on() {
    for status in [200, 500, 405] {
        let mut cluster = Cluster::new(config(&[ONE]));
        let (mut call, question) = asked(&mut cluster);
        assert!(cluster.send(&question.respond(status)).is_empty());
        assert!(cluster.wait(BOUND - ms(100)).is_empty(), "{status}");
        assert_eq!(cluster.ledger(ONE), (1, 0, 0.0));
        assert_eq!(cluster.wait(ms(200)).len(), 1, "it is asked again");
        cluster.exchange(&call.caller.request("BYE"), 200);
        assert_eq!(cluster.ledger(ONE), (0, 0, 0.0));
    }
}

#[test]
fn four_unanswered_questions_end_a_call() {
    let mut cluster = Cluster::new(config(&[ONE]));
    asked(&mut cluster);
    let more = cluster.wait(s(25));
    assert_eq!(more.len(), 3);
    assert_eq!(cluster.ledger(ONE), (1, 0, 0.0));
    assert!(cluster.wait(s(8)).is_empty());
    assert_eq!(cluster.ledger(ONE), (0, 0, 0.0));
    assert_eq!(cluster.event(Event::Leaked), 1);
}

#[test]
fn an_answer_nobody_waits_for_says_nothing() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let (_, question) = asked(&mut cluster);
    cluster.send(&question.respond(200));
    cluster.send(&question.respond(481));
    assert_eq!(cluster.ledger(ONE), (1, 0, 0.0));
    assert_eq!(cluster.dropped(Dropped::StaleProbe), 1);
}

/// Whoever knew a Call-ID could have a call taken for over, or for alive: an answer was believed
/// whoever sent it, and whatever dialog it named.
#[test]
fn only_the_server_of_the_dialog_answers_for_it() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let (call, question) = asked(&mut cluster);
    let other = if call.server == ONE.parse().unwrap() {
        TWO
    } else {
        ONE
    };
    let gone = question.respond(481);
    for forged in [
        gone.clone().from(ALICE),
        gone.clone().from(other),
        gone.clone().set("To", "<sip:sipyard.invalid>;tag=another"),
    ] {
        assert!(cluster.send(&forged).is_empty());
        assert_eq!(cluster.total(), (1, 0, 0.0), "{forged}");
    }
    assert_eq!(cluster.dropped(Dropped::StaleProbe), 3);
    assert_eq!(cluster.wait(s(9)).len(), 1, "it is asked again");
    cluster.send(&gone);
    assert_eq!(cluster.total(), (0, 0, 0.0));
}

/// A server that had lost one fork of a call ended the count of all.
#[test]
fn a_fork_that_its_server_does_not_know_ends_alone() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let call = cluster.establish("call");
    let fork = cluster.pass(&call.invite.respond_as(200, "fork"));
    let invite = request("INVITE", ALICE, "call");
    cluster.pass(&Dialog::of_caller(&invite, &fork).ack());
    let mut sent = cluster.wait(BOUND + s(1));
    cluster.send(&sent.remove(0).respond(481));
    assert_eq!(cluster.ledger(ONE), (1, 0, 0.0));
}

/// The node asked its own choice of server about a call that another had answered, one which the
/// configuration had lost meanwhile: found by random exploration.
#[test]
fn a_dialog_at_a_server_that_was_taken_out_is_asked_of_nobody() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let invite = request("INVITE", ALICE, "call");
    let first = cluster.pass(&invite);
    let other = if first.to == ONE.parse().unwrap() {
        TWO
    } else {
        ONE
    };
    cluster.restart(config(&[other]));
    assert_ne!(cluster.pass(&invite).to, first.to);
    let answered = cluster.pass(&first.respond(200));
    let mut caller = Dialog::of_caller(&invite, &answered);
    assert_eq!(cluster.pass(&caller.ack()).to, first.to);
    assert!(cluster.wait(BOUND + s(60)).is_empty());
    assert_eq!(cluster.exchange(&caller.request("BYE"), 200).to, first.to);
    assert_eq!(cluster.total(), (0, 0, 0.0));
}

#[test]
fn any_request_is_a_sign_of_life() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let mut call = cluster.establish("call");
    cluster.wait(BOUND / 2);
    cluster.exchange(&call.callee.request("INFO"), 200);
    assert!(cluster.wait(BOUND - s(1)).is_empty());
    assert_eq!(cluster.wait(s(2)).len(), 1);
}

/// RFC 4028 §10: a session that is not refreshed is over.
#[test]
fn session_expires_bounds_a_call() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let invite = request("INVITE", ALICE, "call");
    let received = cluster.pass(&invite);
    let answer = received
        .respond(200)
        .with("Session-Expires", "90;refresher=uac");
    let answered = cluster.pass(&answer);
    let mut caller = Dialog::of_caller(&invite, &answered);
    cluster.pass(&caller.ack());
    cluster.wait(s(80));
    let update = cluster.pass(&caller.request("UPDATE"));
    cluster.pass(
        &update
            .respond(200)
            .with("Session-Expires", "180;refresher=uac"),
    );
    cluster.wait(s(200));
    assert_eq!(
        cluster.ledger(ONE),
        (1, 0, 0.0),
        "it was refreshed, for longer"
    );
    assert!(cluster.wait(s(14)).is_empty());
    assert_eq!(cluster.ledger(ONE), (0, 0, 0.0));
    assert_eq!(cluster.event(Event::Leaked), 1);
}

#[test]
fn no_interval_is_without_end() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let invite = request("INVITE", ALICE, "call");
    let received = cluster.pass(&invite);
    let answered = cluster.pass(&received.respond(200).with("Session-Expires", u32::MAX));
    cluster.pass(&Dialog::of_caller(&invite, &answered).ack());
    cluster.wait(s(3600));
    assert_eq!(cluster.ledger(ONE), (1, 0, 0.0));
    cluster.wait(s(8 * 24 * 3600));
    assert_eq!(cluster.ledger(ONE), (0, 0, 0.0));
}

/// The identity is too long to be kept, so that the call can't be asked after.
#[test]
fn a_call_with_an_endless_name_is_bounded() {
    let mut config = config(&[ONE]);
    config.timers.call_max = s(3600);
    let mut cluster = Cluster::new(config);
    let invite = request("INVITE", ALICE, "call").set("Call-ID", "x".repeat(200));
    let received = cluster.pass(&invite);
    let answered = cluster.pass(&received.respond(200));
    cluster.pass(&Dialog::of_caller(&invite, &answered).ack());
    assert!(cluster.wait(s(3599)).is_empty());
    assert_eq!(cluster.ledger(ONE), (1, 0, 0.0));
    assert!(cluster.wait(s(2)).is_empty());
    assert_eq!(cluster.ledger(ONE), (0, 0, 0.0));
}

/// What is known of the lengths of calls is the bound: here all took a second.
#[test]
fn the_bound_is_learned() {
    let mut cluster = Cluster::new(config(&[ONE]));
    for number in 0..100 {
        let mut call = cluster.establish(&format!("call{number}"));
        cluster.wait(s(1));
        cluster.exchange(&call.caller.request("BYE"), 200);
    }
    cluster.establish("leak");
    assert!(cluster.wait(s(59)).is_empty());
    assert_eq!(cluster.wait(s(2)).len(), 1);
}

#[test]
fn what_is_over_is_forgotten() {
    let mut cluster = Cluster::with_workers(config(&[ONE]), 3);
    for number in 0..30 {
        let mut call = cluster.establish(&format!("call{number}"));
        cluster.exchange(&call.caller.request("BYE"), 200);
    }
    assert_eq!(cluster.sizes(), (0, 30, 0));
    cluster.wait(TRANSACTION_MAX - ms(20));
    assert_eq!(cluster.sizes(), (0, 30, 0));
    cluster.wait(ms(40));
    assert_eq!(cluster.sizes(), (0, 0, 0));
}

/// RFC 3261 §13.3.1.4: without an ACK for 64*T1 the server gives a call up, and so must the count.
#[test]
fn a_2xx_without_an_ack_makes_no_call() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let received = cluster.pass(&request("INVITE", ALICE, "call"));
    let answer = received.respond(200);
    cluster.pass(&answer);
    cluster.wait(s(16));
    cluster.pass(&answer);
    assert!(cluster.wait(TRANSACTION_MAX - ms(100)).is_empty());
    assert_eq!(cluster.ledger(ONE), (1, 0, 0.0), "the 2xx came once more");
    assert!(cluster.wait(ms(200)).is_empty());
    assert_eq!(cluster.ledger(ONE), (0, 0, 0.0));
    assert_eq!(cluster.event(Event::Leaked), 1);
}

#[test]
fn a_2xx_that_comes_again_wants_its_ack_again() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let call = cluster.establish("call");
    cluster.pass(&call.answer);
    cluster.pass(&call.caller.ack());
    assert!(cluster.wait(BOUND - s(1)).is_empty());
    assert_eq!(cluster.total(), (1, 0, 0.0));

    let lost = cluster.establish("lost");
    cluster.pass(&lost.answer);
    cluster.wait(TRANSACTION_MAX + ms(100));
    assert_eq!(cluster.total(), (1, 0, 0.0));
}

/// A fork that nobody acknowledges ends without taking the other dialog along.
#[test]
fn an_unacknowledged_fork_ends_alone() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let mut call = cluster.establish("call");
    cluster.pass(&call.invite.respond_as(200, "fork"));
    cluster.wait(TRANSACTION_MAX + ms(100));
    assert_eq!(cluster.event(Event::Leaked), 1);
    assert_eq!(cluster.ledger(ONE), (1, 0, 0.0));
    cluster.exchange(&call.caller.request("BYE"), 200);
    assert_eq!(cluster.ledger(ONE), (0, 0, 0.0));
}

//! Requests within dialogs, forks, subscriptions, and what stands alone.

use crate::{
    harness::{ALICE, BOB, Cluster, ONE, THREE, TRANSACTION_MAX, TWO, config, ms, pool, route, s},
    message::{Dialog, Msg, request},
};

#[test]
fn every_request_of_a_dialog_is_counted() {
    for method in [
        "INVITE", "UPDATE", "INFO", "OPTIONS", "MESSAGE", "REFER", "NOTIFY",
    ] {
        let mut cluster = Cluster::new(config(&[ONE, TWO]));
        let mut call = cluster.establish("call");
        let work = if method == "INVITE" { 1.75 } else { 1.0 };
        let sent = call.caller.request(method);
        let received = cluster.pass(&sent);
        assert_eq!(received.to, call.server, "{method}");
        assert_eq!(cluster.total(), (1, 1, work), "{method}");
        cluster.pass(&sent);
        assert_eq!(cluster.total(), (1, 1, work), "{method} again");
        cluster.pass(&received.respond(200));
        assert_eq!(cluster.total(), (1, 0, 0.0), "{method}");
        cluster.pass(&sent);
        assert_eq!(cluster.total(), (1, 0, 0.0), "{method} late");
    }
}

#[test]
fn prack_belongs_to_its_server_while_the_invite_is_open() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let invite = request("INVITE", ALICE, "call").with("Supported", "100rel");
    let received = cluster.pass(&invite);
    let ringing = cluster.pass(&received.respond(180).with("RSeq", 1));
    let mut early = Dialog::of_caller(&invite, &ringing);
    let prack = cluster.pass(&early.request("PRACK").with("RAck", "1 1 INVITE"));
    assert_eq!(prack.to, received.to);
    assert_eq!(cluster.total(), (1, 2, 2.75));
    cluster.pass(&prack.respond(200));
    assert_eq!(cluster.total(), (1, 1, 1.75));
    cluster.pass(&received.respond(200));
    assert_eq!(cluster.total(), (1, 0, 0.0));
}

/// RFC 3262 §3: the provisional response that it is for is unknown, the dialog may live on.
#[test]
fn a_prack_that_is_refused_does_not_end_the_call() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let invite = request("INVITE", ALICE, "call");
    let received = cluster.pass(&invite);
    let ringing = cluster.pass(&received.respond(180));
    let mut early = Dialog::of_caller(&invite, &ringing);
    let prack = cluster.pass(&early.request("PRACK"));
    cluster.pass(&received.respond(200));
    cluster.pass(&prack.respond(481));
    assert_eq!(cluster.ledger(ONE), (1, 0, 0.0));
}

/// RFC 3261 §14.1: a refused re-INVITE leaves the dialog as it was.
#[test]
fn a_refused_re_invite_leaves_the_call_as_it_was() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let mut call = cluster.establish("call");
    for status in [488, 491, 500, 503] {
        let sent = call.caller.request("INVITE");
        let received = cluster.pass(&sent);
        let failure = cluster.pass(&received.respond(status));
        let ack = cluster.pass(&sent.ack_of(&failure));
        assert_eq!(ack.branch(), received.branch());
        assert_eq!(cluster.ledger(ONE), (1, 0, 0.0), "{status}");
    }
}

/// RFC 3261 §12.2.1.2
#[test]
fn a_request_that_finds_no_dialog_ends_it() {
    for (side, status) in [
        ("caller", 481),
        ("caller", 408),
        ("callee", 481),
        ("callee", 408),
    ] {
        let mut cluster = Cluster::new(config(&[ONE]));
        let mut call = cluster.establish("call");
        let dialog = match side {
            "caller" => &mut call.caller,
            _ => &mut call.callee,
        };
        cluster.exchange(&dialog.request("INFO"), status);
        assert_eq!(cluster.ledger(ONE), (0, 0, 0.0), "{status} to {side}");
    }
}

/// RFC 3261 §13.2.2.4: each 2xx makes a dialog, with a CSeq of its own.
#[test]
fn a_forked_call_ends_with_its_last_leg() {
    for number in [1, 2] {
        let mut cluster = Cluster::new(config(&[ONE]));
        let invite = request("INVITE", ALICE, "call");
        let received = cluster.pass(&invite);
        let mut legs = ["bob", "carol"].map(|tag| {
            let answered = cluster.pass(&received.respond_as(200, tag));
            let leg = Dialog::of_caller(&invite, &answered);
            cluster.pass(&leg.ack());
            leg
        });
        assert_eq!(cluster.ledger(ONE), (1, 0, 0.0));
        cluster.exchange(&legs[2 - number].request("BYE"), 200);
        assert_eq!(cluster.ledger(ONE), (1, 0, 0.0), "the other leg is up");
        cluster.pass(&received.respond_as(200, ["carol", "bob"][number - 1]));
        let bye = cluster.pass(&legs[number - 1].request("BYE"));
        assert_eq!(cluster.ledger(ONE), (1, 1, 1.0));
        cluster.pass(&bye.respond(200));
        assert_eq!(cluster.ledger(ONE), (0, 0, 0.0));
    }
}

#[test]
fn requests_outside_dialogs_are_counted_and_closed() {
    for method in ["REGISTER", "MESSAGE", "OPTIONS", "PUBLISH"] {
        let mut cluster = Cluster::new(config(&[ONE, TWO]));
        let sent = request(method, ALICE, "alone");
        let received = cluster.pass(&sent);
        assert!(received.all("Record-Route").is_empty(), "{method}");
        assert_eq!(cluster.total(), (0, 1, 1.0), "{method}");
        cluster.pass(&received.respond(200));
        assert_eq!(cluster.total(), (0, 0, 0.0), "{method}");
        cluster.pass(&sent);
        assert_eq!(cluster.total(), (0, 0, 0.0), "{method} again");
        cluster.wait(TRANSACTION_MAX + ms(20));
        assert_eq!(cluster.sizes(), (0, 0, 0), "{method}");
    }
}

#[test]
fn a_request_without_an_answer_is_closed_in_time() {
    let mut cluster = Cluster::new(config(&[ONE]));
    cluster.pass(&request("REGISTER", ALICE, "alone"));
    let sent = cluster.wait(TRANSACTION_MAX + ms(20));
    assert!(sent.is_empty(), "RFC 4320 §4.2: no 408 to a non-INVITE");
    assert_eq!(cluster.ledger(ONE), (0, 0, 0.0));
}

/// A subscription that is up: subscriber and notifier.
fn subscribe(cluster: &mut Cluster, expires: u32) -> (Dialog, Dialog) {
    let sent = request("SUBSCRIBE", ALICE, "watch").with("Event", "presence");
    let received = cluster.pass(&sent);
    let answer = received.respond(200).with("Expires", expires);
    let answered = cluster.pass(&answer);
    let subscriber = Dialog::of_caller(&sent, &answered);
    (subscriber, Dialog::of_callee(&received, &answer))
}

fn notify(dialog: &mut Dialog, state: &str) -> Msg {
    dialog.request("NOTIFY").with("Subscription-State", state)
}

/// RFC 6665 §4.4.1
#[test]
fn a_subscription_lives_until_its_last_notify() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let (mut subscriber, mut notifier) = subscribe(&mut cluster, 600);
    cluster.exchange(&notify(&mut notifier, "active;expires=600"), 200);
    assert_eq!(cluster.total(), (0, 0, 0.0), "a subscription is no call");
    assert_eq!(cluster.sizes(), (1, 0, 0));
    cluster.wait(s(500));
    let refresh = subscriber.request("SUBSCRIBE").with("Event", "presence");
    let received = cluster.pass(&refresh);
    assert_eq!(cluster.total(), (0, 1, 1.0));
    cluster.pass(&received.respond(200).with("Expires", 600));
    cluster.wait(s(500));
    assert_eq!(cluster.sizes(), (1, 0, 0));
    let last = notify(&mut notifier, "terminated;reason=timeout");
    cluster.exchange(&last, 200);
    assert_eq!(cluster.sizes(), (0, 1, 0));
}

/// RFC 6665 §4.1.2.2
#[test]
fn a_subscription_that_is_not_refreshed_is_over() {
    let mut cluster = Cluster::new(config(&[ONE]));
    subscribe(&mut cluster, 600);
    cluster.wait(s(600));
    assert_eq!(cluster.sizes(), (1, 0, 0));
    cluster.wait(TRANSACTION_MAX + ms(20));
    assert_eq!(cluster.sizes(), (0, 1, 0));
}

/// RFC 6665 §4.1.2.4: it may come before the 2xx.
#[test]
fn a_notify_that_overtakes_the_2xx_finds_its_way() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let sent = request("SUBSCRIBE", ALICE, "watch").with("Event", "presence");
    let received = cluster.pass(&sent);
    let answer = received.respond(200).with("Expires", 600);
    let mut notifier = Dialog::of_callee(&received, &answer);
    let notified = cluster.exchange(&notify(&mut notifier, "active"), 200);
    assert_eq!(notified.to, sent.from);
    cluster.pass(&answer);
    assert_eq!(cluster.sizes(), (1, 0, 0));
}

/// RFC 3515 §2.4.4: the NOTIFYs of a transfer share the dialog of the call, their end is not its
/// end; nor does a subscription's interval bound a call.
#[test]
fn a_transfer_within_a_call_does_not_end_it() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let mut call = cluster.establish("call");
    let refer = call
        .caller
        .request("REFER")
        .with("Refer-To", "<sip:carol@example.com>");
    let received = cluster.pass(&refer);
    cluster.pass(&received.respond(202).with("Expires", 60));
    let last = notify(&mut call.callee, "terminated;reason=noresource");
    cluster.exchange(&last, 200);
    assert_eq!(cluster.ledger(ONE), (1, 0, 0.0));
    let notify = notify(&mut call.callee, "active");
    cluster.exchange(&notify, 481);
    assert_eq!(
        cluster.ledger(ONE),
        (1, 0, 0.0),
        "only the subscription is gone"
    );
    cluster.wait(s(200));
    assert_eq!(
        cluster.ledger(ONE),
        (1, 0, 0.0),
        "nobody said how long the call may be silent"
    );
    cluster.exchange(&call.caller.request("BYE"), 200);
    assert_eq!(cluster.ledger(ONE), (0, 0, 0.0));
}

/// RFC 3891, RFC 3911, RFC 4538
#[test]
fn a_request_that_names_a_dialog_goes_where_it_is() {
    for header in ["Replaces", "Join", "Target-Dialog"] {
        for workers in [1, 3] {
            let config = config(&[ONE, TWO, THREE]);
            let mut cluster = Cluster::with_workers(config, workers);
            for number in 0..20 {
                let call = cluster.establish(&format!("call{number}"));
                let name = format!("{};to-tag=a;from-tag=b", call.invite.get("Call-ID"));
                let second = request("INVITE", BOB, &format!("second{number}")).with(header, name);
                let received = cluster.pass(&second);
                assert_eq!(received.to, call.server, "{header} by {workers} workers");
                assert_eq!(cluster.pass(&second).to, call.server, "its retransmission");
                cluster.pass(&received.respond(200));
            }
            assert_eq!(cluster.total(), (40, 0, 0.0));
        }
    }
}

/// A request that named a dialog at a server of another pool was counted there at its own pool's cost, and closed at the
/// server's.
#[test]
fn a_request_that_names_a_dialog_elsewhere_costs_what_it_costs_there() {
    let mut config = config(&[ONE]);
    config.pools.push(pool("dear", &[TWO]));
    config.pools[1].costs = vec![("INVITE".to_owned(), 5.0)];
    config
        .routes
        .insert(0, route(&[], &["dear.example.com"], "dear"));
    let mut cluster = Cluster::new(config);
    let mut first = request("INVITE", ALICE, "first");
    first.start = "INVITE sip:bob@dear.example.com SIP/2.0".to_owned();
    assert_eq!(cluster.pass(&first).to, TWO.parse().unwrap());
    assert_eq!(cluster.ledger(TWO), (1, 1, 5.0));
    let name = format!("{};to-tag=a;from-tag=b", first.get("Call-ID"));
    let second = request("INVITE", BOB, "second").with("Replaces", name);
    let received = cluster.pass(&second);
    assert_eq!(received.to, TWO.parse().unwrap());
    assert_eq!(cluster.ledger(TWO), (2, 2, 10.0));
    cluster.pass(&received.respond(486));
    assert_eq!(cluster.ledger(TWO), (1, 1, 5.0));
}

#[test]
fn a_dialog_that_is_not_there_places_the_request_as_usual() {
    for workers in [1, 3] {
        let mut cluster = Cluster::with_workers(config(&[ONE, TWO]), workers);
        for number in 0..20 {
            let invite = request("INVITE", BOB, &format!("call{number}"));
            let name = format!("nowhere{number};to-tag=a;from-tag=b");
            cluster.pass(&invite.with("Replaces", name));
        }
        assert_eq!(cluster.ledger(ONE).0, 10);
        assert_eq!(cluster.ledger(TWO).0, 10);
    }
}

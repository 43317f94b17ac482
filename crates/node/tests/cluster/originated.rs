//! Calls that servers start.

use crate::{
    harness::{BOB, Cluster, EDGE, ONE, TRANSACTION_MAX, TWO, config, ms},
    message::{Dialog, Msg, request},
};

/// A request of a server to Bob's address.
pub(crate) fn outward(method: &str, server: &str) -> Msg {
    let mut message = request(method, server, "out").with("Route", format!("<sip:{EDGE};lr>"));
    message.start = format!("{method} sip:bob@{BOB} SIP/2.0");
    message
}

/// A call of ONE to Bob that is up: the server's side, Bob's side.
fn call_out(cluster: &mut Cluster) -> (Dialog, Dialog) {
    let invite = outward("INVITE", ONE);
    let received = cluster.pass(&invite);
    assert_eq!(received.to, BOB.parse().unwrap());
    let answer = received.respond(200);
    let answered = cluster.pass(&answer);
    assert_eq!(answered.to, ONE.parse().unwrap());
    let server = Dialog::of_caller(&invite, &answered);
    let ack = cluster.pass(&server.ack());
    assert_eq!(ack.to, BOB.parse().unwrap());
    (server, Dialog::of_callee(&received, &answer))
}

#[test]
fn a_call_of_a_server_is_counted_on_it() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let (mut server, _) = call_out(&mut cluster);
    assert_eq!(cluster.ledger(ONE), (1, 0, 0.0), "its work is the callee's");
    assert_eq!(cluster.ledger(TWO), (0, 0, 0.0));
    assert_eq!(cluster.member(ONE).server.placed(), 0);
    let bye = cluster.exchange(&server.request("BYE"), 200);
    assert_eq!(bye.to, BOB.parse().unwrap());
    assert_eq!(cluster.total(), (0, 0, 0.0));
}

#[test]
fn the_callee_reaches_the_server_that_called() {
    for is_known in [true, false] {
        for routes in [true, false] {
            let mut cluster = Cluster::new(config(&[ONE, TWO]));
            let (_, mut callee) = call_out(&mut cluster);
            if !routes {
                callee.routes.clear();
            }
            if !is_known {
                cluster.restart(config(&[ONE, TWO]));
            }
            if !is_known && !routes {
                assert_eq!(cluster.pass(&callee.request("BYE")).status(), 481);
                continue;
            }
            let info = cluster.pass(&callee.request("INFO"));
            assert_eq!(info.to, ONE.parse().unwrap());
            assert_eq!(cluster.ledger(ONE), (1, 1, 1.0));
            cluster.pass(&info.respond(200));
            cluster.exchange(&callee.request("BYE"), 200);
            assert_eq!(cluster.total(), (0, 0, 0.0));
        }
    }
}

#[test]
fn a_server_goes_on_after_a_restart() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let (mut server, _) = call_out(&mut cluster);
    cluster.restart(config(&[ONE, TWO]));
    let info = cluster.exchange(&server.request("INFO"), 200);
    assert_eq!(info.to, BOB.parse().unwrap());
    assert_eq!(cluster.ledger(ONE), (1, 0, 0.0));
    cluster.exchange(&server.request("BYE"), 200);
    assert_eq!(cluster.total(), (0, 0, 0.0));
}

#[test]
fn a_server_gives_its_call_up() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let invite = outward("INVITE", ONE);
    let received = cluster.pass(&invite);
    cluster.pass(&received.respond(180));
    let cancel = cluster.exchange(&invite.cancel(), 200);
    assert_eq!(
        (cancel.to, cancel.branch()),
        (received.to, received.branch())
    );
    let failure = cluster.pass(&received.respond(487));
    let ack = cluster.pass(&invite.ack_of(&failure));
    assert_eq!((ack.to, ack.branch()), (received.to, received.branch()));
    assert_eq!(cluster.total(), (0, 0, 0.0));
}

#[test]
fn a_callee_that_is_silent_is_not_the_servers_fault() {
    let mut cluster = Cluster::new(config(&[ONE]));
    cluster.pass(&outward("INVITE", ONE));
    cluster.wait(TRANSACTION_MAX + ms(20));
    assert_eq!(cluster.total(), (0, 0, 0.0));
    assert_eq!(cluster.member(ONE).server.failed(), 0);
}

#[test]
fn a_server_sends_requests_outside_dialogs() {
    for method in ["OPTIONS", "MESSAGE", "NOTIFY"] {
        let mut cluster = Cluster::new(config(&[ONE]));
        let received = cluster.exchange(&outward(method, ONE), 200);
        assert_eq!(received.to, BOB.parse().unwrap(), "{method}");
        assert_eq!(cluster.total(), (0, 0, 0.0));
        assert_eq!(cluster.sizes(), (0, 1, 0));
    }
}

/// A name that a route takes is for the pool, as every caller's.
#[test]
fn a_call_of_a_server_to_a_name_is_placed() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let invite = request("INVITE", ONE, "in");
    cluster.pass(&invite);
    assert_eq!(cluster.total(), (1, 1, 1.75));
}

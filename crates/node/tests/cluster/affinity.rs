//! Tokens: what a node knows of calls that it has never seen.

use node::{Config, stats::Event};

use crate::{
    harness::{
        ALICE, Cluster, Established, ONE, THREE, TRANSACTION_MAX, TWO, config, listener, ms, s,
    },
    message::request,
};

fn farm() -> Config {
    config(&[ONE, TWO, THREE])
}

/// Calls that are up, and a node that was started again since.
fn orphans(workers: usize) -> (Cluster, Vec<Established>) {
    let mut cluster = Cluster::with_workers(farm(), workers);
    let calls = (0..12).map(|number| cluster.establish(&format!("call{number}")));
    let calls = calls.collect();
    cluster.restart(farm());
    assert_eq!(cluster.total(), (0, 0, 0.0));
    (cluster, calls)
}

#[test]
fn every_request_finds_its_server_after_a_restart() {
    for workers in [1, 3] {
        for method in ["BYE", "INVITE", "INFO"] {
            let (mut cluster, mut calls) = orphans(workers);
            for call in &mut calls {
                let received = cluster.exchange(&call.caller.request(method), 200);
                assert_eq!(received.to, call.server, "{method}");
            }
            let calls_open = if method == "BYE" { 0 } else { 12 };
            assert_eq!(cluster.total(), (calls_open, 0, 0.0), "{method}");
            assert_eq!(cluster.event(Event::Rebuilt), 12);
        }
    }
}

#[test]
fn calls_count_again_after_a_restart() {
    let (mut cluster, mut calls) = orphans(1);
    for call in &calls {
        assert_eq!(cluster.pass(&call.caller.ack()).to, call.server);
    }
    for server in [ONE, TWO, THREE] {
        assert_eq!(cluster.ledger(server), (4, 0, 0.0));
    }
    for call in &mut calls {
        let bye = cluster.pass(&call.caller.request("BYE"));
        assert_eq!(bye.to, call.server);
        cluster.pass(&bye.respond(200));
    }
    assert_eq!(cluster.total(), (0, 0, 0.0));
    cluster.wait(TRANSACTION_MAX + ms(20));
    assert_eq!(cluster.sizes(), (0, 0, 0));
}

#[test]
fn servers_end_calls_after_a_restart() {
    let (mut cluster, mut calls) = orphans(3);
    for call in &mut calls {
        let bye = cluster.exchange(&call.callee.request("BYE"), 200);
        assert_eq!(bye.to, ALICE.parse().unwrap());
    }
    assert_eq!(cluster.total(), (0, 0, 0.0));
}

/// A client that does not get through to its proxy sends what is for that one to another.
#[test]
fn a_node_takes_what_the_route_gives_to_another_node() {
    let (mut cluster, mut calls) = orphans(1);
    let mut other = farm();
    other.listeners = vec![listener("192.0.2.11:5060")];
    cluster.restart(other);
    for call in &mut calls[..6] {
        let received = cluster.exchange(&call.caller.request("BYE"), 200);
        assert_eq!(received.to, call.server);
        assert!(received.all("Route").is_empty());
    }
    for call in &mut calls[6..] {
        let received = cluster.exchange(&call.callee.request("BYE"), 200);
        assert_eq!(received.to, ALICE.parse().unwrap());
    }
    assert_eq!(cluster.total(), (0, 0, 0.0));
}

#[test]
fn a_re_invite_is_refused_and_the_call_goes_on_after_a_restart() {
    let (mut cluster, mut calls) = orphans(1);
    let call = &mut calls[0];
    let sent = call.caller.request("INVITE");
    let received = cluster.pass(&sent);
    let failure = cluster.pass(&received.respond(488));
    let ack = cluster.pass(&sent.ack_of(&failure));
    assert_eq!((ack.to, ack.branch()), (call.server, received.branch()));
    assert_eq!(cluster.total(), (1, 0, 0.0));
}

/// A server whose memory of the call went with ours says so.
#[test]
fn a_call_that_its_server_does_not_know_is_not_counted() {
    let (mut cluster, mut calls) = orphans(1);
    cluster.exchange(&calls[0].caller.request("INFO"), 481);
    assert_eq!(cluster.total(), (0, 0, 0.0));
}

#[test]
fn a_subscription_is_no_call_after_a_restart_either() {
    let mut cluster = Cluster::new(farm());
    let sent = request("SUBSCRIBE", ALICE, "watch");
    let received = cluster.pass(&sent);
    let answered = cluster.pass(&received.respond(200).with("Expires", 600));
    let mut subscriber = crate::message::Dialog::of_caller(&sent, &answered);
    cluster.restart(farm());
    let refresh = cluster.pass(&subscriber.request("SUBSCRIBE"));
    cluster.pass(&refresh.respond(200).with("Expires", 600));
    assert_eq!(refresh.to, received.to);
    assert_eq!(cluster.total(), (0, 0, 0.0));
    assert_eq!(cluster.sizes(), (1, 0, 0));
    cluster.wait(s(600) + TRANSACTION_MAX + ms(20));
    assert_eq!(cluster.sizes(), (0, 1, 0));
}

#[test]
fn a_node_with_another_secret_knows_no_call() {
    let (mut cluster, mut calls) = orphans(1);
    let mut other = farm();
    other.secret = b"a secret that is not the one of the others"
        .to_vec()
        .into();
    cluster.restart(other);
    let bye = calls[0].caller.request("BYE");
    let refused = cluster.pass(&bye);
    assert_eq!((refused.to, refused.status()), (bye.from, 481));
    assert_eq!(cluster.event(Event::ForgedToken), 1);
    assert!(cluster.send(&calls[1].caller.ack()).is_empty());
    assert_eq!(cluster.total(), (0, 0, 0.0));
}

/// A token is of one call and one caller; nobody can take it elsewhere.
#[test]
fn a_token_of_another_call_is_ignored() {
    let (mut cluster, mut calls) = orphans(1);
    let [one, other, ..] = &mut calls[..] else {
        unreachable!("there are twelve")
    };
    let bye = other
        .caller
        .request("BYE")
        .set("Route", &one.caller.routes[0]);
    assert_eq!(cluster.pass(&bye).status(), 481);
    let bye = other
        .caller
        .request("BYE")
        .set("From", "<sip:mallory@example.com>;tag=m");
    assert_eq!(cluster.pass(&bye).status(), 481);
    assert_eq!(cluster.event(Event::ForgedToken), 2);
}

/// While the call is known the session says where it is.
#[test]
fn a_forged_token_does_not_divert_a_known_call() {
    let mut cluster = Cluster::new(farm());
    let one = cluster.establish("one");
    let mut other = cluster.establish("other");
    let bye = other
        .caller
        .request("BYE")
        .set("Route", &one.caller.routes[0]);
    assert_eq!(cluster.exchange(&bye, 200).to, other.server);
    assert_eq!(cluster.event(Event::ForgedToken), 1);
    assert_eq!(cluster.total(), (1, 0, 0.0));
}

/// The server left the configuration while its calls were up elsewhere.
#[test]
fn a_token_names_a_server_that_is_not_configured() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let mut call = cluster.establish("call");
    cluster.restart(config(&[TWO]));
    let bye = cluster.exchange(&call.caller.request("BYE"), 200);
    assert_eq!(bye.to, call.server);
    assert_eq!(cluster.total(), (0, 0, 0.0));
}

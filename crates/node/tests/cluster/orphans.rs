//! INVITEs that were not answered when the node died. Their CANCELs were refused, so that phones rang on,
//! and the ACKs of their failures were dropped, so that servers sent these again for 64*T1.

use balance::Policy;
use node::{
    Config,
    stats::{Dropped, Event},
};

use crate::{
    harness::{
        ALICE, BOB, Cluster, ONE, Sent, THREE, TRANSACTION_MAX, TWO, config, ms, pool, s, stateful,
    },
    message::{Dialog, Msg, request},
    originated::outward,
};

fn farm() -> Config {
    config(&[ONE, TWO, THREE])
}

/// An INVITE that rings, and its node started again since.
fn ringing(config: &Config, workers: usize) -> (Cluster, Msg, Sent) {
    let mut cluster = Cluster::with_workers(config.clone(), workers);
    let invite = request("INVITE", ALICE, "call");
    let received = cluster.pass(&invite);
    cluster.pass(&received.respond(180));
    cluster.restart(config.clone());
    (cluster, invite, received)
}

fn is_forgotten(cluster: &mut Cluster) {
    assert_eq!(cluster.total(), (0, 0, 0.0));
    cluster.wait(TRANSACTION_MAX + ms(20));
    assert_eq!(cluster.sizes(), (0, 0, 0));
}

/// RFC 3261 §16.10
#[test]
fn a_cancel_finds_the_server_that_has_its_invite() {
    for (policy, workers) in [(Policy::Cjsq, 1), (Policy::Cjsq, 3), (Policy::Hash, 1)] {
        let mut farm = farm();
        farm.pools[0].policy = policy;
        let (mut cluster, invite, received) = ringing(&farm, workers);
        let mut copies = cluster.send(&invite.cancel());
        let mut servers: Vec<_> = copies.iter().map(|copy| copy.to.to_string()).collect();
        servers.sort();
        assert_eq!(servers, [ONE, TWO, THREE]);
        assert!(copies.iter().all(|copy| copy.branch() == received.branch()));
        let known = copies.iter().position(|copy| copy.to == received.to);
        let cancel = copies.swap_remove(known.unwrap());
        for copy in &copies {
            assert!(cluster.send(&copy.respond(481)).is_empty());
        }
        assert_eq!(cluster.dropped(Dropped::OfACopy), 2);
        assert_eq!(cluster.event(Event::OrphanedCancel), 1);
        let answer = cluster.pass(&cancel.respond(200));
        assert_eq!((answer.to, answer.status()), (invite.from, 200));
        let failure = cluster.pass(&received.respond(487));
        assert_eq!((failure.to, failure.status()), (invite.from, 487));
        let ack = cluster.pass(&invite.ack_of(&failure));
        assert_eq!((ack.to, ack.branch()), (received.to, received.branch()));
        assert_eq!(cluster.pass(&received.respond(487)).to, invite.from);
        is_forgotten(&mut cluster);
    }
}

#[test]
fn a_failure_is_acknowledged_at_its_server() {
    for workers in [1, 3] {
        let (mut cluster, invite, received) = ringing(&farm(), workers);
        let failure = cluster.pass(&received.respond(486));
        let ack = cluster.pass(&invite.ack_of(&failure));
        assert_eq!((ack.to, ack.branch()), (received.to, received.branch()));
        let again = cluster.pass(&invite);
        assert_eq!(
            (again.to, again.branch()),
            (received.to, received.branch()),
            "a late retransmission is no new call"
        );
        is_forgotten(&mut cluster);
    }
}

/// The answer passed, and then the INVITE that the caller had sent once more. It was placed as a new call;
/// the server, which had its ACK, was silent to it, and after the answer timeout another server got it.
#[test]
fn an_answered_invite_is_no_new_call() {
    for workers in [1, 3] {
        for is_acknowledged in [false, true] {
            let (mut cluster, invite, received) = ringing(&farm(), workers);
            let answer = cluster.pass(&received.respond(200));
            assert_eq!((answer.to, answer.status()), (invite.from, 200));
            let mut caller = Dialog::of_caller(&invite, &answer);
            if is_acknowledged {
                cluster.restart(farm());
                assert_eq!(cluster.pass(&caller.ack()).to, received.to);
            }
            let again = cluster.pass(&invite);
            assert_eq!((again.to, again.branch()), (received.to, received.branch()));
            assert_eq!(cluster.total(), (1, 0, 0.0));
            assert_eq!(cluster.event(Event::Rebuilt), 1);
            assert_eq!(cluster.pass(&caller.ack()).to, received.to);
            assert!(cluster.wait(s(10)).is_empty());
            let bye = cluster.exchange(&caller.request("BYE"), 200);
            assert_eq!(bye.to, received.to);
            is_forgotten(&mut cluster);
        }
    }
}

/// A call that a server began counts on that one when its callee answers.
#[test]
fn a_servers_invite_is_answered() {
    let mut cluster = Cluster::new(farm());
    let invite = outward("INVITE", ONE);
    let received = cluster.pass(&invite);
    cluster.restart(farm());
    let answer = cluster.pass(&received.respond(200));
    assert_eq!(cluster.ledger(ONE), (1, 0, 0.0));
    let mut caller = Dialog::of_caller(&invite, &answer);
    assert_eq!(cluster.pass(&caller.ack()).to, received.to);
    let bye = cluster.exchange(&caller.request("BYE"), 200);
    assert_eq!(bye.to, received.to);
    is_forgotten(&mut cluster);
}

/// A server that writes no Record-Route back has answered all the same.
#[test]
fn an_answer_without_a_token_passes() {
    let (mut cluster, invite, received) = ringing(&farm(), 1);
    let answer = received.respond(200).without("Record-Route");
    assert_eq!(cluster.pass(&answer).to, invite.from);
    is_forgotten(&mut cluster);
}

/// A server that asks for credentials gets them, and the call counts.
#[test]
fn a_challenged_call_goes_on() {
    let (mut cluster, invite, received) = ringing(&farm(), 1);
    let challenge = cluster.pass(&received.respond(407));
    cluster.pass(&invite.ack_of(&challenge));
    let again = cluster.pass(&invite.again(2, "again"));
    assert_eq!(again.to, received.to);
    assert_eq!(cluster.total(), (1, 1, 1.75));
    let answered = cluster.pass(&again.respond(486));
    assert_eq!(answered.status(), 486);
    is_forgotten(&mut cluster);
}

#[test]
fn a_single_servers_481_goes_back() {
    let (mut cluster, invite, _) = ringing(&config(&[ONE]), 1);
    let cancel = cluster.exchange(&invite.cancel(), 481);
    assert_eq!(cancel.to, ONE.parse().unwrap());
    is_forgotten(&mut cluster);
}

#[test]
fn servers_that_are_down_get_no_copy() {
    let (mut cluster, invite, _) = ringing(&config(&[ONE, TWO]), 1);
    cluster.take_down(ONE);
    let cancel = cluster.exchange(&invite.cancel(), 481);
    assert_eq!(cancel.to, TWO.parse().unwrap());
}

/// An unknown CANCEL on a stateful route got a 481 while the callee rang: its edge had been restarted.
/// RFC 3261 §16.10
#[test]
fn a_cancel_on_a_stateful_route_finds_its_server() {
    let farm = stateful(&[ONE, TWO, THREE]);
    let (mut cluster, invite, received) = ringing(&farm, 1);
    let mut copies = cluster.send(&invite.cancel());
    assert_eq!(copies.len(), 3);
    assert!(copies.iter().all(|copy| copy.branch() == received.branch()));
    let known = copies.iter().position(|copy| copy.to == received.to);
    let cancel = copies.swap_remove(known.unwrap());
    for copy in &copies {
        assert!(cluster.send(&copy.respond(481)).is_empty());
    }
    assert_eq!(cluster.dropped(Dropped::OfACopy), 2);
    let answer = cluster.pass(&cancel.respond(200));
    assert_eq!((answer.to, answer.status()), (invite.from, 200));
    let failure = received.respond(487);
    assert!(cluster.send(&failure).is_empty(), "RFC 6026 §7.3");
    assert_eq!(cluster.dropped(Dropped::Unmatched), 1);
    is_forgotten(&mut cluster);
}

/// Copies are bounded.
#[test]
fn some_cancels_are_refused() {
    let addresses: Vec<String> = (1..=33).map(|host| format!("10.1.0.{host}:5060")).collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    let mut many = farm();
    many.pools[0] = pool("app", &addresses);
    let mut fewer = farm();
    fewer.pools[0] = pool("app", &addresses[..32]);
    for (config, copies) in [(many, None), (fewer, Some(32))] {
        let mut cluster = Cluster::new(config);
        let sent = cluster.send(&request("INVITE", ALICE, "call").cancel());
        match copies {
            Some(copies) => assert_eq!(sent.len(), copies),
            None => assert_eq!((sent.len(), sent[0].status()), (1, 481)),
        }
    }
}

#[test]
fn a_servers_cancel_goes_where_its_invite_went() {
    let mut cluster = Cluster::new(farm());
    let invite = outward("INVITE", ONE);
    let received = cluster.pass(&invite);
    cluster.restart(farm());
    let cancel = cluster.exchange(&invite.cancel(), 200);
    assert_eq!(cancel.to, BOB.parse().unwrap());
    assert_eq!(cancel.branch(), received.branch());
    let failure = cluster.pass(&received.respond(487));
    let ack = cluster.pass(&invite.ack_of(&failure));
    assert_eq!((ack.to, ack.branch()), (received.to, received.branch()));
    is_forgotten(&mut cluster);
}

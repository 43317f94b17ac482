//! Servers that are silent, busy or gone while a call is being placed.

use std::net::SocketAddr;

use node::{
    Config,
    stats::{Dropped, Event},
};

use crate::{
    harness::{
        ALICE, Cluster, EDGE, ONE, Sent, THREE, TRANSACTION_MAX, TWO, config, listener, ms, s,
    },
    message::{Dialog, Msg, request},
};

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// An INVITE whose first server says nothing: at the first, then at the second.
fn moved(cluster: &mut Cluster, invite: &Msg) -> (Sent, Sent) {
    let first = cluster.pass(invite);
    let mut sent = cluster.wait(s(1) + ms(20));
    assert_eq!(sent.len(), 1, "{sent:#?}");
    (first, sent.remove(0))
}

#[test]
fn an_invite_leaves_a_silent_server() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let invite = request("INVITE", ALICE, "call");
    let (first, second) = moved(&mut cluster, &invite);
    assert_ne!(first.to, second.to);
    assert_ne!(
        first.branch(),
        second.branch(),
        "RFC 3261 §16.7: a new client transaction"
    );
    assert_eq!(second.all("Max-Forwards"), ["69"]);
    assert_eq!(cluster.ledger(&first.to.to_string()), (0, 0, 0.0));
    assert_eq!(cluster.ledger(&second.to.to_string()), (1, 1, 1.75));
    let failed = |sent: &Sent| cluster.member(&sent.to.to_string()).server.failed();
    assert_eq!((failed(&first), failed(&second)), (1, 0));
    let again = cluster.pass(&invite);
    assert_eq!((again.to, again.branch()), (second.to, second.branch()));
}

/// A call through an edge and a node of the same cluster behind it: the caller, and that node's address.
fn through_two_nodes(edge: &mut Cluster) -> (Dialog, String) {
    let invite = request("INVITE", ALICE, "call");
    let received = edge.pass(&invite);
    let first = received.to.to_string();
    let mut node = node_at(&first);
    let at_server = node.pass(&on_the_wire(&received, EDGE));
    assert_eq!(at_server.to, address(THREE));
    let answer = node.pass(&at_server.respond(200));
    let answered = edge.pass(&on_the_wire(&answer, &first));
    let caller = Dialog::of_caller(&invite, &answered);
    assert_eq!(edge.pass(&caller.ack()).to, received.to);
    (caller, first)
}

/// What one node has sent, as it comes to the next.
fn on_the_wire(sent: &Sent, from: &str) -> Msg {
    // It is written anew.
    sent.message.clone().without("Content-Length").from(from)
}

fn node_at(address: &str) -> Cluster {
    let mut config = config(&[THREE]);
    config.listeners = vec![listener(address)];
    Cluster::new(config)
}

/// Lets the node that a BYE went to pass it on, and answer it.
fn end_by_the_other_node(edge: &mut Cluster, bye: &Sent, first: &str) {
    assert_ne!(bye.to, address(first));
    let other = bye.to.to_string();
    let mut node = node_at(&other);
    let at_server = node.pass(&on_the_wire(bye, EDGE));
    assert_eq!(at_server.to, address(THREE));
    let answer = node.pass(&at_server.respond(200));
    let answered = edge.pass(&on_the_wire(&answer, &other));
    assert_eq!(answered.to, address(ALICE));
    assert_eq!(edge.total(), (0, 0, 0.0));
}

/// Where the servers are nodes of the cluster, any of them knows where a dialog leads.
#[test]
fn a_dialog_leaves_a_dead_node_of_the_cluster() {
    let mut edge = Cluster::new(config(&[ONE, TWO]));
    let (mut caller, first) = through_two_nodes(&mut edge);
    edge.take_down(&first);
    let bye = edge.pass(&caller.request("BYE"));
    end_by_the_other_node(&mut edge, &bye, &first);
}

#[test]
fn what_a_dead_node_of_the_cluster_got_last_goes_to_another() {
    let mut edge = Cluster::new(config(&[ONE, TWO]));
    let (mut caller, first) = through_two_nodes(&mut edge);
    let bye = caller.request("BYE");
    assert_eq!(edge.pass(&bye).to, address(&first));
    edge.unreachable(&first);
    let again = edge.pass(&bye);
    end_by_the_other_node(&mut edge, &again, &first);
}

/// Other servers know their own dialogs alone.
#[test]
fn a_dialog_stays_with_a_dead_server_of_its_own() {
    let mut edge = Cluster::new(config(&[ONE, TWO]));
    let mut call = edge.establish("call");
    edge.take_down(&call.server.to_string());
    let bye = call.caller.request("BYE");
    assert_eq!(edge.pass(&bye).to, call.server);
    assert_eq!(edge.pass(&bye).to, call.server);
}

#[test]
fn a_call_that_moved_is_carried_by_its_new_server() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let invite = request("INVITE", ALICE, "call");
    let (_, second) = moved(&mut cluster, &invite);
    let answered = cluster.pass(&second.respond(200));
    let mut caller = Dialog::of_caller(&invite, &answered);
    assert_eq!(cluster.pass(&caller.ack()).to, second.to);
    let bye = cluster.exchange(&caller.request("BYE"), 200);
    assert_eq!(bye.to, second.to);
    assert_eq!(cluster.total(), (0, 0, 0.0));
}

#[test]
fn cancel_and_ack_follow_an_invite_that_moved() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let invite = request("INVITE", ALICE, "call");
    let (_, second) = moved(&mut cluster, &invite);
    cluster.pass(&second.respond(180));
    let cancel = cluster.exchange(&invite.cancel(), 200);
    assert_eq!((cancel.to, cancel.branch()), (second.to, second.branch()));
    let failure = cluster.pass(&second.respond(487));
    let ack = cluster.pass(&invite.ack_of(&failure));
    assert_eq!((ack.to, ack.branch()), (second.to, second.branch()));
    assert_eq!(cluster.total(), (0, 0, 0.0));
}

#[test]
fn a_cancelled_invite_stays_where_it_is() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let invite = request("INVITE", ALICE, "call");
    let received = cluster.pass(&invite);
    cluster.pass(&invite.cancel());
    assert!(cluster.wait(s(20)).is_empty());
    assert_eq!(cluster.pass(&invite).to, received.to);
    assert!(cluster.wait(s(20)).is_empty());
    assert_eq!(cluster.total(), (0, 0, 0.0));
}

#[test]
fn a_ringing_server_is_not_left() {
    for status in [100, 180, 183] {
        let mut cluster = Cluster::new(config(&[ONE, TWO]));
        let received = cluster.pass(&request("INVITE", ALICE, "call"));
        cluster.pass(&received.respond(status));
        assert!(cluster.wait(s(60)).is_empty(), "{status}");
    }
}

/// A call that rang on a server that died: its caller heard it ring for minutes, and it was counted
/// as long.
#[test]
fn a_call_that_rings_on_a_server_that_dies_is_answered() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let invite = request("INVITE", ALICE, "call");
    let first = cluster.pass(&invite);
    cluster.pass(&first.respond(180));
    cluster.unreachable(&first.to.to_string());
    assert_eq!(cluster.total(), (1, 0, 0.0));
    assert!(cluster.wait(s(7)).is_empty());
    let sent = cluster.wait(s(1) + ms(20));
    let [cancel, answer] = &sent[..] else {
        panic!("{sent:#?}")
    };
    check_cancel(cancel, &first);
    assert_eq!((answer.to, answer.status()), (invite.from, 408));
    assert_eq!(cluster.total(), (0, 0, 0.0));
    assert_eq!(cluster.event(Event::RangOnFallen), 1);
    let late = cluster.pass(&first.respond(487));
    let ack = cluster.pass(&invite.ack_of(&late));
    assert_eq!((ack.to, ack.branch()), (first.to, first.branch()));
}

/// A server that stops for some seconds, to collect garbage say, has lost no call.
#[test]
fn a_call_goes_on_that_rings_on_a_server_that_comes_back() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let invite = request("INVITE", ALICE, "call");
    let first = cluster.pass(&invite);
    cluster.pass(&first.respond(180));
    cluster.unreachable(&first.to.to_string());
    cluster.wait(s(7));
    assert_eq!(cluster.pass(&first.respond(200)).status(), 200);
    assert!(cluster.wait(s(20)).is_empty());
    assert_eq!(cluster.total(), (1, 0, 0.0));
}

/// Timer C only closed the count: the server rang on, and the caller heard nothing of it.
/// RFC 3261 §16.8
#[test]
fn an_invite_that_rings_until_timer_c_is_cancelled() {
    for is_answered in [true, false] {
        let mut cluster = Cluster::new(config(&[ONE, TWO]));
        let invite = request("INVITE", ALICE, "call");
        let received = cluster.pass(&invite);
        cluster.pass(&received.respond(180));
        assert!(cluster.wait(s(180)).is_empty());
        let cancel = cluster.wait(s(1) + ms(20)).remove(0);
        check_cancel(&cancel, &received);
        assert_eq!(cancel.uri(), received.uri());
        assert_eq!(cluster.event(Event::RangTooLong), 1);
        assert_eq!(cluster.total(), (1, 1, 1.75));
        let status = if is_answered {
            assert!(cluster.send(&cancel.respond(200)).is_empty());
            cluster.pass(&received.respond(487)).status()
        } else {
            let sent = cluster.wait(TRANSACTION_MAX + ms(20));
            assert_eq!((sent.len(), sent[0].to), (1, invite.from));
            sent[0].status()
        };
        assert_eq!(status, if is_answered { 487 } else { 408 });
        assert_eq!(cluster.total(), (0, 0, 0.0));
    }
}

/// The server that was left picks up after all: the call is there, and the other server is told
/// to stop. RFC 3261 §16.7 step 10
#[test]
fn a_late_2xx_moves_the_call_back() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let invite = request("INVITE", ALICE, "call");
    let (first, second) = moved(&mut cluster, &invite);
    let answered = cluster.pass(&first.respond(200));
    assert_eq!(answered.status(), 200);
    assert_eq!(cluster.ledger(&first.to.to_string()), (1, 0, 0.0));
    assert_eq!(cluster.ledger(&second.to.to_string()), (0, 0, 0.0));
    let mut caller = Dialog::of_caller(&invite, &answered);
    let bye = cluster.exchange(&caller.request("BYE"), 200);
    assert_eq!(bye.to, first.to);
    assert_eq!(cluster.total(), (0, 0, 0.0));
}

/// The node asked one server about the dialog of the other, and took the call for over: found by
/// random exploration. A call is where its caller acknowledged it.
#[test]
fn of_two_answers_the_acknowledged_one_makes_the_call() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let invite = request("INVITE", ALICE, "call");
    let (first, second) = moved(&mut cluster, &invite);
    cluster.pass(&first.respond(200));
    let answered = cluster.pass(&second.respond_as(200, "second"));
    let caller = Dialog::of_caller(&invite, &answered);
    assert_eq!(cluster.pass(&caller.ack()).to, second.to);
    cluster.wait(TRANSACTION_MAX + ms(100));
    assert_eq!(cluster.ledger(&first.to.to_string()), (0, 0, 0.0));
    assert_eq!(cluster.ledger(&second.to.to_string()), (1, 0, 0.0));
    let questions = cluster.wait(s(31 * 60));
    assert_eq!(questions[0].to, second.to, "{questions:#?}");
}

/// The ACK of a failure went to another server than the failure came from: found by random
/// exploration. A late 2xx had moved the call between the two.
#[test]
fn a_failure_of_a_server_that_the_call_left_is_acknowledged_there() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let invite = request("INVITE", ALICE, "call");
    let (first, second) = moved(&mut cluster, &invite);
    cluster.pass(&second.respond(180));
    let cancel = cluster.pass(&invite.cancel());
    let failure = cluster.pass(&second.respond(487));
    cluster.pass(&first.respond_as(200, "first"));
    cluster.pass(&cancel.respond(200));
    assert_eq!(cluster.ledger(&first.to.to_string()), (1, 0, 0.0));
    let ack = cluster.pass(&second.respond(487));
    assert_eq!((ack.to, ack.method()), (second.to, "ACK"));
    assert!(cluster.send(&invite.ack_of(&failure)).is_empty());
}

/// A call stayed counted at a server that had died ringing: found by random exploration. The node
/// was started again in between, and its INVITE had the same branch at both servers.
#[test]
fn an_answer_from_before_a_restart_takes_the_call_along() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let invite = request("INVITE", ALICE, "call");
    let first = cluster.pass(&invite);
    let left: Vec<_> = [ONE, TWO]
        .into_iter()
        .filter(|&server| server != first.to.to_string())
        .collect();
    cluster.restart(config(&left));
    let second = cluster.pass(&invite);
    assert_ne!(second.to, first.to);
    cluster
        .shared
        .reload(config(&[ONE, TWO]), cluster.now)
        .unwrap();
    cluster.pass(&second.respond(180));
    cluster.pass(&first.respond_as(200, "first"));
    assert_eq!(cluster.ledger(&first.to.to_string()), (1, 0, 0.0));
    assert_eq!(cluster.ledger(&second.to.to_string()), (0, 0, 0.0));
}

/// RFC 3261 §9.1: a CANCEL waits for the first answer.
#[test]
fn a_late_2xx_ends_the_ringing_elsewhere() {
    for is_ringing in [true, false] {
        let mut cluster = Cluster::new(config(&[ONE, TWO]));
        let (first, second) = moved(&mut cluster, &request("INVITE", ALICE, "call"));
        let cancel = if is_ringing {
            cluster.pass(&second.respond(180));
            let mut sent = cluster.send(&first.respond(200));
            assert_eq!(sent.len(), 2, "{sent:#?}");
            sent.remove(0)
        } else {
            cluster.pass(&first.respond(200));
            cluster.pass(&second.respond(180))
        };
        check_cancel(&cancel, &second);
        assert!(cluster.send(&cancel.respond(200)).is_empty());
        let ack = cluster.pass(&second.respond(487));
        assert_eq!((ack.to, ack.method()), (second.to, "ACK"));
        assert_eq!(cluster.total(), (1, 0, 0.0));
    }
}

/// RFC 3261 §17.1.1.3: nobody but the node can acknowledge it.
#[test]
fn a_late_failure_is_acknowledged_and_kept_back() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let invite = request("INVITE", ALICE, "call");
    let (first, second) = moved(&mut cluster, &invite);
    let check = |cluster: &mut Cluster| {
        let ack = cluster.pass(&first.respond(500));
        assert_eq!(
            (ack.to, ack.method(), ack.is_request()),
            (first.to, "ACK", true)
        );
        assert_eq!(ack.branch(), first.branch());
        assert_eq!(ack.get("To"), first.respond(500).get("To"));
        assert_eq!(ack.get("CSeq"), "1 ACK");
    };
    check(&mut cluster);
    assert_eq!(cluster.total(), (1, 1, 1.75));
    let answered = cluster.pass(&second.respond(486));
    assert_eq!(answered.status(), 486);
    check(&mut cluster);
    assert_eq!(cluster.dropped(Dropped::Superseded), 2);
    assert_eq!(cluster.total(), (0, 0, 0.0));
}

/// The CANCEL that `invited`'s server gets for the INVITE it was sent. RFC 3261 §9.1
fn check_cancel(cancel: &Sent, invited: &Sent) {
    assert!(cancel.is_request());
    assert_eq!((cancel.to, cancel.method()), (invited.to, "CANCEL"));
    assert_eq!(cancel.branch(), invited.branch());
    assert_eq!(cancel.get("To"), invited.get("To"));
    assert_eq!(cancel.get("CSeq"), "1 CANCEL");
}

/// What rings at a server that was left must not ring twice.
#[test]
fn a_late_provisional_is_kept_back_and_cancelled() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let (first, second) = moved(&mut cluster, &request("INVITE", ALICE, "call"));
    check_cancel(&cluster.pass(&first.respond(180)), &first);
    assert_eq!(cluster.pass(&second.respond(180)).status(), 180);
}

#[test]
fn an_invite_that_nobody_answers_ends_in_408() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let invite = request("INVITE", ALICE, "call");
    cluster.pass(&invite);
    let sent = cluster.wait(TRANSACTION_MAX + ms(20));
    assert_eq!(sent.len(), 2, "{sent:#?}");
    assert_eq!((sent[1].to, sent[1].status()), (invite.from, 408));
    assert_eq!(cluster.replies(408), 1);
    assert_eq!(cluster.total(), (0, 0, 0.0));
    for server in [ONE, TWO] {
        assert_eq!(cluster.member(server).server.failed(), 1, "{server}");
    }
}

fn retaining(servers: &[&str], retained_requests: usize) -> Config {
    let mut config = config(servers);
    config.limits.retained_requests = retained_requests;
    config
}

#[test]
fn the_callers_retransmission_moves_an_invite_that_was_not_kept() {
    let mut cluster = Cluster::new(retaining(&[ONE, TWO], 0));
    let invite = request("INVITE", ALICE, "call");
    let first = cluster.pass(&invite);
    assert_eq!(cluster.event(Event::RetainedFull), 1);
    cluster.wait(ms(500));
    assert_eq!(cluster.pass(&invite).to, first.to, "it is not overdue yet");
    assert!(cluster.wait(ms(700)).is_empty());
    let second = cluster.pass(&invite);
    assert_ne!(second.to, first.to);
    assert_ne!(second.branch(), first.branch());
    assert_eq!(cluster.ledger(&first.to.to_string()), (0, 0, 0.0));
    assert_eq!(cluster.ledger(&second.to.to_string()), (1, 1, 1.75));
    assert_eq!(cluster.member(&first.to.to_string()).server.failed(), 1);
}

#[test]
fn a_place_among_the_retained_is_given_back() {
    let mut cluster = Cluster::new(retaining(&[ONE], 1));
    for number in 0..4 {
        let invite = request("INVITE", ALICE, &format!("call{number}"));
        let received = cluster.pass(&invite);
        match number {
            0 => {
                cluster.pass(&received.respond(180));
                cluster.pass(&received.respond(200));
            }
            1 => drop(cluster.pass(&received.respond(486))),
            2 => drop(cluster.pass(&invite.cancel())),
            _ => drop(cluster.wait(TRANSACTION_MAX + ms(20))),
        }
    }
    cluster.pass(&request("INVITE", ALICE, "last"));
    assert_eq!(cluster.event(Event::RetainedFull), 0);
}

/// The copy for which there was no place took its part of the memory for good: after an overload no INVITE was kept
/// until the next start.
#[test]
fn a_copy_without_a_place_gives_its_memory_back() {
    let mut cluster = Cluster::new(retaining(&[ONE], 1));
    let calls = ["one", "two", "three"].map(|call| cluster.pass(&request("INVITE", ALICE, call)));
    assert_eq!(cluster.event(Event::RetainedFull), 2);
    for received in calls {
        cluster.pass(&received.respond(486));
    }
    cluster.sizes();
    assert_eq!(cluster.shared.workers()[0].retained_bytes(), 0);
}

/// RFC 3261 §21.5.4
#[test]
fn a_503_is_tried_elsewhere() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let invite = request("INVITE", ALICE, "call");
    let first = cluster.pass(&invite);
    let sent = cluster.send(&first.respond(503).with("Retry-After", 30));
    let [second, ack] = &sent[..] else {
        panic!("{sent:#?}")
    };
    assert_eq!(
        (ack.to, ack.method(), ack.branch()),
        (first.to, "ACK", first.branch())
    );
    assert_eq!(second.method(), "INVITE");
    assert_ne!(second.to, first.to);
    assert_ne!(second.branch(), first.branch());
    let (old, new) = (first.to.to_string(), second.to.to_string());
    assert_eq!(cluster.ledger(&old), (0, 0, 0.0));
    assert_eq!(cluster.ledger(&new), (1, 1, 1.75));
    assert_eq!(cluster.member(&old).server.failed(), 1);
}

#[test]
fn the_last_503_is_passed_on() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let invite = request("INVITE", ALICE, "call");
    let first = cluster.pass(&invite);
    let sent = cluster.send(&first.respond(503));
    let back = cluster.pass(&sent[0].respond(503));
    assert_eq!((back.to, back.status()), (invite.from, 503));
    assert_eq!(cluster.total(), (0, 0, 0.0));
    for server in [ONE, TWO] {
        assert_eq!(cluster.member(server).server.failed(), 1, "{server}");
    }
    let ack = cluster.pass(&invite.ack_of(&back));
    assert_eq!((ack.to, ack.branch()), (sent[0].to, sent[0].branch()));
}

#[test]
fn an_unreachable_server_is_left_at_once() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let first = cluster.pass(&request("INVITE", ALICE, "call"));
    let sent = cluster.unreachable(&first.to.to_string());
    assert_eq!(sent.len(), 1, "{sent:#?}");
    assert_ne!(sent[0].to, first.to);
    assert_eq!(cluster.ledger(&first.to.to_string()), (0, 0, 0.0));
    for number in 0..5 {
        let invite = request("INVITE", ALICE, &format!("next{number}"));
        assert_eq!(cluster.pass(&invite).to, sent[0].to);
    }
}

#[test]
fn other_requests_leave_with_their_retransmission() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let register = request("REGISTER", ALICE, "alone");
    let first = cluster.pass(&register);
    assert!(cluster.unreachable(&first.to.to_string()).is_empty());
    assert_eq!(cluster.total(), (0, 0, 0.0));
    let second = cluster.pass(&register);
    assert_ne!(second.to, first.to);
    assert_eq!(cluster.ledger(&second.to.to_string()), (0, 1, 1.0));
    cluster.pass(&second.respond(200));
    assert_eq!(cluster.total(), (0, 0, 0.0));
}

#[test]
fn a_server_that_is_gone_has_nothing_open() {
    let mut cluster = Cluster::with_workers(config(&[ONE]), 3);
    let mut calls: Vec<_> = (0..10)
        .map(|number| cluster.establish(&format!("call{number}")))
        .collect();
    let byes: Vec<_> = calls
        .iter_mut()
        .map(|call| cluster.pass(&call.caller.request("BYE")))
        .collect();
    assert_eq!(cluster.ledger(ONE), (10, 10, 10.0));
    cluster.unreachable(ONE);
    cluster.wait(ms(100));
    assert_eq!(cluster.ledger(ONE), (10, 0, 0.0));
    for bye in byes {
        cluster.pass(&bye.respond(200));
    }
    assert_eq!(
        cluster.ledger(ONE),
        (0, 0, 0.0),
        "late answers close nothing twice"
    );
}

#[test]
fn at_most_four_servers_are_tried() {
    let four = "10.0.0.4:5060";
    let five = "10.0.0.5:5060";
    let mut cluster = Cluster::new(config(&[ONE, TWO, THREE, four, five]));
    let mut tried = vec![cluster.pass(&request("INVITE", ALICE, "call"))];
    tried.extend(cluster.wait(TRANSACTION_MAX + ms(20)));
    let last = tried.pop().unwrap();
    assert_eq!(last.status(), 408);
    let mut servers: Vec<_> = tried.iter().map(|sent| sent.to).collect();
    servers.sort_unstable();
    servers.dedup();
    assert_eq!((tried.len(), servers.len()), (4, 4));
    assert!(!servers.contains(&address(ALICE)));
}

#[test]
fn a_challenged_call_does_not_go_back_to_a_server_that_is_gone() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let invite = request("INVITE", ALICE, "call");
    let first = cluster.pass(&invite);
    let challenge = cluster.pass(&first.respond(401));
    cluster.pass(&invite.ack_of(&challenge));
    cluster.take_down(&first.to.to_string());
    let second = cluster.pass(&invite.again(2, "again"));
    assert_ne!(second.to, first.to);
    assert_eq!(cluster.ledger(&second.to.to_string()), (1, 1, 1.75));
    cluster.pass(&second.respond(486));
    assert_eq!(cluster.total(), (0, 0, 0.0));
}

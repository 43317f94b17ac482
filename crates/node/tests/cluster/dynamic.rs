//! Dynamic state: an edge before a core before a server, and who of them holds a transaction.

use std::net::SocketAddr;

use node::{
    Config,
    config::{IpNet, Mode},
    stats::{Dropped, Event},
};

use crate::{
    harness::{
        ALICE, BOB, Cluster, EDGE, ONE, Sent, TRANSACTION_MAX, config, listener, ms, s, worked,
    },
    message::{Msg, param, request},
};

const CORE: &str = "192.0.2.20:5060";

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn dynamic(servers: &[&str]) -> Config {
    let mut config = config(servers);
    config.routes[0].state = Mode::Dynamic;
    config
}

fn core_config() -> Config {
    let mut config = dynamic(&[ONE]);
    config.name = "core".to_owned();
    config.listeners = vec![listener(CORE)];
    config.trust.peers = vec![IpNet::from(address(EDGE).ip())];
    config
}

struct Pair {
    edge: Cluster,
    core: Cluster,
}

impl Pair {
    fn new() -> Self {
        Self {
            edge: Cluster::new(dynamic(&[CORE])),
            core: Cluster::new(core_config()),
        }
    }

    /// A core that has told of its room, and an edge that leaves this share open.
    fn leaving(share: f64) -> Self {
        let mut pair = Self::new();
        for round in 0..4 {
            for number in 0..80 {
                let options = request("OPTIONS", ALICE, &format!("warm{round}-{number}"));
                let arrived = pair.pass(&options);
                pair.answer(&arrived[0].respond(200));
            }
            pair.core.nodes[0].handle_work(pair.core.now, worked(20));
            pair.wait(100);
        }
        pair.edge.nodes[0].fix_share_left_open(Some(share));
        pair
    }

    fn wait(&mut self, time_ms: u64) {
        self.edge.wait(ms(time_ms));
        self.core.wait(ms(time_ms));
    }

    /// What the core sends when a request has come over the edge.
    fn pass(&mut self, request: &Msg) -> Vec<Sent> {
        let sent = self.edge.send(request);
        let to_core = sent.iter().filter(|sent| sent.to == address(CORE));
        let sent = to_core.map(|sent| self.core.send_bytes(0, address(EDGE), &sent.bytes));
        sent.flatten().collect()
    }

    /// What the edge sends when what the core sent has come there.
    fn back(&mut self, sent: &[Sent]) -> Vec<Sent> {
        let to_edge = sent.iter().filter(|sent| sent.to == address(EDGE));
        let sent = to_edge.map(|sent| self.edge.send_bytes(0, address(CORE), &sent.bytes));
        sent.flatten().collect()
    }

    /// What the edge sends when the server's response has come over the core.
    fn answer(&mut self, response: &Msg) -> Vec<Sent> {
        let sent = self.core.send(response);
        self.back(&sent)
    }

    fn events(&self, event: Event) -> [u64; 2] {
        [self.edge.event(event), self.core.event(event)]
    }
}

/// The mark and its letter in the topmost Via.
fn mark(sent: &Msg) -> Option<(char, &str)> {
    let mark = param(sent.whole("Via").split(',').next()?, "sy-state")?;
    Some((mark.chars().next()?, mark))
}

#[test]
fn the_first_node_holds_until_it_is_told_of_room() {
    let mut pair = Pair::new();
    let invite = request("INVITE", ALICE, "call");
    let sent = pair.edge.pass(&invite);
    assert_eq!(mark(&sent).unwrap().0, 'h');
    let arrived = pair.core.send_bytes(0, address(EDGE), &sent.bytes);
    assert_eq!(mark(&arrived[0]).unwrap().0, 'b');
    assert_eq!(pair.events(Event::Held), [1, 0]);
    assert_eq!(pair.events(Event::HeldBefore), [0, 1]);
    let answered = pair.answer(&arrived[0].respond(200));
    assert_eq!(
        (answered[0].to, answered[0].status()),
        (address(ALICE), 200)
    );
}

#[test]
fn what_is_left_open_is_held_behind() {
    let mut pair = Pair::leaving(1.0);
    let before = pair.events(Event::Held);
    let invite = request("INVITE", ALICE, "call");
    let arrived = pair.pass(&invite);
    assert_eq!(mark(&arrived[0]).unwrap().0, 'h');
    assert_eq!(pair.events(Event::Held), [before[0], before[1] + 1]);
    assert!(pair.pass(&invite).is_empty(), "the core absorbs it");
    let answered = pair.answer(&arrived[0].respond(200));
    assert_eq!(
        (answered[0].to, answered[0].status()),
        (address(ALICE), 200)
    );
    // A node that passes 2xx on without state passes each of them on.
    let again = pair.answer(&arrived[0].respond(200));
    assert_eq!(again[0].status(), 200);
}

/// A share that changes between a request and its retransmission had it held twice, or not at all.
#[test]
fn a_new_share_changes_no_transaction() {
    for (first, then) in [(1.0, 0.0), (0.0, 1.0)] {
        let mut pair = Pair::leaving(first);
        let before = pair.events(Event::Held);
        let invite = request("INVITE", ALICE, "call");
        let arrived = pair.pass(&invite);
        let after = pair.events(Event::Held);
        pair.edge.nodes[0].fix_share_left_open(Some(then));
        assert!(pair.pass(&invite).is_empty());
        assert_eq!(pair.events(Event::Held), after);
        assert_eq!(after[0] + after[1], before[0] + before[1] + 1);
        pair.answer(&arrived[0].respond(486));
        let again = pair.pass(&invite);
        assert!(again.iter().all(|sent| !sent.is_request()), "{again:?}");
        assert_eq!(pair.events(Event::Held), after);
    }
}

#[test]
fn a_cancel_finds_its_invite_in_both_modes() {
    for share in [0.0, 1.0] {
        let mut pair = Pair::leaving(share);
        let invite = request("INVITE", ALICE, "call");
        let arrived = pair.pass(&invite);
        pair.answer(&arrived[0].respond(180));
        let sent = pair.edge.send(&invite.cancel());
        let mut to_caller: Vec<Sent> = Vec::new();
        let mut to_server: Vec<Sent> = Vec::new();
        for sent in sent {
            if sent.to == address(CORE) {
                to_server.extend(pair.core.send_bytes(0, address(EDGE), &sent.bytes));
            } else {
                to_caller.push(sent);
            }
        }
        to_caller.extend(pair.back(&to_server));
        let cancel = to_server.iter().find(|sent| sent.is_request()).unwrap();
        assert_eq!(cancel.branch(), arrived[0].branch());
        to_caller.extend(pair.answer(&cancel.respond(200)));
        to_caller.extend(pair.answer(&arrived[0].respond(487)));
        to_caller.retain(|sent| sent.to == address(ALICE));
        let statuses: Vec<u16> = to_caller.iter().map(|sent| sent.status()).collect();
        assert_eq!(statuses, [200, 487], "share {share}");
        let ack = invite.ack_of(to_caller.last().unwrap());
        let passed = pair.pass(&ack);
        assert!(passed.is_empty(), "the holder acknowledges: {passed:?}");
    }
}

/// The holder may be another node after a restart. The next one has the same branch, and knows it.
#[test]
fn a_restart_makes_no_second_request_of_one() {
    for share in [0.0, 1.0] {
        let mut pair = Pair::leaving(share);
        let invite = request("INVITE", ALICE, "call");
        let arrived = pair.pass(&invite);
        assert_eq!(arrived.len(), 1);
        pair.edge.restart(dynamic(&[CORE]));
        let passed = pair.pass(&invite);
        let branches: Vec<&str> = passed.iter().map(|sent| sent.branch()).collect();
        assert!(
            branches.iter().all(|branch| *branch == arrived[0].branch()),
            "{branches:?}"
        );
        let answered = pair.answer(&arrived[0].respond(200));
        assert_eq!(
            (answered[0].to, answered[0].status()),
            (address(ALICE), 200)
        );
    }
}

/// An edge that had held an INVITE left it open after a restart. The core had passed it on as held, and went on so:
/// nobody held it.
#[test]
fn what_a_restarted_node_held_is_taken_over() {
    let mut pair = Pair::leaving(0.0);
    let invite = request("INVITE", ALICE, "call");
    let first = pair.pass(&invite);
    assert_eq!(mark(&first[0]).unwrap().0, 'b');
    pair.edge.restart(dynamic(&[CORE]));
    let options = pair.pass(&request("OPTIONS", ALICE, "again"));
    pair.answer(&options[0].respond(200));
    pair.edge.nodes[0].fix_share_left_open(Some(1.0));
    let held = pair.events(Event::Held);
    let again = pair.pass(&invite);
    assert_eq!(mark(&again[0]).unwrap().0, 'h');
    assert_eq!(again[0].branch(), first[0].branch());
    assert_eq!(pair.events(Event::Held), [held[0], held[1] + 1]);
    assert!(pair.pass(&invite).is_empty(), "the core absorbs it now");
    let answered = pair.answer(&again[0].respond(486));
    assert_eq!(
        (answered[0].to, answered[0].status()),
        (address(ALICE), 486)
    );
}

#[test]
fn a_late_response_goes_on_only_if_its_request_was_passed_without_state() {
    for (share, expected) in [(1.0, Some(200)), (0.0, None)] {
        let mut pair = Pair::leaving(share);
        let invite = request("INVITE", ALICE, "call");
        let sent = pair.edge.pass(&invite);
        let arrived = pair.core.send_bytes(0, address(EDGE), &sent.bytes);
        let back = pair.core.send(&arrived[0].respond(200));
        assert_eq!(pair.back(&back)[0].status(), 200);
        pair.wait(3 * TRANSACTION_MAX.as_millis() as u64);
        let dropped = pair.edge.dropped(Dropped::Unmatched);
        let late = pair.edge.send_bytes(0, address(CORE), &back[0].bytes);
        assert_eq!(late.first().map(|sent| sent.status()), expected);
        let is_dropped = pair.edge.dropped(Dropped::Unmatched) > dropped;
        assert_eq!(is_dropped, expected.is_none());
    }
}

#[test]
fn room_that_nobody_renews_is_gone() {
    let mut pair = Pair::leaving(1.0);
    let before = pair.events(Event::Held);
    pair.wait(1_001);
    pair.pass(&request("INVITE", ALICE, "call"));
    assert_eq!(pair.events(Event::Held), [before[0] + 1, before[1]]);
}

/// A caller that marks its own requests as held would have nobody hold them.
#[test]
fn nobody_else_can_say_that_a_request_is_held() {
    let mut pair = Pair::new();
    let sent = pair.edge.pass(&request("INVITE", ALICE, "call"));
    let (_, real) = mark(&sent).unwrap();
    let other = real.replacen('h', "b", 1);
    for (number, param) in [real, &other, "h", "", "h0000000000000000", "x"]
        .into_iter()
        .enumerate()
    {
        // As a stranger, and with a mark of another call as a peer.
        for (from, branch) in [(BOB, sent.branch()), (EDGE, sent.branch())] {
            let call = format!("{from}-{number}");
            let via = format!("SIP/2.0/UDP {from};rport;branch={branch};sy-state={param}");
            let mut core = Cluster::new(core_config());
            let forged = request("INVITE", from, &call).set("Via", via);
            core.pass(&forged);
            assert_eq!(core.event(Event::Held), 1, "{from}: {param}");
        }
    }
    // What is real is believed of a peer alone.
    let mut core = Cluster::new(core_config());
    core.send_bytes(0, address(BOB), &sent.bytes);
    assert_eq!(core.event(Event::Held), 1);
}

/// A server that tells of room would have its calls held by nobody.
#[test]
fn nobody_else_can_tell_of_room() {
    let mut pair = Pair::leaving(1.0);
    let real = pair.pass(&request("OPTIONS", ALICE, "real"));
    let told = pair.core.pass(&real[0].respond(200));
    let room = param(told.whole("Via").split(',').next().unwrap(), "sy-room").unwrap();
    assert!(room.parse::<f64>().is_err() && room.contains(".1000."));
    let digits = &room[room.len() - 16..];
    for forged in [
        room,
        &format!("9999.1000.{digits}"),
        "9999.1000",
        "",
        "..",
        "-1.1.x",
    ] {
        let mut edge = Cluster::new(dynamic(&[CORE]));
        edge.nodes[0].fix_share_left_open(Some(1.0));
        let sent = edge.pass(&request("OPTIONS", ALICE, "call"));
        let via = format!("{};sy-room={forged}", sent.all("Via")[0]);
        let mut answer = sent.respond(200);
        answer
            .headers
            .iter_mut()
            .find(|(name, _)| name == "Via")
            .unwrap()
            .1 = via;
        let passed = edge.pass(&answer);
        assert_eq!(passed.to, address(ALICE));
        edge.pass(&request("OPTIONS", ALICE, "next"));
        assert_eq!(edge.event(Event::Held), 2, "{forged}");
    }
}

/// A server may write into the Via of the node before as well: what it writes there goes no further.
#[test]
fn room_of_others_is_taken_out() {
    let mut pair = Pair::new();
    let arrived = pair.pass(&request("OPTIONS", ALICE, "call"));
    let text = arrived[0].respond(200).to_string();
    let mark = text.rfind(";sy-state=").unwrap();
    let end = mark + ";sy-state=".len() + 17;
    let forged = format!(
        "{};sy-room=5.1000.0000000000000000{}",
        &text[..end],
        &text[end..]
    );
    let sent = pair.core.send_bytes(0, address(ONE), forged.as_bytes());
    assert!(
        !sent[0].to_string().contains("sy-room"),
        "{}",
        sent[0].message
    );
    assert_eq!(pair.back(&sent)[0].status(), 200);
}

#[test]
fn marks_stay_inside() {
    let mut pair = Pair::leaving(0.0);
    let mut call = pair.edge.establish("call");
    let bye = call.callee.request("BYE");
    let sent = pair.edge.pass(&bye);
    assert_eq!((sent.to, mark(&sent)), (address(ALICE), None));
}

#[test]
fn a_full_table_leaves_requests_to_who_takes_them() {
    let mut limited = dynamic(&[CORE]);
    limited.limits.held_transactions = 2;
    let mut pair = Pair::leaving(0.0);
    let told = pair.pass(&request("OPTIONS", ALICE, "told"));
    pair.edge = Cluster::new(limited);
    pair.edge.now = pair.core.now;
    let first = pair.pass(&request("OPTIONS", ALICE, "first"));
    pair.answer(&first[0].respond(200));
    drop(told);
    let second = pair.pass(&request("INVITE", ALICE, "second"));
    assert_eq!(mark(&second[0]).unwrap().0, 'h');
    assert_eq!(pair.edge.event(Event::LeftOpen), 1);
    assert_eq!(pair.edge.event(Event::Held), 1);
}

/// A call that was refused, as the table was full and no node behind took it, was counted for good.
#[test]
fn what_nobody_has_room_for_is_not_counted() {
    let mut limited = dynamic(&[ONE]);
    limited.limits.held_transactions = 2;
    let mut edge = Cluster::new(limited);
    edge.pass(&request("INVITE", ALICE, "first"));
    for call in ["second", "third"] {
        assert_eq!(edge.pass(&request("INVITE", ALICE, call)).status(), 503);
    }
    assert_eq!(edge.ledger(ONE), (1, 1, 1.75));
    edge.check();
    assert_eq!(edge.sizes().0, 1);
}

#[test]
fn all_is_forgotten_in_the_end() {
    let mut pair = Pair::leaving(0.5);
    for number in 0..40 {
        let arrived = pair.pass(&request("INVITE", ALICE, &format!("call{number}")));
        pair.answer(&arrived[0].respond(486));
    }
    assert!(pair.core.event(Event::Held) > 0);
    assert!(pair.edge.event(Event::LeftOpen) < 40);
    for node in [&mut pair.edge, &mut pair.core] {
        node.wait(s(181) + TRANSACTION_MAX * 3);
        assert_eq!((node.total(), node.held()), ((0, 0, 0.0), 0));
    }
}

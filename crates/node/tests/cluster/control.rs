//! Overload control with neighbours: RFC 7339, RFC 7415.

use std::{collections::VecDeque, net::SocketAddr};

use node::{Algorithm, Config, stats::Event};

use crate::{
    harness::{
        ALICE, BOB, Cluster, EDGE, ONE, Sent, THREE, TWO, config, listener, ms, s, stateful,
    },
    message::{Dialog, Msg, request},
    streams::connected_farm,
};

const OFFER: &str = ";oc;oc-algo=\"loss,rate\"";

pub(crate) fn controlled(mut config: Config) -> Config {
    config.pools[0].overload_control = true;
    config
}

fn both_modes(servers: &[&str]) -> [Config; 2] {
    [config(servers), stateful(servers)].map(controlled)
}

pub(crate) fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// The topmost Via, with its commas.
pub(crate) fn via(message: &Msg) -> &str {
    message.whole("Via")
}

/// A server's answer that tells something in the place of our offer.
pub(crate) fn told(sent: &Sent, status: u16, params: &str) -> Msg {
    let mut answer = sent.respond(status);
    let top = answer.headers.iter_mut().find(|(name, _)| name == "Via");
    let value = &mut top.unwrap().1;
    *value = format!("{}{params}", value.replace(OFFER, ""));
    answer
}

/// Has a server tell this by the answer to a call that it refuses.
pub(crate) fn tell(cluster: &mut Cluster, call: &str, params: &str) -> Sent {
    let invite = request("INVITE", ALICE, call);
    let sent = cluster.pass(&invite);
    cluster.send(&told(&sent, 486, params));
    sent
}

/// Begins 100 calls a second, each refused by whoever gets it with these terms; returns how many were
/// passed on.
fn begin_calls(cluster: &mut Cluster, name: &str, params: &str, seconds: u64) -> usize {
    let mut passed = 0;
    for number in 0..100 * seconds {
        cluster.wait(ms(10));
        let sent = cluster.send(&request("INVITE", ALICE, &format!("{name}{number}")));
        for sent in sent.iter().filter(|sent| sent.is_request()) {
            passed += 1;
            cluster.send(&told(sent, 486, params));
        }
    }
    passed
}

#[test]
fn control_is_offered_where_it_is_wanted() {
    let invite = request("INVITE", ALICE, "call");
    let mut plain = Cluster::new(config(&[ONE]));
    assert!(!via(&plain.pass(&invite)).contains(";oc"));
    for config in both_modes(&[ONE]) {
        let mut cluster = Cluster::new(config);
        assert!(via(&cluster.pass(&invite)).ends_with(OFFER));
    }
}

/// What can't be sent anew brings no offer to a server that might choke on it.
#[test]
fn all_requests_offer_control_to_a_server_that_takes_part() {
    let mut cluster = Cluster::new(controlled(config(&[ONE])));
    let options = |cluster: &mut Cluster, call| {
        let sent = cluster.pass(&request("OPTIONS", ALICE, call));
        via(&sent).ends_with(OFFER)
    };
    assert!(!options(&mut cluster, "before"));
    tell(
        &mut cluster,
        "call",
        ";oc=0;oc-algo=\"loss\";oc-validity=0;oc-seq=1.0",
    );
    assert!(options(&mut cluster, "after"));
    assert_eq!(cluster.event(Event::ControlTaken), 1);
}

#[test]
fn a_server_gets_no_more_new_calls_than_it_wants() {
    for config in both_modes(&[ONE]) {
        let mut cluster = Cluster::new(config);
        let mut call = cluster.establish("up");
        tell(
            &mut cluster,
            "call",
            ";oc=100;oc-algo=\"loss\";oc-validity=500;oc-seq=1.0",
        );
        let refused = cluster.pass(&request("INVITE", ALICE, "another"));
        assert_eq!((refused.to, refused.status()), (address(ALICE), 503));
        assert_eq!(refused.get("Retry-After"), "", "RFC 7339 §5.10");
        assert_eq!(cluster.event(Event::Restricted), 1);
        let refused = cluster.pass(&request("REGISTER", ALICE, "phone"));
        assert!(refused.get("Retry-After").parse::<u64>().unwrap() >= 5);
        let bye = cluster.send(&call.caller.request("BYE"));
        assert!(bye.iter().any(|sent| sent.to == address(ONE)), "it goes on");
        cluster.wait(ms(501));
        assert_eq!(
            cluster.pass(&request("INVITE", ALICE, "later")).to,
            address(ONE)
        );
    }
}

#[test]
fn calls_go_to_servers_that_want_them() {
    for config in both_modes(&[ONE, TWO]) {
        let mut cluster = Cluster::new(config);
        let first = tell(
            &mut cluster,
            "call",
            ";oc=0;oc-algo=\"rate\";oc-validity=20000;oc-seq=1.0",
        );
        for number in 0..20 {
            let sent = cluster.pass(&request("INVITE", ALICE, &format!("call{number}")));
            assert_ne!(sent.to, first.to);
        }
        assert_eq!(cluster.event(Event::Restricted), 0);
    }
}

/// RFC 7415 §3.5
#[test]
fn a_rate_is_kept() {
    for config in both_modes(&[ONE]) {
        let mut cluster = Cluster::new(config);
        let terms = ";oc=20;oc-algo=\"rate\";oc-validity=20000;oc-seq=1.0";
        tell(&mut cluster, "call", terms);
        let passed = begin_calls(&mut cluster, "rate", terms, 4);
        assert!((80..=86).contains(&passed), "{passed}");
        cluster.wait(s(2));
        assert_eq!(begin_calls(&mut cluster, "expired", "", 1), 100);
    }
}

#[test]
fn a_loss_is_kept() {
    for config in both_modes(&[ONE]) {
        let mut cluster = Cluster::new(config);
        let terms = ";oc=70;oc-algo=\"loss\";oc-validity=9000;oc-seq=1.0";
        tell(&mut cluster, "call", terms);
        let passed = begin_calls(&mut cluster, "loss", terms, 5);
        assert!((120..=180).contains(&passed), "{passed}");
        tell_no_more(&mut cluster);
        assert_eq!(begin_calls(&mut cluster, "free", "", 1), 100);
    }
}

/// Some call gets through, and its answer ends control.
fn tell_no_more(cluster: &mut Cluster) {
    for number in 0..100 {
        let sent = cluster.send(&request("INVITE", ALICE, &format!("end{number}")));
        if let Some(sent) = sent.iter().find(|sent| sent.is_request()) {
            cluster.send(&told(
                sent,
                486,
                ";oc=0;oc-algo=\"loss\";oc-validity=0;oc-seq=2.0",
            ));
            return;
        }
    }
    panic!("no call gets through");
}

/// Only believed peers can say that another call is urgent: RFC 4412.
#[test]
fn emergencies_are_withheld_last() {
    let mut config = controlled(config(&[ONE]));
    config.trust.peers = vec![format!("{}/32", address(BOB).ip()).parse().unwrap()];
    let mut cluster = Cluster::new(config);
    tell(
        &mut cluster,
        "call",
        ";oc=99;oc-algo=\"loss\";oc-validity=20000;oc-seq=1.0",
    );
    for (from, expected) in [(ALICE, ALICE), (BOB, ONE)] {
        for number in 0..3 {
            let invite = request("INVITE", from, &format!("sos{number}{from}"));
            let sent = cluster.pass(&invite.with("Resource-Priority", "esnet.0"));
            assert_eq!(sent.to, address(expected));
        }
    }
    let mut help = request("INVITE", ALICE, "help");
    help.start = "INVITE urn:service:sos SIP/2.0".to_owned();
    assert_eq!(cluster.pass(&help).to, address(ONE));
}

pub(crate) const ALL: &str = ";oc=100;oc-algo=\"loss\";oc-validity=20000;oc-seq=9.0";

/// Whoever could write a response could silence a server for its clients.
#[test]
fn what_no_server_told_is_ignored_and_counted() {
    for config in both_modes(&[ONE]) {
        let mut cluster = Cluster::new(config);
        let invite = request("INVITE", ALICE, "call");
        let sent = cluster.pass(&invite);
        cluster.send(&told(&sent, 180, ALL).from(BOB));
        assert_eq!(
            cluster.event(Event::ControlIgnored),
            1,
            "from another than its server"
        );
        cluster.send(&sent.respond(486));
        cluster.send(&told(&sent, 486, ALL));
        assert_eq!(
            cluster.event(Event::ControlIgnored),
            2,
            "its request is over"
        );
        let mut other = told(&sent, 200, ALL);
        other = other.set("Call-ID", "nobody's");
        cluster.send(&other);
        assert_eq!(cluster.event(Event::ControlIgnored), 3, "it has no request");
        assert_eq!(cluster.event(Event::ControlTaken), 0);
        assert_eq!(
            cluster.pass(&request("INVITE", ALICE, "another")).to,
            address(ONE)
        );
    }
}

#[test]
fn a_pool_without_control_is_not_controlled() {
    let mut cluster = Cluster::new(config(&[ONE]));
    tell(&mut cluster, "call", ALL);
    assert_eq!(cluster.event(Event::ControlIgnored), 1);
    assert_eq!(
        cluster.pass(&request("INVITE", ALICE, "another")).to,
        address(ONE)
    );
}

/// Twice as many calls as the server answers, for 5 s; returns how many get no further than the edge.
fn refused_at_twice_its_capacity(cluster: &mut Cluster, name: &str) -> usize {
    let (mut waiting, mut refused) = (VecDeque::new(), 0);
    for number in 0..500 {
        cluster.wait(ms(10));
        for sent in cluster.send(&request("INVITE", ALICE, &format!("{name}{number}"))) {
            match sent.is_request() {
                true => waiting.push_back(sent),
                false => refused += usize::from(sent.status() == 503),
            }
        }
        if number % 2 == 0
            && let Some(oldest) = waiting.pop_front()
        {
            cluster.send(&oldest.respond(486));
        }
    }
    refused
}

/// What a server had told went on to lift the limit that is learned, after a reload by which the pool no longer asks.
#[test]
fn terms_that_nobody_asks_for_lift_no_limit() {
    let mut cluster = Cluster::new(controlled(config(&[ONE])));
    let terms = ";oc=1000;oc-algo=\"rate\";oc-validity=60000;oc-seq=1.0";
    tell(&mut cluster, "call", terms);
    cluster.shared.reload(config(&[ONE]), cluster.now).unwrap();
    assert!(refused_at_twice_its_capacity(&mut cluster, "alone") > 50);
}

#[test]
fn late_news_change_nothing() {
    let mut cluster = Cluster::new(controlled(config(&[ONE])));
    let late = cluster.pass(&request("INVITE", ALICE, "late"));
    tell(
        &mut cluster,
        "call",
        ";oc=0;oc-algo=\"loss\";oc-validity=0;oc-seq=10.5",
    );
    cluster.send(&told(
        &late,
        180,
        ";oc=100;oc-algo=\"loss\";oc-validity=20000;oc-seq=10.4",
    ));
    assert_eq!(
        cluster.pass(&request("INVITE", ALICE, "another")).to,
        address(ONE)
    );
    cluster.send(&told(&late, 183, ";oc=100;oc-algo=\"loss\";oc-seq=10.6"));
    assert_eq!(
        cluster.pass(&request("INVITE", ALICE, "third")).status(),
        503
    );
}

/// A callee behind a server that takes no part can write into our Via what it likes.
#[test]
fn what_a_callee_told_ends_when_its_server_proves_silent() {
    for config in both_modes(&[ONE]) {
        let mut cluster = Cluster::new(config);
        let calls = ["one", "two"];
        let ringing = calls.map(|call| cluster.pass(&request("INVITE", ALICE, call)));
        tell(&mut cluster, "call", ALL);
        let withheld = cluster.pass(&request("INVITE", ALICE, "withheld"));
        assert_eq!(withheld.status(), 503);
        for sent in &ringing {
            cluster.send(&sent.respond(180));
        }
        let sent = cluster.pass(&request("INVITE", ALICE, "another"));
        assert_eq!(sent.to, address(ONE));
    }
}

/// A server whose parser chokes on the parameters. Returns whether it got an offer.
fn call_through_choking(cluster: &mut Cluster, call: &str) -> bool {
    let invite = request("INVITE", ALICE, call);
    let first = cluster.pass(&invite);
    if !via(&first).contains(";oc") {
        let back = cluster.send(&first.respond(200));
        assert!(back.iter().any(|back| back.status() == 200));
        return false;
    }
    let sent = cluster.send(&first.respond(400));
    assert!(sent.iter().all(|sent| sent.status() != 400), "{sent:#?}");
    let ack = sent
        .iter()
        .find(|sent| sent.is_request() && sent.method() == "ACK");
    assert_eq!(ack.unwrap().branch(), first.branch());
    let again = sent
        .iter()
        .find(|sent| sent.is_request() && sent.method() == "INVITE");
    let again = again.unwrap();
    assert_eq!(again.to, first.to);
    assert_ne!(again.branch(), first.branch(), "RFC 3261 §8.1.3.5");
    assert!(!via(again).contains(";oc"));
    let back = cluster.send(&again.respond(200));
    let answered = back.iter().find(|back| back.status() == 200).unwrap();
    let mut caller = Dialog::of_caller(&invite, answered);
    cluster.send(&caller.ack());
    let bye = cluster.send(&caller.request("BYE"));
    let bye = bye.iter().find(|sent| sent.is_request()).unwrap();
    assert!(!via(bye).contains(";oc"), "it can't be sent anew");
    cluster.send(&bye.respond(200));
    true
}

/// Some parsers answer 400 to parameters that they don't know: no call is lost by that.
#[test]
fn a_server_that_chokes_on_the_offer_gets_none() {
    for config in both_modes(&[ONE]) {
        let mut cluster = Cluster::new(config);
        for number in 0..2 {
            assert!(call_through_choking(
                &mut cluster,
                &format!("choking{number}")
            ));
        }
        assert_eq!(cluster.event(Event::ControlRefused), 1);
        for number in 0..5 {
            assert!(!call_through_choking(
                &mut cluster,
                &format!("quiet{number}")
            ));
        }
        cluster.wait(s(3_601));
        assert!(call_through_choking(&mut cluster, "later"));
        assert!(!call_through_choking(&mut cluster, "at-last"));
    }
}

/// A server drops what has an offer. Returns whether it got one.
fn call_through_deaf(cluster: &mut Cluster, call: &str, node_repeats: bool) -> bool {
    let invite = request("INVITE", ALICE, call);
    let first = cluster.pass(&invite);
    if !via(&first).contains(OFFER) {
        cluster.send(&first.respond(486));
        return false;
    }
    let mut sent = cluster.wait(ms(520));
    if !node_repeats {
        sent = cluster.send(&invite);
    }
    let to_server = |sent: &[Sent]| {
        let mut sent = sent.iter().filter(|sent| sent.is_request());
        sent.find(|sent| sent.to == first.to).unwrap().clone()
    };
    let again = to_server(&sent);
    assert_eq!(again.branch(), first.branch());
    assert_eq!(via(&again), via(&first).replace(OFFER, ""));
    cluster.send(&again.respond(180));
    let cancel = to_server(&cluster.send(&invite.cancel()));
    assert_eq!((cancel.method(), via(&cancel)), ("CANCEL", via(&again)));
    cluster.send(&cancel.respond(200));
    let back = cluster.send(&again.respond(487));
    assert!(back.iter().any(|back| back.status() == 487));
    if node_repeats {
        let ack = to_server(&back);
        assert_eq!((ack.method(), via(&ack)), ("ACK", via(&again)));
    }
    true
}

/// A server that dropped what had an offer lost all calls of a pool with overload control.
#[test]
fn a_server_that_ignores_what_has_an_offer_gets_none() {
    for (config, node_repeats) in both_modes(&[ONE]).into_iter().zip([false, true]) {
        let mut cluster = Cluster::new(config);
        for number in 0..2 {
            let call = format!("deaf{number}");
            assert!(call_through_deaf(&mut cluster, &call, node_repeats));
        }
        assert_eq!(cluster.event(Event::ControlRefused), 1);
        for number in 0..5 {
            let call = format!("heard{number}");
            assert!(!call_through_deaf(&mut cluster, &call, node_repeats));
        }
    }
}

/// Over a stream nothing is repeated, so its silence speaks against the offer.
#[test]
fn a_connected_server_that_ignores_what_has_an_offer_gets_none() {
    for config in both_modes(&[ONE]) {
        let mut cluster = Cluster::new(connected_farm(config));
        let mut offers = |call: &str| {
            let sent = cluster.pass(&request("INVITE", ALICE, call));
            cluster.wait(s(1) + ms(20));
            via(&sent).contains(OFFER)
        };
        let offered = ["first", "second", "third"].map(&mut offers);
        assert_eq!(offered, [true, true, false]);
        assert_eq!(cluster.event(Event::ControlRefused), 1);
    }
}

/// A call that another server gets instead carries no offer there, where it may be ignored as well.
#[test]
fn a_silent_server_is_left_without_an_offer() {
    let connected = both_modes(&[ONE, TWO]).map(connected_farm);
    for config in both_modes(&[ONE, TWO]).into_iter().chain(connected) {
        let mut cluster = Cluster::new(config);
        let first = cluster.pass(&request("INVITE", ALICE, "call"));
        assert!(via(&first).contains(OFFER));
        let sent = cluster.wait(s(1) + ms(20));
        let moved = sent
            .iter()
            .find(|sent| sent.is_request() && sent.to != first.to);
        assert!(!via(moved.unwrap()).contains(OFFER));
    }
}

/// What is lost on the way to a server that has taken offers is no reason to offer less.
#[test]
fn a_server_that_takes_offers_gets_them_again() {
    for config in both_modes(&[ONE]) {
        let mut cluster = Cluster::new(config);
        let first = cluster.pass(&request("INVITE", ALICE, "call"));
        cluster.send(&first.respond(486));
        for number in 0..4 {
            let sent = cluster.pass(&request("INVITE", ALICE, &format!("late{number}")));
            assert!(via(&sent).contains(OFFER), "{number}");
            cluster.wait(ms(600));
            cluster.send(&sent.respond(486));
        }
        assert_eq!(cluster.event(Event::ControlRefused), 0);
    }
}

/// A request that is bad by itself speaks against no offer.
#[test]
fn bad_requests_end_no_control() {
    for config in both_modes(&[ONE]) {
        let mut cluster = Cluster::new(config);
        for number in 0..5 {
            let first = cluster.pass(&request("INVITE", ALICE, &format!("bad{number}")));
            assert!(via(&first).contains(";oc"));
            let sent = cluster.send(&first.respond(400));
            let again = sent
                .iter()
                .find(|sent| sent.is_request() && sent.method() == "INVITE");
            let back = cluster.send(&again.unwrap().respond(400));
            assert!(back.iter().any(|back| back.status() == 400));
        }
        assert_eq!(cluster.event(Event::ControlRefused), 0);
        assert_eq!(cluster.total(), (0, 0, 0.0));
    }
}

/// What one node has sent, as it comes to the next.
fn on_the_wire(sent: &Sent, from: &str) -> Msg {
    sent.message.clone().without("Content-Length").from(from)
}

/// An edge, and a node of the cluster behind it.
struct Pair {
    edge: Cluster,
    node: Cluster,
}

impl Pair {
    /// Offers 500 calls a second; returns how many come to the node.
    fn calls(&mut self, name: &str, seconds: u64) -> usize {
        let mut arrived = 0;
        for number in 0..500 * seconds {
            self.edge.wait(ms(2));
            self.node.wait(ms(2));
            let invite = request("INVITE", ALICE, &format!("{name}{number}"));
            for sent in self.edge.send(&invite) {
                if sent.to == address(ONE) {
                    arrived += 1;
                    self.refuse(&sent);
                }
            }
        }
        arrived
    }

    /// A call is refused by the server behind both.
    fn refuse(&mut self, sent: &Sent) {
        for at_server in self.node.send(&on_the_wire(sent, EDGE)) {
            if at_server.to == address(THREE) {
                for back in self.node.send(&at_server.respond(486)) {
                    if back.to == address(EDGE) {
                        self.edge.send(&on_the_wire(&back, ONE));
                    }
                }
            }
        }
    }
}

#[test]
fn an_edge_obeys_a_node() {
    for of in [config, stateful] {
        let mode = |servers: &[&str]| {
            let mut config = of(servers);
            (config.limits.transactions, config.limits.held_transactions) = (100_000, 100_000);
            config
        };
        let mut behind = mode(&[THREE]);
        behind.listeners = vec![listener(ONE)];
        behind.trust.peers = vec![format!("{}/32", address(EDGE).ip()).parse().unwrap()];
        let mut pair = Pair {
            edge: Cluster::new(controlled(mode(&[ONE]))),
            node: Cluster::new(behind),
        };
        assert_eq!(pair.calls("calm", 1), 500);
        pair.node.shared.neighbours().set_capacity(0, Some(100.0));
        pair.calls("onset", 1);
        let arrived = pair.calls("over", 3);
        assert!((300..=330).contains(&arrived), "{arrived}");
        pair.node.shared.neighbours().prefer(Algorithm::Loss);
        pair.calls("change", 1);
        let arrived = pair.calls("loss", 3);
        assert!((270..=350).contains(&arrived), "{arrived}");
        pair.node.shared.neighbours().set_capacity(0, None);
        pair.calls("end", 1);
        assert_eq!(pair.calls("again", 1), 500);
        assert_eq!(pair.edge.event(Event::ControlIgnored), 0);
    }
}

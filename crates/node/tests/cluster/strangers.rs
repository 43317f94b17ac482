//! What strangers may cost, and whom they can't harm.

use std::net::SocketAddr;

use node::{
    Config, Input,
    config::{Exchange, Rules},
    stats::{Dropped, Event},
};

use crate::{
    harness::{ALICE, BOB, Cluster, EDGE, ONE, TWO, config, ms, s},
    message::{Msg, request},
};

const RUBBISH: &[u8] = b"GET / HTTP/1.1\r\n\r\n";

/// Ten messages in vain at once, and ten a second.
fn strict(servers: &[&str]) -> Config {
    let mut config = config(servers);
    config.abuse.rules = Rules {
        rate: 10,
        burst: 10,
        ..Rules::default()
    };
    config
}

fn rubbish(cluster: &mut Cluster, from: &str, times: usize) {
    for _ in 0..times {
        let sent = cluster.send_bytes(0, from.parse().unwrap(), RUBBISH);
        assert!(sent.is_empty());
    }
}

/// All strangers' messages were parsed, whatever came before: a scanner cost as much as callers do.
#[test]
fn a_stranger_is_heard_at_a_rate() {
    let mut cluster = Cluster::with_workers(strict(&[ONE]), 2);
    rubbish(&mut cluster, BOB, 100);
    assert_eq!(cluster.dropped(Dropped::Malformed), 11);
    assert_eq!(cluster.dropped(Dropped::Limited), 89);
    let call = request("INVITE", BOB, "from-the-same");
    assert!(cluster.send(&call).is_empty());
    cluster.pass(&request("INVITE", ALICE, "from-another"));
    cluster.wait(ms(200));
    cluster.pass(&call);
}

#[test]
fn what_is_refused_costs_tokens() {
    let other_host = |call: &str| {
        let mut message = request("INVITE", BOB, call);
        message.start = "INVITE sip:service@elsewhere.example SIP/2.0".to_owned();
        message
    };
    type Change = fn(Msg) -> Msg;
    let cases: [(&str, Change); 4] = [
        ("no route", |message| message),
        ("no Call-ID", |message| message.without("Call-ID")),
        ("a lost dialog", |message| {
            message.set("To", "<sip:service@elsewhere.example>;tag=1")
        }),
        ("an ACK of nothing", |mut message| {
            message.start = message.start.replace("INVITE", "ACK");
            message.without("Call-ID")
        }),
    ];
    for (case, change) in cases {
        let mut config = strict(&[ONE]);
        config.routes[0].hosts = vec!["example.com".to_owned()];
        let mut cluster = Cluster::new(config);
        for number in 0..50 {
            cluster.send(&change(other_host(&format!("call-{number}"))));
        }
        assert_eq!(cluster.dropped(Dropped::Limited), 39, "{case}");
    }
}

/// Calls that servers take or refuse are the servers' business.
#[test]
fn calls_cost_nothing() {
    let mut cluster = Cluster::new(strict(&[ONE]));
    for number in 0..100 {
        let status = [200, 403, 404, 486][number % 4];
        let invite = request("INVITE", ALICE, &format!("call-{number}"));
        let received = cluster.pass(&invite);
        cluster.send(&received.respond(status));
    }
    assert_eq!(cluster.dropped(Dropped::Limited), 0);
}

/// Anybody can write a server's address on rubbish.
#[test]
fn servers_and_edges_are_always_heard() {
    let mut config = strict(&[ONE]);
    config.exchange = Exchange {
        peers: vec![TWO.parse().unwrap()],
        ..Exchange::default()
    };
    let mut cluster = Cluster::new(config);
    for from in ["10.0.0.1:9", "10.0.0.2:9", "[::ffff:10.0.0.1]:9"] {
        rubbish(&mut cluster, from, 100);
    }
    assert_eq!(cluster.dropped(Dropped::Limited), 0);
    cluster.establish("call");
}

/// Rubbish that came in a caller's name took the caller's calls down.
#[test]
fn nobody_silences_a_caller_by_forging_their_address() {
    let mut cluster = Cluster::new(strict(&[ONE]));
    let mut call = cluster.establish("before-the-flood");
    rubbish(&mut cluster, ALICE, 1_000);
    assert_eq!(cluster.dropped(Dropped::Malformed), 1_000);
    cluster.establish("within-it");
    let bye = cluster.pass(&call.caller.request("BYE"));
    assert_eq!(bye.to, call.server);
}

#[test]
fn known_scanners_get_no_answer() {
    let mut config = strict(&[ONE]);
    config.abuse.scanners = vec!["friendly-scanner".to_owned(), "sipvicious".to_owned()];
    let mut cluster = Cluster::with_workers(config, 2);
    let cases: [(&str, &str, bool); 8] = [
        ("User-Agent", "friendly-scanner", true),
        ("User-Agent", "Friendly-Scanner/0.3", true),
        ("User-Agent", "a friendly-scanner", false),
        ("User-Agent", "friendly", false),
        ("From", "\"sipvicious\"<sip:100@1.1.1.1>;tag=1", true),
        ("From", "<sip:sipvicious@example.com>;tag=1", true),
        ("From", "sip:sipvicious@example.com;tag=1", true),
        ("From", "\"Alice\" <sip:alice@example.com>;tag=1", false),
    ];
    for (number, (name, value, is_dropped)) in cases.into_iter().enumerate() {
        let from = format!("203.0.113.{number}:5060");
        let call = request("INVITE", &from, &format!("call-{number}")).set(name, value);
        let sent = cluster.send(&call);
        assert_eq!(sent.is_empty(), is_dropped, "{name}: {value}");
    }
    assert_eq!(cluster.dropped(Dropped::Scanner), 5);
    let of_server = request("OPTIONS", ONE, "test").set("User-Agent", "sipvicious");
    cluster.send(&of_server);
    assert_eq!(cluster.dropped(Dropped::Scanner), 5);
}

/// The list and the rates change while the node runs.
#[test]
fn a_reload_changes_what_is_allowed() {
    let mut cluster = Cluster::new(strict(&[ONE]));
    rubbish(&mut cluster, BOB, 20);
    assert_eq!(cluster.dropped(Dropped::Limited), 9);
    let mut config = strict(&[ONE]);
    config.abuse.rules.burst = 1_000;
    config.abuse.scanners = vec!["sipcli".to_owned()];
    cluster.shared.reload(config, cluster.now).unwrap();
    rubbish(&mut cluster, BOB, 20);
    assert_eq!(cluster.dropped(Dropped::Limited), 9);
    let call = request("INVITE", ALICE, "call").set("User-Agent", "sipcli/v1.8");
    assert!(cluster.send(&call).is_empty());
}

/// A forged ICMP or a keep-alive is no reason to be silent.
#[test]
fn keep_alives_cost_nothing() {
    let mut cluster = Cluster::new(strict(&[ONE]));
    let from: SocketAddr = BOB.parse().unwrap();
    for _ in 0..100 {
        cluster.send_bytes(0, from, b"\r\n");
    }
    cluster.nodes[0].handle_input(
        cluster.now,
        Input::Unreachable(node::Quotation {
            flow: node::Flow::udp(0, from),
            bytes: b"",
        }),
        &mut cluster.out,
    );
    assert_eq!(cluster.dropped(Dropped::KeepAlive), 100);
    assert_eq!(cluster.event(Event::SourceBanned), 0);
    cluster.wait(s(1));
    assert_eq!(cluster.shared.guard().followed(cluster.now), 0, "{EDGE}");
}

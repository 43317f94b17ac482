//! Probes, and what live traffic says of a server.

use balance::Health;
use node::Config;

use crate::{
    harness::{ALICE, Cluster, EDGE, ONE, Sent, TWO, config, ms, probe, s},
    message::request,
};

fn probing(servers: &[&str]) -> Config {
    let mut config = config(servers);
    config.pools[0].probe = Some(probe());
    config
}

fn health(cluster: &Cluster, server: &str) -> Health {
    cluster.member(server).server.health(cluster.now)
}

fn to<'a>(sent: &'a [Sent], server: &str) -> Vec<&'a Sent> {
    let address = server.parse().unwrap();
    sent.iter().filter(|sent| sent.to == address).collect()
}

#[test]
fn each_server_is_probed_in_its_interval() {
    let mut cluster = Cluster::with_workers(probing(&[ONE, TWO]), 3);
    let sent = cluster.wait(s(9));
    for server in [ONE, TWO] {
        let probes = to(&sent, server);
        assert_eq!(probes.len(), 5, "{server}");
        assert!(probes.iter().all(|probe| probe.method() == "OPTIONS"));
        assert!(probes[0].get("Via").contains(EDGE));
        assert_ne!(probes[0].branch(), probes[1].branch());
        assert_ne!(probes[0].get("Call-ID"), probes[1].get("Call-ID"));
    }
    assert_eq!(cluster.total(), (0, 0, 0.0), "probes are no work");
}

#[test]
fn silence_takes_a_server_down_and_answers_bring_it_back() {
    let mut cluster = Cluster::with_workers(probing(&[ONE]), 3);
    cluster.wait(s(1) + ms(500));
    assert_eq!(
        health(&cluster, ONE),
        Health::Up,
        "one probe of two has failed"
    );
    cluster.wait(s(2));
    assert_eq!(health(&cluster, ONE), Health::Down);
    let refused = cluster.pass(&request("INVITE", ALICE, "early"));
    assert_eq!(
        (refused.to, refused.status()),
        (ALICE.parse().unwrap(), 503)
    );
    for expected in [Health::Down, Health::Up] {
        let mut sent = cluster.wait(ms(500));
        while sent.is_empty() {
            sent = cluster.wait(ms(500));
        }
        assert!(cluster.send(&sent[0].respond(200)).is_empty());
        assert_eq!(health(&cluster, ONE), expected);
    }
    assert_eq!(
        cluster.pass(&request("INVITE", ALICE, "call")).to,
        ONE.parse().unwrap()
    );
}

#[test]
fn any_answer_but_503_passes_a_probe() {
    for (status, expected) in [
        (200, Health::Up),
        (404, Health::Up),
        (405, Health::Up),
        (500, Health::Up),
        (503, Health::Down),
        (100, Health::Down),
    ] {
        let mut cluster = Cluster::new(probing(&[ONE]));
        for _ in 0..20 {
            for probe in cluster.wait(ms(500)) {
                assert!(cluster.send(&probe.respond(status)).is_empty());
            }
        }
        assert_eq!(health(&cluster, ONE), expected, "{status}");
    }
}

#[test]
fn an_answer_from_elsewhere_passes_no_probe() {
    let mut cluster = Cluster::new(probing(&[ONE]));
    for _ in 0..20 {
        for probe in cluster.wait(ms(500)) {
            cluster.send(&probe.respond(200).from(TWO));
        }
    }
    assert_eq!(health(&cluster, ONE), Health::Down);
}

#[test]
fn what_is_open_on_a_server_leaves_it_when_probes_fail() {
    let mut config = probing(&[ONE, TWO]);
    config.pools[0].answer_timeout = s(30);
    let mut cluster = Cluster::with_workers(config, 3);
    let sent = cluster.wait(ms(1));
    cluster.send(&to(&sent, TWO)[0].respond(200));
    for number in 0..10 {
        cluster.pass(&request("INVITE", ALICE, &format!("call{number}")));
    }
    assert_eq!(cluster.ledger(ONE), (5, 5, 8.75));
    let mut moved = 0;
    for _ in 0..40 {
        let sent = cluster.wait(ms(100));
        for sent in to(&sent, TWO) {
            match sent.method() {
                "OPTIONS" => drop(cluster.send(&sent.respond(200))),
                _ => moved += 1,
            }
        }
    }
    assert_eq!(health(&cluster, ONE), Health::Down);
    assert_eq!(moved, 5);
    assert_eq!(cluster.ledger(ONE), (0, 0, 0.0));
    assert_eq!(cluster.ledger(TWO), (10, 10, 17.5));
}

/// Without probes three silences in a row take a server down.
#[test]
fn live_traffic_takes_a_silent_server_down() {
    let mut cluster = Cluster::new(config(&[ONE]));
    for number in 0..3 {
        assert_eq!(health(&cluster, ONE), Health::Up);
        cluster.pass(&request("INVITE", ALICE, &format!("call{number}")));
        cluster.wait(s(1) + ms(20));
    }
    assert_eq!(health(&cluster, ONE), Health::Down);
    cluster.wait(s(10));
    assert_eq!(health(&cluster, ONE), Health::Up, "it gets another chance");
}

/// An edge with more to do than it could lost the answers of its servers, took all of them for dead, and refused
/// every call.
#[test]
fn a_silence_says_nothing_when_answers_may_be_lost() {
    for is_probing in [false, true] {
        let mut cluster = Cluster::new(match is_probing {
            true => probing(&[ONE]),
            false => config(&[ONE]),
        });
        for number in 0..6 {
            cluster.send(&request("INVITE", ALICE, &format!("call{number}")));
            cluster.wait(ms(500));
            cluster.shared.lose(cluster.now);
            cluster.wait(ms(700));
            assert_eq!(health(&cluster, ONE), Health::Up);
        }
        for number in 6..12 {
            cluster.send(&request("INVITE", ALICE, &format!("call{number}")));
            cluster.wait(ms(1200));
        }
        assert_eq!(health(&cluster, ONE), Health::Down);
    }
}

/// One call that is never answered says it once, however long it is waited for.
#[test]
fn one_silent_call_is_one_failure() {
    let mut cluster = Cluster::new(config(&[ONE]));
    cluster.pass(&request("INVITE", ALICE, "call"));
    cluster.wait(s(40));
    assert_eq!(cluster.member(ONE).server.failed(), 1);
    cluster.pass(&request("INVITE", ALICE, "second"));
    cluster.wait(s(2));
    assert_eq!(health(&cluster, ONE), Health::Up);
}

#[test]
fn an_answer_clears_the_count_of_silences() {
    let mut cluster = Cluster::new(config(&[ONE]));
    for number in 0..8 {
        let received = cluster.pass(&request("INVITE", ALICE, &format!("call{number}")));
        if number % 2 == 0 {
            cluster.wait(s(2));
        }
        cluster.pass(&received.respond(486));
    }
    assert_eq!(health(&cluster, ONE), Health::Up);
}

#[test]
fn response_times_are_those_of_the_first_response() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let received = cluster.pass(&request("INVITE", ALICE, "call"));
    cluster.wait(ms(40));
    cluster.pass(&received.respond(180));
    cluster.wait(s(20));
    cluster.pass(&received.respond(200));
    let server = &cluster.member(ONE).server;
    assert_eq!(server.first_response_time(), Some(ms(40)));
    assert_eq!(server.final_response_time(), Some(ms(20_040)));
}

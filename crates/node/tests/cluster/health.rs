//! Probes, and what live traffic says of a server.

use std::time::Duration;

use balance::{Health, Judge};
use node::{Cause, Config, stats::Dropped};

use crate::{
    harness::{ALICE, BOB, Cluster, EDGE, ONE, Sent, THREE, TWO, config, ms, probe, s, stateful},
    message::request,
};

fn probing(servers: &[&str]) -> Config {
    let mut config = config(servers);
    config.pools[0].probe = Some(probe());
    config
}

fn health(cluster: &Cluster, server: &str) -> Health {
    cluster.member(server).server.health()
}

fn to<'a>(sent: &'a [Sent], server: &str) -> Vec<&'a Sent> {
    let address = server.parse().unwrap();
    sent.iter().filter(|sent| sent.to == address).collect()
}

/// Lets time pass in which these servers answer probes; returns what else was sent, and the probes.
fn wait_and_answer(cluster: &mut Cluster, time: Duration, up: &[&str]) -> (Vec<Sent>, Vec<Sent>) {
    let (mut others, mut probes) = (Vec::new(), Vec::new());
    let end = cluster.now + time;
    while cluster.now < end {
        for sent in cluster.wait(ms(10)) {
            if sent.method() != "OPTIONS" {
                others.push(sent);
                continue;
            }
            if up.iter().any(|server| sent.to == server.parse().unwrap()) {
                assert!(cluster.send(&sent.respond(200)).is_empty());
            }
            probes.push(sent);
        }
    }
    (others, probes)
}

fn causes(cluster: &Cluster) -> Vec<Cause> {
    cluster.shared.take_changes().map(|it| it.cause).collect()
}

#[test]
fn each_server_is_probed_in_its_interval() {
    let mut cluster = Cluster::with_workers(probing(&[ONE, TWO]), 3);
    let (_, sent) = wait_and_answer(&mut cluster, s(9), &[ONE, TWO]);
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
    let mut cluster = Cluster::with_workers(probing(&[ONE, TWO]), 3);
    wait_and_answer(&mut cluster, s(5), &[ONE, TWO]);
    assert_eq!(causes(&cluster), []);
    wait_and_answer(&mut cluster, s(2), &[TWO]);
    assert_eq!(
        health(&cluster, ONE),
        Health::Up,
        "one probe of two has failed"
    );
    wait_and_answer(&mut cluster, s(3), &[TWO]);
    assert_eq!(health(&cluster, ONE), Health::Down);
    for call in 0..5 {
        let invite = request("INVITE", ALICE, &format!("call{call}"));
        assert_eq!(cluster.pass(&invite).to, TWO.parse().unwrap());
    }
    wait_and_answer(&mut cluster, s(2), &[ONE, TWO]);
    assert_eq!(
        health(&cluster, ONE),
        Health::Down,
        "one probe of two has passed"
    );
    wait_and_answer(&mut cluster, s(2), &[ONE, TWO]);
    assert_eq!(health(&cluster, ONE), Health::Up);
    assert_eq!(
        causes(&cluster),
        [Cause::ProbesUnanswered, Cause::ProbeAnswered]
    );
}

/// Twenty INVITEs that servers ignored, as Kamailio's stock script does with scanners, took all servers
/// out.
#[test]
fn a_server_that_ignores_some_requests_stays_up() {
    for is_answering_others in [true, false] {
        let mut cluster = Cluster::with_workers(probing(&[ONE, TWO]), 3);
        wait_and_answer(&mut cluster, s(3), &[ONE, TWO]);
        for round in 0..20 {
            let ignored = request("INVITE", ALICE, &format!("scan{round}"));
            cluster.send(&ignored);
            if is_answering_others {
                let good = cluster.pass(&request("INVITE", BOB, &format!("good{round}")));
                cluster.pass(&good.respond(486));
            }
            let (_, probes) = wait_and_answer(&mut cluster, ms(1_500), &[ONE, TWO]);
            assert!(probes.len() <= 6, "a suspicion asks once: {}", probes.len());
        }
        assert_eq!(causes(&cluster), [], "{is_answering_others}");
    }
}

/// The same without probes: there, calls that are served are the only witnesses.
#[test]
fn without_probes_a_server_that_answers_others_stays_up() {
    let mut cluster = Cluster::new(config(&[ONE]));
    for round in 0..20 {
        for scan in 0..5 {
            cluster.pass(&request("INVITE", ALICE, &format!("scan{round}-{scan}")));
        }
        cluster.wait(ms(400));
        let good = cluster.pass(&request("INVITE", BOB, &format!("good{round}")));
        cluster.pass(&good.respond(486));
        cluster.wait(ms(700));
    }
    assert_eq!(causes(&cluster), []);
}

/// A server that is gone is found out sooner than its probes are due.
#[test]
fn a_silent_server_is_probed_at_once() {
    let mut config = probing(&[ONE, TWO]);
    config.pools[0].probe.as_mut().unwrap().interval = s(60);
    let mut cluster = Cluster::with_workers(config, 3);
    wait_and_answer(&mut cluster, s(3), &[ONE, TWO]);
    let call = cluster.pass(&request("INVITE", ALICE, "call"));
    let dead = call.to.to_string();
    let alive = if dead == ONE { TWO } else { ONE };
    let (moved, probes) = wait_and_answer(&mut cluster, ms(1_300), &[alive]);
    assert_eq!(moved[0].to, alive.parse().unwrap());
    assert!(
        (1..=2).contains(&to(&probes, &dead).len()),
        "the same again"
    );
    let (_, probes) = wait_and_answer(&mut cluster, ms(900), &[alive]);
    assert_eq!(health(&cluster, &dead), Health::Down);
    assert!(to(&probes, &dead).len() <= 4);
    assert_eq!(causes(&cluster), [Cause::ProbesUnanswered]);
}

/// Whoever forges a server's address can't make it look alive: the branch of what it answers is known to
/// nobody else.
#[test]
fn a_forged_answer_keeps_no_server_up() {
    let mut cluster = Cluster::new(config(&[ONE]));
    for round in 0..3 {
        let received = cluster.pass(&request("INVITE", ALICE, &format!("call{round}")));
        cluster.wait(ms(500));
        let branch = received.branch();
        let guess = format!(
            "{}{}",
            &branch[..branch.len() - 1],
            ["0", "1"][usize::from(branch.ends_with('0'))]
        );
        let forged = received.respond(200).to_string().replace(branch, &guess);
        cluster.send_bytes(0, ONE.parse().unwrap(), forged.as_bytes());
        cluster.wait(ms(600));
    }
    assert_eq!(health(&cluster, ONE), Health::Down);
}

/// The edge started before its servers and refused calls for 4 to 5 s after they were up; the first
/// change was not logged.
#[test]
fn the_first_answer_brings_a_server_up_that_never_was() {
    let mut cluster = Cluster::new(probing(&[ONE, TWO]));
    wait_and_answer(&mut cluster, s(5), &[]);
    assert_eq!(causes(&cluster), [Cause::ProbesUnanswered; 2]);
    let (_, probes) = wait_and_answer(&mut cluster, ms(260), &[ONE]);
    assert!(probes.iter().all(|probe| probe.method() == "OPTIONS"));
    assert_eq!(health(&cluster, ONE), Health::Up);
    assert_eq!(causes(&cluster), [Cause::ProbeAnswered]);
    wait_and_answer(&mut cluster, ms(260), &[ONE, TWO]);
    assert_eq!(health(&cluster, TWO), Health::Up, "it is new, too");
    assert_eq!(cluster.pass(&request("INVITE", ALICE, "call")).status(), 0);
}

#[test]
fn a_server_that_never_comes_is_soon_probed_in_its_interval_again() {
    let mut cluster = Cluster::new(probing(&[ONE, TWO]));
    let (_, first) = wait_and_answer(&mut cluster, s(10), &[ONE]);
    assert!(
        (39..=42).contains(&to(&first, TWO).len()),
        "{}",
        to(&first, TWO).len()
    );
    let (_, later) = wait_and_answer(&mut cluster, s(10), &[ONE]);
    assert!(
        (4..=6).contains(&to(&later, TWO).len()),
        "{}",
        to(&later, TWO).len()
    );
}

/// All servers went down and came back: calls were refused for seconds.
#[test]
fn the_first_call_is_carried_within_a_second_of_the_servers_return() {
    for is_probing in [true, false] {
        let servers = [ONE, TWO, THREE];
        let mut cluster = Cluster::new(match is_probing {
            true => probing(&servers),
            false => config(&servers),
        });
        wait_and_answer(&mut cluster, s(3), &servers);
        for server in servers {
            let judge = if is_probing {
                Judge::Probes
            } else {
                Judge::Calls
            };
            cluster
                .member(server)
                .server
                .unreachable(cluster.now, judge);
        }
        let mut tried = 0;
        for call in 0..1_000 {
            let sent = cluster.send(&request("INVITE", ALICE, &format!("early{call}")));
            tried += usize::from(sent[0].status() != 503);
            wait_and_answer(&mut cluster, ms(10), &[]);
        }
        let (most, tries) = if is_probing { (41, 0) } else { (41, 3 * 4) };
        assert!(tried <= most + tries, "{tried} calls of 1,000");
        let carried = (0..100).find(|call| {
            let sent = cluster.send(&request("INVITE", ALICE, &format!("late{call}")));
            let is_sent = sent[0].status() != 503;
            if is_sent {
                cluster.pass(&sent[0].respond(200));
            }
            wait_and_answer(&mut cluster, ms(10), &servers);
            is_sent
        });
        assert!(carried.is_some(), "within a second");
        wait_and_answer(&mut cluster, ms(500), &servers);
        let is_up = |server: &&&str| health(&cluster, server) == Health::Up;
        assert!(servers.iter().filter(is_up).count() > 0);
    }
}

/// A server that was marked down before `probe = false` and a reload stayed so for ever: each call was
/// refused.
#[test]
fn without_probes_any_more_a_server_is_tried_by_calls() {
    let mut cluster = Cluster::new(probing(&[ONE, TWO]));
    wait_and_answer(&mut cluster, s(5), &[TWO]);
    assert_eq!(health(&cluster, ONE), Health::Down);
    cluster
        .shared
        .reload(config(&[ONE, TWO]), cluster.now)
        .unwrap();
    let call = cluster.pass(&request("INVITE", ALICE, "first"));
    assert_eq!(call.to, ONE.parse().unwrap());
    let other = cluster.pass(&request("INVITE", ALICE, "second"));
    assert_eq!(other.to, TWO.parse().unwrap(), "one call finds out");
    causes(&cluster);
    cluster.pass(&call.respond(180));
    assert_eq!(health(&cluster, ONE), Health::Up);
    assert_eq!(causes(&cluster), [Cause::Answered]);
}

/// One call that failed over benched each server that relayed its callee's 503 for five minutes; ten more
/// benched all.
#[test]
fn relayed_503s_bench_no_pool() {
    let servers = [ONE, TWO, THREE, "10.0.0.4:5060"];
    for config in [config(&servers), stateful(&servers)] {
        let mut cluster = Cluster::new(config);
        let refuse = |cluster: &mut Cluster, call: &str| {
            let mut sent = cluster.send(&request("INVITE", ALICE, call));
            let mut asked = 0;
            while let Some(place) = sent
                .iter()
                .position(|sent| sent.is_request() && sent.method() == "INVITE")
            {
                let invite = sent.swap_remove(place);
                asked += 1;
                sent = cluster.send(&invite.respond(503).with("Retry-After", 300));
            }
            asked
        };
        let eligible = |cluster: &Cluster| {
            let is_eligible =
                |server: &&&str| cluster.member(server).server.is_eligible(cluster.now);
            servers.iter().filter(is_eligible).count()
        };
        assert_eq!(refuse(&mut cluster, "first"), 4);
        assert_eq!(eligible(&cluster), 4, "one call proves nothing");
        for call in 0..10 {
            assert!(refuse(&mut cluster, &format!("call{call}")) >= 1);
        }
        assert_eq!(eligible(&cluster), 1, "the last is left");
        cluster.wait(s(10));
        assert_eq!(eligible(&cluster), 4, "for ten seconds at most");
    }
}

/// Of 5,836 calls 13 were refused: they came within 50 ms of the death of the last first server, before the
/// reserve was put in its place.
#[test]
fn the_reserve_takes_over_in_the_moment_of_the_last_first_servers_death() {
    for mut config in [config(&[ONE, TWO, THREE]), stateful(&[ONE, TWO, THREE])] {
        config.pools[0].servers[1].priority = 1;
        config.pools[0].servers[2].priority = 2;
        let mut cluster = Cluster::new(config);
        for call in 0..10 {
            let received = cluster.pass(&request("INVITE", ALICE, &format!("call{call}")));
            assert_eq!(received.to, ONE.parse().unwrap());
        }
        let moved = cluster.unreachable(ONE);
        let is_invite = |sent: &&Sent| sent.is_request() && sent.method() == "INVITE";
        let moved: Vec<_> = moved.iter().filter(is_invite).collect();
        assert_eq!(moved.len(), 10, "what was open goes along");
        assert!(moved.iter().all(|sent| sent.to == TWO.parse().unwrap()));
        let next = cluster.pass(&request("INVITE", ALICE, "next"));
        assert_eq!(next.to, TWO.parse().unwrap());
        cluster.take_down(TWO);
        let last = cluster.pass(&request("INVITE", ALICE, "last"));
        assert_eq!(last.to, THREE.parse().unwrap());
    }
}

#[test]
fn a_server_that_serves_others_is_not_left_alone() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let mut asked = 0;
    for call in 0..40 {
        let received = cluster.pass(&request("INVITE", ALICE, &format!("call{call}")));
        asked += usize::from(received.to == ONE.parse().unwrap());
        if received.to == ONE.parse().unwrap() && asked % 3 != 0 {
            let moved = cluster.send(&received.respond(503).with("Retry-After", 300));
            cluster.pass(&moved[0].respond(486));
        } else {
            cluster.pass(&received.respond(486));
        }
    }
    assert!(asked > 9);
    assert_eq!(causes(&cluster), []);
}

/// A server sent a request back as it came. The node answered it, took that for the server's answer, and
/// left the server alone.
#[test]
fn what_the_node_says_to_itself_counts_against_nobody() {
    for config in [config(&[ONE, TWO]), stateful(&[ONE, TWO])] {
        for has_second_via in [false, true] {
            let mut cluster = Cluster::new(config.clone());
            for call in 0..5 {
                let received = cluster.pass(&request("INVITE", ALICE, &format!("call{call}")));
                let answer = received.respond(503).with("Retry-After", 300);
                let answer = match has_second_via {
                    true => answer.from(EDGE),
                    false => answer.set("Via", received.get("Via")),
                };
                assert!(cluster.send(&answer).is_empty());
                let server = &cluster.member(&received.to.to_string()).server;
                assert_eq!(server.failed(), 0);
            }
            assert_eq!(causes(&cluster), []);
            let reasons = [Dropped::NoReturnPath, Dropped::FromUs];
            assert_eq!(cluster.dropped(reasons[usize::from(has_second_via)]), 5);
        }
    }
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
    cluster.wait(s(1));
    let tried = cluster.pass(&request("INVITE", ALICE, "chance"));
    cluster.pass(&tried.respond(486));
    assert_eq!(causes(&cluster), [Cause::Silent, Cause::Answered]);
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

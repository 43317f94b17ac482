//! Costs and capacities that follow from live traffic.

use std::time::Duration;

use node::Config;

use crate::{
    harness::{ALICE, Cluster, ONE, Sent, TWO, config, ms, s},
    message::{Dialog, request},
};

fn learning(servers: &[&str]) -> Config {
    let mut config = config(servers);
    config.pools[0].learn_costs = true;
    config.pools[0].costs.push(("BYE".to_owned(), 1.0));
    config
}

/// A call whose INVITE and BYE are worked on for so long by a server at speed 1. The first server
/// has that speed, the second the other.
fn call(cluster: &mut Cluster, name: &str, works: [Duration; 2], speed: u32) {
    let invite = request("INVITE", ALICE, name);
    let received = cluster.pass(&invite);
    let slowness = if received.to == ONE.parse().unwrap() {
        speed
    } else {
        1
    };
    cluster.pass(&received.respond(100));
    cluster.wait(works[0] * slowness);
    cluster.pass(&received.respond(180));
    cluster.wait(s(2));
    let answered = cluster.pass(&received.respond(200));
    let mut caller = Dialog::of_caller(&invite, &answered);
    cluster.pass(&caller.ack());
    let bye = cluster.pass(&caller.request("BYE"));
    cluster.wait(works[1] * slowness);
    cluster.pass(&bye.respond(200));
}

fn cost(cluster: &Cluster, method: &str) -> f64 {
    let snapshot = cluster.shared.snapshot();
    let costs = &snapshot.config().pools[0].costs;
    costs.iter().find(|(known, _)| known == method).unwrap().1
}

fn capacities(cluster: &Cluster) -> [f64; 2] {
    [ONE, TWO].map(|at| cluster.member(at).server.capacity())
}

#[test]
fn costs_and_speeds_are_told_apart() {
    let mut cluster = Cluster::with_workers(learning(&[ONE, TWO]), 2);
    for number in 0..200 {
        call(&mut cluster, &number.to_string(), [ms(8), ms(2)], 4);
    }
    cluster.wait(s(1));
    assert!((cost(&cluster, "INVITE") - 4.0).abs() < 0.1);
    assert_eq!(cost(&cluster, "BYE"), 1.0);
    let [one, two] = capacities(&cluster);
    assert!((two / one - 4.0).abs() < 0.1, "{one} {two}");
    cluster.wait(s(40));
    assert_eq!(cluster.total(), (0, 0, 0.0));
}

#[test]
fn what_is_known_stays_when_it_is_right_and_when_nothing_is_measured() {
    let mut cluster = Cluster::with_workers(learning(&[ONE, TWO]), 2);
    for number in 0..200 {
        call(&mut cluster, &number.to_string(), [ms(7), ms(4)], 1);
    }
    assert_eq!(cost(&cluster, "INVITE"), 1.75);
    assert_eq!(capacities(&cluster), [1.0, 1.0]);
    let mut cluster = Cluster::new(learning(&[ONE, TWO]));
    cluster.wait(s(10));
    assert_eq!(cost(&cluster, "INVITE"), 1.75);
}

#[test]
fn a_reload_forgets_no_speed() {
    let mut cluster = Cluster::with_workers(learning(&[ONE, TWO]), 2);
    for number in 0..200 {
        call(&mut cluster, &number.to_string(), [ms(8), ms(2)], 4);
    }
    let learned = capacities(&cluster);
    cluster
        .shared
        .reload(learning(&[ONE, TWO]), cluster.now)
        .unwrap();
    assert_eq!(capacities(&cluster), learned);
    assert_eq!(cost(&cluster, "INVITE"), 1.75);
    cluster.wait(s(2));
    assert!((cost(&cluster, "INVITE") - 4.0).abs() < 0.1);
}

/// An operator's weight was overwritten a second later.
#[test]
fn what_the_operator_sets_is_kept_until_a_reload() {
    let mut cluster = Cluster::with_workers(learning(&[ONE, TWO]), 2);
    cluster.member(ONE).weigh(3.0);
    for number in 0..200 {
        call(&mut cluster, &number.to_string(), [ms(8), ms(2)], 4);
    }
    let [one, two] = capacities(&cluster);
    assert_eq!(one, 3.0);
    assert!((two - 2.0).abs() < 0.1, "{two}");
    cluster
        .shared
        .reload(learning(&[ONE, TWO]), cluster.now)
        .unwrap();
    assert_eq!(capacities(&cluster), [1.0, two]);
    cluster.wait(s(2));
    let [one, two] = capacities(&cluster);
    assert!((two / one - 4.0).abs() < 0.1, "{one} {two}");
}

/// A server that stands still has no room for more calls, but for help there is.
#[test]
fn a_call_for_help_goes_to_a_server_without_room() {
    let mut config = config(&[ONE]);
    config.pools[0].answer_timeout = s(32);
    let mut cluster = Cluster::new(config);
    let mut calls = 0;
    let mut call = |cluster: &mut Cluster| {
        calls += 1;
        cluster.wait(ms(20));
        cluster.pass(&request("INVITE", ALICE, &format!("call-{calls}")))
    };
    for _ in 0..100 {
        let sent = call(&mut cluster);
        cluster.pass(&sent.respond(486));
    }
    let is_refused = |sent: Sent| sent.to == ALICE.parse().unwrap();
    assert!((0..100).any(|_| is_refused(call(&mut cluster))));
    let mut help = request("INVITE", ALICE, "help");
    help.start = "INVITE urn:service:sos SIP/2.0".to_owned();
    assert_eq!(cluster.pass(&help).to, ONE.parse().unwrap());
}

#[test]
fn requests_that_met_others_tell_nothing() {
    let mut cluster = Cluster::new(learning(&[ONE]));
    for number in 0..200 {
        let invites = ["a", "b"].map(|name| request("INVITE", ALICE, &format!("{name}{number}")));
        let received = invites.map(|invite| cluster.pass(&invite));
        cluster.wait(ms(5));
        cluster.pass(&received[0].respond(486));
        cluster.wait(ms(500));
        cluster.pass(&received[1].respond(486));
        let message = cluster.pass(&request("MESSAGE", ALICE, &format!("c{number}")));
        cluster.wait(ms(5));
        cluster.pass(&message.respond(200));
    }
    cluster.wait(s(1));
    let ratio = cost(&cluster, "INVITE") / cost(&cluster, "MESSAGE");
    assert!((ratio - 1.0).abs() < 0.1, "{ratio}");
}

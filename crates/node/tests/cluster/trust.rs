//! Who may do what: routes by sender, calls of users alone, asserted identities.

use node::{Config, config::Source};

use crate::{
    harness::{ALICE, Cluster, EDGE, ONE, THREE, TWO, config, listener, pool, route},
    message::request,
};

const INSIDE: &str = "10.0.0.10:5060";
const PEER: &str = "172.16.0.9:5060";

/// Peers' requests go to one server, those to the second listener to another, those for +49 and 0 to
/// a third, if they are INVITEs.
fn by_traits() -> Config {
    let mut config = config(&[ONE]);
    config.listeners.push(listener(INSIDE));
    config.trust.peers = vec!["172.16.0.0/16".parse().unwrap()];
    config.pools = vec![
        pool("peers", &[ONE]),
        pool("inside", &[TWO]),
        pool("numbers", &[THREE]),
    ];
    let mut routes = ["peers", "inside", "numbers"].map(|to| route(&[], &[], to));
    routes[0].from = vec![
        Source::Peers,
        Source::Network("198.18.0.0/15".parse().unwrap()),
    ];
    routes[1].listeners = vec![1];
    routes[2].users = ["+49", "0"].map(str::to_owned).into();
    routes[2].methods = vec!["INVITE".to_owned()];
    config.routes = routes.into();
    config
}

#[test]
fn routes_match_on_all_that_they_name() {
    let cases = [
        (PEER, 0, "INVITE", "sip:x@example.com", Ok(ONE)),
        (TWO, 0, "INVITE", "sip:x@example.com", Ok(ONE)),
        ("198.19.0.1:9", 1, "OPTIONS", "sip:x@example.com", Ok(ONE)),
        (ALICE, 1, "MESSAGE", "sip:+49@example.com", Ok(TWO)),
        (ALICE, 0, "INVITE", "sip:+4930@example.com", Ok(THREE)),
        (ALICE, 0, "INVITE", "sip:%2B4930@example.com", Ok(THREE)),
        (ALICE, 0, "INVITE", "sip:0@example.com", Ok(THREE)),
        (ALICE, 0, "INVITE", "tel:+49-30", Ok(THREE)),
        (ALICE, 0, "MESSAGE", "sip:0@example.com", Err(405)),
        (ALICE, 0, "INVITE", "sip:+4@example.com", Err(404)),
        (ALICE, 0, "INVITE", "sip:example.com", Err(404)),
        ("198.20.0.1:9", 0, "OPTIONS", "sip:x@example.com", Err(404)),
    ];
    for (number, (from, listener, method, uri, expected)) in cases.into_iter().enumerate() {
        let mut cluster = Cluster::new(by_traits());
        let mut message = request(method, from, &number.to_string());
        message.start = format!("{method} {uri} SIP/2.0");
        let sent = cluster.pass_by(listener, &message);
        match expected {
            Ok(server) => assert_eq!(sent.to, server.parse().unwrap(), "{from} {uri}"),
            Err(status) => assert_eq!(sent.status(), status, "{from} {uri}"),
        }
    }
}

/// A stranger learns nothing of the methods that others may send.
#[test]
fn allow_tells_of_the_sender_s_own_routes_alone() {
    let mut config = by_traits();
    config.routes[0].methods = vec!["MESSAGE".to_owned()];
    let mut cluster = Cluster::new(config);
    let mut message = request("INFO", ALICE, "call");
    message.start = format!("INFO sip:0@{EDGE} SIP/2.0");
    let refused = cluster.pass(&message);
    assert_eq!(
        (refused.status(), refused.all("Allow")),
        (405, vec!["INVITE"])
    );
}

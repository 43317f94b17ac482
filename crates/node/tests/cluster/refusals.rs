//! What the node answers itself, and what it drops.

use node::{Config, stats::Dropped};

use crate::{
    harness::{ALICE, Cluster, EDGE, ONE, TWO, config, pool, route},
    message::{Msg, param, request},
};

fn farm() -> Config {
    let mut config = config(&[ONE]);
    config.pools.push(pool("registrars", &[TWO]));
    config.routes = vec![
        route(&["REGISTER"], &["example.com"], "registrars"),
        route(&["INVITE", "OPTIONS", "SUBSCRIBE"], &["example.com"], "app"),
    ];
    config
}

/// A request that the node answers itself, with this status.
fn check(message: Msg, status: u16) -> Msg {
    let mut cluster = Cluster::new(farm());
    let reply = cluster.pass(&message);
    assert_eq!(reply.to, message.from, "{message}");
    assert_eq!(reply.status(), status, "{message}");
    assert_eq!(cluster.replies(status), 1);
    assert_eq!(cluster.total(), (0, 0, 0.0));
    assert_eq!(cluster.sizes(), (0, 0, 0));
    reply.message
}

fn with_uri(method: &str, uri: &str) -> Msg {
    let mut message = request(method, ALICE, "call");
    message.start = format!("{method} {uri} SIP/2.0");
    message
}

/// RFC 3261 §8.2.6.2, §8.2.7
#[test]
fn an_answer_is_made_of_its_request() {
    let message = request("INVITE", ALICE, "call").set("Max-Forwards", 0);
    let reply = check(message.clone(), 483);
    for header in ["From", "Call-ID", "CSeq"] {
        assert_eq!(reply.all(header), message.all(header));
    }
    assert_eq!(reply.branch(), message.branch());
    assert_eq!(param(reply.get("Via"), "rport"), Some("5070"));
    assert!(param(reply.get("To"), "tag").is_some());
    assert_eq!(
        check(message, 483),
        reply,
        "a retransmission gets the same To tag"
    );
}

/// RFC 3261 §18.2.2: without rport the answer goes to the port of the Via, if no NAT is between.
#[test]
fn an_answer_goes_to_the_port_of_the_via() {
    let mut cluster = Cluster::new(farm());
    let message = request("INVITE", ALICE, "call")
        .set("Max-Forwards", 0)
        .set("Via", "SIP/2.0/UDP 203.0.113.9:5099;branch=z9hG4bK-1");
    let reply = cluster.pass(&message);
    assert_eq!(reply.to, "203.0.113.7:5099".parse().unwrap());
    assert_eq!(param(reply.get("Via"), "received"), Some("203.0.113.7"));
}

#[test]
fn malformed_requests() {
    let invite = request("INVITE", ALICE, "call");
    check(invite.clone().without("Call-ID"), 400);
    check(invite.clone().without("From"), 400);
    check(invite.clone().set("CSeq", "1 BYE"), 400);
    check(invite.clone().set("CSeq", "4294967296 INVITE"), 400);
    check(invite.clone().set("Max-Forwards", 256), 400);
    check(invite.clone().with("Max-Forwards", 5), 400);
    check(invite.clone().with("Route", "<nonsense"), 400);
    check(with_uri("INVITE", "sip:@example.com"), 400);
    check(with_uri("INVITE", "sip:x@example.com?Replaces=y"), 400);
}

#[test]
fn routes_say_404_or_405() {
    check(with_uri("INVITE", "sip:x@example.org"), 404);
    let reply = check(request("MESSAGE", ALICE, "call"), 405);
    assert_eq!(
        reply.all("Allow"),
        ["INVITE", "OPTIONS", "REGISTER", "SUBSCRIBE"]
    );
}

#[test]
fn schemes_and_versions() {
    check(with_uri("INVITE", "http://example.com/"), 416);
    check(with_uri("INVITE", "sips:x@example.com"), 416);
    let mut invite = request("INVITE", ALICE, "call");
    invite.start = "INVITE sip:x@example.com SIP/3.0".to_owned();
    check(invite, 505);
}

/// RFC 3261 §16.3 step 5
#[test]
fn extensions_that_a_proxy_must_know() {
    let invite = request("INVITE", ALICE, "call")
        .with("Proxy-Require", "privacy, foo")
        .with("Proxy-Require", "bar");
    let reply = check(invite, 420);
    assert_eq!(reply.all("Unsupported"), ["privacy", "foo", "bar"]);
}

#[test]
fn hops_are_bounded() {
    check(request("INVITE", ALICE, "call").set("Max-Forwards", 0), 483);
    let mut cluster = Cluster::new(farm());
    let last = request("INVITE", ALICE, "call").set("Max-Forwards", 1);
    assert_eq!(cluster.pass(&last).all("Max-Forwards"), ["0"]);
}

#[test]
fn dialogs_and_transactions_that_are_not_there() {
    let to = "<sip:service@example.com>;tag=gone";
    check(request("BYE", ALICE, "call").set("To", to), 481);
    check(request("INVITE", ALICE, "call").set("To", to), 481);
    check(request("INVITE", ALICE, "call").set("To", to).cancel(), 481);
}

/// RFC 3261 §11
#[test]
fn options_for_the_node_itself() {
    let reply = check(with_uri("OPTIONS", &format!("sip:{EDGE}")), 200);
    assert!(!reply.get("Allow").is_empty());
    check(
        with_uri("OPTIONS", &format!("sip:{EDGE}")).set("Max-Forwards", 0),
        200,
    );
}

/// A draining edge answered OPTIONS with 200, so whoever probed it went on sending it calls.
#[test]
fn options_to_a_draining_node_are_refused() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let options = with_uri("OPTIONS", &format!("sip:{EDGE}"));
    assert_eq!(cluster.pass(&options).status(), 200);
    cluster.shared.drain();
    let refused = cluster.pass(&options);
    assert_eq!(refused.status(), 503);
    assert!(!refused.get("Retry-After").is_empty());
    assert_eq!((cluster.replies(200), cluster.replies(503)), (1, 1));
}

#[test]
fn without_a_server_a_request_is_refused() {
    let mut cluster = Cluster::new(config(&[ONE]));
    cluster.take_down(ONE);
    let tried = cluster.pass(&request("INVITE", ALICE, "last-resort"));
    assert_eq!(tried.to, ONE.parse().unwrap());
    let reply = cluster.pass(&request("INVITE", ALICE, "call"));
    assert_eq!(reply.status(), 503);
    assert!(!reply.get("Retry-After").is_empty());
    assert_eq!(cluster.replies(503), 1);
    cluster.pass(&tried.respond(486));
    assert_eq!(cluster.total(), (0, 0, 0.0));
}

/// RFC 3261 §17.1.1.3: nobody waits for an answer to an ACK.
#[test]
fn an_ack_is_never_answered() {
    let ack = request("ACK", ALICE, "call");
    let to = "<sip:service@example.com>;tag=gone";
    for message in [
        ack.clone(),
        ack.clone().set("To", to),
        ack.clone().set("Max-Forwards", 0),
        ack.clone().without("Call-ID"),
        ack.clone().with("Proxy-Require", "foo"),
        with_uri("ACK", "http://example.com/"),
        with_uri("ACK", "sip:x@example.org"),
    ] {
        let mut cluster = Cluster::new(farm());
        assert!(cluster.send(&message).is_empty(), "{message}");
        assert_eq!(cluster.dropped(Dropped::RefusedAck), 1, "{message}");
        assert_eq!(cluster.sizes(), (0, 0, 0));
    }
}

#[test]
fn what_can_not_be_answered_is_dropped_and_counted() {
    let mut cluster = Cluster::new(farm());
    let mut drops = |bytes: &[u8], reason| {
        assert!(
            cluster
                .send_bytes(0, ALICE.parse().unwrap(), bytes)
                .is_empty()
        );
        assert_eq!(cluster.dropped(reason), 1, "{reason:?}");
    };
    drops(b"\r\n", Dropped::KeepAlive);
    drops(b"GET / HTTP/1.1\r\n\r\n", Dropped::Malformed);
    let received =
        request("INVITE", ONE, "call").set("Via", "SIP/2.0/UDP 10.9.9.9;branch=z9hG4bK1");
    let foreign = received.response(ONE.parse().unwrap(), 200, "x");
    drops(foreign.to_string().as_bytes(), Dropped::ForeignResponse);
    let malformed = foreign.without("CSeq");
    drops(malformed.to_string().as_bytes(), Dropped::MalformedResponse);
}

/// RFC 3261 §18.1.2: a Via with our name is not enough.
#[test]
fn a_response_with_no_way_back_is_dropped() {
    let mut cluster = Cluster::new(farm());
    let received = cluster.pass(&request("OPTIONS", ALICE, "call"));
    let response = received.respond(200);
    let ours = response.get("Via").to_owned();
    assert!(cluster.send(&response.set("Via", ours)).is_empty());
    assert_eq!(cluster.dropped(Dropped::NoReturnPath), 1);
}

#[test]
fn drain_refuses_what_is_new() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let mut up = cluster.establish("up");
    let placed = request("INVITE", ALICE, "placed");
    let received = cluster.pass(&placed);
    cluster.shared.drain();
    let refused = cluster.pass(&request("INVITE", ALICE, "new"));
    assert_eq!(
        (refused.to, refused.status()),
        (ALICE.parse().unwrap(), 503)
    );
    assert!(!refused.get("Retry-After").is_empty());
    assert_eq!(
        cluster.pass(&placed).to,
        received.to,
        "it was let in before"
    );
    cluster.exchange(&up.caller.request("INVITE"), 200);
    cluster.pass(&up.caller.ack_latest());
    cluster.exchange(&up.caller.request("BYE"), 200);
    cluster.pass(&received.respond(486));
    assert_eq!(cluster.total(), (0, 0, 0.0));
}

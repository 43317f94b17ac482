//! Clients behind NATs, and strangers who say that they are somebody's server.

use node::{
    Config,
    config::Trust,
    stats::{Dropped, Event},
};

use crate::{
    harness::{ALICE, Cluster, EDGE, Established, ONE, Sent, TWO, config, stateful},
    message::{Dialog, Msg, request, uri_of},
};

/// As Alice's host knows itself.
const PRIVATE: &str = "192.168.1.2:5060";
/// As others see her.
const NAT: &str = "203.0.113.7:40001";
/// The same after her NAT forgot her.
const REBOUND: &str = "203.0.113.7:40002";
const STRANGER: &str = "198.51.100.66:5060";

fn farm() -> Config {
    config(&[ONE, TWO])
}

/// A call from behind a NAT.
fn natted(cluster: &mut Cluster) -> Established {
    let mut call = cluster.establish_with(&request("INVITE", PRIVATE, "call").from(NAT));
    assert_eq!(
        uri_of(call.invite.get("Contact")),
        "sip:alice@192.168.1.2:5060"
    );
    call.caller.us = NAT.parse().unwrap();
    call
}

fn is_sent_to(cluster: &mut Cluster, message: &Msg, to: &str) {
    assert_eq!(cluster.pass(message).to, to.parse().unwrap(), "{message}");
}

/// Callers behind a NAT got no BYE: it went to the private address of their Contact.
#[test]
fn a_caller_behind_a_nat_is_hung_up_on() {
    for config in [farm(), stateful(&[ONE, TWO])] {
        for restarts in [false, true] {
            let mut cluster = Cluster::new(config.clone());
            let mut call = natted(&mut cluster);
            if restarts {
                cluster.restart(config.clone());
            }
            for method in ["INVITE", "BYE"] {
                let received = cluster.exchange(&call.callee.request(method), 200);
                assert_eq!(received.to, NAT.parse().unwrap(), "{method}");
                assert_eq!(received.uri(), "sip:alice@192.168.1.2:5060");
            }
            assert_eq!(cluster.total(), (0, 0, 0.0));
        }
    }
}

#[test]
fn a_server_that_ignores_the_route_set_reaches_its_caller_too() {
    let mut cluster = Cluster::new(farm());
    let mut call = natted(&mut cluster);
    call.callee.routes.clear();
    is_sent_to(&mut cluster, &call.callee.request("BYE"), NAT);
}

/// A caller whose NAT gave it another port was lost to its server.
#[test]
fn a_caller_is_where_a_server_last_answered_it() {
    let mut cluster = Cluster::new(farm());
    let mut call = natted(&mut cluster);
    let received = cluster.pass(&call.caller.request("INFO").from(REBOUND));
    is_sent_to(&mut cluster, &call.callee.request("INFO"), NAT);
    cluster.pass(&received.respond(200));
    is_sent_to(&mut cluster, &call.callee.request("BYE"), REBOUND);
}

#[test]
fn a_request_that_its_server_refuses_moves_nobody() {
    let mut cluster = Cluster::new(farm());
    let mut call = natted(&mut cluster);
    let replayed = cluster.pass(&call.caller.request("INFO").from(STRANGER));
    cluster.pass(&replayed.respond(500));
    is_sent_to(&mut cluster, &call.callee.request("BYE"), NAT);
}

/// RFC 3261 §16.6: a proxy of ours may have sent the INVITE, and its Contact is elsewhere.
#[test]
fn a_trusted_caller_is_reached_by_its_route_set() {
    let mut config = farm();
    let peers = vec!["198.51.100.0/24".parse().unwrap()];
    config.trust = Trust {
        peers,
        ..Trust::default()
    };
    let mut cluster = Cluster::new(config.clone());
    let invite =
        request("INVITE", "198.51.100.9:5070", "call").set("Contact", "<sip:a@198.51.100.8:5080>");
    let mut call = cluster.establish_with(&invite);
    is_sent_to(
        &mut cluster,
        &call.callee.request("INFO"),
        "198.51.100.8:5080",
    );
    // Behind a NAT nobody is.
    let mut cluster = Cluster::new(config);
    let invite = request("INVITE", PRIVATE, "call").from("198.51.100.9:5070");
    let mut call = cluster.establish_with(&invite);
    is_sent_to(
        &mut cluster,
        &call.callee.request("INFO"),
        "198.51.100.9:5070",
    );
}

/// A caller's own token with the tags turned round sent whatever it liked to whom it liked, and had the
/// DNS asked for names.
#[test]
fn a_stranger_does_not_speak_for_a_server() {
    for restarts in [false, true] {
        let mut cluster = Cluster::new(farm());
        let call = cluster.establish("call");
        if restarts {
            cluster.restart(farm());
        }
        let turned = |method: &str, uri: &str| {
            Msg::new(ALICE.parse().unwrap(), format!("{method} {uri} SIP/2.0"))
                .with(
                    "Via",
                    format!("SIP/2.0/UDP {ALICE};rport;branch=z9hG4bK-{method}"),
                )
                .with("Max-Forwards", 70)
                .with("Route", call.caller.routes.join(", "))
                .with("From", call.answer.get("To"))
                .with("To", call.answer.get("From"))
                .with("Call-ID", "call@test")
                .with("CSeq", format!("7 {method}"))
        };
        for uri in ["sip:victim@198.51.100.1:5060", "sip:victim@victim.example"] {
            let refused = cluster.pass(&turned("MESSAGE", uri));
            assert_eq!(
                (refused.status(), refused.to),
                (403, ALICE.parse().unwrap())
            );
        }
        assert!(
            cluster
                .send(&turned("ACK", "sip:victim@198.51.100.1"))
                .is_empty()
        );
        assert_eq!(cluster.event(Event::NotOfServer), 3);
        assert_eq!(cluster.dropped(Dropped::RefusedAck), 1);
        assert!(cluster.questions.is_empty());
    }
}

/// An INVITE without a From tag got a token that fitted any request without one.
#[test]
fn a_request_without_a_tag_gets_no_token() {
    let mut cluster = Cluster::new(farm());
    let received =
        cluster.pass(&request("INVITE", ALICE, "old").set("From", "<sip:alice@example.com>"));
    assert_eq!(received.get("Record-Route"), "");
}

#[test]
fn the_secret_changes_without_losing_a_call() {
    let mut config = farm();
    let mut cluster = Cluster::new(config.clone());
    let mut calls = [natted(&mut cluster), cluster.establish("other")];
    let old = config.secret.clone();
    config.secret = b"the secret that comes after the one before"
        .to_vec()
        .into();
    config.accepted_secret = Some(old);
    cluster.restart(config.clone());
    is_sent_to(&mut cluster, &calls[0].callee.request("BYE"), NAT);
    let bye = cluster.pass(&calls[1].caller.request("BYE"));
    assert_eq!(bye.to, calls[1].server);
    config.accepted_secret = None;
    cluster.restart(config);
    assert_eq!(cluster.pass(&calls[1].caller.request("BYE")).status(), 481);
}

/// A REGISTER as Alice's phone sends it from behind her NAT.
fn register() -> Msg {
    request("REGISTER", PRIVATE, "register").from(NAT)
}

/// The call that a registrar behind the edge sends to a phone, with the Path of its binding.
fn call_to_phone(from: &str, path: &str, call: &str) -> Msg {
    let mut invite = request("INVITE", from, call).with("Route", path);
    invite.start = format!("INVITE sip:alice@{PRIVATE} SIP/2.0");
    invite
}

/// Phones behind a NAT that registered through an edge could not be called.
#[test]
fn a_phone_that_registers_through_an_edge_is_reached() {
    for config in [farm(), stateful(&[ONE, TWO])] {
        let mut cluster = Cluster::new(config.clone());
        let path = cluster.pass(&register()).get("Path").to_owned();
        assert!(path.ends_with(&format!("@{EDGE};lr>")), "{path}");
        // Another edge with this address and secret has taken over.
        cluster.restart(config);
        let invite = call_to_phone(ONE, &path, "in");
        let sent = cluster.send(&invite);
        let received = sent.iter().find(|sent| sent.is_request()).unwrap();
        assert_eq!(received.to, NAT.parse().unwrap());
        assert_eq!(received.uri(), format!("sip:alice@{PRIVATE}"));
        assert_eq!(received.get("Route"), "");
        let answer = received.respond(200).from(NAT);
        let answered = cluster.pass(&answer);
        assert_eq!(answered.to, ONE.parse().unwrap());
        let mut caller = Dialog::of_caller(&invite, &answered);
        let mut callee = Dialog::of_callee(received, &answer);
        is_sent_to(&mut cluster, &caller.request("INFO"), NAT);
        is_sent_to(&mut cluster, &callee.request("BYE").from(REBOUND), ONE);
    }
}

#[test]
fn a_called_phone_is_where_a_server_last_answered_it() {
    let mut cluster = Cluster::new(farm());
    let path = cluster.pass(&register()).get("Path").to_owned();
    let invite = call_to_phone(ONE, &path, "in");
    let received = cluster.pass(&invite);
    let answer = received.respond(200).from(NAT);
    let answered = cluster.pass(&answer);
    let mut caller = Dialog::of_caller(&invite, &answered);
    let mut callee = Dialog::of_callee(&received, &answer);
    let at_server = cluster.pass(&callee.request("INFO").from(REBOUND));
    is_sent_to(&mut cluster, &caller.request("INFO"), NAT);
    cluster.pass(&at_server.respond(200));
    is_sent_to(&mut cluster, &caller.request("BYE"), REBOUND);
}

/// A request as the registrar behind the edge passes it on.
fn via_core(request: &Sent) -> Msg {
    let mut passed = request.message.clone().without("Content-Length");
    passed.from = request.to;
    let branch = request.get("CSeq").replace(' ', "-");
    let via = format!(
        "SIP/2.0/UDP {};rport;branch=z9hG4bK-core-{branch}",
        request.to
    );
    passed.headers.insert(0, ("Via".to_owned(), via));
    passed
}

/// A call from a phone to a phone over one edge: the edge saw both legs as one dialog of its server's, and
/// sent the call back to its caller.
#[test]
fn a_call_passes_its_edge_twice_and_counts_once() {
    for config in [farm(), stateful(&[ONE])] {
        let mut cluster = Cluster::new(Config {
            pools: config.pools[..1].to_vec(),
            ..config
        });
        let path = cluster.pass(&register()).get("Path").to_owned();
        let invite = request("INVITE", ALICE, "call").with("X-Leg", "one");
        let at_core = request_of(cluster.send(&invite));
        let mut to_phone = via_core(&at_core);
        to_phone.start = format!("INVITE sip:alice@{PRIVATE} SIP/2.0");
        let at_phone = cluster.pass(&to_phone.with("Route", &path));
        assert_eq!(at_phone.to, NAT.parse().unwrap());
        let answer = at_phone.respond(200).from(NAT);
        let at_core = cluster.pass(&answer);
        let mut at_core =
            Msg::parse(at_core.to, &at_core.message.to_string()).without("Content-Length");
        at_core.headers.remove(0);
        let answered = cluster.pass(&at_core);
        assert_eq!(answered.to, ALICE.parse().unwrap());
        assert_eq!(answered.all("Record-Route").len(), 2);
        let mut caller = Dialog::of_caller(&invite, &answered);
        let mut callee = Dialog::of_callee(&at_phone, &answer);
        assert_eq!(cluster.total().0, 1);
        for (message, to) in [
            (caller.ack(), NAT),
            (caller.request("INFO"), NAT),
            (callee.request("INFO").from(NAT), ALICE),
            (caller.request("BYE"), NAT),
        ] {
            let at_core = cluster.pass(&message);
            assert!(config_has(&cluster, at_core.to), "{at_core:?}");
            is_sent_to(&mut cluster, &via_core(&at_core), to);
        }
    }
}

/// A response as it comes back from the registrar that it passed.
fn back_via_core(at_core: &Sent) -> Msg {
    let mut back = Msg::parse(at_core.to, &at_core.message.to_string()).without("Content-Length");
    back.headers.remove(0);
    back
}

/// A called phone whose NAT gave it another port was lost, if its caller came over the same edge: the edge
/// followed the caller's leg alone.
#[test]
fn a_called_phone_that_moves_is_found_beside_its_caller() {
    for config in [farm(), stateful(&[ONE])] {
        let mut cluster = Cluster::new(Config {
            pools: config.pools[..1].to_vec(),
            ..config
        });
        let path = cluster.pass(&register()).get("Path").to_owned();
        let invite = request("INVITE", ALICE, "call");
        let mut to_phone = via_core(&request_of(cluster.send(&invite)));
        to_phone.start = format!("INVITE sip:alice@{PRIVATE} SIP/2.0");
        let at_phone = request_of(cluster.send(&to_phone.with("Route", &path)));
        let answer = at_phone.respond(200).from(NAT);
        let at_core = cluster.pass(&answer);
        let answered = cluster.pass(&back_via_core(&at_core));
        let mut caller = Dialog::of_caller(&invite, &answered);
        let mut callee = Dialog::of_callee(&at_phone, &answer);
        // What is refused may be a replay.
        for (from, status, is_at) in [(STRANGER, 500, NAT), (REBOUND, 200, REBOUND)] {
            let at_core = cluster.pass(&callee.request("INFO").from(from));
            let at_alice = cluster.pass(&via_core(&at_core));
            let at_core = cluster.pass(&at_alice.respond(status));
            is_sent_to(&mut cluster, &back_via_core(&at_core), from);
            let at_core = cluster.pass(&caller.request("INFO"));
            is_sent_to(&mut cluster, &via_core(&at_core), is_at);
        }
    }
}

/// RFC 3581 has a phone ask for answers to the port that it is seen at. One behind a NAT that does not ask got none.
#[test]
fn a_phone_that_asks_for_no_port_is_answered_where_it_is_seen() {
    for config in [farm(), stateful(&[ONE, TWO])] {
        let mut cluster = Cluster::new(config);
        let via = |host: &str| format!("SIP/2.0/UDP {host}:5060;branch=z9hG4bK-no-rport");
        let invite = request("INVITE", PRIVATE, "call").set("Via", via("192.168.1.2"));
        let received = request_of(cluster.send(&invite.clone().from(NAT)));
        for status in [180, 200] {
            is_sent_to(&mut cluster, &received.respond(status), NAT);
        }
        // Answers of our own, too.
        let unknown = request("BYE", PRIVATE, "unknown").set("Via", via("192.168.1.2"));
        let unknown = unknown.set("To", "<sip:bob@example.com>;tag=b").from(NAT);
        is_sent_to(&mut cluster, &unknown, NAT);
        // A host with a public address knows its port.
        let public = unknown.set("Via", via("203.0.113.9"));
        is_sent_to(&mut cluster, &public, "203.0.113.7:5060");
    }
}

/// The request among what was sent.
fn request_of(sent: Vec<Sent>) -> Sent {
    sent.into_iter().find(|sent| sent.is_request()).unwrap()
}

/// Whether a server listens at an address.
fn config_has(cluster: &Cluster, address: std::net::SocketAddr) -> bool {
    let snapshot = cluster.shared.snapshot();
    let mut servers = snapshot.members().iter().flatten();
    servers.any(|member| member.address == address)
}

/// Somebody may register a phone that is elsewhere: it is not reached where the REGISTER came from.
#[test]
fn a_phone_elsewhere_gets_no_path() {
    let mut cluster = Cluster::new(farm());
    let near = register().set(
        "Via",
        format!("SIP/2.0/UDP {NAT};rport;branch=z9hG4bK-near"),
    );
    for (contact, has_path) in [
        ("<sip:alice@203.0.113.7:40001>", true),
        ("<sip:alice@203.0.113.7:5090>", false),
    ] {
        let sent = cluster.pass(
            &near
                .clone()
                .set("Contact", contact)
                .set("Call-ID", contact.len()),
        );
        assert_eq!(!sent.get("Path").is_empty(), has_path, "{contact}");
    }
    for (contact, has_path) in [
        ("<sip:alice@198.51.100.20>", false),
        ("<sip:alice@phone.example.com>", false),
        ("<sip:alice@x7f.invalid>", true),
        ("<sip:alice@10.1.2.3>", true),
        ("<sip:alice@203.0.113.7:5090>", true),
    ] {
        let register = register().set("Contact", contact).set("Call-ID", contact);
        let sent = cluster.pass(&register);
        assert_eq!(!sent.get("Path").is_empty(), has_path, "{contact}");
    }
}

#[test]
fn strangers_do_not_use_the_path_to_a_phone() {
    let mut config = farm();
    config.trust.peers = vec!["198.51.100.9/32".parse().unwrap()];
    let mut cluster = Cluster::new(config);
    let path = cluster.pass(&register()).get("Path").to_owned();
    let refused = cluster.pass(&call_to_phone(STRANGER, &path, "a"));
    assert_eq!(
        (refused.status(), cluster.event(Event::NotOfServer)),
        (403, 1)
    );
    let received = cluster.pass(&call_to_phone("198.51.100.9:5060", &path, "b"));
    assert_eq!(received.to, NAT.parse().unwrap());
    assert_ne!(received.get("Record-Route"), "");
}

/// RFC 3327 §5.2: a server that registers itself somewhere, and what comes over another edge, has its way.
#[test]
fn trusted_registrations_get_no_path() {
    let mut config = farm();
    config.trust.peers = vec!["203.0.113.0/24".parse().unwrap()];
    let mut cluster = Cluster::new(config);
    assert_eq!(cluster.pass(&register()).get("Path"), "");
}

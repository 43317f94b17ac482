//! Requests whose every hop must be secure: RFC 3261 §26.2.2, RFC 5630.

use node::{Config, Transport, config::Listener};

use crate::{
    harness::{ALICE, Cluster, ONE, config, route, stateful},
    message::{Dialog, Msg, request},
    registrar::{World, open, register},
};

const SECURE: &str = "192.0.2.10:5061";
const PHONE: &str = "198.51.100.1:40001";

/// A listener for TLS, and servers by TLS if they are to be.
fn farm(mut config: Config, servers_are_secure: bool) -> Config {
    config.listeners.push(Listener {
        transport: Transport::Tls,
        address: SECURE.parse().unwrap(),
        advertise: SECURE.to_owned(),
    });
    if servers_are_secure {
        for server in &mut config.pools[0].servers {
            server.transport = Transport::Tls;
        }
    }
    config
}

fn sips(method: &str, uri: &str) -> Msg {
    let via = format!("SIP/2.0/TLS {ALICE};branch=z9hG4bK-{method}");
    let mut message = request(method, ALICE, method).set("Via", via);
    message.start = format!("{method} {uri} SIP/2.0");
    message
}

#[test]
fn a_secure_call_goes_by_tls_alone() {
    for base in [config(&[ONE]), stateful(&[ONE])] {
        let mut cluster = Cluster::new(farm(base, true));
        cluster.connect(ALICE, 1, 7);
        let invite = sips("INVITE", "sips:bob@example.com");
        let sent = cluster.send(&invite);
        let received = sent.iter().find(|sent| sent.is_request()).unwrap();
        assert_eq!(received.flow.transport, Transport::Tls);
        assert_eq!(received.uri(), "sips:bob@example.com");
        assert!(
            received.get("Record-Route").starts_with("<sips:"),
            "{}",
            received.get("Record-Route")
        );
        cluster.connect(ONE, 1, 8);
        let answer = received.respond(200).set("Contact", "<sips:bob@10.0.0.1>");
        let answered = cluster.pass(&answer);
        let mut caller = Dialog::of_caller(&invite, &answered);
        let mut callee = Dialog::of_callee(received, &answer);
        for message in [caller.ack(), caller.request("INFO")] {
            assert_eq!(cluster.pass(&message).to.to_string(), ONE);
        }
        assert_eq!(
            cluster
                .pass(&callee.request("BYE").from(ONE))
                .to
                .to_string(),
            ALICE
        );
    }
}

/// RFC 5630 §6.2
#[test]
fn a_secure_call_is_refused_where_it_would_not_stay_so() {
    let mut cluster = Cluster::new(farm(config(&[ONE]), false));
    cluster.connect(ALICE, 1, 7);
    let refused = cluster.pass(&sips("INVITE", "sips:bob@example.com"));
    assert_eq!(refused.status(), 480);
    assert!(refused.whole("Warning").contains("SIPS Not Allowed"));
    assert_eq!(cluster.total(), (0, 0, 0.0));
    // It has not come by TLS.
    let mut cluster = Cluster::new(farm(config(&[ONE]), true));
    let mut plain = request("INVITE", ALICE, "plain");
    plain.start = "INVITE sips:bob@example.com SIP/2.0".to_owned();
    assert_eq!(cluster.pass(&plain).status(), 416);
}

#[test]
fn a_secure_call_goes_to_contacts_that_are() {
    let contact = |scheme: &str| format!("<{scheme}:bob@10.9.9.9:5061;transport=tls>");
    for (registered, called, expected) in [
        ("sips", "sips", 0),
        ("sips", "sip", 0),
        ("sip", "sip", 0),
        ("sip", "sips", 480),
    ] {
        let mut config = farm(open(), false);
        config.routes = vec![
            route(&[], &["app.example.com"], "app"),
            config.routes[0].clone(),
        ];
        let mut world = World::new(config);
        world.cluster.connect(ALICE, 1, 7);
        let flow = world.cluster.connect(PHONE, 1, 41);
        let granted = world.pass(&register(1, &contact(registered)).from(PHONE));
        assert_eq!(granted.status(), 200);
        let sent = world.pass(&sips("INVITE", &format!("{called}:bob@example.com")));
        assert_eq!(sent.status(), expected, "{registered} {called}");
        if expected == 0 {
            assert_eq!(sent.flow, flow);
            assert_eq!(sent.uri(), contact(registered).trim_matches(['<', '>']));
        }
    }
    // One that is reached by a datagram is not.
    let mut world = World::new(farm(open(), false));
    world.cluster.connect(ALICE, 1, 7);
    let datagrams = register(1, "<sips:bob@10.9.9.9:5061>").from(PHONE);
    assert_eq!(world.pass(&datagrams).status(), 200);
    assert_eq!(
        world.pass(&sips("INVITE", "sips:bob@example.com")).status(),
        480
    );
}

//! Where contacts and Routes of strangers may lead.

use node::{NextHop, config::Config};

use super::*;
use crate::{
    forking::{binding, check, record_of},
    harness::TWO,
};

const SIBLING: &str = "203.0.113.50:5060";

/// A phone in the servers' own network, whose private addresses are taken as they are.
const INSIDE: &str = "10.9.9.9:5060";

/// A node with a sibling, a denied network, and a peers' network beside that of its servers.
fn guarded(config: Config) -> Config {
    let mut config = config;
    config.trust.denied = vec!["198.18.0.0/15".parse().unwrap()];
    config.exchange.peers = vec![SIBLING.parse().unwrap()];
    config
}

/// Contacts that lead where no user may send the node, and why they are refused.
const FORBIDDEN: [(&str, &str); 20] = [
    (ONE, "Contact Address Not Allowed"),
    ("example.net;maddr=10.0.0.1", "Contact Address Not Allowed"),
    ("[::ffff:10.0.0.1]:5060", "Contact Address Not Allowed"),
    (SIBLING, "Contact Address Not Allowed"),
    ("192.0.2.70", "Contact Address Not Allowed"),
    ("198.18.7.7:9", "Contact Address Not Allowed"),
    ("[::ffff:198.18.7.7]:9", "Contact Address Not Allowed"),
    ("127.0.0.1:5060", "Contact Address Not Allowed"),
    ("[::1]", "Contact Address Not Allowed"),
    ("0.0.0.0", "Contact Address Not Allowed"),
    ("[::]:5060", "Contact Address Not Allowed"),
    ("224.0.1.75", "Contact Address Not Allowed"),
    ("[ff02::1]", "Contact Address Not Allowed"),
    ("255.255.255.255", "Contact Address Not Allowed"),
    ("198.51.100.1:0", "Contact Address Not Allowed"),
    (
        "example.net;maddr=192.0.2.10",
        "Contact Address Not Allowed",
    ),
    (EDGE, "Contact Is This Domain"),
    ("EXAMPLE.com:5070", "Contact Is This Domain"),
    ("phone.test;maddr=example.com", "Contact Is This Domain"),
    ("phone.example.net", "Contact Must Be An Address"),
];

/// Anybody who registered could have the node send to its own servers, which believe it, to itself, and
/// wherever a firewall lets it.
#[test]
fn contacts_lead_to_strangers_only() {
    for (host, reason) in FORBIDDEN {
        let mut world = World::new(guarded(open()));
        let contact = format!("<sip:mallory@{host}>");
        let refused = world.pass(&through(INSIDE, register(1, &contact)));
        assert_eq!(refused.start, format!("SIP/2.0 403 {reason}"), "{host}");
        assert_eq!(world.cluster.event(Event::ForbiddenContact), 1);
        let removed = register(2, &format!("{contact};expires=0"));
        assert_eq!(world.pass(&removed).status(), 200);
        // Behind a Path it is that proxy's business.
        let behind = through(OUTER, register(3, &contact))
            .with("Supported", "path")
            .with("Path", format!("<sip:{OUTER};lr>"));
        assert_eq!(world.pass(&behind).status(), 200, "{host}");
    }
    for host in [
        "198.51.100.1",
        "10.0.0.1:5070",
        "x7f3.invalid",
        "a.test;transport=tcp",
    ] {
        let contact = format!("<sip:bob@{host}>");
        let register = through(INSIDE, register(1, &contact));
        let reply = World::new(guarded(open())).pass(&register);
        assert_eq!(reply.status(), 200, "{host}");
    }
}

/// A phone on the node's own host.
#[test]
fn loopback_is_for_who_registers_from_there() {
    for (from, status) in [("127.0.0.1:5070", 200), (INSIDE, 403)] {
        let contact = through(from, register(1, "<sip:bob@127.0.0.1:5080>"));
        assert_eq!(World::new(open()).pass(&contact).status(), status);
    }
}

/// Names of contacts are asked for where users prove who they are.
#[test]
fn users_may_name_their_phones() {
    let mut world = World::new(guarded(location()));
    world.add_user("bob");
    let challenge = world.pass(&register(1, ""));
    let shown = credentials(&challenge, "bob", "secret", 1);
    let named = register(2, "<sip:bob@phone.example.net>").with("Authorization", shown);
    assert_eq!(world.pass(&named).status(), 200);
}

/// What was allowed once may be forbidden when a call comes: it is left out as what can't be reached.
#[test]
fn calls_do_not_go_to_forbidden_contacts() {
    for (host, _) in FORBIDDEN
        .iter()
        .filter(|(host, _)| *host != "phone.example.net")
    {
        let mut cluster = Cluster::new(guarded(open()));
        let (bad, good) = (format!("sip:bob@{host}"), format!("sip:bob@{DESK}"));
        cluster.send(&request("INVITE", ALICE, "call"));
        let binding = |contact| Binding {
            received: INSIDE.parse().unwrap(),
            ..binding(contact)
        };
        let sent = cluster.answer(record_of(&[binding(&bad), binding(&good)]));
        check(&sent, &[(DESK, "INVITE")]);
        cluster.send(&request("INVITE", ALICE, "another"));
        let sent = cluster.answer(record_of(&[binding(&bad)]));
        assert_eq!(sent[0].status(), 480, "{host}");
    }
    let mut cluster = Cluster::new(guarded(open()));
    cluster.send(&request("INVITE", ALICE, "call"));
    cluster.answer(record_of(&[binding("sip:bob@198.18.7.7")]));
    assert_eq!(cluster.event(Event::ForbiddenTarget), 1);
}

/// A name could lead anywhere once its REGISTER was granted.
#[test]
fn what_a_name_leads_to_is_checked() {
    let mut cluster = Cluster::new(guarded(location()));
    let call = |cluster: &mut Cluster, number: u32, addresses: &[&str]| {
        cluster.send(&request("INVITE", ALICE, &format!("call{number}")));
        cluster.answer(record_of(&[binding("sip:bob@phones.example.net")]));
        let addresses = addresses.iter().map(|address| address.parse().unwrap());
        cluster.answer(Answer::Located(addresses.map(NextHop::udp).collect()))
    };
    let sent = call(&mut cluster, 1, &[ONE, "198.18.7.7:5060", DESK, EDGE]);
    check(&sent, &[(DESK, "INVITE")]);
    assert_eq!(cluster.event(Event::ForbiddenTarget), 3);
    // Nothing is left: as for every name that leads nowhere, where the phone registered from.
    let sent = call(&mut cluster, 2, &["127.0.0.1:5060"]);
    check(&sent, &[(PHONE, "INVITE")]);
    assert_eq!(cluster.event(Event::ForbiddenTarget), 4);
}

/// A stranger's Route was passed on to our servers, which follow what this node sends them.
#[test]
fn strangers_bring_no_foreign_route() {
    let mut config = guarded(crate::harness::config(&[ONE, TWO]));
    config.registrar = open().registrar;
    let registrar = config.registrar.as_mut().unwrap();
    registrar.service_route = vec!["sip:core.example.net;lr".to_owned()];
    config.trust.peers = open().trust.peers;
    let own = format!("<sip:{EDGE};lr>");
    for (route, is_allowed) in [
        ("<sip:203.0.113.66;lr>", false),
        ("<sip:host.example.net;lr>", false),
        ("<sip:192.0.2.70;lr>", false),
        ("<sip:10.0.0.1:5070;lr>", false),
        ("<tel:+49>", false),
        ("<sip:10.0.0.1;lr>, <sip:203.0.113.66;lr>", false),
        ("<sip:10.0.0.1:5060;lr>", true),
        ("<sip:203.0.113.50;lr>", true),
        ("<sip:example.com;lr>", true),
        ("<sip:core.example.net;lr>", true),
    ] {
        for fields in [vec![route], vec![&own, route]] {
            for (from, is_trusted) in [(ALICE, false), (ONE, true), (SIBLING, true), (OUTER, true)]
            {
                for method in ["INVITE", "MESSAGE", "OPTIONS"] {
                    let mut cluster = Cluster::new(config.clone());
                    let invite = request(method, from, "call");
                    let invite = fields
                        .iter()
                        .fold(invite, |it, route| it.with("Route", route));
                    let sent = cluster.send(&invite);
                    let is_refused = sent.first().is_some_and(|sent| sent.status() == 403);
                    assert_eq!(is_refused, !(is_trusted || is_allowed), "{from} {route}");
                    assert!(is_trusted || cluster.questions.is_empty());
                }
            }
        }
    }
}

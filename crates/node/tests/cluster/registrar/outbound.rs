//! Phones that keep several flows: RFC 5626.

use node::{Flow, Transport, config::Listener, stats::Event};

use super::*;
use crate::harness::stateful;

const DEVICE: &str = "+sip.instance=\"<urn:uuid:00000000-0000-1000-8000-AABBCCDDEEFF>\"";

/// A phone of Bob's, as its two connections are seen.
const FIRST: &str = "198.51.100.1:40001";
const SECOND: &str = "198.51.100.1:40002";

/// A listener for TCP beside the one for UDP.
fn connected(mut config: Config) -> Config {
    config.listeners.push(Listener {
        transport: Transport::Tcp,
        address: EDGE.parse().unwrap(),
        advertise: EDGE.to_owned(),
    });
    config
}

fn flow(number: u32) -> String {
    format!("<sip:bob@10.9.9.9:5060;transport=tcp;ob>;reg-id={number};{DEVICE}")
}

/// The REGISTER of a flow.
fn keep(cseq: u32, number: u32, from: &str) -> Msg {
    let register = register(cseq, &flow(number)).with("Supported", "path, outbound");
    register.set("Call-ID", format!("flow-{number}")).from(from)
}

fn call() -> Msg {
    let mut invite = request("INVITE", ALICE, "call");
    invite.start = "INVITE sip:bob@example.com SIP/2.0".to_owned();
    invite
}

/// A registrar where Bob's phone has two flows, the second the later.
fn two_flows(world: &mut World) -> [Flow; 2] {
    let flows =
        [(FIRST, 41), (SECOND, 42)].map(|(at, number)| world.cluster.connect(at, 1, number));
    for (number, at) in [(1, FIRST), (2, SECOND)] {
        let granted = world.pass(&keep(number, number, at));
        assert_eq!(
            (granted.status(), granted.get("Require")),
            (200, "outbound")
        );
        assert_eq!(granted.all("Contact").len(), number as usize);
        world.cluster.wait(s(1));
    }
    flows
}

/// The requests among what was sent.
fn requests(sent: Vec<Sent>) -> Vec<Sent> {
    sent.into_iter().filter(|sent| sent.is_request()).collect()
}

/// A call rang at a phone once for each of its flows.
#[test]
fn a_call_takes_one_flow_of_a_phone() {
    let mut world = World::new(connected(open()));
    let [_, second] = two_flows(&mut world);
    let sent = world.pass(&call());
    assert_eq!(sent.flow, second, "it was used last");
    // The phone has answered: it is not asked again.
    let refused = world.send(&sent.respond(503));
    assert!(requests(refused).iter().all(|sent| sent.method() == "ACK"));
}

/// RFC 5626 §7: the next flow follows a 430 or a 408, and the dead one is forgotten.
#[test]
fn a_dead_flow_is_left_for_the_next_and_forgotten() {
    let mut world = World::new(connected(open()));
    let [first, second] = two_flows(&mut world);
    let sent = world.pass(&call());
    assert_eq!(sent.flow, second);
    let again = world.unsent(&sent);
    assert_eq!(again.len(), 1, "{again:#?}");
    assert_eq!(again[0].flow, first);
    assert_eq!(world.cluster.event(Event::FlowFailed), 1);
    assert_eq!(world.cluster.event(Event::FlowRemoved), 1);
    let (_, contacts) = world.contacts(&register(9, ""));
    assert_eq!(contacts.len(), 1);
    // Without another flow its caller hears that the phone can't be reached now, and never of flows.
    let refused = world.unsent(&again[0]);
    let statuses: Vec<_> = refused.iter().map(|sent| sent.status()).collect();
    assert_eq!(statuses, [480]);
    assert!(world.store.is_empty());
    assert_eq!(world.cluster.sizes().2, 0);
}

#[test]
fn a_silent_flow_is_left_for_the_next_and_kept() {
    let mut world = World::new(connected(open()));
    let [first, second] = two_flows(&mut world);
    assert_eq!(world.pass(&call()).flow, second);
    let sent = requests(world.cluster.wait(s(5)));
    let flows: Vec<_> = sent.iter().map(|sent| (sent.method(), sent.flow)).collect();
    assert_eq!(flows, [("INVITE", first)]);
    assert_eq!(world.cluster.event(Event::FlowRemoved), 0);
}

/// A binding that its phone has made anew is another.
#[test]
fn a_flow_that_is_used_again_stays() {
    let mut world = World::new(connected(open()));
    two_flows(&mut world);
    let sent = world.pass(&call());
    world.pass(&keep(3, 2, SECOND));
    world.unsent(&sent);
    assert_eq!(world.contacts(&register(9, "")).1.len(), 2);
    assert_eq!(world.cluster.event(Event::FlowRemoved), 0);
}

#[test]
fn dead_flows_stay_where_that_is_wanted() {
    let mut config = connected(open());
    config.registrar.as_mut().unwrap().removes_dead = false;
    let mut world = World::new(config);
    two_flows(&mut world);
    let sent = world.pass(&call());
    assert_eq!(world.unsent(&sent).len(), 1);
    assert_eq!(world.contacts(&register(9, "")).1.len(), 2);
}

/// RFC 5626 §6
#[test]
fn flows_are_told_apart_where_the_first_hop_keeps_them() {
    let ob = "<sip:token@192.0.2.77:5070;lr;ob>";
    let plain = "<sip:token@192.0.2.77:5070;lr>";
    let one = flow(1);
    let both = format!("{one}, <sip:bob@198.51.100.9>");
    let dropped = format!("{one}, <sip:bob@198.51.100.9>;expires=0");
    let no_flow = format!("<sip:bob@10.9.9.9>;{DEVICE}");
    for (contact, supported, path, expected) in [
        (&one, "path, outbound", ob, (200, "outbound")),
        (&one, "path", ob, (200, "")),
        (&one, "path, outbound", plain, (439, "")),
        (&one, "path", plain, (200, "")),
        (&both, "path, outbound", ob, (400, "")),
        (&dropped, "path, outbound", ob, (200, "outbound")),
        (&no_flow, "path, outbound", plain, (200, "")),
    ] {
        let mut world = World::new(open());
        let via = format!(
            "SIP/2.0/UDP {OUTER};branch=z9hG4bK-outer, SIP/2.0/UDP {PHONE};rport;branch=z9hG4bK-1"
        );
        let register = register(1, contact).set("Via", via);
        let register = register.with("Supported", supported).with("Path", path);
        let reply = world.pass(&through(OUTER, register));
        assert_eq!(
            (reply.status(), reply.get("Require")),
            expected,
            "{contact} {supported} {path}"
        );
    }
    // It is the first hop itself, and notes the flow.
    let mut world = World::new(open());
    let contact = flow(1).replace("tcp", "udp");
    let register = register(1, &contact)
        .with("Supported", "outbound")
        .with("Require", "outbound");
    assert_eq!(world.pass(&register).get("Require"), "outbound");
    let sent = world.pass(&call());
    assert_eq!(sent.to.to_string(), PHONE);
}

/// RFC 5626 §5.1, §5.4
#[test]
fn an_edge_notes_flows_and_tells_how_often_to_use_them() {
    let mut config = connected(crate::harness::config(&[ONE]));
    config.connections.flow_timer = Some(s(120));
    let mut cluster = Cluster::new(config);
    let flow = cluster.connect(FIRST, 1, 7);
    let sent = cluster.pass(&keep(1, 1, FIRST));
    // Calls come by the transport of the registrar: it may have no other.
    let end = format!("@{EDGE};lr;ob>");
    assert!(sent.get("Path").ends_with(&end), "{}", sent.get("Path"));
    let granted = cluster.pass(&sent.respond(200).with("Require", "outbound"));
    assert_eq!((granted.flow, granted.get("Flow-Timer")), (flow, "120"));
    let sent = cluster.pass(&keep(2, 1, FIRST));
    assert_eq!(cluster.pass(&sent.respond(200)).get("Flow-Timer"), "");
    // It is not the first hop of what comes by another proxy.
    let via =
        format!("SIP/2.0/TCP 10.0.0.9;branch=z9hG4bK-a, SIP/2.0/UDP {PHONE};branch=z9hG4bK-b");
    let sent = cluster.pass(&keep(3, 1, FIRST).set("Via", via));
    assert!(!sent.get("Path").contains(";ob"), "{}", sent.get("Path"));
}

/// Nobody was told that a phone's connection was gone: a caller waited for half a minute. RFC 5626 §5.3.1
#[test]
fn an_edge_says_that_a_flow_is_gone() {
    for config in [crate::harness::config(&[ONE]), stateful(&[ONE])] {
        let mut cluster = Cluster::new(connected(config));
        cluster.connect(FIRST, 1, 7);
        let at_core = cluster.pass(&keep(1, 1, FIRST));
        let path = at_core.get("Path").to_owned();
        cluster.pass(&at_core.respond(200));
        for method in ["INVITE", "MESSAGE"] {
            let mut call = request(method, ONE, method).with("Route", &path);
            call.start = format!("{method} sip:bob@10.9.9.9:5060;transport=tcp SIP/2.0");
            let at_phone = requests(cluster.send(&call)).remove(0);
            let told = cluster.unsent(&at_phone);
            let statuses: Vec<_> = told
                .iter()
                .map(|sent| (sent.status(), sent.to.to_string()))
                .collect();
            assert_eq!(statuses, [(430, ONE.to_owned())], "{method}");
        }
        assert_eq!(cluster.event(Event::FlowFailed), 2);
        assert_eq!(cluster.total(), (0, 0, 0.0));
    }
}

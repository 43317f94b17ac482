//! Connections that another edge of the cluster keeps.

use node::{
    Config, Datagram, Flow, Transport,
    config::{Exchange, Listener},
    stats::Event,
};

use crate::{
    harness::{Cluster, ONE, Sent, config, ms, s, stateful},
    message::{Dialog, Msg, request},
};

const ONE_EDGE: &str = "192.0.2.10:5060";
const OTHER_EDGE: &str = "192.0.2.11:5060";
/// What both of them are called.
const NAME: &str = "edge.example.com";
const PHONE: &str = "198.51.100.1:40001";

/// An edge on UDP and TCP, and the other one that it knows.
fn edge(base: Config, at: &str, other: &str) -> Config {
    let listener = |transport| Listener {
        transport,
        address: at.parse().unwrap(),
        advertise: NAME.to_owned(),
    };
    Config {
        name: format!("edge at {at}"),
        listeners: vec![listener(Transport::Udp), listener(Transport::Tcp)],
        exchange: Exchange {
            peers: vec![other.parse().unwrap()],
            interval: ms(100),
        },
        ..base
    }
}

/// Two edges that go by one name.
struct Pair {
    one: Cluster,
    other: Cluster,
}

impl Pair {
    fn new(base: &Config) -> Self {
        let mut pair = Self {
            one: Cluster::new(edge(base.clone(), ONE_EDGE, OTHER_EDGE)),
            other: Cluster::new(edge(base.clone(), OTHER_EDGE, ONE_EDGE)),
        };
        pair.wait();
        pair
    }

    /// Lets them hear of each other.
    fn wait(&mut self) {
        for _ in 0..3 {
            let told = [self.one.wait(ms(100)), self.other.wait(ms(100))];
            deliver(&told[0], ONE_EDGE, &mut self.other);
            deliver(&told[1], OTHER_EDGE, &mut self.one);
        }
    }
}

/// Gives an edge what another sent, as it is.
fn deliver(sent: &[Sent], from: &str, to: &mut Cluster) -> Vec<Sent> {
    let flow = Flow::udp(0, from.parse().unwrap());
    let mut answers = Vec::new();
    for Sent { bytes, .. } in sent {
        answers.extend(to.send_datagram(Datagram {
            flow,
            bytes,
            truncated: false,
        }));
    }
    answers
}

fn request_to(sent: &[Sent], to: &str) -> Sent {
    let found = sent
        .iter()
        .find(|sent| sent.is_request() && sent.to.to_string() == to);
    found
        .unwrap_or_else(|| panic!("nothing to {to}: {sent:#?}"))
        .clone()
}

fn register(edge: &mut Cluster) -> String {
    edge.connect(PHONE, 1, 7);
    let register = request("REGISTER", PHONE, "register")
        .set("Contact", format!("<sip:bob@{PHONE};transport=tcp>"));
    let at_core = edge.pass(&register);
    let path = at_core.get("Path").to_owned();
    edge.pass(&at_core.respond(200));
    path
}

fn call(path: &str) -> Msg {
    let mut invite = request("INVITE", ONE, "call").with("Route", path);
    invite.start = format!("INVITE sip:bob@{PHONE};transport=tcp SIP/2.0");
    invite
}

/// The answer of whoever got a message, as the edge that passed it on gets it.
fn back(pair: &mut Pair, answer: &Msg) -> Vec<Sent> {
    let sent = pair.other.send(answer);
    deliver(&sent, OTHER_EDGE, &mut pair.one)
}

/// A phone was lost if its call came to another edge than the one that it is connected to.
#[test]
fn a_call_finds_the_edge_that_keeps_the_connection() {
    for base in [config(&[ONE]), stateful(&[ONE])] {
        let mut pair = Pair::new(&base);
        let path = register(&mut pair.other);
        let invite = call(&path);
        let sent = pair.one.send(&invite);
        let passed = request_to(&sent, OTHER_EDGE);
        assert_eq!(passed.get("Route"), path);
        let sent = deliver(&[passed], ONE_EDGE, &mut pair.other);
        let at_phone = request_to(&sent, PHONE);
        assert_eq!(
            (at_phone.flow.transport, at_phone.get("Route")),
            (Transport::Tcp, "")
        );
        let answer = at_phone.respond(200);
        let answered = back(&mut pair, &answer).remove(0);
        assert_eq!(
            (answered.status(), answered.to.to_string()),
            (200, ONE.to_owned())
        );
        assert_eq!(pair.one.event(Event::ToOtherEdge), 1);
        // The dialog takes the same way, in both directions.
        let mut caller = Dialog::of_caller(&invite, &answered);
        let mut callee = Dialog::of_callee(&at_phone, &answer);
        for message in [caller.ack(), caller.request("INFO")] {
            let sent = pair.one.send(&message);
            let passed = request_to(&sent, OTHER_EDGE);
            let sent = deliver(&[passed], ONE_EDGE, &mut pair.other);
            let at_phone = request_to(&sent, PHONE);
            if message.method() == "INFO" {
                assert_eq!(
                    back(&mut pair, &at_phone.respond(200))[0].to.to_string(),
                    ONE
                );
            }
        }
        let sent = pair.other.send(&callee.request("BYE").from(PHONE));
        let passed = request_to(&sent, ONE_EDGE);
        let sent = deliver(&[passed], OTHER_EDGE, &mut pair.one);
        request_to(&sent, ONE);
    }
}

/// A caller that is connected to one edge gets the BYE of its server, which came to the other.
#[test]
fn a_bye_finds_the_edge_that_keeps_the_connection() {
    for base in [config(&[ONE]), stateful(&[ONE])] {
        let mut pair = Pair::new(&base);
        let flow = pair.other.connect(PHONE, 1, 7);
        let mut call = pair.other.establish_with(&request("INVITE", PHONE, "call"));
        let bye = call.callee.request("BYE");
        let sent = pair.one.send(&bye);
        let passed = request_to(&sent, OTHER_EDGE);
        let sent = deliver(&[passed], ONE_EDGE, &mut pair.other);
        let at_phone = request_to(&sent, PHONE);
        assert_eq!((at_phone.flow, at_phone.get("Route")), (flow, ""));
        let answered = back(&mut pair, &at_phone.respond(200)).remove(0);
        assert_eq!(
            (answered.status(), answered.to.to_string()),
            (200, ONE.to_owned())
        );
        assert_eq!(pair.one.total(), (0, 0, 0.0));
        assert_eq!(pair.other.total(), (0, 0, 0.0));
    }
}

/// The phone has gone from there, or the edge has: RFC 5626 §5.3.1.
#[test]
fn a_flow_that_is_nowhere_has_failed() {
    let mut pair = Pair::new(&config(&[ONE]));
    let path = register(&mut pair.other);
    let sent = pair.one.send(&call(&path));
    let passed = request_to(&sent, OTHER_EDGE);
    let sent = deliver(&[passed], ONE_EDGE, &mut pair.other);
    let told = pair.other.unsent(&request_to(&sent, PHONE));
    let told = deliver(&told, OTHER_EDGE, &mut pair.one);
    assert_eq!(
        (told[0].status(), told[0].to.to_string()),
        (430, ONE.to_owned())
    );

    pair.one.wait(s(2));
    let again = call(&path).set("Call-ID", "again");
    let statuses: Vec<_> = pair
        .one
        .send(&again)
        .iter()
        .map(|sent| sent.status())
        .collect();
    assert_eq!(statuses, [430], "the other edge is silent");
}

#[test]
fn a_request_goes_from_edge_to_edge_once() {
    let mut pair = Pair::new(&config(&[ONE]));
    let path = register(&mut pair.other);
    let passed_on = call(&path).from(OTHER_EDGE);
    assert_eq!(pair.one.pass(&passed_on).status(), 430);
}

#[test]
fn strangers_send_nothing_to_other_edges() {
    let mut pair = Pair::new(&config(&[ONE]));
    let path = register(&mut pair.other);
    let refused = pair.one.pass(&call(&path).from("198.51.100.66:5060"));
    assert_eq!(refused.status(), 403);
    pair.other.connect(PHONE, 1, 7);
    let mut call = pair.other.establish_with(&request("INVITE", PHONE, "call"));
    let refused = pair
        .one
        .pass(&call.callee.request("BYE").from("198.51.100.66:5060"));
    assert_eq!(refused.status(), 403);
    assert_eq!(pair.one.event(Event::NotOfServer), 2);
}

//! Peers that are connected: what they get, and by which connection.

use node::{
    Config, Datagram, Flow, Transport,
    config::Listener,
    stats::{Dropped, Event},
};

use crate::{
    harness::{ALICE, Cluster, EDGE, Established, ONE, TWO, config, s, stateful},
    message::{Dialog, Msg, request},
    registrar::{World, open, register},
};

const SECURE: &str = "192.0.2.10:5061";

/// The farm of UDP servers, and listeners for UDP, TCP and TLS.
fn farm(mut config: Config) -> Config {
    let listener = |transport, address: &str| Listener {
        transport,
        address: address.parse().unwrap(),
        advertise: address.to_owned(),
    };
    config.listeners.push(listener(Transport::Tcp, EDGE));
    config.listeners.push(listener(Transport::Tls, SECURE));
    config
}

/// The same with servers that are connected.
pub(crate) fn connected_farm(config: Config) -> Config {
    let mut config = farm(config);
    for server in &mut config.pools[0].servers {
        server.transport = Transport::Tcp;
    }
    config
}

/// As a phone with a connection writes it: its Via tells neither the port that it comes from nor wants it.
fn invite(transport: &str) -> Msg {
    let via = format!("SIP/2.0/{transport} 10.1.2.3:5060;branch=z9hG4bKcall");
    request("INVITE", ALICE, "call").with("Via", via)
}

fn hang_up(cluster: &mut Cluster, call: &mut Established, flow: Flow) {
    for method in ["INFO", "BYE"] {
        let sent = cluster.exchange(&call.callee.request(method), 200);
        assert_eq!(sent.flow, flow, "{method}");
    }
}

#[test]
fn responses_and_requests_of_a_server_reach_the_connection_of_its_caller() {
    for (listener, name) in [(1, "TCP"), (2, "TLS")] {
        for config in [config(&[ONE, TWO]), stateful(&[ONE, TWO])] {
            let config = farm(config);
            for restarts in [false, true] {
                let mut cluster = Cluster::new(config.clone());
                let flow = cluster.connect(ALICE, listener, 77);
                let received = cluster.pass(&invite(name));
                assert_eq!(received.flow.transport, Transport::Udp);
                let ringing = cluster.pass(&received.respond(180));
                assert_eq!(ringing.flow.connection, flow.connection);
                assert_eq!(ringing.flow.transport, flow.transport);
                assert_eq!(ringing.flow.listener, flow.listener);
                let mut call = cluster.establish_with(&request("INVITE", ALICE, "other"));
                if restarts {
                    cluster.restart(config.clone());
                    cluster.connect(ALICE, listener, 78);
                }
                hang_up(&mut cluster, &mut call, flow);
                assert_eq!(cluster.total().0, u64::from(!restarts), "the other rings");
            }
        }
    }
}

/// Whoever was called could write the number of another connection into our Via, and have the response sent there.
#[test]
fn a_response_takes_no_other_connection() {
    let mut cluster = Cluster::new(farm(config(&[ONE])));
    let flow = cluster.connect(ALICE, 1, 77);
    let received = cluster.pass(&invite("TCP"));
    let answer = received.respond(180);
    let text = answer.to_string();
    let aimed = text.replace(";i=0000004d", ";i=0000004e");
    assert_ne!(aimed, text);
    let sent = cluster.send_bytes(0, received.to, aimed.as_bytes());
    assert!(sent.is_empty(), "{sent:?}");
    assert_eq!(cluster.dropped(Dropped::ForgedWay), 1);
    assert_eq!(cluster.pass(&answer).flow.connection, flow.connection);
}

/// RFC 5658: each side reaches us by the transport that it speaks.
#[test]
fn a_change_of_transport_records_two_routes() {
    let mut cluster = Cluster::new(farm(config(&[ONE])));
    cluster.connect(ALICE, 2, 5);
    let received = cluster.pass(&invite("TLS"));
    let routes = received.all("Record-Route");
    let at = |uri: &str| uri[uri.find('@').unwrap()..].to_owned();
    let routes: Vec<_> = routes.iter().map(|route| at(route)).collect();
    assert_eq!(
        routes,
        [
            format!("@{EDGE};lr>"),
            format!("@{SECURE};transport=tls;lr>")
        ]
    );
    assert!(
        received
            .get("Via")
            .starts_with("SIP/2.0/UDP 192.0.2.10:5060;branch=")
    );
}

/// A server that connects to us does so from any port, and is the server all the same.
#[test]
fn a_server_is_known_by_its_host() {
    let mut cluster = Cluster::new(connected_farm(config(&[ONE])));
    let received = cluster.pass(&request("INVITE", ALICE, "call"));
    assert_eq!(
        received.flow,
        Flow {
            connection: None,
            ..cluster.connect(ONE, 1, 9)
        }
    );
    let ephemeral = ONE.replace("5060", "49152");
    cluster.connect(&ephemeral, 1, 10);
    let answer = received.respond(200).from(&ephemeral);
    assert_eq!(cluster.pass(&answer).to, ALICE.parse().unwrap());
    assert_eq!(cluster.ledger(ONE).0, 1);
}

/// A caller on the host of a connected server was taken for the server, and its BYE went nowhere.
#[test]
fn a_caller_on_the_host_of_its_server_is_no_server() {
    let mut cluster = Cluster::new(connected_farm(config(&[ONE])));
    let host = ONE.replace("5060", "50000");
    cluster.connect(&host, 1, 4);
    let mut call = cluster.establish_with(&request("INVITE", &host, "call").from(&host));
    call.caller.routes.clear();
    assert_eq!(
        cluster.pass(&call.caller.request("BYE")).to,
        ONE.parse().unwrap()
    );
    call.callee.routes.clear();
    cluster.connect(ONE, 1, 5);
    assert_eq!(
        cluster.pass(&call.callee.request("INFO")).to,
        host.parse().unwrap()
    );
}

/// What could not be written fails over in the same moment. One that was held waited: the driver names the connection
/// that it tried.
#[test]
fn an_invite_that_no_connection_takes_goes_elsewhere() {
    for config in [config(&[ONE, TWO]), stateful(&[ONE, TWO])] {
        let mut cluster = Cluster::new(connected_farm(config));
        let first = cluster.pass(&request("INVITE", ALICE, "call"));
        let again = cluster.unsent(&first);
        let again: Vec<_> = again
            .iter()
            .filter(|sent| sent.start.starts_with("INVITE"))
            .collect();
        assert_eq!(again.len(), 1);
        assert_ne!(again[0].to, first.to);
        assert_eq!(cluster.event(Event::FailedOver), 1);
    }
}

/// A caller waited 32 s for the answer to a request that its only server's connection had refused. RFC 3261 §16.9
#[test]
fn what_no_connection_takes_is_answered_at_once() {
    // RFC 3261 §16.7 step 6: with transactions, a 503 of one server goes on as 500.
    for (config, status) in [(config(&[ONE]), 503), (stateful(&[ONE]), 500)] {
        for method in ["INVITE", "MESSAGE"] {
            let mut cluster = Cluster::new(connected_farm(config.clone()));
            let sent = cluster.send(&request(method, ALICE, "call"));
            let first = sent.iter().find(|sent| sent.start.starts_with(method));
            let answers = cluster.unsent(first.unwrap());
            let answers: Vec<_> = answers
                .iter()
                .map(|sent| (sent.to, sent.status()))
                .collect();
            assert_eq!(answers, [(ALICE.parse().unwrap(), status)], "{method}");
            assert_eq!(cluster.total(), (0, 0, 0.0));
        }
    }
}

/// The same in a call: its caller may hang up on a server that is gone.
#[test]
fn a_bye_that_no_connection_takes_is_answered_at_once() {
    let mut cluster = Cluster::new(connected_farm(config(&[ONE])));
    let mut call = cluster.establish_with(&request("INVITE", ALICE, "call"));
    let bye = cluster.pass(&call.caller.request("BYE"));
    let answers = cluster.unsent(&bye);
    assert_eq!(answers.len(), 1);
    assert_eq!(
        (answers[0].to, answers[0].status()),
        (ALICE.parse().unwrap(), 503)
    );
    let ack = cluster.pass(&call.caller.ack());
    assert!(cluster.unsent(&ack).is_empty());
}

/// RFC 3261 §18.3: who sends no length, or none that can be read, is told so before the connection is closed.
#[test]
fn a_bad_length_is_answered() {
    let cases = [
        ("", "400 Missing Content-Length"),
        ("Content-Length: x\r\n", "400 Bad Content-Length"),
        ("Content-Length: 4294967296\r\n", "400 Bad Content-Length"),
        ("Content-Length: 0\r\nl: 1\r\n", "400 Bad Content-Length"),
        ("Content-Length: 9\r\n", "513 Message Too Large"),
    ];
    for (length, expected) in cases {
        let mut cluster = Cluster::new(farm(config(&[ONE])));
        let flow = cluster.connect(ALICE, 1, 7);
        let text = invite("TCP").to_string();
        let text = text.replace("Content-Length: 0\r\n", length);
        let sent = cluster.send_datagram(Datagram {
            flow,
            bytes: text.as_bytes(),
            truncated: true,
        });
        assert_eq!(sent.len(), 1, "{length}");
        assert_eq!(sent[0].start, format!("SIP/2.0 {expected}"));
        assert_eq!(sent[0].flow, flow);
    }
}

/// RFC 3261 §17: over a stream nothing is sent again.
#[test]
fn nothing_is_repeated_over_a_stream() {
    let mut cluster = Cluster::new(connected_farm(stateful(&[ONE])));
    cluster.connect(ALICE, 1, 3);
    cluster.pass(&invite("TCP"));
    let repeated = cluster.wait(s(1) / 2);
    assert!(
        repeated
            .iter()
            .all(|sent| !sent.start.starts_with("INVITE")),
        "{repeated:#?}"
    );
}

/// A phone that registers over a connection is called over that connection, and over no other.
#[test]
fn a_connected_phone_is_called_over_its_connection() {
    let mut world = World::new(farm(open()));
    let phone = "198.51.100.1:40001";
    let flow = world.cluster.connect(phone, 2, 41);
    let contact = "<sip:bob@10.9.9.9:5060;transport=tls>";
    let granted = world.pass(&register(1, contact).from(phone));
    assert_eq!((granted.status(), granted.flow), (200, flow));
    let mut invite = request("INVITE", ALICE, "call");
    invite.start = "INVITE sip:bob@example.com SIP/2.0".to_owned();
    let sent = world.pass(&invite);
    assert_eq!(sent.flow, flow);
    assert_eq!(sent.uri(), "sip:bob@10.9.9.9:5060;transport=tls");
    assert!(sent.all("Route").is_empty());
    // What its caller says in the dialog takes the same way.
    let answered = world.pass(&sent.respond(200));
    let mut caller = Dialog::of_caller(&invite, &answered);
    for request in [caller.ack(), caller.request("BYE")] {
        assert_eq!(world.pass(&request).flow, flow);
    }
}

/// A datagram need not say its length. On a stream the next message would be taken for its body: another
/// caller's.
#[test]
fn what_goes_to_a_stream_says_its_length_once() {
    let told = |lengths: &str| {
        let mut cluster = Cluster::new(connected_farm(config(&[ONE])));
        let invite = request("INVITE", ALICE, "call").to_string();
        let invite = format!(
            "{}v=0\r\n",
            invite.replace("Content-Length: 0\r\n", lengths)
        );
        cluster
            .send_bytes(0, ALICE.parse().unwrap(), invite.as_bytes())
            .remove(0)
    };
    for lengths in ["", "Content-Length: 5\r\n"] {
        let sent = told(lengths);
        assert_eq!(
            (sent.to, sent.all("Content-Length")),
            (ONE.parse().unwrap(), vec!["5"])
        );
    }
    assert_eq!(told("l: 5\r\nContent-Length: 5\r\n").status(), 400);
}

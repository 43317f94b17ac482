//! Requests that are too long for a datagram: RFC 3261 §18.1.1.

use node::{Config, Transport, config::Listener, stats::Event};

use crate::{
    harness::{ALICE, Cluster, EDGE, ONE, Sent, TWO, config, s, stateful},
    message::{Dialog, Msg, request},
};

/// Servers of UDP, and a listener for TCP of the same name.
fn farm(mut config: Config) -> Config {
    config.listeners.push(Listener {
        transport: Transport::Tcp,
        address: EDGE.parse().unwrap(),
        advertise: EDGE.to_owned(),
    });
    config.connections.large_by_tcp = true;
    config
}

fn request_of(length: usize, method: &str, call: &str) -> Msg {
    let short = request(method, ALICE, call);
    let filling = length.saturating_sub(short.to_string().len());
    short.with("X-Filling", "x".repeat(filling))
}

/// The requests among what was sent, and how each went.
fn ways(sent: &[Sent], method: &str) -> Vec<(Transport, String)> {
    let sent = sent
        .iter()
        .filter(|sent| sent.is_request() && sent.method() == method);
    sent.map(|sent| (sent.flow.transport, sent.to.to_string()))
        .collect()
}

#[test]
fn a_long_request_goes_by_tcp_where_that_is_wanted() {
    for (length, is_wanted, expected) in [
        (2_000, true, Transport::Tcp),
        (2_000, false, Transport::Udp),
        (1_000, true, Transport::Udp),
    ] {
        for base in [config(&[ONE]), stateful(&[ONE])] {
            let mut config = farm(base);
            config.connections.large_by_tcp = is_wanted;
            let mut cluster = Cluster::new(config);
            let sent = cluster.send(&request_of(length, "INVITE", "call"));
            assert_eq!(ways(&sent, "INVITE"), [(expected, ONE.to_owned())]);
            let via = sent.last().unwrap().get("Via").to_owned();
            assert!(
                via.starts_with(&format!("SIP/2.0/{}", expected.in_via())),
                "{via}"
            );
        }
    }
    // A listener of another name would be another hop.
    let mut config = farm(config(&[ONE]));
    config.listeners[1].advertise = "192.0.2.10:5070".to_owned();
    let mut cluster = Cluster::new(config);
    let sent = cluster.send(&request_of(2_000, "INVITE", "call"));
    assert_eq!(ways(&sent, "INVITE"), [(Transport::Udp, ONE.to_owned())]);
}

#[test]
fn a_server_that_takes_no_tcp_gets_it_by_udp() {
    for method in ["INVITE", "MESSAGE"] {
        for base in [config(&[ONE, TWO]), stateful(&[ONE, TWO])] {
            let mut cluster = Cluster::new(farm(base));
            let first = cluster.send(&request_of(2_000, method, "call"));
            let first = first.into_iter().find(|sent| sent.is_request()).unwrap();
            let server = first.to.to_string();
            assert_eq!(first.flow.transport, Transport::Tcp);
            let again = cluster.unsent(&first);
            assert_eq!(
                ways(&again, method),
                [(Transport::Udp, server.clone())],
                "{method}"
            );
            let again = again.into_iter().find(|sent| sent.is_request()).unwrap();
            assert!(
                again.get("Via").starts_with("SIP/2.0/UDP"),
                "{}",
                again.get("Via")
            );
            assert!(!again.whole("Record-Route").contains("transport=tcp"));
            assert_eq!(cluster.event(Event::FailedOver), 0);
            assert_eq!(cluster.event(Event::LargeByTcp), 1);
            let answered = cluster.send(&again.respond(200));
            assert!(answered.iter().any(|sent| sent.status() == 200));
            // It is known for an hour.
            for (call, wait, expected) in [
                ("next", 0, Transport::Udp),
                ("later", 3_600, Transport::Tcp),
            ] {
                cluster.wait(s(wait));
                let sent = cluster.send(&request_of(2_000, "MESSAGE", call));
                let to_it = ways(&sent, "MESSAGE");
                if to_it[0].1 == server {
                    assert_eq!(to_it[0].0, expected);
                }
            }
        }
    }
}

/// What belongs to such a call goes on as usual.
#[test]
fn a_long_invite_makes_a_call() {
    for base in [config(&[ONE]), stateful(&[ONE])] {
        let mut cluster = Cluster::new(farm(base));
        cluster.connect(ONE, 1, 9);
        let invite = request_of(2_000, "INVITE", "call");
        let received = cluster
            .send(&invite)
            .into_iter()
            .find(|sent| sent.is_request())
            .unwrap();
        let answer = received.respond(200);
        let answered = cluster.pass(&answer);
        assert_eq!(answered.to, ALICE.parse().unwrap());
        let mut caller = Dialog::of_caller(&invite, &answered);
        let mut callee = Dialog::of_callee(&received, &answer);
        assert_eq!(cluster.pass(&caller.ack()).flow.transport, Transport::Udp);
        assert_eq!(
            cluster.exchange(&callee.request("INFO"), 200).to,
            ALICE.parse().unwrap()
        );
        let bye = cluster.pass(&caller.request("BYE"));
        cluster.pass(&bye.respond(200));
        assert_eq!(cluster.total(), (0, 0, 0.0));
    }
}

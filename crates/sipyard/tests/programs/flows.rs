//! Phones that keep several flows, over two edges before one registrar: RFC 5626.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
};

use crate::{
    common::{Edge, PATIENCE, Settings, accepted, free_address},
    edge::{Counts, within_counts},
    phones::Baresip,
    process::within,
    registrar,
};

/// A registrar where anybody may register.
fn start_registrar() -> Edge {
    start_registrar_with("")
}

fn start_registrar_with(rest: &str) -> Edge {
    let settings = Settings::new();
    let section = format!("store = \"file:location.db\"\nauth = false\n{rest}");
    registrar::configure(&settings, &section, "");
    settings.start()
}

/// An edge on UDP and TCP before it.
fn start_edge(core: SocketAddr) -> Edge {
    let mut settings = Settings::new();
    settings.sip = free_address();
    let Settings { sip, admin, .. } = &settings;
    settings.write_whole(&format!(
        r#"node = {{ name = "edge", secret = "file:secret", workers = 2 }}
listen = [ {{ transport = "udp", address = "{sip}" }}, {{ transport = "tcp", address = "{sip}" }} ]
admin = {{ address = "{admin}", socket = "admin.sock" }}
connections = {{ flow_timer = "1m" }}
route = [ {{ to = "core" }} ]
[pool.core]
policy = "user-hash"
servers = [ "{core}" ]
"#
    ));
    settings.start()
}

fn alice(core: SocketAddr) -> Baresip {
    Baresip::with_account(|_| registrar::account("alice", core, 600))
}

/// baresip registers over two edges by TCP. The one that its last call came over dies.
#[test]
fn a_phone_with_two_flows_is_called_after_an_edge_has_died() {
    let core = start_registrar();
    let mut edges: Vec<_> = (0..2).map(|_| start_edge(core.sip())).collect();
    let [one, two] =
        [&edges[0], &edges[1]].map(|edge| format!("\"sip:{};transport=tcp;lr\"", edge.sip()));
    let bob = Baresip::with_account(|_| {
        format!(
            "<sip:bob@example.com>;sipnat=outbound;outbound={one};outbound2={two};regint=600;answermode=auto"
        )
    });
    let alice = alice(core.sip());
    within_counts(&core, PATIENCE, "three bindings", |counts| {
        counts.event("bound") >= 3
    });
    let dial = |calls: usize| {
        alice.press("dial", "sip:bob@example.com");
        within(PATIENCE, "the call", || {
            bob.times("Call established") == calls
        });
    };
    dial(1);
    let carries = |edge: &Edge| Counts::of(edge).calls() > 0;
    let last = edges.iter().position(carries).unwrap();
    alice.press("hangup", "");
    within(PATIENCE, "the end of the call", || {
        bob.times("session closed") == 1
    });
    assert!(!carries(&edges[1 - last]), "a phone rings once");
    drop(edges.remove(last));
    dial(2);
    assert!(carries(&edges[0]));
}

/// A phone of our own making, which closes one of its connections.
struct Phone(TcpStream);

impl Phone {
    /// One that has registered a flow.
    fn register(edge: &Edge, number: u32) -> Self {
        let stream = TcpStream::connect(edge.sip()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut phone = Self(stream);
        let local = phone.0.local_addr().unwrap();
        let register = format!(
            "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/TCP {local};branch=z9hG4bK-{number}\r\n\
             Max-Forwards: 70\r\nFrom: <sip:bob@example.com>;tag={number}\r\nTo: <sip:bob@example.com>\r\n\
             Call-ID: flow-{number}\r\nCSeq: 1 REGISTER\r\nSupported: path, outbound\r\n\
             Contact: <sip:bob@{local};transport=tcp;ob>;reg-id={number};\
             +sip.instance=\"<urn:uuid:00000000-0000-1000-8000-aabbccddeeff>\"\r\nContent-Length: 0\r\n\r\n"
        );
        phone.0.write_all(register.as_bytes()).unwrap();
        let granted = phone.next();
        assert!(granted.starts_with("SIP/2.0 200"), "{granted}");
        for header in ["Require: outbound", "Flow-Timer: 60"] {
            assert!(granted.contains(header), "{header}: {granted}");
        }
        phone
    }

    /// The next message without a body.
    fn next(&mut self) -> String {
        let (mut message, mut byte) = (Vec::new(), [0]);
        while !message.ends_with(b"\r\n\r\n") {
            self.0.read_exact(&mut byte).unwrap();
            message.push(byte[0]);
        }
        String::from_utf8(message).unwrap()
    }
}

/// The edge says that the connection is gone, and the registrar takes the other flow at once.
#[test]
fn a_closed_connection_is_left_for_the_next_flow() {
    let core = start_registrar();
    let edge = start_edge(core.sip());
    let mut first = Phone::register(&edge, 1);
    let second = Phone::register(&edge, 2);
    drop(second);
    within(PATIENCE, "the end of the connection", || {
        let status = edge.status();
        let workers = status["workers"].as_array().unwrap().iter();
        let open = |worker: &serde_json::Value| worker["connections"]["total"].as_u64().unwrap();
        workers.map(open).sum::<u64>() == 1
    });
    let caller = UdpSocket::bind("127.0.0.1:0").unwrap();
    let us = caller.local_addr().unwrap();
    let message = format!(
        "MESSAGE sip:bob@example.com SIP/2.0\r\nVia: SIP/2.0/UDP {us};rport;branch=z9hG4bK-m\r\nMax-Forwards: 70\r\n\
         From: <sip:alice@example.com>;tag=a\r\nTo: <sip:bob@example.com>\r\nCall-ID: message\r\nCSeq: 1 MESSAGE\r\n\
         Content-Length: 0\r\n\r\n"
    );
    caller.send_to(message.as_bytes(), core.sip()).unwrap();
    let received = first.next();
    assert!(
        received.starts_with("MESSAGE sip:bob@127.0.0.1"),
        "{received}"
    );
    within_counts(&core, PATIENCE, "the dead binding's end", |counts| {
        counts.event("flows_removed") == 1
    });
    assert_eq!(Counts::of(&edge).event("flows_failed"), 1);
}

/// baresip answers keep-alives, and is forgotten soon after it has died.
#[test]
fn a_phone_that_dies_is_forgotten() {
    let core = start_registrar_with("keep_alive = { interval = \"5s\" }");
    let bob = Baresip::with_account(|_| registrar::account("bob", core.sip(), 600));
    within_counts(&core, PATIENCE, "a keep-alive", |counts| {
        counts.event("keep_alives_sent") > 0
    });
    assert_eq!(Counts::of(&core).event("flows_failed"), 0);
    drop(bob);
    within_counts(&core, PATIENCE, "the binding's end", |counts| {
        counts.event("flows_removed") == 1
    });
}

/// An edge that knows another and shares a name with it.
fn start_named_edge(core: SocketAddr, at: SocketAddr, peer: SocketAddr) -> Edge {
    let mut settings = Settings::new();
    settings.sip = at;
    let (admin, port) = (settings.admin, at.port());
    settings.write_whole(&format!(
        r#"node = {{ name = "{at}", secret = "file:secret", workers = 2, peers = [ "{peer}" ] }}
listen = [
    {{ transport = "udp", address = "{at}", advertise = "edge.test:{port}" }},
    {{ transport = "tcp", address = "{at}", advertise = "edge.test:{port}" }},
]
admin = {{ address = "{admin}", socket = "admin.sock" }}
route = [ {{ to = "core" }} ]
pool.core = {{ probe = false, servers = [ "{core}" ] }}
"#
    ));
    settings.start()
}

/// Two edges that go by one name. What the core sends to the one reaches the phone that is connected to the
/// other.
#[test]
fn an_edge_passes_on_what_another_has_the_connection_for() {
    let core = UdpSocket::bind("127.0.0.1:0").unwrap();
    core.set_read_timeout(Some(PATIENCE)).unwrap();
    let port = free_address().port();
    let [one, other] = [1, 3].map(|host| SocketAddr::from(([127, 0, 0, host], port)));
    let server = core.local_addr().unwrap();
    let edges = [
        start_named_edge(server, one, other),
        start_named_edge(server, other, one),
    ];
    for edge in &edges {
        within_counts(edge, PATIENCE, "a report", |counts| {
            counts.event("reports_received") > 1
        });
    }
    let receive = || {
        let mut buffer = [0; 4096];
        let length = core.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    };
    let mut phone = TcpStream::connect(other).map(Phone).unwrap();
    phone.0.set_read_timeout(Some(PATIENCE)).unwrap();
    let local = phone.0.local_addr().unwrap();
    let register = format!(
        "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/TCP {local};branch=z9hG4bK-r\r\nMax-Forwards: 70\r\n\
         From: <sip:bob@example.com>;tag=r\r\nTo: <sip:bob@example.com>\r\nCall-ID: r\r\nCSeq: 1 REGISTER\r\n\
         Contact: <sip:bob@{local};transport=tcp>\r\nContent-Length: 0\r\n\r\n"
    );
    phone.0.write_all(register.as_bytes()).unwrap();
    let registered = receive();
    let header = |name: &str| {
        registered
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap()
    };
    let (path, us) = (header("Path: "), core.local_addr().unwrap());
    let message = format!(
        "MESSAGE sip:bob@{local};transport=tcp SIP/2.0\r\nVia: SIP/2.0/UDP {us};rport;branch=z9hG4bK-m\r\n\
         Max-Forwards: 70\r\nRoute: {path}\r\nFrom: <sip:alice@example.com>;tag=a\r\nTo: <sip:bob@example.com>\r\n\
         Call-ID: message\r\nCSeq: 1 MESSAGE\r\nContent-Length: 0\r\n\r\n"
    );
    core.send_to(message.as_bytes(), one).unwrap();
    let received = phone.next();
    let (start, headers) = received.split_once("\r\n").unwrap();
    assert!(start.starts_with("MESSAGE sip:bob@127.0.0.1"), "{received}");
    let answer = format!("SIP/2.0 200 OK\r\n{headers}");
    phone.0.write_all(answer.as_bytes()).unwrap();
    assert!(receive().starts_with("SIP/2.0 200 OK"));
    assert_eq!(Counts::of(&edges[0]).event("to_other_edges"), 1);
    // The phone is gone.
    drop(phone);
    core.send_to(
        message
            .replace("-m", "-n")
            .replace(": message", ": again")
            .as_bytes(),
        one,
    )
    .unwrap();
    let told = receive();
    assert!(told.starts_with("SIP/2.0 430 Flow Failed"), "{told}");
}

/// A server of UDP gets a long request by TCP if it listens there, else by UDP after all. RFC 3261 §18.1.1
#[test]
fn a_long_request_goes_by_tcp_if_its_server_takes_that() {
    for takes_tcp in [true, false] {
        let at = free_address();
        let datagrams = UdpSocket::bind(at).unwrap();
        datagrams.set_read_timeout(Some(PATIENCE)).unwrap();
        let connections = takes_tcp.then(|| TcpListener::bind(at).unwrap());
        let mut settings = Settings::new();
        settings.sip = free_address();
        let Settings { sip, admin, .. } = &settings;
        settings.write_whole(&format!(
            r#"node = {{ name = "edge", secret = "file:secret", workers = 2 }}
listen = [ {{ transport = "udp", address = "{sip}" }}, {{ transport = "tcp", address = "{sip}" }} ]
admin = {{ address = "{admin}", socket = "admin.sock" }}
connections = {{ large_by_tcp = true }}
route = [ {{ to = "app" }} ]
pool.app = {{ probe = false, servers = [ "{at}" ] }}
"#
        ));
        let edge = settings.start();
        let caller = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (us, filling) = (caller.local_addr().unwrap(), "x".repeat(1_500));
        let message = format!(
            "MESSAGE sip:bob@example.com SIP/2.0\r\nVia: SIP/2.0/UDP {us};rport;branch=z9hG4bK-long\r\n\
             Max-Forwards: 70\r\nFrom: <sip:alice@example.com>;tag=a\r\nTo: <sip:bob@example.com>\r\n\
             Call-ID: long\r\nCSeq: 1 MESSAGE\r\nX-Filling: {filling}\r\nContent-Length: 0\r\n\r\n"
        );
        caller.send_to(message.as_bytes(), edge.sip()).unwrap();
        let received = match connections {
            Some(connections) => Phone(accepted(&connections)).next(),
            None => {
                let mut buffer = [0; 4096];
                let length = datagrams.recv(&mut buffer).unwrap();
                String::from_utf8(buffer[..length].to_vec()).unwrap()
            }
        };
        let via = if takes_tcp { "TCP" } else { "UDP" };
        assert!(
            received.contains(&format!("Via: SIP/2.0/{via} {}", edge.sip())),
            "{received}"
        );
        assert_eq!(
            Counts::of(&edge).event("large_by_udp"),
            u64::from(!takes_tcp)
        );
    }
}

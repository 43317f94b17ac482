//! Pools whose servers are named by a real DNS server: who is in them follows what it says and who
//! lives, without a restart.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, UdpSocket},
    process::Stdio,
};

use common::{
    Edge, Settings,
    dns::Dns,
    eventually, free_address,
    load::{Serving, call},
};
use serde_json::Value;
use sip::{
    Message,
    digest::{Demand, Prover},
};

const SERVICE: &str = "srv:_sip._udp.core.test";

/// An edge that takes its servers from the DNS, and looks after them often.
fn edge(dns: &Dns, servers: &str, probe: &str) -> Edge {
    let settings = Settings::new();
    settings.write(
        &format!("servers = {servers}\nprobe = {probe}\nslow_start = \"0s\""),
        &format!("[dns]\nservers = [\"{}\"]\ntimeout = \"2s\"\n", dns.address),
    );
    settings.start()
}

/// One SRV record: priority, weight and address.
fn srv(priority: u16, weight: u16, address: SocketAddr) -> String {
    let port = address.port();
    format!("_sip._udp.core SRV {priority} {weight} {port} local\n")
}

/// Each server's port and capacity, in the order of the ports.
fn servers(edge: &Edge) -> Vec<(u16, f64)> {
    let status = edge.status();
    let servers = status["pools"][0]["servers"].as_array().unwrap().iter();
    let server = |server: &Value| {
        let address: SocketAddr = server["address"].as_str().unwrap().parse().unwrap();
        (address.port(), server["capacity"].as_f64().unwrap())
    };
    let mut servers: Vec<_> = servers.map(server).collect();
    servers.sort_by_key(|(port, _)| *port);
    servers
}

fn is_carried(edge: &Edge) -> bool {
    let output = call(edge.sip(), &["--rate", "100", "--calls", "10"]);
    let calls: Value = serde_json::from_slice(&output.stdout).unwrap();
    calls["carried"] == 10
}

#[test]
fn a_pool_follows_the_dns_and_keeps_its_servers_when_that_is_down() {
    let mut ports: Vec<SocketAddr> = (0..3).map(|_| free_address()).collect();
    ports.sort_unstable();
    let [a, b, c] = ports[..] else { unreachable!() };
    let mut dns = Dns::start(&(srv(1, 10, a) + &srv(1, 30, b)));
    let edge = edge(&dns, &format!("\"{SERVICE}\""), "false");
    assert!(edge.log().contains(SERVICE), "{}", edge.log());
    eventually("the first servers", || {
        servers(&edge) == [(a.port(), 10.0), (b.port(), 30.0)]
    });

    dns.set(&(srv(1, 5, b) + &srv(1, 1, c)));
    eventually("one goes, one comes, one has another weight", || {
        servers(&edge) == [(b.port(), 5.0), (c.port(), 1.0)]
    });
    // Records that name nobody are a mistake: no pool is empty on purpose.
    dns.set("");
    edge.wait_for_log("the DNS has no server of this name; the pool keeps its servers");
    dns.end();
    edge.wait_for_log("the DNS fails");
    assert_eq!(servers(&edge), [(b.port(), 5.0), (c.port(), 1.0)]);
    let (_, status, _) = edge.ctl(&["status"]);
    let told = format!("app has 2 servers of {SERVICE}; the DNS fails");
    assert!(status.contains(&told), "{status}");
    let (_, metrics) = edge.ask("GET", "/metrics");
    let failing = format!("sipyard_source_failing{{pool=\"app\",source=\"{SERVICE}\"}} 1");
    assert!(metrics.contains(&failing), "{metrics}");
}

#[test]
fn a_reload_takes_names_up_and_lists_mix_them_with_addresses() {
    let [fixed, named] = [free_address(), free_address()];
    let dns = Dns::start("");
    let edge = edge(&dns, &format!("[\"{fixed}\"]"), "false");
    assert_eq!(servers(&edge), [(fixed.port(), 1.0)]);
    let text = std::fs::read_to_string(edge.settings.path()).unwrap();
    let both = format!(
        "[\"{fixed}\", {{ address = \"local.test:{}\", capacity = 2 }}]",
        named.port()
    );
    let text = text.replace(&format!("[\"{fixed}\"]"), &both);
    edge.settings.write_whole(&text);
    let (code, said, complaint) = edge.ctl(&["reload"]);
    assert_eq!(code, Some(0), "{said}{complaint}");
    let mut expected = [(fixed.port(), 1.0), (named.port(), 2.0)];
    expected.sort_by_key(|(port, _)| *port);
    eventually("both servers", || servers(&edge) == expected);
}

#[test]
fn the_reserve_takes_over_when_the_first_servers_are_killed() {
    let (first, reserve) = (Serving::start(&[]), Serving::start(&[]));
    let [one, two] = [&first, &reserve].map(|serving| serving.address);
    let dns = Dns::start(&(srv(1, 0, one) + &srv(2, 0, two)));
    let probe = "{ interval = \"100ms\", timeout = \"100ms\" }";
    let edge = edge(&dns, &format!("\"{SERVICE}\""), probe);
    let told = format!("app has 1 server of {SERVICE}, 1 in reserve");
    eventually("the reserve is known", || {
        edge.ctl(&["status"]).1.contains(&told)
    });
    assert!(is_carried(&edge));
    drop(first);
    assert!(is_carried(&edge), "none waits for the reserve");
    eventually("the reserve is used", || {
        edge.log().contains(&format!("servers: 2, added: {two}"))
    });
    assert!(is_carried(&edge));
    let served = reserve.end();
    assert_eq!(served[0]["calls"], 20);
}

#[test]
fn a_phone_is_reached_where_the_name_in_its_contact_leads() {
    let phone = Serving::start(&[]);
    let port = phone.address.port();
    let dns = Dns::start(&format!("_sip._udp.phones SRV 1 1 {port} local\n"));
    let settings = Settings::new();
    let (sip, admin) = (settings.sip, settings.admin);
    settings.write_whole(&format!(
        r#"node = {{ name = "registrar", secret = "file:secret" }}
listen = [ {{ transport = "udp", address = "{sip}" }} ]
registrar = {{ domains = ["example.com"], store = "memory" }}
route = [ {{ to = "registrar" }} ]
dns.servers = ["{}"]
admin = {{ address = "{admin}", socket = "admin.sock" }}
"#,
        dns.address
    ));
    let node = settings.start();
    add_user(&node);
    let challenge = register(sip, 1, "");
    assert!(challenge.starts_with("SIP/2.0 401 "), "{challenge}");
    let message = Message::parse(challenge.as_bytes(), 64).unwrap();
    let is_challenge = |name: &[u8]| name.eq_ignore_ascii_case(b"WWW-Authenticate");
    let field = message.headers().find(|(name, _)| is_challenge(name));
    let demand = Demand::parse(field.unwrap().1).unwrap();
    let prover = Prover::new(&demand, "user-0", "secret");
    let shown = prover.credentials("REGISTER", "sip:example.com", 1, 7);
    let answer = register(sip, 2, &format!("Authorization: {shown}\r\n"));
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    let arguments = ["--rate", "100", "--calls", "10", "--users", "1"];
    let output = call(sip, &arguments);
    let calls: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(calls["carried"], 10, "{calls:#}{}", node.log());
    let (_, metrics) = node.ask("GET", "/metrics");
    assert!(metrics.contains("sipyard_store_records 2"), "{metrics}");
}

/// The user whose password is "secret".
fn add_user(node: &Edge) {
    let mut child = common::sipyard()
        .args(["user", "add", "user-0@example.com", "--config"])
        .arg(node.settings.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"secret\n").unwrap();
    assert!(child.wait().unwrap().success());
}

/// The answer to the REGISTER of a phone at a name, with this header field more.
fn register(node: SocketAddr, cseq: u32, field: &str) -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let from = socket.local_addr().unwrap();
    let register = format!(
        "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP {from};branch=z9hG4bKname{cseq}\r\nMax-Forwards: 70\r\n\
         From: <sip:user-0@example.com>;tag=a\r\nTo: <sip:user-0@example.com>\r\nCall-ID: name\r\nCSeq: {cseq} REGISTER\r\n\
         Contact: <sip:user-0@phones.test>\r\n{field}Content-Length: 0\r\n\r\n"
    );
    socket.send_to(register.as_bytes(), node).unwrap();
    let mut answer = [0; 2_000];
    let length = socket.recv(&mut answer).unwrap();
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

/// What a server sends to a domain goes by the transport that its NAPTR records prefer, of those that the node speaks.
/// RFC 3263 §4.1
#[test]
fn a_domain_is_reached_by_the_transport_that_it_prefers() {
    let domain = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = domain.local_addr().unwrap().port();
    let records = format!(
        "phones NAPTR 10 1 \"s\" \"SIPS+D2T\" \"\" _sips._tcp.phones\n\
         phones NAPTR 20 1 \"s\" \"SIP+D2T\" \"\" _sip._tcp.phones\n\
         phones NAPTR 30 1 \"s\" \"SIP+D2U\" \"\" _sip._udp.phones\n\
         _sips._tcp.phones SRV 1 1 9 local\n_sip._tcp.phones SRV 1 1 {port} local\n\
         _sip._udp.phones SRV 1 1 9 local\n"
    );
    let dns = Dns::start(&records);
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let us = server.local_addr().unwrap();
    let settings = Settings::new();
    let (sip, admin, tcp) = (settings.sip, settings.admin, free_address());
    settings.write_whole(&format!(
        r#"node = {{ name = "edge", secret = "file:secret" }}
listen = [ {{ transport = "udp", address = "{sip}" }}, {{ transport = "tcp", address = "{tcp}" }} ]
pool.app = {{ probe = false, servers = [ "{us}" ] }}
route = [ {{ hosts = ["example.com"], to = "app" }} ]
dns.servers = ["{}"]
admin = {{ address = "{admin}", socket = "admin.sock" }}
"#,
        dns.address
    ));
    let _edge = settings.start();
    let message = format!(
        "MESSAGE sip:bob@phones.test SIP/2.0\r\nVia: SIP/2.0/UDP {us};rport;branch=z9hG4bK-m\r\nMax-Forwards: 70\r\n\
         From: <sip:alice@example.com>;tag=a\r\nTo: <sip:bob@phones.test>\r\nCall-ID: m\r\nCSeq: 1 MESSAGE\r\n\
         Content-Length: 0\r\n\r\n"
    );
    server.send_to(message.as_bytes(), sip).unwrap();
    let mut stream = common::accepted(&domain);
    let mut received = [0; 4_000];
    let length = stream.read(&mut received).unwrap();
    let received = String::from_utf8_lossy(&received[..length]);
    assert!(
        received.starts_with("MESSAGE sip:bob@phones.test SIP/2.0\r\nVia: SIP/2.0/TCP"),
        "{received}"
    );
}

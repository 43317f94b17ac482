//! Programs that are connected to the node: by TCP, by TLS, by WebSocket.

use std::{
    fs,
    io::{ErrorKind, Read, Write},
    net::{IpAddr, SocketAddr, TcpStream},
    path::Path,
};

use rcgen::{CertifiedKey, generate_simple_self_signed};
use socket2::{Domain, Socket, Type};

use crate::{
    common::{Edge, PATIENCE, Settings, free_address},
    edge::{Counts, wait_until_idle},
    phones::Baresip,
    process::within,
    registrar::{account, add_users, call},
    sipp::{Caller, DEFAULT_CALLER, Server, scenario},
};

/// Writes a certificate of this host and its key beside a node's settings, and returns the listener of a
/// transport that shows it.
pub(crate) fn secure(settings: &Settings, transport: &str, address: SocketAddr) -> String {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
    let folder = settings.path().with_file_name("");
    fs::write(folder.join("edge.pem"), cert.pem()).unwrap();
    fs::write(folder.join("edge.key"), signing_key.serialize_pem()).unwrap();
    with_certificate(transport, address)
}

pub(crate) fn plain(transport: &str, address: SocketAddr) -> String {
    format!("{{ transport = \"{transport}\", address = \"{address}\" }}")
}

/// A listener whose certificate is `edge.pem` in the node's folder.
pub(crate) fn with_certificate(transport: &str, address: SocketAddr) -> String {
    format!(
        "{{ transport = \"{transport}\", address = \"{address}\", certificates = [ {{ chain = \"edge.pem\", key = \
         \"edge.key\" }} ] }}"
    )
}

/// Writes the configuration of a node with these listeners and a pool of these servers.
pub(crate) fn configure(settings: &Settings, listeners: &[String], servers: &[String], rest: &str) {
    let Settings { admin, .. } = settings;
    let listeners = listeners.join(", ");
    let servers: Vec<String> = servers.iter().map(|at| format!("\"{at}\"")).collect();
    let servers = servers.join(", ");
    settings.write_whole(&format!(
        r#"node = {{ name = "edge", secret = "file:secret", workers = 2 }}
listen = [ {listeners} ]
admin = {{ address = "{admin}", socket = "admin.sock" }}
pool.app = {{ policy = "round-robin", probe = false, servers = [ {servers} ] }}
{rest}
[[route]]
to = "app"
"#
    ));
}

fn by_tcp(name: &str) -> Vec<String> {
    let mode = ["-t".to_owned(), "t1".to_owned()];
    scenario(name).into_iter().chain(mode).collect()
}

/// One connection for all calls, a connection for each, and none; half of the servers are connected.
#[test]
fn calls_cross_between_tcp_and_udp() {
    let connected = Server::start_at(free_address(), &by_tcp("server"));
    let other = Server::start(&scenario("server"));
    let mut settings = Settings::new();
    settings.sip = free_address();
    let listeners = [plain("udp", settings.sip), plain("tcp", settings.sip)];
    let servers = [
        format!("tcp:{}", connected.address),
        other.address.to_string(),
    ];
    configure(&settings, &listeners, &servers, "");
    let edge = settings.start();
    for mode in ["t1", "tn", "u1"] {
        let load = ["-m", "200", "-r", "100", "-t", mode, "-max_socket", "500"];
        let mut caller = Caller::start(edge.sip(), DEFAULT_CALLER, &load);
        caller.outcome(3 * PATIENCE).expect_all(200);
    }
    wait_until_idle(&edge, PATIENCE);
    let placed = |server: &Server| Counts::of(&edge).of_server(server.address, "placed");
    assert_eq!((placed(&connected), placed(&other)), (300, 300));
}

/// An edge and a core that speak TLS to each other. The edge believes whom it is told to believe.
#[test]
fn an_edge_and_a_core_speak_tls() {
    let server = Server::start(&scenario("server"));
    let (core, secured) = (Settings::new(), free_address());
    let listeners = [plain("udp", core.sip), secure(&core, "tls", secured)];
    configure(&core, &listeners, &[server.address.to_string()], "");
    let authority = core.path().with_file_name("edge.pem");
    let core = core.start();

    let settings = Settings::new();
    let listeners = [
        plain("udp", settings.sip),
        secure(&settings, "tls", free_address()),
    ];
    let servers = [format!("tls:localhost:{}", secured.port())];
    let trust = |ca: &Path| format!("tls = {{ ca = \"{}\" }}", ca.display());
    configure(&settings, &listeners, &servers, &trust(&authority));
    let edge = settings.start();
    let load = ["-m", "200", "-r", "100"];
    let mut caller = Caller::start(edge.sip(), DEFAULT_CALLER, &load);
    caller.outcome(3 * PATIENCE).expect_all(200);
    wait_until_idle(&edge, PATIENCE);
    wait_until_idle(&core, PATIENCE);

    // Its own certificate is of no authority that the core's is of.
    let stranger = Settings::new();
    let listeners = [
        plain("udp", stranger.sip),
        secure(&stranger, "tls", free_address()),
    ];
    let own = stranger.path().with_file_name("edge.pem");
    configure(&stranger, &listeners, &servers, &trust(&own));
    let stranger = stranger.start();
    let _caller = Caller::start(stranger.sip(), DEFAULT_CALLER, &["-m", "1", "-r", "10"]);
    within(PATIENCE, "the refusal", || {
        closed(&stranger, "certificate") > 0
    });
}

/// A connection from an address of this machine.
pub(crate) fn connect_from(ip: &str, to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let ip: IpAddr = ip.parse().unwrap();
    socket.bind(&SocketAddr::new(ip, 0).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.set_write_timeout(Some(PATIENCE)).unwrap();
    socket.into()
}

/// All that comes until the other end closes.
pub(crate) fn read_all(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("it stays open"),
        _ => String::from_utf8_lossy(&bytes).into_owned(),
    }
}

/// A request that the node at an address answers itself.
pub(crate) fn options(address: SocketAddr, transport: &str, number: u32) -> String {
    let lower = transport.to_lowercase();
    format!(
        "OPTIONS sip:{address};transport={lower} SIP/2.0\r\nVia: SIP/2.0/{transport} client.invalid;branch=z9hG4bK{number}\r\n\
         Max-Forwards: 70\r\nFrom: <sip:a@example.com>;tag=1\r\nTo: <sip:{address}>\r\nCall-ID: {number}\r\n\
         CSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n"
    )
}

/// Connections that a node has closed for a reason.
pub(crate) fn closed(edge: &Edge, why: &str) -> u64 {
    let status = edge.status();
    let workers = status["workers"].as_array().unwrap().iter();
    workers
        .map(|worker| worker["closed"][why].as_u64().unwrap())
        .sum()
}

/// Alice by TCP, Bob by TLS: each is called over the connection by which it registered, and hung up on.
#[test]
fn connected_phones_call_each_other() {
    let (mut settings, secured) = (Settings::new(), free_address());
    settings.sip = free_address();
    let listeners = [
        plain("udp", settings.sip),
        plain("tcp", settings.sip),
        secure(&settings, "tls", secured),
    ];
    let registrar = "registrar = { domains = [\"example.com\", \"127.0.0.1\"], store = \"file:location.db\" }\n\
                     [[route]]\nhosts = [\"example.com\", \"127.0.0.1\"]\nto = \"registrar\"";
    configure(
        &settings,
        &listeners,
        &["127.0.0.1:9".to_owned()],
        registrar,
    );
    add_users(&settings, ["alice", "bob"].map(str::to_owned));
    let edge = settings.start();
    let phone = |user: &str, at: SocketAddr, transport: &str| {
        let account = account(user, at, 600).replace(";lr", &format!(";transport={transport};lr"));
        let phone = Baresip::with_account(|_| account.clone());
        within(PATIENCE, "the phone's registration", || {
            phone.times("200 OK") > 0
        });
        phone
    };
    let alice = phone("alice", edge.sip(), "tcp");
    let bob = phone("bob", secured, "tls");
    call(&alice, &bob);
    wait_until_idle(&edge, PATIENCE);
}

/// A browser's handshake, then an OPTIONS to the node in a masked frame.
#[test]
fn a_websocket_is_for_sip() {
    let (settings, address) = (Settings::new(), free_address());
    let listeners = [plain("udp", settings.sip), plain("ws", address)];
    configure(&settings, &listeners, &["127.0.0.1:9".to_owned()], "");
    let _edge = settings.start();
    let ask = |protocol: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = format!(
            "GET / HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n{protocol}\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let (mut answer, mut byte) = (Vec::new(), [0]);
        while !answer.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() > 0 {
            answer.push(byte[0]);
        }
        (stream, String::from_utf8(answer).unwrap())
    };
    let (_, refused) = ask("");
    assert!(refused.starts_with("HTTP/1.1 400"), "{refused}");
    let (mut stream, accepted) = ask("Sec-WebSocket-Protocol: sip\r\n");
    assert!(accepted.starts_with("HTTP/1.1 101"), "{accepted}");
    let options = format!(
        "OPTIONS sip:{address} SIP/2.0\r\nVia: SIP/2.0/WS df7jal23ls0d.invalid;branch=z9hG4bK1\r\n\
         Max-Forwards: 70\r\nFrom: <sip:a@example.com>;tag=1\r\nTo: <sip:{address}>\r\nCall-ID: 1\r\n\
         CSeq: 1 OPTIONS\r\n\r\n"
    );
    let length = u16::try_from(options.len()).unwrap().to_be_bytes();
    // Masked with zeros: the bytes stay as they are.
    let frame = [&[0x81, 0xfe][..], &length, &[0; 4], options.as_bytes()].concat();
    stream.write_all(&frame).unwrap();
    let mut head = [0; 4];
    stream.read_exact(&mut head).unwrap();
    let mut answer = vec![0; u16::from_be_bytes([head[2], head[3]]).into()];
    stream.read_exact(&mut answer).unwrap();
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("SIP/2.0 200 OK\r\n"), "{answer}");
}

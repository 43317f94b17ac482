//! A server to which nobody can connect, and which takes requests on the connection that it has opened. RFC 5923

use std::{
    fs::{self, File},
    io::Write as _,
    net::{SocketAddr, UdpSocket},
    process::{Child, ChildStdin, Stdio},
};

use serde_json::Value;

use crate::{
    common::{Edge, PATIENCE, Settings, authority::Authority, free_address},
    process::{command, within},
    streams::{configure, plain},
};

/// OpenSSL as the server: it shows a certificate, and what it is sent is in a file.
struct Home {
    openssl: Child,
    stdin: ChildStdin,
    edge: Edge,
    place: Place,
    answered: usize,
}

/// Where a server connects to, what it shows, and the port at which it says that it listens.
#[derive(Clone, Copy)]
struct Place {
    to: SocketAddr,
    certificate: &'static str,
    port: u16,
}

impl Home {
    /// It connects to a node, and says where it listens.
    fn connect(edge: Edge, place: Place) -> Self {
        let (openssl, stdin) = open(&edge, place);
        let mut home = Self {
            openssl,
            stdin,
            edge,
            place,
            answered: 0,
        };
        home.begin();
        home
    }

    fn connect_again(&mut self) {
        self.end();
        (self.openssl, self.stdin) = open(&self.edge, self.place);
        self.answered = 0;
        self.begin();
    }

    fn begin(&mut self) {
        let Place { to, port, .. } = self.place;
        let via = format!("SIP/2.0/TLS localhost:{port};alias;branch=z9hG4bK-home");
        self.write(&options(&format!("sip:{to};transport=tls"), &via, "home"));
        within(PATIENCE, "the node's answer", || {
            self.said().contains("SIP/2.0 ")
        });
    }

    /// Closes the connection, unless the node has done that.
    fn end(&mut self) {
        // It may have ended by itself.
        let _ = self.openssl.kill();
        let _ = self.openssl.wait();
    }

    /// The node takes up a configuration with other words.
    fn reload(&self, before: &str, after: &str) {
        let path = self.edge.folder().join("edge.toml");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace(before, after)).unwrap();
        self.edge.signal("HUP");
    }

    /// The connections that the node has.
    fn connections(&self) -> u64 {
        let status = self.edge.status();
        let workers = status["workers"].as_array().unwrap().iter();
        let open = |worker: &Value| worker["connections"]["total"].as_u64().unwrap();
        workers.map(open).sum()
    }

    fn write(&mut self, message: &str) {
        self.stdin.write_all(message.as_bytes()).unwrap();
    }

    fn said(&self) -> String {
        fs::read_to_string(self.edge.folder().join("said")).unwrap()
    }

    /// Answers all requests that came and have no answer yet, and returns how many there were so far.
    fn answer(&mut self) -> usize {
        let said = self.said();
        let requests = said.split_inclusive("\r\n\r\n");
        let requests = requests.filter(|it| it.starts_with("OPTIONS ") && it.ends_with("\r\n\r\n"));
        let new: Vec<_> = requests.skip(self.answered).map(answer).collect();
        for answer in &new {
            self.write(answer);
        }
        self.answered += new.len();
        self.answered
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.end();
    }
}

fn open(edge: &Edge, place: Place) -> (Child, ChildStdin) {
    let (chain, key) = (
        format!("{}.pem", place.certificate),
        format!("{}.key", place.certificate),
    );
    let said = File::create(edge.folder().join("said")).unwrap();
    let mut openssl = command("openssl", "openssl")
        .args(["s_client", "-quiet", "-connect", &place.to.to_string()])
        .args(["-CAfile", "ca.pem", "-cert", &chain, "-key", &key])
        .current_dir(edge.folder())
        .stdin(Stdio::piped())
        .stdout(said)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let stdin = openssl.stdin.take().unwrap();
    (openssl, stdin)
}

/// It sends requests over UDP.
struct Caller {
    socket: UdpSocket,
    edge: SocketAddr,
}

impl Caller {
    fn new(edge: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket, edge }
    }

    fn send(&self, call: &str) {
        let address = self.socket.local_addr().unwrap();
        let via = format!("SIP/2.0/UDP {address};branch=z9hG4bK-{call}");
        let request = options("sip:b@example.com", &via, call);
        self.socket.send_to(request.as_bytes(), self.edge).unwrap();
    }

    #[track_caller]
    fn expect(&self, status: u16) {
        let mut buffer = [0; 2048];
        let length = self.socket.recv(&mut buffer).unwrap();
        let answer = String::from_utf8_lossy(&buffer[..length]);
        assert!(
            answer.starts_with(&format!("SIP/2.0 {status} ")),
            "{answer}"
        );
    }
}

fn options(uri: &str, via: &str, call: &str) -> String {
    format!(
        "OPTIONS {uri} SIP/2.0\r\nVia: {via}\r\nMax-Forwards: 70\r\nFrom: <sip:a@example.com>;tag=1\r\n\
         To: <sip:b@example.com>\r\nCall-ID: {call}\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n"
    )
}

fn answer(request: &str) -> String {
    let kept = ["Via:", "From:", "To:", "Call-ID:", "CSeq:"];
    let is_kept = |line: &&str| kept.iter().any(|name| line.starts_with(name));
    let kept: Vec<_> = request.split("\r\n").filter(is_kept).collect();
    let kept = kept.join("\r\n");
    format!("SIP/2.0 200 OK\r\n{kept}\r\nContent-Length: 0\r\n\r\n")
}

/// A node with a server that is called localhost, and a home that shows a certificate.
fn start(certificate: &'static str) -> (Home, Caller) {
    start_before("localhost", certificate)
}

/// The same, with another server.
fn start_before(server: &str, certificate: &'static str) -> (Home, Caller) {
    let settings = Settings::new();
    let authority = Authority::new(&settings.path().with_file_name(""), "ca");
    authority.issue("edge", &["localhost", "127.0.0.1"]);
    authority.issue("home", &["localhost"]);
    authority.issue("other", &["other.example"]);
    let (secure, nobody) = (free_address(), free_address());
    let listener = format!(
        "{{ transport = \"tls\", address = \"{secure}\", certificates = [ {{ chain = \"edge.pem\", \
         key = \"edge.key\" }} ], client_certificates = \"request\", client_ca = \"ca.pem\" }}"
    );
    let sip = settings.sip;
    let servers = [format!("tls:{server}:{}", nobody.port())];
    configure(&settings, &[plain("udp", sip), listener], &servers, "");
    let place = Place {
        to: secure,
        certificate,
        port: nobody.port(),
    };
    let edge = settings.start();
    within(PATIENCE, "the address of the server", || {
        edge.status()["pools"][0]["servers"][0].is_object()
    });
    let home = Home::connect(edge, place);
    (home, Caller::new(sip))
}

/// Calls of both workers, of which one has the connection.
#[test]
fn a_server_takes_requests_on_the_connection_that_it_has_opened() {
    const CALLS: usize = 8;
    let (mut home, caller) = start("home");
    for call in 0..CALLS {
        caller.send(&format!("call-{call}"));
    }
    within(PATIENCE, "the requests", || home.answer() == CALLS);
    assert!(home.said().contains(";alias;"), "{}", home.said());
    (0..CALLS).for_each(|_| caller.expect(200));
}

/// Whoever proves to be somebody else gets nothing of what is for the server, whatever it says.
#[test]
fn a_stranger_takes_no_requests_for_a_server() {
    let (mut home, caller) = start("other");
    caller.send("call");
    caller.expect(503);
    assert_eq!(home.answer(), 0, "{}", home.said());
}

#[test]
fn a_server_whose_connection_is_gone_is_reached_by_its_next_one() {
    let (mut home, caller) = start("home");
    home.end();
    within(PATIENCE, "the end of the connection", || {
        home.connections() == 0
    });
    caller.send("gone");
    caller.expect(503);
    home.connect_again();
    caller.send("again");
    within(PATIENCE, "the request", || home.answer() == 1);
    caller.expect(200);
}

/// What a certificate proved then proves nothing of a server that is called otherwise.
#[test]
fn a_reload_that_gives_a_server_another_name_closes_its_connection() {
    let (mut home, caller) = start("home");
    home.reload("tls:localhost:", "tls:localhost:");
    home.edge.wait_for_log("reloaded");
    caller.send("before");
    within(PATIENCE, "the request", || home.answer() == 1);
    caller.expect(200);
    home.reload("tls:localhost:", "tls:127.0.0.1:");
    within(PATIENCE, "the end of the connection", || {
        home.openssl.try_wait().unwrap().is_some()
    });
    caller.send("after");
    caller.expect(503);
    assert_eq!(home.answer(), 1, "{}", home.said());
}

/// A server that connected before the node knew its address had no requests on that connection, whatever it said later.
#[test]
fn a_server_may_connect_before_it_is_known() {
    let (mut home, caller) = start_before("127.0.0.2", "home");
    home.reload("tls:127.0.0.2:", "tls:localhost:");
    let mut calls = 0;
    within(PATIENCE, "a request", || {
        home.begin();
        calls += 1;
        caller.send(&format!("call-{calls}"));
        home.answer() > 0
    });
}

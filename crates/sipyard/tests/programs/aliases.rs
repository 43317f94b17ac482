//! A server to which nobody can connect, and which takes requests on the connection that it has opened. RFC 5923

use std::{
    fs::{self, File},
    io::Write as _,
    net::{SocketAddr, UdpSocket},
    process::{Child, ChildStdin, Stdio},
};

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
    answered: usize,
}

impl Home {
    /// It connects to a node, and says in a request that it listens at a port of its own.
    fn connect(edge: Edge, to: SocketAddr, certificate: &str, port: u16) -> Self {
        let folder = edge.folder();
        let (chain, key) = (format!("{certificate}.pem"), format!("{certificate}.key"));
        let said = File::create(folder.join("said")).unwrap();
        let mut openssl = command("openssl", "openssl")
            .args(["s_client", "-quiet", "-connect", &to.to_string()])
            .args(["-CAfile", "ca.pem", "-cert", &chain, "-key", &key])
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(said)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut home = Self {
            stdin: openssl.stdin.take().unwrap(),
            openssl,
            edge,
            answered: 0,
        };
        let via = format!("SIP/2.0/TLS localhost:{port};alias;branch=z9hG4bK-home");
        home.write(&options(&format!("sip:{to};transport=tls"), &via, "home"));
        within(PATIENCE, "the node's answer", || {
            home.said().contains("SIP/2.0 ")
        });
        home
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
        // It may have ended by itself.
        let _ = self.openssl.kill();
        let _ = self.openssl.wait();
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
fn start(certificate: &str) -> (Home, SocketAddr) {
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
    let servers = [format!("tls:localhost:{}", nobody.port())];
    configure(&settings, &[plain("udp", sip), listener], &servers, "");
    let home = Home::connect(settings.start(), secure, certificate, nobody.port());
    (home, sip)
}

/// Calls of both workers, of which one has the connection.
#[test]
fn a_server_takes_requests_on_the_connection_that_it_has_opened() {
    const CALLS: usize = 8;
    let (mut home, edge) = start("home");
    let caller = UdpSocket::bind("127.0.0.1:0").unwrap();
    caller.set_read_timeout(Some(PATIENCE)).unwrap();
    let via = format!("SIP/2.0/UDP {}", caller.local_addr().unwrap());
    for call in 0..CALLS {
        let via = format!("{via};branch=z9hG4bK-{call}");
        let request = options("sip:b@example.com", &via, &format!("call-{call}"));
        caller.send_to(request.as_bytes(), edge).unwrap();
    }
    within(PATIENCE, "the requests", || home.answer() == CALLS);
    assert!(home.said().contains(";alias;"), "{}", home.said());
    for _ in 0..CALLS {
        let mut buffer = [0; 2048];
        let length = caller.recv(&mut buffer).unwrap();
        let answer = String::from_utf8_lossy(&buffer[..length]);
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    }
}

/// Whoever proves to be somebody else gets nothing of what is for the server, whatever it says.
#[test]
fn a_stranger_takes_no_requests_for_a_server() {
    let (mut home, edge) = start("other");
    let caller = UdpSocket::bind("127.0.0.1:0").unwrap();
    caller.set_read_timeout(Some(PATIENCE)).unwrap();
    let via = format!(
        "SIP/2.0/UDP {};branch=z9hG4bK-1",
        caller.local_addr().unwrap()
    );
    let request = options("sip:b@example.com", &via, "call");
    caller.send_to(request.as_bytes(), edge).unwrap();
    let mut buffer = [0; 2048];
    let length = caller.recv(&mut buffer).unwrap();
    let answer = String::from_utf8_lossy(&buffer[..length]);
    assert!(answer.starts_with("SIP/2.0 503 "), "{answer}");
    assert_eq!(home.answer(), 0, "{}", home.said());
}

//! Secure connections of a running node, with OpenSSL and curl at the other end.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpStream},
    os::unix::fs::{PermissionsExt, chown},
    path::Path,
    process::{Command, Output, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use rustix::process::geteuid;
use tempfile::tempdir;

use crate::{
    common::authority::Authority,
    common::{Edge, PATIENCE, Settings, free_address, sipyard},
    process::{Process, command, within},
    sipp::{Caller, DEFAULT_CALLER},
    streams::{closed, configure, connect_from, options, plain, read_all},
};

/// Two certificates by name.
const SHOWN: &str = "certificates = [ { chain = \"edge.pem\", key = \"edge.key\" }, \
                     { chain = \"phones.pem\", key = \"phones.key\" } ]";

/// A node with a listener of connections.
struct Node {
    edge: Edge,
    address: SocketAddr,
}

impl Node {
    /// `keys` are those of its listener. Its folder has the authorities `ca` and `other`, and what they issued.
    fn start(transport: &str, keys: &str) -> Self {
        Self::start_with(transport, keys, "")
    }

    /// The same, with more of the configuration.
    fn start_with(transport: &str, keys: &str, more: &str) -> Self {
        let (settings, address) = (Settings::new(), free_address());
        issue(&settings.path().with_file_name(""));
        let listener =
            format!("{{ transport = \"{transport}\", address = \"{address}\", {keys} }}");
        let listeners = [plain("udp", settings.sip), listener];
        configure(&settings, &listeners, &["127.0.0.1:9".to_owned()], more);
        let edge = settings.start();
        Self { edge, address }
    }

    /// What a program says that runs in the node's folder, and is given this.
    fn run(&self, program: &str, arguments: &[&str], input: &[u8]) -> String {
        let mut child = command(program, program)
            .args(arguments)
            .current_dir(self.edge.folder())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // It may have ended already.
        let _ = stdin.write_all(input);
        drop(stdin);
        said(&child.wait_with_output().unwrap())
    }

    fn openssl(&self, arguments: &[&str], input: &[u8]) -> String {
        let address = self.address.to_string();
        let connect = [
            "s_client", "-connect", &address, "-CAfile", "ca.pem", "-ign_eof",
        ];
        self.run("openssl", &[&connect, arguments].concat(), input)
    }
}

fn issue(folder: &Path) {
    let authority = Authority::new(folder, "ca");
    authority.issue("edge", &["localhost", "127.0.0.1"]);
    authority.issue("phones", &["phones.example"]);
    authority.issue("client", &["client.example"]);
    authority.issue_revoked("lost", &["client.example"], "revoked");
    Authority::new(folder, "other").issue("stranger", &["client.example"]);
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// A request whose length is bad, so that the node ends the connection when it has answered.
fn last_request(transport: &str) -> Vec<u8> {
    let request = format!(
        "OPTIONS sip:127.0.0.1 SIP/2.0\r\nVia: SIP/2.0/{transport} client.invalid;branch=z9hG4bK1\r\n\
         Max-Forwards: 70\r\nFrom: <sip:a@example.com>;tag=1\r\nTo: <sip:127.0.0.1>\r\nCall-ID: 1\r\n\
         CSeq: 1 OPTIONS\r\nContent-Length: x\r\n\r\n"
    );
    request.into_bytes()
}

const ANSWER: &str = "SIP/2.0 400 Bad Content-Length";

#[test]
fn the_name_that_a_client_wants_chooses_the_certificate() {
    let node = Node::start("tls", SHOWN);
    for version in ["-tls1_2", "-tls1_3"] {
        for name in ["localhost", "phones.example"] {
            let checked = ["-servername", name, "-verify_hostname", name, version];
            let said = node.openssl(&checked, &last_request("TLS"));
            assert!(said.contains("Verification: OK"), "{said}");
            assert!(said.contains(ANSWER), "{said}");
            // With close_notify. Without, OpenSSL speaks of an unexpected end.
            assert!(!said.contains("error"), "{said}");
        }
    }
    let other = [
        "-servername",
        "elsewhere.example",
        "-verify_hostname",
        "elsewhere.example",
    ];
    let said = node.openssl(&other, &last_request("TLS"));
    assert!(said.to_lowercase().contains("hostname mismatch"), "{said}");
}

/// Those who are connected notice nothing.
#[test]
fn a_reload_shows_new_certificates_to_new_clients() {
    let node = Node::start("tls", SHOWN);
    let address = node.address.to_string();
    let mut client = command("openssl", "openssl")
        .args(["s_client", "-connect", &address, "-quiet", "-no_ign_eof"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (mut to, from) = (client.stdin.take().unwrap(), client.stdout.take().unwrap());
    let (told, answers) = mpsc::channel();
    thread::spawn(move || {
        let lines = BufReader::new(from).lines().map_while(Result::ok);
        for line in lines.filter(|line| line.starts_with("SIP/2.0")) {
            // The test may have ended.
            let _ = told.send(line);
        }
    });
    let mut ask = |number: u32| {
        let request = String::from_utf8(last_request("TLS")).unwrap();
        let request = request
            .replace(
                "OPTIONS sip:127.0.0.1",
                &format!("OPTIONS sip:{address};transport=tls"),
            )
            .replace("z9hG4bK1", &format!("z9hG4bK{number}"))
            .replace("Content-Length: x", "Content-Length: 0");
        to.write_all(request.as_bytes()).unwrap();
        answers.recv_timeout(PATIENCE).expect("an answer")
    };
    let before = ask(1);

    let folder = node.edge.folder();
    Authority::new(folder, "next").issue("edge", &["localhost", "127.0.0.1"]);
    node.edge.signal("HUP");
    node.edge.wait_for_log("reloaded");
    let shows = |authority: &str| {
        let checked = [
            "s_client", "-connect", &address, "-CAfile", authority, "-ign_eof",
        ];
        node.run("openssl", &checked, &last_request("TLS"))
    };
    // Each worker takes it up within a tick.
    let is_good = |authority: &str| shows(authority).contains("Verification: OK");
    within(PATIENCE, "the new certificate", || {
        is_good("next.pem") && !is_good("ca.pem")
    });
    assert_eq!(ask(2), before);
    client.kill().unwrap();
    client.wait().unwrap();
}

#[test]
fn clients_prove_who_they_are() {
    let asked = format!(
        "{SHOWN}, client_certificates = \"require\", client_ca = \"ca.pem\", client_crl = \"revoked.pem\""
    );
    let node = Node::start("tls", &asked);
    let shows = |name: &str| {
        let (chain, key) = (format!("{name}.pem"), format!("{name}.key"));
        node.openssl(&["-cert", &chain, "-key", &key], &last_request("TLS"))
    };
    let said = shows("client");
    assert!(said.contains(ANSWER), "{said}");
    for (said, alert, cause) in [
        (
            node.openssl(&[], &last_request("TLS")),
            "certificate required",
            "the peer showed no certificate, and one is required",
        ),
        (
            shows("stranger"),
            "alert unknown ca",
            "issued by an authority that is not trusted here",
        ),
        (
            shows("lost"),
            "certificate revoked",
            "the peer's certificate was revoked",
        ),
    ] {
        assert!(!said.contains(ANSWER), "{said}");
        assert!(said.contains(alert), "{said}");
        node.edge.wait_for_log(cause);
    }
    assert_eq!(closed(&node.edge, "certificate"), 3);
}

#[test]
fn rubbish_ends_its_connection_with_a_cause() {
    let node = Node::start("tls", SHOWN);
    for rubbish in [
        "GET / HTTP/1.1\r\n\r\n".repeat(100),
        "\u{16}\u{3}\u{1}\0\u{5}hello".to_owned(),
    ] {
        let mut stream = connect_from("127.0.0.2", node.address);
        // The node may close before all is written.
        let _ = stream.write_all(rubbish.as_bytes());
        read_all(&mut stream);
    }
    within(PATIENCE, "the closings", || closed(&node.edge, "tls") == 2);
    node.edge.wait_for_log("what the peer sends is not TLS");
    // OpenSSL would take lines that begin with Q or R for its own commands.
    node.openssl(&["-quiet"], &b"no SIP at all\r\n\r\n".repeat(1_000));
    within(PATIENCE, "the closing", || {
        closed(&node.edge, "not_sip") == 1
    });
    let said = node.openssl(&[], &last_request("TLS"));
    assert!(said.contains(ANSWER), "{said}");
}

/// Reads until so many answers have come.
fn answers(stream: &TcpStream, number: usize) {
    let lines = BufReader::new(stream).lines().map(Result::unwrap);
    let answers = lines.filter(|line| line.starts_with("SIP/2.0 200"));
    assert_eq!(answers.take(number).count(), number);
}

/// Who sends it loses the connection, for a cause that is counted, and whoever else is connected notices nothing.
#[test]
fn bad_framing_ends_its_connection_and_no_other() {
    let node = Node::start_with("tcp", "", "[connections]\nmessage = \"2s\"");
    let mut honest = connect_from("127.0.0.1", node.address);
    let mut slow = connect_from("127.0.0.3", node.address);
    slow.write_all(b"OPTIONS sip:a@example.com SIP/2.0\r\n")
        .unwrap();
    let good = options(node.address, "TCP", 1);
    let length = |lines: &str| good.replace("Content-Length: 0\r\n", lines);
    let endless = good.replace("\r\n\r\n", "\r\nX: ") + &"x".repeat(1 << 20);
    for (bad, why) in [
        (length("Content-Length: 4294967296\r\n"), "message_too_long"),
        (
            length("Content-Length: 1\r\nContent-Length: 2\r\n"),
            "bad_length",
        ),
        (length("Content-Length: -1\r\n"), "bad_length"),
        (length(""), "no_length"),
        (endless, "head_too_long"),
        (good[..good.len() / 2].to_owned(), "peer"),
    ] {
        let before = closed(&node.edge, why);
        let mut stream = connect_from("127.0.0.2", node.address);
        // The node may close before all is written.
        let _ = stream.write_all(bad.as_bytes());
        if why == "peer" {
            drop(stream);
        } else {
            read_all(&mut stream);
        }
        within(PATIENCE, why, || closed(&node.edge, why) == before + 1);
    }
    honest.set_nodelay(true).unwrap();
    for byte in good.bytes() {
        honest.write_all(&[byte]).unwrap();
    }
    answers(&honest, 1);
    let pipelined: String = (2..1_002)
        .map(|number| options(node.address, "TCP", number))
        .collect();
    honest.write_all(pipelined.as_bytes()).unwrap();
    answers(&honest, 1_000);
    within(PATIENCE, "the end of the slow one", || {
        closed(&node.edge, "slow_message") == 1
    });
    assert_eq!(node.edge.status()["listeners"][1]["connections"], 1);
}

/// A message in pieces is one message. RFC 6455 §5.4
#[test]
fn a_websocket_message_may_come_in_fragments() {
    let node = Node::start("ws", "");
    let mut stream = connect_from("127.0.0.1", node.address);
    stream.write_all(upgrade(&node).as_bytes()).unwrap();
    let message = options(node.address, "WS", 1);
    let (first, rest) = message.as_bytes().split_at(100);
    let (more, last) = rest.split_at(30);
    for (head, piece) in [(0x01, first), (0x00, more), (0x80, last)] {
        // The mask is 0, so it changes nothing.
        let length = (piece.len() as u16).to_be_bytes();
        let frame = [&[head, 0xfe, length[0], length[1], 0, 0, 0, 0], piece].concat();
        stream.write_all(&frame).unwrap();
    }
    // The head of its frame stands before the answer's first line.
    let lines = BufReader::new(&stream).split(b'\n').map(Result::unwrap);
    let mut texts = lines.map(|line| String::from_utf8_lossy(&line).into_owned());
    assert!(texts.any(|text| text.contains("SIP/2.0 200")));
}

/// What a browser sends first.
fn upgrade(node: &Node) -> String {
    format!(
        "GET / HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Protocol: sip\r\n\r\n",
        node.address
    )
}

#[test]
fn a_secure_websocket_is_for_sip() {
    let node = Node::start("wss", SHOWN);
    let url = format!("https://localhost:{}/", node.address.port());
    let ask = |protocol: &str| {
        let protocol = format!("Sec-WebSocket-Protocol: {protocol}");
        let mut arguments = vec![
            "-sS",
            "-i",
            "--http1.1",
            "--max-time",
            "1",
            "--noproxy",
            "*",
        ];
        arguments.extend(["--cacert", "ca.pem", "-H", "Connection: Upgrade"]);
        arguments.extend([
            "-H",
            "Upgrade: websocket",
            "-H",
            "Sec-WebSocket-Version: 13",
        ]);
        arguments.extend(["-H", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "-H"]);
        arguments.extend([protocol.as_str(), url.as_str()]);
        node.run("curl", &arguments, b"")
    };
    let said = ask("sip");
    assert!(said.starts_with("HTTP/1.1 101"), "{said}");
    assert!(said.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{said}");
    let said = ask("chat");
    assert!(said.starts_with("HTTP/1.1 400"), "{said}");
    within(PATIENCE, "the closing", || {
        closed(&node.edge, "subprotocol") == 1
    });
    // Behind a good handshake: frames that are none, and one that claims to be the longest that there is.
    let handshake = upgrade(&node);
    for (byte, why) in [(0xf3, "websocket"), (0xff, "message_too_long")] {
        let rubbish = [handshake.as_bytes(), &[byte; 5_000]].concat();
        node.openssl(&["-quiet"], &rubbish);
        within(PATIENCE, "the closing", || closed(&node.edge, why) == 1);
    }
}

#[test]
fn a_balancer_tells_its_clients_addresses_and_a_stranger_does_not() {
    let node = Node::start("tcp", "proxy_protocol = [\"127.0.0.3/32\"]");
    let header = "PROXY TCP4 198.51.100.7 127.0.0.1 40000 5060\r\n";
    let ask = |from: &str, header: &[u8]| {
        let mut stream = connect_from(from, node.address);
        // The node may close before all is written.
        let _ = stream.write_all(&[header, &last_request("TCP")].concat());
        read_all(&mut stream)
    };
    let said = ask("127.0.0.3", header.as_bytes());
    assert!(said.contains(ANSWER), "{said}");
    assert!(said.contains("received=198.51.100.7"), "{said}");
    let second = [
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".as_slice(),
        &[198, 51, 100, 8, 127, 0, 0, 1, 0x9c, 0x40, 0x13, 0xc4],
    ];
    let said = ask("127.0.0.3", &second.concat());
    assert!(said.contains("received=198.51.100.8"), "{said}");
    let rubbish = b"no header\r\n\r\n";
    assert_eq!(ask("127.0.0.3", rubbish), "", "a balancer without a header");
    assert_eq!(
        ask("127.0.0.2", header.as_bytes()),
        "",
        "a stranger with one"
    );
    let said = ask("127.0.0.2", b"");
    assert!(said.contains("received=127.0.0.2"), "{said}");
    assert_eq!(closed(&node.edge, "proxy_header"), 1);
    assert_eq!(closed(&node.edge, "not_sip"), 1);
}

/// `sipyard` as a user who owns a folder and its files. Root reads every file, whatever its mode is.
fn sipyard_of_nobody(folder: &Path) -> Command {
    const NOBODY: u32 = 65_534;
    let paths = fs::read_dir(folder).unwrap();
    let paths = paths.map(|entry| entry.unwrap().path());
    for path in paths.chain([folder.to_owned()]) {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    // What cargo has built may be where only root comes. A process copies it: a file that a thread here has written may
    // still be open in another thread's child, and does not start then.
    let program = folder.join("sipyard");
    let mut install = command("install", "coreutils");
    install.args(["-m", "755", env!("CARGO_BIN_EXE_sipyard")]);
    assert!(install.arg(&program).status().unwrap().success());
    let id = NOBODY.to_string();
    let mut other = command("setpriv", "util-linux");
    other.args(["--reuid", &id, "--regid", &id, "--clear-groups"]);
    other.arg(program);
    other
}

/// What `sipyard check` says of files that can't be used, and where. As root it read the key that its user can't read, so that
/// case was left out.
#[test]
fn a_bad_certificate_is_a_mistake_with_its_place() {
    let settings = Settings::new();
    let folder = settings.path().with_file_name("");
    issue(&folder);
    Authority::new(&folder, "third").issue_until("old", &["localhost"], 2_020);
    fs::write(folder.join("rubbish.key"), "no key").unwrap();
    fs::copy(folder.join("edge.key"), folder.join("secret.key")).unwrap();
    fs::set_permissions(folder.join("secret.key"), fs::Permissions::from_mode(0o0)).unwrap();
    let cases = [
        ("old", "old", "a certificate expired "),
        (
            "edge",
            "client",
            "has a private key that is not the certificate's",
        ),
        ("edge", "rubbish", "has no private key"),
        ("edge", "nowhere", "check the path"),
        ("edge", "secret", "let the node's user read it"),
    ];
    for (chain, key, words) in cases {
        let listener = format!(
            "{{ transport = \"tls\", address = \"127.0.0.1:5061\", certificates = [ {{ chain = \"{chain}.pem\", key \
             = \"{key}.key\" }} ] }}"
        );
        configure(&settings, &[listener], &["tls:127.0.0.1:9".to_owned()], "");
        let mut check = match geteuid().is_root() {
            true if key == "secret" => sipyard_of_nobody(&folder),
            _ => sipyard(),
        };
        check.args(["check", "--strict"]).arg(settings.path());
        let output = check.output().unwrap();
        let said = said(&output);
        assert!(!output.status.success(), "{said}");
        assert!(
            said.contains(words) && said.contains("edge.toml:2:"),
            "{said}"
        );
    }
}

/// A server whose certificate is not good gets no call, and the log says what is wrong with it.
#[test]
fn a_server_with_a_bad_certificate_is_not_believed() {
    let folder = tempdir().unwrap();
    let authority = Authority::new(folder.path(), "ca");
    authority.issue("good", &["localhost"]);
    authority.issue("name", &["elsewhere.example"]);
    authority.issue_until("old", &["localhost"], 2_020);
    Authority::new(folder.path(), "other").issue("stranger", &["localhost"]);
    let trust = format!(
        "tls = {{ ca = \"{}\" }}",
        folder.path().join("ca.pem").display()
    );
    for (file, cause) in [
        ("name", "is not of localhost, but of: "),
        ("old", "the peer's certificate has expired"),
        (
            "stranger",
            "was issued by an authority that is not trusted here",
        ),
        ("good", ""),
    ] {
        let (home, at) = (tempdir().unwrap(), free_address());
        for end in ["pem", "key"] {
            let name = format!("{file}.{end}");
            fs::copy(folder.path().join(&name), home.path().join(&name)).unwrap();
        }
        let (chain, key, address) = (format!("{file}.pem"), format!("{file}.key"), at.to_string());
        let accept = [
            "s_server", "-accept", &address, "-cert", &chain, "-key", &key,
        ];
        // It would end with its standard input, but for -www.
        let arguments = [&accept[..], &["-www", "-state"]].concat();
        let server = Process::start("openssl", "openssl", home, &arguments);
        within(PATIENCE, "OpenSSL's socket", || {
            server.log().contains("ACCEPT")
        });
        let settings = Settings::new();
        issue(&settings.path().with_file_name(""));
        let listener = format!(
            "{{ transport = \"tls\", address = \"{}\", {SHOWN} }}",
            free_address()
        );
        let listeners = [plain("udp", settings.sip), listener];
        configure(
            &settings,
            &listeners,
            &[format!("tls:localhost:{}", at.port())],
            &trust,
        );
        let edge = settings.start();
        if file == "good" {
            // It is no SIP server, but a connection to it is opened ahead.
            within(PATIENCE, "the connection", || {
                server.log().contains("read finished")
            });
            assert_eq!(closed(&edge, "certificate"), 0);
            continue;
        }
        edge.wait_for_log(cause);
        assert!(
            edge.log()
                .contains(&format!("connection to tls:{at} was closed"))
        );
        let load = ["-m", "1", "-r", "10", "-timeout", "5"];
        let mut caller = Caller::start(edge.sip(), DEFAULT_CALLER, &load);
        assert_eq!(caller.outcome(Duration::from_secs(20)).failed, 1);
        within(PATIENCE, "the alert at the server", || {
            server.log().contains("alert")
        });
    }
}

//! Calls of OpenSSL's client, captured by tcpdump, become a model by the secrets that the client wrote down.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::SocketAddr,
    path::Path,
    process::{ChildStdin, ChildStdout, Output, Stdio},
};

use serde_json::Value;
use tempfile::tempdir;
use testbed::Running;

use crate::{
    common::{PATIENCE, authority::Authority, load::Serving, sipyard},
    process::{Process, command, within},
};

const CALLS: usize = 12;

/// A connection of OpenSSL's client.
struct Client {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    _process: Running,
}

impl Client {
    /// Its secrets are in `secrets` of the folder.
    fn connect(folder: &Path, address: SocketAddr) -> Self {
        let mut child = command("openssl", "openssl")
            .args(["s_client", "-quiet", "-connect", &address.to_string()])
            .args(["-CAfile", "ca.pem", "-verify_return_error"])
            .args(["-keylogfile", "secrets"])
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            _process: child.into(),
        }
    }

    /// A call from its INVITE to the answer to its BYE.
    fn call(&mut self, number: usize) {
        self.send(number, "INVITE", "1 INVITE", "");
        let answer = self.answer();
        let to = line(&answer, "To: ");
        let tag = &to[to.find(";tag=").unwrap()..];
        self.send(number, "ACK", "1 ACK", tag);
        self.send(number, "BYE", "2 BYE", tag);
        self.answer();
    }

    fn send(&mut self, call: usize, method: &str, cseq: &str, tag: &str) {
        let request = format!(
            "{method} sip:callee@example.com SIP/2.0\r\nVia: SIP/2.0/TLS client.invalid;branch=z9hG4bK{call}{method}\r\n\
             Max-Forwards: 70\r\nFrom: <sip:caller@example.com>;tag=a\r\nTo: <sip:callee@example.com>{tag}\r\n\
             Call-ID: {call}\r\nCSeq: {cseq}\r\nContact: <sip:caller@client.invalid;transport=tls>\r\n\
             Content-Length: 0\r\n\r\n"
        );
        self.input.write_all(request.as_bytes()).unwrap();
        self.input.flush().unwrap();
    }

    /// The next final response.
    fn answer(&mut self) -> String {
        loop {
            let response = self.response();
            if !response.starts_with("SIP/2.0 1") {
                assert!(response.starts_with("SIP/2.0 200"), "{response}");
                return response;
            }
        }
    }

    fn response(&mut self) -> String {
        let mut text = String::new();
        while !text.ends_with("\r\n\r\n") {
            assert_ne!(self.output.read_line(&mut text).unwrap(), 0, "{text}");
        }
        let length = line(&text, "Content-Length: ").parse().unwrap();
        self.output.read_exact(&mut vec![0; length]).unwrap();
        text
    }
}

/// What stands in the line that begins so.
fn line<'a>(text: &'a str, name: &str) -> &'a str {
    let mut lines = text.lines();
    lines.find_map(|line| line.strip_prefix(name)).unwrap()
}

fn from_pcap(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = sipyard();
    let command = command.args(["model", "from-pcap", "lo.pcap", "--json"]);
    command
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

#[test]
fn tls_calls_become_a_model_by_the_secrets_that_a_client_wrote_down() {
    let folder = tempdir().unwrap();
    Authority::new(folder.path(), "ca").issue("server", &["localhost"]);
    let [chain, key] = ["server.pem", "server.key"].map(|file| folder.path().join(file));
    let [chain, key] = [&chain, &key].map(|path| path.to_str().unwrap());
    let server = Serving::start(&["--transport", "tls", "--chain", chain, "--key", key]);
    let of_calls = format!("tcp port {}", server.address.port());
    let file = folder.path().join("lo.pcap");
    let capture = ["-i", "lo", "-Z", "root", "--immediate-mode", "-U", "-w"];
    let capture = [&capture[..], &[file.to_str().unwrap(), &of_calls]].concat();
    let capture = Process::start("tcpdump", "tcpdump", tempdir().unwrap(), &capture);
    within(PATIENCE, "tcpdump listens", || {
        capture.log().contains("listening on lo")
    });

    let mut client = Client::connect(folder.path(), server.address);
    (0..CALLS).for_each(|number| client.call(number));

    let mut told = Value::Null;
    within(PATIENCE, "all calls are captured", || {
        let output = from_pcap(folder.path(), &["--tls-secrets", "secrets"]);
        told = serde_json::from_slice(&output.stdout).unwrap_or_default();
        told["flows"][0]["calls"] == CALLS
    });
    let blind = from_pcap(folder.path(), &[]);
    assert_eq!(blind.status.code(), Some(2), "{told:#}");
}

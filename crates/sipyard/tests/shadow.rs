//! `sipyard shadow` by its program, on captures that the tests write.
//!
//! `SHADOW_CALLS=100000 cargo test --release -p sipyard --test shadow -- --nocapture` measures its speed.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::{
    env, fs,
    io::{BufWriter, Write},
    path::Path,
    process::Command,
};

use etherparse::PacketBuilder;
use serde_json::Value;

const CALLER: &str = "198.51.100.9:5060";
const EDGE: &str = "192.0.2.10:5060";
const SERVERS: [&str; 4] = [
    "10.0.0.11:5060",
    "10.0.0.12:5060",
    "10.0.0.13:5060",
    "10.0.0.14:5060",
];
/// Of a server, for an INVITE; the first is slow.
const SERVICE_US: [u64; 4] = [8_000, 2_000, 2_000, 2_000];
const LINK_RAW_IP: u32 = 101;

const CONFIGURATION: &str = r#"
[node]
secret = "file:secret"
[[listen]]
transport = "udp"
address = "192.0.2.10:5060"
[pool.app]
policy = "POLICY"
servers = [ { address = "10.0.0.11:5060" }, { address = "10.0.0.12:5060" }, { address = "10.0.0.13:5060" },
            { address = "10.0.0.14:5060" } ]
[[route]]
to = "app"
"#;

/// Packets of a capture, in the order of time.
#[derive(Default)]
struct Capture(Vec<(u64, Vec<u8>)>);

impl Capture {
    fn add(&mut self, at_us: u64, from: &str, to: &str, message: &str) {
        let end = |text: &str| text.parse::<std::net::SocketAddrV4>().unwrap();
        let (from, to) = (end(from), end(to));
        let packet = PacketBuilder::ipv4(from.ip().octets(), to.ip().octets(), 64);
        let packet = packet.udp(from.port(), to.port());
        let mut bytes = Vec::new();
        packet.write(&mut bytes, message.as_bytes()).unwrap();
        self.0.push((at_us, bytes));
    }

    fn write(mut self, path: &Path) {
        self.0.sort_by_key(|(at, _)| *at);
        let mut file = BufWriter::new(fs::File::create(path).unwrap());
        let head = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, LINK_RAW_IP];
        head.iter()
            .for_each(|word: &u32| file.write_all(&word.to_le_bytes()).unwrap());
        for (at, bytes) in self.0 {
            let length = bytes.len() as u32;
            let words = [
                1_700_000_000 + (at / 1_000_000) as u32,
                (at % 1_000_000) as u32,
                length,
                length,
            ];
            words
                .iter()
                .for_each(|word| file.write_all(&word.to_le_bytes()).unwrap());
            file.write_all(&bytes).unwrap();
        }
        file.flush().unwrap();
    }

    /// A call through the edge to a server that would be idle: it rings for a second, and lasts ten.
    fn call(&mut self, number: usize, at: u64, server: usize) {
        let message = |start: &str, cseq: &str, tag: &str, via: &str| {
            format!(
                "{start}\r\nVia: SIP/2.0/UDP {CALLER};branch=z9hG4bKc{number}.{}\r\n{via}\
                 Max-Forwards: 70\r\nFrom: <sip:a@example.com>;tag=f{number}\r\nTo: <sip:b@example.com>{tag}\r\n\
                 Call-ID: call-{number}@198.51.100.9\r\nCSeq: {cseq}\r\nContact: <sip:a@{CALLER}>\r\n\
                 Content-Length: 0\r\n\r\n",
                &cseq[..1]
            )
        };
        let relayed = format!("Via: SIP/2.0/UDP {EDGE};branch=z9hG4bKe{number}\r\n");
        let to = SERVERS[server];
        let invite = "INVITE sip:b@example.com SIP/2.0";
        let ring = at + SERVICE_US[server];
        let answer = ring + 1_000_000;
        let end = answer + 10_000_000;
        let tag = ";tag=t";
        self.add(at, CALLER, EDGE, &message(invite, "1 INVITE", "", ""));
        self.add(
            at + 50,
            EDGE,
            to,
            &message(invite, "1 INVITE", "", &relayed),
        );
        for (at, status) in [(ring, "SIP/2.0 180 Ringing"), (answer, "SIP/2.0 200 OK")] {
            self.add(
                at + 50,
                to,
                EDGE,
                &message(status, "1 INVITE", tag, &relayed),
            );
            self.add(
                at + 100,
                EDGE,
                CALLER,
                &message(status, "1 INVITE", tag, ""),
            );
        }
        let ack = "ACK sip:b@10.0.0.1 SIP/2.0";
        self.add(answer + 200, CALLER, EDGE, &message(ack, "1 ACK", tag, ""));
        self.add(
            answer + 250,
            EDGE,
            to,
            &message(ack, "1 ACK", tag, &relayed),
        );
        let bye = "BYE sip:b@10.0.0.1 SIP/2.0";
        self.add(end, CALLER, EDGE, &message(bye, "2 BYE", tag, ""));
        self.add(end + 50, EDGE, to, &message(bye, "2 BYE", tag, &relayed));
        self.add(
            end + 550,
            to,
            EDGE,
            &message("SIP/2.0 200 OK", "2 BYE", tag, &relayed),
        );
        self.add(
            end + 600,
            EDGE,
            CALLER,
            &message("SIP/2.0 200 OK", "2 BYE", tag, ""),
        );
    }
}

/// Replays calls that were placed in turn; returns the results.
fn shadowed(policy: &str, calls: usize, per_s: u64) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let mut capture = Capture::default();
    for number in 0..calls {
        // Not all at the same distance, so that servers meet idle and busy.
        let at = number as u64 * 1_000_000 / per_s + (number as u64 * 7_919) % 900;
        capture.call(number, at, number % SERVERS.len());
    }
    capture.write(&folder.path().join("edge.pcap"));
    testbed::write_private(&folder.path().join("secret"), &"0123456789abcdef".repeat(4)).unwrap();
    fs::write(
        folder.path().join("new.toml"),
        CONFIGURATION.replace("POLICY", policy),
    )
    .unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sipyard"));
    command.current_dir(folder.path());
    let output = command
        .args(["shadow", "--config", "new.toml", "--json", "edge.pcap"])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_node_decides_on_each_call_and_says_why_it_differs() {
    let calls = env::var("SHADOW_CALLS").map_or(2_000, |text| text.parse().unwrap());
    let told = shadowed("tlwl", calls, 400);
    eprintln!("{told:#}");
    assert_eq!(told["edges"][0], EDGE);
    assert_eq!(told["calls"], calls);
    let count = |key: &str| told[key].as_u64().unwrap() as usize;
    assert_eq!(count("same") + count("other"), calls);
    assert_eq!(told["answered_by_node"], serde_json::json!({}));
    let reasons = told["reasons"].as_object().unwrap();
    let explained: u64 = reasons.values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(explained as usize, count("other"));
    let servers = told["servers"].as_array().unwrap();
    let would: Vec<u64> = servers
        .iter()
        .map(|it| it["calls_would"].as_u64().unwrap())
        .collect();
    assert_eq!(would.iter().sum::<u64>() as usize, calls);
    // In turn, the slow server got a quarter. By least work it gets less than any other.
    assert!(
        would[1..].iter().all(|other| would[0] < *other),
        "{would:?}"
    );
    let quick = told["first_answer_ms_would"]["p50"].as_f64().unwrap();
    assert!((1.5..4.0).contains(&quick), "{quick} ms");
}

/// What an emulated server answered reached its caller with the next call, or after 10 ms: at few calls a second all
/// times were too long.
#[test]
fn times_are_as_they_were_if_nothing_changes() {
    let told = shadowed("round-robin", 200, 20);
    let p50 = |key: &str| told[key]["p50"].as_f64().unwrap();
    let (taken, would) = (p50("first_answer_ms_taken"), p50("first_answer_ms_would"));
    assert!((taken - would).abs() < 0.2, "{taken} ms, {would} ms");
}

#[test]
fn the_policy_that_was_in_force_decides_the_same() {
    let told = shadowed("round-robin", 400, 100);
    let other = told["other"].as_u64().unwrap();
    // The turn may begin at another server; then all differ alike, and every server gets the same.
    assert!(other == 0 || other == 400, "{told:#}");
    for server in told["servers"].as_array().unwrap() {
        assert_eq!(server["calls_would"], 100, "{told:#}");
    }
}

#[test]
fn a_capture_without_a_balancer_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    Capture::default().write(&folder.path().join("empty.pcap"));
    testbed::write_private(&folder.path().join("secret"), &"0123456789abcdef".repeat(4)).unwrap();
    fs::write(
        folder.path().join("new.toml"),
        CONFIGURATION.replace("POLICY", "tlwl"),
    )
    .unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_sipyard"));
    command.current_dir(folder.path());
    let output = command
        .args(["shadow", "--config", "new.toml", "empty.pcap"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(problem.contains("--edge"), "{problem}");
}

//! Messages that go to a collector: sngrep reads what a node sends.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::{
    net::{SocketAddr, UdpSocket},
    path::Path,
    process::{Command, Stdio},
};

use common::{Settings, eventually, free_address, phones::Phone};
use rustix::process::{Pid, Signal, kill_process};
use testbed::Running;

/// sngrep, which writes what it is told into a capture when it ends.
fn collector(at: SocketAddr, capture: &Path) -> Running {
    let child = Command::new("sngrep")
        .args(["-N", "-L", &format!("udp:{at}"), "-O"])
        .arg(capture)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    child.unwrap().into()
}

/// The packets of a capture, each with its addresses and its first line of SIP.
fn packets(capture: &Path) -> String {
    let read = Command::new("tcpdump")
        .args(["-nn", "-A", "-r"])
        .arg(capture)
        .output();
    String::from_utf8_lossy(&read.unwrap().stdout).into_owned()
}

fn sent(from: SocketAddr, to: SocketAddr) -> String {
    let dotted = |at: SocketAddr| format!("{}.{}", at.ip(), at.port());
    format!("IP {} > {}", dotted(from), dotted(to))
}

#[test]
fn a_collector_sees_each_message_with_its_addresses() {
    let (caller, server) = (Phone::new(), Phone::new());
    let folder = tempfile::tempdir().unwrap();
    let (at, capture) = (free_address(), folder.path().join("homer.pcap"));
    let mut sngrep = collector(at, &capture);
    eventually("the collector hears", || UdpSocket::bind(at).is_err());
    let settings = Settings::new();
    let pool = format!(
        "servers = [ {{ address = \"{}\" }} ]\nprobe = false",
        server.address()
    );
    let homer = format!("calls = {{ homer = {{ address = \"{at}\", id = 7 }} }}");
    settings.write(&pool, &homer);
    let edge = settings.start();
    caller.call(edge.sip(), &server, "a-call", "alice");
    let metric = |name: &str, value: u64| {
        let line = format!("sipyard_{name}_total {value}\n");
        edge.ask("GET", "/metrics").1.contains(&line)
    };
    // INVITE, 180, 200, ACK, BYE, 200: each comes and goes.
    eventually("all is sent", || metric("collector_sent", 12));
    assert!(metric("collector_lost", 0));
    eventually("sngrep has written all", || {
        packets(&capture).matches("IP 127.0.0.1.").count() == 12
    });
    let id = Pid::from_raw(i32::try_from(sngrep.id()).unwrap()).unwrap();
    kill_process(id, Signal::TERM).unwrap();
    eventually("sngrep has ended", || sngrep.has_ended());
    let packets = packets(&capture);
    let (caller, edge, server) = (caller.address(), edge.sip(), server.address());
    for (from, to) in [
        (caller, edge),
        (edge, server),
        (server, edge),
        (edge, caller),
    ] {
        let way = sent(from, to);
        assert_eq!(packets.matches(&way).count(), 3, "{way} in\n{packets}");
    }
    for line in ["INVITE sip:service", "SIP/2.0 180", "ACK sip:", "BYE sip:"] {
        assert_eq!(packets.matches(line).count(), 2, "{line} in\n{packets}");
    }
}

//! Two edges before the same server, on real sockets.

#![allow(
    clippy::disallowed_methods,
    reason = "tests of processes wait for them on the real clock"
)]
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::{
    net::{SocketAddr, UdpSocket},
    time::{Duration, Instant},
};

use common::{Edge, Settings, eventually};
use serde_json::Value;

/// An edge before `server` that knows `peer`.
fn edge(settings: Settings, server: SocketAddr, peer: SocketAddr) -> Edge {
    let pool = format!("servers = [ {{ address = \"{server}\" }} ]\nprobe = false");
    settings.write(&pool, "");
    let text = std::fs::read_to_string(settings.path()).unwrap();
    let peers = format!("workers = 2, peers = [\"{peer}\"]");
    settings.write_whole(&text.replace("workers = 1", &peers));
    settings.start()
}

fn invite(from: SocketAddr) -> String {
    format!(
        "INVITE sip:bob@example.com SIP/2.0\r\nVia: SIP/2.0/UDP {from};branch=z9hG4bK1\r\n\
         Max-Forwards: 70\r\nFrom: <sip:alice@example.com>;tag=1\r\nTo: <sip:bob@example.com>\r\n\
         Call-ID: one\r\nCSeq: 1 INVITE\r\nContact: <sip:alice@{from}>\r\nContent-Length: 0\r\n\r\n"
    )
}

fn server(status: &Value) -> &Value {
    &status["pools"][0]["servers"][0]
}

#[test]
fn an_edge_counts_what_the_other_has_open_until_that_one_dies() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let caller = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (first, second) = (Settings::new(), Settings::new());
    let (one, two) = (first.sip, second.sip);
    let at = silent.local_addr().unwrap();
    let (mut first, second) = (edge(first, at, two), edge(second, at, one));
    let from = caller.local_addr().unwrap();
    caller.send_to(invite(from).as_bytes(), one).unwrap();

    eventually("the second edge hears of the call", || {
        let status = second.status();
        let server = server(&status);
        server["calls_elsewhere"] == 1
            && server["transactions_elsewhere"] == 1
            && server["calls"] == 0
    });
    eventually("the second edge shows the first", || {
        let peer = &second.status()["peers"][0];
        peer["address"] == one.to_string() && peer["heard"] == 1 && peer["calls"] == 1
    });
    let (_, metrics) = second.ask("GET", "/metrics");
    let labels = format!("{{peer=\"edge\",address=\"{one}\"}}");
    assert!(
        metrics.contains(&format!("sipyard_peer_heard{labels} 1")),
        "{metrics}"
    );

    first.signal("KILL");
    let died_at = Instant::now();
    eventually("the second edge forgets the first", || {
        let status = second.status();
        status["peers"][0]["heard"] == 0 && server(&status)["calls_elsewhere"] == 0
    });
    let after = died_at.elapsed();
    assert!(after < Duration::from_secs(1), "it took {after:?}");
    first.wait();
}

//! Limits of connections: what is beyond one is closed and counted, and others are served.

use std::{
    fs,
    io::{Read as _, Write as _},
};

use socket2::SockRef;

use crate::{
    common::{Edge, PATIENCE, Settings, free_address},
    edge::wait_until_idle,
    process::within,
    sipp::{Caller, Server, scenario},
    streams::{closed, configure, connect_from, options, plain, read_all},
};

/// A node with one worker, so that limits are not divided, and its server.
fn limited(connections: &str) -> (Edge, Server) {
    let server = Server::start(&scenario("server"));
    let mut settings = Settings::new();
    settings.sip = free_address();
    let listeners = [plain("udp", settings.sip), plain("tcp", settings.sip)];
    let limits = format!("[connections]\n{connections}");
    configure(
        &settings,
        &listeners,
        &[server.address.to_string()],
        &limits,
    );
    let text = fs::read_to_string(settings.path()).unwrap();
    settings.write_whole(&text.replace("workers = 2", "workers = 1"));
    (settings.start(), server)
}

/// Calls of somebody else, over a connection or by UDP.
fn calls(edge: &Edge, mode: &str, number: u64) -> Caller {
    let number = number.to_string();
    let load = ["-m", &number, "-r", "100", "-t", mode];
    Caller::start(edge.sip(), &scenario("caller"), &load)
}

fn expect_all(edge: &Edge, mut calls: Caller, number: u64) {
    calls.outcome(3 * PATIENCE).expect_all(number);
    wait_until_idle(edge, PATIENCE);
}

/// Limits were seen in units, and of a running node only those of handshakes and messages.
#[test]
fn connections_beyond_a_limit_are_closed() {
    let (edge, _server) = limited("total = 32\nper_source = 20");
    let refused = |ip: &str, reason: &str, number: u64| {
        assert_eq!(read_all(&mut connect_from(ip, edge.sip())), "");
        within(PATIENCE, reason, || closed(&edge, reason) == number);
    };
    let connect = |ip: &str, number: usize| -> Vec<_> {
        (0..number).map(|_| connect_from(ip, edge.sip())).collect()
    };
    let first = connect("127.0.0.2", 20);
    refused("127.0.0.2", "refused_source", 1);
    // Two places are left to hosts that the node knows.
    let mut second = connect("127.0.0.3", 10);
    refused("127.0.0.4", "refused_total", 1);
    for mode in ["t1", "u1"] {
        expect_all(&edge, calls(&edge, mode, 100), 100);
    }

    let mut last = second.pop().unwrap();
    drop(first);
    within(PATIENCE, "the places", || closed(&edge, "peer") >= 20);
    for stream in [&mut last, &mut connect_from("127.0.0.4", edge.sip())] {
        stream.write_all(b"\r\n\r\n").unwrap();
        let mut pong = [0; 2];
        stream.read_exact(&mut pong).unwrap();
    }
    let refused = ["refused_source", "refused_total"].map(|reason| closed(&edge, reason));
    assert_eq!(refused, [1, 1]);
}

/// One that carries calls for longer stays open.
#[test]
fn a_silent_connection_is_closed() {
    let (edge, _server) = limited("idle = \"2s\"");
    let mut silent = connect_from("127.0.0.2", edge.sip());
    let calls = calls(&edge, "t1", 300);
    assert_eq!(read_all(&mut silent), "");
    within(PATIENCE, "the closing", || closed(&edge, "idle") == 1);
    expect_all(&edge, calls, 300);
    assert_eq!(closed(&edge, "idle"), 1);
}

/// What waits for a peer that does not read is limited for it, and for all peers together.
#[test]
fn a_peer_that_does_not_read_is_closed() {
    // Answers repeat it. They are long, as a source that costs much gets few.
    let call = format!("Call-ID: {}", "x".repeat(10_000));
    for (limits, reason) in [
        ("queue_bytes = 65536", "queue_full"),
        (
            "queue_bytes = 16777216\ntotal_bytes = 1048576",
            "memory_full",
        ),
    ] {
        let (edge, _server) = limited(limits);
        let calls = calls(&edge, "t1", 100);
        let mut deaf = connect_from("127.0.0.2", edge.sip());
        SockRef::from(&deaf).set_recv_buffer_size(4_096).unwrap();
        let mut numbers = 0..;
        within(PATIENCE, reason, || {
            let numbers = numbers.by_ref().take(100);
            let requests = numbers.map(|number| options(edge.sip(), "TCP", number));
            let requests = requests.collect::<String>().replace("Call-ID: ", &call);
            deaf.write_all(requests.as_bytes()).is_err()
        });
        within(PATIENCE, reason, || closed(&edge, reason) == 1);
        expect_all(&edge, calls, 100);
    }
}

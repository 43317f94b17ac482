//! A node to which one stranger sends more calls than it can serve, in a network namespace of its own.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    process::Stdio,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use testbed::Running;

use crate::{
    common::{Edge, PATIENCE, Settings, sipyard},
    edge::{self, Counts},
    network::Host,
    process::{whole_machine, within},
};

const EDGE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 51, 100, 10)), 5060);
const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 11)), 5060);
const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 66));

/// What a filter takes is at least as large.
const NO_ROOM: &str = "1";

fn start_edge(host: &Host) -> Edge {
    let mut settings = Settings::new();
    settings.sip = EDGE;
    edge::configure(&settings, "", &[SERVER]);
    host.run(|| settings.start())
}

fn start_server(host: &Host) -> Running {
    let mut server = sipyard();
    server.args(["load", "serve", "--address", &SERVER.to_string()]);
    let server = server.stdout(Stdio::null()).stderr(Stdio::null());
    host.run(|| server.spawn().unwrap()).into()
}

/// Sends INVITEs of new calls, one after the other, until it is stopped.
fn flood(socket: &UdpSocket, stop: &AtomicBool) {
    for call in 0u64.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let invite = format!(
            "INVITE sip:bob@example.com SIP/2.0\r\nVia: SIP/2.0/UDP {STRANGER};rport;branch=z9hG4bK{call}\r\n\
             Max-Forwards: 70\r\nFrom: <sip:alice@example.com>;tag=a\r\nTo: <sip:bob@example.com>\r\nCall-ID: {call}\r\n\
             CSeq: 1 INVITE\r\nContact: <sip:alice@{STRANGER}>\r\nContent-Length: 0\r\n\r\n"
        );
        // What finds no room is lost.
        let _ = socket.send_to(invite.as_bytes(), EDGE);
    }
}

fn event(host: &Host, edge: &Edge, name: &str) -> u64 {
    host.run(|| Counts::of(edge).event(name))
}

fn calls_are_carried(host: &Host) -> bool {
    let mut call = sipyard();
    call.args(["load", "call", "--rate", "50", "--calls", "50"]);
    call.args(["--to", &EDGE.to_string(), "--from", "198.51.100.10"]);
    host.run(|| call.output().unwrap()).status.success()
}

/// Floods the node until this holds.
fn flood_until(host: &Host, what: &str, holds: impl FnMut() -> bool) {
    let socket = host.run(|| UdpSocket::bind((STRANGER, 0)).unwrap());
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| flood(&socket, &stop));
        let came = testbed::comes_within(PATIENCE, holds);
        stop.store(true, Ordering::Relaxed);
        assert!(came, "{what}");
    });
}

#[test]
fn what_the_system_drops_for_a_node_is_counted_and_told() {
    let _alone = whole_machine();
    let host = Host::new(&[EDGE.ip(), SERVER.ip(), STRANGER]);
    let (_server, edge) = (start_server(&host), start_edge(&host));
    flood_until(
        &host,
        "an overload, and calls that the system drops",
        || edge.log().contains("an overload begins: ") && event(&host, &edge, "calls_filtered") > 0,
    );
    let (_, status, _) = edge.ctl(&["status"]);
    let out = status.lines().find(|line| line.starts_with("stayed out: "));
    assert!(
        out.is_some_and(|line| line.contains(" calls unread")),
        "{status}"
    );
    within(PATIENCE, "calls are carried again", || {
        calls_are_carried(&host)
    });
    edge.wait_for_log("the overload is over after ");
}

/// The kernel has no room for filters.
#[test]
fn a_node_without_filters_reads_and_drops_what_is_too_much() {
    let _alone = whole_machine();
    let host = Host::new(&[EDGE.ip(), SERVER.ip(), STRANGER]);
    host.run(|| fs::write("/proc/sys/net/core/optmem_max", NO_ROOM).unwrap());
    let (_server, edge) = (start_server(&host), start_edge(&host));
    flood_until(&host, "the node is over and has no filters", || {
        let names = ["filters_refused", "calls_out"];
        names.iter().all(|name| event(&host, &edge, name) > 0)
    });
    within(PATIENCE, "calls are carried again", || {
        calls_are_carried(&host)
    });
}

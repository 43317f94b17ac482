//! What a node's memory comes to when strangers want it to keep much.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::{fs, net::UdpSocket};

use common::{Edge, Settings, eventually};

/// Requests of a stateful route that the node may hold at once.
const HELD: u64 = 2000;
/// Requests that may wait while the node is behind.
const LOBBY: u64 = 4096;
/// Sessions, indices, receive buffers and what the allocator keeps.
const OTHERS: u64 = 16 << 20;
const FLOOD: u64 = 10 * HELD;

/// Resident memory of the node, in bytes.
fn resident(edge: &Edge) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", edge.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.unwrap().trim().trim_end_matches(" kB");
    kib.parse::<u64>().unwrap() * 1024
}

fn figure(edge: &Edge, name: &str) -> u64 {
    let page = edge.ask("GET", "/metrics").1;
    let values = page.lines().filter(|line| line.starts_with(name));
    values
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum::<f64>() as u64
}

fn invite(call: u64, at: &str, padding: &str) -> String {
    format!(
        "INVITE sip:bob@example.com SIP/2.0\r\nVia: SIP/2.0/UDP {at};branch=z9hG4bK{call}\r\nMax-Forwards: 70\r\n\
         From: <sip:mallory@example.org>;tag={call}\r\nTo: <sip:bob@example.com>\r\nCall-ID: {call}@{at}\r\n\
         CSeq: 1 INVITE\r\nContact: <sip:mallory@{at}>\r\nX-Padding: {padding}\r\nContent-Length: 0\r\n\r\n"
    )
}

/// Limits counted messages, not bytes: a flood of requests of 15 KB took many times the memory that the limits promise.
/// Two tables keep 4 KB for each request that may be held, and the lobby 4 KB for each that may wait; what the flood adds
/// to resident memory stays within that and what a few buffers take.
#[test]
fn a_flood_of_long_messages_stays_within_its_budget_of_memory() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let settings = Settings::new();
    settings.write(
        &format!(
            "servers = [ {{ address = \"{}\" }} ]\nprobe = false\nlearn_room = false",
            silent.local_addr().unwrap()
        ),
        &format!("limits = {{ held_transactions = {HELD} }}\ncalls = {{ record = false }}"),
    );
    let file = fs::read_to_string(settings.path()).unwrap();
    settings.write_whole(&file.replace("to = \"app\"", "to = \"app\", state = \"stateful\""));
    let edge = settings.start();
    let stranger = UdpSocket::bind("127.0.0.2:0").unwrap();
    stranger.connect(edge.sip()).unwrap();
    let (at, padding) = (
        stranger.local_addr().unwrap().to_string(),
        "x".repeat(14_500),
    );
    let before = resident(&edge);
    for call in 0..FLOOD {
        stranger
            .send(invite(call, &at, &padding).as_bytes())
            .unwrap();
        if call % 32 == 0 {
            eventually("the node keeps up", || {
                figure(&edge, "sipyard_messages_received_total") + 512 > call
            });
        }
    }
    eventually("the tables are full", || {
        figure(&edge, "sipyard_transactions_full_total") > 0
    });
    let budget = (2 * HELD + LOBBY) * 4096 + OTHERS;
    let grown = resident(&edge).saturating_sub(before);
    let held = figure(&edge, "sipyard_held_transactions_bytes");
    assert!(held > HELD * 4096, "the flood fills tables: {held} bytes");
    assert!(
        grown <= budget,
        "{grown} bytes more, of {budget}; {held} bytes held"
    );
}

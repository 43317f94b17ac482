//! What an idle connection costs of process memory: `idle tcp|tls|ws|wss [CONNECTIONS]`, 20,000 if nothing is said.
//!
//! Each connection has shaken hands, and carried a message of 700 bytes each way. The kernel's part is not in it.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "it is a measurement for people"
)]

use std::{env, fs, slice, sync::Arc, time::Duration};

use rcgen::{CertificateParams, KeyPair};
use sip::FrameLimits;
use stream::{Connections, Layer, Limits, Plain};
use tls::{Client, Clients, Identity, Naming, Server, Session, Trust, Wall};
use transaction::{Flow, NextHop, Transport};
use websocket::WebSocket;

const NOW: Duration = Duration::ZERO;
const MESSAGE_BYTES: usize = 65_535;

fn main() {
    let mut arguments = env::args().skip(1);
    let kind = arguments.next().unwrap();
    let count = arguments
        .next()
        .map_or(20_000, |text| text.parse().unwrap());
    let (server, client) = tls();
    let sessions = || {
        (
            server.session().unwrap(),
            client.session("example.com").unwrap(),
        )
    };
    let both = || {
        let (server, client) = sessions();
        sockets::<Session>(server, client)
    };
    let bytes = match &*kind {
        "tcp" => grow(count, || (Plain, Plain)),
        "tls" => grow(count, sessions),
        "ws" => grow(count, || sockets(Plain, Plain)),
        "wss" => grow(count, both),
        kind => panic!("{kind} is none of tcp, tls, ws, wss"),
    };
    let each = bytes as f64 / 1024.0 / count as f64;
    println!("{kind}: {each:.2} KB each of {count}");
}

fn sockets<L: Layer>(server: L, client: L) -> (WebSocket<L>, WebSocket<L>) {
    let client = WebSocket::client(client, "example.com", "/", MESSAGE_BYTES).unwrap();
    (WebSocket::server(server, MESSAGE_BYTES), client)
}

/// By how many bytes the process grows with so many connections.
fn grow<L: Layer>(count: usize, layers: impl Fn() -> (L, L)) -> usize {
    // The first ones pay for what all share.
    drop(fill(100, &layers));
    let before = resident();
    let connections = fill(count, &layers);
    let after = resident();
    assert_eq!(connections.len(), count);
    after - before
}

fn fill<L: Layer>(count: usize, layers: &impl Fn() -> (L, L)) -> Connections<L> {
    let limits = Limits {
        total: count,
        per_source: count,
        connecting: count,
        handshaking: count,
        handshake: Duration::from_secs(5),
        idle: Duration::from_secs(600),
        message: Duration::from_secs(10),
        stall: Duration::from_secs(30),
        linger: Duration::from_secs(5),
        queue_bytes: 1 << 20,
        total_bytes: 64 << 20,
        frame: FrameLimits {
            head_bytes: 16_384,
            message_bytes: MESSAGE_BYTES,
        },
    };
    let mut connections = Connections::new(0, 1, limits, NOW);
    for number in 0..count {
        let (server, client) = layers();
        let remote = ([10, (number >> 16) as u8, 1, 1], number as u16);
        let hop = NextHop {
            transport: Transport::Tcp,
            address: remote.into(),
        };
        serve(&mut connections, Flow::to(0, hop), server, client);
    }
    connections
}

/// Lets a client shake hands, and one message go each way.
fn serve<L: Layer>(connections: &mut Connections<L>, flow: Flow, server: L, mut client: L) {
    let head = "SIP/2.0 200 OK\r\nl: 700\r\n\r\n".to_owned();
    let message = head + &"x".repeat(700);
    let id = connections.accept_known(NOW, flow, server).unwrap();
    let (mut has_sent, mut heard) = (false, 0);
    loop {
        let mut there = Vec::new();
        client.write_own(&mut there);
        if client.is_open() && !has_sent {
            client.send(message.as_bytes(), &mut there).unwrap();
            has_sent = true;
        }
        connections.receive(NOW, id, &there, &mut |_, _| heard += 1);
        if heard == 1 {
            connections.send(NOW, id, message.as_bytes()).unwrap();
            heard += 1;
        }
        let back = connections.to_write(id).to_vec();
        connections.wrote(NOW, id, back.len());
        while connections.next_event().is_some() {}
        client.receive(&back, &mut |_| ()).unwrap();
        if there.is_empty() && back.is_empty() {
            assert_eq!((heard, connections.held_bytes()), (2, 0));
            return;
        }
    }
}

fn resident() -> usize {
    let text = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

fn tls() -> (Server, Client) {
    let folder = tempfile::tempdir().unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["example.com".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let path = folder.path().join("both.pem");
    fs::write(&path, certificate.pem() + &key.serialize_pem()).unwrap();
    let identity = Identity::load(&path, &path).unwrap();
    let wall: Wall = Arc::new(|| Duration::from_secs(1_795_000_000));
    let secret = b"a secret of more than 32 bytes, as it has to be";
    let server = Server::new(
        slice::from_ref(&identity),
        &Clients::Any,
        secret,
        Arc::clone(&wall),
    );
    let trust = Trust::of_file(&path).unwrap();
    (
        server.unwrap(),
        Client::new(&trust, Naming::Sip, None, wall).unwrap(),
    )
}

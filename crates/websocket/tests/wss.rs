//! WebSocket over TLS behind a balancer: all layers on each other, in two tables of connections.

#![allow(clippy::unwrap_used)]

use std::{fs, slice, sync::Arc, time::Duration};

use rcgen::{CertificateParams, KeyPair};
use sip::FrameLimits;
use stream::{Connections, Event, Layer, Limits, Proxied, Why};
use tls::{Client, Clients, Identity, Naming, Server, Session, Trust, Wall};
use transaction::{ConnectionId, Flow, NextHop, Transport};
use websocket::WebSocket;

const LIMITS: Limits = Limits {
    total: 10,
    per_source: 10,
    connecting: 10,
    handshaking: 10,
    handshake: Duration::from_secs(5),
    idle: Duration::from_secs(100),
    message: Duration::from_secs(5),
    stall: Duration::from_secs(5),
    linger: Duration::from_secs(1),
    queue_bytes: 100_000,
    total_bytes: 1_000_000,
    frame: FrameLimits {
        head_bytes: 10_000,
        message_bytes: 60_000,
    },
};

const NOW: Duration = Duration::ZERO;

type Heard = Vec<(Flow, Vec<u8>)>;

/// One end of the connection.
struct End<L> {
    connections: Connections<L>,
    id: ConnectionId,
    heard: Heard,
}

impl<L: Layer> End<L> {
    fn receive(&mut self, bytes: &[u8]) {
        let heard = &mut self.heard;
        self.connections
            .receive(NOW, self.id, bytes, &mut |flow, message| {
                heard.push((flow, message.bytes.to_vec()));
            });
        self.connections.recount();
    }

    /// Takes what is to be written, in small pieces.
    fn write(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        loop {
            let bytes = self.connections.to_write(self.id);
            let piece = bytes[..bytes.len().min(333)].to_vec();
            if piece.is_empty() {
                return all;
            }
            self.connections.wrote(NOW, self.id, piece.len());
            all.extend(piece);
        }
    }

    fn events(&mut self) -> Vec<Event> {
        let events = std::iter::from_fn(|| self.connections.next_event());
        events
            .filter(|event| !matches!(event, Event::Writable(_)))
            .collect()
    }
}

fn talk<A: Layer, B: Layer>(one: &mut End<A>, other: &mut End<B>) {
    loop {
        let (there, back) = (one.write(), other.write());
        if there.is_empty() && back.is_empty() {
            return;
        }
        other.receive(&there);
        one.receive(&back);
    }
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
    let trust = Trust::of_file(&path).unwrap();
    (
        Server::new(
            slice::from_ref(&identity),
            &Clients::Any,
            secret,
            Arc::clone(&wall),
        )
        .unwrap(),
        Client::new(&trust, Naming::Sip, None, wall).unwrap(),
    )
}

fn ends() -> (End<WebSocket<Session>>, End<WebSocket<Proxied<Session>>>) {
    let (server, client) = tls();
    let hop = |host: u8, port| NextHop {
        transport: Transport::Wss,
        address: ([192, 0, 2, host], port).into(),
    };
    let mut connections = Connections::new(0, 1, LIMITS, NOW);
    let session = client.session("example.com").unwrap();
    let layer = WebSocket::client(session, "example.com", "/", 60_000).unwrap();
    let id = connections
        .open(NOW, Flow::to(0, hop(1, 443)), layer)
        .unwrap();
    let client = End {
        connections,
        id,
        heard: vec![],
    };
    let mut connections = Connections::new(0, 1, LIMITS, NOW);
    let layer = WebSocket::server(Proxied::new(server.session().unwrap()), 60_000);
    let id = connections
        .accept(NOW, Flow::to(0, hop(9, 999)), layer)
        .unwrap();
    let server = End {
        connections,
        id,
        heard: vec![],
    };
    (client, server)
}

#[test]
fn layers_stand_on_each_other() {
    let (mut client, mut server) = ends();
    let message = b"MESSAGE sip:bob@example.com SIP/2.0\r\n\r\nno Content-Length".to_vec();
    client.connections.send(NOW, client.id, &message).unwrap();
    client.connections.connected(NOW, client.id);
    server.receive(b"PROXY TCP4 203.0.113.7 192.0.2.9 40000 443\r\n");
    talk(&mut client, &mut server);
    assert_eq!(client.events(), [Event::Opened(client.id)]);
    assert_eq!(server.events(), [Event::Opened(server.id)]);
    let (flow, heard) = &server.heard[0];
    assert_eq!(heard, &message);
    assert_eq!(flow.remote, ([203, 0, 113, 7], 40_000).into());
    assert_eq!(client.connections.counters().messages_sent, 1);

    let long = [b'x'; 50_000];
    server.connections.send(NOW, server.id, &long).unwrap();
    // A keep-alive of SIP's in a frame is answered in a frame.
    client
        .connections
        .send(NOW, client.id, b"\r\n\r\n")
        .unwrap();
    talk(&mut client, &mut server);
    assert_eq!(client.heard.len(), 1);
    assert_eq!(client.heard[0].1, long);
    assert_eq!(server.connections.counters().kept_alive, 1);

    server.connections.close(NOW, server.id);
    talk(&mut client, &mut server);
    for events in [client.events(), server.events()] {
        assert!(matches!(&events[..], [Event::Close(_)]), "{events:?}");
    }
    assert_eq!(server.connections.counters().closed(Why::Ours), 1);
    assert_eq!(client.connections.counters().closed(Why::Peer), 1);
    assert_eq!(
        client.connections.held_bytes() + server.connections.held_bytes(),
        0
    );
}

/// What was not wholly written when TLS or the connection failed can go elsewhere.
#[test]
fn a_failure_gives_messages_back() {
    let (mut client, mut server) = ends();
    client.connections.connected(NOW, client.id);
    server.receive(b"PROXY UNKNOWN\r\n");
    talk(&mut client, &mut server);
    client.events();
    let message = [b'x'; 1_000].to_vec();
    client.connections.send(NOW, client.id, &message).unwrap();
    client.connections.wrote(NOW, client.id, 1_000);
    client.receive(b"this is not TLS, and not what is expected");
    let sent = client.write();
    assert!(!sent.is_empty(), "an alert goes out");
    let events = client.events();
    let [Event::Close(closed)] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(closed.why, Why::Tls);
    assert_eq!(
        closed.detail.as_deref(),
        Some("what the peer sends is not TLS")
    );

    let (mut client, _) = ends();
    client.connections.send(NOW, client.id, &message).unwrap();
    client.connections.connected(NOW, client.id);
    client.receive(b"\x15\x03\x03\x00\x02\x02\x28");
    client.write();
    let events = client.events();
    assert!(
        matches!(&events[..], [Event::Close(_), Event::Unsent { message: unsent, .. }] if *unsent == message),
        "{events:?}"
    );
}

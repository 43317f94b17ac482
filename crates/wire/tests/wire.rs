//! Each transport, with and without a PROXY header.

#![allow(clippy::unwrap_used)]

use std::{fs, net::SocketAddr, slice, sync::Arc, time::Duration};

use rcgen::{CertificateParams, KeyPair};
use stream::{Layer, Said};
use tls::{Client, Clients, Identity, Naming, Server, Trust, Wall};
use transaction::Transport;
use wire::{Error, Wire};

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
    let identities = slice::from_ref(&identity);
    let server = Server::new(identities, &Clients::Any, secret, Arc::clone(&wall));
    let trust = Trust::of_file(&path).unwrap();
    (
        server.unwrap(),
        Client::new(&trust, Naming::Sip, None, wall).unwrap(),
    )
}

/// What the server hears from the client: the client's address, and messages.
fn talk(client: &mut Wire, server: &mut Wire, header: &[u8]) -> (Option<SocketAddr>, Vec<u8>) {
    let (mut remote, mut heard) = (None, Vec::new());
    let mut there = header.to_vec();
    let mut has_sent = false;
    loop {
        client.write_own(&mut there);
        if client.is_open() && !has_sent {
            client.send(b"hello", &mut there).unwrap();
            has_sent = true;
        }
        let mut back = Vec::new();
        let mut hear = |said: Said<'_>| match said {
            Said::Bytes(bytes) | Said::Message(bytes) => heard.extend_from_slice(bytes),
            Said::Remote(address) => remote = Some(address),
            Said::Alive => {}
        };
        server.receive(&there, &mut hear).unwrap();
        server.write_own(&mut back);
        if there.is_empty() && back.is_empty() {
            return (remote, heard);
        }
        there.clear();
        client.receive(&back, &mut |_| ()).unwrap();
    }
}

#[test]
fn every_transport_has_its_layers() {
    let (server, client) = tls();
    let header = b"PROXY TCP4 203.0.113.7 192.0.2.9 40000 443\r\n";
    let streams = [
        Transport::Tcp,
        Transport::Tls,
        Transport::Ws,
        Transport::Wss,
    ];
    for transport in streams {
        for is_proxied in [false, true] {
            let mut near = wire::connect(transport, Some(&client), "example.com", 1_000).unwrap();
            let mut far = wire::accept(transport, Some(&server), is_proxied, 1_000).unwrap();
            let header = if is_proxied { &header[..] } else { b"" };
            assert_eq!(far.awaits_remote(), is_proxied);
            let (remote, heard) = talk(&mut near, &mut far, header);
            assert_eq!(heard, b"hello", "{transport:?}");
            assert_eq!(remote.is_some(), is_proxied);
            assert_eq!(near.session().is_some(), transport.is_secure());
            assert!(far.is_open() && far.held_bytes() == 0);
        }
    }
}

#[test]
fn what_is_missing_is_told() {
    for transport in [Transport::Tls, Transport::Wss] {
        let error = wire::accept(transport, None, false, 1_000).unwrap_err();
        assert!(matches!(error, Error::NoTls));
        let error = wire::connect(transport, None, "a", 1_000).unwrap_err();
        assert!(matches!(error, Error::NoTls));
    }
    let error = wire::connect(Transport::Udp, None, "a", 1_000).unwrap_err();
    assert_eq!(error.to_string(), "UDP has no connections");
    assert!(wire::connect(Transport::Ws, None, "a\r\nb", 1_000).is_err());
}

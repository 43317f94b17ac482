//! What rustls has encrypted is read by its secrets, for each version and cipher.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::{
    fmt::Write as _,
    io::{Read as _, Write as _},
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::{
    ClientConfig, ClientConnection, Connection, KeyLog, RootCertStore, ServerConfig,
    ServerConnection, SupportedCipherSuite,
    crypto::aws_lc_rs::{ALL_CIPHER_SUITES, default_provider},
};
use rustls_pki_types::{PrivateKeyDer, ServerName};
use tls::{Overheard, Secrets};

#[derive(Debug, Default)]
struct Log(Mutex<String>);

impl KeyLog for Log {
    fn log(&self, label: &str, random: &[u8], secret: &[u8]) {
        let hex = |bytes: &[u8]| {
            bytes.iter().fold(String::new(), |mut text, byte| {
                write!(text, "{byte:02x}").unwrap();
                text
            })
        };
        let mut log = self.0.lock().unwrap();
        writeln!(log, "{label} {} {}", hex(random), hex(secret)).unwrap();
    }
}

fn ends() -> [SocketAddr; 2] {
    ["192.0.2.1:40000", "192.0.2.2:5061"].map(|end| end.parse().unwrap())
}

/// A client and a server of one suite, and what they log.
fn connect(suite: SupportedCipherSuite) -> ([Connection; 2], Arc<Log>) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let mut provider = default_provider();
    provider.cipher_suites = vec![suite];
    let (provider, log) = (Arc::new(provider), Arc::new(Log::default()));
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let server = server.with_protocol_versions(&[suite.version()]).unwrap();
    let server = server.with_no_client_auth();
    let server = server
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let client = ClientConfig::builder_with_provider(provider);
    let client = client.with_protocol_versions(&[suite.version()]).unwrap();
    let mut client = client.with_root_certificates(roots).with_no_client_auth();
    client.key_log = Arc::clone(&log) as _;
    let name = ServerName::try_from("localhost").unwrap();
    let client = ClientConnection::new(Arc::new(client), name).unwrap();
    let server = ServerConnection::new(Arc::new(server)).unwrap();
    ([client.into(), server.into()], log)
}

/// Moves all that waits from one side to the other; the bytes.
fn move_bytes(sides: &mut [Connection; 2], from: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while sides[from].wants_write() {
        sides[from].write_tls(&mut bytes).unwrap();
    }
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        sides[1 - from].read_tls(&mut rest).unwrap();
        sides[1 - from].process_new_packets().unwrap();
    }
    let mut read = [0; 65_536];
    while sides[1 - from]
        .reader()
        .read(&mut read)
        .is_ok_and(|length| length > 0)
    {}
    bytes
}

/// What each side sent on the wire, in its order.
type Sent = Vec<(usize, Vec<u8>)>;

/// A conversation: which side sent what on the wire, and what each side said.
fn talk(sides: &mut [Connection; 2], updates: bool) -> (Sent, [Vec<u8>; 2]) {
    let (mut wire, mut said) = (Vec::new(), [Vec::new(), Vec::new()]);
    for round in 0..8 {
        for side in [0, 1] {
            if !sides[side].is_handshaking() {
                let text = format!("message {round} of {side}\r\n").repeat(1 + round * 200);
                sides[side].writer().write_all(text.as_bytes()).unwrap();
                said[side].extend(text.into_bytes());
                if updates && round == 5 {
                    sides[side].refresh_traffic_keys().unwrap();
                }
            }
            wire.push((side, move_bytes(sides, side)));
        }
    }
    (wire, said)
}

/// What is overheard when the bytes come in such pieces.
fn overhear(secrets: &str, wire: &[(usize, Vec<u8>)], step: usize) -> Option<[Vec<u8>; 2]> {
    let mut overheard = Overheard::new(Secrets::of_text(secrets));
    let (mut waiting, mut heard) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for (side, bytes) in wire {
        for piece in bytes.chunks(step) {
            waiting[*side].extend_from_slice(piece);
            let ends = (ends()[*side], ends()[1 - *side]);
            let read = overheard.take(ends, &waiting[*side], &mut heard[*side])?;
            waiting[*side].drain(..read);
        }
    }
    Some(heard)
}

#[test]
fn every_suite_is_read_in_any_pieces() {
    for &suite in ALL_CIPHER_SUITES {
        if suite
            .suite()
            .as_str()
            .is_some_and(|name| name.contains("RSA"))
        {
            // The certificate is of ECDSA; the records are the same.
            continue;
        }
        let is_1_3 = suite.tls13().is_some();
        let (mut sides, log) = connect(suite);
        let (wire, said) = talk(&mut sides, is_1_3);
        let secrets = format!("# a comment\n{}rubbish\n", log.0.lock().unwrap());
        assert!(said.iter().all(|said| said.len() > 10_000));
        for step in [1, 7, 1_400, usize::MAX >> 1] {
            let heard = overhear(&secrets, &wire, step);
            assert_eq!(heard.as_ref(), Some(&said), "{suite:?} {step}");
        }
        assert_eq!(overhear("", &wire, 1_400), None, "{suite:?}");
    }
}

#[test]
fn nothing_that_comes_panics() {
    let (mut sides, log) = connect(ALL_CIPHER_SUITES[0]);
    let (wire, _) = talk(&mut sides, false);
    let secrets = log.0.lock().unwrap().clone();
    for at in 0..wire[0].1.len() {
        let mut wire = wire.clone();
        wire[0].1[at] ^= 0xff;
        overhear(&secrets, &wire, 1_400);
    }
    for at in 0..wire[1].1.len().min(300) {
        let mut wire = wire.clone();
        wire[1].1[at] ^= 0xff;
        overhear(&secrets, &wire, 1_400);
        wire[1].1.truncate(at);
        overhear(&secrets, &wire, 1_400);
    }
}

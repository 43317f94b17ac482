//! How many TLS handshakes a core does as a server, full and resumed: `handshakes [CERTIFICATE KEY AUTHORITIES NAME]`.
//!
//! Both ends are in one thread with memory between them; only the time of the server is counted. The loop does
//! nothing besides, so it is the limit for whatever does this on sockets.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "it is a measurement for people"
)]

use std::{
    env, fs,
    path::{Path, PathBuf},
    slice,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, SignatureAlgorithm};
use stream::Layer;
use tls::{Client, Clients, Identity, Naming, Server, Session, Trust, Wall};

const SECRET: &[u8] = b"a secret of more than 32 bytes, as it has to be";

/// How many handshakes are measured for each figure.
const HANDSHAKES: usize = 10_001;

fn main() {
    let arguments: Vec<_> = env::args().skip(1).collect();
    if let [certificate, key, authorities, name] = &arguments[..] {
        let [certificate, key, authorities] = [certificate, key, authorities].map(Path::new);
        return measure("given", certificate, key, authorities, name);
    }
    let folder = tempfile::tempdir().unwrap();
    for (label, algorithm) in [
        ("ECDSA P-256", &PKCS_ECDSA_P256_SHA256),
        ("Ed25519", &PKCS_ED25519),
    ] {
        let path = issue(folder.path(), algorithm);
        measure(label, &path, &path, &path, "example.com");
    }
}

fn issue(folder: &Path, algorithm: &'static SignatureAlgorithm) -> PathBuf {
    let key = KeyPair::generate_for(algorithm).unwrap();
    let params = CertificateParams::new(["example.com".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let path = folder.join("both.pem");
    fs::write(&path, certificate.pem() + &key.serialize_pem()).unwrap();
    path
}

fn measure(label: &str, certificate: &Path, key: &Path, authorities: &Path, name: &str) {
    let identity = Identity::load(certificate, key).unwrap();
    let trust = Trust::of_file(authorities).unwrap();
    let wall: Wall = Arc::new(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap());
    let identities = slice::from_ref(&identity);
    let server = Server::new(identities, &Clients::Any, SECRET, Arc::clone(&wall)).unwrap();
    let new_client = || Client::new(&trust, Naming::Web, None, Arc::clone(&wall)).unwrap();
    for is_resumed in [false, true] {
        let mut client = new_client();
        shake_hands(&client, name, &server);
        let mut times = Vec::new();
        while times.len() < HANDSHAKES {
            if !is_resumed {
                client = new_client();
            }
            let (session, time) = shake_hands(&client, name, &server);
            assert_eq!(session.is_resumed(), is_resumed);
            times.push(time);
        }
        // The median, as other programs may take the core away.
        times.sort();
        let seconds = times[HANDSHAKES / 2].as_secs_f64();
        let kind = if is_resumed { "resumed" } else { "full" };
        let (rate, micros) = (1.0 / seconds, seconds * 1e6);
        println!("{label}, {kind}: {rate:.0} handshakes/s on a core, {micros:.0} us each");
    }
}

/// A server's session after the handshake, and the time that the server took for it.
fn shake_hands(client: &Client, name: &str, server: &Server) -> (Session, Duration) {
    let mut near = client.session(name).unwrap();
    let mut time = Duration::ZERO;
    let mut timed = |work: &mut dyn FnMut()| {
        let began = Instant::now();
        work();
        time += began.elapsed();
    };
    let mut far = None;
    timed(&mut || far = Some(server.session().unwrap()));
    let mut far = far.unwrap();
    loop {
        let (mut there, mut back) = (Vec::new(), Vec::new());
        near.write_own(&mut there);
        timed(&mut || {
            far.receive(&there, &mut |_| ()).unwrap();
            far.write_own(&mut back);
        });
        near.receive(&back, &mut |_| ()).unwrap();
        if there.is_empty() && back.is_empty() {
            assert!(near.is_open() && far.is_open());
            return (far, time);
        }
    }
}

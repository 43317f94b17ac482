//! Certificates of an authority of our own, and two sessions with a wire between them.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer,
    KeyIdMethod, KeyPair, RevokedCertParams, SanType, SerialNumber, date_time_ymd,
};
use stream::{Layer, Said, Why};
use tempfile::TempDir;
use tls::{Client, Clients, Identity, Naming, Server, Session, Trust, Wall};

pub(crate) const SECRET: &[u8] = b"the secret of a cluster, which is long";

/// A moment in 2026.
pub(crate) fn wall() -> Wall {
    Arc::new(|| Duration::from_secs(1_795_000_000))
}

/// An authority, with a folder for what it issues.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) folder: TempDir,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().display().to_string();
        let names = &mut params.distinguished_name;
        names.push(DnType::CommonName, name);
        let certificate = params.self_signed(&key).unwrap();
        fs::write(folder.path().join("ca.pem"), certificate.pem()).unwrap();
        let issuer = Issuer::new(params, key);
        Self { issuer, folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Files of a certificate and its key. Names with a colon are URIs.
    pub(crate) fn issue(
        &self,
        name: &str,
        names: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> (PathBuf, PathBuf) {
        let of_dns: Vec<_> = names.iter().filter(|name| !name.contains(':')).collect();
        let of_dns: Vec<String> = of_dns.into_iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(of_dns).unwrap();
        for uri in names.iter().filter(|name| name.contains(':')) {
            let uri = SanType::URI((*uri).try_into().unwrap());
            params.subject_alt_names.push(uri);
        }
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (
            self.write(&format!("{name}.pem"), &certificate.pem()),
            self.write(&format!("{name}.key"), &key.serialize_pem()),
        )
    }

    pub(crate) fn identity(&self, names: &[&str]) -> Identity {
        let (certificate, key) = self.issue("identity", names, |_| ());
        Identity::load(&certificate, &key).unwrap()
    }

    pub(crate) fn revoke(&self, serial: u64) -> PathBuf {
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2026, 1, 1),
            next_update: date_time_ymd(2036, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: vec![RevokedCertParams {
                serial_number: SerialNumber::from(serial),
                revocation_time: date_time_ymd(2026, 1, 1),
                reason_code: None,
                invalidity_date: None,
            }],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.issuer).unwrap();
        self.write("revoked.pem", &list.pem().unwrap())
    }

    pub(crate) fn trust(&self) -> Trust {
        Trust::of_file(&self.path("ca.pem")).unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        client(&self.trust(), Naming::Sip, None)
    }
}

pub(crate) fn server(identities: &[Identity], clients: &Clients) -> Server {
    Server::new(identities, clients, SECRET, wall()).unwrap()
}

pub(crate) fn client(trust: &Trust, naming: Naming, identity: Option<&Identity>) -> Client {
    Client::new(trust, naming, identity, wall()).unwrap()
}

pub(crate) fn load(authority: &Authority, files: (&Path, &Path)) -> String {
    let error = Identity::load(files.0, files.1).unwrap_err().to_string();
    let folder = authority.folder.path().display().to_string();
    error.replace(&folder, "")
}

/// Two sessions, and what each has heard.
pub(crate) struct Pair {
    pub(crate) sides: [Session; 2],
    pub(crate) heard: [Vec<u8>; 2],
    pub(crate) ends: [Option<Why>; 2],
}

impl Pair {
    /// A client and a server that talk until both are silent.
    pub(crate) fn new(client: &Client, name: &str, server: &Server) -> Self {
        let sides = [client.session(name).unwrap(), server.session().unwrap()];
        let mut pair = Self {
            sides,
            heard: [vec![], vec![]],
            ends: [None; 2],
        };
        pair.talk();
        pair
    }

    pub(crate) fn talk(&mut self) {
        loop {
            let mut is_silent = true;
            for from in [0, 1] {
                let mut wire = Vec::new();
                self.sides[from].write_own(&mut wire);
                is_silent &= wire.is_empty();
                self.carry(from, &wire);
            }
            if is_silent {
                return;
            }
        }
    }

    /// Shows bytes to the other side, in pieces.
    pub(crate) fn carry(&mut self, from: usize, wire: &[u8]) {
        let to = 1 - from;
        let heard = &mut self.heard[to];
        for piece in wire.chunks(1000) {
            if self.ends[to].is_none() {
                let taken = self.sides[to].receive(piece, &mut |said| match said {
                    Said::Bytes(bytes) => heard.extend_from_slice(bytes),
                    said => panic!("{said:?}"),
                });
                self.ends[to] = taken.err();
            }
        }
    }

    pub(crate) fn send(&mut self, from: usize, message: &[u8]) {
        let mut wire = Vec::new();
        self.sides[from].send(message, &mut wire).unwrap();
        self.carry(from, &wire);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.sides.iter().all(Session::is_open) && self.ends == [None; 2]
    }

    /// Why it failed, as both sides tell it.
    pub(crate) fn failure(&self) -> [(Option<Why>, String); 2] {
        assert!(!self.is_open());
        [0, 1].map(|side| {
            let detail = self.sides[side].detail();
            (self.ends[side], detail.unwrap_or_default())
        })
    }
}

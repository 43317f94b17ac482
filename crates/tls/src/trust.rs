//! Whose certificates are believed.

use std::{path::Path, sync::Arc};

use rustls::{RootCertStore, crypto::CryptoProvider};
use rustls_pki_types::{CertificateRevocationListDer, pem::PemObject};

use crate::{
    Error, Problem,
    identity::{not_pem, read, read_certificates},
};

/// Authorities that are believed, and what they have revoked.
#[derive(Clone, Debug)]
pub struct Trust {
    pub(crate) roots: Arc<RootCertStore>,
    pub(crate) revocations: Vec<CertificateRevocationListDer<'static>>,
}

impl Trust {
    /// The authorities that the system trusts.
    ///
    /// # Errors
    /// There is none.
    pub fn of_system() -> Result<Self, Error> {
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        let (added, _) = roots.add_parsable_certificates(found.certs);
        if added == 0 {
            let errors = found.errors.iter().map(ToString::to_string);
            let why = errors.collect::<Vec<_>>().join(", ");
            return Err(Problem::NoRoots(why).into());
        }
        Ok(Self::new(roots))
    }

    /// The authorities in a file of certificates.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn of_file(path: &Path) -> Result<Self, Error> {
        let mut roots = RootCertStore::empty();
        for certificate in read_certificates(path)? {
            let added = roots.add(certificate);
            let problem = |error: rustls::Error| Problem::BadCertificate(error.to_string());
            added.map_err(|error| Error::of(path, problem(error)))?;
        }
        Ok(Self::new(roots))
    }

    /// Reads what the authorities have revoked, too.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn with_revocations(mut self, path: &Path) -> Result<Self, Error> {
        let text = read(path)?;
        let lists: Result<Vec<_>, _> =
            CertificateRevocationListDer::pem_slice_iter(&text).collect();
        let lists = lists.map_err(|error| not_pem(path, &error))?;
        if lists.is_empty() {
            let why = "there is no list in it".to_owned();
            return Err(Error::of(path, Problem::BadRevocations(why)));
        }
        self.revocations.extend(lists);
        Ok(self)
    }

    fn new(roots: RootCertStore) -> Self {
        Self {
            roots: Arc::new(roots),
            revocations: Vec::new(),
        }
    }

    /// What tells these authorities, and what they have revoked, from others.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let anchors = self.roots.roots.iter();
        let keys =
            anchors.flat_map(|anchor| [&anchor.subject[..], &anchor.subject_public_key_info]);
        let lists = self.revocations.iter().map(AsRef::as_ref);
        keys.chain(lists)
            .flat_map(|bytes| [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat())
            .collect()
    }
}

/// Has the thread's source of random numbers ready. It takes 20 ms, which the first handshake would wait for otherwise, and all
/// that the thread does besides.
pub fn prepare_thread() {
    // A handshake that gets no random numbers fails, and says so.
    let _ = provider().secure_random.fill(&mut [0]);
}

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

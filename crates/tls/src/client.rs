//! The side that connects.

use std::{fmt, sync::Arc};

use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme,
    client::{
        Resumption, WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    sign::SingleCertAndKey,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::{
    Error, Identity, Names, Problem, Session, Trust, Wall, server::VERSIONS, session::Clock,
    trust::provider,
};

/// How many servers a node can resume sessions with.
const SERVERS_REMEMBERED: usize = 1024;

/// Which names of servers are believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// Whole names, from SIP URIs first. RFC 5922 §7.2
    Sip,
    /// As for web servers: wildcards, too. Some providers have no other certificates.
    Web,
}

/// Begins handshakes with servers. A clone is cheap.
#[derive(Clone, Debug)]
pub struct Client {
    config: Arc<ClientConfig>,
    identity: Option<Identity>,
}

impl Client {
    /// A client that believes these authorities, and shows an identity to servers that ask for one.
    ///
    /// # Errors
    /// What of the authorities makes no sense.
    pub fn new(
        trust: &Trust,
        naming: Naming,
        identity: Option<&Identity>,
        wall: Wall,
    ) -> Result<Self, Error> {
        let clock = Arc::new(Clock(wall));
        let builder = ClientConfig::builder_with_details(provider(), clock);
        let builder = builder.with_protocol_versions(VERSIONS);
        let builder = builder.map_err(|error| Problem::Other(error.to_string()))?;
        let roots = Arc::clone(&trust.roots);
        let chains = WebPkiServerVerifier::builder_with_provider(roots, provider())
            .with_crls(trust.revocations.iter().cloned())
            .allow_unknown_revocation_status()
            .build();
        let chains = chains.map_err(|error| Problem::BadRevocations(error.to_string()))?;
        let verifier = Verifier { chains, naming };
        let builder = builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let key = SingleCertAndKey::from(Arc::clone(&identity.key));
                builder.with_client_cert_resolver(Arc::new(key))
            }
        };
        config.resumption = Resumption::in_memory_sessions(SERVERS_REMEMBERED);
        let config = Arc::new(config);
        let identity = identity.cloned();
        Ok(Self { config, identity })
    }

    /// What it shows to servers that ask.
    #[must_use]
    pub const fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

    /// A session with the server of a domain, or of an address if there is no domain.
    ///
    /// # Errors
    /// The name is neither.
    pub fn session(&self, name: &str) -> Result<Session, Error> {
        let bad = || Problem::BadName(name.to_owned());
        let name = ServerName::try_from(name.to_owned()).map_err(|_| bad())?;
        let connection = ClientConnection::new(Arc::clone(&self.config), name);
        let connection = connection.map_err(|error| Problem::Other(error.to_string()))?;
        Ok(Session::new(connection.into()))
    }
}

/// Checks a server's certificates as the web does, and its name as SIP does.
struct Verifier {
    chains: Arc<WebPkiServerVerifier>,
    naming: Naming,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let checked = self
            .chains
            .verify_server_cert(certificate, intermediates, name, ocsp, now);
        let ServerName::DnsName(domain) = name else {
            return checked;
        };
        let names = Names::of(certificate);
        // The name is checked last: the chain is good.
        let is_web_name = match &checked {
            Ok(_) => true,
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => false,
            Err(_) => return checked,
        };
        if names.prove(domain.as_ref()) || is_web_name && self.naming == Naming::Web {
            return Ok(ServerCertVerified::assertion());
        }
        let error = CertificateError::NotValidForNameContext {
            expected: name.to_owned(),
            presented: names.domains().to_vec(),
        };
        Err(error.into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chains
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chains
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier")
            .field("naming", &self.naming)
            .finish()
    }
}

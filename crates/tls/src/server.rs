//! The side that is connected to.

use std::{sync::Arc, time::Duration};

use rustls::{
    ServerConfig, ServerConnection, SupportedProtocolVersion,
    server::{
        ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier,
        danger::ClientCertVerifier,
    },
    sign::CertifiedKey,
    version::{TLS12, TLS13},
};

use crate::{
    Error, Identity, Problem, Session, Trust, Wall, session::Clock, tickets::Tickets,
    trust::provider,
};

pub(crate) const VERSIONS: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];

/// What is asked of clients.
#[derive(Clone, Debug)]
pub enum Clients {
    /// Nothing.
    Any,
    /// A certificate, if they have one. One that is not believed ends the handshake.
    MayProve(Trust),
    /// A certificate.
    MustProve(Trust),
}

/// Takes handshakes of clients. A clone is cheap; a new configuration is a new one, and sessions of the old go on.
#[derive(Clone, Debug)]
pub struct Server {
    config: Arc<ServerConfig>,
    certificates: Arc<Certificates>,
    not_after: Duration,
}

impl Server {
    /// A server that shows the identity which fits the name that a client wants, else the first one. Tickets follow the
    /// cluster's secret.
    ///
    /// # Errors
    /// There is no identity, or what clients have to prove makes no sense.
    pub fn new(
        identities: &[Identity],
        clients: &Clients,
        secret: &[u8],
        wall: Wall,
    ) -> Result<Self, Error> {
        let ends = identities.iter().map(Identity::not_after);
        let not_after = ends.min().ok_or(Problem::NoIdentity)?;
        let clock = Arc::new(Clock(Arc::clone(&wall)));
        let builder = ServerConfig::builder_with_details(provider(), clock);
        let builder = builder.with_protocol_versions(VERSIONS);
        let builder = builder.map_err(|error| Problem::Other(error.to_string()))?;
        let certificates = Arc::new(Certificates(identities.to_vec()));
        let mut config = builder
            .with_client_cert_verifier(verifier(clients)?)
            .with_cert_resolver(Arc::clone(&certificates) as _);
        // Nothing is remembered here: what a client needs to resume is in its ticket.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.ticketer = Arc::new(Tickets::new(secret, &purpose(clients), wall));
        config.send_tls13_tickets = 1;
        Ok(Self {
            config: Arc::new(config),
            certificates,
            not_after,
        })
    }

    /// A session with a client that has just connected.
    ///
    /// # Errors
    /// What rustls says.
    pub fn session(&self) -> Result<Session, Error> {
        let connection = ServerConnection::new(Arc::clone(&self.config));
        let connection = connection.map_err(|error| Problem::Other(error.to_string()))?;
        Ok(Session::new(connection.into()))
    }

    /// The same for drivers whose sockets are not the node's, such as an HTTP server's.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }

    /// What it shows.
    #[must_use]
    pub fn identities(&self) -> &[Identity] {
        &self.certificates.0
    }

    /// When the first certificate ends: the time since 1970.
    #[must_use]
    pub const fn not_after(&self) -> Duration {
        self.not_after
    }
}

fn verifier(clients: &Clients) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    let (trust, is_needed) = match clients {
        Clients::Any => return Ok(WebPkiClientVerifier::no_client_auth()),
        Clients::MayProve(trust) => (trust, false),
        Clients::MustProve(trust) => (trust, true),
    };
    let roots = Arc::clone(&trust.roots);
    let builder = WebPkiClientVerifier::builder_with_provider(roots, provider());
    let revocations = trust.revocations.iter().cloned();
    // What no list tells of is not revoked: an operator may have the list of one authority of several.
    let builder = builder
        .with_crls(revocations)
        .allow_unknown_revocation_status();
    let builder = match is_needed {
        true => builder,
        false => builder.allow_unauthenticated(),
    };
    let built = builder.build();
    built.map_err(|error| Problem::BadRevocations(error.to_string()).into())
}

/// Who has proved less must not resume where more is asked: then tickets are made with another key.
fn purpose(clients: &Clients) -> Vec<u8> {
    match clients {
        Clients::Any => b"any".to_vec(),
        Clients::MayProve(trust) => [&b"may"[..], &trust.bytes()].concat(),
        Clients::MustProve(trust) => [&b"must"[..], &trust.bytes()].concat(),
    }
}

/// Certificates by the name that a client wants.
#[derive(Debug)]
struct Certificates(Vec<Identity>);

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let name = hello.server_name();
        let is_usable = |identity: &&Identity| {
            let schemes = hello.signature_schemes();
            identity.key.key.choose_scheme(schemes).is_some()
        };
        let rank = |identity: &&Identity| name.map_or(2, |name| rank(identity, name));
        // Of several that fit as well, the first.
        let usable = self.0.iter().filter(is_usable);
        usable
            .min_by_key(rank)
            .map(|identity| Arc::clone(&identity.key))
    }
}

/// How well a certificate fits a name: 0 by the name itself, 1 by a wildcard, 2 not at all.
fn rank(identity: &Identity, name: &str) -> u8 {
    let names = identity.names();
    let is = |known: &String| known.eq_ignore_ascii_case(name);
    let is_within = |known: &String| {
        let domain = known.strip_prefix("*.");
        let parent = name.split_once('.').map(|(_, parent)| parent);
        domain.is_some_and(|domain| parent.is_some_and(|of| of.eq_ignore_ascii_case(domain)))
    };
    if names.dns.iter().chain(&names.sip).any(is) {
        0
    } else if names.dns.iter().any(is_within) {
        1
    } else {
        2
    }
}

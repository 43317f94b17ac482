//! Certificates: the keys of secure listeners, and the section `[tls]`.

use std::{path::PathBuf, sync::Arc};

use net::{Bound, Security};
use node::config::{IpNet, Listener};
use settings::{
    At, Item, Section,
    value::{expected, text, word},
};
use tls::{Client, Clients, Identity, Naming, Server, Trust};

use super::listen::Listeners;

/// What a secure listener shows its peers, and asks of them.
#[derive(Debug)]
pub(super) struct Secured {
    identities: Vec<Identity>,
    clients: Clients,
}

/// What this node asks of servers that it connects to, and shows them.
#[derive(Debug)]
pub(super) struct AsClient {
    /// Where `[tls]` is in the file, in bytes.
    at: Option<usize>,
    /// None: the system's, if there is a secure listener at all.
    trust: Option<Trust>,
    naming: Naming,
    identity: Option<Identity>,
}

impl AsClient {
    /// Whether `[tls]` is given though no listener is secure.
    pub(super) fn is_unused(&self, listening: &Listeners) -> bool {
        self.at.is_some() && listening.first_secure.is_none()
    }
}

/// Whether clients are asked for a certificate, and whether they must have one.
#[derive(Clone, Copy)]
enum Asked {
    No,
    May,
    Must,
}

const CLIENTS: [(&str, Asked); 3] = [
    ("none", Asked::No),
    ("request", Asked::May),
    ("require", Asked::Must),
];
const NAMINGS: [(&str, Naming); 2] = [("sip", Naming::Sip), ("web", Naming::Web)];

/// Reads what a secure listener has besides; none if it has no certificate that can be used.
pub(super) fn secured(section: &mut Section<'_>) -> Option<Secured> {
    let identities = identities(section);
    let clients = section.get_or("client_certificates", Asked::No, word("value", &CLIENTS));
    let clients = match (clients, trust(section, "client_ca", "client_crl")) {
        (Asked::No, _) => Clients::Any,
        (Asked::May | Asked::Must, None) => {
            let advice = "client_certificates asks for certificates: add client_ca = \"FILE\" with the \
                          authorities that issue them";
            section.problem(advice);
            return None;
        }
        (Asked::May, Some(trust)) => Clients::MayProve(trust),
        (Asked::Must, Some(trust)) => Clients::MustProve(trust),
    };
    if identities.is_empty() {
        section.problem(
            "a secure listener needs a certificate: add certificates = [ { chain = \"FILE\", key = \
             \"FILE\" } ]",
        );
        return None;
    }
    Some(Secured {
        identities,
        clients,
    })
}

/// Reads whose certificates are believed: of the authorities in a file, or of the system's if only a list of what they
/// have revoked is named. None: neither is there, or one can't be used.
fn trust(
    section: &mut Section<'_>,
    authorities: &'static str,
    revoked: &'static str,
) -> Option<Trust> {
    let folder = section.folder().to_path_buf();
    let is_named = section.has(authorities);
    let trust = section.get(authorities, |value| {
        let file = folder.join(text(value)?);
        Trust::of_file(&file).map_err(|error| error.to_string())
    });
    let trust = trust.map(|found| found.value);
    if is_named && trust.is_none() || !section.has(revoked) {
        section.get(revoked, |value| text(value).map(drop));
        return trust;
    }
    let with_list = section.get(revoked, |value| {
        let file = folder.join(text(value)?);
        let trust = trust.map_or_else(Trust::of_system, Ok);
        let trust = trust.and_then(|trust| trust.with_revocations(&file));
        trust.map_err(|error| error.to_string())
    });
    with_list.map(|found| found.value)
}

fn identities(section: &mut Section<'_>) -> Vec<Identity> {
    let mut identities = Vec::new();
    for item in section.items("certificates") {
        match item {
            Item::Table(mut table) => {
                identities.extend(identity(&mut table));
                table.finish();
            }
            Item::Value(value) => {
                let what = expected("{ chain = \"FILE\", key = \"FILE\" }", value.value);
                section.problem_of("certificates", value.at, &what);
            }
        }
    }
    identities
}

/// Reads `chain` and `key`.
pub(super) fn identity(table: &mut Section<'_>) -> Option<Identity> {
    let folder = table.folder().to_path_buf();
    let file = |value: &settings::Value<'_>| Ok(folder.join(text(value)?));
    let chain = table.require("chain", "write chain = \"FILE\"", file);
    let key: Option<At<PathBuf>> = table.require("key", "write key = \"FILE\"", file);
    let (chain, key) = (chain?, key?);
    match Identity::load(&chain.value, &key.value) {
        Ok(identity) => Some(identity),
        Err(error) => {
            let is_of_key = chain.value != key.value && error.path.as_ref() == Some(&key.value);
            let (name, at) = if is_of_key {
                ("key", key.at)
            } else {
                ("chain", chain.at)
            };
            table.problem_of(name, at, &error.to_string());
            None
        }
    }
}

/// Reads `[tls]`.
pub(super) fn as_client(root: &mut Section<'_>) -> AsClient {
    let at = root.given_table("tls").map(|section| section.at());
    let mut section = root.table("tls");
    let trust = trust(&mut section, "ca", "crl");
    let naming = section.get_or("names", Naming::Sip, word("value", &NAMINGS));
    let has_identity = section.has("chain") || section.has("key");
    let identity = has_identity.then(|| identity(&mut section)).flatten();
    section.finish();
    AsClient {
        at,
        trust,
        naming,
        identity,
    }
}

/// How the connections of all listeners are secured; none if the certificates make no sense together.
pub(super) fn security(
    root: &Section<'_>,
    listening: &Listeners,
    as_client: &AsClient,
    secret: &[u8],
) -> Option<Security> {
    let security = security_of(listening, as_client, secret);
    let at = as_client.at.or(listening.first_secure).unwrap_or_default();
    let told = security.map_err(|error| root.problem_of("tls", at, &error.to_string()));
    told.ok()
}

fn security_of(
    listening: &Listeners,
    as_client: &AsClient,
    secret: &[u8],
) -> Result<Security, tls::Error> {
    let Listeners {
        listeners,
        balancers,
        secured,
        ..
    } = listening;
    let is_secure = listeners.iter().any(|it| it.transport.is_secure());
    let client = is_secure.then(|| client(as_client)).transpose()?;
    let bound = |((listener, secured), balancers): ((&Listener, &Option<Secured>), &Vec<IpNet>)| {
        let server = secured.as_ref().map(|of| {
            let wall = Arc::new(socket::wall);
            Server::new(&of.identities, &of.clients, secret, wall)
        });
        Ok(Bound {
            transport: listener.transport,
            address: listener.address,
            server: server.transpose()?,
            client: client.clone(),
            balancers: balancers.clone(),
        })
    };
    let bound: Result<Vec<_>, tls::Error> = listeners
        .iter()
        .zip(secured)
        .zip(balancers)
        .map(bound)
        .collect();
    Ok(Security::new(bound?))
}

/// How the admin API is secured; none if the certificate makes no sense.
pub(super) fn admin(root: &Section<'_>, shown: &At<Identity>, secret: &[u8]) -> Option<Server> {
    // Sessions with phones are not resumed here.
    let secret = [b"admin", secret].concat();
    let identity = std::slice::from_ref(&shown.value);
    let server = Server::new(identity, &Clients::Any, &secret, Arc::new(socket::wall));
    let told = server.map_err(|error| root.problem_of("admin.tls", shown.at, &error.to_string()));
    told.ok()
}

fn client(of: &AsClient) -> Result<Client, tls::Error> {
    let system;
    let trust = match &of.trust {
        Some(trust) => trust,
        None => {
            system = Trust::of_system()?;
            &system
        }
    };
    Client::new(
        trust,
        of.naming,
        of.identity.as_ref(),
        Arc::new(socket::wall),
    )
}

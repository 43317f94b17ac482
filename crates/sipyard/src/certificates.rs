//! What is told of certificates: whose they are, who issued them, until when they hold, and where they are.

use std::time::Duration;

use net::Security;
use node::config::Config;
use recorder::written;
use serde::{Deserialize, Serialize};
use tls::Identity;

use crate::config::{Admin, of_certificate};

/// Where the node's own certificate is shown.
pub(crate) const TO_SERVERS: &str = "to servers";

/// A certificate that this node shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Certificate {
    /// Where it is shown: a listener's transport and address, or "to servers".
    pub(crate) shown: String,
    /// The names that it proves: domains, SIP domains, addresses; without these, its subject.
    pub(crate) names: Vec<String>,
    /// Who issued it.
    pub(crate) issuer: String,
    /// When it begins and ends, as RFC 3339 writes it.
    pub(crate) begins: String,
    pub(crate) ends: String,
    /// Whole days until it ends; below 0: since it has ended.
    pub(crate) days_left: i64,
    /// Where it was read from.
    pub(crate) file: String,
    /// That it ends soon or has ended, and what to do.
    pub(crate) warning: Option<String>,
}

/// All that listeners show to their peers, and the node to servers.
pub(crate) fn shown(config: &Config, security: &Security) -> Vec<Certificate> {
    let wall = socket::wall();
    let mut shown = Vec::new();
    for (listener, bound) in config.listeners.iter().zip(security.listeners()) {
        let place = format!("{} {}", listener.transport.label(), listener.address);
        let identities = bound.server.iter().flat_map(tls::Server::identities);
        shown.extend(identities.map(|it| Certificate::new(it, place.clone(), wall)));
    }
    let own = security.client_identity();
    shown.extend(own.map(|it| Certificate::new(it, TO_SERVERS.to_owned(), wall)));
    shown
}

/// What the admin API shows.
pub(crate) fn of_admin(admin: &Admin) -> Vec<Certificate> {
    let identities = admin.tls.iter().flat_map(tls::Server::identities);
    let place = format!("admin {}", admin.address);
    let shown = identities.map(|it| Certificate::new(it, place.clone(), socket::wall()));
    shown.collect()
}

impl Certificate {
    /// A certificate as of a time since 1970.
    pub(crate) fn new(identity: &Identity, shown: String, wall: Duration) -> Self {
        let (begins, ends) = (identity.not_before(), identity.not_after());
        let left = ends.as_secs() as i64 - wall.as_secs() as i64;
        Self {
            shown,
            names: names(identity),
            issuer: identity.issuer().to_owned(),
            begins: written(begins),
            ends: written(ends),
            days_left: left.div_euclid(86_400),
            file: identity.path().display().to_string(),
            warning: warning(identity, wall),
        }
    }
}

fn warning(identity: &Identity, wall: Duration) -> Option<String> {
    let soon = of_certificate(identity.not_after(), wall);
    let too_early = || {
        let is_early = wall < identity.not_before();
        is_early.then(|| "a certificate is not valid yet: check the clock".to_owned())
    };
    soon.or_else(too_early)
}

fn names(identity: &Identity) -> Vec<String> {
    let names = identity.names();
    let sip = names.sip.iter().map(|host| format!("sip:{host}"));
    let addresses = names.addresses.iter().map(ToString::to_string);
    let all: Vec<String> = names
        .dns
        .iter()
        .cloned()
        .chain(sip)
        .chain(addresses)
        .collect();
    if all.is_empty() {
        vec![identity.subject().to_owned()]
    } else {
        all
    }
}

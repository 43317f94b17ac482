//! The configuration file. It is read and checked as a whole, and every problem is reported with
//! its line and column.
//!
//! [`load()`] is the only way in. It returns the configuration of the node ([`node::Config`]) and
//! of the binary, or every problem of the file. It never returns a part of either.

mod abuse;
mod address;
mod admin;
mod calls;
mod cluster;
mod connections;
mod listen;
mod pool;
mod registrar;
mod route;
mod sections;
mod secure;
pub(crate) mod servers;
#[cfg(test)]
mod tests;
mod trust;
mod warnings;

#[cfg(test)]
use std::collections::BTreeSet;
use std::{path::Path, time::Duration};

use net::Security;
use settings::{Place, Problem, Section};

use crate::calls::Kept;

pub(crate) use abuse::Nftables;
pub(crate) use admin::{ADMIN_PORT, Admin, AdminPlaces};
pub(crate) use calls::DEFAULT as DEFAULT_CALLS;
pub(crate) use cluster::{Announced, Cluster};
pub(crate) use registrar::Registrar;
pub(crate) use sections::Dns;
pub(crate) use servers::Source;
pub(crate) use warnings::{of_certificate, warnings};

/// A configuration file without problems.
#[derive(Debug)]
pub(crate) struct Configuration {
    /// The node's part.
    pub(crate) node: node::Config,
    /// Worker threads; 0 starts one per core.
    pub(crate) workers: usize,
    /// Where the admin API listens, and whom it lets in.
    pub(crate) admin: Admin,
    /// The origins of each pool's servers, in the pools' order.
    pub(crate) sources: Vec<Vec<Source>>,
    /// The DNS servers that are asked for names.
    pub(crate) dns: Dns,
    /// The store through which nodes find each other.
    pub(crate) cluster: Option<Cluster>,
    /// The users who may register, and the store of their records.
    pub(crate) registrar: Option<Registrar>,
    /// How long the end of the node waits for open calls.
    pub(crate) drain_calls: Duration,
    /// What is kept of calls.
    pub(crate) calls: Kept,
    /// The sets of nftables that hold the banned sources.
    pub(crate) nftables: Option<Nftables>,
    /// How the listeners' connections are secured.
    pub(crate) security: Security,
    /// Whether `[tls]` is given though no listener is secure.
    pub(crate) has_unused_tls: bool,
    /// The place of each listener's address in the file, in the listeners' order.
    pub(crate) listener_places: Vec<Place>,
    /// The places of the admin API's sockets in the file.
    pub(crate) admin_places: AdminPlaces,
}

impl Configuration {
    /// A summary of the configuration in one line.
    pub(crate) fn summary(&self) -> String {
        let listeners: Vec<String> = self
            .node
            .listeners
            .iter()
            .map(|listener| format!("{} {}", listener.transport.label(), listener.address))
            .collect();
        let pools = self.node.pools.iter().zip(&self.sources);
        let pools: Vec<String> = pools
            .map(|(pool, sources)| {
                let servers = servers::summary(sources);
                format!("{} ({servers} x {})", pool.name, pool.policy)
            })
            .collect();
        let registrar = self
            .registrar
            .as_ref()
            .map_or_else(String::new, |registrar| {
                let domains = registrar.rules.domains.join(", ");
                format!("; registrar: {domains} ({})", registrar.store)
            });
        let pools = match &pools[..] {
            [] => String::new(),
            pools => format!("; pools: {}", pools.join(", ")),
        };
        format!(
            "listens on {}{pools}{registrar}; admin on {}://{}",
            listeners.join(", "),
            self.admin.scheme(),
            self.admin.address
        )
    }
}

/// Reads and checks the file at `path`.
///
/// # Errors
/// Every problem, in the order of the file. If the file is not TOML, the syntax errors alone are
/// reported, because the rest can't be read.
pub(crate) fn load(path: &Path) -> Result<Configuration, Vec<Problem>> {
    settings::load(path, read)
}

/// The paths of all keys that a file with this text may have.
#[cfg(test)]
pub(crate) fn keys(path: &Path, text: &str) -> BTreeSet<String> {
    settings::keys(path, text, read)
}

/// The whole configuration; none if a required part is absent.
fn read(mut root: Section<'_>) -> Option<Configuration> {
    let listening = listen::listeners(&mut root);
    let listeners = &listening.listeners;
    let as_client = secure::as_client(&mut root);
    let has_unused_tls = as_client.is_unused(&listening);
    let identity = sections::identity(root.table("node"), listeners);
    let timers = sections::timers(root.table("timers"));
    let limits = sections::limits(root.table("limits"));
    let connections = connections::connections(root.table("connections"));
    let (mut admin, admin_places, shown) = admin::admin(root.table("admin"));
    let dns = sections::dns(root.table("dns"));
    let (abuse, nftables) = abuse::abuse(root.table("abuse"));
    let calls = calls::calls(root.table("calls"));
    let cluster = cluster::cluster(&mut root, listeners);
    let sourced = pool::pools(&mut root, &timers, listeners);
    let (pools, sources): (Vec<_>, Vec<_>) = sourced
        .into_iter()
        .map(|sourced| (sourced.pool, sourced.sources))
        .unzip();
    let names: Vec<String> = pools.iter().map(|pool| pool.name.clone()).collect();
    let registrar = registrar::registrar(&mut root);
    let known = route::Known {
        pools: &names,
        listeners,
        registrar: registrar.as_ref(),
    };
    let routes = route::routes(&mut root, &known);
    let rules = registrar.as_ref().map(|registrar| registrar.rules.clone());
    let trust = trust::trust(root.table("trust"));
    let identity = identity.map(|identity| {
        let security = secure::security(&root, &listening, &as_client, &identity.secret);
        admin.tls = shown.and_then(|shown| secure::admin(&root, &shown, &identity.secret));
        (identity, security)
    });
    root.finish();
    let (identity, security) = identity?;
    Some(Configuration {
        node: node::Config {
            name: identity.name,
            secret: identity.secret.into(),
            accepted_secret: identity.accepted_secret.map(Into::into),
            listeners: listening.listeners,
            pools,
            registrar: rules,
            routes,
            limits,
            timers,
            exchange: identity.exchange,
            trust,
            connections,
            abuse,
        },
        workers: identity.workers,
        drain_calls: identity.drain_calls,
        admin,
        sources,
        dns,
        cluster,
        registrar,
        calls,
        nftables,
        has_unused_tls,
        listener_places: listening.places,
        security: security?,
        admin_places,
    })
}

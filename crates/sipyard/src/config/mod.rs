//! The configuration file: read whole, checked whole, every problem told with its place.
//!
//! [`load()`] is the only way in. It yields what a node takes ([`node::Config`]) and what only the
//! binary needs, or every problem of the file; never a part of either.

mod address;
mod cluster;
mod pool;
mod registrar;
mod route;
mod sections;
pub(crate) mod servers;
#[cfg(test)]
mod tests;

use std::{net::SocketAddr, path::Path};

use settings::{Place, Problem, Section};

pub(crate) use cluster::{Announced, Cluster};
pub(crate) use registrar::Registrar;
pub(crate) use sections::Dns;
pub(crate) use servers::Source;

/// A file that holds no problem.
#[derive(Debug)]
pub(crate) struct Configuration {
    /// What the node takes.
    pub(crate) node: node::Config,
    /// Worker threads; 0: one per core.
    pub(crate) workers: usize,
    /// Where the admin API listens.
    pub(crate) admin: SocketAddr,
    /// Where each pool's servers come from, in the pools' order.
    pub(crate) sources: Vec<Vec<Source>>,
    /// Who is asked for names.
    pub(crate) dns: Dns,
    /// Where nodes find each other.
    pub(crate) cluster: Option<Cluster>,
    /// Who may register, and where that is kept.
    pub(crate) registrar: Option<Registrar>,
    /// Where each listener's address stands in the file, in the listeners' order.
    pub(crate) listener_places: Vec<Place>,
    /// Where the admin API's address stands.
    pub(crate) admin_place: Place,
}

impl Configuration {
    /// What it sets up, in one line.
    pub(crate) fn summary(&self) -> String {
        let listeners: Vec<String> = self
            .node
            .listeners
            .iter()
            .map(|listener| format!("udp {}", listener.address))
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
            "listens on {}{pools}{registrar}; admin on http://{}",
            listeners.join(", "),
            self.admin
        )
    }
}

/// Reads and checks the file at `path`.
///
/// # Errors
/// Every problem, in the order of the file. A file that is no TOML yields its syntax errors alone,
/// since what it means can't be told.
pub(crate) fn load(path: &Path) -> Result<Configuration, Vec<Problem>> {
    settings::load(path, read)
}

/// The whole file; none if what is required is absent.
fn read(mut root: Section<'_>) -> Option<Configuration> {
    let (listeners, listener_places) = sections::listeners(&mut root);
    let identity = sections::identity(root.table("node"), &listeners);
    let timers = sections::timers(root.table("timers"));
    let limits = sections::limits(root.table("limits"));
    let (admin, admin_place) = sections::admin(root.table("admin"));
    let dns = sections::dns(root.table("dns"));
    let cluster = cluster::cluster(&mut root, &listeners);
    let sourced = pool::pools(&mut root, &timers, &listeners);
    let (pools, sources): (Vec<_>, Vec<_>) = sourced
        .into_iter()
        .map(|sourced| (sourced.pool, sourced.sources))
        .unzip();
    let names: Vec<String> = pools.iter().map(|pool| pool.name.clone()).collect();
    let routes = route::routes(&mut root, &names);
    let registrar = registrar::registrar(&mut root);
    let rules = registrar.as_ref().map(|registrar| registrar.rules.clone());
    root.finish();
    let identity = identity?;
    Some(Configuration {
        node: node::Config {
            name: identity.name,
            secret: identity.secret.into(),
            listeners,
            pools,
            registrar: rules,
            routes,
            limits,
            timers,
            exchange: identity.exchange,
        },
        workers: identity.workers,
        admin,
        sources,
        dns,
        cluster,
        registrar,
        listener_places,
        admin_place,
    })
}

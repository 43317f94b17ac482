//! The configuration file: read whole, checked whole, every problem told with its place.
//!
//! [`load()`] is the only way in. It yields what a node takes ([`node::Config`]) and what only the
//! binary needs, or every problem of the file; never a part of either.

mod cluster;
pub(crate) mod pool;
mod registrar;
mod report;
mod route;
pub(crate) mod section;
pub(crate) mod servers;
mod settings;
#[cfg(test)]
mod tests;
pub(crate) mod value;

use std::{fs, net::SocketAddr, path::Path};

use toml::de::DeTable;

pub(crate) use cluster::{Announced, Cluster};
pub(crate) use registrar::Registrar;
pub(crate) use report::{Place, Problem};
pub(crate) use servers::Source;
pub(crate) use settings::Dns;
pub(crate) use value::show;

use report::Report;
use section::Section;

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
    load_as(path, read)
}

/// Reads the file at `path` as whatever `read` makes of it, which is none if a required part is
/// absent.
///
/// # Errors
/// Like [`load()`].
pub(crate) fn load_as<T>(
    path: &Path,
    read: impl FnOnce(Section<'_>) -> Option<T>,
) -> Result<T, Vec<Problem>> {
    let text = fs::read_to_string(path).map_err(|error| {
        let message = format!("cannot be read: {error}");
        vec![Place::file(path).problem(message)]
    })?;
    let report = Report::new(path, &text);
    let (table, errors) = DeTable::parse_recoverable(&text);
    for error in &errors {
        let at = error.span().map_or(0, |span| span.start);
        report.syntax(at, error.message());
    }
    let read = report
        .is_clean()
        .then(|| read(Section::root(&report, table.get_ref())))
        .flatten();
    match read {
        Some(read) if report.is_clean() => Ok(read),
        _ => Err(report.into_problems()),
    }
}

/// The whole file; none if what is required is absent.
fn read(mut root: Section<'_>) -> Option<Configuration> {
    let (listeners, listener_places) = settings::listeners(&mut root);
    let identity = settings::identity(root.table("node"), &listeners);
    let timers = settings::timers(root.table("timers"));
    let limits = settings::limits(root.table("limits"));
    let (admin, admin_place) = settings::admin(root.table("admin"));
    let dns = settings::dns(root.table("dns"));
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

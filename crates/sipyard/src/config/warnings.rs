//! What is legal in a configuration, and seldom wise.

use std::{net::IpAddr, path::Path, thread::available_parallelism, time::Duration};

use ::store::Address;
use balance::Policy;
use node::{
    Config, Transport,
    config::{Destination, Mode, Pool, PoolServer, Route},
};
use settings::{Problem, place_of};

use super::{Configuration, Source};

/// Policies that don't look at capacities.
const IGNORE_CAPACITIES: [Policy; 6] = [
    Policy::Hash,
    Policy::FnvHash,
    Policy::Rwma,
    Policy::Rwma200,
    Policy::PeakEwma,
    Policy::PeakEwma200,
];
/// Networks with a shorter prefix hold more than anybody knows.
const TRUSTED_BITS_MIN: u8 = 8;
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Whoever renews certificates by a program does so earlier.
const CERTIFICATE_LEFT_MIN: Duration = Duration::from_secs(14 * DAY.as_secs());

/// All warnings, each with its place and what to do.
pub(crate) fn warnings(path: &Path, configuration: &Configuration) -> Vec<Problem> {
    let mut found: Vec<Problem> = of_listeners(configuration);
    let mut warn = |names: &[&str], message: &str| {
        let place = place_of(path, names);
        found.push(place.problem(format!("warning: {message}")));
    };
    for (pool, sources) in configuration.node.pools.iter().zip(&configuration.sources) {
        of_pool(pool, sources, &mut warn);
    }
    of_registrar(configuration, &mut warn);
    of_other_certificates(configuration, &mut warn);
    if configuration.has_unused_tls {
        let message = "tls: nothing of it is used, as no listener is tls or wss: servers are connected to from \
                       such a listener alone";
        warn(&["tls"], message);
    }
    let node = &configuration.node;
    for network in node
        .trust
        .peers
        .iter()
        .filter(|it| it.prefix_len() < TRUSTED_BITS_MIN)
    {
        let message = format!(
            "trust.peers: {network} believes very many hosts, whose addresses can be forged over UDP: name \
             your own networks"
        );
        warn(&["trust", "peers"], &message);
    }
    let cores = available_parallelism().map_or(1, usize::from);
    if configuration.workers > cores {
        let message = format!(
            "node.workers: {} workers share {cores} cores of this machine: 0 starts one for each core",
            configuration.workers
        );
        warn(&["node", "workers"], &message);
    }
    if !node.exchange.peers.is_empty() && node.name == "sipyard" {
        warn(
            &["node"],
            "node.name: other edges and people tell nodes by their names: give each its own",
        );
    }
    of_lost_datagrams(node, &mut warn);
    if node
        .routes
        .iter()
        .all(|route| !route.hosts.is_empty() || !route.users.is_empty())
    {
        let message = "no route takes what the others leave: such requests get 404; a last [[route]] with `to` \
                       alone takes them";
        warn(&["route"], message);
    }
    found
}

/// Warns of certificates of listeners, each at its listener's address.
fn of_listeners(configuration: &Configuration) -> Vec<Problem> {
    let ends = configuration.security.certificates_end().into_iter();
    let warning = |(listener, end): (usize, Duration)| {
        let message = of_certificate(end, socket::wall())?;
        let place = configuration.listener_places.get(listener)?;
        Some(place.problem(format!("warning: listen[{listener}]: {message}")))
    };
    ends.filter_map(warning).collect()
}

/// Warns of what the admin API shows, and the node to servers.
fn of_other_certificates(configuration: &Configuration, warn: &mut impl FnMut(&[&str], &str)) {
    let of_admin = configuration.admin.tls.as_ref();
    let of_admin = of_admin.map(tls::Server::not_after);
    let own = configuration.security.client_identity();
    let own = own.map(tls::Identity::not_after);
    for (names, end) in [(["admin", "tls"], of_admin), (["tls", "chain"], own)] {
        let message = end.and_then(|end| of_certificate(end, socket::wall()));
        if let Some(message) = message {
            warn(&names, &format!("{}: {message}", names.join(".")));
        }
    }
}

/// What to know of a certificate that ends at a time since 1970.
pub(crate) fn of_certificate(end: Duration, wall: Duration) -> Option<String> {
    let days = |time: Duration| time.as_secs() / DAY.as_secs();
    if end < wall {
        let days = days(wall - end);
        Some(format!(
            "a certificate expired {days} days ago, and most peers refuse it: renew it"
        ))
    } else if end - wall < CERTIFICATE_LEFT_MIN {
        let days = days(end - wall);
        Some(format!(
            "a certificate expires in {days} days: renew it, then `sipyard ctl reload`"
        ))
    } else {
        None
    }
}

/// What comes over a connection is sent once, and a stateless route repeats nothing: RFC 3261 §16.11, §17.1.1.2.
fn of_lost_datagrams(node: &Config, warn: &mut impl FnMut(&[&str], &str)) {
    let is_of_streams = |route: &Route| {
        let mut listeners = (0..).zip(&node.listeners);
        listeners.any(|(index, listener)| {
            let is_meant = route.listeners.is_empty() || route.listeners.contains(&index);
            is_meant && listener.transport.is_stream()
        })
    };
    let is_udp = |server: &PoolServer| server.transport == Transport::Udp;
    for pool in &node.pools {
        let leads_here =
            |route: &&Route| matches!(&route.to, Destination::Pool(name) if *name == pool.name);
        let mut routes = node.routes.iter().filter(leads_here);
        let loses = routes.any(|route| route.state == Mode::Stateless && is_of_streams(route));
        if loses && pool.servers.iter().any(is_udp) {
            let name = pool.name.as_str();
            let message = format!(
                "pool.{name}: who calls over a connection sends a request once, and nobody repeats it to these servers \
                 if UDP loses it: write state = \"stateful\" in its route"
            );
            warn(&["pool", name, "servers"], &message);
        }
    }
}

fn of_pool(pool: &Pool, sources: &[Source], warn: &mut impl FnMut(&[&str], &str)) {
    let name = pool.name.as_str();
    let fixed = sources
        .iter()
        .all(|source| super::servers::fixed(source).is_some());
    if fixed && pool.servers.len() == 1 {
        let message = format!("pool.{name}: one server alone: nothing can take its calls over");
        warn(&["pool", name, "servers"], &message);
    }
    if pool.probe.is_none() && pool.servers.len() != 1 {
        let message = format!(
            "pool.{name}.probe: without probes, calls find out which server is down: turn them on if the \
             servers answer OPTIONS"
        );
        warn(&["pool", name, "probe"], &message);
    }
    let first = pool.servers.first().map(|server| server.capacity);
    let differ = pool
        .servers
        .iter()
        .any(|server| Some(server.capacity) != first);
    if differ && IGNORE_CAPACITIES.contains(&pool.policy) {
        let message = format!(
            "pool.{name}.policy: {} does not look at capacities",
            pool.policy
        );
        warn(&["pool", name, "policy"], &message);
    }
    if pool.servers.iter().all(|server| server.priority > 0) && !pool.servers.is_empty() && fixed {
        let message = format!("pool.{name}: no server has priority 0, so none comes first");
        warn(&["pool", name, "servers"], &message);
    }
}

fn of_registrar(configuration: &Configuration, warn: &mut impl FnMut(&[&str], &str)) {
    let Some(registrar) = &configuration.registrar else {
        return;
    };
    let is_local = |ip: IpAddr| ip.is_loopback();
    let is_public = configuration
        .node
        .listeners
        .iter()
        .any(|it| !is_local(it.address.ip()));
    if registrar.rules.algorithms.is_empty() && is_public {
        let message = "registrar.auth: whoever reaches this node may register as anybody";
        warn(&["registrar", "auth"], message);
    }
    if matches!(registrar.store, Address::Memory) {
        let message = "registrar.store: users and phones are forgotten at a restart: write file:PATH or redis://HOST:PORT";
        warn(&["registrar", "store"], message);
    }
}

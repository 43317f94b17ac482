//! What happens to a site when another one is lost.

use serde::Serialize;

use super::{
    design::Design,
    size::{REGISTERS_TO_RETURN, Sized},
};

/// A site after the loss of another one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Loss {
    pub(super) lost: String,
    pub(super) by: String,
    /// Users that it takes over.
    pub(super) users: f64,
    /// Its calls per second before and after.
    pub(super) calls_per_s: [f64; 2],
    /// How busy its edges' cores are before and after; all nodes are up.
    pub(super) edges_busy: [f64; 2],
    pub(super) registrars_busy: [f64; 2],
    pub(super) stores_busy: [f64; 2],
    /// Phones that lose their connection and come here.
    pub(super) phones: f64,
    /// Until they are registered: the time that each stage needs if they come at once.
    pub(super) edges_s: f64,
    pub(super) handshakes_s: f64,
    pub(super) registrars_s: f64,
    pub(super) stores_s: f64,
    /// The longest of these.
    pub(super) back_s: f64,
    pub(super) limit: &'static str,
}

/// Handshakes that a node has in progress at most, if `connections.handshakes` is not set.
pub(super) const HANDSHAKES_MAX: f64 = 8_192.0;

/// TCP takes a round trip, and so does TLS 1.3.
pub(super) const ROUND_TRIPS: f64 = 2.0;

impl Design {
    /// Each loss of a site, as each other site feels it.
    pub(super) fn losses(&self, sites: &[Sized]) -> Vec<Loss> {
        let all = 0..sites.len();
        all.clone()
            .flat_map(|lost| all.clone().map(move |by| (lost, by)))
            .filter(|(lost, by)| lost != by)
            .map(|(lost, by)| self.loss(sites, lost, by))
            .collect()
    }

    fn loss(&self, sites: &[Sized], lost: usize, by: usize) -> Loss {
        let site = &sites[by];
        let users = self.taken(lost, by);
        let after = self.load(site.load.users + users);
        let both = [&site.load, &after];
        let phones = self.connected(users);
        let edges = site.edges.nodes * self.edge.cores;
        let registrars = site.registrars.nodes * self.registrar.cores;
        let news = both.map(|load| self.news_cores(load, site.stores.clusters));
        let busy_of_shards = both.map(|load| {
            let clusters = site.stores.clusters;
            let (changes, look_ups) = (load.changes_per_s, load.look_ups_per_s);
            let (shards, listeners) = (site.stores.shards, site.stores.listeners);
            self.shard_busy(changes / clusters, look_ups / clusters, shards, listeners)
        });
        let edges_busy = both.map(|load| load.edge_cores / edges);
        let registrars_busy = [0, 1].map(|when| {
            (both[when].registrar_cores + news[when] * site.registrars.nodes) / registrars
        });
        let time = |work_us: f64, cores: f64, busy: f64| work_us / 1e6 / (cores * (1.0 - busy));
        let edges_s = time(phones * self.return_us(), edges, edges_busy[1]);
        let register_us = REGISTERS_TO_RETURN * self.costs.registrar_register_us;
        let registrars_s = time(phones * register_us, registrars, registrars_busy[1]);
        let of_a_shard = self.return_of_shard_s(
            users / site.stores.clusters,
            site.stores.shards,
            site.stores.listeners,
        );
        let stores_s = of_a_shard / (1.0 - busy_of_shards[1]);
        let at_once = site.edges.nodes * HANDSHAKES_MAX;
        let handshakes_s = phones * ROUND_TRIPS * self.aims.round_trip_s / at_once;
        let stages = [
            ("edges", edges_s),
            ("handshakes in progress", handshakes_s),
            ("registrars", registrars_s),
            ("stores", stores_s),
        ];
        let (limit, back_s) = stages
            .into_iter()
            .max_by(|one, other| one.1.total_cmp(&other.1))
            .expect("there are stages");
        Loss {
            lost: sites[lost].name.clone(),
            by: site.name.clone(),
            users,
            calls_per_s: both.map(|load| load.calls_per_s),
            edges_busy,
            registrars_busy,
            stores_busy: busy_of_shards,
            phones,
            edges_s,
            handshakes_s,
            registrars_s,
            stores_s,
            back_s,
            limit,
        }
    }
}

//! What gives way when the demand grows: on the nodes as planned, and if nodes are added.

use serde::Serialize;

use super::{
    design::Design,
    loss::{HANDSHAKES_MAX, ROUND_TRIPS},
    size::{GIB, Sized},
};

/// Something that has a limit, in the site that is nearest to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Limit {
    pub(super) what: &'static str,
    pub(super) value: f64,
    pub(super) most: f64,
    /// The demand at which it is reached, over the demand of the file; none: growth does not reach it.
    pub(super) at_times: Option<f64>,
    pub(super) cure: &'static str,
}

/// A key of a node's configuration that the design needs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Setting {
    pub(super) node: &'static str,
    pub(super) key: &'static str,
    pub(super) default: f64,
    pub(super) needed: f64,
}

struct Found {
    what: &'static str,
    value: f64,
    most: f64,
    cure: &'static str,
}

/// The other edges that a node may name in `peers`, and itself.
const EDGES_OF_AN_EXCHANGE: f64 = 64.0;

/// A registrar renews its lease so often a second, by a look-up and a change, if the lease is 3 s.
const RENEWALS_PER_S: f64 = 1.0;
const COMMANDS_OF_A_RENEWAL: f64 = 2.0;

/// If writers use a record for more of the time, most of them meet another one and try again.
const RECORD_BUSY_MAX: f64 = 0.5;

/// Each edge sends each registrar so many probes a second.
const PROBES_PER_S: f64 = 0.5;
/// The share of a core that is given to probes.
const PROBES_MAX: f64 = 0.5;

/// Growth beyond this is not looked at.
const TIMES_MAX: f64 = 1e4;

/// A transaction that is over lingers for 32 s; a call of a second has some hundred in a registrar's table
/// (`limits.held_transactions`).
const HELD_OF_A_CALL: f64 = 100.0;
const LINGERS_S: f64 = 32.0;

impl Design {
    /// What is full first if the nodes stay as they are, the nearest limit first.
    pub(super) fn limits_of_nodes(&self, sites: &[Sized]) -> Vec<Limit> {
        self.limits(|grown| {
            let fillings = sites.iter().enumerate();
            let fillings = fillings.map(|(site, sized)| grown.fillings(site, sized));
            fillings.collect()
        })
    }

    /// What is in the way of more nodes, the nearest limit first.
    pub(super) fn limits_of_design(&self) -> Vec<Limit> {
        self.limits(|grown| {
            let sites = grown.sized();
            sites.iter().map(|site| grown.bounds(site)).collect()
        })
    }

    /// The limits of the site that is nearest to each; `find` gives them for each site.
    fn limits(&self, find: impl Fn(&Self) -> Vec<Vec<Found>>) -> Vec<Limit> {
        let worst = |times: f64, index: usize| {
            let sites = find(&self.times(times)).into_iter();
            let found = sites.map(|mut all| all.swap_remove(index));
            let fullest = |one: &Found, other: &Found| {
                (one.value / one.most).total_cmp(&(other.value / other.most))
            };
            found.max_by(fullest).expect("there is a site")
        };
        let count = find(self).first().map_or(0, Vec::len);
        let mut limits: Vec<Limit> = (0..count)
            .map(|index| {
                let Found {
                    what,
                    value,
                    most,
                    cure,
                } = worst(1.0, index);
                let is_over = |times: f64| {
                    let found = worst(times, index);
                    found.value > found.most
                };
                Limit {
                    what,
                    value,
                    most,
                    at_times: reach(is_over),
                    cure,
                }
            })
            .collect();
        let nearest = |limit: &Limit| limit.at_times.unwrap_or(f64::INFINITY);
        limits.sort_by(|one, other| nearest(one).total_cmp(&nearest(other)));
        limits
    }

    /// How full a site's nodes are when the site is lost from which it takes over most. Spare nodes are down.
    fn fillings(&self, site: usize, sized: &Sized) -> Vec<Found> {
        let users = self.demand.users * self.sites[site].share + self.most_taken(site);
        let worst = self.load(users);
        let edges = sized.edges.nodes - self.edge.spare;
        let registrars = sized.registrars.nodes - self.registrar.spare;
        let stores = &sized.stores;
        let news = self.news_cores(&worst, stores.clusters) * registrars;
        let shard = self.shard_busy(
            worst.changes_per_s / stores.clusters,
            worst.look_ups_per_s / stores.clusters,
            stores.shards,
            stores.listeners,
        );
        let bytes = worst.users * self.costs.binding_bytes
            + self.demand.users * self.costs.subscriber_bytes;
        let found = |what, value, most| Found {
            what,
            value,
            most,
            cure: "more of them",
        };
        vec![
            found("edges: cores", worst.edge_cores, edges * self.edge.cores),
            found(
                "edges: connections",
                worst.connections,
                edges * self.edge.connections_max,
            ),
            found(
                "edges: memory, GiB",
                worst.edge_bytes / GIB,
                edges * self.edge.memory_gib,
            ),
            found(
                "registrars: cores",
                worst.registrar_cores + news,
                registrars * self.registrar.cores,
            ),
            found(
                "registrars: memory, GiB",
                worst.registrar_bytes / GIB,
                registrars * self.registrar.memory_gib,
            ),
            found("stores: busy share of a shard", shard, 1.0),
            found(
                "stores: memory, GiB",
                bytes / GIB,
                stores.clusters * stores.shards * self.store.memory_gib,
            ),
        ]
    }

    /// What does not get better by more nodes, or even worse.
    fn bounds(&self, site: &Sized) -> Vec<Found> {
        let registrars = site.registrars.nodes;
        let of_a_pool = (registrars / site.stores.clusters).ceil();
        let renewal_s = COMMANDS_OF_A_RENEWAL * self.aims.store_round_trip_s;
        let probes = site.edges.nodes * PROBES_PER_S * self.costs.edge_register_us / 1e6;
        vec![
            Found {
                what: "edges of a site in one exchange of ledgers",
                value: site.edges.nodes,
                most: EDGES_OF_AN_EXCHANGE,
                cure: "groups of edges with servers of their own; or reports that a few edges collect and pass on",
            },
            Found {
                what: "use of the record with a pool's leases",
                value: of_a_pool * RENEWALS_PER_S * renewal_s,
                most: RECORD_BUSY_MAX,
                cure: "a record for each node, and one that only lists them",
            },
            Found {
                what: "a registrar's cores for probes",
                value: probes,
                most: PROBES_MAX,
                cure: "one edge of a group probes, and tells the others",
            },
            Found {
                what: "link of a site to the others, Gbit/s",
                value: site.worst.link_bits_per_s / 1e9,
                most: self.aims.link_gbit_per_s,
                cure: "wider links, or homes nearer to the users",
            },
        ]
    }

    /// Keys whose defaults are too small for the site with the fullest nodes.
    pub(super) fn settings(&self, sites: &[Sized]) -> Vec<Setting> {
        let most = |needed: &dyn Fn(&Sized) -> f64| sites.iter().map(needed).fold(0.0, f64::max);
        let return_s = self.aims.return_within_s;
        let returning = (0..sites.len()).map(|site| {
            let phones = self.connected(self.most_taken(site));
            phones / return_s / (sites[site].edges.nodes - self.edge.spare)
        });
        let returning = returning.fold(0.0, f64::max);
        let edges = |site: &Sized| site.edges.nodes - self.edge.spare;
        let registrars = |site: &Sized| site.registrars.nodes - self.registrar.spare;
        let remembered = |calls_per_s: f64| calls_per_s * (self.demand.holding_s + LINGERS_S);
        let setting = |node, key, default, needed: f64| Setting {
            node,
            key,
            default,
            needed: needed.ceil(),
        };
        vec![
            setting(
                "edge",
                "connections.total",
                65_536.0,
                most(&|site| site.worst.connections / edges(site)),
            ),
            setting(
                "edge",
                "connections.handshakes",
                HANDSHAKES_MAX,
                ROUND_TRIPS * self.aims.round_trip_s * returning,
            ),
            setting(
                "edge",
                "limits.sessions",
                1e6,
                most(&|site| 2.0 * remembered(site.worst.calls_per_s) / edges(site)),
            ),
            setting(
                "edge",
                "limits.strangers",
                65_536.0,
                most(&|site| site.worst.users / edges(site)),
            ),
            setting(
                "registrar",
                "limits.sessions",
                1e6,
                most(&|site| remembered(site.worst.calls_per_s) / registrars(site)),
            ),
            setting(
                "registrar",
                "limits.held_transactions",
                1_048_576.0,
                most(&|site| HELD_OF_A_CALL * site.worst.calls_per_s / registrars(site)),
            ),
        ]
    }
}

/// Finds the smallest growth at which something is over its limit.
fn reach(is_over: impl Fn(f64) -> bool) -> Option<f64> {
    let (mut low, mut high) = (1.0_f64, 1.0_f64);
    if is_over(1.0) {
        // Less than the demand of the file is too much.
        low = 1.0 / TIMES_MAX;
    } else {
        while !is_over(high) {
            low = high;
            high *= 2.0;
            if high > TIMES_MAX {
                return None;
            }
        }
    }
    while high / low > 1.001 {
        let middle = (low * high).sqrt();
        match is_over(middle) {
            true => high = middle,
            false => low = middle,
        }
    }
    Some(high)
}

//! How many nodes the sites need, so that any one of them may be lost.

use serde::Serialize;

use super::{design::Design, load::Load};

pub(super) const GIB: f64 = (1_u64 << 30) as f64;

/// Redis advises against clusters of more nodes.
const SHARDS_MAX: u32 = 1_000;

/// A site with its nodes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Sized {
    pub(super) name: String,
    pub(super) load: Load,
    /// The same when the site is lost from which it takes over most.
    pub(super) worst: Load,
    pub(super) edges: Count,
    pub(super) registrars: Count,
    pub(super) stores: Stores,
}

/// A number of nodes, spare ones included, and what asks for so many.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Count {
    pub(super) nodes: f64,
    pub(super) because: &'static str,
}

/// The Redis clusters of a site. Its users are divided among them, and so are its registrars.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Stores {
    pub(super) clusters: f64,
    /// Of each cluster, replicas not included.
    pub(super) shards: f64,
    /// How busy a shard is, as usual and when most is taken over.
    pub(super) busy: f64,
    pub(super) busy_worst: f64,
    /// Nodes that hear of each change of a cluster.
    pub(super) listeners: f64,
}

impl Design {
    /// The users that a site takes over from another one: lost users are divided as the sites' shares.
    pub(super) fn taken(&self, lost: usize, by: usize) -> f64 {
        let rest = 1.0 - self.sites[lost].share;
        if lost == by || rest <= 0.0 {
            return 0.0;
        }
        self.demand.users * self.sites[lost].share * self.sites[by].share / rest
    }

    /// The most that a site takes over from another one.
    pub(super) fn most_taken(&self, by: usize) -> f64 {
        let lost = 0..self.sites.len();
        lost.map(|lost| self.taken(lost, by)).fold(0.0, f64::max)
    }

    /// All sites with the nodes that they need.
    pub(super) fn sized(&self) -> Vec<Sized> {
        (0..self.sites.len()).map(|site| self.site(site)).collect()
    }

    fn site(&self, site: usize) -> Sized {
        let users = self.demand.users * self.sites[site].share;
        let taken = self.most_taken(site);
        let (load, worst) = (self.load(users), self.load(users + taken));
        let (registrars, stores) = self.second_stage(&load, &worst, taken);
        Sized {
            name: self.sites[site].name.clone(),
            edges: self.edges(&worst, taken),
            registrars,
            stores,
            load,
            worst,
        }
    }

    /// The phones with connections among so many.
    pub(super) fn connected(&self, users: f64) -> f64 {
        let shares = self
            .transports
            .iter()
            .filter(|it| it.connection.is_some())
            .map(|it| it.share);
        users * shares.sum::<f64>()
    }

    /// An edge's work until a phone is back, in microseconds of a core, by the mean of connected phones.
    pub(super) fn return_us(&self) -> f64 {
        let connected = self
            .transports
            .iter()
            .filter_map(|it| Some((it.share, it.connection?)));
        let (shares, handshakes) = connected.fold((0.0, 0.0), |sum, (share, it)| {
            (sum.0 + share, sum.1 + share * it.handshake_us)
        });
        let handshake: f64 = if shares > 0.0 {
            handshakes / shares
        } else {
            0.0
        };
        handshake + REGISTERS_TO_RETURN * self.costs.edge_register_us
    }

    fn edges(&self, worst: &Load, taken: f64) -> Count {
        let edge = &self.edge;
        let back = self.connected(taken) * self.return_us() / 1e6 / self.aims.return_within_s;
        let needs = [
            (
                "processor",
                worst.edge_cores / (edge.cores * self.aims.busy_max),
            ),
            ("connections", worst.connections / edge.connections_max),
            ("memory", worst.edge_bytes / (edge.memory_gib * GIB)),
            ("phones that return", (worst.edge_cores + back) / edge.cores),
        ];
        most(&needs, edge.spare)
    }

    /// Registrars and stores depend on each other: a store tells each change to all of its registrars.
    fn second_stage(&self, load: &Load, worst: &Load, taken: f64) -> (Count, Stores) {
        let mut clusters = 1.0;
        loop {
            let registrars = self.registrars(worst, taken, clusters);
            if let Some(registrars) = registrars
                && let Some(stores) = self.stores(load, worst, clusters, registrars.nodes)
            {
                return (registrars, stores);
            }
            clusters += 1.0;
        }
    }

    /// None: most of what registrars do would be to hear news.
    fn registrars(&self, worst: &Load, taken: f64, clusters: f64) -> Option<Count> {
        let registrar = &self.registrar;
        let back = self.connected(taken) * REGISTERS_TO_RETURN * self.costs.registrar_register_us
            / 1e6
            / self.aims.return_within_s;
        let news = self.news_cores(worst, clusters);
        // One thread hears the news.
        if news > self.aims.busy_max {
            return None;
        }
        let needs = [
            (
                "processor",
                worst.registrar_cores / (registrar.cores * self.aims.busy_max - news),
            ),
            (
                "memory",
                worst.registrar_bytes / (registrar.memory_gib * GIB),
            ),
            (
                "phones that return",
                (worst.registrar_cores + back) / (registrar.cores - news),
            ),
            // A cluster without a registrar is no use.
            ("stores", clusters),
        ];
        Some(most(&needs, registrar.spare))
    }

    /// The cores of each registrar that hear of changes.
    pub(super) fn news_cores(&self, load: &Load, clusters: f64) -> f64 {
        load.changes_per_s / clusters * self.costs.registrar_news_us / 1e6
    }

    /// None: no number of shards is enough, because each of them hears of each change.
    fn stores(&self, load: &Load, worst: &Load, clusters: f64, registrars: f64) -> Option<Stores> {
        let listeners = (registrars / clusters).ceil();
        let taken = worst.users - load.users;
        // Whoever may come needs credentials here.
        let bytes = worst.users * self.costs.binding_bytes
            + self.demand.users * self.costs.subscriber_bytes;
        let for_memory = bytes / clusters / (self.store.memory_gib * GIB);
        let busy = |load: &Load, shards: f64| {
            self.shard_busy(
                load.changes_per_s / clusters,
                load.look_ups_per_s / clusters,
                shards,
                listeners,
            )
        };
        let first = for_memory.ceil().max(1.0) as u32;
        let shards = (first..=SHARDS_MAX).map(f64::from).find(|&shards| {
            let usual = busy(worst, shards);
            let back = self.return_of_shard_s(taken / clusters, shards, listeners);
            usual <= self.aims.busy_max && back <= self.aims.return_within_s * (1.0 - usual)
        })?;
        Some(Stores {
            clusters,
            shards,
            busy: busy(load, shards),
            busy_worst: busy(worst, shards),
            listeners,
        })
    }

    /// The work of a shard until the connected phones of so many users are back, in seconds.
    pub(super) fn return_of_shard_s(&self, users: f64, shards: f64, listeners: f64) -> f64 {
        let phones = self.connected(users);
        self.shard_busy(phones, REGISTERS_TO_RETURN * phones, shards, listeners)
    }

    /// How busy a shard is with so much in its cluster a second.
    pub(super) fn shard_busy(
        &self,
        changes: f64,
        look_ups: f64,
        shards: f64,
        listeners: f64,
    ) -> f64 {
        let costs = &self.costs;
        let own = changes * costs.store_change_us + look_ups * costs.store_look_up_us;
        let others = changes * (shards - 1.0) * costs.store_bus_us;
        // A node listens at one shard, which hears of all changes.
        let told = changes * listeners * costs.store_news_us;
        (own + others + told) / shards / 1e6
    }
}

/// A phone that comes to another site is challenged there.
pub(super) const REGISTERS_TO_RETURN: f64 = 2.0;

fn most(needs: &[(&'static str, f64)], spare: f64) -> Count {
    let (because, nodes) = needs
        .iter()
        .max_by(|one, other| one.1.total_cmp(&other.1))
        .expect("there are needs");
    Count {
        nodes: nodes.ceil().max(1.0) + spare,
        because,
    }
}

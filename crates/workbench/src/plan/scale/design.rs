//! What a file describes: users, sites, machines, and what things cost.

use serde::Serialize;

/// A deployment in several sites. Costs are microseconds of a core, unless they say otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Design {
    pub(super) title: String,
    pub(super) demand: Demand,
    pub(super) transports: Vec<Transport>,
    pub(super) sites: Vec<Site>,
    pub(super) edge: Machine,
    pub(super) registrar: Machine,
    pub(super) store: Store,
    pub(super) aims: Aims,
    pub(super) costs: Costs,
    /// The costs as the file has them, with their sources.
    pub(super) sources: Vec<Source>,
}

/// The users in the busy hour.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Demand {
    /// Users who are registered, each with one phone.
    pub(super) users: f64,
    pub(super) calls_per_s: f64,
    pub(super) holding_s: f64,
    /// The share of calls to users whose home is another site than the caller's.
    pub(super) between_sites: f64,
    /// The share of users who register through another site than their home.
    pub(super) away: f64,
    /// The share of REGISTERs that are sent twice, because the first is challenged.
    pub(super) challenged: f64,
}

/// How a share of the phones is connected.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Transport {
    pub(super) name: String,
    pub(super) share: f64,
    pub(super) register_every_s: f64,
    pub(super) keep_alive_every_s: f64,
    /// Of an edge.
    pub(super) keep_alive_us: f64,
    /// Both ways, with all headers below SIP.
    pub(super) keep_alive_bytes: f64,
    /// None: phones have no connection.
    pub(super) connection: Option<Connection>,
}

/// What a connection costs an edge.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Connection {
    /// Memory of the process and of the kernel.
    pub(super) bytes: f64,
    /// To open it.
    pub(super) handshake_us: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Site {
    pub(super) name: String,
    /// The share of the users whose home it is.
    pub(super) share: f64,
}

/// Each node of a kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Machine {
    pub(super) cores: f64,
    pub(super) memory_gib: f64,
    /// The most connections of phones; it says nothing about registrars.
    pub(super) connections_max: f64,
    /// Nodes of each site that may be down at the same time.
    pub(super) spare: f64,
}

/// Each shard of a Redis or Valkey cluster, which uses one core.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Store {
    pub(super) memory_gib: f64,
    pub(super) replicas: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Aims {
    /// How busy a core may be, on average, when a site is lost.
    pub(super) busy_max: f64,
    /// In which time phones with connections shall be back when a site is lost.
    pub(super) return_within_s: f64,
    /// Between a phone and an edge.
    pub(super) round_trip_s: f64,
    /// Between a node and its store.
    pub(super) store_round_trip_s: f64,
    /// Of the link between a site and all others.
    pub(super) link_gbit_per_s: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Costs {
    /// A call through one edge.
    pub(super) edge_call_us: f64,
    /// A REGISTER through an edge.
    pub(super) edge_register_us: f64,
    /// A call through a registrar, which looks its user up and holds the call.
    pub(super) registrar_call_us: f64,
    pub(super) registrar_register_us: f64,
    /// To hear that another node has changed a record.
    pub(super) registrar_news_us: f64,
    /// A change at its shard.
    pub(super) store_change_us: f64,
    /// To tell a change to a node.
    pub(super) store_news_us: f64,
    /// A change at each other shard of a cluster.
    pub(super) store_bus_us: f64,
    pub(super) store_look_up_us: f64,
    /// An open call, at each node that it passes.
    pub(super) call_bytes: f64,
    pub(super) binding_bytes: f64,
    pub(super) subscriber_bytes: f64,
    /// What a registrar keeps of a user, to spare look-ups.
    pub(super) cached_bytes: f64,
    /// A call on one side of an edge, both ways, with all headers below SIP.
    pub(super) call_wire_bytes: f64,
    pub(super) register_wire_bytes: f64,
}

/// A cost and where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Source {
    pub(super) cost: String,
    pub(super) value: f64,
    pub(super) from: String,
}

impl Design {
    /// The same design for so many times the demand.
    pub(super) fn times(&self, factor: f64) -> Self {
        let mut grown = self.clone();
        grown.demand.users *= factor;
        grown.demand.calls_per_s *= factor;
        grown
    }
}

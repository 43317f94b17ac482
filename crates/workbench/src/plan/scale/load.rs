//! What so many users ask of a site.

use serde::Serialize;

use super::design::Design;

/// The load of a site. Cores are those that are busy on average.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Load {
    pub(super) users: f64,
    pub(super) calls_per_s: f64,
    pub(super) open_calls: f64,
    /// REGISTERs that arrive; some twice, because they are challenged.
    pub(super) registers_per_s: f64,
    /// REGISTERs that are granted; each changes a record.
    pub(super) changes_per_s: f64,
    pub(super) connections: f64,
    pub(super) by_transport: Vec<TransportLoad>,
    pub(super) edge_cores: f64,
    pub(super) edge_bytes: f64,
    /// Without the news that each registrar hears.
    pub(super) registrar_cores: f64,
    pub(super) registrar_bytes: f64,
    /// Of records, if registrars remember none.
    pub(super) look_ups_per_s: f64,
    /// Between phones and edges, both ways.
    pub(super) access_bits_per_s: f64,
    /// To and from other sites.
    pub(super) link_bits_per_s: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct TransportLoad {
    pub(super) name: String,
    pub(super) phones: f64,
    pub(super) registers_per_s: f64,
    pub(super) keep_alives_per_s: f64,
    /// Cores of edges for keep-alives.
    pub(super) keep_alive_cores: f64,
}

/// A call has a caller's edge and a callee's edge.
const EDGES_OF_A_CALL: f64 = 2.0;

/// What a site sends to others, they send to it: a link carries both.
const ENDS_OF_A_LINK: f64 = 2.0;

impl Design {
    /// The load of so many users, who call as all users do.
    pub(super) fn load(&self, users: f64) -> Load {
        let (demand, costs) = (&self.demand, &self.costs);
        let calls_per_s = demand.calls_per_s * users / demand.users;
        let open_calls = calls_per_s * demand.holding_s;
        let by_transport = self.by_transport(users);
        let changes_per_s: f64 = by_transport.iter().map(|it| it.registers_per_s).sum();
        let registers_per_s = changes_per_s * (1.0 + demand.challenged);
        let keep_alive_cores: f64 = by_transport.iter().map(|it| it.keep_alive_cores).sum();
        let connected = self.transports.iter().filter_map(|transport| {
            let connection = transport.connection?;
            let count = transport.share * users;
            Some((count, count * connection.bytes))
        });
        let (connections, connection_bytes) =
            connected.fold((0.0, 0.0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
        let passages = EDGES_OF_A_CALL * calls_per_s;
        let alive: f64 = self
            .transports
            .iter()
            .zip(&by_transport)
            .map(|(transport, load)| transport.keep_alive_bytes * load.keep_alives_per_s)
            .sum();
        let call_bytes = costs.call_wire_bytes;
        let register_bytes = costs.register_wire_bytes;
        Load {
            users,
            calls_per_s,
            open_calls,
            registers_per_s,
            changes_per_s,
            connections,
            edge_cores: keep_alive_cores
                + (passages * costs.edge_call_us + registers_per_s * costs.edge_register_us) / 1e6,
            edge_bytes: connection_bytes + EDGES_OF_A_CALL * open_calls * costs.call_bytes,
            registrar_cores: (calls_per_s * costs.registrar_call_us
                + registers_per_s * costs.registrar_register_us)
                / 1e6,
            registrar_bytes: users * costs.cached_bytes + open_calls * costs.call_bytes,
            look_ups_per_s: registers_per_s + calls_per_s,
            access_bits_per_s: 8.0
                * (passages * call_bytes + registers_per_s * register_bytes + alive),
            link_bits_per_s: ENDS_OF_A_LINK
                * 8.0
                * (calls_per_s * demand.between_sites * call_bytes
                    + registers_per_s * demand.away * register_bytes),
            by_transport,
        }
    }

    fn by_transport(&self, users: f64) -> Vec<TransportLoad> {
        let load = |transport: &super::design::Transport| {
            let phones = transport.share * users;
            let keep_alives_per_s = phones / transport.keep_alive_every_s;
            TransportLoad {
                name: transport.name.clone(),
                phones,
                registers_per_s: phones / transport.register_every_s,
                keep_alives_per_s,
                keep_alive_cores: keep_alives_per_s * transport.keep_alive_us / 1e6,
            }
        };
        self.transports.iter().map(load).collect()
    }
}

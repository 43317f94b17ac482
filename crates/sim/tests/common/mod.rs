use std::time::Duration;

use balance::Policy;
use load::{Law, Retransmission, ServerConfig, Service, Stream};
use node::config::Pool;
use sim::{Calls, Link, ServerSetup, Setup, server_address};

pub(crate) fn s(s: u64) -> Duration {
    Duration::from_secs(s)
}

/// Four quick servers behind one edge, 50 calls/s of a few seconds.
pub(crate) fn setup() -> Setup {
    let server = ServerSetup {
        config: ServerConfig {
            service: Service {
                invite: Law::Exponential(Duration::from_millis(2)),
                bye: Law::Exponential(Duration::from_millis(1)),
                other: Law::ZERO,
            },
            ..ServerConfig::prompt(server_address(0))
        },
        speed: 1.0,
        capacity: 1.0,
        is_spare: false,
    };
    Setup {
        edges: 1,
        edge_capacity: None,
        second: None,
        workers: 1,
        pool: Pool {
            name: "app".to_owned(),
            policy: Policy::Tlwl,
            costs: vec![("INVITE".to_owned(), 1.75)],
            learn_costs: false,
            servers: Vec::new(),
            probe: None,
            slow_start: Duration::ZERO,
            answer_timeout: s(1),
            overload_control: false,
            learn_room: true,
        },
        servers: vec![server; 4],
        exchange: None,
        calls: Calls {
            rate: 50.0,
            stream: Stream::Poisson,
            holding: Law::Normal {
                mean: s(4),
                deviation: s(2),
            },
            retransmission: Retransmission::Rfc3261,
        },
        link: Link::clean(Duration::from_millis(1)),
    }
}

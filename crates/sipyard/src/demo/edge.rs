//! The demo's edge: a node on embedded defaults, between the callers and the servers.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use balance::Policy;
use net::{Clock, Workers};
use node::{
    Shared,
    config::{Config, Limits, Listener, Pool, PoolServer, Probe, Route, Timers},
};

/// A running edge balancer. Dropped, it stops.
#[derive(Debug)]
pub(super) struct Edge {
    shared: Arc<Shared>,
    _workers: Workers,
    clock: Clock,
    address: SocketAddr,
}

impl Edge {
    /// Starts it on a free port of the loopback address.
    pub(super) fn start(servers: &[SocketAddr], policy: Policy, clock: Clock) -> io::Result<Self> {
        // The address stands in Via and Record-Route, so it must be known before the node starts.
        let address = traffic::bind()?.local_addr();
        let config = config(address, servers, policy);
        let shared = Arc::new(Shared::new(config, 1).map_err(io::Error::other)?);
        let workers = Workers::start(&shared, clock).map_err(io::Error::other)?;
        Ok(Self {
            shared,
            _workers: workers,
            clock,
            address,
        })
    }

    /// Where it takes calls.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Configuration, servers and counters.
    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Reloads the configuration with another policy, as an operator would.
    pub(super) fn set_policy(&self, policy: Policy) {
        let mut config = self.shared.snapshot().config().clone();
        for pool in &mut config.pools {
            pool.policy = policy;
        }
        self.shared
            .reload(config, self.clock.now())
            .expect("a policy may change while the node runs");
    }
}

fn config(address: SocketAddr, servers: &[SocketAddr], policy: Policy) -> Config {
    let secret: Vec<u8> = (0..4).flat_map(|_| net::seed().to_ne_bytes()).collect();
    Config {
        name: "demo".to_owned(),
        secret: secret.into(),
        listeners: vec![Listener {
            address,
            advertise: address.to_string(),
        }],
        pools: vec![pool(servers, policy)],
        routes: vec![Route {
            methods: Vec::new(),
            hosts: Vec::new(),
            to: "app".to_owned(),
        }],
        limits: Limits {
            sessions: 100_000,
            transactions: 65_536,
            retained_requests: 4_096,
            message_bytes: 16_384,
            headers: 128,
            handover_queue: 1_024,
        },
        timers: Timers {
            t1: Duration::from_millis(500),
            timer_c: Duration::from_secs(181),
            call_max: Duration::from_secs(43_200),
            drain: Duration::from_secs(10),
        },
    }
}

/// A stall is to be seen as what it is, a long response time: the pool waits so long that it takes
/// no stalled server for a dead one.
fn pool(servers: &[SocketAddr], policy: Policy) -> Pool {
    let server = |&address: &SocketAddr| PoolServer {
        address,
        capacity: 1.0,
    };
    Pool {
        name: "app".to_owned(),
        policy,
        costs: vec![("INVITE".to_owned(), 1.75), ("BYE".to_owned(), 1.0)],
        servers: servers.iter().map(server).collect(),
        probe: Some(Probe {
            interval: Duration::from_secs(5),
            timeout: Duration::from_secs(5),
            fall: 2,
            rise: 2,
        }),
        slow_start: Duration::from_secs(5),
        answer_timeout: Duration::from_secs(8),
    }
}

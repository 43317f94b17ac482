//! The demo's edge: a node on embedded defaults, between the callers and the servers.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::Arc,
    time::Duration,
};

use admin_client::default_socket;
use balance::Policy;
use net::{Security, Workers};
use node::{
    Shared, Transport,
    config::{Config, Destination, Limits, Listener, Mode, Pool, PoolServer, Probe, Route, Timers},
};
use settings::Place;
use socket::Clock;
use tokio::net::TcpListener;

use crate::{
    admin,
    calls::{self, Kept},
    config::{Admin, AdminPlaces, Configuration, DEFAULT_CALLS, Dns},
    dashboard::keeper,
    members::Members,
    resolver::Resolver,
    serve::{Control, UnixSocket},
};

/// The path that the admin API would reload the configuration from.
const EMBEDDED: &str = "the demo's embedded configuration";

/// A running edge balancer. It stops when it is dropped.
pub(super) struct Edge {
    control: Arc<Control>,
    address: SocketAddr,
    socket: UnixSocket,
}

impl Edge {
    /// Starts the edge and its admin API on free ports of the loopback address. The admin API runs
    /// on the caller's runtime.
    pub(super) async fn start(
        servers: &[SocketAddr],
        policy: Policy,
        clock: Clock,
    ) -> io::Result<Self> {
        // The address stands in Via and Record-Route, so it must be known before the node starts.
        let address = traffic::bind(traffic::LOOPBACK)?.local_addr();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let admin = listener.local_addr()?;
        let socket = UnixSocket::bind(&default_socket(admin.port())).map_err(io::Error::other)?;
        let configuration = Configuration {
            node: config(address, servers, policy),
            workers: 1,
            drain_calls: Duration::ZERO,
            admin: Admin {
                address: admin,
                socket: socket.path().to_owned(),
                tokens: Vec::new(),
                tls: None,
            },
            sources: Vec::new(),
            dns: Dns::default(),
            cluster: None,
            registrar: None,
            calls: Kept {
                latest: Some(DEFAULT_CALLS),
                records: None,
                traces: None,
            },
            nftables: None,
            security: Security::default(),
            has_unused_tls: false,
            listener_places: Vec::new(),
            admin_places: AdminPlaces {
                address: Place::file(Path::new(EMBEDDED)),
                socket: Place::file(Path::new(EMBEDDED)),
            },
        };
        let shared = Shared::new(configuration.node.clone(), configuration.workers);
        let shared = Arc::new(shared.map_err(io::Error::other)?);
        let workers = Workers::start(&shared, clock, None, configuration.security.clone())
            .map_err(io::Error::other)?;
        let control = Control::new(
            EMBEDDED.into(),
            &configuration,
            shared,
            Members::new(
                &configuration,
                Arc::new(Resolver::new(Dns::default())),
                clock,
            )?,
            None,
            workers,
            clock,
        );
        let control = Arc::new(control);
        admin::spawn(&control, listener, socket.listener()?);
        tokio::spawn(calls::watch::run(Arc::clone(&control)));
        tokio::spawn(keeper::run(Arc::clone(&control)));
        Ok(Self {
            control,
            address,
            socket,
        })
    }

    /// The address at which it takes calls.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The Unix socket of its admin API.
    pub(super) fn admin(&self) -> &Path {
        self.socket.path()
    }

    /// The configuration, the servers and the counters.
    pub(super) fn shared(&self) -> &Shared {
        self.control.shared()
    }

    /// Reloads the configuration with another policy, as an operator would.
    pub(super) fn set_policy(&self, policy: Policy) {
        let mut config = self.shared().snapshot().config().clone();
        for pool in &mut config.pools {
            pool.policy = policy;
        }
        self.shared()
            .reload(config, self.control.now())
            .expect("a policy may change while the node runs");
    }
}

fn config(address: SocketAddr, servers: &[SocketAddr], policy: Policy) -> Config {
    let secret: Vec<u8> = (0..4).flat_map(|_| socket::seed().to_ne_bytes()).collect();
    Config {
        name: "demo".to_owned(),
        secret: secret.into(),
        accepted_secret: None,
        listeners: vec![Listener {
            transport: Transport::Udp,
            address,
            advertise: address.to_string(),
        }],
        pools: vec![pool(servers, policy)],
        routes: vec![Route::of_all(
            Destination::Pool("app".to_owned()),
            Mode::Stateless,
        )],
        limits: Limits {
            sessions: 100_000,
            transactions: 65_536,
            held_transactions: 65_536,
            registrations: 1_000,
            retained_requests: 32_768,
            message_bytes: 16_384,
            headers: 128,
            handover_queue: 1_024,
            strangers: 1_024,
        },
        timers: Timers {
            t1: Duration::from_millis(500),
            timer_c: Duration::from_secs(181),
            call_max: Duration::from_secs(43_200),
            drain: Duration::from_secs(10),
        },
        exchange: Default::default(),
        trust: Default::default(),
        connections: Default::default(),
        abuse: Default::default(),
        registrar: None,
    }
}

/// Makes a pool with long timeouts, so that it does not take a stalled server for a dead one. A
/// stall must show as a long response time.
fn pool(servers: &[SocketAddr], policy: Policy) -> Pool {
    let server = |&address: &SocketAddr| PoolServer {
        transport: Transport::Udp,
        address,
        host: None,
        capacity: 1.0,
        cluster: None,
        priority: 0,
    };
    Pool {
        name: "app".to_owned(),
        policy,
        costs: vec![("INVITE".to_owned(), 1.75), ("BYE".to_owned(), 1.0)],
        learn_costs: false,
        servers: servers.iter().map(server).collect(),
        probe: Some(Probe {
            interval: Duration::from_secs(5),
            timeout: Duration::from_secs(5),
            fall: 2,
            rise: 2,
        }),
        slow_start: Duration::from_secs(5),
        answer_timeout: Duration::from_secs(8),
        overload_control: false,
        learn_room: true,
    }
}

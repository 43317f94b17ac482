//! What the node is told, the same for all architectures.

use std::{net::SocketAddr, time::Duration};

use clap::ValueEnum;
use node::{
    Config, Transport,
    config::{
        Destination, Limits, Listener, Mode as State, Pool, PoolServer, Registrar, Route, Timers,
        WhenFull,
    },
};

/// Longer than any message of a call.
pub(crate) const MESSAGE_BYTES: usize = 16_384;

/// What the node does.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Mode {
    /// It passes requests on and remembers none.
    Stateless,
    /// It holds transactions.
    Stateful,
    /// It takes REGISTERs.
    Registrar,
}

/// A node with one listener: the proxy before these servers, or a registrar without passwords.
pub(crate) fn config(mode: Mode, listen: SocketAddr, servers: &[SocketAddr]) -> Config {
    let to_servers = || Destination::Pool("servers".to_owned());
    let route = match mode {
        Mode::Stateless => Route::of_all(to_servers(), State::Stateless),
        Mode::Stateful => Route::of_all(to_servers(), State::Stateful),
        Mode::Registrar => Route::of_all(Destination::Registrar, State::Stateful),
    };
    Config {
        name: "architectures".to_owned(),
        secret: b"a secret for benchmarks, of no use elsewhere"
            .to_vec()
            .into(),
        accepted_secret: None,
        listeners: vec![Listener {
            transport: Transport::Udp,
            address: listen,
            advertise: listen.to_string(),
        }],
        pools: vec![pool(servers)],
        registrar: Some(registrar()),
        routes: vec![route],
        limits: limits(),
        connections: Default::default(),
        timers: Timers {
            t1: Duration::from_millis(500),
            timer_c: Duration::from_secs(181),
            call_max: Duration::from_secs(12 * 3600),
            drain: Duration::from_secs(10),
        },
        exchange: Default::default(),
        trust: Default::default(),
        abuse: Default::default(),
    }
}

fn pool(servers: &[SocketAddr]) -> Pool {
    let server = |&address| PoolServer {
        transport: Transport::Udp,
        address,
        host: None,
        capacity: 1.0,
        cluster: None,
        priority: 0,
    };
    Pool {
        name: "servers".to_owned(),
        policy: "tlwl".parse().expect("it is a policy"),
        costs: vec![("INVITE".to_owned(), 1.75)],
        learn_costs: false,
        servers: servers.iter().map(server).collect(),
        probe: None,
        slow_start: Duration::ZERO,
        answer_timeout: Duration::from_secs(3),
        overload_control: false,
        learn_room: false,
    }
}

fn registrar() -> Registrar {
    let hour = Duration::from_secs(3600);
    Registrar {
        domains: vec!["example.com".to_owned()],
        expires_min: Duration::from_secs(60),
        expires_default: hour,
        expires_max: hour,
        contacts_max: 10,
        when_full: WhenFull::ReplaceOldest,
        algorithms: Vec::new(),
        service_route: Vec::new(),
        removes_dead: false,
        keep_alive: None,
    }
}

/// Room for all that a measurement leaves behind: transactions linger for 64*T1.
fn limits() -> Limits {
    const MANY: usize = 1_000_000;
    Limits {
        sessions: MANY,
        transactions: MANY,
        held_transactions: MANY,
        registrations: 100_000,
        retained_requests: 100_000,
        message_bytes: MESSAGE_BYTES,
        headers: 128,
        handover_queue: 65_536,
        strangers: 1_024,
    }
}

//! What the tests of workers share.

#![allow(dead_code, reason = "each test uses a part of it")]

#[path = "../../src/fixtures.rs"]
mod fixtures;

use std::{
    net::SocketAddr,
    sync::{Arc, mpsc},
    time::Duration,
};

use balance::Policy;
use fixtures::config_of;
use net::{Bound, Security, StartError, Workers};
use node::{
    Config, Shared, Transport,
    config::{Connections, Destination, Listener, Mode, Pool, PoolServer, Route},
};
use socket::Clock;

/// Longer than any test waits for what is on its way.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// A listener with this transport at an address.
pub(crate) fn listener(transport: Transport, address: &str) -> Listener {
    Listener {
        transport,
        address: address.parse().unwrap(),
        advertise: format!("{}:5060", address.rsplit_once(':').unwrap().0),
    }
}

pub(crate) fn server(transport: Transport, address: SocketAddr) -> PoolServer {
    PoolServer {
        transport,
        address,
        host: None,
        capacity: 1.0,
        cluster: None,
        priority: 0,
    }
}

pub(crate) fn config(listeners: Vec<Listener>, servers: Vec<PoolServer>) -> Config {
    Config {
        pools: vec![Pool {
            name: "app".to_owned(),
            policy: Policy::Tlwl,
            costs: Vec::new(),
            learn_costs: false,
            servers,
            probe: None,
            slow_start: Duration::ZERO,
            answer_timeout: Duration::from_secs(1),
            overload_control: false,
            learn_room: true,
        }],
        routes: vec![Route::of_all(
            Destination::Pool("app".to_owned()),
            Mode::Stateless,
        )],
        // Tests that look at the first connection want it to be of a message.
        connections: Connections {
            per_server: 0,
            ..Connections::default()
        },
        ..config_of(listeners)
    }
}

pub(crate) fn start(config: Config, workers: usize) -> (Arc<Shared>, Result<Workers, StartError>) {
    let bound = |listener: &Listener| Bound {
        transport: listener.transport,
        address: listener.address,
        server: None,
        client: None,
        balancers: Vec::new(),
    };
    let security = Security::new(config.listeners.iter().map(bound).collect());
    let shared = Arc::new(Shared::new(config, workers).unwrap());
    let workers = Workers::start(&shared, Clock::start(), None, security);
    (shared, workers)
}

/// Looks again after each turn of the first worker.
pub(crate) fn wait_until(running: &Workers, condition: impl Fn() -> bool) {
    let (turned, turns) = mpsc::channel();
    let clock = Clock::start();
    while clock.now() < PATIENCE {
        if condition() {
            return;
        }
        let turned = turned.clone();
        running
            .command(0, Box::new(move |_, _, _| turned.send(()).unwrap()))
            .unwrap();
        turns.recv_timeout(PATIENCE).unwrap();
    }
    panic!("it never came true");
}

pub(crate) fn options(transport: &str, from: SocketAddr, call: usize) -> String {
    format!(
        "OPTIONS sip:service@test SIP/2.0\r\nVia: SIP/2.0/{transport} {from};branch=z9hG4bK{call}\r\n\
         Max-Forwards: 70\r\nFrom: <sip:a@test>;tag=1\r\nTo: <sip:b@test>\r\n\
         Call-ID: call-{call}\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n"
    )
}

/// Answers a request the way a server does, by its own Via, From, To, Call-ID and CSeq.
pub(crate) fn answer(request: &str) -> String {
    let kept = ["Via", "From", "To", "Call-ID", "CSeq"];
    let headers = request
        .split("\r\n")
        .skip(1)
        .take_while(|line| !line.is_empty());
    let kept = headers.filter(|line| {
        kept.iter()
            .any(|name| line.starts_with(&format!("{name}:")))
    });
    let kept: Vec<_> = kept.collect();
    format!(
        "SIP/2.0 200 OK\r\n{}\r\nContent-Length: 0\r\n\r\n",
        kept.join("\r\n")
    )
}

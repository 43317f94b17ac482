//! Sending nodes before one receiving node of limited capacity, over TCP: the scene of Shen and Schulzrinne.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod common;

use std::time::Duration;

use common::{s, setup};
use load::{
    Arrivals, CallerConfig, Failure, Law, Rate, Retransmission, ServerConfig, Stats, Stream,
};
use node::{
    Config, Transport,
    config::{Listener, Mode, PoolServer},
};
use sim::{Buffers, Conduct, Link, Machine, Pace, PartyId, World, edge_address, server_address};

/// A call has six messages at the receiving node, so it carries 1,000 calls/s.
const CAPACITY: f64 = 1000.0;
const PACE: Pace = Pace {
    read: Duration::from_micros(30),
    serve: Duration::from_micros(166),
    refuse: Duration::from_micros(80),
    filter: Duration::from_millis(15),
    buffer: 4096,
    tells_delay: true,
};

/// What is in force against an overload.
#[derive(Clone, Copy, Debug)]
struct Control {
    /// Sending nodes keep new requests back while something waits to be sent.
    forwards_smartly: bool,
    /// They learn how many requests may wait at the receiving node.
    learns_room: bool,
    /// RFC 7339.
    asks: bool,
    /// The receiving node lets new requests wait while it is behind.
    admits: bool,
    /// How the receiving node reads.
    conduct: Conduct,
}

const OFF: Control = Control {
    forwards_smartly: false,
    learns_room: false,
    asks: false,
    admits: false,
    conduct: Conduct {
        buffers: Buffers {
            send: 87_040,
            receive: 131_072,
        },
        bytes: 64 * 1024,
        tells_backlog: true,
    },
};

struct Scene {
    world: World,
    server: PartyId,
    receiver: PartyId,
    callers: Vec<PartyId>,
}

impl Scene {
    /// So many sending nodes, each with an equal part of the calls.
    fn new(senders: usize, times: f64, control: Control) -> Self {
        let mut world = World::new(7, Link::clean(Duration::from_millis(1)));
        let server = world.add_server(ServerConfig::prompt(server_address(0)));
        let receiver = receiver(senders, control);
        let machine = Machine {
            pace: Some(Pace {
                tells_delay: control.admits,
                ..PACE
            }),
            conduct: control.conduct,
            ..Machine::default()
        };
        let receiver = world.add_node("receiver", receiver, 1, machine).unwrap();
        let mut callers = Vec::new();
        for number in 1..=senders {
            let sender = sender(number, control);
            let machine = Machine {
                conduct: Conduct {
                    tells_backlog: control.forwards_smartly,
                    ..Conduct::default()
                },
                ..Machine::default()
            };
            world.add_node("sender", sender, 1, machine).unwrap();
            let [high, low] = (number as u16).to_be_bytes();
            let sockets = (0..4).map(|port| ([100, 64, high, low], 5060 + port).into());
            let rate = Rate::Constant(times * CAPACITY / senders as f64);
            let arrivals = Arrivals::Open(rate, Stream::Poisson);
            let config = CallerConfig {
                holding: Law::ZERO,
                retransmission: Retransmission::Rfc3261,
                ..CallerConfig::plain(sockets.collect(), edge_address(number), arrivals)
            };
            callers.push(world.add_caller(config));
        }
        Self {
            world,
            server,
            receiver,
            callers,
        }
    }

    fn stats(&mut self, time: Duration) -> Stats {
        let end = self.world.now() + time;
        self.world.run_until(end, &mut ());
        let mut all = Stats::default();
        for &caller in &self.callers {
            all.add(&self.world.caller_mut(caller).stats_mut().take());
        }
        all
    }
}

fn listener(transport: Transport, number: usize) -> Listener {
    let address = edge_address(number);
    Listener {
        transport,
        address,
        advertise: address.to_string(),
    }
}

/// The node that all calls pass.
fn receiver(senders: usize, control: Control) -> Config {
    let mut setup = setup();
    setup.servers.truncate(1);
    // The server seems slow behind a node that is.
    setup.pool.learn_room = false;
    let mut config = setup.node(0);
    config.routes[0].state = Mode::Stateful;
    config.limits.sessions = 1 << 20;
    config.limits.transactions = 1 << 20;
    config.limits.held_transactions = 1 << 20;
    config.listeners = vec![listener(Transport::Udp, 0), listener(Transport::Tcp, 0)];
    if control.asks {
        let number = |number| edge_address(number).ip().into();
        config.trust.peers = (1..=senders).map(number).collect();
    }
    config
}

/// A node that sends it calls of strangers.
fn sender(number: usize, control: Control) -> Config {
    let mut setup = setup();
    setup.servers.truncate(1);
    setup.pool.learn_room = control.learns_room;
    setup.pool.overload_control = control.asks;
    setup.pool.answer_timeout = s(32);
    let mut config = setup.node(number);
    config.routes[0].state = Mode::Stateful;
    config.limits.sessions = 1 << 20;
    config.limits.transactions = 1 << 20;
    config.limits.held_transactions = 1 << 20;
    config.listeners = vec![
        listener(Transport::Udp, number),
        listener(Transport::Tcp, number),
    ];
    config.pools[0].servers = vec![PoolServer {
        transport: Transport::Tcp,
        address: edge_address(0),
        ..config.pools[0].servers[0].clone()
    }];
    config
}

const SMALL: Conduct = Conduct {
    buffers: Buffers {
        send: 87_040,
        receive: 4_096,
    },
    bytes: 2_048,
    tells_backlog: true,
};

const SMART: Control = Control {
    forwards_smartly: true,
    conduct: SMALL,
    ..OFF
};

/// Share of the capacity that ten nodes at twice the capacity get carried, and answers that the server had to repeat.
fn carried(control: Control) -> (f64, u64) {
    let mut scene = Scene::new(10, 2.0, control);
    drop(scene.stats(s(10)));
    let again = |scene: &Scene| scene.world.server(scene.server).stats().retransmissions;
    let before = again(&scene);
    let stats = scene.stats(s(10));
    let carried = stats.carried as f64 / 10.0 / CAPACITY;
    (carried, again(&scene) - before)
}

#[test]
fn default_tcp_collapses() {
    let (carried, again) = carried(OFF);
    assert!(carried < 0.5, "{carried}");
    assert!(again > 0, "{again}");
}

#[test]
fn smart_forwarding_to_small_buffers_carries_the_capacity() {
    let (carried, again) = carried(SMART);
    assert!(carried > 0.95, "{carried}");
    assert_eq!(again, 0);
}

/// Each control by its name.
fn controls() -> [(&'static str, Control); 9] {
    [
        ("off", OFF),
        (
            "off, small buffers",
            Control {
                conduct: SMALL,
                ..OFF
            },
        ),
        (
            "smart, large buffers",
            Control {
                forwards_smartly: true,
                ..OFF
            },
        ),
        ("smart", SMART),
        (
            "smart+admits",
            Control {
                admits: true,
                ..SMART
            },
        ),
        (
            "room",
            Control {
                learns_room: true,
                ..OFF
            },
        ),
        (
            "smart+room",
            Control {
                learns_room: true,
                ..SMART
            },
        ),
        (
            "7339",
            Control {
                asks: true,
                admits: true,
                ..OFF
            },
        ),
        (
            "all",
            Control {
                asks: true,
                admits: true,
                learns_room: true,
                ..SMART
            },
        ),
    ]
}

/// `cargo test -p sim --test paper_002 -- --ignored --nocapture`
#[test]
#[ignore = "it prints what is carried"]
#[expect(clippy::print_stdout, reason = "it prints")]
fn goodput() {
    println!(
        "senders  control  times  goodput, %  p50, p90, p99 of the answers, ms  refused, %  200s again"
    );
    let controls = controls();
    let only = std::env::var("ONLY").unwrap_or_default();
    let list = |name: &str, usual: &str| -> Vec<f64> {
        let list = std::env::var(name).unwrap_or_else(|_| usual.to_owned());
        list.split(',').map(|it| it.parse().unwrap()).collect()
    };
    for senders in list("SENDERS", "1,3,10") {
        for (name, control) in controls {
            if !only.is_empty() && !only.split('/').any(|it| it == name) {
                continue;
            }
            for times in list("TIMES", "2,10") {
                let mut scene = Scene::new(senders as usize, times, control);
                drop(scene.stats(s(20)));
                let again = scene.world.server(scene.server).stats().retransmissions;
                let stats = scene.stats(s(20));
                let again = scene.world.server(scene.server).stats().retransmissions - again;
                let carried = stats.carried as f64 / 20.0 / CAPACITY * 100.0;
                let ms = |q| stats.answer_ns.value_at_quantile(q) as f64 / 1e6;
                let refused = stats.failed.get(&Failure::Rejected(503)).unwrap_or(&0);
                let refused = *refused as f64 / stats.offered as f64 * 100.0;
                println!(
                    "{senders:3} {name:22} {times:5}  {carried:7.1}  {:9.1} {:9.1} {:9.1}  {refused:6.1} {again:6}",
                    ms(0.5),
                    ms(0.9),
                    ms(0.99)
                );
                let _ = scene.receiver;
            }
        }
    }
}

//! Sending nodes before one receiving node of limited capacity, over TCP: the scene of Shen and Schulzrinne.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

#[path = "../common/mod.rs"]
mod common;
mod tables;

use std::time::Duration;

use common::{s, setup};
use load::{Arrivals, CallerConfig, Law, Rate, Retransmission, ServerConfig, Stats, Stream};
use node::{
    Config, Transport,
    config::{Listener, Mode, PoolServer},
};
use sim::{
    Buffers, Conduct, Link, Machine, Pace, PartyId, Quota, World, edge_address, server_address,
};

/// A call has six messages at the receiving node, so it carries 1,000 calls/s.
const CAPACITY: f64 = 1000.0;
const SERVE: Duration = Duration::from_micros(166);

/// What is in force against an overload.
#[derive(Clone, Copy, Debug)]
struct Control {
    /// Sending nodes keep new requests back while something waits to be sent.
    forwards_smartly: bool,
    /// They learn how many requests may wait at the receiving node.
    learns_room: bool,
    /// RFC 7339.
    asks: bool,
    /// How many of the sending nodes the receiving node knows; none: all. The others take no part.
    known: Option<usize>,
    /// The receiving node lets new requests wait while it is behind.
    admits: bool,
    /// How the receiving node reads.
    conduct: Conduct,
    /// How long a packet takes.
    link: Duration,
    /// What it may use of its processor, which is faster by as much: the capacity stays.
    quota: Option<Quota>,
    /// What sending nodes reach it by.
    transport: Transport,
    /// They can withhold a part, and know of no rates: RFC 7339 without RFC 7415.
    by_loss: bool,
    /// Callers come over connections, too, as in the paper.
    are_callers_connected: bool,
}

const OFF: Control = Control {
    forwards_smartly: false,
    learns_room: false,
    asks: false,
    known: None,
    admits: false,
    conduct: Conduct {
        buffers: Buffers {
            send: 87_040,
            receive: 65_536,
            unsent: usize::MAX,
        },
        read_bytes: 16 * 1024,
        tells_backlog: true,
    },
    link: Duration::from_millis(1),
    quota: None,
    transport: Transport::Tcp,
    by_loss: false,
    are_callers_connected: false,
};

struct Scene {
    world: World,
    receiver: PartyId,
    server: PartyId,
    callers: Vec<PartyId>,
}

impl Scene {
    /// So many sending nodes, each with an equal part of the calls.
    fn new(senders: usize, times: f64, control: Control) -> Self {
        Self::of(&vec![times / senders as f64; senders], control)
    }

    /// Sending nodes with calls by these multiples of the capacity.
    fn of(parts: &[f64], control: Control) -> Self {
        let senders = parts.len();
        let mut world = World::new(7, Link::clean(control.link));
        let server = world.add_server(ServerConfig::prompt(server_address(0)));
        let receiver = receiver(senders, control);
        let machine = Machine {
            pace: Some(pace(control)),
            quota: control.quota,
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
                    buffers: Buffers {
                        unsent: if control.forwards_smartly {
                            1
                        } else {
                            usize::MAX
                        },
                        ..Buffers::default()
                    },
                    ..Conduct::default()
                },
                alters: control.by_loss.then_some(offer_loss_alone),
                ..Machine::default()
            };
            world.add_node("sender", sender, 1, machine).unwrap();
            let [high, low] = (number as u16).to_be_bytes();
            let sockets = (0..4).map(|port| ([100, 64, high, low], 5060 + port).into());
            let rate = Rate::Constant(parts[number - 1] * CAPACITY);
            let arrivals = Arrivals::Open(rate, Stream::Poisson);
            let config = CallerConfig {
                holding: Law::ZERO,
                retransmission: Retransmission::Rfc3261,
                ..CallerConfig::plain(sockets.collect(), edge_address(number), arrivals)
            };
            callers.push(match control.are_callers_connected {
                true => world.add_stream_caller(never_again(config), Conduct::default()),
                false => world.add_caller(config),
            });
        }
        Self {
            world,
            receiver,
            server,
            callers,
        }
    }

    fn stats(&mut self, time: Duration) -> Stats {
        let mut all = Stats::default();
        for stats in self.stats_of_each(time) {
            all.add(&stats);
        }
        all
    }

    fn stats_of_each(&mut self, time: Duration) -> Vec<Stats> {
        let end = self.world.now() + time;
        self.world.run_until(end, &mut ());
        let callers = self.callers.iter();
        callers
            .map(|&caller| self.world.caller_mut(caller).stats_mut().take())
            .collect()
    }

    /// How often the server has repeated an answer.
    fn answers_again(&self) -> u64 {
        self.world.server(self.server).stats().retransmissions
    }
}

/// Over a connection nothing is sent again: RFC 3261 §17.1.1.2.
fn never_again(config: CallerConfig) -> CallerConfig {
    CallerConfig {
        retransmission: Retransmission::Never,
        ..config
    }
}

fn offer_loss_alone(message: &[u8]) -> Vec<u8> {
    const OFFER: &str = ";oc-algo=\"loss,rate\"";
    let text = String::from_utf8(message.to_vec()).unwrap();
    text.replace(OFFER, ";oc-algo=\"loss\"").into_bytes()
}

fn pace(control: Control) -> Pace {
    let part = |quota: Quota| quota.run.div_duration_f64(quota.period);
    let part = control.quota.map_or(1.0, part);
    Pace {
        tells_overload: control.admits,
        ..Pace::of(SERVE.mul_f64(part))
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
        let known = control.known.unwrap_or(senders);
        config.trust.peers = (1..=known).map(number).collect();
    }
    config
}

/// A node that sends it calls of strangers.
fn sender(number: usize, control: Control) -> Config {
    let mut setup = setup();
    setup.servers.truncate(1);
    setup.pool.learn_room = control.learns_room;
    setup.pool.overload_control = control.asks && control.known.is_none_or(|it| number <= it);
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
        transport: control.transport,
        address: edge_address(0),
        ..config.pools[0].servers[0].clone()
    }];
    config
}

const SMALL: Conduct = Conduct {
    buffers: Buffers {
        send: 87_040,
        receive: 4_096,
        unsent: 1,
    },
    read_bytes: 2_048,
    tells_backlog: true,
};

const SMART: Control = Control {
    forwards_smartly: true,
    conduct: SMALL,
    ..OFF
};

/// 4 ms in 40: Linux looks every 4 ms whether a quota is used up, so one of 1 ms in 10 has this effect.
const HELD: Quota = Quota {
    run: Duration::from_millis(4),
    period: Duration::from_millis(40),
};

/// What sending nodes get carried with calls by this multiple of the capacity: the share of the capacity, the p99 of
/// answers in ms, and answers that the server had to repeat.
fn carried(senders: usize, times: f64, control: Control) -> (f64, f64, u64) {
    let mut scene = Scene::new(senders, times, control);
    drop(scene.stats(s(5)));
    let before = scene.answers_again();
    let stats = scene.stats(s(5));
    let carried = stats.carried as f64 / 5.0 / CAPACITY;
    let p99 = stats.answer_ns.value_at_quantile(0.99) as f64 / 1e6;
    (carried, p99, scene.answers_again() - before)
}

#[test]
fn default_tcp_collapses() {
    let (carried, _, again) = carried(10, 2.0, OFF);
    assert!(carried < 0.5, "{carried}");
    assert!(again > 0, "{again}");
}

#[test]
fn smart_forwarding_to_small_buffers_carries_the_capacity() {
    let (carried, _, again) = carried(10, 2.0, SMART);
    assert!(carried > 0.95, "{carried}");
    assert_eq!(again, 0);
}

/// With little room at the receiving node, a sending node was refused all that came while that node stood still: of half
/// its capacity it carried a part.
#[test]
fn small_buffers_starve_a_node_whose_senders_are_far() {
    let far = Control {
        link: Duration::from_millis(10),
        ..SMART
    };
    let (small, ..) = carried(1, 0.5, far);
    assert!(small < 0.4, "{small}");
    let (large, ..) = carried(
        1,
        0.5,
        Control {
            link: far.link,
            ..NODE
        },
    );
    assert!(large > 0.45, "{large}");
}

#[test]
fn nodes_carry_the_capacity_whether_the_receiver_is_slow_or_stands_still() {
    for quota in [None, Some(HELD)] {
        for (senders, times) in [(1, 0.9), (1, 10.0), (10, 2.0)] {
            let (carried, p99, again) = carried(senders, times, Control { quota, ..NODE });
            let what = format!("{senders} senders, {times} x, {quota:?}: {carried}, {p99} ms");
            assert!(carried > 0.95 * times.min(1.0), "{what}");
            assert!(p99 < 200.0, "{what}");
            assert_eq!(again, 0, "{what}");
        }
    }
}

/// Sending nodes that obey a rate (RFC 7415) did not: a receiving node knew them by the ports of their connections when it
/// counted, and by those of their Vias when it told them, so most answers told nothing and ended the rate. It dropped what
/// was too much, and the sending nodes waited for that until Timer B.
#[test]
fn rates_are_obeyed_over_streams() {
    let asks = Control { asks: true, ..NODE };
    for (senders, times) in [(1, 2.0), (1, 10.0), (10, 2.0), (10, 10.0)] {
        let (carried, p99, again) = carried(senders, times, asks);
        let what = format!("{senders} senders, {times} x: {carried}, {p99} ms");
        assert!(carried > 0.95, "{what}");
        assert!(p99 < if senders == 1 { 60.0 } else { 200.0 }, "{what}");
        assert_eq!(again, 0, "{what}");
    }
}

/// The node read from all connections by turns. So a neighbour's had the eleventh part of its time while ten strangers
/// sent too much, and the neighbour did not get carried what it sent.
#[test]
fn strangers_leave_neighbours_half_of_the_node() {
    let control = Control {
        asks: true,
        known: Some(1),
        ..NODE
    };
    for of_neighbour in [0.09, 0.4] {
        let mut scene = Scene::of(&[&[of_neighbour][..], &[1.0; 10]].concat(), control);
        drop(scene.stats_of_each(s(5)));
        let stats = scene.stats_of_each(s(5));
        let carried = |stats: &Stats| stats.carried as f64 / 5.0 / CAPACITY;
        let (neighbour, all) = (carried(&stats[0]), stats.iter().map(carried).sum::<f64>());
        assert!(neighbour > 0.95 * of_neighbour, "{neighbour} of {all}");
        assert!(all > 0.95, "{all}");
    }
}

/// What nodes do: sending nodes keep new requests back, and receiving nodes read what has come.
const NODE: Control = Control {
    forwards_smartly: true,
    learns_room: true,
    admits: true,
    ..OFF
};

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
use sim::{
    Buffers, Conduct, Event, Link, Machine, Pace, PartyId, Quota, Watch, What, World, edge_address,
    server_address,
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
    /// INVITEs that begin calls have a connection of their own: the paper's explicit split.
    is_split: bool,
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
    is_split: false,
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
    if control.is_split {
        // Record-Route names the other address: there goes what belongs to calls.
        let mut of_calls = listener(Transport::Tcp, 0);
        of_calls.address.set_port(of_calls.address.port() + 1);
        of_calls.advertise = of_calls.address.to_string();
        config.listeners[1]
            .advertise
            .clone_from(&of_calls.advertise);
        config.listeners.push(of_calls);
    }
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

/// Each control by its name.
fn controls() -> [(&'static str, Control); 10] {
    let asks = |control| Control {
        asks: true,
        admits: true,
        ..control
    };
    let explicit = |control| Control {
        is_split: true,
        ..control
    };
    let room = Control {
        learns_room: true,
        ..OFF
    };
    let smart = Control {
        forwards_smartly: true,
        ..OFF
    };
    let by_loss = Control {
        by_loss: true,
        ..asks(NODE)
    };
    [
        ("off", OFF),
        ("paper", SMART),
        ("paper, explicit", explicit(SMART)),
        ("room", room),
        ("smart", smart),
        ("node", NODE),
        ("node, explicit", explicit(NODE)),
        ("7339", asks(OFF)),
        ("node+7339", asks(NODE)),
        ("node+loss", by_loss),
    ]
}

fn list(name: &str, usual: &str) -> Vec<f64> {
    let list = std::env::var(name).unwrap_or_else(|_| usual.to_owned());
    list.split(',').map(|it| it.parse().unwrap()).collect()
}

fn chosen() -> Vec<(&'static str, Control)> {
    let only = std::env::var("ONLY").unwrap_or_default();
    let is_chosen = |name: &str| only.is_empty() || only.split('/').any(|it| it == name);
    let controls = controls().into_iter();
    let chosen = controls.filter(|(name, _)| is_chosen(name));
    let (quota, link) = (quota(), s(1).mul_f64(list("LINK", "1")[0] / 1e3));
    let transport = match std::env::var("TRANSPORT").as_deref() {
        Ok("udp") => Transport::Udp,
        _ => Transport::Tcp,
    };
    let held = |control| Control {
        quota,
        link,
        transport,
        ..control
    };
    chosen
        .map(|(name, control)| (name, held(control)))
        .collect()
}

/// `QUOTA=1,10`: 1 ms in each 10 ms.
fn quota() -> Option<Quota> {
    match list("QUOTA", "0,0")[..] {
        [run, period] if run > 0.0 => Some(Quota {
            run: s(1).mul_f64(run / 1e3),
            period: s(1).mul_f64(period / 1e3),
        }),
        _ => None,
    }
}

#[expect(clippy::print_stdout, reason = "it prints")]
fn print(row: &str, time: Duration, stats: &Stats, repeated: u64) {
    let carried = stats.carried as f64 / time.as_secs_f64() / CAPACITY * 100.0;
    let ms = |q| stats.answer_ns.value_at_quantile(q) as f64 / 1e6;
    let refused = stats.failed.get(&Failure::Rejected(503)).unwrap_or(&0);
    let refused = *refused as f64 / stats.offered.max(1) as f64 * 100.0;
    println!(
        "| {row} | {carried:.1} | {:.1} | {:.1} | {:.1} | {refused:.1} | {repeated} |",
        ms(0.5),
        ms(0.95),
        ms(0.99)
    );
}

/// `cargo test -p sim --test paper_002 goodput -- --ignored --nocapture`
#[test]
#[ignore = "it prints what is carried"]
fn goodput() {
    let seconds = list("SECONDS", "10,10");
    let (before, time) = (s(seconds[0] as u64), s(seconds[1] as u64));
    for senders in list("SENDERS", "1,3,10") {
        for (name, control) in chosen() {
            for times in list("TIMES", "2,10") {
                let mut scene = Scene::new(senders as usize, times, control);
                drop(scene.stats(before));
                let repeated = scene.answers_again();
                let stats = scene.stats(time);
                let row = format!("{senders} | {name} | {times}");
                print(&row, time, &stats, scene.answers_again() - repeated);
            }
        }
    }
}

/// Three sending nodes with calls by 3:2:1.
#[test]
#[ignore = "it prints what each gets"]
fn unequal() {
    for (name, control) in chosen() {
        for times in list("TIMES", "1.5,2,10") {
            let parts = [3.0, 2.0, 1.0].map(|part| part * times / 6.0);
            let mut scene = Scene::of(&parts, control);
            drop(scene.stats(s(10)));
            for (part, stats) in parts.iter().zip(scene.stats_of_each(s(10))) {
                let row = format!("3:2:1 | {name} | {times}, of which {part:.2}");
                print(&row, s(10), &stats, scene.answers_again());
            }
        }
    }
}

/// The paper's Figures 23 to 27, 34 and 35: smart forwarding to a receiving node with other buffers, in bytes.
#[test]
#[ignore = "it prints what is carried"]
fn buffers() {
    for senders in list("SENDERS", "10") {
        for receive in list("RECEIVE", "2048,4096,16384,65536") {
            for read in list("READ", "2048,65536") {
                let mut control = SMART;
                control.conduct.buffers.receive = receive as usize;
                control.conduct.read_bytes = read as usize;
                for times in list("TIMES", "2.5,12.5") {
                    let mut scene = Scene::new(senders as usize, times, control);
                    drop(scene.stats(s(10)));
                    let repeated = scene.answers_again();
                    let stats = scene.stats(s(10));
                    let row = format!("{receive} | {read} | {times}");
                    print(&row, s(10), &stats, scene.answers_again() - repeated);
                }
            }
        }
    }
}

/// Half the capacity, ten times as much, and half of it again.
#[test]
#[ignore = "it prints each second"]
fn step() {
    for (name, control) in chosen() {
        for senders in list("SENDERS", "10") {
            let mut scene = Scene::new(senders as usize, 0.5, control);
            drop(scene.stats(s(5)));
            for second in 0..20 {
                let times = if (5..12).contains(&second) { 10.0 } else { 0.5 };
                let rate = Rate::Constant(times * CAPACITY / senders);
                let (now, arrivals) = (scene.world.now(), Arrivals::Open(rate, Stream::Poisson));
                for &caller in scene.callers.iter().filter(|_| matches!(second, 5 | 12)) {
                    scene.world.caller_mut(caller).set_arrivals(now, arrivals);
                }
                let repeated = scene.answers_again();
                let stats = scene.stats(s(1));
                let row = format!("{senders} | {name}, second {second} | {times}");
                print(&row, s(1), &stats, scene.answers_again() - repeated);
            }
        }
    }
}

/// The capacity halves while one and a half times of it is offered, and is whole again.
#[test]
#[ignore = "it prints each second"]
fn halved() {
    for (name, control) in chosen() {
        for senders in list("SENDERS", "1,10,100") {
            let mut scene = Scene::new(senders as usize, 1.5, control);
            drop(scene.stats(s(5)));
            for second in 5..25 {
                let speed = if (5..13).contains(&second) { 0.5 } else { 1.0 };
                scene.world.edge_mut(scene.receiver).set_speed(speed);
                let repeated = scene.answers_again();
                let stats = scene.stats(s(1));
                let row = format!("{senders} | {name}, second {second} | of {speed}");
                print(&row, s(1), &stats, scene.answers_again() - repeated);
            }
        }
    }
}

/// Messages that the server got from the receiving node, and that it sent, in the order of [`KINDS`].
struct Messages {
    server: PartyId,
    counts: [u64; KINDS.len()],
}

const KINDS: [(What, &[u8]); 4] = [
    (What::Arrived, b"INVITE "),
    (What::Arrived, b"ACK "),
    (What::Arrived, b"BYE "),
    (What::Sent, b"SIP/2.0 200 "),
];

impl Watch for Messages {
    fn see(&mut self, event: &Event<'_>) {
        if event.sender != self.server && event.receiver != Some(self.server) {
            return;
        }
        for ((what, start), count) in KINDS.iter().zip(&mut self.counts) {
            *count += u64::from(event.what == *what && event.bytes.starts_with(start));
        }
    }
}

/// The paper's Figures 6 and 7: `TIMES=2.5 cargo test -p sim --test paper_002 traces -- --ignored --nocapture`
#[test]
#[ignore = "it prints each second"]
#[expect(clippy::print_stdout, reason = "it prints")]
fn traces() {
    for (name, control) in chosen() {
        let control = Control {
            are_callers_connected: true,
            ..control
        };
        let mut scene = Scene::new(1, list("TIMES", "2.5")[0], control);
        for second in 1..=list("SECONDS", "110")[0] as u64 {
            let mut messages = Messages {
                server: scene.server,
                counts: [0; KINDS.len()],
            };
            let before = scene.answers_again();
            scene.world.run_until(s(second), &mut messages);
            let caller = scene.world.caller_mut(scene.callers[0]).stats_mut().take();
            let [invites, acks, byes, answers] = messages.counts;
            let active = scene.world.edge(scene.receiver).shared().workers()[0].sessions_active();
            println!(
                "{name} | {second} | {invites} | {acks} | {byes} | {answers} | {} | {active} | {}",
                scene.answers_again() - before,
                caller.carried
            );
        }
    }
}

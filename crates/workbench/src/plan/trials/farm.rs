//! The farms whose response times are predicted.

use std::time::Duration;

use balance::Policy;
use load::{
    Accounts, CallerConfig, Habits, Law, PhonesConfig, Rate, Retransmission, ServerConfig, Service,
    Stats, Stream, Turns,
};
use node::config::{Config, Destination, Mode, Pool, Registrar, Route, WhenFull};
use sim::{
    Calls, Capacity, Cluster, Death, Duty, Link, Machine, PartyId, Second, ServerSetup, Setup,
    Store, World, edge_address, server_address,
};

use super::tap::Taps;

/// Before anything is measured.
const WARM_UP: Duration = Duration::from_secs(5);
/// From a phone's 180 to its 200, and from the answer to the BYE.
const RINGING: Duration = Duration::from_secs(1);
/// A phone that nobody answers.
const UNANSWERED: Duration = Duration::from_secs(60);

/// What was measured.
#[derive(Debug)]
pub(super) struct Seen {
    /// Of a call's or a registration's requests, without ringing and talking.
    pub(super) response_ms: f64,
    /// Processors of the model, and how busy they were.
    pub(super) busy: Vec<(String, f64)>,
}

fn ms(ms: f64) -> Duration {
    Duration::from_secs_f64(ms / 1e3)
}

/// A processor that takes so long for each message, and loses none.
fn each_message(takes_ms: f64) -> Option<Capacity> {
    Some(Capacity {
        per_s: 1e3 / takes_ms,
        messages: 1.0,
        waiting_max: 100_000,
        waiting_max_of_new: 100_000,
    })
}

fn phone(number: usize, service: Service, ringing: Duration) -> ServerSetup {
    ServerSetup {
        config: ServerConfig {
            service,
            ringing: Law::Constant(ringing),
            ..ServerConfig::prompt(server_address(number))
        },
        speed: 1.0,
        capacity: 1.0,
        is_spare: false,
    }
}

fn setup(edges: usize, rate: f64, servers: Vec<ServerSetup>) -> Setup {
    Setup {
        edges,
        edge_capacity: None,
        second: None,
        workers: 1,
        pool: Pool {
            name: "app".to_owned(),
            policy: Policy::UserHash,
            costs: Vec::new(),
            learn_costs: false,
            servers: Vec::new(),
            probe: None,
            slow_start: Duration::ZERO,
            answer_timeout: Duration::from_secs(32),
            overload_control: false,
            learn_room: false,
        },
        servers,
        exchange: None,
        calls: Calls {
            rate,
            stream: Stream::Poisson,
            holding: Law::Constant(RINGING),
            retransmission: Retransmission::Rfc3261,
        },
        link: Link::clean(ms(0.01)),
    }
}

/// Runs until so many calls or registrations should have come, and returns what was measured after the warm-up.
fn measured(
    world: &mut World,
    rate: f64,
    number: u32,
    watch: &mut impl sim::Watch,
    stats: impl Fn(&mut World) -> Stats,
    busy: impl Fn(&World) -> Vec<(String, Duration)>,
) -> (Stats, Vec<(String, f64)>) {
    world.run_until(world.now() + WARM_UP, watch);
    let _ = stats(world);
    let before = busy(world);
    let lasting = Duration::from_secs_f64(f64::from(number) / rate);
    world.run_until(world.now() + lasting, watch);
    let shares = busy(world).into_iter().zip(before);
    let shares = shares
        .map(|((name, after), (_, before))| (name, (after - before).div_duration_f64(lasting)));
    let shares = shares.collect();
    (stats(world), shares)
}

fn of_callers(callers: Vec<PartyId>) -> impl Fn(&mut World) -> Stats {
    move |world| {
        let mut all = Stats::default();
        for &caller in &callers {
            all.add(&world.caller_mut(caller).stats_mut().take());
        }
        all
    }
}

/// A call's INVITE and BYE, without the ringing.
fn response_ms(stats: &Stats, ringing: Duration) -> f64 {
    assert_eq!(stats.failures(), 0, "{stats:?}");
    let ringing_ms = 1e3 * ringing.as_secs_f64();
    (stats.answer_ns.mean() + stats.bye_ns.mean()) / 1e6 - ringing_ms
}

/// One user's three phones behind a proxy that takes 0.4 ms for a message. Each phone works 6 ms on an INVITE.
pub(super) fn forking_proxy(rate: f64, number: u32) -> (Seen, Taps) {
    let exponential = |takes_ms| Law::Exponential(ms(takes_ms));
    let service = Service {
        invite: exponential(6.0),
        bye: exponential(2.0),
        other: Law::ZERO,
    };
    let setup = setup(1, rate, Vec::new());
    let mut world = World::new(1, setup.link);
    let ringing = [RINGING, UNANSWERED, UNANSWERED].into_iter().enumerate();
    let phones: Vec<PartyId> = ringing
        .map(|(number, ringing)| world.add_server(phone(number, service, ringing).config))
        .collect();
    let machine = Machine {
        capacity: each_message(0.4),
        ..Machine::default()
    };
    let proxy = world
        .add_node("proxy", registrar(&setup), 1, machine)
        .unwrap();
    for phone in 0..3_u8 {
        world.add_phones(PhonesConfig {
            sockets: vec![([10, 5, 0, phone], 5060).into()],
            contacts: vec![server_address(phone.into())],
            accounts: Accounts::open(1),
            ..registering(100.0)
        });
    }
    world.run_until(Duration::from_secs(1), &mut ());
    let caller = world.add_caller(CallerConfig {
        users: 1,
        ..setup.caller(0)
    });
    let tapped = [caller, proxy].into_iter().chain(phones.iter().copied());
    let mut taps = Taps::new(tapped);
    let busy = move |world: &World| {
        let names = ["Pserver", "Pserver_2", "Pserver_3"].map(str::to_owned);
        let phones = phones.iter().map(|&it| world.server(it).busy());
        let proxy = ("Pbalancer".to_owned(), world.edge(proxy).busy());
        let all = std::iter::once(proxy).chain(names.into_iter().zip(phones));
        all.collect()
    };
    let stats = of_callers(vec![caller]);
    let (stats, busy) = measured(&mut world, rate, number, &mut taps, stats, busy);
    let seen = Seen {
        response_ms: response_ms(&stats, RINGING),
        busy,
    };
    (seen, taps)
}

/// The setup's first edge as a registrar and the proxy of its users.
fn registrar(setup: &Setup) -> Config {
    let mut config = setup.node(0);
    config.limits.registrations = 10_000;
    config.limits.held_transactions = 1 << 20;
    config.routes = vec![Route::of_all(Destination::Registrar, Mode::Stateful)];
    config.pools = Vec::new();
    config.registrar = Some(Registrar {
        domains: vec!["example.com".to_owned()],
        expires_min: Duration::from_secs(60),
        expires_default: Duration::from_secs(3_600),
        expires_max: Duration::from_secs(7_200),
        contacts_max: 10,
        when_full: WhenFull::Refuse,
        algorithms: Vec::new(),
        service_route: Vec::new(),
        removes_dead: true,
        keep_alive: None,
    });
    config
}

fn registering(rate: f64) -> PhonesConfig {
    PhonesConfig {
        sockets: (0..8)
            .map(|port| ([10, 5, 1, 0], 5060 + port).into())
            .collect(),
        transport: load::Transport::Udp,
        contacts: vec![server_address(0)],
        registrar: edge_address(0),
        domain: "example.com".to_owned(),
        accounts: Accounts::open(100_000),
        turns: Turns::Once,
        rate: Rate::Constant(rate),
        stream: Stream::Even,
        expires: Duration::from_secs(3_600),
        refresh: 0.9,
        retransmission: Retransmission::Rfc3261,
    }
}

/// What an edge, its two servers and their caller send, from the fifth second to the 85th. The first server's process
/// dies for 2 s, both servers' machines and then their processes die for 2 s, and a fifth of all packets is lost for 2 s.
pub(super) fn troubled_servers() -> Taps {
    let service = ServerConfig::prompt(server_address(0)).service;
    let phones = (0..2).map(|number| phone(number, service, RINGING));
    let mut setup = setup(1, 4.0, phones.collect());
    setup.pool.policy = Policy::RoundRobin;
    setup.pool.answer_timeout = Duration::from_secs(1);
    let mut world = World::new(1, setup.link);
    let servers = setup.servers.iter().map(|it| world.add_server(it.config));
    let servers: Vec<PartyId> = servers.collect();
    let edge = world.add_node("edge", setup.node(0), 1, Machine::default());
    let caller = world.add_caller(CallerConfig {
        habits: Habits {
            cancel: 0.2,
            ..Habits::default()
        },
        ..setup.caller(0)
    });
    let second = Duration::from_secs;
    world.run_until(second(5), &mut ());
    let mut taps = Taps::new([caller, edge.unwrap()].into_iter().chain(servers.clone()));
    let troubles = [
        (10, &servers[..1], Death::Process),
        (15, &servers[..], Death::Machine),
        (20, &servers[..], Death::Process),
    ];
    for (at, who, death) in troubles {
        world.run_until(second(at), &mut taps);
        who.iter().for_each(|&it| world.crash(it, death, &mut taps));
        world.run_until(second(at + 2), &mut taps);
        who.iter()
            .for_each(|&it| world.restart(it, &mut taps).unwrap());
    }
    world.run_until(second(25), &mut taps);
    world.network_mut().set_usual(Link {
        loss: 0.2,
        ..setup.link
    });
    world.run_until(second(27), &mut taps);
    world.network_mut().set_usual(setup.link);
    world.run_until(second(85), &mut taps);
    taps
}

/// Two edges that take 0.6667 ms for a message, three nodes that take 1 ms, and servers that take no time.
pub(super) fn two_stages(rate: f64, number: u32) -> Seen {
    let service = ServerConfig::prompt(server_address(0)).service;
    let phones = (0..4).map(|number| phone(number, service, Duration::ZERO));
    let mut setup = setup(2, rate, phones.collect());
    setup.edge_capacity = each_message(2.0 / 3.0);
    setup.second = Some(Second {
        nodes: 3,
        duty: Duty::Proxy,
        users: 50_000,
        is_shared: true,
        capacity: each_message(1.0),
    });
    let Cluster {
        mut world,
        nodes,
        edges,
        callers,
        ..
    } = Cluster::new(&setup, 1).unwrap();
    let busy = move |world: &World| {
        let named = |name: &'static str, ids: &[PartyId]| {
            let busy = ids.iter().map(|&id| world.edge(id).busy());
            let mean = busy.sum::<Duration>() / ids.len() as u32;
            (name.to_owned(), mean)
        };
        vec![named("edge_host_1", &edges), named("node_host_1", &nodes)]
    };
    let stats = of_callers(callers);
    let (stats, busy) = measured(&mut world, rate, number, &mut (), stats, busy);
    Seen {
        response_ms: response_ms(&stats, Duration::ZERO),
        busy,
    }
}

/// A registrar that takes 0.1 ms for a REGISTER, and whose store takes 5 ms for each of its two questions, one after
/// another.
pub(super) fn slow_store(rate: f64, number: u32) -> Seen {
    let setup = setup(1, rate, Vec::new());
    let mut world = World::new(1, setup.link);
    let store = Store::default();
    store.set_takes(ms(5.0));
    let machine = Machine {
        capacity: each_message(0.1),
        store,
        ..Machine::default()
    };
    let node = world
        .add_node("registrar", registrar(&setup), 1, machine)
        .unwrap();
    let phones = world.add_phones(PhonesConfig {
        turns: Turns::Drawn,
        stream: Stream::Poisson,
        ..registering(rate)
    });
    let busy = move |world: &World| vec![("registrar_host".to_owned(), world.edge(node).busy())];
    let stats = |world: &mut World| world.phones_mut(phones).stats_mut().take();
    let (stats, busy) = measured(&mut world, rate, number, &mut (), stats, busy);
    assert_eq!(stats.failures(), 0, "{stats:?}");
    Seen {
        response_ms: stats.register_ns.mean() / 1e6,
        busy,
    }
}

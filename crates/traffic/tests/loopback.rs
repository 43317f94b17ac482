//! Callers and servers, with nothing but the kernel in between.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]
#![allow(
    clippy::disallowed_methods,
    reason = "the test is about real time and threads"
)]

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use fastrand::Rng;
use load::{Arrivals, Caller, CallerConfig, Law, Server, ServerConfig, Service};
use socket::Clock;
use traffic::{Agent, Buffers, Endpoint, Group, LOOPBACK, bind};

const PATIENCE: Duration = Duration::from_secs(60);

fn server(service: Service, clock: Clock) -> Endpoint<Server> {
    let socket = bind(LOOPBACK).unwrap();
    let config = ServerConfig {
        service,
        ..ServerConfig::prompt(socket.local_addr())
    };
    let server = Server::new(config, Rng::with_seed(1), clock.now());
    Endpoint::new(server, vec![socket])
}

fn caller(
    server: SocketAddr,
    arrivals: Arrivals,
    calls_max: u64,
    clock: Clock,
) -> Endpoint<Caller> {
    let sockets: Vec<_> = (0..4).map(|_| bind(LOOPBACK).unwrap()).collect();
    let addresses = sockets.iter().map(|socket| socket.local_addr()).collect();
    let config = CallerConfig {
        calls_max,
        ..CallerConfig::plain(addresses, server, arrivals)
    };
    let caller = Caller::new(config, Rng::with_seed(2), clock.now());
    Endpoint::new(caller, sockets)
}

#[test]
fn calls_from_several_sockets_are_carried() {
    const CALLS: u64 = 1_000;
    let clock = Clock::start();
    let mut buffers = Buffers::new();
    let mut server = server(Service::NONE, clock);
    let window = Arrivals::Window(32);
    let mut calling = caller(server.addresses()[0], window, CALLS, clock);
    while !calling.agent().is_done() {
        assert!(clock.now() < PATIENCE, "{calling:?}");
        calling.turn(clock, &mut buffers);
        server.turn(clock, &mut buffers);
    }
    assert_eq!(calling.agent().stats().carried, CALLS);
    assert_eq!(server.agent().stats().byes, CALLS);
    assert_eq!(calling.lost() + server.lost(), 0);
}

/// Runs the group until it is done, and returns how often it had to turn.
fn run<A: Agent>(group: &mut Group<A>, clock: Clock, is_done: impl Fn(&Group<A>) -> bool) -> u64 {
    let mut turns = 0;
    while !is_done(group) {
        assert!(clock.now() < PATIENCE);
        group.turn(clock, clock.now() + Duration::from_secs(1));
        turns += 1;
    }
    turns
}

/// Two threads, each asleep while it waits for the other.
#[test]
fn a_group_sleeps_until_there_is_something_to_do() {
    const CALLS: u64 = 50;
    let clock = Clock::start();
    let service = Service {
        invite: Law::Constant(Duration::from_millis(5)),
        ..Service::NONE
    };
    let server = server(service, clock);
    let callers = caller(server.addresses()[0], Arrivals::paced(200.0), CALLS, clock);
    let mut servers = Group::new(vec![server]);
    let mut callers = Group::new(vec![callers]);
    let serving = std::thread::spawn(move || {
        let ended = |group: &Group<Server>| group.endpoints[0].agent().stats().byes == CALLS;
        run(&mut servers, clock, ended)
    });
    let began = Instant::now();
    let ended = |group: &Group<Caller>| group.endpoints[0].agent().is_done();
    let turns = run(&mut callers, clock, ended) + serving.join().unwrap();
    assert!(began.elapsed() >= Duration::from_millis(200));
    let stats = callers.endpoints[0].agent().stats();
    assert_eq!(stats.carried, CALLS);
    assert!(stats.first_response_ns.min() >= 4_900_000);
    // Eight events a call, and a wake-up for each at most.
    assert!(turns < 12 * CALLS, "{turns} turns");
}

/// A call to a closed port has an echo on each datagram.
#[test]
fn errors_of_the_network_keep_nobody_awake() {
    let clock = Clock::start();
    let nobody = bind(LOOPBACK).unwrap().local_addr();
    let caller = caller(nobody, Arrivals::Window(10), 10, clock);
    let mut group = Group::new(vec![caller]);
    let mut turns = 0;
    while clock.now() < Duration::from_millis(400) {
        group.turn(clock, Duration::from_millis(400));
        turns += 1;
    }
    assert!(turns < 100, "{turns} turns");
    assert_eq!(group.endpoints[0].agent().open_calls(), 10);
}

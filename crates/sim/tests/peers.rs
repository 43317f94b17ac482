//! Servers that tell a sending node more or less than they can take.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod common;

use std::time::Duration;

use common::{s, setup};
use load::{Arrivals, CallerConfig, Law, Rate, ServerConfig, Stream};
use node::{
    Config,
    config::{Mode, PoolServer},
};
use sim::{Alter, Link, Machine, Pace, World, edge_address, server_address};

/// Calls that each server takes in a second: a call has six messages.
const CAPACITY: f64 = 1_000.0;
const SERVE: Duration = Duration::from_micros(166);
/// So many times what both can take is offered.
const TIMES: f64 = 1.5;
const SENDER: usize = 2;

/// What each of two servers carries, of its capacity, if the second one alters what it tells.
fn carried(alters: Option<Alter>) -> [f64; 2] {
    let mut world = World::new(7, Link::clean(Duration::from_millis(1)));
    let behind =
        [0, 1].map(|number| world.add_server(ServerConfig::prompt(server_address(number))));
    for number in 0..2 {
        let machine = Machine {
            pace: Some(Pace::of(SERVE)),
            alters: alters.filter(|_| number == 1),
            ..Machine::default()
        };
        world
            .add_node("receiver", receiver(number), 1, machine)
            .unwrap();
    }
    world
        .add_node("sender", sender(), 1, Machine::default())
        .unwrap();
    let sockets = (0..4).map(|port| ([100, 64, 0, 1], 5060 + port).into());
    let arrivals = Arrivals::Open(Rate::Constant(2.0 * TIMES * CAPACITY), Stream::Poisson);
    world.add_caller(CallerConfig {
        holding: Law::ZERO,
        ..CallerConfig::plain(sockets.collect(), edge_address(SENDER), arrivals)
    });
    let mut answered = |until| {
        world.run_until(until, &mut ());
        behind.map(|server| world.server(server).stats().answered)
    };
    let (before, after) = (answered(s(5)), answered(s(10)));
    [0, 1].map(|server| (after[server] - before[server]) as f64 / 5.0 / CAPACITY)
}

fn receiver(number: usize) -> Config {
    let mut config = roomy(number);
    config.pools[0].servers = vec![PoolServer {
        address: server_address(number),
        ..config.pools[0].servers[0].clone()
    }];
    config.trust.peers = vec![edge_address(SENDER).ip().into()];
    config
}

fn sender() -> Config {
    let mut config = roomy(SENDER);
    let pool = &mut config.pools[0];
    pool.overload_control = true;
    let server = |number| PoolServer {
        address: edge_address(number),
        ..pool.servers[0].clone()
    };
    pool.servers = vec![server(0), server(1)];
    config
}

fn roomy(number: usize) -> Config {
    let mut setup = setup();
    setup.servers.truncate(1);
    setup.pool.learn_room = false;
    let mut config = setup.node(number);
    config.routes[0].state = Mode::Stateful;
    config.limits.sessions = 1 << 20;
    config.limits.transactions = 1 << 20;
    config.limits.held_transactions = 1 << 20;
    config
}

/// Terms with another value.
fn with_value(message: &[u8], value: &str) -> Vec<u8> {
    let text = String::from_utf8(message.to_vec()).unwrap();
    match text.split_once(";oc=") {
        Some((before, after)) => {
            let rest = after.trim_start_matches(|digit: char| digit.is_ascii_digit());
            format!("{before};oc={value}{rest}").into_bytes()
        }
        None => message.to_vec(),
    }
}

fn takes_all(message: &[u8]) -> Vec<u8> {
    with_value(message, "100000")
}

fn takes_nothing(message: &[u8]) -> Vec<u8> {
    with_value(message, "0")
}

/// One that says that it takes all gets more calls than it can take. One that says that it takes nothing gets few.
#[test]
fn a_server_that_lies_carries_less_and_costs_the_other_nothing() {
    let [honest, second] = carried(None);
    assert!(honest > 0.99 && second > 0.99, "{honest}, {second}");
    for (lie, most) in [(takes_all as Alter, 0.95), (takes_nothing, 0.3)] {
        let [other, liar] = carried(Some(lie));
        assert!(other > 0.99 && liar < most, "{other}, {liar}");
    }
}

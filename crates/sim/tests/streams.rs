//! Calls over connections.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod common;

use std::time::Duration;

use common::{s, setup};
use load::{Arrivals, CallerConfig, Law, Rate, ServerConfig, Stream};
use node::{
    Transport,
    config::{Listener, Mode},
};
use sim::{Conduct, Death, Link, Machine, PartyId, World, edge_address, server_address};

const CALLS: u64 = 500;

/// A caller and a server on connections, with a node between them.
struct Scene {
    world: World,
    server: PartyId,
    edge: PartyId,
    caller: PartyId,
}

impl Scene {
    fn new(mode: Mode, link: Link) -> Self {
        let mut world = World::new(7, link);
        let server = ServerConfig::prompt(server_address(0));
        let server = world.add_stream_server(server, Conduct::default());
        let mut setup = setup();
        setup.servers.truncate(1);
        let mut config = setup.node(0);
        config.routes[0].state = mode;
        config.listeners = vec![Listener {
            transport: Transport::Tcp,
            address: edge_address(0),
            advertise: edge_address(0).to_string(),
        }];
        config.pools[0].servers[0].transport = Transport::Tcp;
        let edge = world
            .add_node("edge", config, 2, Machine::default())
            .unwrap();
        let arrivals = Arrivals::Open(Rate::Constant(50.0), Stream::Poisson);
        let sockets = (0..4).map(|port| ([198, 51, 100, 1], 5060 + port).into());
        let caller = CallerConfig {
            calls_max: CALLS,
            holding: Law::Constant(s(2)),
            ..CallerConfig::plain(sockets.collect(), edge_address(0), arrivals)
        };
        let caller = world.add_stream_caller(caller, Conduct::default());
        Self {
            world,
            server,
            edge,
            caller,
        }
    }

    fn run_until(&mut self, end: Duration) {
        self.world.run_until(end, &mut ());
    }

    /// Calls that succeeded, and connections that the edge has.
    fn figures(&self) -> (u64, usize) {
        let connections = self.world.edge(self.edge).connections();
        let count = connections.map(|connections| connections.len()).sum();
        (self.world.caller(self.caller).stats().successes(), count)
    }
}

#[test]
fn calls_pass_over_connections() {
    let lossy = Link {
        loss: 0.02,
        ..Link::clean(Duration::from_millis(5))
    };
    for mode in [Mode::Stateless, Mode::Stateful] {
        for link in [Link::clean(Duration::from_millis(5)), lossy] {
            let mut scene = Scene::new(mode, link);
            scene.run_until(s(60));
            let (successes, connections) = scene.figures();
            let failed = &scene.world.caller(scene.caller).stats().failed;
            assert_eq!(successes, CALLS, "{mode:?}, {link:?}: {failed:?}");
            assert!((5..=6).contains(&connections), "{connections}");
            let server = scene.world.server(scene.server);
            assert_eq!(server.open_calls(), 0);
        }
    }
}

#[test]
fn after_a_reset_calls_go_on_over_new_connections() {
    for who in 0..3 {
        let mut scene = Scene::new(Mode::Stateful, Link::clean(Duration::from_millis(5)));
        scene.run_until(s(5));
        let party = [scene.caller, scene.edge, scene.server][who];
        scene.world.reset_streams(party);
        scene.run_until(s(80));
        let (successes, _) = scene.figures();
        assert!(successes >= CALLS - 2, "{who}: {successes}");
    }
}

#[test]
fn a_server_that_does_not_read_gets_nothing_new_and_later_all() {
    let mut scene = Scene::new(Mode::Stateful, Link::clean(Duration::from_millis(5)));
    scene.run_until(s(5));
    scene.world.set_reading(scene.server, false);
    scene.run_until(s(8));
    scene.world.set_reading(scene.server, true);
    scene.run_until(s(80));
    let (successes, _) = scene.figures();
    assert!(successes > CALLS / 2, "{successes}");
}

#[test]
fn a_server_that_vanishes_is_left_and_found_again() {
    let mut scene = Scene::new(Mode::Stateful, Link::clean(Duration::from_millis(5)));
    scene.run_until(s(3));
    scene.world.crash(scene.server, Death::Machine, &mut ());
    scene.run_until(s(4));
    scene.world.restart(scene.server, &mut ()).unwrap();
    scene.run_until(s(120));
    let (successes, connections) = scene.figures();
    assert!(successes > CALLS / 2, "{successes}");
    assert!(connections > 0);
}

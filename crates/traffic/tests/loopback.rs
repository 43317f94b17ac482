//! Callers and a server, with nothing but the kernel in between.

use std::time::Duration;

use fastrand::Rng;
use load::{Arrivals, Caller, CallerConfig, Server, ServerConfig};
use net::Clock;
use traffic::{Answering, Buffers, Calling, bind};

#[test]
fn calls_from_several_sockets_are_carried() {
    const CALLS: u64 = 1_000;
    let clock = Clock::start();
    let mut buffers = Buffers::new();
    let socket = bind().unwrap();
    let config = ServerConfig::prompt(socket.local_addr());
    let mut server = Answering::new(Server::new(config, Rng::with_seed(1), clock.now()), socket);
    let sockets: Vec<_> = (0..4).map(|_| bind().unwrap()).collect();
    let config = CallerConfig {
        calls_max: CALLS,
        ..CallerConfig::plain(
            sockets.iter().map(|socket| socket.local_addr()).collect(),
            server.address(),
            Arrivals::Window(32),
        )
    };
    let caller = Caller::new(config, Rng::with_seed(2), clock.now());
    let mut calling = Calling::new(caller, sockets);
    while !calling.caller().is_done() {
        assert!(clock.now() < Duration::from_secs(60), "{calling:?}");
        calling.turn(clock, &mut buffers);
        server.turn(clock, &mut buffers);
    }
    assert_eq!(calling.caller().stats().carried, CALLS);
    assert_eq!(server.server().stats().byes, CALLS);
}

//! A node carries its whole capacity, whatever more comes.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod common;

use std::time::Duration;

use common::{s, setup};
use load::{Arrivals, CallerConfig, Law, Rate, Retransmission, ServerConfig, Stream};
use node::config::Mode;
use sim::{Link, Machine, Pace, PartyId, World, edge_address, server_address};

/// A call has six messages, so this node carries 1,000 calls/s.
const CAPACITY: f64 = 1000.0;
const PACE: Pace = Pace {
    read: Duration::from_micros(30),
    serve: Duration::from_micros(166),
    refuse: Duration::from_micros(80),
    filter: Duration::from_millis(15),
    buffer: 4096,
};

/// A node that is slow, a server that is not, and callers who repeat what is not answered.
struct Scene {
    world: World,
    edge: PartyId,
    callers: Vec<PartyId>,
}

impl Scene {
    fn new(mode: Mode, seed: u64) -> Self {
        let mut world = World::new(seed, Link::clean(Duration::from_millis(1)));
        world.add_server(ServerConfig::prompt(server_address(0)));
        let mut setup = setup();
        setup.servers.truncate(1);
        let mut config = setup.node(0);
        config.routes[0].state = mode;
        config.limits.sessions = 1 << 20;
        config.limits.transactions = 1 << 20;
        config.limits.held_transactions = 1 << 20;
        let machine = Machine {
            pace: Some(PACE),
            ..Machine::default()
        };
        let edge = world.add_node("edge", config, 1, machine).unwrap();
        Self {
            edge,
            world,
            callers: Vec::new(),
        }
    }

    /// More callers, for so long.
    fn call(&mut self, times: f64, time: Duration) {
        let number = self.callers.len() as u8;
        let rate = times * CAPACITY;
        let sockets = (0..16).map(|port| ([198, 51, 100, number], 5060 + port).into());
        let arrivals = Arrivals::Open(Rate::Constant(rate), Stream::Poisson);
        let config = CallerConfig {
            calls_max: (rate * time.as_secs_f64()) as u64,
            holding: Law::ZERO,
            retransmission: Retransmission::Rfc3261,
            ..CallerConfig::plain(sockets.collect(), edge_address(0), arrivals)
        };
        self.callers.push(self.world.add_caller(config));
    }

    /// Calls carried in so long, and the 99th percentile of the time to their answer, in ms.
    fn run(&mut self, time: Duration) -> (u64, f64) {
        let end = self.world.now() + time;
        self.world.run_until(end, &mut ());
        let mut all = load::Stats::default();
        for &caller in &self.callers {
            all.add(&self.world.caller_mut(caller).stats_mut().take());
        }
        let p99 = all.answer_ns.value_at_quantile(0.99) as f64 / 1e6;
        (all.carried, p99)
    }
}

#[test]
#[ignore = "it prints"]
fn events() {
    use node::stats::{Dropped, Event};
    let mut scene = Scene::new(Mode::Stateless, 7);
    scene.call(5.0, s(40));
    let mut before: Vec<u64> = Vec::new();
    for _ in 0..30 {
        let (carried, p99) = scene.run(s(1));
        let edge = scene.world.edge(scene.edge);
        let stats = &edge.shared().workers()[0];
        let mut now: Vec<u64> = Event::ALL.iter().map(|&e| stats.event(e)).collect();
        now.extend(Dropped::ALL.iter().map(|&d| stats.dropped(d)));
        now.push(edge.lost());
        now.push(edge.busy().as_millis() as u64);
        let mut names: Vec<_> = Event::ALL.iter().map(|e| e.label()).collect();
        names.extend(Dropped::ALL.iter().map(|d| d.label()));
        names.extend(["lost", "busy"]);
        before.resize(now.len(), 0);
        print!("{carried} {p99} share {:.3} ", stats.share());
        for ((now, before), name) in now.iter().zip(&before).zip(names) {
            if now > before {
                print!("{name}={} ", now - before);
            }
        }
        println!();
        before = now;
    }
}

#[test]
#[ignore = "it prints"]
fn goodput() {
    for mode in [Mode::Stateless, Mode::Stateful] {
        for times in [0.9, 1.0, 2.0, 5.0, 10.0] {
            let mut scene = Scene::new(mode, 7);
            scene.call(times, s(40));
            let seconds: Vec<_> = (0..40).map(|_| scene.run(s(1))).collect();
            let carried: Vec<_> = seconds.iter().map(|(carried, _)| *carried).collect();
            let late: Vec<_> = seconds.iter().map(|(_, p99)| *p99 as u64).collect();
            let mean = carried[10..].iter().sum::<u64>() as f64 / 30.0;
            println!("{mode:?} {times} x: {mean} {carried:?}\n   {late:?}");
        }
    }
}

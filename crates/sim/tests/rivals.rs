//! The node's overload control beside that of others, on the same node.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod common;
mod schemes;
mod site;

use std::{env, time::Duration};

use balance::Policy;
use common::{s, setup};
use load::{
    Arrivals, Bursts, CallerConfig, Failure, Law, Rate, Retransmission, ServerConfig, Service,
    Stats, Stream,
};
use schemes::{Breakwater, CoDel, Dagor, Entry, Gradient, Pid};
use sim::{Estimate, Link, Machine, Pace, PartyId, Scheme, World, edge_address, server_address};
use site::Site;

/// A call has six messages, so the node carries 200 calls/s.
const CAPACITY: f64 = 200.0;
const SERVE: Duration = Duration::from_micros(833);
/// What the slow store carries.
const LOGINS_PER_S: f64 = 40.0;
const STEP: Duration = Duration::from_millis(100);
/// Users whose call is refused try again after so many steps, four in five of them.
const REDIAL_AFTER: usize = 50;
const REDIALS: f64 = 0.8;
const WARM_UP: u64 = 10;
const MEASURED: u64 = 20;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Scene {
    /// Twice what the node carries.
    Cpu,
    /// Twice what the only server carries, half of what the node does.
    Server,
    /// Three times the logins that the store carries, beside calls that need no store.
    Store,
    /// One server of eight stalls for ten seconds; the node is at 0.7.
    Stalled,
    /// Bursts of ten times the rate; 0.8 on average.
    Bursty,
    /// The node's speed is halved for ten seconds, and is whole again.
    Halved,
    /// Twice the capacity, and who is refused tries again.
    Retries,
}

const SCENES: [Scene; 7] = [
    Scene::Cpu,
    Scene::Server,
    Scene::Store,
    Scene::Stalled,
    Scene::Bursty,
    Scene::Halved,
    Scene::Retries,
];

type Make = fn() -> Option<Box<dyn Scheme>>;

const SCHEMES: [(&str, Make); 7] = [
    ("ours", || None),
    ("CoDel, adaptive LIFO", || Some(Box::<CoDel>::default())),
    ("DAGOR", || Some(Box::<Dagor>::default())),
    ("Breakwater", || Some(Box::<Breakwater>::default())),
    ("gradient", || Some(Box::<Gradient>::default())),
    ("PID", || Some(Box::<Pid>::default())),
    ("entry", || Some(Box::<Entry>::default())),
];

/// What came of a run: carried of what can be, the 99th percentile in ms, refused of what was offered.
type Outcome = [f64; 3];

struct Run {
    scene: Scene,
    world: World,
    edge: PartyId,
    servers: Vec<PartyId>,
    caller: PartyId,
    again: PartyId,
}

impl Run {
    fn new(scene: Scene, scheme: Option<Box<dyn Scheme>>, seed: u64) -> Self {
        let mut world = World::new(seed, Link::clean(Duration::from_millis(1)));
        let count = if scene == Scene::Stalled { 8 } else { 1 };
        let invite = match scene {
            Scene::Server => Law::Exponential(Duration::from_millis(7)),
            _ => Law::ZERO,
        };
        let bye = match scene {
            Scene::Server => Law::Exponential(Duration::from_millis(3)),
            _ => Law::ZERO,
        };
        let server = |place| ServerConfig {
            service: Service {
                invite,
                bye,
                other: Law::ZERO,
            },
            ..ServerConfig::prompt(server_address(place))
        };
        let servers = (0..count)
            .map(|place| world.add_server(server(place)))
            .collect();
        let edge = add_node(&mut world, count, scheme);
        let (rate, stream) = match scene {
            Scene::Cpu | Scene::Retries => (2.0, Stream::Poisson),
            Scene::Server => (1.0, Stream::Poisson),
            Scene::Stalled | Scene::Halved => (0.7, Stream::Poisson),
            Scene::Bursty => (0.8, Stream::Bursty(BURSTS)),
            Scene::Store => unreachable!("it has a site of its own"),
        };
        let arrivals = Arrivals::Open(Rate::Constant(rate * CAPACITY), stream);
        let caller = world.add_caller(callers(0, arrivals));
        let again = world.add_caller(callers(1, Arrivals::Window(0)));
        Self {
            scene,
            world,
            edge,
            servers,
            caller,
            again,
        }
    }

    fn run(mut self) -> Outcome {
        self.advance(WARM_UP);
        match self.scene {
            Scene::Stalled => {
                let now = self.world.now();
                self.world.server_mut(self.servers[3]).stall(now, s(10));
            }
            Scene::Halved => self.world.edge_mut(self.edge).set_speed(0.5),
            _ => {}
        }
        let mut stats = self.advance(MEASURED / 2);
        if self.scene == Scene::Halved {
            self.world.edge_mut(self.edge).set_speed(1.0);
        }
        stats.add(&self.advance(MEASURED / 2));
        let seconds = MEASURED as f64;
        let can = match self.scene {
            Scene::Cpu | Scene::Retries => CAPACITY * seconds,
            Scene::Server => CAPACITY / 2.0 * seconds,
            Scene::Store => unreachable!("it has a site of its own"),
            Scene::Stalled | Scene::Bursty => stats.offered as f64,
            Scene::Halved => CAPACITY * (0.5 + 0.7) / 2.0 * seconds,
        };
        let refused = *stats.failed.get(&Failure::Rejected(503)).unwrap_or(&0);
        [
            stats.carried as f64 / can * 100.0,
            stats.answer_ns.value_at_quantile(0.99) as f64 / 1e6,
            refused as f64 / stats.offered as f64 * 100.0,
        ]
    }

    /// What the callers have counted in so many seconds.
    fn advance(&mut self, seconds: u64) -> Stats {
        let mut all = Stats::default();
        let mut due = vec![0.0; REDIAL_AFTER];
        for step in 0..seconds as usize * 10 {
            let now = self.world.now();
            let rate = due[step % REDIAL_AFTER] / STEP.as_secs_f64();
            let arrivals = if rate > 0.0 {
                Arrivals::poisson(rate)
            } else {
                Arrivals::Window(0)
            };
            self.world
                .caller_mut(self.again)
                .set_arrivals(now, arrivals);
            self.world.run_until(now + STEP, &mut ());
            let mut refused = 0;
            for caller in [self.caller, self.again] {
                let stats = self.world.caller_mut(caller).stats_mut().take();
                refused += stats.failures();
                all.add(&stats);
            }
            let redials = if self.scene == Scene::Retries {
                REDIALS
            } else {
                0.0
            };
            due[step % REDIAL_AFTER] = refused as f64 * redials;
        }
        all
    }
}

/// Logins at a slow store, with calls beside them at a quarter of what the node carries. The third figure is the part of
/// these calls that is not carried.
fn at_store(scheme: Option<Box<dyn Scheme>>, seed: u64) -> Outcome {
    let pace = Pace {
        tells_overload: scheme.is_none(),
        ..Pace::of(SERVE)
    };
    let mut site = Site::new(pace, seed, 6_000);
    site.store
        .set_takes(Duration::from_secs_f64(1.0 / (3.0 * LOGINS_PER_S)));
    if let Some(scheme) = scheme {
        site.world.edge_mut(site.nodes[0]).set_door(scheme);
    }
    site.call(CAPACITY / 4.0, s(WARM_UP + MEASURED + 1));
    site.register(3.0 * LOGINS_PER_S);
    site.run(s(WARM_UP));
    drop(site.world.phones_mut(site.phones).stats_mut().take());
    let before = site.registered();
    let calls = site.run(s(MEASURED));
    let logins = (site.registered() - before) as f64;
    let times = &site.world.phones(site.phones).stats().register_ns;
    [
        logins / (LOGINS_PER_S * MEASURED as f64) * 100.0,
        times.value_at_quantile(0.99) as f64 / 1e6,
        100.0 - calls.carried as f64 / calls.offered as f64 * 100.0,
    ]
}

const BURSTS: Bursts = Bursts {
    ratio: 10.0,
    calm: Duration::from_secs(2),
    burst: Duration::from_millis(50),
};

fn add_node(world: &mut World, servers: usize, scheme: Option<Box<dyn Scheme>>) -> PartyId {
    let is_ours = scheme.is_none();
    let mut setup = setup();
    setup.servers = vec![setup.servers[0]; servers];
    setup.pool.learn_room = is_ours;
    setup.pool.policy = Policy::RoundRobin;
    let mut config = setup.node(0);
    config.limits.sessions = 1 << 18;
    config.limits.transactions = 1 << 18;
    let machine = Machine {
        pace: Some(Pace {
            tells_overload: is_ours,
            ..Pace::of(SERVE)
        }),
        ..Machine::default()
    };
    let edge = world.add_node("edge", config, 1, machine).unwrap();
    if let Some(scheme) = scheme {
        world.edge_mut(edge).set_door(scheme);
    }
    edge
}

fn callers(number: u8, arrivals: Arrivals) -> CallerConfig {
    let sockets = (0..16).map(|port| ([198, 51, 100, number], 5060 + port).into());
    CallerConfig {
        holding: Law::ZERO,
        retransmission: Retransmission::Rfc3261,
        ..CallerConfig::plain(sockets.collect(), edge_address(0), arrivals)
    }
}

/// The comparison is of controls only if each of them holds an overload off where its measure sees it.
#[test]
fn each_scheme_holds_off_twice_what_the_processor_carries() {
    for (name, make) in &SCHEMES {
        let [carried, ..] = Run::new(Scene::Cpu, make(), 7).run();
        assert!(carried > 30.0, "{name}: {carried} %");
    }
}

/// `SEEDS=5 SCENES=Cpu,Retries cargo test -p sim --test rivals -- --ignored --nocapture`
#[test]
#[ignore = "it prints a table"]
#[expect(clippy::print_stdout, reason = "it prints")]
fn table() {
    let seeds = env::var("SEEDS").map_or(3, |seeds| seeds.parse().unwrap());
    println!("| scene | control | carried, % | p99, ms | refused, % |\n|---|---|---|---|---|");
    let wanted = env::var("SCENES").ok();
    let is_wanted = |scene: &Scene| {
        let name = format!("{scene:?}");
        wanted
            .as_ref()
            .is_none_or(|wanted| wanted.split(',').any(|scene| scene == name))
    };
    for scene in SCENES.into_iter().filter(is_wanted) {
        for (name, make) in &SCHEMES {
            let run = |seed| match scene {
                Scene::Store => at_store(make(), seed),
                _ => Run::new(scene, make(), seed).run(),
            };
            let runs: Vec<_> = (1..=seeds).map(run).collect();
            let of = |part: usize| {
                let values: Vec<f64> = runs.iter().map(|run| run[part]).collect();
                let estimate = Estimate::of(&values);
                let half = estimate
                    .half
                    .map_or(String::new(), |half| format!(" ± {half:.1}"));
                format!("{:.1}{half}", estimate.mean)
            };
            println!("| {scene:?} | {name} | {} | {} | {} |", of(0), of(1), of(2));
        }
    }
}

//! What a call may do beyond INVITE, ACK and BYE, and what the servers' order of work does to it.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]
#![allow(dead_code, reason = "the module's other parts are for other tests")]

mod common;

use std::time::Duration;

use common::{Faults, PROXY, World, address, assert_counted};
use load::{
    Arrivals, CallerConfig, Discipline, Failure, Habits, Law, Retransmission, ServerConfig,
    Service, Stall,
};

const SERVER: &str = "192.0.2.11:7001";
const HOUR: Duration = Duration::from_secs(3600);
const CALLS: u64 = 2_000;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn caller(arrivals: Arrivals, habits: Habits) -> CallerConfig {
    CallerConfig {
        holding: Law::Exponential(ms(1_000)),
        calls_max: CALLS,
        habits,
        ..CallerConfig::plain(vec![address("192.0.2.101:5070")], address(PROXY), arrivals)
    }
}

/// INVITE and BYE keep it busy for so long.
fn server(invite: Law, bye: Law) -> ServerConfig {
    ServerConfig {
        service: Service {
            invite,
            bye,
            other: Law::ZERO,
        },
        ..ServerConfig::prompt(address(SERVER))
    }
}

/// Those calls through a proxy to a server that rings a little.
fn habitual(habits: Habits, faults: Faults) -> World {
    let server = ServerConfig {
        ringing: Law::Constant(ms(100)),
        trying: true,
        ..server(Law::Constant(ms(1)), Law::Constant(ms(1)))
    };
    let config = caller(Arrivals::poisson(100.0), habits);
    let mut world = World::new(1, config, vec![server], faults);
    world.run(HOUR);
    world
}

const LOSSY: Faults = Faults {
    loss: 0.1,
    latency: Duration::from_millis(5),
    jitter: Duration::from_millis(5),
};

#[test]
fn some_calls_are_renewed() {
    let habits = Habits {
        reinvite: 0.25,
        ..Habits::default()
    };
    let world = habitual(habits, Faults::default());
    let (stats, server) = (world.caller.stats(), world.servers[0].stats());
    assert_eq!((stats.carried, server.byes), (CALLS, CALLS));
    assert_eq!(stats.reinvite_ns.len(), server.reinvites);
    assert!((400..600).contains(&server.reinvites), "{server:?}");
    assert_eq!((stats.retransmissions, server.retransmissions), (0, 0));
    let world = habitual(habits, LOSSY);
    assert_counted(&world, CALLS);
    let (stats, server) = (world.caller.stats(), world.servers[0].stats());
    assert!(stats.carried > CALLS - 10, "{stats:?}");
    assert!((400..600).contains(&server.reinvites), "{server:?}");
    assert_eq!(world.servers[0].open_calls(), 0);
}

#[test]
fn some_calls_are_cancelled() {
    let habits = Habits {
        cancel: 0.25,
        ..Habits::default()
    };
    for faults in [Faults::default(), LOSSY] {
        let world = habitual(habits, faults);
        assert_counted(&world, CALLS);
        let (stats, server) = (world.caller.stats(), world.servers[0].stats());
        assert!((350..600).contains(&stats.cancelled), "{stats:?}");
        assert!(stats.carried + stats.cancelled > CALLS - 10, "{stats:?}");
        assert!(server.cancelled >= stats.cancelled, "{server:?}");
    }
}

#[test]
fn a_cancel_that_comes_too_late_ends_in_a_bye() {
    let habits = Habits {
        cancel: 1.0,
        ..Habits::default()
    };
    let config = caller(Arrivals::Window(1), habits);
    let faults = Faults {
        latency: ms(5),
        ..Faults::default()
    };
    let mut world = World::new(2, config, vec![server(Law::ZERO, Law::ZERO)], faults);
    world.run(HOUR);
    assert_counted(&world, CALLS);
    assert_eq!(world.caller.stats().carried, CALLS);
}

#[test]
fn some_callers_vanish() {
    let habits = Habits {
        abandon: 0.25,
        ..Habits::default()
    };
    let world = habitual(habits, Faults::default());
    let stats = world.caller.stats();
    assert!((400..600).contains(&stats.abandoned), "{stats:?}");
    assert_eq!(stats.carried + stats.abandoned, CALLS);
    assert_eq!(world.servers[0].open_calls() as u64, stats.abandoned);
}

#[test]
fn without_retransmission_what_is_lost_is_lost() {
    let config = CallerConfig {
        retransmission: Retransmission::Never,
        ..caller(Arrivals::poisson(100.0), Habits::default())
    };
    let mut world = World::new(3, config, vec![server(Law::ZERO, Law::ZERO)], LOSSY);
    world.run(HOUR);
    assert_counted(&world, CALLS);
    let stats = world.caller.stats();
    assert_eq!(stats.retransmissions, 0);
    assert!(stats.failed[&Failure::Silence] > CALLS / 10, "{stats:?}");
}

/// Calls whose phones ring so long, with SIPstone's timers at both ends.
fn sipstone(ringing: Duration) -> World {
    let config = CallerConfig {
        retransmission: Retransmission::Sipstone,
        holding: Law::ZERO,
        ..caller(Arrivals::poisson(100.0), Habits::default())
    };
    let server = ServerConfig {
        retransmission: Retransmission::Sipstone,
        ringing: Law::Constant(ringing),
        ..ServerConfig::prompt(address(SERVER))
    };
    let mut world = World::new(10, config, vec![server], Faults::default());
    world.run(HOUR);
    world
}

#[test]
fn what_sipstone_waits_for_2_s_has_failed() {
    let world = sipstone(ms(1_900));
    assert_eq!(world.caller.stats().carried, CALLS);
    let world = sipstone(ms(2_100));
    let stats = world.caller.stats();
    assert_eq!(stats.failed[&Failure::NoAnswer], CALLS);
    assert_eq!((stats.retransmissions, stats.strays), (0, CALLS));
    let server = &world.servers[0];
    assert_eq!(server.stats().unconfirmed, CALLS);
    assert_eq!(
        (server.stats().retransmissions, server.open_calls()),
        (0, 0)
    );
}

/// Mean time to the answer, in milliseconds, of a queue with this load.
fn answer_ms(arrivals: Arrivals, server: ServerConfig) -> f64 {
    let config = CallerConfig {
        holding: Law::ZERO,
        calls_max: 30_000,
        ..CallerConfig::plain(vec![address("192.0.2.101:5070")], address(SERVER), arrivals)
    };
    let mut world = World::new(4, config, vec![server], Faults::default());
    world.run(HOUR);
    assert_eq!(world.caller.stats().carried, 30_000);
    world.caller.stats().answer_ns.mean() / 1e6
}

/// Pollaczek and Khinchin: with half the load and work of mean m and squared variation c, FIFO has
/// m (1 + (1 + c) / 2); a shared processor has 2 m, whatever c is.
#[test]
fn response_times_are_those_of_queueing_theory() {
    let near = |got: f64, expected: f64| {
        assert!((got / expected - 1.0).abs() < 0.08, "{got}, not {expected}");
    };
    let varied = Law::LogNormal {
        mean: ms(5),
        deviation: ms(5),
    };
    let half = Arrivals::poisson(100.0);
    for (law, squared) in [(Law::Constant(ms(5)), 0.0), (varied, 1.0)] {
        let fifo = server(law, Law::ZERO);
        near(answer_ms(half, fifo), 5.0 * (1.0 + (1.0 + squared) / 2.0));
        let shared = ServerConfig {
            discipline: Discipline::ProcessorSharing,
            ..fifo
        };
        near(answer_ms(half, shared), 10.0);
    }
}

#[test]
fn bursts_cost_more_than_their_mean() {
    let bursts = load::Bursts {
        ratio: 10.0,
        calm: ms(900),
        burst: ms(100),
    };
    let rate = load::Rate::Constant(100.0);
    let bursty = Arrivals::Open(rate, load::Stream::Bursty(bursts));
    let server = server(Law::Constant(ms(5)), Law::ZERO);
    let (calm, bursty) = (
        answer_ms(Arrivals::poisson(100.0), server),
        answer_ms(bursty, server),
    );
    assert!(bursty > 3.0 * calm, "{bursty} and {calm}");
}

#[test]
fn occupancy_and_busy_time_are_known() {
    let config = CallerConfig {
        holding: Law::Constant(ms(500)),
        ..caller(Arrivals::poisson(100.0), Habits::default())
    };
    let work = server(Law::Exponential(ms(4)), Law::Exponential(ms(2)));
    let mut world = World::new(5, config, vec![work], Faults::default());
    world.run(Duration::from_secs(10));
    let server = &world.servers[0];
    let busy = server.busy().as_secs_f64() / 10.0;
    assert!((busy - 0.6).abs() < 0.1, "{busy}");
    assert_eq!(server.stats().occupancy.len(), server.stats().invites);
    let found_idle = server.stats().occupancy.count_at(0) as f64 / server.stats().invites as f64;
    // Poisson arrivals see what an outsider sees.
    assert!((found_idle - (1.0 - busy)).abs() < 0.1, "{found_idle}");
}

#[test]
fn stalls_come_by_time_and_on_command() {
    let server = ServerConfig {
        stall: Some(Stall::Periodic {
            first: ms(500),
            every: ms(2_000),
            lasting: ms(1_000),
        }),
        ringing: Law::Constant(ms(300)),
        ..server(Law::Constant(ms(1)), Law::ZERO)
    };
    let config = CallerConfig {
        retransmission: Retransmission::Never,
        ..caller(Arrivals::poisson(100.0), Habits::default())
    };
    let mut world = World::new(6, config, vec![server], Faults::default());
    world.run(ms(600));
    assert!(world.servers[0].backlog(world.now) > ms(800));
    let answered = world.servers[0].stats().answered;
    assert!(answered > 0);
    // Not even the calls that ring are answered.
    world.run(ms(1_400));
    assert_eq!(world.servers[0].stats().answered, answered);
    world.run(Duration::from_secs(10));
    assert_eq!(world.servers[0].stats().stalls, 5);
    let now = world.now;
    world.servers[0].stall(now, Duration::from_secs(2));
    assert!(world.servers[0].backlog(now) >= Duration::from_secs(2));
    assert_eq!(world.servers[0].stats().stalls, 6);
}

#[test]
fn half_the_speed_is_half_the_capacity() {
    let config = CallerConfig {
        holding: Law::ZERO,
        ..caller(Arrivals::Window(50), Habits::default())
    };
    let work = server(Law::Constant(ms(8)), Law::Constant(ms(2)));
    let mut world = World::new(7, config, vec![work], Faults::default());
    world.run(Duration::from_secs(5));
    let before = world.servers[0].stats().byes;
    assert!((440..=500).contains(&before), "{before}");
    let now = world.now;
    world.servers[0].set_speed(now, 0.5);
    world.run(Duration::from_secs(15));
    let after = world.servers[0].stats().byes - before;
    assert!((440..=560).contains(&after), "{after}");
}

#[test]
fn a_restarted_server_knows_no_old_call() {
    let config = CallerConfig {
        calls_max: 100,
        ..caller(Arrivals::poisson(100.0), Habits::default())
    };
    let prompt = ServerConfig::prompt(address(SERVER));
    let mut world = World::new(8, config, vec![prompt], Faults::default());
    world.run(ms(1_000));
    let rng = fastrand::Rng::with_seed(9);
    world.servers[0] = load::Server::new(prompt, rng, world.now);
    world.run(HOUR);
    let stats = world.caller.stats();
    let lost = stats.failed[&Failure::ByeRejected(481)];
    assert!(lost > 20, "{stats:?}");
    assert_eq!(world.servers[0].stats().strangers, lost);
}

/// Each call ends once, whoever hangs up first; a BYE of the server's takes the way of the INVITE, after a
/// re-INVITE too, and in spite of losses.
#[test]
fn servers_hang_up() {
    let habits = Habits {
        reinvite: 0.25,
        ..Habits::default()
    };
    let server = ServerConfig {
        hang_up: Some(Law::Exponential(ms(1_000))),
        ..server(Law::ZERO, Law::ZERO)
    };
    let config = caller(Arrivals::poisson(100.0), habits);
    for faults in [Faults::default(), LOSSY] {
        let mut world = World::new(1, config.clone(), vec![server], faults);
        world.run(HOUR);
        let (stats, server) = (world.caller.stats(), world.servers[0].stats());
        assert_eq!(stats.carried + stats.failures(), CALLS);
        assert!(stats.failures() == 0 || faults.loss > 0.0, "{stats:?}");
        assert!(server.hung_up > CALLS / 4, "{server:?}");
        assert_eq!(server.unheard, 0, "{server:?}");
        assert_eq!(world.servers[0].open_calls(), 0);
    }
}

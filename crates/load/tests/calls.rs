//! Calls in virtual time: whatever the network loses, each call ends and is counted once.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod common;

use std::time::Duration;

use common::{Faults, PROXY, World, address, assert_carried, assert_ended};
use load::{Arrivals, CallerConfig, Failure, Law, ServerConfig, Service, Stall};

const SERVER: &str = "192.0.2.11:7001";
const HOUR: Duration = Duration::from_secs(3600);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn calls(proxy: &str, calls_max: u64, arrivals: Arrivals, holding: Law) -> CallerConfig {
    let sockets = ["192.0.2.101:5070", "192.0.2.101:5071"]
        .map(address)
        .to_vec();
    CallerConfig {
        holding,
        calls_max,
        ..CallerConfig::plain(sockets, address(proxy), arrivals)
    }
}

fn prompt(server: &str) -> ServerConfig {
    ServerConfig::prompt(address(server))
}

/// The servers of Jiang et al.: their service times, and a garbage collection now and then.
fn busy(server: &str) -> ServerConfig {
    ServerConfig {
        service: Service {
            invite: Law::Exponential(Duration::from_micros(1450)),
            bye: Law::Exponential(Duration::from_micros(830)),
            other: Law::ZERO,
        },
        ringing: Law::Constant(ms(100)),
        stall: Some(Stall::Calls {
            first: 950,
            every: 950,
            lasting: ms(1000),
        }),
        ..prompt(server)
    }
}

#[test]
fn a_call_takes_six_messages() {
    let config = calls(SERVER, 1000, Arrivals::Window(10), Law::ZERO);
    let mut world = World::new(1, config, vec![prompt(SERVER)], Faults::default());
    world.run(HOUR);
    assert_carried(&world, 1000);
    assert_eq!(world.datagrams, 6000);
    assert_eq!(world.caller.stats().retransmissions, 0);
}

#[test]
fn the_route_set_is_followed() {
    let config = calls(PROXY, 1000, Arrivals::Window(10), Law::ZERO);
    let servers = vec![prompt(SERVER), prompt("192.0.2.12:7002")];
    let mut world = World::new(2, config, servers, Faults::default());
    world.run(HOUR);
    assert_carried(&world, 1000);
    assert_eq!(world.datagrams, 12_000);
    assert!(
        world
            .servers
            .iter()
            .all(|server| server.stats().invites > 100)
    );
}

#[test]
fn a_closed_window_keeps_that_many_calls_open() {
    let config = calls(
        SERVER,
        u64::MAX,
        Arrivals::Window(100),
        Law::Exponential(ms(1000)),
    );
    let mut world = World::new(3, config, vec![prompt(SERVER)], Faults::default());
    world.run(Duration::from_secs(10));
    assert_eq!(world.caller.open_calls(), 100);
    world.caller.stop();
    world.run(HOUR);
    let offered = world.caller.stats().offered;
    assert!((900..1300).contains(&offered), "{offered}");
    assert_carried(&world, offered);
}

#[test]
fn an_open_loop_offers_its_rate() {
    for arrivals in [Arrivals::paced(100.0), Arrivals::poisson(100.0)] {
        let config = calls(SERVER, u64::MAX, arrivals, Law::Constant(ms(1000)));
        let mut world = World::new(4, config, vec![prompt(SERVER)], Faults::default());
        world.run(Duration::from_secs(100));
        let offered = world.caller.stats().offered;
        assert!(
            (9_700..=10_300).contains(&offered),
            "{arrivals:?}: {offered}"
        );
    }
}

#[test]
fn calls_are_counted_by_when_they_began() {
    let holding = Law::Constant(ms(1500));
    let config = calls(SERVER, u64::MAX, Arrivals::paced(100.0), holding);
    let mut world = World::new(7, config, vec![prompt(SERVER)], Faults::default());
    for second in [1000, 2000] {
        world.run(ms(second));
        world.caller.begin_cohort();
    }
    world.run(ms(3000));
    world.caller.stop();
    let counts = |world: &World| {
        let cohorts = world.caller.cohorts().iter();
        let counts = cohorts.map(|it| (it.offered, it.answers.len(), it.carried));
        counts.collect::<Vec<_>>()
    };
    assert_eq!(counts(&world), [(100, 100, 50), (100, 100, 0)]);
    world.run(HOUR);
    assert_eq!(counts(&world), [(100, 100, 100); 2]);
    assert_carried(&world, 300);
}

#[test]
fn a_late_answer_and_a_failure_belong_to_the_second_in_which_their_calls_began() {
    let config = calls(SERVER, 200, Arrivals::paced(100.0), Law::ZERO);
    let lossy = Faults {
        loss: 0.5,
        ..Faults::default()
    };
    let mut world = World::new(8, config, vec![prompt(SERVER)], lossy);
    world.caller.begin_cohort();
    world.run(ms(1000));
    world.caller.begin_cohort();
    world.run(HOUR);
    for cohort in world.caller.cohorts() {
        let failed: u64 = cohort.failed.values().sum();
        assert_eq!((cohort.offered, cohort.carried + failed), (100, 100));
        assert!(cohort.answers.iter().any(|answer| *answer > ms(1000)));
    }
    assert_ended(&world, 200);
}

#[test]
fn latency_counts_from_the_scheduled_time() {
    let config = calls(SERVER, 100, Arrivals::paced(100.0), Law::ZERO);
    let mut world = World::new(5, config, vec![prompt(SERVER)], Faults::default());
    // The driver sleeps through the first second.
    world.now = ms(1000);
    world.run(HOUR);
    assert_carried(&world, 100);
    let answer = &world.caller.stats().answer_ns;
    assert!(
        (answer.mean() / 1e6 - 495.0).abs() < 5.0,
        "{}",
        answer.mean()
    );
}

#[test]
fn service_is_first_come_first_served() {
    let service = Service {
        invite: Law::Constant(ms(10)),
        bye: Law::ZERO,
        other: Law::ZERO,
    };
    let server = ServerConfig {
        service,
        ..prompt(SERVER)
    };
    let config = calls(SERVER, 10, Arrivals::Window(10), Law::NEVER);
    let mut world = World::new(6, config, vec![server], Faults::default());
    world.run(ms(100));
    let answer = &world.caller.stats().answer_ns;
    assert!(
        answer.equivalent(answer.min(), 10_000_000) && answer.equivalent(answer.max(), 100_000_000)
    );
    assert_eq!(answer.len(), 10);
    assert_eq!(world.caller.open_calls(), 10);
}

#[test]
fn a_stall_delays_and_loses_nothing() {
    let config = calls(
        SERVER,
        5_000,
        Arrivals::poisson(200.0),
        Law::Exponential(ms(500)),
    );
    let mut world = World::new(7, config, vec![busy(SERVER)], Faults::default());
    world.run(HOUR);
    assert_carried(&world, 5_000);
    let stats = world.caller.stats();
    assert!(stats.first_response_ns.max() > 800_000_000 && stats.retransmissions > 0);
    assert!(stats.first_response_ns.value_at_quantile(0.5) < 20_000_000);
    assert_eq!(world.servers[0].stats().stalls, 5_000 / 950);
}

#[test]
fn lost_datagrams_are_sent_again() {
    let faults = Faults {
        loss: 0.2,
        latency: ms(5),
        jitter: Duration::ZERO,
    };
    for seed in 0..5 {
        let config = calls(
            PROXY,
            2_000,
            Arrivals::poisson(100.0),
            Law::Exponential(ms(300)),
        );
        let mut world = World::new(
            seed,
            config,
            vec![busy(SERVER), busy("192.0.2.12:7002")],
            faults,
        );
        world.run(HOUR);
        assert_ended(&world, 2_000);
        let stats = world.caller.stats();
        assert!(stats.carried > 1_980, "{stats:?}");
        assert!(stats.retransmissions > 500);
    }
}

#[test]
fn datagrams_may_overtake_each_other() {
    let faults = Faults {
        loss: 0.02,
        latency: ms(1),
        jitter: ms(700),
    };
    let config = calls(PROXY, 5_000, Arrivals::Window(50), Law::Constant(ms(50)));
    let mut world = World::new(8, config, vec![prompt(SERVER)], faults);
    world.run(HOUR);
    assert_ended(&world, 5_000);
    assert_eq!(world.servers[0].stats().invites, 5_000);
    assert!(
        world.caller.stats().carried > 4_900,
        "{:?}",
        world.caller.stats().failed
    );
}

#[test]
fn silence_is_a_failure() {
    let faults = Faults {
        loss: 1.0,
        ..Faults::default()
    };
    let config = calls(SERVER, 3, Arrivals::Window(1), Law::ZERO);
    let mut world = World::new(9, config, vec![prompt(SERVER)], faults);
    world.run(HOUR);
    assert!(world.caller.is_done());
    assert_eq!(world.caller.stats().failed.get(&Failure::Silence), Some(&3));
    // Timer A at T1, 2*T1, .. 32*T1 for each of three calls, Timer B at 64*T1.
    assert_eq!(world.caller.stats().retransmissions, 3 * 6);
    assert_eq!(world.now, Duration::from_secs(96));
}

//! Where arrivals go when servers are down, back off, or stand in reserve.

use std::{sync::Arc, time::Duration};

use balance::{
    Arrival, Cost, Ineligible, Judge, LAST_RESORT_EVERY, Policy, Pool, RETRY_AFTER, RETRY_MAX,
    Server, ServerId,
};

const NOW: Duration = Duration::from_secs(100);
const SLOW_START: Duration = Duration::from_secs(10);

/// Servers with these numbers.
fn pool(policy: Policy, numbers: std::ops::Range<u16>) -> Pool {
    let server = |id: u16| Arc::new(Server::new(ServerId(id), &format!("s{id}"), 1.0));
    Pool::new(policy, numbers.map(server).collect(), SLOW_START)
}

fn call<'a>(key: &'a [u8], avoid: &'a [ServerId]) -> Arrival<'a> {
    Arrival {
        key,
        cost: Cost::INVITE,
        call: true,
        avoid,
    }
}

fn place(pool: &Pool, key: u64, avoid: &[ServerId], rng: &mut fastrand::Rng) -> Option<usize> {
    let server = pool.place(NOW, &call(&key.to_be_bytes(), avoid), rng)?;
    Some(usize::from(server.id().0))
}

fn end(server: &Server) {
    server.close_call();
    server.close_transaction(Cost::INVITE);
}

/// Three calls in a row are refused.
fn ask_to_be_left_alone(server: &Server) {
    for call in 1..=3 {
        server.back_off(NOW, call, SLOW_START);
    }
}

/// All servers went down and came back, and calls were refused until probes had found out.
#[test]
fn a_pool_that_is_down_tries_some_calls() {
    for policy in Policy::ALL {
        let pool = pool(policy, 0..3);
        let mut rng = fastrand::Rng::with_seed(1);
        for server in pool.servers() {
            server.unreachable(NOW, Judge::Probes);
        }
        pool.servers()[0].drain();
        let mut tried = [0; 3];
        for ms in 0..10_000 {
            let now = NOW + Duration::from_millis(ms);
            if let Some(server) = pool.place(now, &call(b"key", &[]), &mut rng) {
                tried[usize::from(server.id().0)] += 1;
            }
        }
        let bound = Duration::from_secs(10).as_millis() / LAST_RESORT_EVERY.as_millis();
        assert_eq!(tried.iter().sum::<u128>(), bound, "{policy}: {tried:?}");
        assert_eq!(tried[0], 0, "{policy}: it drains");
        assert!(tried[1] > 10 && tried[2] > 10, "{policy}: {tried:?}");
    }
}

/// Calls were refused from the death of the last first server until the reserve was put in its place.
#[test]
fn the_reserve_takes_what_no_first_server_may_get() {
    for policy in Policy::ALL {
        let numbers = |of| pool(policy, of);
        let pool = numbers(0..2).with_reserve(numbers(2..4).with_reserve(numbers(4..5)));
        let mut rng = fastrand::Rng::with_seed(1);
        let all: Vec<_> = pool.all_servers().cloned().collect();
        let mut tier = |expected: &[usize]| {
            for key in 0..20 {
                let found = place(&pool, key, &[], &mut rng).unwrap();
                assert!(expected.contains(&found), "{policy}: {found}");
                end(&all[found]);
            }
        };
        tier(&[0, 1]);
        assert_eq!(pool.scores(NOW, b"key")[2].1, Err(Ineligible::InReserve));
        all[0].unreachable(NOW, Judge::Probes);
        tier(&[1]);
        all[1].drain();
        tier(&[2, 3]);
        all[2].unreachable(NOW, Judge::Probes);
        all[3].unreachable(NOW, Judge::Probes);
        tier(&[4]);
        assert!(pool.has_another(NOW, ServerId(1)) && !pool.has_another(NOW, ServerId(4)));
        all[0].probe_passed(NOW, 1);
        tier(&[0]);
        let avoid = [ServerId(0)];
        assert_eq!(place(&pool, 1, &avoid, &mut rng), Some(4), "{policy}");
    }
}

/// A server that was marked down stayed so for ever when its pool had no probes.
#[test]
fn a_server_without_probes_is_tried_by_one_call_at_a_time() {
    for policy in Policy::ALL {
        let pool = pool(policy, 0..2);
        let mut rng = fastrand::Rng::with_seed(1);
        pool.servers()[1].unreachable(NOW, Judge::Calls);
        let mut tried = Vec::new();
        for tenth in 0..1_000 {
            let now = NOW + Duration::from_millis(100 * tenth);
            let server = pool.place(now, &call(b"key", &[]), &mut rng).unwrap();
            if server.id() == ServerId(1) {
                tried.push(tenth / 10);
            }
        }
        assert_eq!(tried, [1, 3, 7, 15, 31, 63, 95], "{policy}");
        assert_eq!(RETRY_AFTER + RETRY_MAX, Duration::from_secs(33));
        assert!(pool.servers()[1].answered(NOW));
    }
}

/// A call whose callee said 503 took all servers of a pool out.
#[test]
fn of_servers_that_all_back_off_all_are_used() {
    for policy in Policy::ALL {
        let pool = pool(policy, 0..2);
        let mut rng = fastrand::Rng::with_seed(1);
        ask_to_be_left_alone(&pool.servers()[0]);
        for key in 0..10 {
            assert_eq!(place(&pool, key, &[], &mut rng), Some(1), "{policy}");
        }
        pool.servers()[1].drain();
        for key in 0..10 {
            assert_eq!(place(&pool, key, &[], &mut rng), Some(0), "{policy}");
        }
    }
}

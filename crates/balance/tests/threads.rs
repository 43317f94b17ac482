//! Threads that place at the same time.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use balance::{Arrival, Cost, Policy, Pool, Server, ServerId};

const THREADS: u64 = 4;
const CALLS: usize = 20_000;

fn pool(policy: Policy) -> Pool {
    let server = |i| Arc::new(Server::new(ServerId(i), &format!("s{i}"), 1.0));
    Pool::new(policy, (0..4).map(server).collect(), Duration::ZERO)
}

fn place<'a>(pool: &'a Pool, rng: &mut fastrand::Rng) -> &'a Server {
    let arrival = Arrival {
        key: b"key",
        cost: Cost::INVITE,
        call: true,
        avoid: &[],
    };
    pool.place(Duration::ZERO, &arrival, rng)
        .expect("all are eligible")
}

/// Runs `work` in threads that start together.
fn in_threads(work: impl Fn(&mut fastrand::Rng) + Sync) {
    let start = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for seed in 0..THREADS {
            let (work, start) = (&work, &start);
            scope.spawn(move || {
                start.wait();
                work(&mut fastrand::Rng::with_seed(seed));
            });
        }
    });
}

#[test]
fn threads_do_not_herd() {
    for policy in [Policy::Tlwl, Policy::Tjsq, Policy::Cjsq, Policy::RoundRobin] {
        let pool = pool(policy);
        in_threads(|rng| {
            for _ in 0..CALLS {
                place(&pool, rng);
            }
        });
        let calls: Vec<_> = pool.servers().iter().map(|server| server.calls()).collect();
        let expected = THREADS * CALLS as u64 / 4;
        assert!(
            calls.iter().all(|calls| calls.abs_diff(expected) <= 1),
            "{policy}: {calls:?}"
        );
    }
}

#[test]
fn counts_return_to_zero() {
    for policy in Policy::ALL {
        let pool = pool(policy);
        in_threads(|rng| {
            for _ in 0..CALLS / 10 {
                let server = place(&pool, rng);
                server.close_transaction(Cost::INVITE);
                server.open_transaction(Cost::ONE);
                server.first_response(Duration::ZERO, Duration::from_millis(rng.u64(..20)));
                server.close_call();
                server.close_transaction(Cost::ONE);
            }
        });
        for server in pool.servers() {
            let counts = (server.calls(), server.transactions(), server.work());
            assert_eq!(counts, (0, 0, 0.0), "{policy}");
            assert_eq!(server.underflows(), 0, "{policy}");
        }
        let placed: u64 = pool.servers().iter().map(|server| server.placed()).sum();
        assert_eq!(placed, THREADS * (CALLS / 10) as u64, "{policy}");
    }
}

//! What a placement costs among eight servers: `cargo bench -p balance`.

use std::sync::Arc;
use std::time::Duration;

use balance::{Arrival, Cost, Policy, Pool, Server, ServerId};
use divan::Bencher;

const NOW: Duration = Duration::from_secs(3_600);

fn main() {
    divan::main();
}

fn pool(policy: Policy) -> Pool {
    let server = |i| Arc::new(Server::new(ServerId(i), &format!("10.0.0.{i}:5060"), 1.0));
    let pool = Pool::new(
        policy,
        (0..8).map(server).collect(),
        Duration::from_secs(10),
    );
    for (i, server) in (1..).zip(pool.servers()) {
        for sample in 1..=20 {
            server.first_response(NOW, Duration::from_micros(i * sample));
            server.final_response(NOW, Duration::from_micros(i * sample));
        }
    }
    pool
}

fn arrival(key: &[u8]) -> Arrival<'_> {
    Arrival {
        key,
        cost: Cost::INVITE,
        call: true,
        avoid: &[],
    }
}

/// Placing alone: the ledger grows, as when no server answers.
#[divan::bench(args = Policy::ALL, sample_size = 1_000)]
fn place(bencher: Bencher<'_, '_>, policy: Policy) {
    let pool = pool(policy);
    let mut rng = fastrand::Rng::with_seed(1);
    let arrival = arrival(b"1-4711@198.51.100.7");
    bencher.bench_local(|| {
        let placed = pool.place(NOW, &arrival, &mut rng);
        placed.map(|server| server.id())
    });
}

/// A call's whole ledger on idle servers, where all are equal: both transactions and the call.
#[divan::bench(args = Policy::ALL, sample_size = 1_000)]
fn call(bencher: Bencher<'_, '_>, policy: Policy) {
    let pool = pool(policy);
    let mut rng = fastrand::Rng::with_seed(1);
    let arrival = arrival(b"1-4711@198.51.100.7");
    bencher.bench_local(|| place_and_end(&pool, &arrival, &mut rng));
}

/// The same by two threads at once.
#[divan::bench(args = [Policy::Tlwl, Policy::RoundRobin], threads = 2, sample_size = 1_000)]
fn call_contended(bencher: Bencher<'_, '_>, policy: Policy) {
    let pool = pool(policy);
    let arrival = arrival(b"1-4711@198.51.100.7");
    bencher
        .with_inputs(|| fastrand::Rng::with_seed(1))
        .bench_refs(|rng| place_and_end(&pool, &arrival, rng));
}

fn place_and_end(pool: &Pool, arrival: &Arrival<'_>, rng: &mut fastrand::Rng) {
    if let Some(server) = pool.place(NOW, arrival, rng) {
        server.answered(NOW);
        server.close_transaction(Cost::INVITE);
        server.open_transaction(Cost::ONE);
        server.close_transaction(Cost::ONE);
        server.close_call();
    }
}

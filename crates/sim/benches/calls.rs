//! What a simulated call costs: caller, network, node and server together.

use std::time::Duration;

use balance::Policy;
use divan::{Bencher, counter::ItemsCount};
use load::{Law, Retransmission, ServerConfig, Service, Stream};
use node::config::Pool;
use sim::{Calls, Cluster, Digest, Link, ServerSetup, Setup, server_address};

/// Counts allocations: in the steady state a datagram makes none.
#[global_allocator]
static ALLOCATIONS: divan::AllocProfiler = divan::AllocProfiler::system();

const RATE: f64 = 2_000.0;
const WARM_UP: Duration = Duration::from_secs(40);
const MEASURED: Duration = Duration::from_secs(5);

fn main() {
    divan::main();
}

/// Eight servers behind one edge, calls of five seconds.
fn setup() -> Setup {
    let us = Duration::from_micros;
    let server = ServerSetup {
        config: ServerConfig {
            service: Service {
                invite: Law::Constant(us(1_450)),
                bye: Law::Constant(us(830)),
                other: Law::ZERO,
            },
            ..ServerConfig::prompt(server_address(0))
        },
        speed: 1.0,
        capacity: 1.0,
        is_spare: false,
    };
    Setup {
        edges: 1,
        edge_capacity: None,
        second: None,
        workers: 1,
        pool: Pool {
            name: "app".to_owned(),
            policy: Policy::Tlwl,
            costs: vec![("INVITE".to_owned(), 1.75)],
            learn_costs: false,
            servers: Vec::new(),
            probe: None,
            slow_start: Duration::ZERO,
            answer_timeout: Duration::from_secs(2),
            overload_control: false,
            learn_room: true,
        },
        servers: vec![server; 8],
        exchange: None,
        calls: Calls {
            rate: RATE,
            stream: Stream::Poisson,
            holding: Law::Normal {
                mean: Duration::from_secs(5),
                deviation: Duration::from_secs(2),
            },
            retransmission: Retransmission::Rfc3261,
        },
        link: Link::clean(us(100)),
    }
}

/// A cluster whose tables are as full as they get.
fn warm() -> Cluster {
    let mut cluster = Cluster::new(&setup(), 7).expect("the configuration is valid");
    cluster.world.run_until(WARM_UP, &mut ());
    cluster
}

fn messages() -> ItemsCount {
    let mut cluster = warm();
    let before = cluster.world.arrivals();
    cluster.world.run_until(WARM_UP + MEASURED, &mut ());
    ItemsCount::new(cluster.world.arrivals() - before)
}

/// Datagrams that arrive at any party.
#[divan::bench(sample_count = 5, sample_size = 1)]
fn datagrams(bencher: Bencher<'_, '_>) {
    bencher
        .counter(messages())
        .with_inputs(warm)
        .bench_local_refs(|cluster| cluster.world.run_until(WARM_UP + MEASURED, &mut ()));
}

/// The same with everything hashed.
#[divan::bench(sample_count = 5, sample_size = 1)]
fn digested(bencher: Bencher<'_, '_>) {
    bencher
        .counter(messages())
        .with_inputs(warm)
        .bench_local_refs(|cluster| {
            let mut digest = Digest::default();
            cluster.world.run_until(WARM_UP + MEASURED, &mut digest);
            digest.value()
        });
}

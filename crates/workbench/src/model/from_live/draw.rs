//! Makes a queueing model from what a node measured. Times are in milliseconds.

use capture::{Demand, customers};
use lqn::{Builder, CallOrder, Model, Multiplicity, Problem, Scheduling};

use super::seen::{Kind, Seen};

/// The time slice of a processor with several requests, in milliseconds; small against all service
/// times.
const QUANTUM_MS: f64 = 0.1;

/// The callers' own work for a call, which a node can't see. It is so small that it limits nothing.
/// It is not zero, because a call that happens to make no request would then take no time.
const CALLER_MS: f64 = 0.01;

/// The parameters that a node can't see.
pub(super) struct Machines {
    /// Of each server.
    pub(super) cores: u32,
    /// Of each server; if none, as many as the load needs.
    pub(super) threads: Option<u32>,
    /// Calls in the system at a time; if none, the number at which an answer takes T1.
    pub(super) customers: Option<u32>,
}

/// The demands of a call at the node's workers and at each pool's servers.
pub(super) fn demands(seen: &Seen, machines: &Machines) -> Vec<Demand> {
    let node = Demand::new("Pbalancer".to_owned(), seen.workers, seen.node_ms());
    let pools = seen
        .pools()
        .into_iter()
        .map(|(pool, (servers, demand_ms))| {
            Demand::new(processor(pool), servers * machines.cores, demand_ms)
        });
    [node].into_iter().chain(pools).collect()
}

/// Makes the model: callers send requests, the node works on each, then a server does. The node's
/// thread does not wait for the server.
pub(super) fn model(name: &str, seen: &Seen, machines: &Machines) -> Result<Model, Vec<Problem>> {
    let demands = demands(seen, machines);
    let mut builder = Builder::new(name);
    builder.processor("Pdriver", Scheduling::Delay);
    builder.processor("Pnull", Scheduling::Delay);
    for demand in &demands {
        let sharing = Scheduling::Sharing {
            quantum: QUANTUM_MS,
        };
        builder
            .processor(&demand.station, sharing)
            .multiplicity(demand.servers);
    }
    let customers = machines.customers.unwrap_or_else(|| customers(&demands));
    builder
        .reference("driver", "Pdriver")
        .multiplicity(Multiplicity::Finite(customers));
    builder
        .task("balancer_up", "Pnull")
        .multiplicity(Multiplicity::Infinite);
    builder
        .task("balancer", "Pbalancer")
        .multiplicity(Multiplicity::Finite(seen.workers));
    for (pool, (servers, _)) in seen.pools() {
        let threads = machines.threads.map(|threads| servers * threads);
        let threads = threads.map_or(Multiplicity::Infinite, Multiplicity::Finite);
        builder
            .task(&word(pool), &processor(pool))
            .multiplicity(threads);
    }
    let user = builder.entry("User", "driver").service(&[CALLER_MS]);
    for kind in &seen.kinds {
        user.calls(&entry("up", kind), &[kind.per_call]);
    }
    for kind in &seen.kinds {
        builder
            .entry(&entry("up", kind), "balancer_up")
            .order(&[CallOrder::Deterministic])
            .calls(&entry("c", kind), &[1.0])
            .calls(&entry("server", kind), &[1.0]);
        builder
            .entry(&entry("c", kind), "balancer")
            .service(&[seen.request.mean_ms]);
        builder
            .entry(&entry("server", kind), &word(&kind.pool))
            .service(&[kind.response.mean_ms]);
    }
    builder.build()
}

fn entry(part: &str, kind: &Kind) -> String {
    format!("{part}_{}_{}", word(&kind.method), word(&kind.pool))
}

fn processor(pool: &str) -> String {
    format!("P{}", word(pool))
}

/// Changes a name to one that a model's file can hold.
fn word(name: &str) -> String {
    let letter = |letter: char| match letter.is_ascii_alphanumeric() {
        true => letter,
        false => '_',
    };
    name.chars().map(letter).collect()
}

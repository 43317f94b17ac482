//! More than an edge can serve, as a fault.

use std::time::Duration;

use fastrand::Rng;
use node::Shared;

use super::fault::Fault;
use crate::Pace;

/// Sets what is drawn here apart from the rest of the plan.
const OWN_STREAM: u64 = 0x7375_7267_6573;

/// One in this many of the seeds that may be has edges with a slow processor.
const SLOW: u32 = 3;

/// Messages of a call.
const MESSAGES: f64 = 6.0;

/// Draws a processor for the edges, and surges beyond what it can serve, of its callers.
pub(super) fn draw(
    seed: u64,
    edges: usize,
    until: Duration,
    faults: &mut Vec<(Duration, Fault)>,
) -> Option<Pace> {
    let mut rng = Rng::with_seed(seed ^ OWN_STREAM);
    if rng.u32(..SLOW) != 0 {
        return None;
    }
    let serve = Duration::from_micros(rng.u64(300..1_500));
    for _ in 0..rng.usize(1..=3) {
        let times = 1.5 + 8.5 * rng.f64();
        let rate = times / (serve.as_secs_f64() * MESSAGES);
        let lasting = Duration::from_millis(rng.u64(200..4_000));
        let at = until.mul_f64(rng.f64());
        faults.push((at, Fault::Surge(rng.usize(..edges), rate, lasting)));
    }
    faults.sort_by_key(|(at, _)| *at);
    Some(Pace {
        filter: Duration::from_millis(rng.u64(1..15)),
        buffer: rng.usize(256..4_096),
        ..Pace::of(serve)
    })
}

/// Whether a node serves all that comes.
///
/// # Errors
/// What it still does of an overload.
pub(super) fn is_over(shared: &Shared, now: Duration) -> Result<(), String> {
    if shared.neighbours().is_over() {
        return Err("an edge still divides its capacity".to_owned());
    }
    for (number, worker) in shared.workers().iter().enumerate() {
        if worker.shares() != [1.0; 2] {
            let shares = worker.shares();
            return Err(format!(
                "worker {number} still keeps requests out: {shares:?}"
            ));
        }
    }
    for member in shared.snapshot().members().iter().flatten() {
        if let Some(limit) = member.unanswered_max(now) {
            let address = member.address;
            return Err(format!("{address} still gets {limit} requests at a time"));
        }
    }
    Ok(())
}

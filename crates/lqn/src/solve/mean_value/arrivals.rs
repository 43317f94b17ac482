//! How evenly requests arrive at a processor.
//!
//! Requests leave a full processor as evenly as it serves. At the next processor they wait less, or
//! more, than random arrivals do, by the variation of arrivals in Whitt's queueing network analyzer
//! (1983).

use super::{
    flow::{Network, Visit},
    loads::Loads,
};
use crate::model::{CallKind, EntryId};

/// Ways of a chain from one processor to the next, as often as in a run.
pub(super) struct Routes {
    /// By processor left, then by processor reached.
    flows: Vec<Vec<f64>>,
}

/// Steps without a processor on the way, at most.
const STEPS_MAX: usize = 100;

/// Rounds after which variations change no more.
const SWEEPS: usize = 10;

/// Shares of a way below this are not followed.
const NEGLIGIBLE: f64 = 1e-9;

impl Routes {
    pub(super) fn new(network: &Network<'_>, chain: usize) -> Self {
        let places = 0..network.visits.len();
        let steps: Vec<_> = places.map(|place| steps(network, chain, place)).collect();
        let processors = 0..network.model.processors.len();
        let flows = processors.map(|from| ways(network, &steps, chain, from));
        Self {
            flows: flows.collect(),
        }
    }
}

/// A visit, and the chance that it is next.
type Step = (usize, f64);

/// Where a chain goes from a processor, as often as in a run: by the processor reached.
fn ways(network: &Network<'_>, steps: &[Vec<Step>], chain: usize, from: usize) -> Vec<f64> {
    let mut there = vec![0.0; network.visits.len()];
    let (mut time, mut slices) = (0.0, 0.0);
    for (place, visit) in network.visits.iter().enumerate() {
        if visit.chain == chain && visit.processor.0 == from && visit.queues(network) {
            time += visit.number * visit.time();
            slices += visit.departures();
            spread(&mut there, &steps[place], visit.departures());
        }
    }
    let mut reached = vec![0.0; network.model.processors.len()];
    for _ in 0..STEPS_MAX {
        let mut onward = vec![0.0; network.visits.len()];
        let shares = there.iter().enumerate();
        for (place, &share) in shares.filter(|(_, share)| **share > NEGLIGIBLE) {
            let visit = &network.visits[place];
            if visit.queues(network) {
                reached[visit.processor.0] += share;
                continue;
            }
            // A delay that is long beside the distances makes arrivals random.
            let distance = time / slices;
            let delay = visit.time() * visit.number / visit.departures();
            let evenly = share * distance / (distance + delay);
            spread(&mut onward, &steps[place], evenly);
        }
        there = onward;
    }
    reached
}

/// By processor: the wait for what is in service, relatively to that of random arrivals.
pub(super) fn unevenness(network: &Network<'_>, loads: &Loads) -> Vec<f64> {
    let servers: Vec<Service> = (0..network.model.processors.len())
        .map(|processor| Service::of(network, loads, processor))
        .collect();
    let flow = |from: usize, to: usize| -> f64 {
        let flows = network.routes.iter().zip(&loads.rates);
        flows
            .map(|(routes, rate)| rate * routes.flows[from][to])
            .sum()
    };
    // Who comes back at once is no arrival.
    let new: Vec<f64> = servers
        .iter()
        .enumerate()
        .map(|(place, server)| (server.rate - flow(place, place)).max(0.0))
        .collect();
    let known: Vec<usize> = (0..servers.len())
        .filter(|&place| new[place] > 0.0)
        .collect();
    let weights: Vec<Vec<(usize, f64)>> = known
        .iter()
        .map(|&to| {
            let flows = known.iter().filter(|&&from| from != to);
            let flows = flows.map(|&from| (from, flow(from, to)));
            flows
                .filter(|(_, flow)| *flow > 0.0)
                .map(|(from, flow)| (from, flow / new[to] * flow / servers[from].rate))
                .collect()
        })
        .collect();
    // By how much the variations of arrivals and departures differ from one.
    let mut arrivals = vec![0.0; servers.len()];
    for _ in 0..SWEEPS {
        let departures: Vec<f64> = servers
            .iter()
            .zip(&arrivals)
            .map(|(server, arrivals)| server.departures(*arrivals))
            .collect();
        for (&to, weights) in known.iter().zip(&weights) {
            let added = weights
                .iter()
                .map(|&(from, weight)| weight * departures[from]);
            arrivals[to] = added.sum::<f64>().max(-1.0);
        }
    }
    let unevenness = |(server, arrivals): (&Service, f64)| 1.0 + arrivals / (1.0 + server.cvsq);
    servers.iter().zip(arrivals).map(unevenness).collect()
}

/// What a processor does.
struct Service {
    servers: f64,
    is_sharing: bool,
    /// Servers at work.
    busy: f64,
    /// Of those who go on.
    rate: f64,
    cvsq: f64,
}

impl Service {
    fn of(network: &Network<'_>, loads: &Loads, processor: usize) -> Self {
        let (mut servers, mut is_sharing, mut rate_on) = (1.0, false, 0.0);
        let (mut number, mut busy, mut square) = (0.0, 0.0, 0.0);
        for (place, visit) in network.visits.iter().enumerate() {
            if visit.processor.0 != processor || !visit.queues(network) {
                continue;
            }
            servers = network.servers(visit.processor);
            is_sharing = network.is_sharing(visit.processor);
            let rate = loads.rate(network, place);
            rate_on += rate * visit.departures() / visit.number;
            busy += rate * visit.time();
            // Phases without calls follow each other at once.
            let is_whole = visit.phases.iter().all(|demand| demand.slices == 1.0);
            let variance: f64 = visit
                .phases
                .iter()
                .map(|demand| demand.time * demand.time * demand.cvsq)
                .sum();
            if is_whole {
                number += rate;
                square += rate * (variance + visit.time() * visit.time());
            } else {
                for demand in &visit.phases {
                    let slice = demand.time / demand.slices;
                    number += rate * demand.slices;
                    square += rate * demand.slices * slice * slice * (1.0 + demand.cvsq);
                }
            }
        }
        Self {
            servers,
            is_sharing,
            busy,
            rate: rate_on,
            cvsq: if busy > 0.0 {
                number * square / (busy * busy) - 1.0
            } else {
                1.0
            },
        }
    }

    /// By how much the variation of departures differs from one, if that of arrivals differs by so much.
    fn departures(&self, arrivals: f64) -> f64 {
        let used = (self.busy / self.servers).min(1.0);
        let served = if self.is_sharing {
            0.0
        } else {
            (self.cvsq - 1.0) / self.servers.sqrt()
        };
        used * used * served + (1.0 - used * used) * arrivals
    }
}

impl Visit {
    /// Whether it may wait for its processor.
    fn queues(&self, network: &Network<'_>) -> bool {
        self.time() > 0.0 && network.servers(self.processor).is_finite()
    }

    /// How often in a run somebody goes on from it to elsewhere.
    fn departures(&self) -> f64 {
        self.number * self.phases[0].slices
    }
}

fn spread(there: &mut [f64], steps: &[Step], share: f64) {
    for &(place, chance) in steps {
        there[place] += share * chance;
    }
}

/// Where a customer goes after a slice of a visit, with which chance: to an entry that is called, or back to the caller.
/// What comes after a run, or after a reply, is left out: it is as random as the think time.
fn steps(network: &Network<'_>, chain: usize, place: usize) -> Vec<Step> {
    let visit = &network.visits[place];
    if visit.chain != chain {
        return Vec::new();
    }
    let slices = visit.phases[0].slices;
    let mut steps: Vec<_> = called(network, visit)
        .filter_map(|(entry, mean)| Some((network.visit_of[chain][entry.0]?, mean / slices)))
        .collect();
    let callers = network.visits.iter().enumerate();
    let callers: Vec<(usize, f64)> = callers
        .filter(|(_, caller)| caller.chain == chain)
        .flat_map(|(from, caller)| {
            let calls = called(network, caller).filter(|(entry, _)| *entry == visit.entry);
            calls.map(move |(_, mean)| (from, caller.number * mean))
        })
        .collect();
    let calls: f64 = callers.iter().map(|(_, number)| number).sum();
    steps.extend(
        callers
            .iter()
            .map(|(from, number)| (*from, number / calls / slices)),
    );
    steps
}

/// Whom a visit waits for before it replies.
fn called(network: &Network<'_>, visit: &Visit) -> impl Iterator<Item = (EntryId, f64)> {
    let calls = network.model[visit.entry].phases[0].calls.iter();
    let waited = calls.filter(|call| call.kind == CallKind::Synchronous);
    waited.map(|call| (call.target, call.mean))
}

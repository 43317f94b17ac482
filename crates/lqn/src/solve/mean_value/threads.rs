//! How a thread limit splits a task's requests into those in service and those in wait.
//!
//! Mean values don't say how often there are more requests than threads. Of a closed chain whose customers queue at
//! stations they do: those who hold or want a thread are one class, the others another, and mean value analysis over all
//! pairs of populations says how fast customers change between them. The number of either is a birth and death process
//! then (Chandy, Herzog and Woo 1975), exactly so for a product form without the limit; with it, those without
//! a thread wait where they are.

use super::{
    arrivals,
    flow::{Network, Visit},
    loads::Loads,
};
use crate::model::{ProcessorId, TaskId};

/// What a limit does to the requests of its task.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Split {
    /// Requests in wait for one in service.
    pub(super) waiting: f64,
    /// By visit: of the others who hold a thread there, with a customer less, those who leave one for oneself.
    pub(super) freedom: Vec<f64>,
}

/// Where customers queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Processor(ProcessorId),
    /// A task with a single thread, whatever its requests do.
    Thread(TaskId),
}

/// A queue, and what a run of the chain asks of it.
struct Station {
    place: Place,
    inside: f64,
    outside: f64,
    /// Numbers, means and second moments of the slices that are served one after the other.
    slices: [f64; 3],
    /// Of arrivals.
    unevenness: f64,
}

/// A chain's demands, with and without a thread of one task.
#[derive(Default)]
struct Demands {
    stations: Vec<Station>,
    inside: f64,
    outside: f64,
}

/// By limit, at this population of the only closed chain; none where mean values have to do. `loads` tell
/// what requests that nobody waits for leave of the processors.
pub(super) fn splits(network: &Network<'_>, loads: &Loads, customers: u32) -> Vec<Option<Split>> {
    let of_limit = |limit| {
        let threads = network.threads(network.limits[limit]);
        let is_known = threads > 1.0 && threads < f64::from(customers) && is_plain(network, limit);
        is_known.then(|| {
            let demands = Demands::new(network, loads, limit);
            let numbers = demands.split(customers as usize, threads as usize);
            let freedom = |visit: usize| {
                let station = demands.find(station(network, visit, limit));
                station.map_or(1.0, |station| numbers.freedom[station])
            };
            Split {
                waiting: numbers.waiting,
                freedom: (0..network.visits.len()).map(freedom).collect(),
            }
        })
    };
    (0..network.limits.len()).map(of_limit).collect()
}

/// Whether only customers hold a task's threads, and not after the reply.
fn is_plain(network: &Network<'_>, limit: usize) -> bool {
    let mut holding = network
        .visits
        .iter()
        .filter(|visit| visit.holds[limit] > 0.0);
    holding.all(|visit| {
        let is_own = visit.task == network.limits[limit];
        network.chains[visit.chain].is_closed() && !(is_own && visit.phases.len() > 1)
    })
}

impl Demands {
    fn new(network: &Network<'_>, loads: &Loads, limit: usize) -> Self {
        let mut demands = Self::default();
        let unevenness = arrivals::unevenness(network, loads);
        for (place, visit) in network.visits.iter().enumerate() {
            let model = &network.model[visit.entry];
            let (chain, held) = (&network.chains[visit.chain], visit.holds[limit]);
            if !chain.is_closed() {
                continue;
            }
            let mut delay = model
                .phases
                .iter()
                .map(|phase| phase.think_time)
                .sum::<f64>();
            if chain.root == visit.entry {
                delay += chain.think_time;
            }
            let servers = network.servers(visit.processor);
            let work = visit.time() * visit.number;
            let room = 1.0 - loads.open_share(network, visit.processor);
            // Seidmann, Schweitzer and Shalev-Oren 1987: several servers are a faster one and a delay.
            let queued = if servers.is_finite() {
                work / servers / room
            } else {
                0.0
            };
            let delay = delay * visit.number + work - queued * room;
            demands.inside += delay * held;
            demands.outside += delay * (1.0 - held);
            if queued > 0.0 {
                let station = demands.station(station(network, place, limit));
                station.inside += queued * held;
                station.outside += queued * (1.0 - held);
                if !network.is_sharing(visit.processor) {
                    station.add_slices(visit);
                    station.unevenness = unevenness[visit.processor.0];
                }
            }
        }
        demands
    }

    fn find(&self, place: Place) -> Option<usize> {
        self.stations
            .iter()
            .position(|station| station.place == place)
    }

    fn station(&mut self, place: Place) -> &mut Station {
        let found = self.find(place).unwrap_or_else(|| {
            self.stations.push(Station {
                place,
                inside: 0.0,
                outside: 0.0,
                slices: [0.0; 3],
                unevenness: 1.0,
            });
            self.stations.len() - 1
        });
        &mut self.stations[found]
    }

    /// What becomes of so many customers, with so many threads.
    fn split(&self, customers: usize, threads: usize) -> Numbers {
        let flows = Flows::new(self, customers, threads);
        let all = flows.chances(customers, threads);
        let fewer = flows.chances(customers - 1, threads);
        let mean = |number: &dyn Fn(usize) -> usize| -> f64 {
            let numbers = all.iter().enumerate();
            numbers
                .map(|(there, chance)| chance * number(there) as f64)
                .sum()
        };
        let served = mean(&|there| there.min(threads));
        let waiting = mean(&|there| there.saturating_sub(threads));
        let at_station = |station: usize| {
            let held = |threads: usize| -> f64 {
                let numbers = fewer.iter().enumerate();
                let held = numbers.map(|(there, chance)| {
                    chance * flows.held[there.min(threads)][customers - 1 - there][station]
                });
                held.sum()
            };
            held(threads - 1) / held(threads).max(f64::MIN_POSITIVE)
        };
        Numbers {
            waiting: waiting / served.max(f64::MIN_POSITIVE),
            freedom: (0..self.stations.len()).map(at_station).collect(),
        }
    }
}

impl Station {
    fn add_slices(&mut self, visit: &Visit) {
        for demand in &visit.phases {
            let (number, slice) = (visit.number * demand.slices, demand.time / demand.slices);
            let moments = [1.0, slice, slice * slice * (1.0 + demand.cvsq)];
            for (sum, moment) in self.slices.iter_mut().zip(moments) {
                *sum += number * moment;
            }
        }
    }

    /// What is left of the slice in service when somebody comes, beyond a mean slice, relatively to one.
    fn rest(&self) -> f64 {
        let [number, time, square] = self.slices;
        if time > 0.0 && matches!(self.place, Place::Processor(_)) {
            self.unevenness * square * number / (2.0 * time * time) - 1.0
        } else {
            0.0
        }
    }
}

/// Where a visit queues: at the single thread that it holds, else at its processor.
fn station(network: &Network<'_>, place: usize, limit: usize) -> Place {
    let visit = &network.visits[place];
    let limits = network.limits.iter().zip(&visit.holds).enumerate();
    let mut single = limits.filter(|&(other, (&task, &held))| {
        other != limit && held > 0.999 && network.threads(task) == 1.0
    });
    match single.next_back() {
        Some((_, (&task, _))) => Place::Thread(task),
        None => Place::Processor(visit.processor),
    }
}

/// Like a [`Split`], with freedom by station.
struct Numbers {
    waiting: f64,
    freedom: Vec<f64>,
}

/// By the customers in a task, then in the rest.
struct Flows {
    /// Runs per unit of time through the task.
    inside: Vec<Vec<f64>>,
    /// And through the rest.
    outside: Vec<Vec<f64>>,
    /// Customers in the task, by station.
    held: Vec<Vec<Vec<f64>>>,
}

impl Flows {
    /// Mean value analysis of two classes (Reiser and Lavenberg 1980).
    fn new(demands: &Demands, customers: usize, threads: usize) -> Self {
        let mut flows = Self {
            inside: Vec::with_capacity(threads + 1),
            outside: Vec::with_capacity(threads + 1),
            held: Vec::with_capacity(threads + 1),
        };
        let stations = &demands.stations;
        let empty = vec![0.0; stations.len()];
        let rests: Vec<f64> = stations.iter().map(Station::rest).collect();
        // Mean slices of work, by the customers in the rest.
        let mut queues = vec![empty.clone(); customers + 1];
        for within in 0..=threads {
            let (mut inside, mut outside, mut held) = (Vec::new(), Vec::new(), Vec::new());
            let mut before = empty.clone();
            for (rest, queue) in queues.iter_mut().enumerate() {
                let times = |demand: fn(&Station) -> f64, queue: &[f64]| -> Vec<f64> {
                    let met = stations.iter().zip(queue);
                    met.map(|(station, queue)| demand(station) * (1.0 + queue))
                        .collect()
                };
                let times_inside = times(|station| station.inside, queue);
                let times_outside = times(|station| station.outside, &before);
                let rate = |number: usize, delay: f64, times: &[f64]| {
                    number as f64 / (delay + times.iter().sum::<f64>()).max(1e-12)
                };
                let flow_inside = rate(within, demands.inside, &times_inside);
                let flow_outside = rate(rest, demands.outside, &times_outside);
                let here: Vec<f64> = times_inside.iter().map(|time| flow_inside * time).collect();
                for (place, queue) in queue.iter_mut().enumerate() {
                    let station = &stations[place];
                    let busy = flow_inside * station.inside + flow_outside * station.outside;
                    *queue =
                        here[place] + flow_outside * times_outside[place] + rests[place] * busy;
                }
                held.push(here);
                inside.push(flow_inside);
                outside.push(flow_outside);
                before.clone_from(queue);
            }
            flows.inside.push(inside);
            flows.outside.push(outside);
            flows.held.push(held);
        }
        flows
    }

    /// Of so many customers at the task, from none to all.
    fn chances(&self, customers: usize, threads: usize) -> Vec<f64> {
        let mut chances = vec![1.0];
        for there in 1..=customers {
            let comes = self.outside[threads.min(there - 1)][customers - there + 1];
            let goes = self.inside[threads.min(there)][customers - there];
            let chance: f64 = chances[there - 1] * comes / goes;
            chances.push(chance);
            if chance > 1e100 {
                chances.iter_mut().for_each(|chance| *chance /= 1e100);
            }
        }
        let sum: f64 = chances.iter().sum();
        chances.iter_mut().for_each(|chance| *chance /= sum);
        chances
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without a limit the numbers are those of the product form: the sum over all states.
    #[test]
    fn numbers_are_those_of_a_product_form() {
        const CUSTOMERS: i32 = 12;
        let station = |inside, outside| Station {
            place: Place::Thread(TaskId(0)),
            inside,
            outside,
            slices: [0.0; 3],
            unevenness: 1.0,
        };
        let demands = Demands {
            stations: vec![station(2.6, 0.0), station(0.5, 2.8)],
            inside: 0.0,
            outside: 0.2,
        };
        let mut weights = vec![0.0; CUSTOMERS as usize + 1];
        for own in 0..=CUSTOMERS {
            for shared in 0..=CUSTOMERS - own {
                let away = CUSTOMERS - own - shared;
                let delay: f64 = (1..=away).map(|place| 0.2 / f64::from(place)).product();
                let weight = 2.6_f64.powi(own) * 3.3_f64.powi(shared) * delay;
                // Of those at the shared station so many are inside: a binomial number.
                let mut chance = (2.8_f64 / 3.3).powi(shared);
                for inside in 0..=shared {
                    weights[(own + inside) as usize] += weight * chance;
                    chance *= f64::from(shared - inside) / f64::from(inside + 1) * 0.5 / 2.8;
                }
            }
        }
        let sum: f64 = weights.iter().sum();
        let customers = CUSTOMERS as usize;
        let chances = Flows::new(&demands, customers, customers).chances(customers, customers);
        for (chance, weight) in chances.iter().zip(&weights) {
            assert!((chance - weight / sum).abs() < 1e-9, "{chances:?}");
        }
        let limited = demands.split(customers, 3);
        assert!(limited.waiting > 0.5 && limited.freedom.iter().all(|&freedom| freedom < 0.9));
    }
}

//! How often chains run: as often as they want to, unless threads or processors have no room.

use super::{
    flow::{Network, Server, Visit},
    loads::{Loads, NEARLY_ALL, relax},
};
use crate::model::{CallKind, ProcessorId};

impl Loads {
    /// Rates of the chains.
    pub(super) fn flow(&mut self, network: &Network<'_>, relaxation: f64) {
        let offered: Vec<f64> = (0..network.chains.len())
            .map(|chain| self.offered(network, chain))
            .collect();
        for (rate, &offered) in self.rates.iter_mut().zip(&offered) {
            relax(rate, offered, relaxation);
        }
        self.cap_at_threads(network);
        self.cap_at_processors(network);
        self.note_lost(network, &offered);
        self.cap_customers(network);
    }

    /// What a chain would do if there were room.
    fn offered(&self, network: &Network<'_>, chain: usize) -> f64 {
        let what = &network.chains[chain];
        if what.is_closed() {
            let time = what.think_time + self.response(network, chain, what.root);
            return what.customers / time.max(f64::MIN_POSITIVE);
        }
        let mut rate = what.arrivals;
        for visit in &network.visits {
            let calls = network.model[visit.entry]
                .phases
                .iter()
                .flat_map(|phase| &phase.calls);
            let sends = calls
                .filter(|call| call.kind == CallKind::Asynchronous && call.target == what.root);
            rate +=
                self.rates[visit.chain] * visit.number * sends.map(|call| call.mean).sum::<f64>();
        }
        rate
    }

    /// Requests that nobody waits for get what threads have left.
    fn cap_at_threads(&mut self, network: &Network<'_>) {
        for &task in &network.limits {
            let on_it = |place: &usize| network.visits[*place].task == task;
            let places: Vec<usize> = (0..network.visits.len()).filter(on_it).collect();
            let busy = |places: &mut dyn Iterator<Item = &usize>| -> f64 {
                places
                    .map(|&place| self.rate(network, place) * self.visits[place].whole())
                    .sum()
            };
            let open = |place: &&usize| {
                is_stream(network, &network.visits[**place])
                    && network.chains[network.visits[**place].chain].root
                        == network.visits[**place].entry
            };
            let wanted = busy(&mut places.iter().filter(open));
            let others = busy(&mut places.iter().filter(|place| !open(place)));
            let room = (network.threads(task) - others).max(0.01 * network.threads(task));
            let mut factor = (room / wanted).min(1.0);
            if let Some(length) = network.model[task].queue_length {
                factor = factor.min(accepted(
                    wanted / room * network.threads(task),
                    network.threads(task),
                    length,
                ));
            }
            if wanted > 0.0 && factor < 1.0 {
                for &place in places.iter().filter(open) {
                    self.rates[network.visits[place].chain] *= factor;
                }
            }
        }
    }

    /// Requests that nobody waits for get what processors have left.
    fn cap_at_processors(&mut self, network: &Network<'_>) {
        for (processor, _) in network.model.processors.iter().enumerate() {
            let processor = ProcessorId(processor);
            let (mut wanted, mut others) = (0.0, 0.0);
            for (place, visit) in network
                .visits
                .iter()
                .enumerate()
                .filter(|(_, visit)| visit.processor == processor)
            {
                let work = self.rate(network, place) * visit.time();
                // Customers who hold no thread give way: they wait for longer.
                if is_stream(network, visit) && !visit.is_limited() {
                    wanted += work;
                } else if visit.is_limited() {
                    others += work;
                }
            }
            let room = network.servers(processor) * NEARLY_ALL - others;
            if wanted > 0.0 && wanted > room {
                let factor = room.max(0.01 * network.servers(processor)) / wanted;
                for chain in 0..network.chains.len() {
                    let visits = network.visits.iter().filter(|visit| visit.chain == chain);
                    let mut on_it =
                        visits.filter(|visit| visit.processor == processor && !visit.is_limited());
                    if !network.chains[chain].is_closed() && on_it.any(|visit| visit.time() > 0.0) {
                        self.rates[chain] *= factor;
                    }
                }
            }
        }
    }

    /// Notes how many of the requests that nobody waits for are turned away.
    fn note_lost(&mut self, network: &Network<'_>, offered: &[f64]) {
        for (chain, offered) in offered
            .iter()
            .enumerate()
            .filter(|(chain, _)| !network.chains[*chain].is_closed())
        {
            let lost = offered - self.rates[chain];
            self.lost[chain] = if lost > 1e-4 * offered { lost } else { 0.0 };
        }
    }

    /// Customers go no faster than the servers, and wait where they are held up.
    fn cap_customers(&mut self, network: &Network<'_>) {
        for chain in (0..network.chains.len()).filter(|&chain| network.chains[chain].is_closed()) {
            let Some((server, excess)) = self.most_overloaded(network, chain) else {
                continue;
            };
            let what = &network.chains[chain];
            let rate = self.rates[chain] / excess;
            let time = what.think_time + self.response(network, chain, what.root);
            let extra = (what.customers / rate - time).max(0.0);
            self.rates[chain] = rate;
            let places = |visit: &Visit| visit.chain == chain && server.is_of(visit);
            let visits: f64 = network
                .visits
                .iter()
                .filter(|visit| places(visit))
                .map(|visit| visit.number)
                .sum();
            for (load, visit) in self
                .visits
                .iter_mut()
                .zip(&network.visits)
                .filter(|(_, visit)| places(visit))
            {
                match server {
                    Server::Task(_) => load.wait += extra / visits,
                    Server::Processor(_) => load.residence[0] += extra / visits,
                }
                debug_assert!(visit.number > 0.0);
            }
            self.hold(network);
        }
    }

    fn most_overloaded(&self, network: &Network<'_>, chain: usize) -> Option<(Server, f64)> {
        let own = network.visits.iter().filter(|visit| visit.chain == chain);
        let tasks = own.clone().map(|visit| Server::Task(visit.task));
        let tasks = tasks
            .filter(|server| matches!(server, Server::Task(task) if network.limits.contains(task)));
        let servers = own
            .map(|visit| Server::Processor(visit.processor))
            .chain(tasks);
        let loads = servers.map(|server| {
            let visits = network
                .visits
                .iter()
                .enumerate()
                .filter(|(_, visit)| server.is_of(visit));
            let (room, busy): (f64, f64) = match server {
                Server::Task(task) => (
                    network.threads(task),
                    visits
                        .map(|(place, _)| self.rate(network, place) * self.visits[place].whole())
                        .sum(),
                ),
                Server::Processor(processor) => (
                    network.servers(processor),
                    visits
                        .map(|(place, visit)| self.rate(network, place) * visit.time())
                        .sum(),
                ),
            };
            (server, busy / room)
        });
        loads
            .filter(|(_, excess)| *excess > 1.0)
            .max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

/// Whether its chain is of requests that nobody waits for.
fn is_stream(network: &Network<'_>, visit: &Visit) -> bool {
    !network.chains[visit.chain].is_closed()
}

/// The share of requests let in by servers with a bounded queue, all times exponential.
fn accepted(offered: f64, servers: f64, queue: u32) -> f64 {
    let places = servers as u32 + queue;
    let (mut weight, mut sum) = (1.0_f64, 1.0);
    for number in 1..=places {
        weight *= offered / f64::from(number).min(servers);
        sum += weight;
        if sum > 1e100 {
            weight /= sum;
            sum = 1.0;
        }
    }
    1.0 - weight / sum
}

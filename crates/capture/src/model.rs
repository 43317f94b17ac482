//! Makes a layered queueing network from the times of a flow. Times are in milliseconds, rates in
//! calls per millisecond.

use std::collections::BTreeSet;

use lqn::{Builder, CallOrder, EntryDraft, Model, Multiplicity, Problem, Scheduling};

use crate::{
    Link, Role, Sample, Study,
    work::{Part, Work},
};

/// The time after which a request is retransmitted: T1 (RFC 3261 §17.1.1.1), in milliseconds.
const T1_MS: f64 = 500.0;
/// The customers of a model whose servers cost nothing.
const CUSTOMERS_MAX: f64 = 1_000.0;
/// The time slice of a processor with several requests, in milliseconds; small against all service
/// times.
const QUANTUM_MS: f64 = 0.1;

/// The parameters that a capture does not show.
#[derive(Clone, Debug, Default)]
pub struct Machines {
    /// The share of its time in which the network can carry packets, from 0 to 1; for all links, or
    /// for the one between two roles.
    pub network_utilisation: Vec<(Option<(Role, Role)>, f64)>,
    /// Threads of each node of a role; if not given, as many as the load needs.
    pub threads: Vec<(Role, u32)>,
    /// Processor cores of each node of a role; if not given, 1.
    pub cores: Vec<(Role, u32)>,
    /// Measured processor time of a call at a role, in milliseconds. The rest of the captured times
    /// then counts as waiting.
    pub processor_ms: Vec<(Role, f64)>,
    /// Calls in the system at a time. If not given, the number at which an answer takes T1: with
    /// more, requests are retransmitted, which limits a system's throughput.
    pub customers: Option<u32>,
}

/// The demand of a call at a station, and how many calls the station carries.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// The station's name in the model.
    pub station: String,
    /// How many calls the station serves in parallel.
    pub servers: u32,
    /// Of a call, in milliseconds.
    pub demand_ms: f64,
    /// The most calls per second that the station can carry.
    pub calls_per_s: f64,
}

impl Study {
    /// Makes the model of the measured flow.
    ///
    /// # Errors
    /// If the model is invalid, for example because a utilisation is out of range.
    pub fn model(&self, name: &str, machines: &Machines) -> Result<Model, Vec<Problem>> {
        Drawing {
            study: self,
            machines,
        }
        .model(name)
    }

    /// The demand of a call at each processor and in the network, in the order of the call's way.
    #[must_use]
    pub fn demands(&self, machines: &Machines) -> Vec<Demand> {
        Drawing {
            study: self,
            machines,
        }
        .demands()
    }
}

/// The number of calls in the system at which an answer takes T1. With more, requests are
/// retransmitted, which limits a real system's throughput.
#[must_use]
pub fn customers(demands: &[Demand]) -> u32 {
    let slowest = demands
        .iter()
        .map(|demand| demand.demand_ms / f64::from(demand.servers));
    let customers = T1_MS / slowest.fold(0.0, f64::max);
    customers.clamp(2.0, CUSTOMERS_MAX).ceil() as u32
}

/// A model under construction.
struct Drawing<'s> {
    study: &'s Study,
    machines: &'s Machines,
}

impl Drawing<'_> {
    fn model(&self, name: &str) -> Result<Model, Vec<Problem>> {
        let mut builder = Builder::new(name);
        self.add_processors(&mut builder);
        self.add_tasks(&mut builder);
        for (work, time) in self.study.works.iter().zip(&self.study.times) {
            let entry = builder.entry(&work.name, &self.task(work.place, work.part));
            self.draw(entry, work, time);
        }
        for (link, time) in self.measured_links() {
            let entry = builder.entry(&self.packet_entry(link), "net");
            entry.service(&self.packet_phases(link, time));
        }
        builder.build()
    }

    fn add_processors(&self, builder: &mut Builder) {
        builder.processor("Pdriver", Scheduling::Delay);
        for station in self.stations() {
            builder
                .processor(
                    &self.processor(station),
                    Scheduling::Sharing {
                        quantum: QUANTUM_MS,
                    },
                )
                .multiplicity(self.cores(station));
        }
        if self.places() > 2 {
            builder.processor("Pnull", Scheduling::Delay);
        }
        if self.measured_links().next().is_some() {
            builder.processor("Network", Scheduling::Fcfs);
        }
    }

    fn add_tasks(&self, builder: &mut Builder) {
        let customers = Multiplicity::Finite(self.customers());
        builder
            .reference("driver", "Pdriver")
            .multiplicity(customers);
        let has = |station, part| {
            let mut works = self.study.works.iter();
            works.any(|work| (self.station(work.place), work.part) == (station, part))
        };
        if has(0, Part::Port) {
            // It stands for ports, not for a thread: it must not limit anything.
            builder
                .task("driverports", "Pdriver")
                .multiplicity(Multiplicity::Infinite);
        }
        for station in self.stations() {
            for part in [Part::Up, Part::Down, Part::Fork, Part::Relay, Part::Server] {
                if !has(station, part) {
                    continue;
                }
                let (processor, threads) = match part {
                    Part::Up | Part::Down | Part::Fork => {
                        ("Pnull".to_owned(), Multiplicity::Infinite)
                    }
                    _ => (self.processor(station), self.threads(station)),
                };
                builder
                    .task(&self.task(station, part), &processor)
                    .multiplicity(threads);
            }
        }
        if self.measured_links().next().is_some() {
            builder.task("net", "Network");
        }
    }

    fn draw(&self, entry: &mut EntryDraft, work: &Work, time: &Sample) {
        let name = |&work: &usize| self.study.works[work].name.as_str();
        if work.part == Part::Fork {
            let awaited: Vec<&str> = work.synchronous.iter().map(name).collect();
            let sent: Vec<&str> = work.asynchronous.iter().map(name).collect();
            entry.forks(&awaited, &sent);
            return;
        }
        let share = self.processor_share(work.place);
        entry.service(&[rounded(time.mean() * share)]);
        if share < 1.0 {
            entry.think(&[rounded(time.mean() * (1.0 - share))]);
        }
        // A model with forks is simulated, and can keep to the numbers of calls that were seen.
        if self.study.works.iter().any(|work| work.part == Part::Fork) {
            entry.order(&[CallOrder::Deterministic]);
        }
        for (link, _) in self.measured_links() {
            let packets = work.packets[link.ends.1];
            if packets > 0 {
                entry.calls(&self.packet_entry(link), &[packets.into()]);
            }
        }
        for asked in work.synchronous.iter().map(name) {
            entry.calls(asked, &[1.0]);
        }
        for asked in work.asynchronous.iter().map(name) {
            entry.sends(asked, &[1.0]);
        }
    }

    /// A link is a server that is away after each service: s2 = s1 (1 - eta) / eta (paper, equation
    /// 1).
    fn packet_phases(&self, link: &Link, time: &Sample) -> Vec<f64> {
        let mean = rounded(time.mean().max(0.0));
        match self.utilisation(link) {
            Some(utilisation) => vec![mean, rounded(mean * (1.0 - utilisation) / utilisation)],
            None => vec![mean],
        }
    }

    fn demands(&self) -> Vec<Demand> {
        let processor = |station: usize| {
            let is_here = |place| self.station(place) == station;
            let demand_ms = self.time_where(is_here) * self.processor_share(station);
            Demand::new(self.processor(station), self.cores(station), demand_ms)
        };
        let mut demands: Vec<Demand> = self.stations().map(processor).collect();
        let network = self.measured_links().map(|(link, time)| {
            f64::from(link.packets) * self.packet_phases(link, time).iter().sum::<f64>()
        });
        let network: f64 = network.sum();
        if network > 0.0 {
            demands.push(Demand::new("Network".to_owned(), 1, network));
        }
        demands
    }

    fn customers(&self) -> u32 {
        let told = self.machines.customers;
        told.unwrap_or_else(|| customers(&self.demands()))
    }

    fn places(&self) -> usize {
        self.study.places.len()
    }

    fn role(&self, place: usize) -> Role {
        self.study.places[place].role
    }

    fn station(&self, place: usize) -> usize {
        self.study.places[place].station
    }

    /// The stations other than the driver.
    fn stations(&self) -> impl Iterator<Item = usize> {
        (1..self.places()).filter(|&place| self.station(place) == place)
    }

    /// The nodes of a station.
    fn nodes(&self, station: usize) -> u32 {
        let places = self.study.places.iter();
        let of_station = places.filter(|place| place.station == station);
        let nodes: BTreeSet<_> = of_station.flat_map(|place| &place.nodes).collect();
        nodes.len() as u32
    }

    /// For all nodes of a station together.
    fn cores(&self, station: usize) -> u32 {
        self.nodes(station) * told(&self.machines.cores, self.role(station)).unwrap_or(1)
    }

    fn threads(&self, station: usize) -> Multiplicity {
        match told(&self.machines.threads, self.role(station)) {
            Some(threads) => Multiplicity::Finite(self.nodes(station) * threads),
            None => Multiplicity::Infinite,
        }
    }

    /// The captured work of some places for a call, in milliseconds.
    fn time_where(&self, is_one: impl Fn(usize) -> bool) -> f64 {
        let works = self.study.works.iter().zip(&self.study.times);
        works
            .filter(|(work, _)| is_one(work.place))
            .map(|(_, time)| time.mean())
            .sum()
    }

    /// The processor's part of it.
    fn processor_share(&self, place: usize) -> f64 {
        let role = self.role(place);
        match told(&self.machines.processor_ms, role) {
            Some(cost) if place > 0 => {
                (cost / self.time_where(|at| self.role(at) == role)).min(1.0)
            }
            _ => 1.0,
        }
    }

    fn processor(&self, station: usize) -> String {
        format!("P{}", self.study.places[station].name)
    }

    fn task(&self, place: usize, part: Part) -> String {
        let name = &self.study.places[self.station(place)].name;
        match part {
            Part::User => "driver".to_owned(),
            Part::Port => "driverports".to_owned(),
            Part::Up => format!("{name}_up"),
            Part::Down => format!("{name}_down"),
            Part::Fork => format!("{name}_fork"),
            Part::Relay | Part::Server => name.clone(),
        }
    }

    fn packet_entry(&self, link: &Link) -> String {
        let [outer, inner] = [link.ends.0, link.ends.1].map(|place| &self.study.places[place].name);
        format!("net_{outer}_{inner}")
    }

    fn measured_links(&self) -> impl Iterator<Item = (&Link, &Sample)> {
        let links = self.study.links.iter();
        links.filter_map(|link| Some((link, link.packet_ms.as_ref()?)))
    }

    fn utilisation(&self, link: &Link) -> Option<f64> {
        let utilisations = &self.machines.network_utilisation;
        let of = |ends| utilisations.iter().rev().find(|(link, _)| *link == ends);
        let ends = [(link.outer, link.inner), (link.inner, link.outer)];
        let of_link = ends.into_iter().find_map(|ends| of(Some(ends)));
        of_link
            .or_else(|| of(None))
            .map(|(_, utilisation)| *utilisation)
    }
}

impl Demand {
    /// A station with this many servers, each of which carries one call's demand after the other.
    #[must_use]
    pub fn new(station: String, servers: u32, demand_ms: f64) -> Self {
        Self {
            station,
            servers,
            demand_ms,
            calls_per_s: 1e3 * f64::from(servers) / demand_ms,
        }
    }
}

fn told<T: Copy>(all: &[(Role, T)], role: Role) -> Option<T> {
    all.iter()
        .rev()
        .find(|(of, _)| *of == role)
        .map(|(_, value)| *value)
}

/// Rounds to a tenth of a microsecond, because the clocks of captures are not more precise.
fn rounded(ms: f64) -> f64 {
    (ms * 1e4).round() / 1e4
}

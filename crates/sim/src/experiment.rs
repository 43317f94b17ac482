//! One run of an experiment: a cluster warms up and is measured, and events happen during the
//! measurement.

use std::time::Duration;

use fastrand::Rng;
use load::Stats;
use node::{ReloadError, Transport, config::PoolServer, stats::Event};

use crate::{
    Cluster, Death, Occupancy, PartyId, Setup, Watch, occupancy::Observer, setup::server_address,
};

/// The parameters of an experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The parties.
    pub setup: Setup,
    /// The length of the warm-up.
    pub warm_up: Duration,
    /// The length of the measurement.
    pub measured: Span,
    /// The events during the measurement.
    pub actions: Vec<Action>,
    /// Servers whose speed changes all the time.
    pub noise: Option<Noise>,
    /// Whether the run counts the requests that other requests find at the first server.
    pub watches_occupancy: bool,
}

/// The length of the measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Span {
    /// So long.
    Time(Duration),
    /// The time in which this many calls start, at the rate of the experiment.
    Calls(u64),
}

/// An event, at a time after the warm-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Action {
    /// When.
    pub at: Duration,
    /// What happens.
    pub deed: Deed,
}

/// The possible events. Servers, edges and callers are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Deed {
    /// A party dies.
    Kill(Who, Death),
    /// A party that has died starts again.
    Restart(Who),
    /// No new calls go to a server.
    Drain(usize),
    /// They do again.
    Undrain(usize),
    /// The edges learn of a spare server and of its capacity.
    Add(usize, f64),
    /// Sets a server's speed, relative to speed 1.
    Speed(usize, f64),
    /// A server does nothing for so long.
    Stall(usize, Duration),
    /// Nothing passes between two parties.
    Cut(Who, Who),
    /// It does again.
    Mend(Who, Who),
}

/// A party by its number among those of its kind, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// An edge.
    Edge(usize),
    /// A server.
    Server(usize),
    /// A caller.
    Caller(usize),
}

/// The speed of each server is its own times 1 + `by` or 1 - `by`, drawn again after each interval
/// `every`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// The share by which the speed changes, below 1.
    pub by: f64,
    /// How often.
    pub every: Duration,
}

/// The results of the measurement, without the warm-up.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// How long the measurement lasted.
    pub time: Duration,
    /// The counters of the callers.
    pub calls: Stats,
    /// The calls that started at each server.
    pub placed: Vec<u64>,
    /// In-dialog requests at servers that do not know the dialog.
    pub strangers: u64,
    /// INVITEs that edges sent again to another server.
    pub failed_over: u64,
    /// Datagrams that arrived at a party.
    pub datagrams: u64,
    /// The requests that others found at the first server, if the run counted them.
    pub occupancy: Occupancy,
    /// The predicted rate of carried calls: [`Setup::predicted_per_s`].
    pub predicted_per_s: f64,
    /// The mean time that the processor of an edge was busy.
    pub edges_busy: Duration,
    /// The mean time that the processor of a node of the second stage was busy.
    pub nodes_busy: Duration,
    /// Datagrams that found a node's queue full.
    pub overflowed: u64,
}

/// Runs an experiment. The seed determines everything that happens.
///
/// # Errors
/// If an edge refuses its configuration.
pub fn run(experiment: &Experiment, seed: u64) -> Result<Outcome, ReloadError> {
    let mut run = Run::new(experiment, seed)?;
    let end = run.end();
    run.advance(end)?;
    Ok(run.outcome())
}

/// An experiment in progress, after its warm-up.
pub(crate) struct Run {
    cluster: Cluster,
    observer: Option<Observer>,
    /// When the warm-up ends.
    begin: Duration,
    measured: Duration,
    predicted_per_s: f64,
    /// The next last.
    actions: Vec<Action>,
    before: Outcome,
}

impl Run {
    pub(crate) fn new(experiment: &Experiment, seed: u64) -> Result<Self, ReloadError> {
        let setup = &experiment.setup;
        let mut cluster = Cluster::new(setup, seed)?;
        let begin = cluster.world.now() + experiment.warm_up;
        cluster.world.run_until(begin, &mut ());
        for &caller in &cluster.callers {
            drop(cluster.world.caller_mut(caller).stats_mut().take());
        }
        for &phones in &cluster.phones {
            drop(cluster.world.phones_mut(phones).stats_mut().take());
        }
        let measured = match experiment.measured {
            Span::Time(time) => time,
            Span::Calls(calls) => Duration::from_secs_f64(calls as f64 / setup.calls.rate),
        };
        let mut actions = experiment.actions.clone();
        if let Some(noise) = experiment.noise {
            actions.extend(noise.actions(setup, measured, seed));
        }
        actions.sort_by_key(|action| std::cmp::Reverse(action.at));
        let observer = experiment
            .watches_occupancy
            .then(|| Observer::new(cluster.servers[0], cluster.callers.clone()));
        let mut run = Self {
            cluster,
            observer,
            begin,
            measured,
            predicted_per_s: setup.predicted_per_s(),
            actions,
            before: Outcome::default(),
        };
        run.before = run.counts();
        Ok(run)
    }

    /// When the warm-up has ended.
    pub(crate) fn begin(&self) -> Duration {
        self.begin
    }

    /// When all has been measured.
    pub(crate) fn end(&self) -> Duration {
        self.begin + self.measured
    }

    /// Continues until `end`.
    pub(crate) fn advance(&mut self, end: Duration) -> Result<(), ReloadError> {
        while let Some(action) = self.actions.pop_if(|action| self.begin + action.at <= end) {
            self.run_until(self.begin + action.at);
            self.cluster.act(action.deed, &mut ())?;
        }
        self.run_until(end);
        Ok(())
    }

    fn run_until(&mut self, end: Duration) {
        match &mut self.observer {
            Some(observer) => self.cluster.world.run_until(end, observer),
            None => self.cluster.world.run_until(end, &mut ()),
        }
    }

    /// What has come of it so far.
    pub(crate) fn outcome(&self) -> Outcome {
        let (now, before) = (self.counts(), &self.before);
        let pairs = now.placed.iter().zip(&before.placed);
        Outcome {
            time: self.cluster.world.now() - self.begin,
            // A server or an edge that was started again counts from zero.
            placed: pairs
                .map(|(now, before)| now.saturating_sub(*before))
                .collect(),
            strangers: now.strangers.saturating_sub(before.strangers),
            failed_over: now.failed_over.saturating_sub(before.failed_over),
            datagrams: now.datagrams - before.datagrams,
            edges_busy: now.edges_busy.saturating_sub(before.edges_busy),
            nodes_busy: now.nodes_busy.saturating_sub(before.nodes_busy),
            overflowed: now.overflowed.saturating_sub(before.overflowed),
            predicted_per_s: self.predicted_per_s,
            occupancy: self
                .observer
                .as_ref()
                .map(|observer| observer.occupancy().clone())
                .unwrap_or_default(),
            calls: now.calls,
        }
    }

    fn counts(&self) -> Outcome {
        let Cluster {
            world,
            edges,
            nodes,
            servers,
            callers,
            phones,
        } = &self.cluster;
        let mut counts = Outcome {
            datagrams: world.arrivals(),
            ..Outcome::default()
        };
        for &caller in callers {
            counts.calls.add(world.caller(caller).stats());
        }
        for &phones in phones {
            counts.calls.add(world.phones(phones).stats());
        }
        for &server in servers {
            let stats = world.server(server).stats();
            counts.placed.push(stats.invites);
            counts.strangers += stats.strangers;
        }
        for &edge in edges {
            let workers = world.edge(edge).shared().workers();
            let moved = workers.iter().map(|worker| worker.event(Event::FailedOver));
            counts.failed_over += moved.sum::<u64>();
            counts.edges_busy += world.edge(edge).busy();
            counts.overflowed += world.edge(edge).lost();
        }
        for &node in nodes {
            counts.nodes_busy += world.edge(node).busy();
            counts.overflowed += world.edge(node).lost();
        }
        counts.edges_busy /= edges.len().max(1) as u32;
        counts.nodes_busy /= nodes.len().max(1) as u32;
        counts
    }
}

impl Cluster {
    /// Carries out an event.
    ///
    /// # Errors
    /// If an edge refuses its configuration.
    pub fn act(&mut self, deed: Deed, watch: &mut impl Watch) -> Result<(), ReloadError> {
        let now = self.world.now();
        match deed {
            Deed::Kill(who, death) => self.world.crash(self.party(who), death, watch),
            Deed::Restart(who) => self.world.restart(self.party(who), watch)?,
            Deed::Drain(server) => self.with_members(server, |member| member.drain()),
            Deed::Undrain(server) => self.with_members(server, |member| member.undrain(now)),
            Deed::Add(server, capacity) => self.add_server(server, capacity)?,
            Deed::Speed(server, speed) => {
                let server = self.servers[server];
                self.world.server_mut(server).set_speed(now, speed);
            }
            Deed::Stall(server, lasting) => {
                let server = self.servers[server];
                self.world.server_mut(server).stall(now, lasting);
            }
            Deed::Cut(one, other) | Deed::Mend(one, other) => {
                let (one, other) = (self.party(one), self.party(other));
                let is_cut = matches!(deed, Deed::Cut(..));
                self.world.network_mut().set_cut(one, other, is_cut);
            }
        }
        Ok(())
    }

    fn party(&self, who: Who) -> PartyId {
        match who {
            Who::Edge(number) => self.edges[number],
            Who::Server(number) => self.servers[number],
            Who::Caller(number) => self.callers[number],
        }
    }

    fn with_members(&self, server: usize, change: impl Fn(&balance::Server)) {
        for &edge in &self.edges {
            let snapshot = self.world.edge(edge).shared().snapshot();
            for member in snapshot.members().iter().flatten() {
                if member.address == server_address(server) {
                    change(&member.server);
                }
            }
        }
    }

    fn add_server(&self, server: usize, capacity: f64) -> Result<(), ReloadError> {
        for &edge in &self.edges {
            let shared = self.world.edge(edge).shared();
            let mut config = shared.snapshot().config().clone();
            for pool in &mut config.pools {
                pool.servers.push(PoolServer {
                    transport: Transport::Udp,
                    address: server_address(server),
                    host: None,
                    capacity,
                    cluster: None,
                    priority: 0,
                });
            }
            shared.reload(config, self.world.now())?;
        }
        Ok(())
    }
}

impl Noise {
    fn actions(self, setup: &Setup, measured: Duration, seed: u64) -> Vec<Action> {
        let mut rng = Rng::with_seed(seed.rotate_left(32));
        let mut actions = Vec::new();
        for (number, server) in setup.servers.iter().enumerate() {
            let mut at = self.every.mul_f64(rng.f64());
            while at < measured {
                let factor = 1.0 + if rng.bool() { self.by } else { -self.by };
                let deed = Deed::Speed(number, server.speed * factor);
                actions.push(Action { at, deed });
                at += self.every;
            }
        }
        actions
    }
}

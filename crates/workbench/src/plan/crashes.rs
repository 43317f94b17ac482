//! Tests a plan: real edges and emulated servers crash and are repaired, on virtual time.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use balance::Policy;
use fastrand::Rng;
use load::{Arrivals, CallerConfig, Law, Retransmission, ServerConfig, Stream};
use node::{
    Transport,
    config::{Config, Destination, Mode, Pool, PoolServer, Probe, Route},
};
use sim::{Calls, Death, Estimate, Link, PartyId, Setup, World, edge_address, server_address};

use super::availability::Nodes;
use crate::{
    parallel::{cores, try_each},
    progress::Progress,
};

/// The mean time of a repair. It is much longer than the seconds in which nodes notice a failure,
/// so that these matter little.
const REPAIR: Duration = Duration::from_secs(600);

/// How long a run lasts.
const RUN: Duration = Duration::from_secs(20 * 3600);

/// How often each caller makes a call. These calls decide if the system is available.
const SLOT: Duration = Duration::from_secs(20);

/// When a call starts within its slot. It must end before the next slot.
const BEGUN: Duration = Duration::from_secs(2);

/// Edges, clusters of servers, and callers: one caller for each cluster and edge.
struct Farm {
    world: World,
    members: Vec<Member>,
    /// The callers of each cluster, one for each edge.
    callers: Vec<Vec<PartyId>>,
    /// Edges that the load needs.
    needed: usize,
}

/// A node that crashes and is repaired at random times.
struct Member {
    id: PartyId,
    /// The mean time from a repair to the next crash; none if it does not crash.
    up: Option<Duration>,
    change_at: Duration,
}

/// The share of time in which enough edges carry calls to every cluster, over all runs.
///
/// # Errors
/// If an edge refuses its configuration.
pub(super) fn simulate(
    nodes: &Nodes,
    first: u32,
    backups: u32,
    runs: u64,
) -> Result<Estimate, String> {
    let (progress, done) = (Progress::new(), AtomicU64::new(0));
    let shares = try_each(cores(), 0..runs, |seed| {
        let share = Farm::new(nodes, first, backups, seed)?.share(seed)?;
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        progress.show_share("crashing and repairing", done as f64 / runs as f64);
        Ok(share)
    });
    shares.map(|shares| Estimate::of(&shares))
}

impl Farm {
    fn new(nodes: &Nodes, first: u32, backups: u32, seed: u64) -> Result<Self, String> {
        let (first, backups) = (first as usize, backups as usize);
        let mut world = World::new(seed, Link::clean(Duration::from_millis(1)));
        let clusters = 0..nodes.clusters as usize;
        let mut parties = Vec::new();
        for server in 0..clusters.len() * backups {
            let config = ServerConfig::prompt(server_address(server));
            parties.push((world.add_server(config), nodes.second));
        }
        for edge in 0..first {
            let edge = world.add_edge(edge_config(edge, clusters.len(), backups), 1);
            parties.push((edge.map_err(|error| error.to_string())?, nodes.first));
        }
        let callers = clusters.map(|cluster| {
            let caller = |edge| world.add_caller(caller_config(cluster, edge));
            (0..first).map(caller).collect()
        });
        let callers = callers.collect();
        let mut rng = Rng::with_seed(!seed);
        let members = parties.into_iter();
        let members = members.map(|(id, up)| Member::new(id, up, &mut world, &mut rng));
        Ok(Self {
            members: members.collect(),
            world,
            callers,
            needed: nodes.first_needed as usize,
        })
    }

    fn share(mut self, seed: u64) -> Result<f64, String> {
        let mut rng = Rng::with_seed(seed);
        let slots = RUN.div_duration_f64(SLOT) as u32;
        let mut available = 0;
        for slot in 1..=slots {
            self.pass(SLOT * (slot + 1) - BEGUN, &mut rng)?;
            available += u32::from(self.is_available());
        }
        Ok(f64::from(available) / f64::from(slots))
    }

    /// Advances time; nodes crash and come back.
    fn pass(&mut self, end: Duration, rng: &mut Rng) -> Result<(), String> {
        loop {
            let next = self
                .members
                .iter_mut()
                .min_by_key(|member| member.change_at);
            let Some(member) = next.filter(|member| member.change_at <= end) else {
                self.world.run_until(end, &mut ());
                return Ok(());
            };
            self.world.run_until(member.change_at, &mut ());
            member.change(&mut self.world, rng)?;
        }
    }

    /// Whether enough edges carried a call to each cluster since the last check.
    fn is_available(&mut self) -> bool {
        let mut all = true;
        for callers in &self.callers {
            let carries = |caller: &&PartyId| {
                let stats = self.world.caller_mut(**caller).stats_mut();
                stats.take().carried > 0
            };
            all &= callers.iter().filter(carries).count() >= self.needed;
        }
        all
    }
}

impl Member {
    /// Draws whether the node is up, as after a long time.
    fn new(id: PartyId, up: f64, world: &mut World, rng: &mut Rng) -> Self {
        if rng.f64() >= up {
            world.crash(id, Death::Machine, &mut ());
        }
        let mut member = Self {
            id,
            up: (up < 1.0).then(|| REPAIR.mul_f64(up / (1.0 - up))),
            change_at: Duration::ZERO,
        };
        member.change_at = member.next_change(world, rng);
        member
    }

    fn change(&mut self, world: &mut World, rng: &mut Rng) -> Result<(), String> {
        if world.is_up(self.id) {
            world.crash(self.id, Death::Machine, &mut ());
        } else {
            let restarted = world.restart(self.id, &mut ());
            restarted.map_err(|error| error.to_string())?;
        }
        self.change_at = self.next_change(world, rng);
        Ok(())
    }

    fn next_change(&self, world: &World, rng: &mut Rng) -> Duration {
        let mean = if world.is_up(self.id) {
            self.up
        } else {
            Some(REPAIR)
        };
        let lasting = mean.map_or(Duration::MAX, |mean| Law::Exponential(mean).sample(rng));
        world.now().saturating_add(lasting)
    }
}

/// An edge that has each cluster as a pool and sends it the requests for its domain.
fn edge_config(number: usize, clusters: usize, backups: usize) -> Config {
    let pool = |cluster: usize| Pool {
        name: domain(cluster),
        policy: Policy::Tlwl,
        costs: Vec::new(),
        learn_costs: false,
        servers: (cluster * backups..(cluster + 1) * backups)
            .map(|server| PoolServer {
                transport: Transport::Udp,
                address: server_address(server),
                host: None,
                capacity: 1.0,
                cluster: None,
                priority: 0,
            })
            .collect(),
        probe: Some(Probe {
            interval: Duration::from_secs(2),
            timeout: Duration::from_secs(1),
            fall: 2,
            rise: 2,
        }),
        slow_start: Duration::ZERO,
        answer_timeout: Duration::from_secs(1),
        overload_control: false,
        learn_room: false,
    };
    let route = |cluster: usize| Route {
        hosts: vec![domain(cluster)],
        ..Route::of_all(Destination::Pool(domain(cluster)), Mode::Stateless)
    };
    let pools: Vec<Pool> = (0..clusters).map(pool).collect();
    let setup = Setup {
        edges: number + 1,
        edge_capacity: None,
        second: None,
        workers: 1,
        pool: pools[0].clone(),
        servers: Vec::new(),
        exchange: None,
        calls: Calls {
            rate: 1.0 / SLOT.as_secs_f64(),
            stream: Stream::Even,
            holding: Law::ZERO,
            retransmission: Retransmission::Rfc3261,
        },
        link: Link::clean(Duration::ZERO),
    };
    Config {
        pools,
        routes: (0..clusters).map(route).collect(),
        ..setup.node(number)
    }
}

fn caller_config(cluster: usize, edge: usize) -> CallerConfig {
    let address = SocketAddr::from(([10, 2, cluster as u8, edge as u8], 5060));
    let pace = Arrivals::paced(1.0 / SLOT.as_secs_f64());
    CallerConfig {
        domain: domain(cluster),
        ..CallerConfig::plain(vec![address], edge_address(edge), pace)
    }
}

fn domain(cluster: usize) -> String {
    format!("cluster-{}.example.com", cluster + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: Nodes = Nodes {
        first: 0.9,
        second: 0.8,
        first_needed: 1,
        clusters: 2,
        first_price: 1.0,
        second_price: 1.0,
    };

    /// Compares the formula with a simulation. Seconds of virtual time pass before a failure is
    /// noticed, so the simulation is a little worse.
    fn check(nodes: &Nodes, first: u32, backups: u32) {
        let formula = nodes.plan(first, backups).availability;
        let simulated = simulate(nodes, first, backups, 8).unwrap();
        let half = simulated.half.unwrap();
        assert!(half < 0.03, "{simulated:?}");
        assert!(
            (simulated.mean - formula).abs() < half + 0.01,
            "{formula} {simulated:?}"
        );
    }

    #[test]
    fn crashes_and_repairs_agree_with_the_formula() {
        check(&NODES, 2, 2);
    }

    #[test]
    fn a_load_that_needs_two_edges_needs_two_edges() {
        let nodes = Nodes {
            first_needed: 2,
            ..NODES
        };
        check(&nodes, 3, 3);
    }

    #[test]
    fn nodes_that_never_fail_never_fail() {
        let nodes = Nodes {
            first: 1.0,
            second: 1.0,
            ..NODES
        };
        assert_eq!(simulate(&nodes, 1, 1, 1).unwrap().mean, 1.0);
    }
}

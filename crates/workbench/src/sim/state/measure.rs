//! What is measured.

use std::time::Duration;

use node::{config::Mode, stats::Event};
use sim::{
    Link,
    farm::{Controller, Farm},
};
use topology::Topology;

use super::shapes::{self, PAPER, series};
use crate::parallel::{cores, try_each};

/// Calls per second of Figure 2.
fn rates_of_one() -> impl Iterator<Item = f64> {
    (1..=24).map(|step| 250.0 * f64::from(step))
}

/// Calls per second of Figure 4, more of them around the knee.
fn rates_of_two() -> impl Iterator<Item = f64> {
    let few = (6..=8).map(|step| 500.0 * f64::from(step));
    few.chain((41..=60).map(|step| 100.0 * f64::from(step)))
}

/// The warm-up in seconds.
const WARM_UP: u64 = 3;

/// All results.
pub(super) struct Measured {
    pub(super) busy: [Vec<(f64, f64)>; 2],
    /// Carried by rate: both stateful, the first stateful, dynamic.
    pub(super) goodput: [Vec<(f64, f64)>; 3],
    pub(super) shapes: Vec<Shape>,
    pub(super) changes: Vec<Change>,
    pub(super) underload: [Calm; 2],
}

/// A topology when as much is offered as can be carried at best, and twice that.
pub(super) struct Shape {
    pub(super) name: &'static str,
    pub(super) best_per_s: f64,
    pub(super) fixed_per_s: f64,
    pub(super) carried_per_s: f64,
    pub(super) carried_of_twice_per_s: f64,
}

/// Calls before and after a change, with dynamic state and with a controller.
pub(super) struct Change {
    pub(super) name: &'static str,
    /// By who sets the shares.
    pub(super) runs: Vec<Run>,
}

pub(super) struct Run {
    pub(super) by: &'static str,
    /// Calls carried in each half of a second after the change, as a share of those that could be.
    pub(super) carried: Vec<f64>,
}

/// A farm with little to do.
pub(super) struct Calm {
    pub(super) held: Vec<u64>,
    pub(super) p99_ms: f64,
    pub(super) datagrams: u64,
}

impl Run {
    pub(super) fn mean(&self) -> f64 {
        self.carried.iter().sum::<f64>() / self.carried.len() as f64
    }

    /// Seconds until no second is more than 5 % short. None: it never is so.
    pub(super) fn settled_s(&self) -> Option<f64> {
        let seconds: Vec<f64> = self
            .carried
            .windows(2)
            .map(|it| (it[0] + it[1]) / 2.0)
            .collect();
        let last_short = seconds.iter().rposition(|carried| *carried < 0.95);
        let after = last_short.map_or(0, |index| index + 1);
        (after < seconds.len()).then_some(after as f64 / 2.0)
    }

    /// How much less the worst second carries than could be, once 2 s have passed.
    pub(super) fn worst(&self) -> f64 {
        let seconds = self
            .carried
            .windows(2)
            .skip(4)
            .map(|it| (it[0] + it[1]) / 2.0);
        1.0 - seconds.fold(f64::INFINITY, f64::min)
    }
}

fn farm(topology: &Topology, mode: impl Fn(usize) -> Mode) -> Result<Farm, String> {
    let link = Link::clean(Duration::from_millis(1));
    Farm::new(topology, mode, 1, link).map_err(|why| why.to_string())
}

impl Measured {
    pub(super) fn new(seconds: u64) -> Result<Self, String> {
        let busy = |mode| try_each(cores(), rates_of_one(), |rate| busy(mode, rate, seconds));
        let two = series(&[PAPER; 2]);
        let goodput = |mode: fn(usize) -> Mode| {
            try_each(cores(), rates_of_two(), |rate| {
                carried(&two, mode, rate, seconds).map(|carried| (rate, carried))
            })
        };
        let shape = |(name, topology)| shape(name, &topology, seconds);
        let [lost, dead, behind] = [
            "half of the first node is lost, and comes back",
            "the same, and the controller is dead",
            "half of the second node is lost, and comes back",
        ];
        let changes: [&(dyn Fn() -> Result<Change, String> + Sync); 4] = [
            &|| step(seconds),
            &|| halving(lost, 0, seconds, false),
            &|| halving(dead, 0, seconds, true),
            &|| halving(behind, 1, seconds, false),
        ];
        Ok(Self {
            busy: [busy(Mode::Stateless)?, busy(Mode::Stateful)?],
            goodput: [
                goodput(|_| Mode::Stateful)?,
                goodput(first_holds)?,
                goodput(|_| Mode::Dynamic)?,
            ],
            shapes: try_each(cores(), shapes::all(), shape)?,
            changes: try_each(cores(), changes, |change| change())?,
            underload: [calm(|_| Mode::Dynamic)?, calm(first_holds)?],
        })
    }

    /// Whether every bar holds.
    pub(super) fn holds(&self) -> bool {
        let is_good = |shape: &Shape| {
            shape.carried_per_s >= 0.95 * shape.best_per_s
                && shape.carried_of_twice_per_s >= 0.95 * shape.best_per_s
        };
        let two = &self.shapes[0];
        self.shapes.iter().all(is_good)
            && two.carried_per_s >= 0.98 * two.best_per_s
            && self.changes.iter().all(Change::holds)
            && self.underload[0].held[1..].iter().all(|held| *held == 0)
    }
}

impl Change {
    /// Whether the first run is as good as the others.
    pub(super) fn holds(&self) -> bool {
        let own = &self.runs[0];
        let others = &self.runs[1..];
        own.settled_s().is_some_and(|settled| settled <= 2.0)
            && own.worst() <= 0.05
            && others.iter().all(|other| own.mean() >= 0.98 * other.mean())
    }
}

fn first_holds(node: usize) -> Mode {
    if node == 0 {
        Mode::Stateful
    } else {
        Mode::Stateless
    }
}

fn busy(mode: Mode, rate: f64, seconds: u64) -> Result<(f64, f64), String> {
    let one = series(&[PAPER]);
    let mut farm = farm(&one, |_| mode)?;
    farm.call(rate, Duration::from_secs(seconds + 1));
    farm.run(Duration::from_secs(1));
    let node = farm.nodes()[0];
    let before = farm.world.edge(node).busy();
    farm.run(Duration::from_secs(seconds));
    let busy = farm.world.edge(node).busy() - before;
    Ok((rate, (busy.as_secs_f64() / seconds as f64).min(1.0)))
}

fn carried(
    topology: &Topology,
    mode: impl Fn(usize) -> Mode,
    rate: f64,
    seconds: u64,
) -> Result<f64, String> {
    let mut farm = farm(topology, mode)?;
    farm.call(rate, Duration::from_secs(seconds + WARM_UP));
    farm.run(Duration::from_secs(WARM_UP));
    Ok(farm.run(Duration::from_secs(seconds)))
}

fn shape(name: &'static str, topology: &Topology, seconds: u64) -> Result<Shape, String> {
    let best_per_s = topology.best().map_err(|why| why.to_string())?.calls_per_s;
    let fixed = topology.fixed().map_err(|why| why.to_string())?;
    let carried = |times: f64| carried(topology, |_| Mode::Dynamic, times * best_per_s, seconds);
    Ok(Shape {
        name,
        best_per_s,
        fixed_per_s: fixed.calls_per_s,
        carried_per_s: carried(1.0)?,
        carried_of_twice_per_s: carried(2.0)?,
    })
}

/// Lets a farm run, by itself or with a controller, in halves of a second. The controller acts once a second, in its
/// middle: so half a second after something has changed at its beginning. It knows the rate of the last half.
fn follow(
    farm: &mut Farm,
    controller: Option<&Controller>,
    seconds: u64,
    possible_per_s: f64,
) -> Vec<f64> {
    let half = Duration::from_millis(500);
    let mut carried = Vec::new();
    for place in 0..2 * seconds {
        let stats = farm.stats(half, &mut ());
        carried.push(stats.carried as f64 / half.as_secs_f64() / possible_per_s);
        if let Some(controller) = controller.filter(|_| place % 2 == 0) {
            controller.set(farm, stats.offered as f64 / half.as_secs_f64());
        }
    }
    carried
}

fn with_both(
    name: &'static str,
    run: impl Fn(Option<Controller>) -> Result<Vec<f64>, String>,
) -> Result<Change, String> {
    let own = run(None)?;
    let controlled = run(Some(Controller::new(&series(&[PAPER; 2]))))?;
    let runs = [("the nodes themselves", own), ("a controller", controlled)];
    let runs = runs.into_iter().map(|(by, carried)| Run { by, carried });
    Ok(Change {
        name,
        runs: runs.collect(),
    })
}

fn best_of_two() -> f64 {
    let n = 2.0;
    n / (1.0 / PAPER.1 + (n - 1.0) / PAPER.0)
}

fn step(seconds: u64) -> Result<Change, String> {
    let best = best_of_two();
    with_both("0.5 x to 0.98 x of the optimum", |controller| {
        let mut farm = farm(&series(&[PAPER; 2]), |_| Mode::Dynamic)?;
        farm.call(0.5 * best, Duration::from_secs(WARM_UP + 2 + seconds));
        follow(&mut farm, controller.as_ref(), WARM_UP, best);
        farm.call(0.48 * best, Duration::from_secs(2 + seconds));
        let carried = follow(&mut farm, controller.as_ref(), 2 + seconds, 0.98 * best);
        Ok(carried)
    })
}

/// A node loses half of its speed for some seconds.
fn halving(name: &'static str, node: usize, seconds: u64, is_dead: bool) -> Result<Change, String> {
    with_both(name, |controller| {
        halved(controller, node, seconds, is_dead)
    })
}

fn halved(
    mut controller: Option<Controller>,
    node: usize,
    seconds: u64,
    is_dead: bool,
) -> Result<Vec<f64>, String> {
    let two = series(&[PAPER; 2]);
    let mut slow = [PAPER; 2];
    slow[node] = (PAPER.0 / 2.0, PAPER.1 / 2.0);
    let slow = series(&slow);
    let offered = 0.98 * slow.best().map_err(|why| why.to_string())?.calls_per_s;
    let mut farm = farm(&two, |_| Mode::Dynamic)?;
    farm.call(offered, Duration::from_secs(WARM_UP + 4 + 2 * seconds));
    follow(&mut farm, controller.as_ref(), WARM_UP, offered);
    let mut carried = Vec::new();
    for speed in [0.5, 2.0] {
        farm.set_speed(node, if speed < 1.0 { 0.5 } else { 1.0 });
        if let Some(controller) = &mut controller {
            if is_dead {
                controller.kill();
            }
            controller.set_speed(node, speed);
        }
        carried.extend(follow(&mut farm, controller.as_ref(), 2 + seconds, offered));
    }
    Ok(carried)
}

fn calm(mode: fn(usize) -> Mode) -> Result<Calm, String> {
    let mut farm = farm(&series(&[PAPER; 3]), mode)?;
    farm.call(2000.0, Duration::from_secs(5));
    let stats = farm.stats(Duration::from_secs(6), &mut ());
    let held = farm.nodes().iter().map(|&node| {
        let shared = farm.world.edge(node).shared();
        shared.workers()[0].event(Event::Held)
    });
    Ok(Calm {
        held: held.collect(),
        p99_ms: stats.answer_ns.value_at_quantile(0.99) as f64 / 1e6,
        datagrams: farm.world.arrivals(),
    })
}

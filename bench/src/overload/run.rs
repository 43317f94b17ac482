//! One node under one load: its capacity, and what it makes of a multiple of it.

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    time::{Duration, Instant},
};

use load::{Cohort, Failure};
use serde::{Deserialize, Serialize};

use super::{
    Effort, SHARE,
    cage::Cage,
    crowd::Crowd,
    subject::{Subject, Work},
};
use crate::{process::micros, register, subject::Running};

/// Calls or REGISTERs in progress while the capacity is measured: the node always has some, though a busy worker lets
/// messages gather for a millisecond.
const WINDOW: u32 = 64;

/// Users who register while the capacity is measured.
const USERS: u32 = 2_000;

/// A REGISTER is lost that then gets no answer for so long.
const PATIENCE: Duration = Duration::from_millis(100);

/// How long calls may take to end after those that count have begun; the load goes on.
const END_MAX: Duration = Duration::from_secs(10);

/// If none of them ends for so long, none will.
const QUIET: Duration = Duration::from_secs(1);

/// A node in its cage, and its crowd. A machine's speed changes within seconds, so another node of the same kind may be
/// beside it, held likewise and kept busy: what that one carries tells what this one could.
pub(super) struct Scene {
    pub crowd: Crowd,
    pub node: Held,
    beside: Option<Held>,
}

/// A node in its cage.
pub(crate) struct Held {
    running: Running,
    cage: Cage,
}

/// How long calls come before those that count, and how long these do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub warm_up: Duration,
    pub measured: Duration,
}

/// What the node carries when everyone waits for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Capacity {
    pub per_s: f64,
    /// CPU time of the node.
    pub cpu_us: f64,
    /// What the node beside it carries meanwhile, per second.
    pub beside_per_s: f64,
}

/// What became of the calls that began while they were offered at a constant rate.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Point {
    /// Of the capacity.
    pub multiple: f64,
    pub seconds: f64,
    pub offered: u64,
    /// Those that got a 2xx.
    pub answered: u64,
    /// Those that were answered and whose BYE was; REGISTERs that were granted.
    pub carried: u64,
    /// All that were carried in the time measured, whenever they began.
    pub carried_meanwhile: u64,
    /// Those that got a 503.
    pub refused: u64,
    /// Other failures, by reason.
    pub failed: BTreeMap<String, u64>,
    /// Those of which nothing was known at the end, most of them unanswered.
    pub pending: u64,
    /// From the first INVITE to its 2xx, of those that got one.
    pub answer_ms_p50: Option<f64>,
    pub answer_ms_p99: Option<f64>,
    /// Requests that were sent again in a second.
    pub repeated_per_s: f64,
    /// The share of its quota that the node used.
    pub busy: f64,
    /// How late the load was.
    pub late_ms_p99: f64,
    /// Datagrams that the load's side lost.
    pub lost: u64,
    /// What the node beside it carried meanwhile, if there is one.
    pub beside_per_s: f64,
}

impl Scene {
    fn new(subject: Subject, capacity_per_s: Option<f64>, share: f64) -> io::Result<Self> {
        let mut crowd = Crowd::new(1, subject.work())?;
        let mut running = subject.start(&crowd.servers(), capacity_per_s)?;
        crowd.settle(running.address).map_err(|error| {
            io::Error::other(format!(
                "{}: {error}:\n{}",
                subject.title(),
                running.process.log()
            ))
        })?;
        Ok(Self {
            crowd,
            node: Held::new(running, share)?,
            beside: None,
        })
    }

    /// The same, and its capacity: `alone` if that was measured, or else what it is beside another node.
    pub(super) fn compared(
        subject: Subject,
        alone: Option<&Capacity>,
        effort: Effort,
    ) -> io::Result<(Self, Capacity)> {
        let mut scene = Self::new(subject, alone.map(|capacity| capacity.per_s), SHARE)?;
        if let Some(capacity) = alone {
            return Ok((scene, capacity.clone()));
        }
        scene.beside = Some(put_beside(&mut scene.crowd, subject, SHARE, WINDOW)?);
        let capacity = scene.kept_busy(effort);
        Ok((scene, capacity))
    }

    /// What it carries in a closed loop.
    fn kept_busy(&mut self, effort: Effort) -> Capacity {
        let Self { crowd, node, .. } = self;
        let cpu = || node.cpu();
        kept_busy(crowd, node.address(), WINDOW, effort.capacity, cpu)
    }
}

/// Puts a node with this share of its core beside a crowd's nodes. A crowd of its own keeps so many calls in progress there.
pub(crate) fn put_beside(
    crowd: &mut Crowd,
    subject: Subject,
    share: f64,
    window: u32,
) -> io::Result<Held> {
    let Scene {
        crowd: mut another,
        node,
        ..
    } = Scene::new(subject, None, share)?;
    another.keep_calling(node.address(), window as usize);
    crowd.put_beside(another);
    Ok(node)
}

impl Held {
    pub(crate) fn new(running: Running, share: f64) -> io::Result<Self> {
        let cage = Cage::new(share)?;
        cage.hold(&running.process.processes())?;
        Ok(Self { running, cage })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.running.address
    }

    pub(crate) fn cpu(&self) -> Duration {
        self.running.process.cpu()
    }
}

impl Drop for Held {
    /// A node with open calls would wait for them, and a caged one ends slowly.
    fn drop(&mut self) {
        self.cage.open();
        self.running.process.kill();
    }
}

impl Capacity {
    /// What it is while the node beside it carries so much.
    pub(crate) fn while_beside(&self, beside_per_s: f64) -> f64 {
        match self.beside_per_s > 0.0 {
            true => self.per_s * beside_per_s / self.beside_per_s,
            false => self.per_s,
        }
    }
}

impl Point {
    /// The less of the calls that began meanwhile and were carried, and of those that were carried meanwhile: while a
    /// queue grows the former are more, and while it shrinks the latter.
    pub(crate) fn goodput_per_s(&self) -> f64 {
        self.carried.min(self.carried_meanwhile) as f64 / self.seconds
    }
}

/// What the node carries in a closed loop.
pub(super) fn capacity(subject: Subject, effort: Effort) -> io::Result<Capacity> {
    let mut scene = Scene::new(subject, None, SHARE)?;
    match subject.work() {
        Work::Calls | Work::CallsToUsers => Ok(scene.kept_busy(effort)),
        Work::Registers => registers(&scene.node, effort.capacity),
    }
}

/// What is carried with so many calls in progress.
pub(crate) fn kept_busy(
    crowd: &mut Crowd,
    node: SocketAddr,
    window: u32,
    measured: Duration,
    cpu: impl Fn() -> Duration,
) -> Capacity {
    crowd.keep_calling(node, window as usize);
    crowd.run(measured / 4);
    let (began, before, cpu_before) = (Instant::now(), crowd.stats().carried, cpu());
    let beside = crowd.carried_beside();
    crowd.run(measured);
    let seconds = began.elapsed().as_secs_f64();
    let carried = (crowd.stats().carried - before) as f64;
    Capacity {
        per_s: carried / seconds,
        cpu_us: micros(cpu() - cpu_before) / carried,
        beside_per_s: (crowd.carried_beside() - beside) as f64 / seconds,
    }
}

fn registers(node: &Held, measured: Duration) -> io::Result<Capacity> {
    let (began, cpu) = (Instant::now(), node.cpu());
    let is_more = |_| began.elapsed() < measured;
    let answered = register::queue(node.address(), USERS, WINDOW, PATIENCE, is_more)?;
    let granted = answered.granted as f64;
    Ok(Capacity {
        per_s: granted / answered.took.as_secs_f64(),
        cpu_us: micros(node.cpu() - cpu) / granted,
        beside_per_s: 0.0,
    })
}

/// Offers a multiple of its capacity to a new node; what that was before. See [`Scene::compared`].
pub(super) fn point(
    subject: Subject,
    multiple: f64,
    alone: Option<&Capacity>,
    effort: Effort,
) -> io::Result<(Point, Capacity)> {
    let (mut scene, capacity) = Scene::compared(subject, alone, effort)?;
    let Scene { crowd, node, .. } = &mut scene;
    let rate = multiple * capacity.per_s;
    let span = Span {
        warm_up: effort.warm_up,
        measured: effort.measured,
    };
    let cpu = || [node.cpu()];
    let (point, [cpu]) = offered(crowd, node.address(), rate, span, cpu);
    let busy = cpu.as_secs_f64() / point.seconds / SHARE;
    let point = Point {
        multiple,
        busy,
        ..point
    };
    Ok((point, capacity))
}

/// Offers a node so many calls or REGISTERs per second; what came of it, and the CPU time that it took meanwhile.
pub(crate) fn offered<const N: usize>(
    crowd: &mut Crowd,
    node: SocketAddr,
    rate: f64,
    span: Span,
    cpu: impl Fn() -> [Duration; N],
) -> (Point, [Duration; N]) {
    crowd.offer(node, rate);
    crowd.run(span.warm_up);
    crowd.begin_cohort();
    let (began, cpu_before) = (Instant::now(), cpu());
    let (repeated, carried) = (crowd.stats().retransmissions, crowd.stats().carried);
    let (lost, beside) = (crowd.lost(), crowd.carried_beside());
    crowd.run(span.measured);
    crowd.begin_cohort();
    let (took, cpu_after) = (began.elapsed(), cpu());
    let repeated = crowd.stats().retransmissions - repeated;
    let carried = crowd.stats().carried - carried;
    let beside = crowd.carried_beside() - beside;
    wait_for_ends(crowd);
    let late_ns = crowd.stats().late_ns.value_at_quantile(0.99);
    let lost = crowd.lost() - lost;
    let seconds = took.as_secs_f64();
    let point = Point {
        seconds,
        carried_meanwhile: carried,
        repeated_per_s: repeated as f64 / seconds,
        late_ms_p99: late_ns as f64 / 1e6,
        lost,
        beside_per_s: beside as f64 / seconds,
        ..fate(&crowd.cohorts()[0])
    };
    let cpu = std::array::from_fn(|place| cpu_after[place] - cpu_before[place]);
    (point, cpu)
}

/// Lets the calls of the first cohort end.
fn wait_for_ends(crowd: &mut Crowd) {
    let end = crowd.now() + END_MAX;
    // None of them may have ended yet: each takes its holding time.
    crowd.run(QUIET);
    let mut before = 0;
    while crowd.cohorts()[0].carried > before && crowd.now() < end {
        before = crowd.cohorts()[0].carried;
        crowd.run(QUIET);
    }
}

fn fate(cohort: &Cohort) -> Point {
    let refused = refused(cohort);
    let failures: u64 = cohort.failed.values().sum();
    let others = cohort
        .failed
        .iter()
        .filter(|(failure, _)| !is_refusal(**failure));
    let mut answers = cohort.answers.clone();
    answers.sort_unstable();
    Point {
        multiple: 0.0,
        seconds: 0.0,
        offered: cohort.offered,
        answered: answers.len() as u64,
        carried: cohort.carried,
        carried_meanwhile: 0,
        refused,
        failed: others
            .map(|(failure, count)| (failure.to_string(), *count))
            .collect(),
        pending: cohort.offered - cohort.carried - failures,
        answer_ms_p50: quantile_ms(&answers, 0.5),
        answer_ms_p99: quantile_ms(&answers, 0.99),
        repeated_per_s: 0.0,
        busy: 0.0,
        late_ms_p99: 0.0,
        lost: 0,
        beside_per_s: 0.0,
    }
}

pub(super) fn refused(cohort: &Cohort) -> u64 {
    let refusals = cohort
        .failed
        .iter()
        .filter(|(failure, _)| is_refusal(**failure));
    refusals.map(|(_, count)| count).sum()
}

fn is_refusal(failure: Failure) -> bool {
    matches!(
        failure,
        Failure::Rejected(503) | Failure::RegisterRejected(503)
    )
}

fn quantile_ms(sorted: &[Duration], quantile: f64) -> Option<f64> {
    let place = (quantile * sorted.len() as f64) as usize;
    sorted.get(place).map(|time| 1e3 * time.as_secs_f64())
}

//! The last hour and the last day of a node, in memory of a fixed size.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    mem,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use net::Workers;
use node::{
    Member, Shared,
    stats::{Event, REPLIES, WorkerStats},
};
use serde::Serialize;
use socket::wall;

use crate::view::{dropped, lost, members};

/// The distance of the points of the last hour.
pub(crate) const STEP: Duration = Duration::from_secs(10);
/// Points of an hour.
const HOUR: usize = 360;
/// Steps that make one point of the day: 5 minutes.
const STEPS: usize = 30;
/// Points of a day.
const DAY: usize = 288;
/// Servers that have a history.
const SERVERS_MAX: usize = 4_096;

/// What a node's history has, in this order. Rates are per second.
const NODE: [&str; 13] = [
    "calls",
    "transactions",
    "received_per_second",
    "sent_per_second",
    "placed_per_second",
    "failed_per_second",
    "refused_per_second",
    "answered_itself_per_second",
    "dropped_per_second",
    "lost_per_second",
    "bound_per_second",
    "first_response_milliseconds",
    "processor_share",
];
/// What a server's history has.
const SERVER: [&str; 4] = [
    "calls",
    "placed_per_second",
    "failed_per_second",
    "first_response_milliseconds",
];

/// The latest points of some series, oldest first.
#[derive(Debug)]
struct Ring<const N: usize> {
    points: VecDeque<[f32; N]>,
    most: usize,
}

impl<const N: usize> Ring<N> {
    fn new(most: usize) -> Self {
        Self {
            points: VecDeque::new(),
            most,
        }
    }

    fn push(&mut self, point: [f32; N]) {
        if self.points.len() == self.most {
            self.points.pop_front();
        }
        self.points.push_back(point);
    }

    /// The mean of the latest points, without those that are unknown.
    fn mean(&self, of: usize) -> [f32; N] {
        std::array::from_fn(|series| {
            let latest = self.points.iter().rev().take(of).map(|point| point[series]);
            let known: Vec<f32> = latest.filter(|value| value.is_finite()).collect();
            known.iter().sum::<f32>() / known.len() as f32
        })
    }

    fn series(&self, names: [&'static str; N]) -> Vec<Series> {
        let series = names.into_iter().enumerate().map(|(place, name)| Series {
            name,
            values: self
                .points
                .iter()
                .map(|point| known(point[place]))
                .collect(),
        });
        series.collect()
    }
}

/// JSON has no number that is none.
fn known(value: f32) -> Option<f32> {
    value.is_finite().then_some(value)
}

/// A span of time for plots.
#[derive(Debug, Serialize)]
pub(crate) struct Span {
    /// The distance of two points.
    step_seconds: u64,
    /// The time of the last point, since the UNIX epoch.
    end: f64,
    series: Vec<Series>,
}

#[derive(Debug, Serialize)]
struct Series {
    name: &'static str,
    values: Vec<Option<f32>>,
}

/// A node's history.
#[derive(Debug)]
pub(crate) struct History(Mutex<Past>);

#[derive(Debug)]
struct Past {
    hour: Ring<13>,
    day: Ring<13>,
    servers: HashMap<(String, SocketAddr), Ring<4>>,
    /// When the last point was made.
    at: Duration,
    steps: usize,
    before: Totals,
    servers_before: HashMap<(String, SocketAddr), Marks>,
}

/// Counters of the node at a moment.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    received: u64,
    sent: u64,
    placed: u64,
    failed: u64,
    refused: u64,
    answered: u64,
    dropped: u64,
    lost: u64,
    bound: u64,
    processor: Duration,
}

/// Counters of a server at a moment.
#[derive(Clone, Copy, Debug)]
struct Marks {
    placed: u64,
    failed: u64,
}

impl Default for History {
    fn default() -> Self {
        Self(Mutex::new(Past {
            hour: Ring::new(HOUR),
            day: Ring::new(DAY),
            servers: HashMap::new(),
            at: Duration::ZERO,
            steps: 0,
            before: Totals::default(),
            servers_before: HashMap::new(),
        }))
    }
}

impl History {
    fn locked(&self) -> MutexGuard<'_, Past> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The node's last hour.
    pub(crate) fn hour(&self) -> Span {
        let past = self.locked();
        span(STEP, past.hour.series(NODE))
    }

    /// The node's last day.
    pub(crate) fn day(&self) -> Span {
        let past = self.locked();
        span(STEP * STEPS as u32, past.day.series(NODE))
    }

    /// A server's last hour; it is empty if the server is new, unknown, or one of too many.
    pub(crate) fn server(&self, pool: &str, address: SocketAddr) -> Span {
        let past = self.locked();
        let ring = past.servers.get(&(pool.to_owned(), address));
        let series = ring.map_or_else(|| Ring::new(0).series(SERVER), |ring| ring.series(SERVER));
        span(STEP, series)
    }
}

fn span(step: Duration, series: Vec<Series>) -> Span {
    Span {
        step_seconds: step.as_secs(),
        end: wall().as_secs_f64(),
        series,
    }
}

/// A node whose history is noted.
pub(crate) struct Subject<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) workers: &'a Workers,
    pub(crate) now: Duration,
}

impl History {
    /// Notes a point. It is to be called every [`STEP`].
    pub(crate) fn note(&self, subject: &Subject<'_>) {
        let now = subject.now;
        let snapshot = subject.shared.snapshot();
        let members: Vec<&Arc<Member>> = members(&snapshot).collect();
        let totals = Totals::of(subject, &members);
        let mut past = self.locked();
        let seconds = now.saturating_sub(past.at).as_secs_f64();
        let is_first = past.at.is_zero();
        (past.at, past.steps) = (now, past.steps + 1);
        let before = mem::replace(&mut past.before, totals);
        past.note_servers(&members, seconds);
        if is_first || seconds <= 0.0 {
            return;
        }
        let point = point(subject.shared, &members, (before, totals), seconds);
        past.hour.push(point);
        if past.steps.is_multiple_of(STEPS) {
            let mean = past.hour.mean(STEPS);
            past.day.push(mean);
        }
    }
}

fn point(
    shared: &Shared,
    members: &[&Arc<Member>],
    (before, after): (Totals, Totals),
    seconds: f64,
) -> [f32; 13] {
    let rate = |of: fn(&Totals) -> u64| (of(&after).saturating_sub(of(&before))) as f64 / seconds;
    let processor = after
        .processor
        .saturating_sub(before.processor)
        .as_secs_f64();
    let calls: u64 = members.iter().map(|member| member.server.calls()).sum();
    let values = [
        calls as f64,
        shared.transactions() as f64,
        rate(|totals| totals.received),
        rate(|totals| totals.sent),
        rate(|totals| totals.placed),
        rate(|totals| totals.failed),
        rate(|totals| totals.refused),
        rate(|totals| totals.answered),
        rate(|totals| totals.dropped),
        rate(|totals| totals.lost),
        rate(|totals| totals.bound),
        first_response_ms(members),
        processor / seconds / shared.workers().len() as f64,
    ];
    values.map(|value| value as f32)
}

/// The mean of the servers' times, by their calls.
fn first_response_ms(members: &[&Arc<Member>]) -> f64 {
    let known = members.iter().filter_map(|member| {
        let time = member.server.first_response_time()?;
        Some((
            time.as_secs_f64() * 1e3,
            member.server.placed() as f64 + 1.0,
        ))
    });
    let (sum, weight) = known.fold((0.0, 0.0), |(sum, weights), (time, weight)| {
        (sum + time * weight, weights + weight)
    });
    sum / weight
}

impl Past {
    fn note_servers(&mut self, members: &[&Arc<Member>], seconds: f64) {
        let mut seen = HashSet::new();
        for member in members.iter().take(SERVERS_MAX) {
            let key = (member.pool.clone(), member.address);
            let server = &member.server;
            let marks = Marks {
                placed: server.placed(),
                failed: server.failed(),
            };
            if let Some(before) = self.servers_before.insert(key.clone(), marks) {
                let rate = |after: u64, before: u64| after.saturating_sub(before) as f64 / seconds;
                let first = server.first_response_time();
                let point = [
                    server.calls() as f64,
                    rate(marks.placed, before.placed),
                    rate(marks.failed, before.failed),
                    first.map_or(f64::NAN, |time| time.as_secs_f64() * 1e3),
                ];
                let ring = self.servers.entry(key.clone());
                let ring = ring.or_insert_with(|| Ring::new(HOUR));
                ring.push(point.map(|value| value as f32));
            }
            seen.insert(key);
        }
        self.servers.retain(|key, _| seen.contains(key));
        self.servers_before.retain(|key, _| seen.contains(key));
    }
}

impl Totals {
    fn of(subject: &Subject<'_>, members: &[&Arc<Member>]) -> Self {
        let workers = subject.shared.workers();
        let sum = |read: &dyn Fn(&WorkerStats) -> u64| workers.iter().map(read).sum();
        let answers = |is_wanted: fn(u16) -> bool| {
            let places = REPLIES.iter().enumerate();
            let places = places.filter(move |(_, status)| is_wanted(**status));
            let count = |(place, _)| {
                workers
                    .iter()
                    .map(|worker| worker.replies(place))
                    .sum::<u64>()
            };
            places.map(count).sum()
        };
        let numbers = 0..workers.len();
        let lost_of = |worker| lost(&subject.workers.stats(worker)).map(|(_, count)| count);
        let time_of = |worker| subject.workers.processor_time(worker);
        Self {
            received: sum(&|worker| worker.event(Event::Received)),
            sent: sum(&|worker| worker.event(Event::Sent)),
            placed: members.iter().map(|member| member.server.placed()).sum(),
            failed: members.iter().map(|member| member.server.failed()).sum(),
            refused: answers(|status| status == 503),
            answered: answers(|status| status >= 300 && status != 503),
            dropped: sum(&|worker| dropped(worker).map(|(_, count)| count).sum()),
            lost: numbers.clone().flat_map(lost_of).sum(),
            bound: sum(&|worker| worker.event(Event::Bound)),
            processor: numbers.filter_map(time_of).sum(),
        }
    }
}

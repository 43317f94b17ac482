//! Runs callers or phones until the end of their load, and records the measurements.

use std::{fmt, net::SocketAddr, num::NonZeroU64, time::Duration};

use hdrhistogram::Histogram;
use load::{Caller, Outbox, Phones, Stats};
use report::figures::count;
use serde::Serialize;
use socket::Clock;
use traffic::{Agent, Group, Streams};

use super::{carrier::Ends, outcome::figure, signals::Signals};
use crate::progress::Progress;

/// The time from one sample to the next.
const SAMPLE: Duration = Duration::from_secs(1);

/// The longest sleep. A signal that arrives meanwhile waits this long.
const SLEEP_MAX: Duration = Duration::from_millis(50);

/// What the load offers and the system carries: calls or registrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Units {
    Calls,
    Registrations,
}

/// A source of load: callers or phones.
pub(super) trait Source: Agent {
    const UNITS: Units;

    /// Whether the messages that it sends at its end count as load.
    fn finish_is_load(&self) -> bool;

    fn stats_mut(&mut self) -> &mut Stats;

    /// How many calls or registrations have started and not ended.
    fn in_progress(&self) -> usize;

    /// Whether it will start more.
    fn is_offering(&self) -> bool;

    fn is_done(&self) -> bool;

    /// Makes it start no more.
    fn finish(&mut self, now: Duration);
}

/// The measurements of one run.
pub(super) struct Record {
    pub(super) units: Units,
    began: Duration,
    sampled: Duration,
    /// How long the source started calls or registrations.
    pub(super) offering: Duration,
    /// The time until the last one ended.
    pub(super) lasted: Duration,
    pub(super) stats: Stats,
    pub(super) samples: Vec<Sample>,
    /// How many were in progress when a second signal cut them off.
    pub(super) cut_off: usize,
    /// Datagrams that this machine lost.
    pub(super) lost: u64,
    /// Whether a signal arrived.
    pub(super) is_interrupted: bool,
    /// What happened to connections, if there are any.
    pub(super) connections: Vec<(&'static str, u64)>,
}

/// One interval. Rates are per second, latencies in milliseconds.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Sample {
    /// Seconds from the start to the end of the interval.
    pub(super) at_s: f64,
    pub(super) offered_per_s: f64,
    pub(super) succeeded_per_s: f64,
    pub(super) failed_per_s: f64,
    pub(super) retransmissions_per_s: f64,
    pub(super) in_progress: usize,
    pub(super) p50_ms: Option<f64>,
    pub(super) p99_ms: Option<f64>,
    pub(super) max_ms: Option<f64>,
}

/// When the source starts no more, other than by itself or by a signal.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) duration: Duration,
    /// The number of failures after which it stops.
    pub(super) failures_max: u64,
}

impl Units {
    /// The latencies that the progress line shows.
    pub(super) fn answers(self, stats: &Stats) -> &Histogram<u64> {
        match self {
            Self::Calls => &stats.answer_ns,
            Self::Registrations => &stats.register_ns,
        }
    }
}

impl fmt::Display for Units {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Calls => "calls",
            Self::Registrations => "registrations",
        })
    }
}

impl Limits {
    /// No limits.
    pub(super) const NONE: Self = Self {
        duration: Duration::MAX,
        failures_max: u64::MAX,
    };
}

/// A source on its sockets.
pub(super) struct Drive<S> {
    group: Group<S>,
    clock: Clock,
    lost_before: u64,
}

impl<S: Source> Drive<S> {
    /// Connects a source to the sockets or connections for which it was configured.
    pub(super) fn new(source: S, ends: impl Into<Ends>, clock: Clock) -> Self {
        // Without it the kernel may wake us 50 us late; where it can't be had, they are counted.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        Self {
            group: Group::new(vec![ends.into().endpoint(source)]),
            clock,
            lost_before: 0,
        }
    }

    /// The sockets' addresses.
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        self.group.endpoints[0].addresses()
    }

    /// Replaces the source on the sockets. The new one starts at the time for which it was made.
    pub(super) fn replace(&mut self, source: impl FnOnce(Duration) -> S) {
        self.group.endpoints[0].replace(source(self.clock.now()));
        self.lost_before = self.group.endpoints[0].lost();
    }

    /// Runs the source until everything that it started has ended. The first signal makes it start
    /// no more; the second cuts off what is in progress.
    pub(super) fn run(&mut self, limits: Limits, signals: &Signals, progress: &Progress) -> Record {
        let mut record = Record::begin(S::UNITS, self.clock.now());
        let mut ended_offering = None;
        let mut next_sample = record.began + SAMPLE;
        loop {
            let now = self.clock.now();
            if now >= next_sample {
                self.sample(&mut record, now, progress);
                next_sample += SAMPLE;
            }
            let has_signal = signals.stop();
            record.is_interrupted |= has_signal;
            if has_signal && ended_offering.is_some() {
                break;
            }
            let is_enough = record.stats.failures() >= limits.failures_max;
            let is_over = has_signal || is_enough || now - record.began >= limits.duration;
            if ended_offering.is_none() && (is_over || !self.source().is_offering()) {
                ended_offering = Some(now);
                self.source().finish(now);
            }
            if self.source().is_done() {
                break;
            }
            let end = record.began.saturating_add(limits.duration);
            let end = ended_offering.map_or(end, |_| Duration::MAX);
            self.group
                .turn(self.clock, next_sample.min(now + SLEEP_MAX).min(end));
        }
        let now = self.clock.now();
        self.sample(&mut record, now, progress);
        record.lasted = now - record.began;
        let end = ended_offering.filter(|_| !self.source().finish_is_load());
        record.offering = end.unwrap_or(now) - record.began;
        record.cut_off = self.source().in_progress();
        record.lost = self.group.endpoints[0].lost() - self.lost_before;
        record.connections = self.group.endpoints[0]
            .streams()
            .map_or_else(Vec::new, fates);
        record
    }

    /// The source, for changes.
    pub(super) fn source(&mut self) -> &mut S {
        self.group.endpoints[0].agent_mut()
    }

    fn sample(&mut self, record: &mut Record, now: Duration, progress: &Progress) {
        let in_progress = self.source().in_progress();
        let stats = self.source().stats_mut().take();
        let latencies = S::UNITS.answers(&stats);
        let quantile = |quantile| {
            let ns = latencies.value_at_quantile(quantile);
            (!latencies.is_empty()).then_some(ns as f64 / 1e6)
        };
        let interval = now.saturating_sub(record.sampled).as_secs_f64();
        let per_s = |count: u64| count as f64 / interval.max(1e-9);
        let sample = Sample {
            at_s: (now - record.began).as_secs_f64(),
            offered_per_s: per_s(stats.offered),
            succeeded_per_s: per_s(stats.successes()),
            failed_per_s: per_s(stats.failures()),
            retransmissions_per_s: per_s(stats.retransmissions),
            in_progress,
            p50_ms: quantile(0.5),
            p99_ms: quantile(0.99),
            max_ms: quantile(1.0),
        };
        record.stats.add(&stats);
        record.sampled = now;
        progress.show(&sample.line(S::UNITS, record.stats.failures()));
        record.samples.push(sample);
    }
}

/// What happened to connections, since they were first opened.
fn fates(streams: &Streams) -> Vec<(&'static str, u64)> {
    let counters = streams.counters();
    let begun = [
        ("connections opened", counters.opened),
        ("  handshakes done", counters.established),
        ("  of them resumed", streams.resumed()),
    ];
    let closed = streams.closed();
    begun
        .into_iter()
        .chain(closed)
        .filter(|&(_, count)| count > 0)
        .collect()
}

impl Record {
    fn begin(units: Units, now: Duration) -> Self {
        Self {
            units,
            began: now,
            sampled: now,
            offering: Duration::ZERO,
            lasted: Duration::ZERO,
            stats: Stats::default(),
            samples: Vec::new(),
            cut_off: 0,
            lost: 0,
            is_interrupted: false,
            connections: Vec::new(),
        }
    }

    /// The share of the offered calls or registrations that went as planned.
    pub(super) fn success(&self) -> f64 {
        self.stats.successes() as f64 / self.stats.offered.max(1) as f64
    }

    /// How many started per second.
    pub(super) fn offered_per_s(&self) -> f64 {
        self.stats.offered as f64 / self.seconds()
    }

    /// How many of those that started per second went as planned.
    pub(super) fn carried_per_s(&self) -> f64 {
        self.stats.successes() as f64 / self.seconds()
    }

    /// How long calls or registrations were started.
    fn seconds(&self) -> f64 {
        self.offering.as_secs_f64().max(1e-9)
    }
}

impl Sample {
    fn line(&self, units: Units, failed: u64) -> String {
        let ms = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), figure);
        format!(
            "{:.0} s  {:.0} {units}/s started, {:.0}/s ended, {} in progress, {} failed  p50 {} ms \
             p99 {} ms",
            self.at_s,
            self.offered_per_s,
            self.succeeded_per_s,
            count(self.in_progress as u64),
            count(failed),
            ms(self.p50_ms),
            ms(self.p99_ms),
        )
    }
}

impl Source for Caller {
    const UNITS: Units = Units::Calls;

    fn finish_is_load(&self) -> bool {
        false
    }

    fn stats_mut(&mut self) -> &mut Stats {
        self.stats_mut()
    }

    fn in_progress(&self) -> usize {
        self.open_calls()
    }

    fn is_offering(&self) -> bool {
        self.calls_left() > 0
    }

    fn is_done(&self) -> bool {
        self.is_done()
    }

    fn finish(&mut self, _now: Duration) {
        self.stop();
    }
}

/// Phones that leave at the end, or stay registered.
pub(super) struct Users {
    pub(super) phones: Phones,
    pub(super) stay: bool,
    /// The number of phones after whose registration they leave.
    pub(super) until_all_are_up: Option<u32>,
}

impl Agent for Users {
    fn handle_input(
        &mut self,
        now: Duration,
        socket: usize,
        from: SocketAddr,
        bytes: &[u8],
        out: &mut Outbox,
    ) {
        self.phones.handle_input(now, socket, from, bytes, out);
    }

    fn handle_closed(&mut self, now: Duration, socket: usize) {
        self.phones.handle_closed(now, socket);
    }

    fn handle_timeout(&mut self, now: Duration, out: &mut Outbox) {
        self.phones.handle_timeout(now, out);
    }

    fn deadline(&self) -> Option<Duration> {
        self.phones.deadline()
    }
}

impl Source for Users {
    const UNITS: Units = Units::Registrations;

    fn finish_is_load(&self) -> bool {
        !self.stay
    }

    fn stats_mut(&mut self) -> &mut Stats {
        self.phones.stats_mut()
    }

    fn in_progress(&self) -> usize {
        self.phones.in_progress()
    }

    fn is_offering(&self) -> bool {
        let all = self.until_all_are_up.unwrap_or(u32::MAX);
        self.phones.turned() < all || self.phones.in_progress() > 0
    }

    fn is_done(&self) -> bool {
        self.phones.is_done()
    }

    fn finish(&mut self, now: Duration) {
        if self.stay {
            self.phones.stop();
        } else {
            self.phones.leave(now);
        }
    }
}

//! Driving callers or phones to the end of their load, and what is taken down meanwhile.

use std::{fmt, net::SocketAddr, num::NonZeroU64, time::Duration};

use hdrhistogram::Histogram;
use load::{Caller, Outbox, Phones, Stats};
use report::figures::count;
use serde::Serialize;
use socket::{Clock, udp::Socket};
use traffic::{Agent, Endpoint, Group};

use super::{outcome::figure, signals::Signals};
use crate::progress::Progress;

/// From one sample to the next.
const SAMPLE: Duration = Duration::from_secs(1);

/// The longest sleep: signals that come between two looks wait so long.
const SLEEP_MAX: Duration = Duration::from_millis(50);

/// What is offered and carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Units {
    Calls,
    Registrations,
}

/// Whoever offers a load: callers or phones.
pub(super) trait Source: Agent {
    const UNITS: Units;

    /// Whether what it finishes with counts as load.
    fn finish_is_load(&self) -> bool;

    fn stats_mut(&mut self) -> &mut Stats;

    /// What has begun and not ended.
    fn in_progress(&self) -> usize;

    /// Whether more will begin.
    fn is_offering(&self) -> bool;

    fn is_done(&self) -> bool;

    /// Begins no more.
    fn finish(&mut self, now: Duration);
}

/// What was measured.
pub(super) struct Record {
    pub(super) units: Units,
    began: Duration,
    sampled: Duration,
    /// How long loads began.
    pub(super) offering: Duration,
    /// Until the last ended.
    pub(super) lasted: Duration,
    pub(super) stats: Stats,
    pub(super) samples: Vec<Sample>,
    /// Still in progress when the operator's patience ended.
    pub(super) cut_off: usize,
    /// Datagrams that this machine lost.
    pub(super) lost: u64,
    /// A signal came.
    pub(super) is_interrupted: bool,
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

/// When loads cease to begin, other than by the source itself or a signal.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) duration: Duration,
    /// So many failures are enough.
    pub(super) failures_max: u64,
}

impl Units {
    /// The latencies that stand for all others.
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
    /// None.
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
    /// Puts a source on the sockets that it was configured with.
    pub(super) fn new(source: S, sockets: Vec<Socket>, clock: Clock) -> Self {
        // Without it the kernel may wake us 50 us late; where it can't be had, they are counted.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        Self {
            group: Group::new(vec![Endpoint::new(source, sockets)]),
            clock,
            lost_before: 0,
        }
    }

    /// The sockets' addresses.
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        self.group.endpoints[0].addresses()
    }

    /// Another source, which begins at the time that it is made with, takes over the sockets.
    pub(super) fn replace(&mut self, source: impl FnOnce(Duration) -> S) {
        self.group.endpoints[0].replace(source(self.clock.now()));
        self.lost_before = self.group.endpoints[0].lost();
    }

    /// Runs the source until all that it began has ended. The first signal lets it begin no more,
    /// the second cuts off what is in progress.
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
        record
    }

    /// The source, to change it.
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
        }
    }

    /// The share of what was offered that went as it was to.
    pub(super) fn success(&self) -> f64 {
        self.stats.successes() as f64 / self.stats.offered.max(1) as f64
    }

    /// How many began in a second.
    pub(super) fn offered_per_s(&self) -> f64 {
        self.stats.offered as f64 / self.seconds()
    }

    /// How many of those that began in a second went as they were to.
    pub(super) fn carried_per_s(&self) -> f64 {
        self.stats.successes() as f64 / self.seconds()
    }

    /// For how long loads began.
    fn seconds(&self) -> f64 {
        self.offering.as_secs_f64().max(1e-9)
    }
}

impl Sample {
    fn line(&self, units: Units, failed: u64) -> String {
        let ms = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), figure);
        format!(
            "{:.0} s  {:.0} {units}/s begun, {:.0}/s ended, {} in progress, {} failed  p50 {} ms  \
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

/// Phones that leave when they are finished, or stay registered.
pub(super) struct Users {
    pub(super) phones: Phones,
    pub(super) stay: bool,
    /// They finish when so many have come up.
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

//! The metrics of experiments, by name.

use hdrhistogram::Histogram;
use sim::Outcome;

/// One number of an experiment's outcome.
pub(crate) struct Metric {
    /// The name in results and scenarios.
    pub(crate) name: &'static str,
    /// The name for people.
    pub(crate) label: &'static str,
    pub(crate) of: fn(&Outcome) -> f64,
}

/// The result of a search for the peak.
pub(crate) const PEAK: &str = "peak_per_s";
pub(crate) const PEAK_LABEL: &str = "peak, calls/s";

/// The metrics of each experiment.
pub(crate) const METRICS: [Metric; 26] = [
    metric("invite_mean_ms", "INVITE to 200, mean, ms", |o| {
        mean(&o.calls.answer_ns)
    }),
    metric("invite_p50_ms", "INVITE to 200, p50, ms", |o| {
        quantile(&o.calls.answer_ns, 0.5)
    }),
    metric("invite_p99_ms", "INVITE to 200, p99, ms", |o| {
        quantile(&o.calls.answer_ns, 0.99)
    }),
    metric("invite_p999_ms", "INVITE to 200, p99.9, ms", |o| {
        quantile(&o.calls.answer_ns, 0.999)
    }),
    metric("invite_max_ms", "INVITE to 200, maximum, ms", |o| {
        quantile(&o.calls.answer_ns, 1.0)
    }),
    metric("first_mean_ms", "INVITE to first response, mean, ms", |o| {
        mean(&o.calls.first_response_ns)
    }),
    metric("first_p99_ms", "INVITE to first response, p99, ms", |o| {
        quantile(&o.calls.first_response_ns, 0.99)
    }),
    metric("bye_mean_ms", "BYE to 200, mean, ms", |o| {
        mean(&o.calls.bye_ns)
    }),
    metric("bye_p50_ms", "BYE to 200, p50, ms", |o| {
        quantile(&o.calls.bye_ns, 0.5)
    }),
    metric("bye_p99_ms", "BYE to 200, p99, ms", |o| {
        quantile(&o.calls.bye_ns, 0.99)
    }),
    metric("bye_p999_ms", "BYE to 200, p99.9, ms", |o| {
        quantile(&o.calls.bye_ns, 0.999)
    }),
    metric("offered_per_s", "calls offered per second", |o| {
        o.calls.offered as f64 / o.time.as_secs_f64()
    }),
    metric("carried_per_s", "calls carried per second", carried_per_s),
    metric("failed", "failed calls, share of all that ended", failed),
    metric(
        "retransmissions_per_call",
        "retransmissions per call",
        |o| per_call(o, o.calls.retransmissions),
    ),
    metric(
        "failed_over_per_call",
        "INVITEs taken to another server, per call",
        |o| per_call(o, o.failed_over),
    ),
    metric("strangers", "in-dialog requests at a wrong server", |o| {
        o.strangers as f64
    }),
    metric(
        "share_most",
        "share of the server with the most calls, 1: an equal share",
        |o| share(o, f64::max),
    ),
    metric(
        "share_least",
        "share of the server with the fewest calls, 1: an equal share",
        |o| share(o, f64::min),
    ),
    metric("datagrams_per_call", "datagrams per call", |o| {
        per_call(o, o.datagrams)
    }),
    metric("predicted_per_s", "predicted", |o| o.predicted_per_s),
    metric("over_predicted", "carried over predicted", |o| {
        carried_per_s(o) / o.predicted_per_s
    }),
    metric(
        "off_predicted",
        "carried, off what is predicted, share of it",
        |o| (carried_per_s(o) / o.predicted_per_s - 1.0).abs(),
    ),
    metric(
        "edges_busy",
        "an edge's processor busy, share of the time",
        |o| o.edges_busy.div_duration_f64(o.time),
    ),
    metric(
        "nodes_busy",
        "processor of a node of the second stage busy, share of the time",
        |o| o.nodes_busy.div_duration_f64(o.time),
    ),
    metric(
        "overflowed_per_call",
        "datagrams lost at full queues of nodes, per call",
        |o| per_call(o, o.overflowed),
    ),
];

/// Curves over the number of requests that a request finds at the first server.
pub(crate) const OCCUPANCY_METRICS: [(&str, &str); 4] = [
    (
        "occupancy_cdf",
        "share of requests that find at most so many",
    ),
    ("occupancy_ccdf", "share of requests that find more"),
    (
        "response_sum_ms",
        "sum of response times of those that find so many, ms",
    ),
    (
        "response_cumulative_ms",
        "sum of response times of those that find at most so many, ms",
    ),
];

const fn metric(name: &'static str, label: &'static str, of: fn(&Outcome) -> f64) -> Metric {
    Metric { name, label, of }
}

/// All names, except that of the peak.
pub(crate) fn names() -> Vec<&'static str> {
    let occupancy = OCCUPANCY_METRICS.iter().map(|(name, _)| *name);
    METRICS
        .iter()
        .map(|metric| metric.name)
        .chain(occupancy)
        .collect()
}

/// The name of a metric for people.
pub(crate) fn label(name: &str) -> &str {
    let plain = METRICS.iter().map(|metric| (metric.name, metric.label));
    let mut all = plain.chain(OCCUPANCY_METRICS).chain([(PEAK, PEAK_LABEL)]);
    all.find(|(known, _)| *known == name)
        .map_or(name, |(_, label)| label)
}

/// One of the occupancy's curves.
pub(crate) fn occupancy_curve(name: &str, outcome: &Outcome) -> Vec<f64> {
    let occupancy = &outcome.occupancy;
    let all = occupancy.requests.iter().sum::<u64>() as f64;
    let requests = occupancy
        .requests
        .iter()
        .map(|&requests| requests as f64 / all);
    let sums = occupancy
        .response_times
        .iter()
        .map(|time| time.as_secs_f64() * 1e3);
    match name {
        "occupancy_cdf" => cumulated(requests),
        "occupancy_ccdf" => cumulated(requests)
            .iter()
            .map(|share| (1.0 - share).max(0.0))
            .collect(),
        "response_sum_ms" => sums.collect(),
        _ => cumulated(sums),
    }
}

fn cumulated(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let add = |sum: &mut f64, value| {
        *sum += value;
        Some(*sum)
    };
    values.scan(0.0, add).collect()
}

fn mean(histogram: &Histogram<u64>) -> f64 {
    histogram.mean() / 1e6
}

fn quantile(histogram: &Histogram<u64>, quantile: f64) -> f64 {
    histogram.value_at_quantile(quantile) as f64 / 1e6
}

fn failed(outcome: &Outcome) -> f64 {
    let failures = outcome.calls.failures();
    failures as f64 / (failures + outcome.calls.successes()).max(1) as f64
}

fn carried_per_s(outcome: &Outcome) -> f64 {
    outcome.calls.carried as f64 / outcome.time.as_secs_f64()
}

fn per_call(outcome: &Outcome, count: u64) -> f64 {
    count as f64 / outcome.calls.offered.max(1) as f64
}

fn share(outcome: &Outcome, extreme: fn(f64, f64) -> f64) -> f64 {
    let all = outcome.placed.iter().sum::<u64>().max(1) as f64;
    let shares = outcome.placed.iter().map(|&calls| calls as f64);
    let found = shares.reduce(extreme).unwrap_or(0.0);
    found / all * outcome.placed.len() as f64
}

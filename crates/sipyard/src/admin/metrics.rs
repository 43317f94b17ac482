//! /metrics: the node's counters in the OpenMetrics text format, read when they are asked for.

use std::{fmt, sync::Arc, time::Duration};

use ::names::Count;
use node::{
    Member, PeerView,
    config::Pool,
    stats::{BUCKETS_US, Dropped, Event, Histogram, MethodLabel, WorkerStats},
};
use prometheus_client::{
    collector::Collector,
    encoding::{
        DescriptorEncoder, EncodeLabelSet, EncodeMetric, MetricEncoder, NoLabelSet, text::encode,
    },
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};

use crate::{
    serve::Control,
    view::{Source, is_up, lost, members, replies},
};

/// The media type of what [`Metrics::text`] yields.
pub(crate) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics of a node.
pub(crate) struct Metrics(Registry);

impl Metrics {
    /// The metrics of the node under `control`.
    pub(crate) fn new(control: Arc<Control>) -> Self {
        let mut registry = Registry::with_prefix("sipyard");
        registry.register_collector(Box::new(NodeCollector(control)));
        Self(registry)
    }

    /// All of them at this moment.
    pub(crate) fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.0)?;
        Ok(text)
    }
}

struct NodeCollector(Arc<Control>);

impl fmt::Debug for NodeCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeCollector")
    }
}

impl Collector for NodeCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let shared = self.0.shared();
        let snapshot = shared.snapshot();
        let members: Vec<&Member> = members(&snapshot).collect();
        encode_node(&mut encoder, &self.0)?;
        encode_store(&mut encoder, &self.0)?;
        encode_servers(&mut encoder, &members, self.0.now())?;
        encode_costs(&mut encoder, &snapshot.config().pools)?;
        encode_sources(&mut encoder, &self.0)?;
        encode_peers(&mut encoder, &shared.peers(), self.0.now())?;
        encode_responses(&mut encoder, &members)?;
        encode_processor_times(&mut encoder, &self.0)?;
        encode_sizes(&mut encoder, shared.workers())?;
        encode_events(&mut encoder, shared.workers())?;
        encode_labelled(&mut encoder, &self.0)
    }
}

fn encode_node(encoder: &mut DescriptorEncoder<'_>, control: &Control) -> fmt::Result {
    let snapshot = control.shared().snapshot();
    let limits = &snapshot.config().limits;
    let draining = u8::from(control.shared().is_draining());
    let gauges = [
        (
            "draining",
            "1 while the node refuses new calls",
            f64::from(draining),
        ),
        (
            "uptime_seconds",
            "Time since the node's start",
            control.now().as_secs_f64(),
        ),
        (
            "sessions_limit",
            "Sessions held at most",
            limits.sessions as f64,
        ),
        (
            "transactions_limit",
            "Transactions open at most",
            limits.transactions as f64,
        ),
        (
            "held_transactions_limit",
            "Transactions of stateful routes at most",
            limits.held_transactions as f64,
        ),
        (
            "registrations_limit",
            "REGISTERs waiting for the store at most",
            limits.registrations as f64,
        ),
        (
            "retained_requests_limit",
            "INVITEs kept at most",
            limits.retained_requests as f64,
        ),
        (
            "handover_queue_limit",
            "Messages waiting for a worker at most",
            limits.handover_queue as f64,
        ),
    ];
    for (name, help, value) in gauges {
        let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(value).encode(metric)?;
    }
    Ok(())
}

fn encode_store(encoder: &mut DescriptorEncoder<'_>, control: &Control) -> fmt::Result {
    let Some(store) = control.store() else {
        return Ok(());
    };
    let (records, bytes) = store.held();
    let help =
        "Users with bindings or a password that are in memory: of a file all, of Redis the latest";
    for (name, help, value) in [
        ("store_records", help, records),
        ("store_bytes", "Memory of these records", bytes),
    ] {
        let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(value as f64).encode(metric)?;
    }
    Ok(())
}

/// A number of each server: its name, what it means, how to read it.
type ServerGauge = (&'static str, &'static str, fn(&Member, Duration) -> f64);

const SERVER_GAUGES: [ServerGauge; 9] = [
    ("server_calls", "Open calls", |m, _| m.server.calls() as f64),
    ("server_transactions", "Open transactions", |m, _| {
        m.server.transactions() as f64
    }),
    (
        "server_work",
        "Sum of the costs of the open transactions; a BYE costs 1",
        |m, _| m.server.work(),
    ),
    (
        "server_calls_elsewhere",
        "Open calls that other edges have reported",
        |m, _| m.server.elsewhere().calls as f64,
    ),
    (
        "server_transactions_elsewhere",
        "Transactions that other edges have reported to stay open",
        |m, _| m.server.elsewhere().transactions as f64,
    ),
    (
        "server_capacity",
        "Share of the calls relative to other servers",
        |m, _| m.server.capacity(),
    ),
    ("server_up", "1 while the server answers", |m, now| {
        f64::from(u8::from(is_up(m, now)))
    }),
    (
        "server_draining",
        "1 while the operator drains the server",
        |m, _| f64::from(u8::from(m.server.is_draining())),
    ),
    (
        "server_removed",
        "1 after the server has left the configuration",
        |m, _| f64::from(u8::from(m.server.is_removed())),
    ),
];

/// A count of each server.
type ServerCounter = (&'static str, &'static str, fn(&Member) -> u64);

const SERVER_COUNTERS: [ServerCounter; 3] = [
    ("server_placed", "Arrivals placed on the server", |m| {
        m.server.placed()
    }),
    (
        "server_failed",
        "Transactions that the server failed",
        |m| m.server.failed(),
    ),
    (
        "server_underflows",
        "Closings that nothing was open for; anything but 0 is a fault of ours",
        |m| m.server.underflows(),
    ),
];

fn encode_servers(
    encoder: &mut DescriptorEncoder<'_>,
    members: &[&Member],
    now: Duration,
) -> fmt::Result {
    for (name, help, read) in SERVER_GAUGES {
        let values = members
            .iter()
            .map(|member| (labels(member), ConstGauge::new(read(member, now))));
        family(
            encoder.encode_descriptor(name, help, None, MetricType::Gauge)?,
            values,
        )?;
    }
    for (name, help, read) in SERVER_COUNTERS {
        let values = members
            .iter()
            .map(|member| (labels(member), ConstCounter::new(read(member))));
        family(
            encoder.encode_descriptor(name, help, None, MetricType::Counter)?,
            values,
        )?;
    }
    Ok(())
}

fn encode_costs(encoder: &mut DescriptorEncoder<'_>, pools: &[Pool]) -> fmt::Result {
    let help = "Cost of a transaction, as configured or learned; a BYE costs 1";
    let metric = encoder.encode_descriptor("pool_cost", help, None, MetricType::Gauge)?;
    let costs = pools.iter().flat_map(|pool| {
        let labels = |method: &str| [("pool", pool.name.clone()), ("method", method.to_owned())];
        let costs = pool.costs.iter();
        costs.map(move |(method, cost)| (labels(method), ConstGauge::new(*cost)))
    });
    family(metric, costs)
}

/// A number of each source: its name, what it means, how to read it.
type SourceGauge = (&'static str, &'static str, fn(&Source) -> f64);

const SOURCE_GAUGES: [SourceGauge; 3] = [
    (
        "source_servers",
        "Servers of a name that are in the pool",
        |source| source.used as f64,
    ),
    (
        "source_reserve",
        "Servers of a name that wait for those before them to be down",
        |source| source.reserve as f64,
    ),
    (
        "source_failing",
        "1 while the servers of a name are as they were, since it is not found",
        |source| f64::from(u8::from(source.problem.is_some())),
    ),
];

fn encode_sources(encoder: &mut DescriptorEncoder<'_>, control: &Control) -> fmt::Result {
    let (snapshot, members) = (control.shared().snapshot(), control.members());
    let pools = snapshot.config().pools.iter();
    let sources: Vec<_> = pools
        .flat_map(|pool| {
            let sources = members.view(pool).into_iter();
            sources.map(|source| (pool.name.clone(), source))
        })
        .collect();
    for (name, help, read) in SOURCE_GAUGES {
        let value = |(pool, source): &(String, Source)| {
            let labels = [("pool", pool.clone()), ("source", source.name.clone())];
            (labels, ConstGauge::new(read(source)))
        };
        family(
            encoder.encode_descriptor(name, help, None, MetricType::Gauge)?,
            sources.iter().map(value),
        )?;
    }
    let Some(names) = members.names() else {
        return Ok(());
    };
    let help = "Names asked for, and how the DNS answered";
    let metric = encoder.encode_descriptor("names", help, None, MetricType::Counter)?;
    let counts = Count::ALL.map(|(what, name)| {
        let count = ConstCounter::new(names.stats().count(what));
        ([("what", name.to_owned())], count)
    });
    family(metric, counts.into_iter())
}

/// A number of each peer: its name, what it means, how to read it.
type PeerGauge = (&'static str, &'static str, fn(&PeerView, Duration) -> f64);

const PEER_GAUGES: [PeerGauge; 3] = [
    (
        "peer_heard",
        "1 while the peer's share counts",
        |peer, _| f64::from(u8::from(peer.is_heard)),
    ),
    (
        "peer_age_seconds",
        "Time since the peer's latest report",
        |peer, now| now.saturating_sub(peer.heard_at).as_secs_f64(),
    ),
    (
        "peer_calls",
        "Open calls that the peer has reported",
        |peer, _| peer.calls as f64,
    ),
];

fn encode_peers(
    encoder: &mut DescriptorEncoder<'_>,
    peers: &[PeerView],
    now: Duration,
) -> fmt::Result {
    for (name, help, read) in PEER_GAUGES {
        let labels = |peer: &PeerView| {
            [
                ("peer", peer.name.clone()),
                ("address", peer.address.to_string()),
            ]
        };
        let values = peers
            .iter()
            .map(|peer| (labels(peer), ConstGauge::new(read(peer, now))));
        family(
            encoder.encode_descriptor(name, help, None, MetricType::Gauge)?,
            values,
        )?;
    }
    Ok(())
}

fn labels(member: &Member) -> [(&'static str, String); 2] {
    [
        ("pool", member.pool.clone()),
        ("server", member.address.to_string()),
    ]
}

fn encode_responses(encoder: &mut DescriptorEncoder<'_>, members: &[&Member]) -> fmt::Result {
    let help = "Time from a request to its first response";
    let mut metric =
        encoder.encode_descriptor("response_seconds", help, None, MetricType::Histogram)?;
    for member in members {
        for (method, name) in MethodLabel::ALL {
            let [pool, server] = labels(member);
            let labels = [pool, server, ("method", name.to_owned())];
            encode_histogram(metric.encode_family(&labels)?, member.responses(method))?;
        }
    }
    Ok(())
}

fn encode_histogram(mut metric: MetricEncoder<'_>, histogram: &Histogram) -> fmt::Result {
    let (counts, sum_us) = histogram.read();
    let bounds = BUCKETS_US
        .iter()
        .map(|&us| us as f64 / 1e6)
        .chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
    let count = counts.iter().sum();
    metric.encode_histogram::<NoLabelSet>(sum_us as f64 / 1e6, count, &buckets, None)
}

fn encode_processor_times(encoder: &mut DescriptorEncoder<'_>, control: &Control) -> fmt::Result {
    let help = "Processor time that the worker has used, in user and in kernel mode";
    let metric =
        encoder.encode_descriptor("worker_cpu_seconds", help, None, MetricType::Counter)?;
    let workers = 0..control.shared().workers().len();
    let times = workers.filter_map(|number| {
        let time = control.workers().processor_time(number)?;
        let labels = [("worker", number.to_string())];
        Some((labels, ConstCounter::new(time.as_secs_f64())))
    });
    family(metric, times)
}

/// A size of each worker.
type WorkerGauge = (&'static str, &'static str, fn(&WorkerStats) -> u64);

const WORKER_GAUGES: [WorkerGauge; 4] = [
    (
        "sessions_active",
        "Sessions that are alive",
        WorkerStats::sessions_active,
    ),
    (
        "sessions_expired",
        "Sessions that are over and kept for strays",
        WorkerStats::sessions_expired,
    ),
    (
        "transactions",
        "Open transactions",
        WorkerStats::transactions,
    ),
    (
        "held_transactions",
        "Transactions of stateful routes, those that linger too",
        WorkerStats::held_transactions,
    ),
];

fn encode_sizes(encoder: &mut DescriptorEncoder<'_>, workers: &[WorkerStats]) -> fmt::Result {
    for (name, help, read) in WORKER_GAUGES {
        let values =
            numbered(workers).map(|(worker, stats)| (worker, ConstGauge::new(read(stats))));
        family(
            encoder.encode_descriptor(name, help, None, MetricType::Gauge)?,
            values,
        )?;
    }
    Ok(())
}

fn encode_events(encoder: &mut DescriptorEncoder<'_>, workers: &[WorkerStats]) -> fmt::Result {
    for (event, label) in Event::ALL {
        let (name, help) = match event {
            Event::Received => ("messages_received", "Datagrams that came in".to_owned()),
            Event::Sent => ("messages_sent", "Datagrams given to the sockets".to_owned()),
            _ => (label, format!("How often: {}", label.replace('_', " "))),
        };
        let count = |stats: &WorkerStats| ConstCounter::new(stats.event(event));
        let values = numbered(workers).map(|(worker, stats)| (worker, count(stats)));
        family(
            encoder.encode_descriptor(name, &help, None, MetricType::Counter)?,
            values,
        )?;
    }
    Ok(())
}

/// Counts of one worker by a second label.
type Counts = Vec<(String, u64)>;

fn encode_labelled(encoder: &mut DescriptorEncoder<'_>, control: &Control) -> fmt::Result {
    let owned = |(label, count): (&str, u64)| (label.to_owned(), count);
    let dropped = |_, stats: &WorkerStats| {
        let counts = Dropped::ALL.map(|(reason, label)| (label, stats.dropped(reason)));
        counts.map(owned).to_vec()
    };
    let lost = |worker, _: &WorkerStats| lost(&control.workers().stats(worker)).map(owned).to_vec();
    let replied = |_, stats: &WorkerStats| replies(stats).collect();
    let mut counter = |name, help, label, read: &dyn Fn(usize, &WorkerStats) -> Counts| {
        let workers = control.shared().workers().iter().enumerate();
        let values = workers.flat_map(|(number, stats)| {
            let worker = ("worker", number.to_string());
            let values = read(number, stats).into_iter();
            values.map(move |(value, count)| {
                ([worker.clone(), (label, value)], ConstCounter::new(count))
            })
        });
        family(
            encoder.encode_descriptor(name, help, None, MetricType::Counter)?,
            values,
        )
    };
    counter(
        "dropped",
        "Messages dropped without an answer",
        "reason",
        &dropped,
    )?;
    counter(
        "socket_lost",
        "Datagrams that sockets did not receive or send",
        "reason",
        &lost,
    )?;
    counter(
        "replies",
        "Requests that the node answered itself",
        "status",
        &replied,
    )
}

/// The workers, labelled by their numbers.
fn numbered(
    workers: &[WorkerStats],
) -> impl Iterator<Item = ([(&'static str, String); 1], &WorkerStats)> {
    let label = |(number, stats): (usize, _)| ([("worker", number.to_string())], stats);
    workers.iter().enumerate().map(label)
}

/// One metric with several values, told apart by their labels.
fn family<L: EncodeLabelSet>(
    mut metric: MetricEncoder<'_>,
    values: impl Iterator<Item = (L, impl EncodeMetric)>,
) -> fmt::Result {
    for (labels, value) in values {
        value.encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}

//! /metrics: the node's counters in the OpenMetrics text format, read when they are asked for.

use std::{borrow::Borrow, fmt, sync::Arc, time::Duration};

use ::names::Count;
use node::{
    Member, PeerView, Snapshot,
    config::Pool,
    figures::{self, Figure, Kind, NodeAt, PeerAt, ServerAt, Value},
    stats::{Event, WorkerStats},
};
use prometheus_client::{
    collector::Collector,
    encoding::{
        DescriptorEncoder, EncodeLabelSet, EncodeMetric, MetricEncoder,
        text::{encode_eof, encode_registry},
    },
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Registry,
};

use super::response_times;
use crate::{
    certificates::TO_SERVERS,
    connections,
    serve::Control,
    view::{Source, dropped, listeners, lost, members, replies},
};

/// The media type of what [`Metrics::text`] yields.
pub(crate) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics of a node.
pub(crate) struct Metrics {
    registry: Registry,
    control: Arc<Control>,
}

impl Metrics {
    /// The metrics of the node under `control`.
    pub(crate) fn new(control: Arc<Control>) -> Self {
        let mut registry = Registry::with_prefix("sipyard");
        registry.register_collector(Box::new(NodeCollector(Arc::clone(&control))));
        Self { registry, control }
    }

    /// All of them at this moment.
    pub(crate) fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode_registry(&mut text, &self.registry)?;
        response_times::write(&mut text, &self.control)?;
        encode_eof(&mut text)?;
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
        let Self(control) = self;
        let (shared, now) = (Arc::clone(control.shared()), control.now());
        let snapshot = shared.snapshot();
        let encoder = &mut encoder;
        let servers: Vec<_> = members(&snapshot)
            .map(|member| (labels(member), at(&snapshot, member, now)))
            .collect();
        let peers = shared.peers().into_iter();
        let peers: Vec<_> = peers
            .map(|peer| (peer_labels(&peer), PeerAt { peer, now }))
            .collect();
        let limits = snapshot.config().limits.clone();
        let connections = snapshot.config().connections.clone();
        let node = NodeAt { shared, now };
        encode_figures(encoder, "", "", figures::NODE, &[(NO_LABELS, node)])?;
        encode_figures(
            encoder,
            "",
            "_limit",
            figures::LIMITS,
            &[(NO_LABELS, limits)],
        )?;
        encode_figures(
            encoder,
            "",
            "_limit",
            figures::CONNECTION_LIMITS,
            &[(NO_LABELS, connections)],
        )?;
        encode_store(encoder, control)?;
        encode_recorder(encoder, control)?;
        encode_call_records(encoder, control)?;
        encode_traces(encoder, control)?;
        encode_connections(encoder, control)?;
        encode_admin(encoder, control)?;
        encode_figures(encoder, "server_", "", figures::SERVER, &servers)?;
        encode_costs(encoder, &snapshot.config().pools)?;
        encode_sources(encoder, control)?;
        encode_figures(encoder, "peer_", "", figures::PEER, &peers)?;
        encode_processor_times(encoder, control)?;
        let workers = numbered(control.shared().workers());
        let workers: Vec<_> = workers.collect();
        encode_figures(encoder, "", "", figures::WORKER, &workers)?;
        encode_events(encoder, control.shared().workers())?;
        encode_labelled(encoder, control)
    }
}

const NO_LABELS: [(&str, String); 0] = [];

/// Encodes each figure of a table for each of its subjects.
fn encode_figures<S, T: Borrow<S>, const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    before: &str,
    behind: &str,
    table: &[Figure<S>],
    subjects: &[([(&'static str, String); N], T)],
) -> fmt::Result
where
    [(&'static str, String); N]: EncodeLabelSet,
{
    for figure in table {
        let name = format!("{before}{}{behind}", figure.full_name());
        let kind = match figure.kind {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge => MetricType::Gauge,
        };
        let mut metric = encoder.encode_descriptor(&name, figure.help, None, kind)?;
        for (labels, subject) in subjects {
            let Some(value) = figure.read(subject.borrow()) else {
                continue;
            };
            let metric = metric.encode_family(labels)?;
            match (figure.kind, value) {
                (Kind::Counter, Value::Count(count)) => ConstCounter::new(count).encode(metric)?,
                (Kind::Counter, value) => ConstCounter::new(value.as_f64()).encode(metric)?,
                (Kind::Gauge, value) => ConstGauge::new(value.as_f64()).encode(metric)?,
            }
        }
    }
    Ok(())
}

fn at(snapshot: &Snapshot, member: &Arc<Member>, now: Duration) -> ServerAt {
    let pools = snapshot.config().pools.iter();
    let mut of_server = pools.filter(|pool| pool.name == member.pool);
    ServerAt {
        member: Arc::clone(member),
        slow_start: of_server
            .next()
            .map_or(Duration::ZERO, |pool| pool.slow_start),
        now,
    }
}

/// Encodes numbers of the node's, each with its name and what it means.
fn gauges<const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    numbers: [(&str, &str, usize); N],
) -> fmt::Result {
    for (name, help, number) in numbers {
        let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(number as f64).encode(metric)?;
    }
    Ok(())
}

/// The same of what only grows.
fn counters<const N: usize>(
    encoder: &mut DescriptorEncoder<'_>,
    numbers: [(&str, &str, u64); N],
) -> fmt::Result {
    for (name, help, number) in numbers {
        let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(number).encode(metric)?;
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
    gauges(
        encoder,
        [
            ("store_records", help, records),
            ("store_bytes", "Memory of these records", bytes),
        ],
    )
}

fn encode_recorder(encoder: &mut DescriptorEncoder<'_>, control: &Control) -> fmt::Result {
    let Some(counts) = control.calls().counts(control.now()) else {
        return Ok(());
    };
    let (sent, lost) = control.calls().exported();
    gauges(
        encoder,
        [
            (
                "recorded_calls",
                "Calls whose messages are kept",
                counts.calls,
            ),
            (
                "recorded_bytes",
                "Memory of the calls that are kept",
                counts.bytes,
            ),
            (
                "recorded_one_in",
                "Of so many calls one is recorded",
                counts.one_in as usize,
            ),
        ],
    )?;
    counters(
        encoder,
        [
            (
                "calls_recorded",
                "Calls that were recorded",
                counts.recorded,
            ),
            (
                "calls_forgotten",
                "Recorded calls that were forgotten to make room",
                counts.forgotten,
            ),
            (
                "collector_sent",
                "Messages that went to the collector",
                sent,
            ),
            (
                "collector_lost",
                "Messages that could not be sent to the collector",
                lost,
            ),
            (
                "record_missed",
                "Messages and reasons that workers had no room to record",
                counts.missed,
            ),
        ],
    )
}

fn encode_call_records(encoder: &mut DescriptorEncoder<'_>, control: &Control) -> fmt::Result {
    let Some((counts, lost)) = control.calls().records() else {
        return Ok(());
    };
    let (streamed, stream_failures) = control.calls().streamed().unwrap_or_default();
    let (name, help) = ("call_records_open", "Attempts at calls that are not over");
    gauges(encoder, [(name, help, counts.open)])?;
    counters(
        encoder,
        [
            ("call_records", "Call records that were made", counts.told),
            (
                "call_records_lost",
                "Call records that could not be written",
                lost,
            ),
            (
                "call_records_crowded_out",
                "Attempts whose beginning no record tells, as too many were open",
                counts.crowded_out,
            ),
            (
                "call_records_unjournaled",
                "Batches of messages that a crash would take along, as the journal had no room",
                control.calls().unjournaled().unwrap_or_default(),
            ),
            (
                "call_records_streamed",
                "Call records that the stream of Redis took",
                streamed,
            ),
            (
                "call_records_stream_failures",
                "Attempts to send call records to the stream that failed",
                stream_failures,
            ),
        ],
    )
}

fn encode_admin(encoder: &mut DescriptorEncoder<'_>, control: &Control) -> fmt::Result {
    let places = control.places();
    let (name, help) = ("admin_connections", "Connections to the admin address");
    gauges(encoder, [(name, help, places.count())])?;
    let name = "admin_connections_refused";
    let help = "Connections to the admin address that were closed at once, as there were too many";
    counters(encoder, [(name, help, places.refused())])
}

fn encode_traces(encoder: &mut DescriptorEncoder<'_>, control: &Control) -> fmt::Result {
    let Some((counts, sent, lost)) = control.calls().traces() else {
        return Ok(());
    };
    let (name, help) = ("trace_requests_open", "Requests whose spans are not over");
    gauges(encoder, [(name, help, counts.open)])?;
    counters(
        encoder,
        [
            (
                "trace_spans",
                "Spans of requests that were made",
                counts.told,
            ),
            ("trace_spans_sent", "Spans that the collector took", sent),
            (
                "trace_spans_lost",
                "Spans that found the queue full, or that the collector did not take",
                lost,
            ),
            (
                "trace_spans_crowded_out",
                "Requests without a span, as too many were open",
                counts.crowded_out,
            ),
        ],
    )
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

fn peer_labels(peer: &PeerView) -> [(&'static str, String); 2] {
    [
        ("peer", peer.name.clone()),
        ("address", peer.address.to_string()),
    ]
}

fn labels(member: &Member) -> [(&'static str, String); 2] {
    [
        ("pool", member.pool.clone()),
        ("server", member.address.to_string()),
    ]
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

fn encode_events(encoder: &mut DescriptorEncoder<'_>, workers: &[WorkerStats]) -> fmt::Result {
    for &event in Event::ALL {
        let metric = MetricType::Counter;
        let metric = encoder.encode_descriptor(event.label(), event.help(), None, metric)?;
        let count = |stats: &WorkerStats| ConstCounter::new(stats.event(event));
        family(
            metric,
            numbered(workers).map(|(worker, stats)| (worker, count(stats))),
        )?;
    }
    Ok(())
}

/// Counts of one worker by a second label.
type Counts = Vec<(String, u64)>;

fn encode_labelled(encoder: &mut DescriptorEncoder<'_>, control: &Control) -> fmt::Result {
    let owned = |(label, count): (&str, u64)| (label.to_owned(), count);
    let dropped = |_, stats: &WorkerStats| dropped(stats).map(owned).collect();
    let lost = |worker, _: &WorkerStats| lost(&control.workers().stats(worker)).map(owned).to_vec();
    let replied = |_, stats: &WorkerStats| replies(stats).collect();
    let workers = control.workers();
    let closed =
        |worker, _: &WorkerStats| connections::closed(&workers.connections(worker)).collect();
    let connected = |worker, _: &WorkerStats| {
        let of = workers.connections(worker);
        connections::events(&of.counters).map(owned).to_vec()
    };
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
        "connections_closed",
        "Connections that were closed or refused",
        "reason",
        &closed,
    )?;
    counter(
        "connections",
        "What has happened to connections, and on them",
        "what",
        &connected,
    )?;
    counter(
        "replies",
        "Requests that the node answered itself",
        "status",
        &replied,
    )
}

/// What connections there are.
fn encode_connections(encoder: &mut DescriptorEncoder<'_>, control: &Control) -> fmt::Result {
    let workers = 0..control.shared().workers().len();
    let values = workers.flat_map(|worker| {
        let of = control.workers().connections(worker);
        let open = of.total - of.connecting - of.handshaking;
        let states = [
            ("open", open),
            ("connecting", of.connecting),
            ("handshaking", of.handshaking),
        ];
        states.map(|(state, count)| {
            let labels = [("worker", worker.to_string()), ("state", state.to_owned())];
            (labels, ConstGauge::new(count as f64))
        })
    });
    let help = "Connections that there are";
    let metric = encoder.encode_descriptor("connections_now", help, None, MetricType::Gauge)?;
    family(metric, values)?;
    let held = (0..control.shared().workers().len()).map(|worker| {
        let bytes = control.workers().connections(worker).held_bytes;
        (
            [("worker", worker.to_string())],
            ConstGauge::new(bytes as f64),
        )
    });
    let help = "Memory of what waits on connections";
    let metric =
        encoder.encode_descriptor("connections_held_bytes", help, None, MetricType::Gauge)?;
    family(metric, held)?;
    encode_listeners(encoder, control)
}

/// The connections of each listener, and when certificates end.
fn encode_listeners(encoder: &mut DescriptorEncoder<'_>, control: &Control) -> fmt::Result {
    let snapshot = control.shared().snapshot();
    let count = control.shared().workers().len();
    let shown = listeners(snapshot.config(), control.workers(), count);
    let values = shown.iter().filter_map(|it| {
        let labels = [
            ("listener", it.address.to_string()),
            ("transport", it.transport.clone()),
        ];
        Some((labels, ConstGauge::new(it.connections? as f64)))
    });
    let help = "Connections that a listener has";
    let metric =
        encoder.encode_descriptor("listener_connections", help, None, MetricType::Gauge)?;
    family(metric, values)?;
    let listeners = &snapshot.config().listeners;
    let security = control.workers().security();
    let ends = security.certificates_end().into_iter();
    let ends = ends.map(|(listener, end)| (listeners[listener].address.to_string(), end));
    let own = security.client_identity();
    let own = own.map(|it| (TO_SERVERS.to_owned(), it.not_after()));
    let admin = control.admin();
    let of_admin = admin.tls.as_ref();
    let of_admin = of_admin.map(|tls| (admin.address.to_string(), tls.not_after()));
    let values = ends.chain(own).chain(of_admin);
    let values = values.map(|(shown, end)| {
        let end = ConstGauge::new(end.as_secs_f64());
        ([("listener", shown)], end)
    });
    let help = "When the first certificate of a listener, of the admin API, or to servers ends, since 1970";
    let metric =
        encoder.encode_descriptor("certificate_end_seconds", help, None, MetricType::Gauge)?;
    family(metric, values)
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

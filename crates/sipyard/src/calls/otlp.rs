//! Sends spans of calls to a collector in OTLP, as JSON over HTTP, from a thread of its own.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};

use recorder::{Span, TraceCounts, Traces, trace_of};
use serde_json::{Value, json};

/// Batches that wait for the collector; more are lost, and counted.
const BATCHES_MAX: usize = 64;
/// Spans of a request.
const BATCH_MAX: usize = 512;
/// How long the collector may take.
const PATIENCE: Duration = Duration::from_secs(5);
const CLIENT: u8 = 3;
const SERVER: u8 = 2;
const ERROR: u8 = 2;

/// Where spans go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TraceExport {
    pub(crate) endpoint: String,
    /// Of so many calls one is traced; 1: all.
    pub(crate) one_in: u32,
    /// The most requests that are followed at a time.
    pub(crate) open_max: usize,
}

/// Spans that the collector took, and those that it did not.
#[derive(Debug, Default)]
struct Sent {
    sent: AtomicU64,
    lost: AtomicU64,
}

/// The spans of the calls that pass, and the way to the collector. Nobody waits for it.
#[derive(Debug)]
pub(super) struct Tracer {
    settings: TraceExport,
    node: String,
    traces: Traces,
    /// The thread ends when this does.
    queue: SyncSender<(Vec<Span>, Duration)>,
    sent: Arc<Sent>,
}

impl Tracer {
    pub(super) fn new(settings: TraceExport, node: &str) -> Self {
        let (queue, batches) = sync_channel(BATCHES_MAX);
        let sent = Arc::new(Sent::default());
        let (counts, endpoint, name) = (
            Arc::clone(&sent),
            settings.endpoint.clone(),
            node.to_owned(),
        );
        let send = move || send_all(&batches, &endpoint, &name, &counts);
        if let Err(error) = thread::Builder::new().name("traces".into()).spawn(send) {
            tracing::error!("no spans are sent, as no thread could be started: {error}");
        }
        Self {
            traces: Traces::new(node, settings.open_max, settings.one_in),
            node: node.to_owned(),
            settings,
            queue,
            sent,
        }
    }

    /// Goes on with these settings; other ones begin anew.
    pub(super) fn set(&mut self, settings: TraceExport) {
        if self.settings != settings {
            *self = Self::new(settings, &self.node);
        }
    }

    /// What was told, and how many spans the collector took and did not take.
    pub(super) fn counts(&self) -> (TraceCounts, u64, u64) {
        let Sent { sent, lost } = &*self.sent;
        (self.traces.counts(), sent.load(Relaxed), lost.load(Relaxed))
    }

    /// The trace of a call, if it has one.
    pub(super) fn trace_of(&self, call: u64) -> Option<u128> {
        let is_traced = call.is_multiple_of(u64::from(self.settings.one_in));
        is_traced.then(|| trace_of(call))
    }

    /// Follows calls by what `follow` gives. `zero` is the wall time of the node's zero.
    pub(super) fn take(
        &mut self,
        zero: Duration,
        follow: impl FnOnce(&mut Traces, &mut Vec<Span>),
    ) {
        let mut told = Vec::new();
        follow(&mut self.traces, &mut told);
        for batch in told.chunks(BATCH_MAX) {
            if self.queue.try_send((batch.to_vec(), zero)).is_err() {
                self.sent.lost.fetch_add(batch.len() as u64, Relaxed);
            }
        }
    }
}

fn send_all(batches: &Receiver<(Vec<Span>, Duration)>, endpoint: &str, node: &str, counts: &Sent) {
    let settings = ureq::Agent::config_builder()
        .timeout_global(Some(PATIENCE))
        .max_redirects(0);
    let agent = ureq::Agent::new_with_config(settings.build());
    let mut is_failing = false;
    while let Ok((spans, zero)) = batches.recv() {
        let body = body(&spans, node, zero).to_string();
        let request = agent.post(endpoint).content_type("application/json");
        let (counter, fails) = match request.send(body) {
            Ok(_) => (&counts.sent, false),
            Err(error) => {
                if !is_failing {
                    tracing::warn!("spans can't be sent to {endpoint}: {error}");
                }
                (&counts.lost, true)
            }
        };
        if is_failing && !fails {
            tracing::info!("spans go to {endpoint} again");
        }
        is_failing = fails;
        counter.fetch_add(spans.len() as u64, Relaxed);
    }
}

/// An ExportTraceServiceRequest in JSON: ids in hex, 64-bit numbers as text.
fn body(spans: &[Span], node: &str, zero: Duration) -> Value {
    let spans: Vec<Value> = spans.iter().map(|span| one(span, zero)).collect();
    json!({ "resourceSpans": [{
        "resource": { "attributes": [text("service.name", "sipyard"), text("service.instance.id", node)] },
        "scopeSpans": [{
            "scope": { "name": "sipyard", "version": env!("CARGO_PKG_VERSION") },
            "spans": spans,
        }],
    }] })
}

fn one(span: &Span, zero: Duration) -> Value {
    let mut attributes = vec![
        text("network.protocol.name", "sip"),
        text("network.protocol.version", "2.0"),
        text("network.transport", &span.transport),
        text("network.peer.address", &span.peer.ip().to_string()),
        number("network.peer.port", span.peer.port().into()),
        text("sip.message.type", "request"),
        text("sip.request.method", &span.method),
        text("sip.call_id", &span.call_id),
        text("sip.cseq", &format!("{} {}", span.cseq, span.method)),
    ];
    attributes.extend(
        span.status
            .map(|status| number("sip.response.status_code", status.into())),
    );
    let failed = match span.status {
        Some(status) => status >= if span.is_client { 400 } else { 500 },
        None => true,
    };
    let nanos = |at: Duration| (zero + at).as_nanos().to_string();
    let mut told = json!({
        "traceId": format!("{:032x}", span.trace),
        "spanId": format!("{:016x}", span.id),
        "name": format!("{} {}", span.method, if span.is_client { "branch" } else { "request" }),
        "kind": if span.is_client { CLIENT } else { SERVER },
        "startTimeUnixNano": nanos(span.begun),
        "endTimeUnixNano": nanos(span.ended),
        "attributes": attributes,
        "status": if failed { json!({ "code": ERROR }) } else { json!({}) },
    });
    if let Some(parent) = span.parent {
        told["parentSpanId"] = format!("{parent:016x}").into();
    }
    told
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn number(key: &str, value: u64) -> Value {
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}

//! Spans that go to a collector: read back by the schema that OpenTelemetry publishes.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]
#![allow(clippy::disallowed_methods, reason = "it starts a collector")]

mod common;

use std::{
    collections::HashMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::mpsc::{Sender, channel},
    thread,
    time::Duration,
};

use common::{Edge, Settings, eventually, free_address, phones::Phone};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::any_value::Value,
    trace::v1::{Span, span::SpanKind},
};

const PATIENCE: Duration = Duration::from_secs(20);

/// A collector that gives on what it is sent, until the test ends.
fn collect(stream: TcpStream, told: &Sender<Vec<u8>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        told.send(body).ok()?;
        let answer =
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
        reader.get_mut().write_all(answer.as_bytes()).ok()?;
    }
}

fn start(server: SocketAddr, collector: SocketAddr) -> Edge {
    let settings = Settings::new();
    let pool = format!("servers = [ {{ address = \"{server}\" }} ]\nprobe = false");
    let traces =
        format!("calls = {{ traces = {{ endpoint = \"http://{collector}/v1/traces\" }} }}");
    settings.write(&pool, &traces);
    settings.start()
}

fn counts(edge: &Edge, name: &str, value: u64) -> bool {
    let line = format!("sipyard_{name}_total {value}\n");
    edge.ask("GET", "/metrics").1.contains(&line)
}

/// The attributes as text.
fn attributes(span: &Span) -> HashMap<&str, String> {
    let pairs = span.attributes.iter().map(|pair| {
        let value = match pair.value.as_ref().unwrap().value.as_ref().unwrap() {
            Value::StringValue(text) => text.clone(),
            Value::IntValue(number) => number.to_string(),
            other => panic!("{other:?}"),
        };
        (pair.key.as_str(), value)
    });
    pairs.collect()
}

#[test]
fn a_collector_gets_a_call_as_one_trace() {
    let (caller, server) = (Phone::new(), Phone::new());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let (sender, bodies) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            collect(stream.unwrap(), &sender);
        }
    });
    let edge = start(server.address(), at);
    caller.call(edge.sip(), &server, "a-call", "alice");
    let mut spans: Vec<Span> = Vec::new();
    while spans.len() < 4 {
        let body = bodies.recv_timeout(PATIENCE).unwrap();
        let request: ExportTraceServiceRequest = serde_json::from_slice(&body).unwrap();
        let scopes = request
            .resource_spans
            .into_iter()
            .flat_map(|of| of.scope_spans);
        spans.extend(scopes.flat_map(|scope| scope.spans));
    }
    spans.sort_by_key(|span| (span.start_time_unix_nano, span.kind));
    let names: Vec<_> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "INVITE request",
            "INVITE branch",
            "BYE request",
            "BYE branch"
        ]
    );
    let root = &spans[0];
    assert_eq!((root.trace_id.len(), root.span_id.len()), (16, 8));
    assert!(root.parent_span_id.is_empty());
    for span in &spans {
        let attributes = attributes(span);
        assert_eq!(span.trace_id, root.trace_id);
        assert!(span.end_time_unix_nano >= span.start_time_unix_nano);
        assert_eq!(attributes["sip.call_id"], "a-call");
        assert_eq!(attributes["sip.response.status_code"], "200");
        assert_eq!(attributes["network.transport"], "udp");
        let is_client = span.kind == SpanKind::Client as i32;
        let peer = if is_client { &server } else { &caller }.address();
        assert_eq!(attributes["network.peer.port"], peer.port().to_string());
    }
    for span in &spans[1..] {
        assert_eq!(span.parent_span_id, root.span_id, "{}", span.name);
    }
    eventually("all is counted", || counts(&edge, "trace_spans_sent", 4));
    assert!(counts(&edge, "trace_spans_lost", 0));
}

#[test]
fn calls_go_on_without_a_collector_and_what_it_misses_is_counted() {
    let (caller, server) = (Phone::new(), Phone::new());
    let edge = start(server.address(), free_address());
    caller.call(edge.sip(), &server, "a-call", "alice");
    eventually("spans are lost", || counts(&edge, "trace_spans_lost", 4));
    assert!(counts(&edge, "trace_spans_sent", 0));
}

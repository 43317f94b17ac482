//! Spans of calls: one for each attempt, others below it.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::slice;

use common::{World, settings};
use recorder::{Span, Traces};

fn told(world: &World, traces: &mut Traces) -> Vec<Span> {
    let mut told = Vec::new();
    let tap = slice::from_ref(world.out.tap.as_ref().unwrap());
    let snapshot = world.shared.snapshot();
    traces.take(tap, world.now, &snapshot, &mut |span| told.push(span));
    told
}

#[test]
fn a_call_is_one_trace_below_its_attempt() {
    let mut world = World::new(settings());
    world.call("one");
    let mut traces = Traces::new("edge-1", 1_000, 1);
    let spans = told(&world, &mut traces);
    let root = spans.iter().find(|span| span.parent.is_none()).unwrap();
    assert_eq!((&*root.method, root.is_client), ("INVITE", false));
    assert!(spans.len() >= 2, "{spans:?}");
    for span in &spans {
        assert_eq!((span.trace, span.status), (root.trace, Some(200)));
        assert!(span.id == root.id || span.parent == Some(root.id));
    }
    assert_eq!(traces.counts().told, spans.len() as u64);
    assert!(told(&world, &mut traces).is_empty(), "repetitions are told");
}

#[test]
fn what_finds_no_room_is_counted() {
    let mut world = World::new(settings());
    world.call("one");
    let mut traces = Traces::new("edge-1", 1, 1);
    told(&world, &mut traces);
    assert_eq!(traces.counts().open, 1);
    assert!(traces.counts().crowded_out > 0);
}

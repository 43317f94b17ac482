//! Taps that wait until somebody asks.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use common::{World, settings};
use node::tap::Tap;
use recorder::Backlog;

/// A tap that has seen one call, and how many entries it has.
fn seen(world: &mut World, call: &str, bytes_max: usize) -> (Tap, u64) {
    world.out.tap = Some(Tap::new(bytes_max));
    world.call(call);
    let tap = world.out.tap.take().unwrap();
    let entries = tap.entries().len() as u64;
    (tap, entries)
}

#[test]
fn the_oldest_taps_go_and_the_others_are_sorted_later() {
    let mut world = World::new(settings());
    let mut backlog = Backlog::default();
    let (first, entries) = seen(&mut world, "first", 1 << 20);
    let size = first.capacity();
    backlog.put(first);
    for call in ["second", "third"] {
        backlog.put(seen(&mut world, call, 1 << 20).0);
    }
    backlog.keep(backlog.bytes() - size / 2);
    assert_eq!(backlog.passed_over(), entries);
    while let Some(tap) = backlog.take() {
        let small = world.recorder.take(tap, &world.shared.snapshot());
        backlog.give_back(small.unwrap());
    }
    assert_eq!((backlog.bytes(), backlog.empty_ones().len()), (0, 3));
    let snapshot = world.shared.snapshot();
    let messages = ["first", "second", "third"].map(|call| {
        let ladder = world
            .recorder
            .call(snapshot.session_of(call.as_bytes()), world.now);
        ladder.map(|ladder| ladder.summary.messages)
    });
    assert_eq!(messages, [None, Some(12), Some(12)]);
}

/// The memory of a burst stayed with the few messages that came after it, so that these pushed the burst out.
#[test]
fn a_tap_in_the_backlog_takes_what_it_needs() {
    let mut world = World::new(settings());
    world.out.tap = Some(Tap::new(16 << 20));
    for number in 0..100 {
        world.call(&format!("burst-{number}"));
    }
    world.out.tap.as_mut().unwrap().clear();
    world.call("after");
    let tap = world.out.tap.take().unwrap();
    let used = tap.len();
    let mut backlog = Backlog::default();
    assert!(tap.capacity() > 40 * used);
    backlog.put(tap);
    assert!(backlog.bytes() < 4 * used, "{}", backlog.bytes());
}

#[test]
fn what_found_no_room_is_counted_and_an_idle_tap_is_not_kept() {
    let mut world = World::new(settings());
    let mut backlog = Backlog::default();
    backlog.put(seen(&mut world, "call", 100).0);
    assert!(backlog.missed() > 12, "{}", backlog.missed());
    assert!(backlog.take().is_some());
    backlog.put(Tap::new(100));
    assert_eq!((backlog.bytes(), backlog.empty_ones().len()), (0, 1));
}

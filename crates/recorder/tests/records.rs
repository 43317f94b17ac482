//! Call records: one for each attempt, whoever sees which part of it.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::{mem, slice, time::Duration};

use common::{CALLER, SECOND, World, request, response, route_of, settings};
use node::tap::Tap;
use recorder::{End, Outcome, Record, Records, write_passed};

/// 2026-01-01.
const ZERO: Duration = Duration::from_secs(1_767_225_600);
const STRANGER: &str = "198.51.100.66:5060";

fn records() -> Records {
    Records::new("edge-1".to_owned(), 1_000, None)
}

/// What is told of all that has passed.
fn told(world: &mut World, records: &mut Records) -> Vec<Record> {
    let mut told = Vec::new();
    let tap = world.out.tap.as_mut().unwrap();
    let mut tell = |record| told.push(record);
    let (now, snapshot) = (world.now, world.shared.snapshot());
    records.take(slice::from_ref(tap), now, &snapshot, ZERO, &mut tell);
    tap.clear();
    records.look(world.now, ZERO, &mut tell);
    told
}

/// Begins a call: the server that has it, and the INVITE there.
fn invite(world: &mut World, call: &str) -> (String, Vec<u8>) {
    let (server, invite) = world
        .input(CALLER, &request("INVITE", call, "", ""))
        .remove(0);
    (server.to_string(), invite)
}

/// The same, and it is answered: the server, and the route set.
fn answered(world: &mut World, call: &str) -> (String, String) {
    let (server, invite) = invite(world, call);
    let answer = world
        .input(&server, &response(&invite, "200 OK"))
        .remove(0)
        .1;
    (server, route_of(&answer))
}

#[test]
fn a_call_is_told_once_with_its_times_and_ends() {
    let (mut world, mut records) = (World::new(settings()), records());
    let server = world.call("one");
    let told_first = told(&mut world, &mut records);
    let [record] = &told_first[..] else {
        panic!("{told_first:?}");
    };
    assert_eq!(record.outcome, Outcome::Answered);
    assert_eq!(
        (&*record.from, &*record.to),
        ("alice@example.com", "+4420@example.com")
    );
    assert_eq!((&*record.call_id, &*record.node), ("one", "edge-1"));
    assert_eq!(record.begun.as_deref(), Some("2026-01-01T00:00:01Z"));
    assert_eq!(record.answered.as_deref(), Some("2026-01-01T00:00:01.02Z"));
    assert_eq!(record.ended.as_deref(), Some("2026-01-01T00:00:02.02Z"));
    assert_eq!((record.talked_s, record.status), (Some(1.0), Some(200)));
    assert_eq!(record.ended_by, Some(End::Caller));
    assert_eq!(
        (record.server, record.pool.as_deref()),
        (Some(server), Some("app"))
    );
    assert_eq!((record.tried.len(), record.tried[0].status), (1, Some(200)));
    // A BYE that comes again is no call of its own.
    world.input(CALLER, &request("BYE", "one", ";tag=b7f3", ""));
    world.now += 60 * SECOND;
    assert_eq!(told(&mut world, &mut records), []);
}

#[test]
fn a_refused_call_is_told_with_all_servers_that_it_went_to() {
    let (mut world, mut records) = (World::new(settings()), records());
    let first = world
        .input(CALLER, &request("INVITE", "busy", "", ""))
        .remove(0)
        .0;
    let (second, again) = world.wait(Duration::from_millis(1_100)).pop().unwrap();
    assert_ne!(first, second);
    world.input(&second.to_string(), &response(&again, "486 Busy Here"));
    let told_first = told(&mut world, &mut records);
    assert_eq!(told_first.len(), 1, "{told_first:?}");
    let record = &told_first[0];
    assert_eq!(
        (record.outcome, record.status),
        (Outcome::Refused, Some(486))
    );
    let tried: Vec<_> = record
        .tried
        .iter()
        .map(|it| (it.server, it.status))
        .collect();
    assert_eq!(tried, [(first, None), (second, Some(486))]);
    assert_eq!((record.talked_s, record.ended_by), (None, None));
    // Its INVITE comes again, as the ACK is late.
    world.input(CALLER, &request("INVITE", "busy", "", ""));
    world.input(&second.to_string(), &response(&again, "486 Busy Here"));
    assert_eq!(told(&mut world, &mut records), []);
}

#[test]
fn callers_that_give_up_and_calls_that_nobody_answers_are_told() {
    let (mut world, mut records) = (World::new(settings()), records());
    let (server, ringing) = invite(&mut world, "cancelled");
    world.input(&server, &response(&ringing, "180 Ringing"));
    world.input(CALLER, &request("CANCEL", "cancelled", "", ""));
    world.input(&server, &response(&ringing, "487 Request Terminated"));
    invite(&mut world, "lost");
    let mut outcomes = told(&mut world, &mut records);
    world.now += 100 * SECOND;
    outcomes.extend(told(&mut world, &mut records));
    let outcomes: Vec<_> = outcomes
        .iter()
        .map(|it| (&*it.call_id, it.outcome))
        .collect();
    assert_eq!(
        outcomes,
        [("cancelled", Outcome::Cancelled), ("lost", Outcome::Lost)]
    );
    assert_eq!(records.counts().open, 0);
}

#[test]
fn the_end_alone_is_known_of_a_call_that_began_at_another_node() {
    let mut before = World::new(settings());
    let (server, route) = answered(&mut before, "moved");
    let (mut world, mut records) = (World::new(settings()), records());
    let bye = request("BYE", "moved", ";tag=b7f3", &route);
    let forwarded = world.input(CALLER, &bye).remove(0).1;
    assert_eq!(
        told(&mut world, &mut records),
        [],
        "not before it is accepted"
    );
    world.input(&server, &response(&forwarded, "200 OK"));
    let told = told(&mut world, &mut records);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].outcome, Outcome::Answered);
    assert_eq!((&told[0].begun, &told[0].status), (&None, &None));
    assert_eq!(told[0].ended.as_deref(), Some("2026-01-01T00:00:01Z"));
}

/// Anybody who knows a Call-ID could end its record, or write as many records as they liked.
#[test]
fn a_bye_that_is_not_accepted_ends_nothing() {
    let (mut world, mut records) = (World::new(settings()), records());
    world.input(STRANGER, &request("BYE", "never", ";tag=x", ""));
    let (server, route) = answered(&mut world, "theirs");
    world.input(STRANGER, &request("BYE", "theirs", ";tag=x", ""));
    assert_eq!(told(&mut world, &mut records), []);
    let bye = request("BYE", "theirs", ";tag=b7f3", &route);
    let bye = world.input(CALLER, &bye).remove(0).1;
    world.input(&server, &response(&bye, "200 OK"));
    let ended = told(&mut world, &mut records);
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0].ended_by, Some(End::Caller));
    world.now += 100 * SECOND;
    assert_eq!(told(&mut world, &mut records), []);
}

/// The answer of one worker was read before the request of another, so half of the calls had no record.
#[test]
fn taps_of_several_workers_are_read_in_the_order_of_time() {
    let (mut world, mut records) = (World::new(settings()), records());
    let mut told = Vec::new();
    let tap = || Some(Tap::new(1 << 20));
    let (server, sent) = invite(&mut world, "apart");
    let requests = mem::replace(&mut world.out.tap, tap()).unwrap();
    world.now += SECOND;
    world.input(&server, &response(&sent, "486 Busy Here"));
    let responses = mem::replace(&mut world.out.tap, tap()).unwrap();
    let snapshot = world.shared.snapshot();
    let mut take = |taps: &[Tap], until| {
        records.take(taps, until, &snapshot, ZERO, &mut |record| {
            told.push(record)
        });
    };
    // The response is too new to be sure that nothing is missing.
    take(&[responses], SECOND);
    take(&[requests], world.now);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].outcome, Outcome::Refused);
}

#[test]
fn too_many_open_calls_are_counted() {
    let mut world = World::new(settings());
    let mut records = Records::new("edge".to_owned(), 1, None);
    invite(&mut world, "first");
    invite(&mut world, "second");
    told(&mut world, &mut records);
    let counts = records.counts();
    assert_eq!((counts.open, counts.crowded_out), (1, 1));
}

/// A reload changed neither who is hidden nor how many attempts are followed: both were set once, at the start.
#[test]
fn what_is_set_later_holds_for_open_attempts_too() {
    let (mut world, mut records) = (World::new(settings()), records());
    let (server, ringing) = invite(&mut world, "open");
    told(&mut world, &mut records);
    records.set(1, Some([7; 16]));
    invite(&mut world, "one-too-many");
    world.input(&server, &response(&ringing, "486 Busy Here"));
    let told = told(&mut world, &mut records);
    let [record] = &told[..] else {
        panic!("{told:?}");
    };
    assert_eq!(
        (&*record.call_id, records.counts().crowded_out),
        ("open", 1)
    );
    let mut fresh = Records::new("edge-1".to_owned(), 1, Some([7; 16]));
    world.call("open");
    let hidden = self::told(&mut world, &mut fresh);
    assert_eq!((&record.from, &record.to), (&hidden[0].from, &hidden[0].to));
    assert!(!hidden[0].from.contains("alice"), "{hidden:?}");
}

/// A telephone number has no user, so it stood in records that hide users.
#[test]
fn a_number_is_hidden_like_a_user() {
    let mut world = World::new(settings());
    let mut records = Records::new("edge-1".to_owned(), 1, Some([7; 16]));
    let invite = String::from_utf8(request("INVITE", "number", "", "")).unwrap();
    let invite = invite.replace("sip:alice@example.com", "tel:+15551234;phone-context=x");
    let (server, invite) = world.input(CALLER, invite.as_bytes()).remove(0);
    world.input(&server.to_string(), &response(&invite, "486 Busy Here"));
    let told = told(&mut world, &mut records);
    assert!(!told[0].from.contains("1555"), "{told:?}");
}

/// What a process wrote before it was killed, and did not tell.
#[test]
fn what_an_earlier_process_did_not_tell_is_told_once() {
    let mut world = World::new(settings());
    world.call("told");
    let since = world.now;
    world.now += SECOND;
    world.call("left");
    let (server, route) = answered(&mut world, "goes-on");
    let mut tap = world.out.tap.replace(Tap::new(1 << 20)).unwrap();
    let news = tap.news();
    let mut written = Vec::new();
    write_passed(&tap, &tap.entries()[news], &mut written);
    assert_eq!(tap.news().len(), 0);
    let snapshot = world.shared.snapshot();
    let replayed = |written: &[u8]| {
        let (mut records, mut told) = (records(), Vec::new());
        let mut tell = |record| told.push(record);
        records.replay(written, since, &snapshot, ZERO, &mut tell);
        (records, told)
    };
    let (mut records, left) = replayed(&written);
    assert_eq!(left.len(), 1);
    assert_eq!((&*left[0].call_id, left[0].talked_s), ("left", Some(1.0)));
    // Its BYE comes again to the process that lives, and ends nothing more.
    world.input(CALLER, &request("BYE", "left", ";tag=b7f3", ""));
    assert_eq!(told(&mut world, &mut records), []);
    let (_, bye) = world
        .input(CALLER, &request("BYE", "goes-on", ";tag=b7f3", &route))
        .remove(0);
    world.input(&server, &response(&bye, "200 OK"));
    let end = told(&mut world, &mut records);
    assert_eq!((end.len(), &end[0].begun), (1, &None));
    // A write that was cut off anywhere.
    for length in (0..written.len()).step_by(7) {
        assert!(replayed(&written[..length]).1.len() <= 1);
    }
}

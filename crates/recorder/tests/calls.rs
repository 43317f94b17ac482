//! What is kept of calls that pass a node.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::time::Duration;

use capture::Trace;
use common::{CALLER, SECOND, World, request, response, settings};
use node::tap::Tap;
use recorder::{End, Order, Search, Settings, State, Step};

fn words(world: &World, text: &str) -> Vec<String> {
    let search = Search {
        words: text.split_whitespace().map(str::to_owned).collect(),
        order: Order::Newest,
        ..Search::default()
    };
    let (found, count) = world.recorder.find(&search, world.now, 1000);
    assert_eq!(found.len(), count);
    found.iter().map(|call| call.call_id.to_string()).collect()
}

#[test]
fn a_call_is_kept_message_by_message_with_why() {
    let mut world = World::new(settings());
    let server = world.call("one");
    let ladder = world.ladder("one");
    let summary = &ladder.summary;
    assert_eq!(
        (ladder.state, summary.end),
        (State::Done, Some(End::Caller))
    );
    assert_eq!(
        (&*summary.from, &*summary.to),
        ("alice@example.com", "+4420@example.com")
    );
    assert_eq!((summary.server, summary.status), (Some(server), 200));
    assert_eq!(
        (summary.messages, summary.talked(world.now)),
        (12, Some(SECOND))
    );
    let text = ladder.text();
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].contains(CALLER) && lines[0].contains("this node"),
        "{text}"
    );
    assert!(lines[1].ends_with('|') && lines[1].contains(" INVITE ") && lines[1].contains('>'));
    let placed = format!("tlwl chose {server}: 10.0.0.1:5060 had 0 calls, 0 transactions");
    assert!(lines[2].contains(&placed), "{text}");
    assert!(
        lines[4].contains("<") && lines[4].contains("180 Ringing"),
        "{text}"
    );
    assert!(ladder.full_text().contains("\ns=secret\n"));
}

#[test]
fn what_timers_did_and_what_was_sent_again_is_told() {
    let mut world = World::new(settings());
    let invite = request("INVITE", "slow", "", "");
    world.input(CALLER, &invite);
    world.wait(Duration::from_millis(500));
    world.input(CALLER, &invite);
    world.wait(Duration::from_millis(700));
    let ladder = world.ladder("slow");
    let text = ladder.text();
    assert!(text.contains("INVITE (again)"), "{text}");
    assert!(
        text.contains("failed_over: A request went to another server"),
        "{text}"
    );
    let placed = |step: &&recorder::Rung| matches!(step.step, Step::Placed { .. });
    assert_eq!(ladder.rungs.iter().filter(placed).count(), 2, "{text}");
    assert_eq!(ladder.state, State::Trying);
    world.now += 40 * SECOND;
    assert_eq!(world.ladder("slow").state, State::Lost);
}

#[test]
fn calls_are_found_by_what_is_known_of_them_trouble_first() {
    let mut world = World::new(settings());
    let server = world.call("first-call");
    let (at, invite) = world
        .input(CALLER, &request("INVITE", "refused", "", ""))
        .remove(0);
    world.input(&at.to_string(), &response(&invite, "486 Busy Here"));
    world.now += SECOND;
    let (at, invite) = world
        .input(CALLER, &request("INVITE", "ringing", "", ""))
        .remove(0);
    world.input(&at.to_string(), &response(&invite, "180 Ringing"));
    world.now += SECOND;
    world.call("last");
    world.record();
    let all = Search::default();
    let (found, count) = world.recorder.find(&all, world.now, 3);
    let order: Vec<&str> = found.iter().map(|call| &*call.call_id).collect();
    assert_eq!((count, order), (4, vec!["refused", "ringing", "last"]));
    assert_eq!(words(&world, "FIRST"), ["first-call"]);
    assert_eq!(words(&world, "486"), ["refused"]);
    assert_eq!(words(&world, "alice 4420").len(), 4);
    assert_eq!(words(&world, "203.0.113.7").len(), 4);
    assert!(words(&world, &server.to_string()).contains(&"first-call".to_owned()));
    assert!(words(&world, "nobody").is_empty());
    let state = Search {
        states: vec![State::Ringing],
        since: Some(world.now),
        ..Search::default()
    };
    assert!(world.recorder.find(&state, world.now, 9).0.is_empty());
}

/// The longest silent calls go first, and one that goes on stays.
#[test]
fn memory_is_bounded_by_bytes() {
    let mut world = World::new(Settings {
        bytes_max: 200_000,
        ..settings()
    });
    let (server, invite) = world
        .input(CALLER, &request("INVITE", "long", "", ""))
        .remove(0);
    for number in 0..200 {
        world.call(&format!("call-{number}"));
        world.input(&server.to_string(), &response(&invite, "180 Ringing"));
        world.record();
        let counts = world.counts();
        assert!(counts.bytes <= 200_000, "{counts:?}");
    }
    let counts = world.counts();
    assert_eq!((counts.recorded, counts.missed), (201, 0));
    assert_eq!(counts.forgotten as usize + counts.calls, 201);
    assert!(words(&world, "call-0").is_empty());
    assert_eq!(words(&world, "call-199"), ["call-199"]);
    assert_eq!(words(&world, "long"), ["long"]);
}

/// A phone that registers with one Call-ID for ever, or a dialog that never ends.
#[test]
fn one_call_has_a_bound_too() {
    let mut world = World::new(settings());
    let (server, invite) = world
        .input(CALLER, &request("INVITE", "noisy", "", ""))
        .remove(0);
    for _ in 0..2_000 {
        world.input(&server.to_string(), &response(&invite, "180 Ringing"));
    }
    let ladder = world.ladder("noisy");
    assert!(
        ladder.rungs.len() <= 400 && ladder.left_out > 3_000,
        "{}",
        ladder.left_out
    );
}

/// A response behind an empty line was taken for a request, and began a call.
#[test]
fn a_response_begins_no_call() {
    let mut world = World::new(settings());
    let invite = request("INVITE", "unasked", "", "");
    let answer = response(&invite, "200 OK");
    for start in ["", "\r\n"] {
        world.input(CALLER, &[start.as_bytes(), &answer].concat());
    }
    world.record();
    assert!(words(&world, "unasked").is_empty());
    assert_eq!(world.counts().recorded, 0);
}

/// A large tap is kept as it is. Credentials are hidden all the same, and of a call that has lost its oldest messages it is
/// told.
#[test]
fn a_large_tap_is_kept_whole_and_goes_whole() {
    let mut world = World::new(Settings {
        bytes_max: 4 << 20,
        ..settings()
    });
    let field = "Authorization: Digest username=\"u\", response=\"0f1e\"\r\n";
    let (server, invite) = world
        .input(CALLER, &request("INVITE", "long", "", field))
        .remove(0);
    let (mut kept, mut given_back) = (0, 0);
    for round in 0..8 {
        for number in 0..100 {
            world.call(&format!("call-{round}-{number}"));
        }
        world.input(&server.to_string(), &response(&invite, "180 Ringing"));
        let tap = world.out.tap.replace(Tap::new(16 << 20)).unwrap();
        kept += usize::from(world.recorder.take(tap, &world.shared.snapshot()).is_none());
        world.recorder.make_room(0, |_| given_back += 1);
        assert!(world.counts().bytes <= 4 << 20, "{:?}", world.counts());
        if round == 0 {
            let text = world.ladder("long").full_text();
            assert!(
                text.contains("Authorization: (hidden)") && !text.contains("0f1e"),
                "{text}"
            );
        }
    }
    assert!(
        kept == 8 && (1..8).contains(&given_back),
        "{kept}, {given_back}"
    );
    let ladder = world.ladder("long");
    assert_eq!(
        (ladder.state, ladder.summary.messages),
        (State::Ringing, 18)
    );
    assert_eq!(
        ladder.left_out + ladder.rungs.len(),
        19,
        "with the placement"
    );
    assert!(ladder.left_out > 2, "{}", ladder.left_out);
    assert!(words(&world, "call-0-").is_empty());
    assert_eq!(words(&world, "call-7-").len(), 100);
}

#[test]
fn one_in_so_many_calls_is_kept_whole() {
    let mut world = World::new(Settings {
        one_in: 4,
        ..settings()
    });
    for number in 0..400 {
        world.call(&format!("thin-{number}"));
    }
    world.record();
    let found = words(&world, "thin").len();
    assert!((60..=140).contains(&found), "{found}");
    let (found, _) = world.recorder.find(&Search::default(), world.now, 1000);
    assert!(found.iter().all(|call| call.messages == 12));
}

#[test]
fn hostile_names_are_kept_as_they_are_and_shown_harmless() {
    let mut world = World::new(settings());
    let name = "<script>alert(1)</script>";
    let invite = String::from_utf8(request("INVITE", name, "", "")).unwrap();
    let invite = invite.replace("\"Alice\"", "\"\u{1b}[2J\"");
    world.input(CALLER, invite.as_bytes());
    world.input(CALLER, b"\x00\xffnot SIP at all");
    let ladder = world.ladder(name);
    assert_eq!(&*ladder.summary.call_id, name);
    assert!(!ladder.full_text().contains('\u{1b}'));
    assert_eq!(world.counts().unread, 1);
}

#[test]
fn what_is_masked_is_not_kept() {
    let mut world = World::new(Settings {
        masks_users: true,
        masks_bodies: true,
        ..settings()
    });
    world.call("private");
    let ladder = world.ladder("private");
    let text = ladder.full_text() + &ladder.summary.from + &ladder.summary.to;
    for hidden in ["alice", "Alice", "4420", "secret"] {
        assert!(!text.contains(hidden), "{hidden}");
    }
    assert!(text.contains("(a body of 15 bytes)"), "{text}");
    assert_eq!(
        words(&world, "alice"),
        ["private"],
        "who knows the user finds the call"
    );
}

#[test]
fn a_capture_of_a_call_can_be_read_again() {
    let mut world = World::new(settings());
    world.call("captured");
    let ladder = world.ladder("captured");
    let listeners = ["0.0.0.0:5060".parse().unwrap()];
    let file = ladder.pcapng(Duration::from_secs(1_700_000_000), &listeners);
    let mut trace = Trace::default();
    trace.read("call", &file[..], |_| {}).unwrap();
    let (_, packets, messages, foreign) = trace.points().next().unwrap();
    assert_eq!((packets, messages, foreign), (12, 12, 0));
}

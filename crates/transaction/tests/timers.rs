//! The timers on virtual time: when each fires, what it does, and what stops it.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

mod common;

use common::{Bench, MS, check, flow};
use sip::{HeaderName, Message, Method};
use transaction::{Full, Key, Seen, Transactions};

/// RFC 3261 §17.1.1.2: Timer A doubles without bound, Timer B ends it.
#[test]
fn an_unanswered_invite_is_sent_seven_times() {
    let mut bench = Bench::client("INVITE", false);
    let log = bench.run(MS(40_000));
    let sent = [500, 1_500, 3_500, 7_500, 15_500, 31_500].map(|at| (at, "INVITE"));
    check(&log, &[&sent[..], &[(32_000, "Timeout")]].concat());
    assert!(bench.store.is_empty());
}

/// RFC 3261 §17.1.2.2: Timer E doubles up to T2, Timer F ends it.
#[test]
fn an_unanswered_request_is_sent_eleven_times() {
    let mut bench = Bench::client("OPTIONS", false);
    let log = bench.run(MS(40_000));
    let times = [
        500, 1_500, 3_500, 7_500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500,
    ];
    check(
        &log,
        &[&times.map(|at| (at, "OPTIONS"))[..], &[(32_000, "Timeout")]].concat(),
    );
    assert!(bench.store.is_empty());
}

#[test]
fn nothing_is_repeated_over_reliable_transport() {
    for method in ["INVITE", "OPTIONS"] {
        let mut bench = Bench::client(method, true);
        check(&bench.run(MS(40_000)), &[(32_000, "Timeout")]);
    }
}

/// RFC 3261 §17.1.2.2: in Proceeding, Timer E is T2.
#[test]
fn a_provisional_slows_repetition_down() {
    let mut bench = Bench::client("OPTIONS", false);
    check(&bench.run(MS(600)), &[(500, "OPTIONS")]);
    assert!(bench.answer(100));
    let times = [1_500, 5_500, 9_500, 13_500, 17_500, 21_500, 25_500, 29_500];
    let log = bench.run(MS(40_000));
    check(
        &log,
        &[&times.map(|at| (at, "OPTIONS"))[..], &[(32_000, "Timeout")]].concat(),
    );
}

/// RFC 3261 §16.7 step 2: 100 does not start Timer C again, 180 does.
#[test]
fn ringing_starts_timer_c_again() {
    let mut bench = Bench::client("INVITE", false);
    assert!(bench.answer(100));
    check(&bench.run(MS(100_000)), &[]);
    assert!(bench.answer(100));
    check(&bench.run(MS(150_000)), &[]);
    assert!(bench.answer(180));
    check(&bench.run(MS(400_000)), &[(331_000, "TimerC")]);
    assert_eq!(bench.store.len(), 1, "whoever asked for it cancels it");
}

/// RFC 3261 §17.1.1.3: the ACK, and Timer D.
#[test]
fn a_failure_is_acknowledged_each_time_it_comes() {
    let mut bench = Bench::client("INVITE", false);
    bench.answer(180);
    assert!(bench.answer(486));
    assert!(!bench.answer(486), "absorbed");
    assert_eq!(bench.wire.sent, ["INVITE", "ACK", "ACK"]);
    let ack = Message::parse(&bench.wire.last, 64).unwrap();
    assert_eq!(ack.request_uri(), Some(&b"sip:bob@example.com"[..]));
    assert_eq!(ack.vias().count(), 1);
    assert_eq!(ack.top_via().unwrap().branch, Some(&b"z9hG4bK1"[..]));
    assert_eq!(ack.to_tag(), Ok(Some(&b"2"[..])));
    assert_eq!(
        ack.header(HeaderName::Route),
        Some(&b"<sip:next.example.com;lr>"[..])
    );
    assert_eq!(
        ack.cseq().map(|cseq| (cseq.number, cseq.method)),
        Ok((7, Method::Ack))
    );
    assert_eq!(ack.validate(), Ok(()));
    check(&bench.run(MS(40_000)), &[(32_000, "Ended")]);
}

/// RFC 6026 §7.2: every 2xx is passed on, until Timer M.
#[test]
fn each_success_is_passed_on() {
    for reliable in [false, true] {
        let mut bench = Bench::client("INVITE", reliable);
        assert!(bench.answer(200));
        check(&bench.run(MS(20_000)), &[]);
        assert!(bench.answer(200));
        assert!(!bench.answer(486), "too late");
        check(&bench.run(MS(40_000)), &[(32_000, "Ended")]);
        assert_eq!(bench.wire.sent, ["INVITE"]);
    }
}

/// RFC 3261 §17.1.2.2: Timer K.
#[test]
fn a_final_response_is_passed_on_once() {
    for (reliable, ends_at) in [(false, 5_000), (true, 0)] {
        let mut bench = Bench::client("OPTIONS", reliable);
        assert!(bench.answer(200));
        assert!(!bench.answer(200));
        check(&bench.run(MS(40_000)), &[(ends_at, "Ended")]);
    }
}

/// RFC 3261 §9.1
#[test]
fn cancel_waits_for_the_first_answer() {
    let mut bench = Bench::client("INVITE", false);
    bench.store.cancel(bench.now, bench.id, &mut bench.wire);
    assert_eq!(bench.wire.sent, ["INVITE"]);
    bench.answer(100);
    assert_eq!(bench.wire.sent, ["INVITE", "CANCEL"]);
    let cancel = Message::parse(&bench.wire.last, 64).unwrap();
    assert_eq!(cancel.to_tag(), Ok(None));
    assert_eq!(cancel.top_via().unwrap().branch, Some(&b"z9hG4bK1"[..]));
    assert_eq!(
        cancel.cseq().map(|cseq| (cseq.number, cseq.method)),
        Ok((7, Method::Cancel))
    );
    assert_eq!(cancel.validate(), Ok(()));
    bench.answer(180);
    bench.store.cancel(bench.now, bench.id, &mut bench.wire);
    assert_eq!(bench.wire.sent, ["INVITE", "CANCEL"], "once");
    check(&bench.run(MS(600)), &[(500, "CANCEL")]);
}

/// RFC 3261 §9.1: 64*T1 after the CANCEL the INVITE is given up.
#[test]
fn what_is_cancelled_does_not_ring_for_ever() {
    let mut bench = Bench::client("INVITE", false);
    bench.answer(180);
    bench.store.cancel(bench.now, bench.id, &mut bench.wire);
    bench.answer(180);
    let log = bench.run(MS(400_000));
    let told: Vec<_> = log
        .into_iter()
        .filter(|(_, word)| word != "CANCEL")
        .collect();
    check(&told, &[(32_000, "Timeout")]);
    assert!(bench.store.is_empty());
}

#[test]
fn what_has_an_answer_is_not_cancelled() {
    for status in [200, 486] {
        let mut bench = Bench::client("INVITE", false);
        bench.answer(status);
        bench.store.cancel(bench.now, bench.id, &mut bench.wire);
        assert!(!bench.wire.sent.contains(&"CANCEL".to_owned()));
    }
}

/// RFC 3261 §17.2.1: within 200 ms.
#[test]
fn an_invite_asks_for_its_100_once() {
    let mut bench = Bench::server("INVITE", false);
    check(&bench.run(MS(199)), &[(180, "Trying")]);
    assert_eq!(bench.again(false), Seen::Absorbed);
    assert!(bench.wire.sent.is_empty(), "nothing was sent yet");
    bench.respond(100);
    bench.again(false);
    assert_eq!(bench.wire.sent, ["100", "100"]);
    check(&bench.run(MS(400_000)), &[]);
}

#[test]
fn what_is_answered_soon_needs_no_100() {
    let mut bench = Bench::server("INVITE", false);
    bench.respond(180);
    check(&bench.run(MS(300_000)), &[]);
}

/// RFC 3261 §17.2.1: Timers G and H.
#[test]
fn a_failure_is_repeated_until_its_ack() {
    let mut bench = Bench::server("INVITE", false);
    bench.respond(486);
    bench.respond(200);
    let times = [
        500, 1_500, 3_500, 7_500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500,
    ];
    let log = bench.run(MS(40_000));
    check(
        &log,
        &[&times.map(|at| (at, "486"))[..], &[(32_000, "Ended")]].concat(),
    );

    for (reliable, ends_at) in [(false, 5_000), (true, 0)] {
        let mut bench = Bench::server("INVITE", reliable);
        bench.respond(486);
        bench.again(true);
        bench.again(true);
        bench.again(false);
        check(&bench.run(MS(40_000)), &[(ends_at, "Ended")]);
        assert_eq!(bench.wire.sent, ["486"]);
    }
}

/// RFC 6026 §7.1
#[test]
fn an_accepted_invite_is_absorbed() {
    for reliable in [false, true] {
        let mut bench = Bench::server("INVITE", reliable);
        bench.respond(200);
        assert_eq!(bench.again(false), Seen::Absorbed);
        assert_eq!(bench.again(true), Seen::Ack);
        bench.respond(200);
        bench.respond(486);
        assert_eq!(bench.wire.sent, ["200", "200"]);
        check(&bench.run(MS(40_000)), &[(32_000, "Ended")]);
    }
}

/// RFC 4320 §4.1 and §4.2
#[test]
fn other_requests_get_a_late_100_and_no_408() {
    let mut bench = Bench::server("OPTIONS", false);
    bench.respond(180);
    bench.respond(408);
    assert!(bench.wire.sent.is_empty());
    check(&bench.run(MS(5_000)), &[(3_500, "Trying")]);
    bench.respond(100);
    bench.again(false);
    assert_eq!(bench.wire.sent, ["100", "100"]);
    check(&bench.run(MS(40_000)), &[(32_000, "Timeout")]);
}

/// RFC 3261 §17.2.2: Timer J.
#[test]
fn a_response_is_sent_again_for_each_request() {
    for (reliable, ends_at) in [(false, 32_000), (true, 0)] {
        let mut bench = Bench::server("OPTIONS", reliable);
        bench.respond(200);
        bench.again(false);
        bench.respond(500);
        assert_eq!(bench.wire.sent, ["200", "200"]);
        check(&bench.run(MS(40_000)), &[(ends_at, "Ended")]);
    }
}

#[test]
fn whoever_can_not_be_reached_is_given_up() {
    for (method, answer, is_over) in [
        ("INVITE", None, true),
        ("INVITE", Some(180), false),
        ("INVITE", Some(486), true),
        ("OPTIONS", None, true),
        ("OPTIONS", Some(200), false),
    ] {
        let mut bench = Bench::client(method, false);
        if let Some(status) = answer {
            bench.answer(status);
        }
        let gone = bench.store.on_transport_error(bench.now, bench.id);
        assert_eq!(
            (gone, bench.store.is_empty()),
            (is_over, is_over),
            "{method} {answer:?}"
        );
    }
}

#[test]
fn a_full_store_takes_no_more() {
    let mut store = Transactions::new(2, 4096, common::TIMING, MS(0));
    let key = |id| Key::server(id, Method::Options);
    let first = store.receive(MS(0), key(1), flow(false), 0);
    let second = store.receive(MS(0), key(2), flow(false), 0);
    assert!(first.is_ok() && second.is_ok() && first != second);
    assert_eq!(store.receive(MS(0), key(3), flow(false), 0), Err(Full));
    assert_eq!((store.find(key(1)), store.find(key(3))), (first.ok(), None));
}

/// Without room for its transaction a CANCEL goes out all the same.
#[test]
fn a_full_store_cancels() {
    let mut bench = Bench::client("INVITE", false);
    bench.answer(180);
    for id in 0..7 {
        let key = Key::server(id, Method::Options);
        bench.store.receive(bench.now, key, flow(false), 0).unwrap();
    }
    bench.store.cancel(bench.now, bench.id, &mut bench.wire);
    assert_eq!(bench.wire.sent, ["INVITE", "CANCEL"]);
    assert_eq!(bench.store.len(), 8);
}

/// Transactions held any number of bytes. A response that there is no room for is sent once, and what
/// would need more room is refused.
#[test]
fn a_store_of_long_messages_takes_no_more() {
    let message_bytes = 16_384;
    let mut store = Transactions::new(4, message_bytes, common::TIMING, MS(0));
    let mut wire = common::Wire::default();
    let long = |out: &mut Vec<u8>| {
        out.extend_from_slice(b"SIP/2.0 486 Busy Here\r\n\r\n");
        out.resize(message_bytes, b'x');
    };
    let budget = 4 * 4096 + 2 * message_bytes;
    for id in 0..3 {
        let key = Key::server(id, Method::Invite);
        let id = store.receive(MS(0), key, flow(false), 0).unwrap();
        store.respond(MS(0), id, 486, &mut wire, long);
    }
    assert_eq!(store.kept_bytes(), 3 * message_bytes);
    let refused = store.receive(MS(0), Key::server(3, Method::Invite), flow(false), 0);
    assert_eq!((refused, store.has_room(1)), (Err(Full), false));
    let sent = wire.sent.len();
    assert_eq!((sent, store.kept_bytes() <= budget), (3, true));
}

#[test]
fn a_response_without_room_for_its_copy_is_sent_once() {
    let mut store = Transactions::new(4, 1_000, common::TIMING, MS(0));
    let mut wire = common::Wire::default();
    let key = Key::server(1, Method::Invite);
    let id = store.receive(MS(0), key, flow(false), 0).unwrap();
    let long = |out: &mut Vec<u8>| {
        out.extend_from_slice(b"SIP/2.0 486 Busy Here\r\n\r\n");
        out.resize(60_000, b'x');
    };
    store.respond(MS(0), id, 486, &mut wire, long);
    assert_eq!((wire.sent.len(), store.kept_bytes()), (1, 0));
    while let Some(at) = store.deadline().filter(|&at| at <= MS(40_000)) {
        while store.poll(at, &mut wire).is_some() {}
    }
    assert_eq!((wire.sent.len(), store.len()), (1, 0));
}

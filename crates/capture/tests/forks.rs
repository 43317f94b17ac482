//! Calls that a proxy sends to several servers, at the same time or one after the other, and clocks that are set.

#![allow(clippy::unwrap_used)]

mod common;

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use capture::{Ended, Machines, Options, Reason, Role, Study, Trace, WarningKind};
use common::{Dialog, File, Link, PCAP, message, ms};
use proptest::prelude::*;

const CALLS: u64 = 12;
const DRIVER: usize = 1;
const PROXY: usize = 2;
const ONE: usize = 3;
const TWO: usize = 4;

/// A message: when, from which host to which, what, and its CSeq.
type Step = (f64, usize, usize, &'static str, &'static str);

const INVITE: &str = "1 INVITE";

/// Both are asked at once; the second answers, and the first is cancelled.
const ANSWERED: [Step; 17] = [
    (0.0, DRIVER, PROXY, "INVITE", INVITE),
    (1.0, PROXY, ONE, "INVITE", INVITE),
    (1.0, PROXY, TWO, "INVITE", INVITE),
    (4.0, ONE, PROXY, "180 Ringing", INVITE),
    (5.0, PROXY, DRIVER, "180 Ringing", INVITE),
    (6.0, TWO, PROXY, "200 OK", INVITE),
    (7.0, PROXY, DRIVER, "200 OK", INVITE),
    (7.5, PROXY, ONE, "CANCEL", "1 CANCEL"),
    (8.0, ONE, PROXY, "200 OK", "1 CANCEL"),
    (8.5, ONE, PROXY, "487 Request Terminated", INVITE),
    (9.0, PROXY, ONE, "ACK", "1 ACK"),
    (9.5, DRIVER, PROXY, "ACK", "1 ACK"),
    (10.0, PROXY, TWO, "ACK", "1 ACK"),
    (2_000.0, DRIVER, PROXY, "BYE", "2 BYE"),
    (2_001.0, PROXY, TWO, "BYE", "2 BYE"),
    (2_002.0, TWO, PROXY, "200 OK", "2 BYE"),
    (2_003.0, PROXY, DRIVER, "200 OK", "2 BYE"),
];

/// Both are asked at once and refuse. The last of them comes before the proxy has acknowledged the first.
const REFUSED: [Step; 9] = [
    (0.0, DRIVER, PROXY, "INVITE", INVITE),
    (1.0, PROXY, ONE, "INVITE", INVITE),
    (1.0, PROXY, TWO, "INVITE", INVITE),
    (4.0, ONE, PROXY, "486 Busy Here", INVITE),
    (4.5, TWO, PROXY, "600 Busy Everywhere", INVITE),
    (5.0, PROXY, ONE, "ACK", "1 ACK"),
    (6.0, PROXY, TWO, "ACK", "1 ACK"),
    (6.0, PROXY, DRIVER, "600 Busy Everywhere", INVITE),
    (7.0, DRIVER, PROXY, "ACK", "1 ACK"),
];

/// The first refuses, and the second is asked then.
const RETRIED: [Step; 8] = [
    (0.0, DRIVER, PROXY, "INVITE", INVITE),
    (1.0, PROXY, ONE, "INVITE", INVITE),
    (3.0, ONE, PROXY, "503 Service Unavailable", INVITE),
    (4.0, PROXY, ONE, "ACK", "1 ACK"),
    (4.0, PROXY, TWO, "INVITE", INVITE),
    (9.0, TWO, PROXY, "486 Busy Here", INVITE),
    (10.0, PROXY, DRIVER, "486 Busy Here", INVITE),
    (10.0, PROXY, TWO, "ACK", "1 ACK"),
];

/// The first rings for two seconds, is cancelled, and the second is asked then.
const RANG: [Step; 12] = [
    (0.0, DRIVER, PROXY, "INVITE", INVITE),
    (1.0, PROXY, ONE, "INVITE", INVITE),
    (3.0, ONE, PROXY, "180 Ringing", INVITE),
    (4.0, PROXY, DRIVER, "180 Ringing", INVITE),
    (2_004.0, PROXY, ONE, "CANCEL", "1 CANCEL"),
    (2_005.0, ONE, PROXY, "200 OK", "1 CANCEL"),
    (2_006.0, ONE, PROXY, "487 Request Terminated", INVITE),
    (2_008.0, PROXY, ONE, "ACK", "1 ACK"),
    (2_008.0, PROXY, TWO, "INVITE", INVITE),
    (2_013.0, TWO, PROXY, "200 OK", INVITE),
    (2_014.0, PROXY, DRIVER, "200 OK", INVITE),
    (2_015.0, DRIVER, PROXY, "ACK", "1 ACK"),
];

fn host(number: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, number as u8], 5060))
}

/// Twelve calls, one in ten seconds, with their steps at each host; `swapped` says in which of them both servers have
/// each other's part.
fn capture(steps: &[Step], hosts: &[usize], swapped: impl Fn(u64) -> bool) -> Vec<File> {
    let point = |&at: &usize| {
        let mut file = File::new(PCAP, Link::Ethernet);
        for call in 0..CALLS {
            let call_id = format!("call-{call}");
            let dialog = Dialog {
                call_id: &call_id,
                from_tag: "a",
            };
            for &(time, from, to, start, cseq) in steps {
                let part = |host| match (host, swapped(call)) {
                    (ONE, true) => TWO,
                    (TWO, true) => ONE,
                    _ => host,
                };
                let (from, to) = (part(from), part(to));
                if from != at && to != at {
                    continue;
                }
                // The servers' responses have their own To tags.
                let bytes = message(start, dialog, cseq, &format!("{call}{from}{to}"));
                let text = String::from_utf8(bytes).unwrap();
                let server = from.max(to).min(TWO);
                let text = text.replace("tag=callee", &format!("tag=callee-{}", server.max(ONE)));
                let time = Duration::from_secs(1_700_000_000 + 10 * call) + ms(time);
                file.udp(time, host(from), host(to), text.as_bytes());
            }
        }
        file
    };
    hosts.iter().map(point).collect()
}

fn study(files: &[File]) -> Study {
    let mut trace = Trace::default();
    for (number, file) in files.iter().enumerate() {
        let name = format!("point-{number}");
        trace.read(&name, &file.bytes[..], |_| {}).unwrap();
    }
    Study::new(&trace, &Options::default()).unwrap()
}

#[track_caller]
fn check_lines(study: &Study, lines: &[&str]) {
    let model = study.model("m", &Machines::default()).unwrap();
    let text = model.to_text();
    for line in lines {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[test]
fn the_branch_that_answers_is_awaited_whichever_it_is() {
    let study = study(&capture(&ANSWERED, &[PROXY], |call| call % 3 == 0));
    let flow = &study.flows[0];
    assert_eq!(
        (flow.calls, flow.branches),
        (CALLS as usize, 2),
        "{:?}",
        study.flows
    );
    assert_eq!(
        (flow.outcome, flow.ended),
        (Some(200), Some(Ended::ByDriver))
    );
    // Each server has either part, so there is one station with both.
    let stations: Vec<usize> = study.places.iter().map(|place| place.station).collect();
    assert_eq!(stations, [0, 1, 2, 2]);
    check_lines(
        &study,
        &[
            " p Pserver s 0.1 m 2\n",
            " s server1 5 -1\n",
            " s server_a1 3 -1\n",
            " y fork1.0 server1 1\n",
            " z fork1.1 server_a1 1\n",
            " fork1.0 & fork1.1 (2) -> fork1.join[fork1]\n",
        ],
    );
}

#[test]
fn servers_that_always_have_the_same_part_are_stations_of_their_own() {
    let study = study(&capture(&ANSWERED, &[PROXY], |_| false));
    check_lines(&study, &[" p Pserver s 0.1\n", " p Pserver_2 s 0.1\n"]);
}

#[test]
fn all_refusals_are_awaited() {
    let study = study(&capture(&REFUSED, &[PROXY], |_| false));
    assert_eq!(study.flows[0].outcome, Some(600));
    check_lines(
        &study,
        &[
            " y fork1.0 server1 1\n",
            " y fork1.1 server2 1\n",
            " fork1.0 & fork1.1 (2) -> fork1.join[fork1]\n",
        ],
    );
}

#[test]
fn a_server_that_is_asked_later_is_awaited_later() {
    let study = study(&capture(&RETRIED, &[PROXY], |_| false));
    assert_eq!(
        (study.flows[0].outcome, study.flows[0].branches),
        (Some(486), 2)
    );
    let model = study.model("m", &Machines::default()).unwrap();
    assert!(!model.has_forks(), "{}", model.to_text());
    check_lines(
        &study,
        &[
            " y up1 server1 1 -1\n",
            " y up1 server2 1 -1\n",
            " s server1 2 -1\n",
            " s server2 5 -1\n",
            " s c1 3 -1\n",
        ],
    );
}

#[test]
fn a_server_that_is_asked_when_another_rang_for_long_is_awaited() {
    let study = study(&capture(&RANG, &[PROXY], |_| false));
    assert_eq!(
        (study.flows[0].outcome, study.flows[0].branches),
        (Some(200), 2)
    );
    // To the first INVITE and the CANCEL of the first server, and to the INVITE of the second.
    check_lines(
        &study,
        &[
            " y up1 server1 1 -1\n",
            " y up1 server2 1 -1\n",
            " y up1 server3 1 -1\n",
            " s server1 2 -1\n",
            " s server2 2 -1\n",
            " s server3 5 -1\n",
            " s c1 5 -1\n",
        ],
    );
}

/// Between a call's request and its reply a server's clock goes ahead by 3 s, and back before the next call.
#[test]
fn calls_during_which_a_clock_is_set_are_told() {
    let mut files = capture(&RETRIED, &[PROXY, ONE], |_| false);
    let set = capture_with_clock_set(4, Duration::from_secs(3));
    files[1] = set;
    let study = study(&files);
    assert_eq!(
        study.reasons(),
        BTreeMap::from([(Reason::ClocksDisagree, 1)])
    );
    assert_eq!(study.flows[0].calls, CALLS as usize - 1);
    let steps = study.warnings.iter();
    assert!(
        steps
            .into_iter()
            .any(|it| it.kind == WarningKind::ClockStep)
    );
}

/// The first server's capture.
fn capture_with_clock_set(in_call: u64, ahead: Duration) -> File {
    let mut file = File::new(PCAP, Link::Ethernet);
    for call in 0..CALLS {
        let call_id = format!("call-{call}");
        let dialog = Dialog {
            call_id: &call_id,
            from_tag: "a",
        };
        for &(time, from, to, start, cseq) in &RETRIED {
            if from != ONE && to != ONE {
                continue;
            }
            let bytes = message(start, dialog, cseq, &format!("{call}{from}{to}"));
            let text = String::from_utf8(bytes).unwrap();
            let text = text.replace("tag=callee", "tag=callee-3");
            let mut at = Duration::from_secs(1_700_000_000 + 10 * call) + ms(time);
            if call == in_call && time > 2.0 {
                at += ahead;
            }
            file.udp(at, host(from), host(to), text.as_bytes());
        }
    }
    file
}

const STARTS: [(&str, &str); 9] = [
    ("INVITE", INVITE),
    ("100 Trying", INVITE),
    ("180 Ringing", INVITE),
    ("200 OK", INVITE),
    ("486 Busy Here", INVITE),
    ("ACK", "1 ACK"),
    ("CANCEL", "1 CANCEL"),
    ("200 OK", "1 CANCEL"),
    ("BYE", "2 BYE"),
];

/// A proxy asks a server and another proxy, which asks two more servers.
const LINKS: [(usize, usize); 5] = [
    (DRIVER, PROXY),
    (PROXY, ONE),
    (PROXY, TWO),
    (TWO, 5),
    (TWO, 6),
];

proptest! {
    /// Whatever hosts send their neighbours in a call, its model is made.
    #[test]
    fn any_messages_on_a_tree_are_modelled(
        steps in prop::collection::vec((0_usize..5, any::<bool>(), 0_usize..9), 0..60),
    ) {
        let mut messages: Vec<_> = LINKS.iter().map(|&ends| (ends, STARTS[0])).collect();
        let turned = |(near, far): (usize, usize), is_down| if is_down { (near, far) } else { (far, near) };
        // A second INVITE of the driver would begin another call.
        let steps = steps.iter().filter(|step| **step != (0, true, 0));
        messages.extend(steps.map(|&(link, is_down, what)| {
            (turned(LINKS[link], is_down), STARTS[what])
        }));
        // All requests get their final responses.
        for (link, is_down) in LINKS.iter().flat_map(|&link| [(link, false), (link, true)]) {
            let finals = [("486 Busy Here", INVITE), ("200 OK", "1 CANCEL"), ("200 OK", "2 BYE")];
            messages.extend(finals.map(|last| (turned(link, is_down), last)));
        }
        let mut file = File::new(PCAP, Link::Ethernet);
        let dialog = Dialog { call_id: "call", from_tag: "a" };
        for (number, ((from, to), (start, cseq))) in messages.into_iter().enumerate() {
            let bytes = message(start, dialog, cseq, &format!("{number}"));
            let time = Duration::from_secs(1_700_000_000) + ms(100.0 * number as f64 / 3.0);
            file.udp(time, host(from), host(to), &bytes);
        }
        let study = study(&[file]);
        prop_assert_eq!((study.flows[0].calls, study.flows[0].branches), (1, 3));
        let served = study.rows.iter().filter(|row| row.role != Role::Driver);
        let lost: Vec<_> = served.filter(|row| row.entry.is_empty()).map(|row| row.from).collect();
        prop_assert!(lost.is_empty(), "{lost:?}\n{}", study.ladder_text());
        let model = study.model("m", &Machines::default());
        prop_assert!(model.is_ok(), "{model:?}\n{}", study.ladder_text());
    }
}

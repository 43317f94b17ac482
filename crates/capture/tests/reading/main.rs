//! All formats and link layers give the same messages; what is damaged, cut or foreign is told, and the rest is used.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
mod damage;

use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    time::Duration,
};

use capture::{Decipher, Machines, Options, Reason, Role, Study, Trace, Warning, WarningKind};
use common::{Dialog, File, Format, Link, PCAP, message, ms, tcp, udp};

const CALLS: usize = 12;

fn caller() -> SocketAddr {
    "192.0.2.1:5060".parse().unwrap()
}

fn server() -> SocketAddr {
    "192.0.2.2:5060".parse().unwrap()
}

/// Each message of a call: when it passes, in milliseconds, whether it goes to the server, and what it is.
const CALL: [(f64, bool, &str, &str); 6] = [
    (0.0, true, "INVITE", "1 INVITE"),
    (2.0, false, "180 Ringing", "1 INVITE"),
    (2_002.0, false, "200 OK", "1 INVITE"),
    (2_003.0, true, "ACK", "1 ACK"),
    (9_003.0, true, "BYE", "2 BYE"),
    (9_004.0, false, "200 OK", "2 BYE"),
];

/// The times, ends and bytes of some calls, one after the other.
fn calls(
    caller: SocketAddr,
    server: SocketAddr,
) -> Vec<(Duration, SocketAddr, SocketAddr, Vec<u8>)> {
    let mut packets = Vec::new();
    for call in 0..CALLS {
        let call_id = format!("{call}@192.0.2.1");
        let dialog = Dialog {
            call_id: &call_id,
            from_tag: "a",
        };
        for (time, is_up, start, cseq) in CALL {
            let time = Duration::from_secs(1_700_000_000 + 20 * call as u64) + ms(time);
            let (source, destination) = if is_up {
                (caller, server)
            } else {
                (server, caller)
            };
            let branch = if cseq.ends_with("BYE") {
                "bye"
            } else {
                "invite"
            };
            packets.push((
                time,
                source,
                destination,
                message(start, dialog, cseq, branch),
            ));
        }
    }
    packets
}

fn capture_of(format: Format, link: Link, ends: (SocketAddr, SocketAddr)) -> File {
    let mut file = File::new(format, link);
    for (time, source, destination, bytes) in calls(ends.0, ends.1) {
        file.udp(time, source, destination, &bytes);
    }
    file
}

fn trace_of(bytes: &[u8]) -> Trace {
    let mut trace = Trace::default();
    trace.read("point", bytes, |_| {}).unwrap();
    trace
}

fn study_of(bytes: &[u8]) -> Study {
    Study::new(&trace_of(bytes), &Options::default()).unwrap()
}

fn count(warnings: &[Warning], kind: WarningKind) -> u64 {
    warnings
        .iter()
        .filter(|warning| warning.kind == kind)
        .map(|warning| warning.count)
        .sum()
}

/// The flow of `CALL`, so often.
#[track_caller]
fn check(study: &Study, calls: usize) {
    assert_eq!(
        (study.flows[0].calls, study.flows[0].messages),
        (calls, 6),
        "{:?}",
        study.warnings
    );
    let server = study.rows.iter().filter(|row| row.role == Role::Server);
    let times: Vec<f64> = server.clone().map(|row| row.time_ms.mean()).collect();
    assert!(
        (times[0] - 2.0).abs() < 1e-3 && (times[2] - 1.0).abs() < 1e-3,
        "{times:?}"
    );
    let pauses: Vec<f64> = server.map(|row| row.pause_ms.mean()).collect();
    assert!((pauses[0] - 2_000.0).abs() < 1e-3, "{pauses:?}");
}

/// OPTIONS that the server answers after a time, one a second.
fn add_probes(file: &mut File, number: u64, after: Duration) {
    for probe in 0..number {
        let call_id = format!("probe-{probe}");
        let dialog = Dialog {
            call_id: &call_id,
            from_tag: "p",
        };
        let at = Duration::from_secs(1_700_100_000 + probe);
        let request = message("OPTIONS", dialog, "1 OPTIONS", &call_id);
        file.udp(at, caller(), server(), &request);
        let answer = message("200 OK", dialog, "1 OPTIONS", &call_id);
        file.udp(at + after, server(), caller(), &answer);
    }
}

#[test]
fn calls_are_modelled_however_many_probes_there_are() {
    let mut file = capture_of(PCAP, Link::Ethernet, (caller(), server()));
    add_probes(&mut file, 200, ms(1.0));
    let study = study_of(&file.bytes);
    check(&study, study.flows[0].calls);
    assert_eq!(study.flows[0].begins, "INVITE");
    assert_eq!((study.flows[1].calls, study.flows[1].messages), (200, 2));
}

#[test]
fn short_work_is_told_where_nobody_knows_the_processor_time() {
    let mut file = File::new(PCAP, Link::Ethernet);
    add_probes(&mut file, 10, ms(0.05));
    let trace = trace_of(&file.bytes);
    for (processor_known, short) in [(vec![], 1), (vec![Role::Server], 0)] {
        let options = Options {
            processor_known,
            ..Options::default()
        };
        let study = Study::new(&trace, &options).unwrap();
        assert_eq!(count(&study.warnings, WarningKind::Short), short);
    }
}

/// Of the server's messages the INVITE takes 2 ms, the BYE 1 ms, and nobody answers the ACK.
#[test]
fn what_nobody_answers_takes_what_is_said_of_it() {
    let trace = trace_of(&capture_of(PCAP, Link::Ethernet, (caller(), server())).bytes);
    for (unseen_ms, demand_ms) in [(None, 4.0), (Some(0.0), 3.0), (Some(0.25), 3.25)] {
        let unseen_ms = unseen_ms.map(|ms| (Role::Server, ms));
        let options = Options {
            unseen_ms: unseen_ms.into_iter().collect(),
            ..Options::default()
        };
        let study = Study::new(&trace, &options).unwrap();
        let is_told = unseen_ms.is_none();
        assert_eq!(count(&study.warnings, WarningKind::Estimated) > 0, is_told);
        let demands = study.demands(&Machines::default());
        let demand = demands.iter().find(|it| it.station == "Pserver").unwrap();
        assert!((demand.demand_ms - demand_ms).abs() < 1e-3, "{demand:?}");
    }
}

#[test]
fn all_formats_and_link_layers_are_read() {
    let bools = [false, true];
    let mut formats = Vec::new();
    for is_big_endian in bools {
        for other in bools {
            formats.push(Format::Pcap {
                is_big_endian,
                is_nano: other,
            });
            formats.push(Format::Ng {
                is_big_endian,
                is_binary: other,
            });
        }
    }
    let links = [
        Link::Ethernet,
        Link::Vlan,
        Link::StackedVlan,
        Link::Cooked,
        Link::Cooked2,
        Link::Null,
        Link::Raw,
    ];
    let v6 = (
        "[2001:db8::1]:5060".parse().unwrap(),
        "[2001:db8::2]:5060".parse().unwrap(),
    );
    for format in formats {
        for link in links {
            for ends in [(caller(), server()), v6] {
                let study = study_of(&capture_of(format, link, ends).bytes);
                check(&study, CALLS);
                let kinds: Vec<_> = study.warnings.iter().map(|warning| warning.kind).collect();
                assert_eq!(
                    kinds,
                    [WarningKind::NetworkUnknown, WarningKind::Estimated],
                    "{format:?} {link:?}"
                );
            }
        }
    }
}

#[test]
fn a_host_that_talks_to_itself_is_told_apart_by_ports() {
    let ends = (
        "127.0.0.1:6000".parse().unwrap(),
        "127.0.0.1:5060".parse().unwrap(),
    );
    check(
        &study_of(&capture_of(PCAP, Link::Ethernet, ends).bytes),
        CALLS,
    );
}

#[test]
fn fragments_are_put_together() {
    let mut file = File::new(PCAP, Link::Ethernet);
    for (number, (time, source, destination, bytes)) in
        calls(caller(), server()).into_iter().enumerate()
    {
        let whole = udp(source, destination, &bytes);
        let (header, payload) = whole.split_at(20);
        // The second piece comes first.
        for (piece, offset) in [(&payload[160..], 20_u16), (&payload[..160], 0x2000)] {
            let mut packet = [header, piece].concat();
            let length = packet.len() as u16;
            packet[2..4].copy_from_slice(&length.to_be_bytes());
            packet[4..6].copy_from_slice(&(number as u16).to_be_bytes());
            packet[6..8].copy_from_slice(&offset.to_be_bytes());
            file.ip(time, &packet);
        }
    }
    check(&study_of(&file.bytes), CALLS);
}

#[test]
fn fragments_of_no_datagram_are_told() {
    let mut file = capture_of(PCAP, Link::Ethernet, (caller(), server()));
    let mut packet = udp(caller(), server(), &[0; 13]);
    packet[6..8].copy_from_slice(&0x2000_u16.to_be_bytes());
    file.ip(ms(1.8e12), &packet);
    let study = study_of(&file.bytes);
    check(&study, CALLS);
    assert_eq!(count(&study.warnings, WarningKind::BadFragment), 1);
}

/// The calls over TCP from a connection's port, cut into segments of a length each.
fn over_tcp(
    segment: usize,
    mut change: impl FnMut(&mut Vec<(Duration, bool, u32, Vec<u8>)>),
) -> File {
    let mut next = [1_u32, u32::MAX - 700];
    let mut segments = Vec::new();
    for (time, source, _, bytes) in calls(caller(), server()) {
        let is_up = source == caller();
        for (number, piece) in bytes.chunks(segment).enumerate() {
            let sequence = &mut next[usize::from(is_up)];
            // The last piece of a message comes at its time.
            let left = bytes.len().div_ceil(segment) - number - 1;
            segments.push((
                time - Duration::from_nanos(10 * left as u64),
                is_up,
                *sequence,
                piece.to_vec(),
            ));
            *sequence = sequence.wrapping_add(piece.len() as u32);
        }
    }
    change(&mut segments);
    let connection: SocketAddr = "192.0.2.1:41234".parse().unwrap();
    let mut file = File::new(PCAP, Link::Ethernet);
    for (time, is_up, sequence, piece) in segments {
        let (source, destination) = if is_up {
            (connection, server())
        } else {
            (server(), connection)
        };
        file.ip(time, &tcp(source, destination, sequence, &piece));
    }
    file
}

#[test]
fn messages_are_found_in_segments() {
    for segment in [1, 50, 300, 10_000] {
        check(&study_of(&over_tcp(segment, |_| {}).bytes), CALLS);
    }
}

/// Changes each byte of a direction, so that it begins as TLS does. Done twice, it does nothing.
#[derive(Debug, Default)]
struct Sealed {
    /// How far each direction is read.
    read: HashMap<SocketAddr, usize>,
    is_known: bool,
}

fn seal(is_up: bool, place: usize, byte: u8) -> u8 {
    let begins = if is_up { b"INVITE" } else { b"SIP/2." };
    byte ^ match place {
        0 => begins[0] ^ 0x16,
        1 => begins[1] ^ 3,
        _ => 0x55,
    }
}

impl Decipher for Sealed {
    fn take(
        &mut self,
        (from, to): (SocketAddr, SocketAddr),
        bytes: &[u8],
        plain: &mut Vec<u8>,
    ) -> Option<usize> {
        let read = self.read.entry(from).or_default();
        let opened = (*read..).zip(bytes);
        plain.extend(opened.map(|(at, &byte)| seal(to == server(), at, byte)));
        *read += bytes.len();
        self.is_known.then_some(bytes.len())
    }
}

#[test]
fn encrypted_connections_are_read_by_who_can() {
    for segment in [50, 300, 10_000] {
        let file = over_tcp(segment, |segments| {
            let mut places = [0; 2];
            for (_, is_up, _, bytes) in segments {
                let place = &mut places[usize::from(*is_up)];
                for byte in bytes {
                    *byte = seal(*is_up, *place, *byte);
                    *place += 1;
                }
            }
        });
        let trace_of = |is_known| {
            let read = HashMap::new();
            let mut trace = Trace::deciphered(Box::new(Sealed { read, is_known }));
            trace.read("a", &file.bytes[..], |_| {}).unwrap();
            trace
        };
        let trace = trace_of(true);
        let study = Study::new(&trace, &Options::default()).unwrap();
        check(&study, CALLS);
        assert_eq!(trace.warnings().count(), 0);
        let warnings: Vec<_> = trace_of(false).warnings().collect();
        assert_eq!(count(&warnings, WarningKind::Sealed), 2, "{warnings:?}");
    }
}

#[test]
fn segments_may_come_twice_and_in_disorder() {
    let file = over_tcp(100, |segments| {
        let again = segments[3].clone();
        segments.insert(5, again);
        segments.swap(1, 2);
        let (first, second) = (segments[1].0, segments[2].0);
        (segments[1].0, segments[2].0) = (first.min(second), first.max(second));
    });
    check(&study_of(&file.bytes), CALLS);
}

#[test]
fn messages_behind_missing_segments_are_used() {
    let file = over_tcp(100, |segments| {
        segments.remove(30);
    });
    let trace = trace_of(&file.bytes);
    let warnings: Vec<_> = trace.warnings().collect();
    assert_eq!(
        count(&warnings, WarningKind::MissingSegments),
        1,
        "{warnings:?}"
    );
    let study = Study::new(&trace, &Options::default()).unwrap();
    assert!(study.flows[0].calls > 0);
}

#[test]
fn several_messages_in_a_segment_and_bodies_are_told_apart() {
    let dialog = Dialog {
        call_id: "x",
        from_tag: "a",
    };
    let with_body = |start, cseq, branch| {
        let text = String::from_utf8(message(start, dialog, cseq, branch)).unwrap();
        text.replace(
            "Content-Length: 0\r\n\r\n",
            "Content-Length: 18\r\n\r\nSIP/2.0 is a body\n",
        )
    };
    let requests = with_body("INVITE", "1 INVITE", "i") + &with_body("BYE", "2 BYE", "b");
    let responses =
        with_body("200 OK", "1 INVITE", "i") + "\r\n\r\n" + &with_body("200 OK", "2 BYE", "b");
    let mut file = File::new(PCAP, Link::Ethernet);
    file.ip(ms(1.0), &tcp(caller(), server(), 7, requests.as_bytes()));
    file.ip(ms(2.0), &tcp(server(), caller(), 9, responses.as_bytes()));
    let trace = trace_of(&file.bytes);
    assert_eq!(trace.points().next().unwrap().2, 4);
}

#[test]
fn foreign_traffic_is_counted_and_left_out() {
    let mut file = File::new(PCAP, Link::Ethernet);
    let rtp = [0x80, 8, 0, 1, 0, 0, 0, 160];
    for (time, source, destination, bytes) in calls(caller(), server()) {
        file.udp(time, caller(), server(), &rtp);
        file.ip(time, &tcp(caller(), server(), 1, b"GET / HTTP/1.1\r\n\r\n"));
        file.ip(
            time,
            &[
                0x45, 0, 0, 20, 0, 0, 0, 0, 64, 1, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8,
            ],
        );
        file.ip(time, &[0]);
        file.udp(time, source, destination, &bytes);
        file.udp(time, source, destination, b"\r\n\r\n");
    }
    let trace = trace_of(&file.bytes);
    let (_, packets, messages, foreign) = trace.points().next().unwrap();
    let each = 6 * CALLS as u64;
    assert_eq!((packets, messages as u64), (6 * each, each));
    assert!(foreign >= 4 * each, "{foreign}");
    check(&Study::new(&trace, &Options::default()).unwrap(), CALLS);
}

#[test]
fn packets_that_were_captured_twice_count_once() {
    let mut file = File::new(PCAP, Link::Cooked);
    for (time, source, destination, bytes) in calls(caller(), server()) {
        file.udp(time, source, destination, &bytes);
        file.udp(time + ms(0.02), source, destination, &bytes);
    }
    let study = study_of(&file.bytes);
    check(&study, CALLS);
    assert_eq!(
        count(&study.warnings, WarningKind::CapturedTwice),
        6 * CALLS as u64
    );
}

#[test]
fn calls_with_retransmissions_are_left_out_and_told() {
    let mut file = File::new(PCAP, Link::Ethernet);
    for (number, (time, source, destination, bytes)) in
        calls(caller(), server()).into_iter().enumerate()
    {
        file.udp(time, source, destination, &bytes);
        if number == 0 {
            file.udp(
                time + ms(1.5),
                server(),
                caller(),
                &message(
                    "100 Trying",
                    Dialog {
                        call_id: "0@192.0.2.1",
                        from_tag: "a",
                    },
                    "1 INVITE",
                    "invite",
                ),
            );
        }
        if number == 1 {
            let invite = message(
                "INVITE",
                Dialog {
                    call_id: "0@192.0.2.1",
                    from_tag: "a",
                },
                "1 INVITE",
                "invite",
            );
            file.udp(time + ms(500.0), caller(), server(), &invite);
        }
    }
    let study = study_of(&file.bytes);
    check(&study, CALLS - 1);
    assert_eq!(count(&study.warnings, WarningKind::Retransmitted), 1);
}

#[test]
fn two_calls_with_one_call_id_are_told_apart() {
    for is_same_tag in [true, false] {
        let mut file = File::new(PCAP, Link::Ethernet);
        for call in 0..CALLS {
            let tag = if is_same_tag {
                "a".to_owned()
            } else {
                call.to_string()
            };
            let dialog = Dialog {
                call_id: "same@192.0.2.1",
                from_tag: &tag,
            };
            for (time, is_up, start, cseq) in CALL {
                let time = Duration::from_secs(60 * call as u64) + ms(time);
                let (source, destination) = if is_up {
                    (caller(), server())
                } else {
                    (server(), caller())
                };
                file.udp(
                    time,
                    source,
                    destination,
                    &message(start, dialog, cseq, "b"),
                );
            }
        }
        check(&study_of(&file.bytes), CALLS);
    }
}

#[test]
fn missing_responses_are_told() {
    let mut file = File::new(PCAP, Link::Ethernet);
    for (number, (time, source, destination, bytes)) in
        calls(caller(), server()).into_iter().enumerate()
    {
        if number != 5 {
            file.udp(time, source, destination, &bytes);
        }
    }
    let study = study_of(&file.bytes);
    check(&study, CALLS - 1);
    assert_eq!(study.reasons(), BTreeMap::from([(Reason::Unanswered, 1)]));
}

#[test]
fn a_clock_that_goes_back_is_told() {
    let mut file = File::new(PCAP, Link::Ethernet);
    for (number, (time, source, destination, bytes)) in
        calls(caller(), server()).into_iter().enumerate()
    {
        let back = if number < 12 { 0.0 } else { 30_000.0 };
        file.udp(time - ms(back), source, destination, &bytes);
    }
    let study = study_of(&file.bytes);
    check(&study, CALLS);
    let step = study
        .warnings
        .iter()
        .find(|warning| warning.kind == WarningKind::ClockBack)
        .unwrap();
    assert_eq!((step.count, step.packet), (1, Some(13)));
}

#[test]
fn calls_that_overlap_are_told() {
    let mut packets = calls(caller(), server());
    for (number, packet) in packets.iter_mut().enumerate() {
        packet.0 = Duration::from_secs(5)
            + (packet.0 - Duration::from_secs(1_700_000_000 + 20 * (number / 6) as u64))
            + ms((number / 6) as f64);
    }
    packets.sort_by_key(|packet| packet.0);
    let mut file = File::new(PCAP, Link::Ethernet);
    for (time, source, destination, bytes) in packets {
        file.udp(time, source, destination, &bytes);
    }
    let study = study_of(&file.bytes);
    check(&study, CALLS);
    assert!(count(&study.warnings, WarningKind::Overlap) > 0);
}

#[test]
fn few_calls_are_told() {
    let mut file = File::new(PCAP, Link::Ethernet);
    for (time, source, destination, bytes) in calls(caller(), server()).into_iter().take(12) {
        file.udp(time, source, destination, &bytes);
    }
    let study = study_of(&file.bytes);
    check(&study, 2);
    assert_eq!(count(&study.warnings, WarningKind::FewCalls), 2);
}

//! The rules on their own, and their programs run by a small interpreter of classic BPF.

use std::net::SocketAddr;

use ipnet::IpNet;
use proptest::{prelude::*, sample::select};

use super::{super::sieve::Sieve, *};

/// The bytes of an IP header and of a UDP header.
const IP_V4: usize = 20;
const IP_V6: usize = 40;
const UDP: usize = 8;

/// A datagram as the kernel's programs see it.
struct Packet {
    ip_header: Vec<u8>,
    udp_header: Vec<u8>,
    payload: Vec<u8>,
}

/// Where a program's loads begin.
#[derive(Clone, Copy, PartialEq)]
enum From {
    /// Of a filter.
    UdpHeader,
    /// Of a choice among sockets.
    Payload,
}

impl Packet {
    fn new(payload: &[u8], source: SocketAddr) -> Self {
        let ip_header = match source.ip() {
            IpAddr::V4(ip) => {
                let mut header = vec![0x45; IP_V4];
                header[12..16].copy_from_slice(&ip.octets());
                header
            }
            IpAddr::V6(ip) => {
                let mut header = vec![0x60; IP_V6];
                header[8..24].copy_from_slice(&ip.octets());
                header
            }
        };
        let mut udp_header = vec![0; UDP];
        udp_header[..2].copy_from_slice(&source.port().to_be_bytes());
        Self {
            ip_header,
            udp_header,
            payload: payload.to_vec(),
        }
    }

    fn data(&self, from: From) -> Vec<u8> {
        match from {
            From::UdpHeader => [&*self.udp_header, &self.payload].concat(),
            From::Payload => self.payload.clone(),
        }
    }

    fn load(&self, from: From, at: u32, length: usize) -> Option<u32> {
        let (bytes, at) = match (at as i32).checked_add(0x10_0000) {
            Some(at) if at < 0x10_0000 => {
                let all = [&*self.ip_header, &self.udp_header, &self.payload].concat();
                (all, at as usize)
            }
            _ => (self.data(from), at as usize),
        };
        Some(
            bytes
                .get(at..at + length)?
                .iter()
                .fold(0, |word, &byte| (word << 8) | u32::from(byte)),
        )
    }
}

/// Runs a program as the kernel does: what is beyond the end gives 0.
fn run(program: &[Instruction], from: From, packet: &Packet) -> u32 {
    let (mut a, mut x, mut memory, mut next) = (0_u32, 0_u32, [None; 16], 0);
    loop {
        let Instruction { code, jt, jf, k } = program[next];
        next += 1;
        let skip = |holds| usize::from(if holds { jt } else { jf });
        let stored = |memory: &[Option<u32>; 16]| {
            memory[k as usize].expect("the kernel refuses to load what was not stored")
        };
        match code {
            0x20 | 0x28 | 0x30 => {
                let length = [4, 2, 1][usize::from(code - 0x20) / 8];
                let Some(word) = packet.load(from, k, length) else {
                    return 0;
                };
                a = word;
            }
            0x80 => a = packet.data(from).len() as u32,
            0x00 => a = k,
            0x60 => a = stored(&memory),
            0x61 => x = stored(&memory),
            0x02 => memory[k as usize] = Some(a),
            0x01 => x = k,
            0x07 => x = a,
            0x87 => a = x,
            0x04 => a = a.wrapping_add(k),
            0x0c => a = a.wrapping_add(x),
            0x24 => a = a.wrapping_mul(k),
            0x94 => a %= k,
            0x44 => a |= k,
            0x54 => a &= k,
            0x74 => a >>= k,
            0xac => a ^= x,
            0x05 => next += k as usize,
            0x15 => next += skip(a == k),
            0x35 => next += skip(a >= k),
            0x06 => return k,
            0x16 => return a,
            _ => panic!("{code:#x} is no instruction of ours"),
        }
    }
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn networks(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// An INVITE of one of several clients; `call` is in all that differs from call to call.
fn invite(client: usize, call: u64, to_tag: &str) -> String {
    let [via, from, to, names] = [
        [
            "Via: SIP/2.0/UDP 10.1.2.3:5060;rport;branch=z9hG4bK",
            "From: ",
            "To: ",
            "Call-ID: ",
        ],
        [
            "v: SIP/2.0/UDP phone.example.com;branch=z9hG4bK-524287-1---",
            "f: ",
            "t: ",
            "i: ",
        ],
        [
            "Via: SIP/2.0/UDP [2001:db8::5]:5060;alias;branch=z9hG4bKPj",
            "From:",
            "To:",
            "Call-ID:",
        ],
    ][client % 3];
    let sdp = "v=0\r\no=- 3 3 IN IP4 10.1.2.3\r\ns=-\r\nc=IN IP4 10.1.2.3\r\nt=0 0\r\nm=audio 4000 RTP/AVP 0 8\r\n";
    let body = if client.is_multiple_of(2) { sdp } else { "" };
    format!(
        "INVITE sip:200@example.com SIP/2.0\r\n{via}{call:08}\r\nMax-Forwards: 70\r\n\
         {from}\"Anna\" <sip:anna@example.com>;tag={call:06}\r\n{to}<sip:200@example.com>{to_tag}\r\n\
         {names}{call:010}@10.1.2.3\r\nCSeq: 1 INVITE\r\nContact: <sip:anna@10.1.2.3:5060>\r\n\
         User-Agent: {:a<client$}\r\nContent-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{body}",
        "",
        body.len(),
    )
}

fn register(call: u64) -> String {
    format!(
        "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP 10.1.2.3;branch=z9hG4bK{call}\r\n\
         From: <sip:anna@example.com>;tag={call}\r\nTo: <sip:anna@example.com>\r\nCSeq: {call} REGISTER\r\n\r\n"
    )
}

fn anyone() -> SocketAddr {
    address("192.0.2.7:5060")
}

#[track_caller]
fn check_all_pass(messages: impl IntoIterator<Item = String>) {
    let sieve = Sieve::new(1, 0.0);
    for message in messages {
        assert_eq!(
            Lane::of(message.as_bytes(), &[]),
            Lane::OfCalls,
            "{message}"
        );
        assert!(sieve.passes(message.as_bytes(), anyone()), "{message}");
    }
}

#[test]
fn what_begins_something_has_a_lane() {
    let invite = invite(0, 1, "");
    let check =
        |message: &str, lane| assert_eq!(Lane::of(message.as_bytes(), &[]), lane, "{message}");
    check(&invite, Lane::Calls);
    check(&register(1), Lane::Registers);
    for method in ["OPTIONS", "SUBSCRIBE", "MESSAGE", "PUBLISH", "REFER", "x"] {
        check(&invite.replacen("INVITE", method, 1), Lane::Others);
    }
    check(&"rubbish".repeat(10), Lane::Others);
}

#[test]
fn an_invite_with_a_to_tag_passes_wherever_the_tags_begin_in_a_word() {
    let re_invites = (0..32).flat_map(|client| {
        ["a", "6e2-b", "6e2-b;other=1"].map(|tag| invite(client, 17, &format!(";tag={tag}")))
    });
    check_all_pass(re_invites);
    check_all_pass((0..8).map(|client| invite(client, 17, ";TAG=1")));
}

#[test]
fn what_does_not_begin_anything_passes() {
    let invite = invite(0, 1, "");
    check_all_pass([
        invite.replace("INVITE", "UPDATE"),
        invite.replace("INVITE", "ACK"),
        invite.replace("INVITE", "BYE"),
        invite.replace("INVITE sip:200@example.com SIP/2.0", "SIP/2.0 200 OK"),
        "INVITE sip:200@example.com SIP/2.0\r\n\r\n".to_owned(),
        "\r\n\r\n".to_owned(),
        String::new(),
    ]);
}

#[test]
fn calls_for_help_and_to_users_that_are_listed_have_a_lane_of_their_own() {
    let urgent = ["110", "+49110"].map(str::to_owned);
    for (target, is_urgent) in [
        ("urn:service:sos", true),
        ("urn:service:counseling", false),
        ("urn:sos", false),
        ("URN:Service:SOS.police", true),
        ("sip:110@example.com", true),
        ("SIP:+49110@example.com;user=phone", true),
        ("tel:110;phone-context=+49", true),
        ("tel:110", true),
        ("sip:110:secret@example.com", true),
        ("sip:1101@example.com", false),
        ("sip:11@example.com", false),
        ("sip:110.example.com", false),
        ("sip:anna@110", false),
    ] {
        let invite = |tag| invite(0, 1, tag).replacen("sip:200@example.com", target, 1);
        let lane = Lane::of(invite("").as_bytes(), &urgent);
        let expected = if is_urgent { Lane::Urgent } else { Lane::Calls };
        assert_eq!(lane, expected, "{target}");
        assert_eq!(
            Lane::of(invite(";tag=b").as_bytes(), &urgent),
            Lane::OfCalls,
            "{target}"
        );
    }
}

#[test]
fn an_invite_whose_tags_are_too_far_back_passes() {
    let padding = format!("Via: SIP/2.0/UDP {}\r\nFrom", "a".repeat(SCANNED_BYTES));
    check_all_pass([invite(0, 1, "").replace("From", &padding)]);
}

#[test]
fn without_a_share_no_new_request_passes() {
    let sieve = Sieve::new(1, 0.0);
    for call in 0..100 {
        assert!(
            !sieve.passes(invite(call as usize, call, "").as_bytes(), anyone()),
            "{call}"
        );
        assert!(!sieve.passes(register(call).as_bytes(), anyone()), "{call}");
    }
    let all = Sieve::new(1, 1.0);
    assert!((0..100).all(|call| all.passes(invite(0, call, "").as_bytes(), anyone())));
}

#[test]
fn the_share_that_passes_is_the_share_that_shall_pass() {
    let calls = 50_000;
    for (share, salt) in [(0.05, 1), (0.1, 2), (0.5, 3), (0.5, u32::MAX)] {
        let sieve = Sieve::new(salt, share);
        let expected = calls as f64 * share;
        // Four standard deviations of fair draws.
        let deviation = 4.0 * (expected * (1.0 - share)).sqrt();
        let close = |passed: usize| (passed as f64 - expected).abs() < deviation;
        for client in 0..6 {
            let passes = |call: &u64| sieve.passes(invite(client, *call, "").as_bytes(), anyone());
            let passed = (0..calls).filter(passes).count();
            assert!(
                close(passed),
                "{passed} of {calls} INVITEs at {share}, client {client}"
            );
        }
        let phone = |n: u64| SocketAddr::from(([10, 0, (n >> 8) as u8, n as u8], 5060));
        let nat = |n: u64| SocketAddr::from(([198, 51, 100, 1], 1024 + n as u16));
        let ipv6 = |n: u64| SocketAddr::from(([0x2001, 0xdb8, 0, n as u16, 0, 0, 0, 1], 5060));
        for sender in [phone, nat, ipv6] {
            let passes = |n: &u64| sieve.passes(register(*n).as_bytes(), sender(*n));
            let passed = (0..calls).filter(passes).count();
            assert!(
                close(passed),
                "{passed} of {calls} REGISTERs at {share}, {}",
                sender(0)
            );
        }
    }
}

#[test]
fn another_salt_lets_others_pass() {
    let calls = 10_000;
    let passes =
        |salt, call| Sieve::new(salt, 0.5).passes(invite(0, call, "").as_bytes(), anyone());
    for salt in [2, 3, 0x8000_0001] {
        let same = (0..calls)
            .filter(|&call| passes(1, call) == passes(salt, call))
            .count();
        assert!((4_500..5_500).contains(&same), "{same} with salt {salt}");
    }
}

#[test]
fn a_phone_logs_in_or_does_not_but_never_half() {
    let sieve = Sieve::new(1, 0.5);
    let challenged = register(1);
    let answered = register(2).replace("CSeq", "Authorization: Digest username=\"anna\"\r\nCSeq");
    for port in 1024..2048 {
        let phone = SocketAddr::from(([10, 0, 0, 1], port));
        assert_eq!(
            sieve.passes(challenged.as_bytes(), phone),
            sieve.passes(answered.as_bytes(), phone)
        );
    }
}

#[test]
fn a_program_has_room_for_a_pool_but_not_for_any_number_of_networks() {
    let hosts =
        |count| (0..count).map(|n| IpNet::from(IpAddr::from([10, 0, (n >> 8) as u8, n as u8])));
    let program = |count| steering(&hosts(count).collect::<Vec<_>>(), 16, 2);
    assert!(program(KNOWN).is_some_and(|program| program.len() <= 4096));
    assert_eq!(program(KNOWN + 1), None);
    let ipv6 =
        |count| (0..count).map(|n| IpNet::from(IpAddr::from([0x2001, 0xdb8, 0, n, 0, 0, 0, 1])));
    assert!(steering(&ipv6(64).collect::<Vec<_>>(), 8, 2).is_some());
    assert_eq!(steering(&ipv6(256).collect::<Vec<_>>(), 0, 2), None);
}

/// With as many users as there may be, of so many bytes each.
fn steering(known: &[IpNet], bytes: usize, workers: u32) -> Option<Vec<Instruction>> {
    let urgent = vec!["7".repeat(bytes); urgent::USERS_MAX];
    let rule = Steering {
        known,
        urgent: &urgent,
        ..Steering::default()
    };
    rule.program(workers)
}

/// IPv4 hosts that a program has room for.
const KNOWN: u32 = 256;

fn any_source() -> impl Strategy<Value = SocketAddr> {
    let ip = prop_oneof![
        any::<[u8; 4]>().prop_map(IpAddr::from),
        any::<[u16; 8]>().prop_map(IpAddr::from),
        select(vec![
            "10.0.0.1",
            "10.0.0.9",
            "172.16.5.5",
            "2001:db8::1",
            "2001:db8:0:1::7",
            "2001:db9::1"
        ])
        .prop_map(|text| text.parse().unwrap()),
    ];
    (ip, any::<u16>()).prop_map(SocketAddr::from)
}

fn any_known() -> impl Strategy<Value = Vec<IpNet>> {
    let all = networks(&[
        "10.0.0.1/32",
        "10.0.0.2/32",
        "10.0.0.8/29",
        "172.16.0.0/12",
        "2001:db8::1/128",
        "2001:db8:0:1::/64",
        "2001:db8::2/127",
        "fd00::/8",
        "192.0.2.0/24",
        "2001:db9::/33",
    ]);
    let len = all.len();
    let everybody = select(networks(&["0.0.0.0/0", "::/0"]));
    prop_oneof![
        9 => proptest::sample::subsequence(all, 0..=len).prop_shuffle(),
        1 => everybody.prop_map(|network| vec![network]),
    ]
}

fn any_unruly() -> impl Strategy<Value = Vec<IpAddr>> {
    let all = ["10.0.0.1", "172.16.5.5", "2001:db8::1", "2001:db8:0:1::7"];
    let all: Vec<IpAddr> = all.map(|text| text.parse().unwrap()).into();
    let len = all.len();
    proptest::sample::subsequence(all, 0..=len).prop_shuffle()
}

fn any_urgent() -> impl Strategy<Value = Vec<String>> {
    let all = [
        "2",
        "20",
        "200",
        "2000",
        "alice",
        "+4930110",
        "a-user-of-just-thirty-two-bytes-.",
    ];
    let all = all.map(str::to_owned).to_vec();
    let len = all.len();
    proptest::sample::subsequence(all, 0..=len).prop_shuffle()
}

fn any_target() -> impl Strategy<Value = String> {
    let scheme = select(vec![
        "sip:", "SIP:", "sips:", "tel:", "Tel:", "urn:", "zip:",
    ]);
    let user = select(vec![
        "2",
        "200",
        "2001",
        "alice",
        "Service:SOS",
        "service:so",
        "Alice",
        "+4930110",
        "a-user-of-just-thirty-two-bytes-.",
        "",
    ]);
    let rest = select(vec![
        "@example.com",
        ";phone-context=b@c",
        ":secret@example.com",
        "",
    ]);
    (scheme, user, rest).prop_map(|(scheme, user, rest)| format!("{scheme}{user}{rest}"))
}

fn any_message() -> impl Strategy<Value = Vec<u8>> {
    let to_tag = prop_oneof![
        Just(String::new()),
        "(;[a-z]{1,4}=[a-z]{1,4})?;(tag|TAG|ftag|target|ta)=[a-z]{0,9}"
    ];
    let text = prop_oneof![
        6 => (0..64_usize, any::<u32>(), to_tag).prop_map(|(client, call, tag)| invite(client, call.into(), &tag)),
        2 => any::<u32>().prop_map(|call| register(call.into())),
        2 => (select(vec!["ACK", "BYE", "OPTIONS", "REGI", "INVI", "INV"]), any::<u32>())
            .prop_map(|(method, call)| invite(1, call.into(), "").replacen("INVITE", method, 1)),
        3 => (any_target(), any::<u32>())
            .prop_map(|(target, call)| invite(0, call.into(), "").replacen("sip:200@example.com", &target, 1)),
        1 => "(INVITE |REGISTER |SIP/2.0 |OPTIONS )?[;tag=TAG \r\n]{0,1000}",
    ];
    let cut = prop_oneof![Just(usize::MAX), 0..1000_usize];
    let padding = prop_oneof![4 => Just(0), 1 => 0..900_usize];
    (text, cut, padding).prop_map(|(text, cut, padding)| {
        let via = format!("\r\nVia: SIP/2.0/UDP {}\r\n", "b".repeat(padding));
        let text = if padding > 0 {
            text.replacen("\r\n", &via, 1)
        } else {
            text
        };
        text.as_bytes()[..text.len().min(cut)].to_vec()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn the_programs_are_the_rules(
        message in any_message(),
        source in any_source(),
        known in any_known(),
        unruly in any_unruly(),
        urgent in any_urgent(),
        workers in 1..4_u32,
        salt: u32,
        calls in select(vec![0.0, 0.05, 0.5, 0.9, 1.0]),
        registers in select(vec![0.0, 0.3, 1.0]),
    ) {
        let packet = Packet::new(&message, source);
        let lane = Lane::of(&message, &urgent);
        let is_known = known.iter().any(|network| network.contains(&source.ip()));
        let is_unruly = unruly.contains(&source.ip());
        let has_lane = match lane {
            Lane::OfCalls => !is_known && !is_unruly,
            _ => !is_known || is_unruly,
        };
        let lane = has_lane.then_some(lane);
        let rule = Steering { known: &known, unruly: &unruly, urgent: &urgent };
        let place = run(&rule.program(workers).unwrap(), From::Payload, &packet);
        let first = lane.map_or(0, |lane| lane.place(workers));
        prop_assert!((first..first + workers).contains(&place), "{place} for {lane:?}");
        let own = run(&steering_past_lanes(workers), From::Payload, &packet);
        prop_assert_eq!(own, place - first);

        let sieve = Sieve::of(salt, calls, registers);
        if let Some(lane) = lane {
            let program = sieve.program(lane);
            let passes = program.is_none_or(|program| run(&program, From::UdpHeader, &packet) > 0);
            prop_assert_eq!(passes, sieve.passes_in(lane, &message, source));
        }
    }
}

//! What strangers send to make the node work for them.

use node::{
    Answer, Config, Datagram, Flow,
    stats::{Dropped, Event},
};

use crate::{
    forking::{binding, record_of},
    harness::{
        ALICE, BOB, Cluster, EDGE, ONE, Sent, TRANSACTION_MAX, TWO, config, location, ms, route, s,
        stateful,
    },
    message::{Msg, request},
};

const VICTIM: &str = "198.51.100.99:5060";

/// The node knows nothing of the call any more.
fn restarted(config: &Config) -> (Cluster, Sent) {
    let mut cluster = Cluster::new(config.clone());
    let received = cluster.pass(&request("OPTIONS", ALICE, "call"));
    cluster.restart(config.clone());
    (cluster, received)
}

/// The same response with another Via below ours.
fn with_second_via(response: &Msg, via: &str) -> Msg {
    let ours = response.get("Via").to_owned();
    response
        .clone()
        .without("Via")
        .with("Via", ours)
        .with("Via", via)
}

/// A stray 200 with our Via and any second Via was relayed: whoever knew the name of a listener had the
/// node send to a third address. RFC 3261 §16.11
#[test]
fn a_response_is_relayed_only_by_the_via_that_its_branch_was_made_of() {
    for config in [config(&[ONE]), stateful(&[ONE])] {
        let (mut cluster, received) = restarted(&config);
        let made_up = received.respond(200).to_string();
        let made_up = made_up.replace(received.branch(), "z9hG4bKsy0A0123456789abcdef");
        assert!(
            cluster
                .send_bytes(0, received.to, made_up.as_bytes())
                .is_empty()
        );
        for via in [
            format!("SIP/2.0/UDP {VICTIM};branch=z9hG4bK-call-1"),
            format!("SIP/2.0/UDP {ALICE};rport;branch=z9hG4bK-call-2"),
            format!("SIP/2.0/UDP {VICTIM}"),
        ] {
            let stray = with_second_via(&received.respond(200), &via);
            assert!(cluster.send(&stray).is_empty(), "{stray}");
        }
        let dropped = [Dropped::ForgedBranch, Dropped::Unmatched];
        let dropped: u64 = dropped.map(|reason| cluster.dropped(reason)).iter().sum();
        assert_eq!(dropped, 4);
    }
    let (mut cluster, received) = restarted(&config(&[ONE]));
    assert_eq!(
        cluster.pass(&received.respond(200)).to,
        ALICE.parse().unwrap()
    );
}

/// A callee that got the request could answer it to somebody else while it was open, too.
#[test]
fn an_open_request_is_answered_to_its_caller() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let received = cluster.pass(&request("OPTIONS", ALICE, "call"));
    let via = format!("SIP/2.0/UDP {VICTIM};branch=z9hG4bK-x");
    assert!(
        cluster
            .send(&with_second_via(&received.respond(200), &via))
            .is_empty()
    );
    assert_eq!(cluster.dropped(Dropped::ForgedBranch), 1);
    assert_eq!(cluster.total(), (0, 1, 1.0));
    assert_eq!(
        cluster.pass(&received.respond(200)).to,
        ALICE.parse().unwrap()
    );
}

/// The branch of a held request said the same as that of a relayed one but for a letter: a server could
/// have responses relayed for which no transaction waited. RFC 6026 §7.3
#[test]
fn a_held_requests_branch_is_no_relayed_ones() {
    let mut cluster = Cluster::new(stateful(&[ONE]));
    let received = cluster.pass(&request("INVITE", ALICE, "call"));
    let relayed = received.branch().replacen("syA", "sy0", 1);
    let answer = received.respond(200).to_string();
    let answer = answer.replace(received.branch(), &relayed);
    assert!(
        cluster
            .send_bytes(0, received.to, answer.as_bytes())
            .is_empty()
    );
    assert_eq!(cluster.dropped(Dropped::ForgedBranch), 1);
}

/// RFC 2543's peers set no cookie; their responses come back to them all the same.
#[test]
fn a_caller_without_a_cookie_gets_its_answer() {
    for is_restarted in [false, true] {
        let mut cluster = Cluster::new(config(&[ONE]));
        let old = request("OPTIONS", ALICE, "call").set("Via", format!("SIP/2.0/UDP {ALICE}"));
        let received = cluster.pass(&old);
        if is_restarted {
            cluster.restart(config(&[ONE]));
        }
        assert_eq!(cluster.pass(&received.respond(200)).to, old.from);
    }
}

/// A caller on the node's own host that gave the node's port for its own had the node answer itself. Then it got no
/// answer, and its server counted as silent.
#[test]
fn no_response_goes_to_the_node_itself() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let via = format!("SIP/2.0/UDP {EDGE};branch=z9hG4bK-1");
    let invite = request("OPTIONS", "192.0.2.10:9999", "call").set("Via", via);
    let received = cluster.pass(&invite);
    assert!(cluster.send(&received.respond(200)).is_empty());
    assert_eq!(cluster.dropped(Dropped::ReturnsToUs), 1);
}

/// Via's maddr was obeyed for relayed responses only: it let a stranger aim them at anybody. It is ignored.
#[test]
fn maddr_in_a_via_is_ignored() {
    for config in [config(&[ONE]), stateful(&[ONE])] {
        let mut cluster = Cluster::new(config);
        let via = format!("SIP/2.0/UDP {ALICE};maddr=198.51.100.99;rport;branch=z9hG4bK-1");
        let received = cluster.pass(&request("OPTIONS", ALICE, "call").set("Via", via));
        assert_eq!(
            cluster.pass(&received.respond(200)).to,
            ALICE.parse().unwrap()
        );
    }
}

/// One Call-ID with rising CSeq made a list of open requests that grew without bound, and was walked for
/// each of them.
#[test]
fn a_call_has_so_many_open_requests_and_no_more() {
    for config in [config(&[ONE, TWO]), stateful(&[ONE, TWO])] {
        let mut cluster = Cluster::new(config);
        let invite = |number: u32| {
            let invite = request("INVITE", ALICE, "call");
            invite.again(number, &number.to_string())
        };
        let mut open: Vec<_> = (1..=64)
            .map(|number| cluster.pass(&invite(number)))
            .collect();
        assert!(open.iter().all(|sent| sent.is_request()));
        for number in 65..70 {
            let refused = cluster.pass(&invite(number));
            assert_eq!(
                (refused.to, refused.status()),
                (ALICE.parse().unwrap(), 503)
            );
            assert!(!refused.get("Retry-After").is_empty());
        }
        assert_eq!(cluster.event(Event::SessionBusy), 5);
        assert_eq!(cluster.total().1, 64);
        for (place, left) in [(31, 63), (62, 62), (0, 61), (30, 60)] {
            cluster.send(&open.remove(place).respond(486));
            assert_eq!(cluster.total().1, left);
        }
        assert!(cluster.pass(&invite(70)).is_request());
        for sent in &open {
            cluster.send(&sent.respond(486));
        }
        assert_eq!(cluster.total().1, 1);
    }
}

/// A call with as many open requests as it may have can be ended.
#[test]
fn a_busy_call_can_be_ended() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let mut call = cluster.establish("call");
    for _ in 0..64 {
        cluster.pass(&call.caller.request("INFO"));
    }
    assert_eq!(cluster.pass(&call.caller.request("INFO")).status(), 503);
    cluster.exchange(&call.caller.request("BYE"), 200);
    cluster.wait(TRANSACTION_MAX + ms(20));
    assert_eq!(cluster.total(), (0, 0, 0.0));
}

/// CANCELs of INVITEs that are not known had one budget for all: one stranger used it up, and then nobody's
/// callees stopped ringing.
#[test]
fn a_flood_of_cancels_uses_up_its_own_budget() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let mut copied = |from: &str, cancels: usize| {
        let cancel = |call| request("INVITE", from, &format!("{from}{call}")).cancel();
        let sent = (0..cancels).map(|call| cluster.send(&cancel(call)).len());
        let copied = sent.filter(|&copies| copies == 2).count();
        (copied, cluster.event(Event::CancelsFull))
    };
    assert_eq!(copied(ALICE, 200), (50, 150));
    assert_eq!(copied(BOB, 10), (10, 150));
    cluster.wait(s(1) + ms(1));
    let cancel = request("INVITE", ALICE, "later").cancel();
    assert_eq!(cluster.send(&cancel).len(), 2);
}

/// Each forged address had a budget of its own, so a flood of CANCELs from made-up addresses became one of as many copies
/// as there were servers.
#[test]
fn a_flood_of_cancels_from_anywhere_is_bounded() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let cancel = |call: u32| {
        let from = format!("198.51.{}.{}:5060", call / 200, 1 + call % 200);
        request("INVITE", &from, &format!("call{call}")).cancel()
    };
    let sent = (0..1_000).map(|call| cluster.send(&cancel(call)).len());
    assert_eq!(sent.filter(|&copies| copies == 2).count(), 200);
    assert_eq!(cluster.event(Event::CancelsFull), 800);
    let of_server = request("INVITE", ONE, "server").cancel();
    let sent = cluster.send(&of_server);
    assert!(
        sent[0].is_request(),
        "a server's are not among them: {sent:?}"
    );
}

/// Max-Breadth: 0 was sent on as 1: who had used up the breadth of a request got one more branch at each
/// node. RFC 5393 §5.3.3
#[test]
fn a_request_without_breadth_goes_nowhere() {
    for config in [config(&[ONE]), stateful(&[ONE]), location()] {
        let mut cluster = Cluster::new(config);
        let invite = |breadth| request("INVITE", ALICE, "call").with("Max-Breadth", breadth);
        assert_eq!(cluster.pass(&invite(0)).status(), 440);
        assert_eq!((cluster.replies(440), cluster.total()), (1, (0, 0, 0.0)));
        assert!(cluster.questions.is_empty());
    }
    let mut cluster = Cluster::new(stateful(&[ONE]));
    let sent = cluster.pass(&request("INVITE", ALICE, "call").with("Max-Breadth", 1));
    assert_eq!(sent.all("Max-Breadth"), ["1"]);
}

/// A maddr that named this node stayed in the Request-URI: servers behind it saw an address that was not
/// theirs, and a server's own request found no way out. RFC 3261 §16.4
#[test]
fn maddr_that_names_us_leaves_the_request_uri() {
    let cases = [
        (
            "sip:bob@example.com;maddr=192.0.2.10",
            "sip:bob@example.com",
        ),
        (
            "sip:bob@example.com:5060;maddr=192.0.2.10;user=phone",
            "sip:bob@example.com;user=phone",
        ),
        (
            "sip:bob@example.com;transport=udp;MADDR=192.0.2.10;a;b=1",
            "sip:bob@example.com;a;b=1",
        ),
        (
            "sip:bob:x@[2001:db8::1];maddr=192.0.2.10",
            "sip:bob:x@[2001:db8::1]",
        ),
        (
            "sip:bob;maddr=192.0.2.10@example.com",
            "sip:bob;maddr=192.0.2.10@example.com",
        ),
        (
            "sip:bob@example.com:5070;maddr=192.0.2.10",
            "sip:bob@example.com:5070;maddr=192.0.2.10",
        ),
        (
            "sip:bob@example.com;maddr=192.0.2.11",
            "sip:bob@example.com;maddr=192.0.2.11",
        ),
        (
            "sip:bob@example.com;transport=tcp;maddr=192.0.2.10",
            "sip:bob@example.com;transport=tcp;maddr=192.0.2.10",
        ),
    ];
    for (came, goes) in cases {
        let mut cluster = Cluster::new(config(&[ONE]));
        let mut invite = request("INVITE", ALICE, "call");
        invite.start = format!("INVITE {came} SIP/2.0");
        let sent = cluster.pass(&invite);
        assert_eq!((sent.to, sent.uri()), (ONE.parse().unwrap(), goes));
        assert_eq!(cluster.pass(&invite).uri(), goes);
        assert_eq!(cluster.event(Event::Retransmission), 1);
    }
}

/// A 404, 480 or 503 from a look-up was repeated by Timer G for 32 s, towards whoever's address the INVITE
/// had for its source; a slow store made a 100 of it as well.
#[test]
fn a_look_up_that_fails_has_one_answer() {
    let failures: [(&[Answer], u16); 4] = [
        (&[Answer::Record(None), Answer::Record(None)], 404),
        (&[record_of(&[])], 480),
        (&[Answer::Failed], 503),
        (&[], 503),
    ];
    for (answers, status) in failures {
        for method in ["INVITE", "MESSAGE"] {
            let mut cluster = Cluster::new(location());
            let mut sent = cluster.send(&request(method, ALICE, "call"));
            assert!(cluster.wait(ms(500)).is_empty(), "no 100 before it goes on");
            sent.extend(cluster.send(&request(method, ALICE, "call")));
            for answer in answers {
                sent.extend(cluster.answer(answer.clone()));
            }
            sent.extend(cluster.wait(s(4)));
            assert_eq!((sent.len(), sent[0].status()), (1, status));
            assert!(
                cluster
                    .send(&request(method, ALICE, "call").ack_of(&sent[0]))
                    .is_empty()
            );
            assert!(cluster.wait(TRANSACTION_MAX * 2).is_empty());
            assert_eq!(cluster.held(), 0);
        }
    }
}

/// The 487 of an INVITE that was cancelled while its user was looked up was repeated, too.
#[test]
fn a_look_up_that_is_cancelled_has_one_answer() {
    let mut cluster = Cluster::new(location());
    let invite = request("INVITE", ALICE, "call");
    cluster.send(&invite);
    assert!(cluster.wait(s(1)).is_empty());
    let sent = cluster.send(&invite.cancel());
    let statuses: Vec<_> = sent.iter().map(|sent| sent.status()).collect();
    assert_eq!(statuses, [200, 487]);
    assert!(
        cluster
            .answer(record_of(&[binding("sip:bob@198.51.100.1")]))
            .is_empty()
    );
    assert!(cluster.wait(TRANSACTION_MAX * 2).is_empty());
    assert_eq!(cluster.held(), 0);
}

/// A 100 that was due while the user was looked up comes when the INVITE goes on.
#[test]
fn an_invite_that_goes_on_late_has_its_100() {
    let mut cluster = Cluster::new(location());
    cluster.send(&request("INVITE", ALICE, "call"));
    cluster.wait(ms(300));
    let sent = cluster.answer(record_of(&[binding("sip:bob@198.51.100.1")]));
    let statuses: Vec<_> = sent.iter().map(|sent| sent.status()).collect();
    assert_eq!(statuses, [100, 0]);
}

/// What a stranger sends, as short as it can be, with `more` before the empty line.
fn short(method: &str, uri: &str, more: &str) -> String {
    format!(
        "{method} {uri} SIP/2.0\r\nv:SIP/2.0/UDP a;branch=z9hG4bK1;rport\r\nf:<sip:a@b>;tag=1\r\n\
         t:<sip:c@example.com>\r\ni:1\r\nCSeq:1 {method}\r\n{more}\r\n"
    )
}

/// Short requests that the node answers itself, by the status.
fn answered_requests() -> Vec<(u16, String)> {
    let here = "sip:c@example.com";
    vec![
        (200, short("OPTIONS", "sip:192.0.2.10", "")),
        (400, "X sip:a SIP/2.0\r\n\r\n".to_owned()),
        (400, short("INVITE", here, "Max-Forwards:256\r\n")),
        (400, short("INVITE", here, &"X:\r\n".repeat(64))),
        (401, short("REGISTER", "sip:example.com", "")),
        (404, short("INVITE", "sip:c@example.org", "")),
        (405, short("MESSAGE", "sip:c@example.net", "")),
        (416, short("INVITE", "sips:c@example.com", "")),
        (420, short("INVITE", here, "Proxy-Require:a\r\n")),
        (
            420,
            short(
                "INVITE",
                here,
                &format!("Proxy-Require:{}\r\n", "\u{fffd}".repeat(50)),
            ),
        ),
        (
            423,
            short(
                "REGISTER",
                "sip:example.com",
                "Expires:1\r\nm:<sip:c@a>\r\n",
            ),
        ),
        (440, short("INVITE", here, "Max-Breadth:0\r\n")),
        (480, short("INVITE", here, "")),
        (481, short("CANCEL", here, "")),
        (
            481,
            short("BYE", here, "").replace("com>\r\n", "com>;tag=2\r\n"),
        ),
        (483, short("INVITE", here, "Max-Forwards:0\r\n")),
        (503, short("INVITE", "sip:c@example.net", "")),
        (
            505,
            short("INVITE", here, "").replace("SIP/2.0\r\nv:", "SIP/3.0\r\nv:"),
        ),
        (513, short("INVITE", here, "")),
    ]
}

/// A registrar, and a pool for INVITEs whose server is down.
fn answering(status: u16) -> Cluster {
    let mut config = location();
    config.listeners[0].address = "[2001:db8::10]:5060".parse().unwrap();
    config.routes[0].hosts = vec!["example.com".to_owned()];
    config
        .routes
        .push(route(&["INVITE"], &["example.net"], "app"));
    config
        .routes
        .push(route(&["REGISTER"], &["example.net"], "app"));
    if status == 423 {
        config.registrar.as_mut().unwrap().algorithms.clear();
    }
    let cluster = Cluster::new(config);
    cluster.member(ONE).server.drain();
    cluster
}

/// An answer of the node had up to four times the bytes of its request: with a forged source the node
/// threw more at a third party than it got. Each request has one answer, and at most twice its bytes.
#[test]
fn no_answer_is_much_longer_than_its_request() {
    let long = "2001:db8:1111:2222:3333:4444:5555:6666";
    let from: std::net::SocketAddr = format!("[{long}]:50000").parse().unwrap();
    for (status, short) in answered_requests() {
        let padded = short.replace("\r\n\r\n", &format!("\r\nX:{}\r\n\r\n", "x".repeat(600)));
        for (request, must_be_answered) in [(&short, false), (&padded, true)] {
            let mut cluster = answering(status);
            let mut sent = cluster.send_datagram(Datagram {
                flow: Flow::udp(0, from),
                bytes: request.as_bytes(),
                truncated: status == 513,
            });
            while !cluster.questions.is_empty() {
                sent.extend(cluster.answer(record_of(&[])));
            }
            sent.extend(cluster.wait(TRANSACTION_MAX * 2));
            let bytes: usize = sent.iter().map(|sent| sent.bytes.len()).sum();
            assert!(
                bytes <= 2 * request.len(),
                "{status}: {bytes} for\n{request}"
            );
            assert!(sent.len() <= 1, "{status}: {sent:#?}");
            let statuses: Vec<_> = sent.iter().map(|sent| sent.status()).collect();
            if must_be_answered || !sent.is_empty() {
                assert_eq!(statuses, [status], "{request}");
            } else {
                assert_eq!(cluster.dropped(Dropped::AnswerTooLong), 1);
            }
        }
    }
}

/// Timer G repeated the failure of a callee up to ten times towards a source that nobody had proved: a forged
/// INVITE threw many times its bytes at a third party. Who acknowledges a failure with its tag has proved the source.
#[test]
fn a_failure_is_repeated_only_as_far_as_its_request_reaches() {
    let mut cluster = Cluster::new(stateful(&[ONE]));
    let failed = |cluster: &mut Cluster, call: &str| {
        let invite = request("INVITE", ALICE, call);
        let received = cluster.pass(&invite);
        let mut sent = cluster.send(&received.respond(486));
        sent.extend(cluster.wait(s(10)));
        sent.retain(|sent| sent.to == invite.from);
        (invite, sent)
    };
    let (invite, sent) = failed(&mut cluster, "forged");
    let bytes: usize = sent.iter().map(|sent| sent.bytes.len()).sum();
    assert!(bytes <= 2 * invite.to_string().len(), "{bytes} bytes");
    assert!(
        !cluster.send(&invite).is_empty(),
        "who asks again is answered"
    );
    let ack = invite.ack_of(&sent[0]);
    cluster.send(&ack.clone().set("To", "<sip:bob@example.com>;tag=guessed"));
    let (invite, sent) = failed(&mut cluster, "guessed");
    assert!(sent.len() < 3);
    cluster.send(&invite.ack_of(&sent[0]));
    assert!(failed(&mut cluster, "proven").1.len() > 4);
}

/// Limits counted messages, not bytes: transactions held whatever came, up to 16 KB each, and a flood of
/// long INVITEs took many times the memory that the limits promise.
#[test]
fn a_flood_of_long_messages_stays_within_its_bytes() {
    let mut config = stateful(&[ONE]);
    config.limits.held_transactions = 64;
    let message_bytes = config.limits.message_bytes as u64;
    let budget = 2 * 64 * 4096 + 4 * message_bytes;
    let long = "x".repeat(15_000);
    let mut cluster = Cluster::new(config);
    let held = |cluster: &mut Cluster| {
        cluster.wait(ms(1));
        cluster.shared.workers()[0].held_bytes()
    };
    let (mut most, mut refused) = (0, 0);
    for call in 0..100 {
        let invite = request("INVITE", ALICE, &format!("call{call}")).with("X-Long", &long);
        let sent = cluster.pass(&invite);
        if sent.is_request() {
            let failure = sent.respond(486).with("X-Long", &long);
            assert_eq!(
                cluster.send(&failure).len(),
                2,
                "an ACK, and the 486 goes back"
            );
        } else {
            assert_eq!(sent.status(), 503);
            refused += 1;
        }
        most = held(&mut cluster).max(most);
    }
    assert!(most > budget / 2 && most <= budget, "{most} of {budget}");
    assert_eq!(cluster.event(Event::TransactionsFull), refused);
    assert!(refused > 0);
    cluster.wait(TRANSACTION_MAX * 2);
    assert_eq!((held(&mut cluster), cluster.total()), (0, (0, 0, 0.0)));
}

/// The queue to a worker held so many messages of any length.
#[test]
fn what_waits_for_a_worker_has_a_budget() {
    let mut config = config(&[ONE]);
    config.limits.handover_queue = 2;
    let cluster = Cluster::with_workers(config, 2);
    let most = 2 * 4096 + 16_384;
    assert!(cluster.shared.may_hand_over(1, most - 1));
    assert!(!cluster.shared.may_hand_over(1, 2));
    assert!(cluster.shared.may_hand_over(0, most));
    assert!(cluster.shared.may_hand_over(1, 1));
    assert_eq!(cluster.shared.workers()[1].handover_bytes(), most as u64);
    cluster.shared.took_over(1, most);
    assert!(cluster.shared.may_hand_over(1, most));
}

/// Whoever repeated a failure that had been superseded got the ACK, which was a caller's.
#[test]
fn only_a_server_gets_the_ack_of_a_superseded_failure() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let received = cluster.pass(&request("INVITE", ALICE, "call"));
    let failure = received.respond(503);
    assert_eq!(
        cluster.send(&failure).len(),
        2,
        "an ACK, and the INVITE elsewhere"
    );
    assert!(cluster.send(&failure.clone().from(BOB)).is_empty());
    assert_eq!(cluster.pass(&failure).method(), "ACK");
}

//! Requests that the location service finds several targets for: in parallel, one after the
//! other, and what comes back of it all.

use std::{net::SocketAddr, time::Duration};

use location::{Binding, Location, UsedNonces};
use node::{Answer, Ask, Record, config::IpNet, stats::Dropped};

use crate::{
    harness::{ALICE, Cluster, Sent, TRANSACTION_MAX, location, ms, s},
    message::{Dialog, Msg, request},
};

pub(crate) const PHONE: &str = "198.51.100.1:5060";
const DESK: &str = "198.51.100.2:5060";
const TABLET: &str = "198.51.100.3:5060";

/// An address and its preference.
type Target = (&'static str, u16);

/// What the store says of a user who has these contacts.
fn bound(targets: &[Target]) -> Answer {
    let contacts: Vec<String> = targets
        .iter()
        .map(|(at, _)| format!("sip:bob@{at}"))
        .collect();
    let bound = |(contact, (_, q)): (_, &Target)| Binding {
        q: *q,
        ..binding(contact)
    };
    let contacts = contacts.iter().map(String::as_str);
    let bindings: Vec<_> = contacts.zip(targets).map(bound).collect();
    record_of(&bindings)
}

/// A contact that was registered from the phone's address.
pub(crate) fn binding(contact: &str) -> Binding<'_> {
    Binding {
        contact,
        q: 1000,
        expires: Duration::from_secs(1 << 40),
        call_id: "registered",
        cseq: 1,
        path: "",
        received: PHONE.parse().unwrap(),
        updated: Duration::ZERO,
        device: 0,
        reg_id: 0,
    }
}

/// What the store says of a user with these bindings.
pub(crate) fn record_of(bindings: &[Binding<'_>]) -> Answer {
    let location = Location {
        bindings: bindings.to_vec(),
        nonces: UsedNonces::default(),
    };
    Answer::Record(Some(Record {
        value: location.write().into(),
        expires: None,
    }))
}

/// Alice's INVITE, and where it went.
fn fork(cluster: &mut Cluster, targets: &[Target]) -> (Msg, Vec<Sent>) {
    let invite = request("INVITE", ALICE, "call");
    assert!(cluster.send(&invite).is_empty());
    let key = (*b"aor:service@example.com").into();
    assert_eq!(cluster.questions[0].ask, Ask::Read { key });
    let sent = cluster.answer(bound(targets));
    (invite, sent)
}

/// Addresses and what was sent there.
fn list(sent: &[Sent]) -> Vec<(String, String)> {
    let word = |sent: &Sent| match sent.status() {
        0 => sent.method().to_owned(),
        status => status.to_string(),
    };
    sent.iter()
        .map(|sent| (sent.to.to_string(), word(sent)))
        .collect()
}

pub(crate) fn check(sent: &[Sent], expected: &[(&str, &str)]) {
    let own = |&(to, word): &(&str, &str)| (to.to_owned(), word.to_owned());
    let expected: Vec<_> = expected.iter().map(own).collect();
    assert_eq!(list(sent), expected);
}

pub(crate) fn is_idle(cluster: &mut Cluster) {
    cluster.wait(s(181) + TRANSACTION_MAX * 3);
    assert_eq!((cluster.held(), cluster.total()), (0, (0, 0, 0.0)));
}

/// RFC 3261 §16.6
#[test]
fn equal_targets_ring_together() {
    let mut cluster = Cluster::new(location());
    let (invite, sent) = fork(&mut cluster, &[(PHONE, 1000), (DESK, 1000)]);
    check(&sent, &[(PHONE, "INVITE"), (DESK, "INVITE")]);
    assert_eq!(sent[0].uri(), format!("sip:bob@{PHONE}"));
    assert_ne!(sent[0].branch(), sent[1].branch());
    assert_eq!(sent[0].get("Max-Breadth"), "30");
    for ringing in &sent {
        check(&cluster.send(&ringing.respond(180)), &[(ALICE, "180")]);
    }
    let answer = cluster.send(&sent[1].respond(200));
    check(&answer, &[(ALICE, "200"), (PHONE, "CANCEL")]);
    check(&cluster.send(&sent[0].respond(487)), &[(PHONE, "ACK")]);
    let mut caller = Dialog::of_caller(&invite, &answer[0]);
    assert_eq!(cluster.pass(&caller.ack()).to.to_string(), DESK);
    assert_eq!(
        cluster.exchange(&caller.request("BYE"), 200).to.to_string(),
        DESK
    );
    is_idle(&mut cluster);
}

/// The answer to our own CANCEL was dropped, as it has no Via below ours: a phone got its CANCEL eleven times.
#[test]
fn a_cancel_that_was_answered_is_not_repeated() {
    for is_answered in [true, false] {
        let mut cluster = Cluster::new(location());
        let (_, sent) = fork(&mut cluster, &[(PHONE, 1000), (DESK, 1000)]);
        cluster.send(&sent[0].respond(180));
        let cancel = cluster.send(&sent[1].respond(200)).remove(1);
        check(&cluster.send(&sent[0].respond(487)), &[(PHONE, "ACK")]);
        if is_answered {
            check(&cluster.send(&cancel.respond(200)), &[]);
        }
        let repeated = cluster.wait(s(2)).len();
        assert_eq!(repeated == 0, is_answered, "{repeated}");
        assert_eq!(cluster.dropped(Dropped::NoReturnPath), 0);
        // An INVITE of ours has a Via below.
        let bare = sent[0].respond(180).set("Via", sent[0].get("Via"));
        check(&cluster.send(&bare), &[]);
        assert_eq!(cluster.dropped(Dropped::NoReturnPath), 1);
    }
}

/// RFC 3261 §16.7 step 5: all 2xx go back.
#[test]
fn two_that_answer_are_both_heard() {
    let mut cluster = Cluster::new(location());
    let (_, sent) = fork(&mut cluster, &[(PHONE, 1000), (DESK, 1000)]);
    check(
        &cluster.send(&sent[0].respond_as(200, "phone")),
        &[(ALICE, "200")],
    );
    let second = cluster.send(&sent[1].respond_as(200, "desk"));
    check(&second, &[(ALICE, "200")]);
    assert!(second[0].get("To").contains("desk"));
    is_idle(&mut cluster);
}

/// RFC 3261 §16.6: q decides the order.
#[test]
fn unequal_targets_ring_one_after_the_other() {
    let mut cluster = Cluster::new(location());
    let targets = [(TABLET, 100), (PHONE, 1000), (DESK, 500)];
    let (_, first) = fork(&mut cluster, &targets);
    check(&first, &[(PHONE, "INVITE")]);
    assert_eq!(first[0].get("Max-Breadth"), "60");
    let second = cluster.send(&first[0].respond(486));
    check(&second, &[(PHONE, "ACK"), (DESK, "INVITE")]);
    let third = cluster.send(&second[1].respond(480));
    check(&third, &[(DESK, "ACK"), (TABLET, "INVITE")]);
    check(
        &cluster.send(&third[1].respond(404)),
        &[(TABLET, "ACK"), (ALICE, "486")],
    );
    is_idle(&mut cluster);
}

/// RFC 3261 §16.7 step 5: 6xx ends the search.
#[test]
fn a_6xx_ends_the_search() {
    let mut cluster = Cluster::new(location());
    let targets = [(PHONE, 1000), (DESK, 1000), (TABLET, 500)];
    let (_, sent) = fork(&mut cluster, &targets);
    cluster.send(&sent[1].respond(180));
    check(
        &cluster.send(&sent[0].respond(603)),
        &[(PHONE, "ACK"), (DESK, "CANCEL")],
    );
    check(
        &cluster.send(&sent[1].respond(487)),
        &[(DESK, "ACK"), (ALICE, "603")],
    );
    is_idle(&mut cluster);
}

/// RFC 3261 §16.7 steps 6 and 7
#[test]
fn the_best_answer_goes_back_with_all_challenges() {
    let mut cluster = Cluster::new(location());
    let targets = [(PHONE, 1000), (DESK, 1000), (TABLET, 1000)];
    let (_, sent) = fork(&mut cluster, &targets);
    let challenge = |sent: &Sent, status, name, realm: &str| {
        sent.respond(status)
            .with(name, format!("Digest realm=\"{realm}\""))
    };
    check(&cluster.send(&sent[0].respond(500)), &[(PHONE, "ACK")]);
    let one = challenge(&sent[1], 407, "Proxy-Authenticate", "desk");
    check(&cluster.send(&one), &[(DESK, "ACK")]);
    let two = challenge(&sent[2], 401, "WWW-Authenticate", "tablet");
    let back = cluster.send(&two);
    check(&back, &[(TABLET, "ACK"), (ALICE, "407")]);
    assert_eq!(back[1].all("Proxy-Authenticate"), ["Digest realm=\"desk\""]);
    assert_eq!(back[1].all("WWW-Authenticate"), ["Digest realm=\"tablet\""]);
    is_idle(&mut cluster);
}

/// RFC 3261 §16.10
#[test]
fn a_cancel_reaches_every_branch_and_ends_the_search() {
    let mut cluster = Cluster::new(location());
    let targets = [(PHONE, 1000), (DESK, 1000), (TABLET, 500)];
    let (invite, sent) = fork(&mut cluster, &targets);
    for ringing in &sent {
        cluster.send(&ringing.respond(180));
    }
    check(
        &cluster.send(&invite.cancel()),
        &[(ALICE, "200"), (PHONE, "CANCEL"), (DESK, "CANCEL")],
    );
    check(&cluster.send(&sent[0].respond(487)), &[(PHONE, "ACK")]);
    check(
        &cluster.send(&sent[1].respond(487)),
        &[(DESK, "ACK"), (ALICE, "487")],
    );
    is_idle(&mut cluster);
}

/// RFC 3261 §16.7: the next target on a timeout.
#[test]
fn a_silent_target_gives_way() {
    let mut cluster = Cluster::new(location());
    let (_, sent) = fork(&mut cluster, &[(PHONE, 1000), (DESK, 500)]);
    check(&sent, &[(PHONE, "INVITE")]);
    let sent = cluster.wait(TRANSACTION_MAX + ms(50));
    let last = sent.last().unwrap();
    assert_eq!(
        (last.to.to_string().as_str(), last.method()),
        (DESK, "INVITE")
    );
    let back = cluster.send(&last.respond(200));
    check(&back, &[(ALICE, "200")]);
    is_idle(&mut cluster);
}

/// RFC 5393 §5.3.3: what Max-Breadth doesn't allow together goes one after the other.
#[test]
fn max_breadth_bounds_what_rings_together() {
    let mut cluster = Cluster::new(location());
    let targets = [(PHONE, 1000), (DESK, 1000), (TABLET, 1000)];
    let invite = request("INVITE", ALICE, "call").with("Max-Breadth", 2);
    cluster.send(&invite);
    let sent = cluster.answer(bound(&targets));
    check(&sent, &[(PHONE, "INVITE"), (DESK, "INVITE")]);
    assert_eq!(sent[0].all("Max-Breadth"), ["1"]);
    cluster.send(&sent[0].respond(486));
    let third = cluster.send(&sent[1].respond(486));
    check(&third, &[(DESK, "ACK"), (TABLET, "INVITE")]);
    assert_eq!(third[1].all("Max-Breadth"), ["2"]);
    check(
        &cluster.send(&third[1].respond(486)),
        &[(TABLET, "ACK"), (ALICE, "486")],
    );
    is_idle(&mut cluster);
}

/// RFC 5393 §4.2.2: what comes back unchanged has looped; what comes back for somebody else hasn't.
#[test]
fn a_loop_is_found_and_a_spiral_is_not() {
    let mut cluster = Cluster::new(location());
    let (_, sent) = fork(&mut cluster, &[(PHONE, 1000)]);
    let back = |uri: &str| {
        let mut again = sent[0].message.clone();
        again.start = format!("INVITE {uri} SIP/2.0");
        again.from = PHONE.parse().unwrap();
        let via = format!("SIP/2.0/UDP {PHONE};branch=z9hG4bK-{}", uri.len());
        let vias: Vec<String> = again.all("Via").iter().map(|&v| v.to_owned()).collect();
        let again = again
            .without("Via")
            .without("Content-Length")
            .with("Via", via);
        vias.iter().fold(again, |again, via| again.with("Via", via))
    };
    let looped = cluster.pass(&back("sip:service@example.com"));
    assert_eq!(
        (looped.to.to_string().as_str(), looped.status()),
        (PHONE, 482)
    );
    assert!(cluster.send(&back("sip:carol@example.com")).is_empty());
    assert_eq!(cluster.questions.len(), 1, "asked where Carol is");
}

#[test]
fn whom_nobody_finds_is_not_called() {
    let record = |value: &[u8]| {
        Answer::Record(Some(Record {
            value: value.into(),
            expires: None,
        }))
    };
    let cases: [(&[Answer], &str); 6] = [
        (&[bound(&[])], "480"),
        (&[Answer::Record(None), record(b"a subscriber")], "480"),
        (&[Answer::Record(None), Answer::Record(None)], "404"),
        (&[Answer::Failed], "503"),
        (&[Answer::Record(None), Answer::Failed], "500"),
        (&[record(b"not a record")], "500"),
    ];
    for (answers, status) in cases {
        let mut cluster = Cluster::new(location());
        let invite = request("INVITE", ALICE, "call");
        cluster.send(&invite);
        assert!(cluster.send(&invite).is_empty(), "it is being looked up");
        let mut sent = Vec::new();
        for answer in answers {
            assert!(sent.is_empty());
            sent = cluster.answer(answer.clone());
        }
        check(&sent, &[(ALICE, status)]);
        assert!(cluster.send(&invite.ack_of(&sent[0])).is_empty());
        is_idle(&mut cluster);
    }
}

/// RFC 3261 §21.5.4: who waits for a store that hangs is told to come again.
#[test]
fn a_silent_store_is_not_waited_for() {
    let mut cluster = Cluster::new(location());
    cluster.send(&request("INVITE", ALICE, "call"));
    assert_eq!(cluster.sizes().2, 1, "a node that stops waits for it");
    let sent = cluster.wait(ms(3_200));
    check(&sent, &[(ALICE, "503")]);
    assert_eq!(sent[0].get("Retry-After"), "5");
    assert_eq!(cluster.sizes().2, 0);
    assert!(
        cluster.answer(bound(&[(PHONE, 1000)])).is_empty(),
        "too late"
    );
    is_idle(&mut cluster);
}

/// A third of a store's records was out of reach for 15 s. A 503 for each had edges leave the node alone, and calls to all
/// other users failed, too.
#[test]
fn a_node_whose_store_answers_others_is_not_to_be_left_alone() {
    let mut cluster = Cluster::new(location());
    cluster.send(&request("INVITE", ALICE, "unreachable"));
    cluster.wait(ms(2_500));
    cluster.send(&request("INVITE", ALICE, "other"));
    check(&cluster.answer(bound(&[])), &[(ALICE, "480")]);
    let sent = cluster.wait(ms(700));
    check(&sent, &[(ALICE, "500")]);
    assert_eq!(sent[0].get("Retry-After"), "5");
}

/// It waited in silence for its store, so edges took it for dead.
#[test]
fn a_peer_hears_that_a_user_is_looked_up() {
    let alice: SocketAddr = ALICE.parse().unwrap();
    for (is_peer, heard) in [(true, &[(ALICE, "100")][..]), (false, &[])] {
        let mut config = location();
        if is_peer {
            config.trust.peers = vec![IpNet::from(alice.ip())];
        }
        let mut cluster = Cluster::new(config);
        cluster.send(&request("INVITE", ALICE, "call"));
        check(&cluster.wait(ms(250)), heard);
    }
}

#[test]
fn targets_beyond_our_listeners_fail() {
    let mut cluster = Cluster::new(location());
    let (_, sent) = fork(&mut cluster, &[("[2001:db8::1]:5060", 1000), (DESK, 500)]);
    check(&sent, &[(DESK, "INVITE")]);
    check(
        &cluster.send(&sent[0].respond(503)),
        &[(DESK, "ACK"), (ALICE, "500")],
    );
}

/// Requests that are no INVITE can't be cancelled; the first 2xx goes back.
#[test]
fn other_requests_fork() {
    let mut cluster = Cluster::new(location());
    cluster.send(&request("MESSAGE", ALICE, "call"));
    let sent = cluster.answer(bound(&[(PHONE, 1000), (DESK, 1000)]));
    check(&sent, &[(PHONE, "MESSAGE"), (DESK, "MESSAGE")]);
    check(&cluster.send(&sent[0].respond(200)), &[(ALICE, "200")]);
    assert!(cluster.send(&sent[1].respond(200)).is_empty());
    is_idle(&mut cluster);
    assert_eq!(cluster.dropped(Dropped::Unmatched), 0);
}

/// A phone had closed its port: its caller waited for 64*T1, and a dead first contact stalled the search
/// as long. RFC 3261 §16.9
#[test]
fn a_phone_where_nobody_listens_is_left_at_once() {
    for is_cut in [false, true] {
        let mut cluster = Cluster::new(location());
        let targets = [(PHONE, 1000), (DESK, 1000), (TABLET, 500)];
        let (_, sent) = fork(&mut cluster, &targets);
        check(&sent, &[(PHONE, "INVITE"), (DESK, "INVITE")]);
        let quoted = match is_cut {
            true => &sent[0].bytes[..120],
            false => &sent[0].bytes[..],
        };
        assert!(
            cluster.quote(sent[0].to, quoted).is_empty(),
            "the other may ring"
        );
        let forged = sent[0].bytes.clone();
        assert!(cluster.quote(DESK.parse().unwrap(), &forged).is_empty());
        assert_eq!(cluster.dropped(Dropped::UnmatchedQuote), 1);
        check(&cluster.unreachable(DESK), &[(TABLET, "INVITE")]);
        check(&cluster.unreachable(TABLET), &[(ALICE, "500")]);
        is_idle(&mut cluster);
    }
}

//! Who may do what: routes by sender, calls of users alone, asserted identities.

use node::{
    Config,
    config::{Mode, Source},
    stats::Event,
};

use crate::{
    harness::{
        ALICE, Cluster, EDGE, ONE, Sent, THREE, TWO, config, listener, location, pool, registrar,
        route, s,
    },
    message::{Dialog, Msg, request},
    registrar::{World, answer_to},
};

const INSIDE: &str = "10.0.0.10:5060";
const OTHER_EDGE: &str = "192.0.2.11:5060";
const PEER: &str = "172.16.0.9:5060";

/// Peers' requests go to one server, those to the second listener to another, those for +49 and 0 to
/// a third, if they are INVITEs.
fn by_traits() -> Config {
    let mut config = config(&[ONE]);
    config.listeners.push(listener(INSIDE));
    config.trust.peers = vec!["172.16.0.0/16".parse().unwrap()];
    config.exchange.peers = vec![OTHER_EDGE.parse().unwrap()];
    config.pools = vec![
        pool("peers", &[ONE]),
        pool("inside", &[TWO]),
        pool("numbers", &[THREE]),
    ];
    let mut routes = ["peers", "inside", "numbers"].map(|to| route(&[], &[], to));
    routes[0].from = vec![
        Source::Peers,
        Source::Network("198.18.0.0/15".parse().unwrap()),
    ];
    routes[1].listeners = vec![1];
    routes[2].users = ["+49", "0"].map(str::to_owned).into();
    routes[2].methods = vec!["INVITE".to_owned()];
    config.routes = routes.into();
    config
}

#[test]
fn routes_match_on_all_that_they_name() {
    let cases = [
        (PEER, 0, "INVITE", "sip:x@example.com", Ok(ONE)),
        (TWO, 0, "INVITE", "sip:x@example.com", Ok(ONE)),
        (OTHER_EDGE, 0, "INVITE", "sip:x@example.com", Ok(ONE)),
        ("198.19.0.1:9", 1, "OPTIONS", "sip:x@example.com", Ok(ONE)),
        (ALICE, 1, "MESSAGE", "sip:+49@example.com", Ok(TWO)),
        (ALICE, 0, "INVITE", "sip:+4930@example.com", Ok(THREE)),
        (ALICE, 0, "INVITE", "sip:%2B4930@example.com", Ok(THREE)),
        (ALICE, 0, "INVITE", "sip:0@example.com", Ok(THREE)),
        (ALICE, 0, "INVITE", "tel:+49-30", Ok(THREE)),
        (ALICE, 0, "MESSAGE", "sip:0@example.com", Err(405)),
        (ALICE, 0, "INVITE", "sip:+4@example.com", Err(404)),
        (ALICE, 0, "INVITE", "sip:example.com", Err(404)),
        ("198.20.0.1:9", 0, "OPTIONS", "sip:x@example.com", Err(404)),
    ];
    for (number, (from, listener, method, uri, expected)) in cases.into_iter().enumerate() {
        let mut cluster = Cluster::new(by_traits());
        let mut message = request(method, from, &number.to_string());
        message.start = format!("{method} {uri} SIP/2.0");
        let sent = cluster.pass_by(listener, &message);
        match expected {
            Ok(server) => assert_eq!(sent.to, server.parse().unwrap(), "{from} {uri}"),
            Err(status) => assert_eq!(sent.status(), status, "{from} {uri}"),
        }
    }
}

/// A stranger learns nothing of the methods that others may send.
#[test]
fn allow_tells_of_the_sender_s_own_routes_alone() {
    let mut config = by_traits();
    config.routes[0].methods = vec!["MESSAGE".to_owned()];
    let mut cluster = Cluster::new(config);
    let mut message = request("INFO", ALICE, "call");
    message.start = format!("INFO sip:0@{EDGE} SIP/2.0");
    let refused = cluster.pass(&message);
    assert_eq!(
        (refused.status(), refused.all("Allow")),
        (405, vec!["INVITE"])
    );
}

/// Calls to the pool are of users alone, by either sender.
fn of_users(state: Mode) -> Config {
    let mut config = config(&[ONE, TWO]);
    config.trust.peers = vec!["172.16.0.0/16".parse().unwrap()];
    config.registrar = Some(registrar());
    config.routes[0].auth = true;
    config.routes[0].state = state;
    config
}

const STATES: [Mode; 2] = [Mode::Stateless, Mode::Stateful];

fn world(config: Config) -> World {
    let mut world = World::new(config);
    world.add_user("alice");
    world.add_user("bob");
    world
}

/// The request again after a challenge, with the credentials of a user.
fn proven(request: &Msg, challenge: &Sent, user: &str, password: &str, nc: u32) -> Msg {
    let (method, uri) = (request.method(), request.uri());
    let shown = answer_to(
        challenge,
        "Proxy-Authenticate",
        (method, uri),
        (user, password),
        nc,
    );
    let number = 1 + nc;
    let branch = format!("{}-{number}", request.get("Call-ID"));
    let again = request.clone().again(number, &branch);
    again.set("Proxy-Authorization", shown)
}

fn to_server(sent: &[Sent]) -> &Sent {
    let mut invites = sent.iter().filter(|sent| sent.is_request());
    invites.next().unwrap()
}

/// RFC 3261 §22.3
#[test]
fn users_call_with_their_passwords() {
    for state in STATES {
        let mut world = world(of_users(state));
        let invite = request("INVITE", ALICE, "call");
        let challenge = world.pass(&invite);
        assert_eq!((challenge.status(), challenge.to), (407, invite.from));
        world.pass(&invite);
        assert_eq!(world.send(&invite.ack_of(&challenge)).len(), 0);
        assert_eq!(world.cluster.sizes(), (0, 0, 0), "nothing is held");

        let again = proven(&invite, &challenge, "alice", "secret", 1);
        let sent = world.send(&again);
        let received = to_server(&sent);
        assert!(received.all("Proxy-Authorization").is_empty());
        let retransmitted = world.send(&again);
        assert!(retransmitted.iter().all(|sent| sent.status() != 407));
        let answer = received.respond(200);
        let answered = world.pass(&answer);
        assert_eq!(answered.to, invite.from);
        let mut caller = Dialog::of_caller(&again, &answered);
        assert_eq!(world.pass(&caller.ack()).to, received.to);
        let bye = world.send(&caller.request("BYE"));
        assert_eq!(to_server(&bye).to, received.to, "{state:?}");
        assert_eq!(world.cluster.replies(407), 2);
    }
}

/// A response that is lost is asked for again by a retransmission, whose credentials are used up.
#[test]
fn a_retransmission_needs_no_other_proof() {
    let mut world = world(of_users(Mode::Stateless));
    let message = request("MESSAGE", ALICE, "text");
    let challenge = world.pass(&message);
    let again = proven(&message, &challenge, "alice", "secret", 1);
    let received = world.pass(&again);
    world.pass(&received.respond(200));
    let repeated = world.pass(&again);
    assert_eq!(
        (repeated.to, &repeated.bytes),
        (received.to, &received.bytes)
    );

    // Who copies the transaction can't say another name, nor call somebody else.
    let renamed = again
        .clone()
        .without("From")
        .with("From", again.get("From").replace("alice", "bob"));
    let mut diverted = again.clone();
    diverted.start = "MESSAGE sip:other@example.com SIP/2.0".to_owned();
    let mut invite = again.clone().set("CSeq", "2 INVITE");
    invite.start = invite.start.replace("MESSAGE", "INVITE");
    for (forged, expected) in [(&renamed, 403), (&diverted, 407), (&invite, 407)] {
        assert_eq!(world.pass(forged).status(), expected, "{forged}");
    }

    // In another transaction they are of no use, nor when the transaction is long over.
    let copied = again
        .clone()
        .set("Via", "SIP/2.0/UDP 203.0.113.66;branch=z9hG4bK-x");
    for (wait, message) in [(0, &copied), (33, &again)] {
        world.cluster.wait(s(wait));
        let replayed = world.pass(message);
        assert_eq!(replayed.status(), 407);
        assert!(replayed.all("Proxy-Authenticate").contains(&"stale=true"));
    }
}

/// A known Call-ID opens no door.
#[test]
fn a_new_transaction_of_a_known_call_is_asked_for() {
    for state in STATES {
        let mut world = world(of_users(state));
        let invite = request("INVITE", ALICE, "call");
        let challenge = world.pass(&invite);
        world.send(&proven(&invite, &challenge, "alice", "secret", 1));
        let other = invite.again(7, "other").without("Proxy-Authorization");
        assert_eq!(world.pass(&other).status(), 407, "{state:?}");
    }
}

/// The answer, without what differs each time.
fn shape(reply: &Sent) -> Vec<String> {
    let fields = reply.headers.iter().map(|(name, value)| {
        let value = value.split("nonce=").next().unwrap();
        format!("{name}: {value}")
    });
    fields.collect()
}

#[test]
fn nobody_calls_as_somebody_else() {
    for state in STATES {
        let mut world = world(of_users(state));
        let of = |from: &str, call: &str| {
            let message = request("INVITE", ALICE, call).without("From");
            message.with("From", format!("<{from}>;tag=1"))
        };
        let good = ("alice", "secret");
        for (number, (from, (user, password), expected)) in [
            ("sip:alice@example.com", good, 0),
            ("sip:%61lice@EXAMPLE.com", good, 0),
            ("sip:bob@example.com", good, 403),
            ("sip:nobody@example.com", good, 403),
            ("sip:alice@elsewhere.example", good, 403),
            ("sip:anonymous@anonymous.invalid", good, 403),
            ("tel:+4930", good, 403),
            ("sip:alice@example.com", ("alice", "guess"), 407),
            ("sip:nobody@example.com", ("nobody", "guess"), 407),
        ]
        .into_iter()
        .enumerate()
        {
            let invite = of(from, &format!("call{number}"));
            let challenge = world.pass(&invite);
            assert_eq!(challenge.status(), 407, "{from}");
            let sent = world.send(&proven(&invite, &challenge, user, password, 1));
            let is_expected = |sent: &Sent| sent.status() == expected;
            assert!(sent.iter().any(is_expected), "{from} {sent:#?}");
        }
        assert_eq!(world.cluster.event(Event::WrongCredentials), 7);
    }
}

/// A stranger who guesses names learns nothing.
#[test]
fn known_and_unknown_users_are_answered_alike() {
    let mut world = world(of_users(Mode::Stateless));
    let [known, unknown] = ["alice", "nobody"].map(|user| {
        let invite = request("INVITE", ALICE, "call");
        let invite = invite.set("From", "<sip:alice@example.com>;tag=1");
        let challenge = world.pass(&invite);
        let refused = world.pass(&proven(&invite, &challenge, user, "guess", 1));
        (shape(&challenge), shape(&refused))
    });
    assert_eq!(known, unknown);
}

#[test]
fn peers_and_servers_call_without_a_password() {
    for from in [PEER, TWO] {
        let mut world = world(of_users(Mode::Stateless));
        let sent = world.pass(&request("INVITE", from, "call"));
        assert!(sent.is_request(), "{from}");
    }
}

/// RFC 7616 §3.4.6: what was for one callee is for no other.
#[test]
fn credentials_are_good_for_the_callee_they_name() {
    for (uri, expected) in [
        ("sip:service@example.com", 0),
        ("sip:service@EXAMPLE.com", 0),
        ("sip:192.0.2.10", 0),
        ("sip:other@example.com", 407),
        ("sip:example.com", 407),
    ] {
        let mut world = world(of_users(Mode::Stateless));
        let invite = request("INVITE", ALICE, "call");
        let challenge = world.pass(&invite);
        let mut other = invite.clone();
        other.start = format!("INVITE {uri} SIP/2.0");
        let shown = proven(&other, &challenge, "alice", "secret", 1);
        let shown = shown.whole("Proxy-Authorization");
        let again = invite.again(2, "again").set("Proxy-Authorization", shown);
        assert_eq!(world.pass(&again).status(), expected, "{uri}");
    }
}

#[test]
fn a_full_table_of_callers_is_told() {
    let mut config = of_users(Mode::Stateless);
    config.limits.registrations = 1;
    let mut world = world(config);
    let invites = ["one", "two"].map(|call| request("INVITE", ALICE, call));
    let challenges = invites.each_ref().map(|invite| world.pass(invite));
    let again = |place: usize| proven(&invites[place], &challenges[place], "alice", "secret", 1);
    assert!(world.cluster.send(&again(0)).is_empty(), "it waits");
    assert!(world.cluster.send(&again(0)).is_empty(), "it still does");
    assert_eq!(world.cluster.questions.len(), 1);
    let refused = world.cluster.pass(&again(1));
    assert_eq!(refused.status(), 503);
    assert!(!refused.get("Retry-After").is_empty());
    assert_eq!(world.cluster.event(Event::CallersFull), 1);
    let silent = world.cluster.wait(s(4));
    assert_eq!(silent.len(), 1);
    assert_eq!(
        (silent[0].status(), world.cluster.event(Event::StoreFailed)),
        (503, 1)
    );
    assert_eq!(world.cluster.sizes(), (0, 0, 0));
    world.cluster.questions.clear();
    assert!(
        world
            .pass(&proven(&invites[1], &challenges[1], "alice", "secret", 2))
            .is_request()
    );
}

/// Users call users, and the store is asked for the one as for the other.
#[test]
fn a_call_to_a_user_is_of_a_user() {
    let mut config = location();
    config.routes[0].auth = true;
    let mut world = world(config);
    let mut invite = request("INVITE", ALICE, "call");
    invite.start = "INVITE sip:nobody@example.com SIP/2.0".to_owned();
    let challenge = world.pass(&invite);
    assert_eq!(challenge.status(), 407);
    let sent = world.send(&proven(&invite, &challenge, "alice", "secret", 1));
    assert_eq!(sent.last().unwrap().status(), 404);
}

/// A reload that asks for passwords proves nobody: what was let in before is asserted to nobody.
#[test]
fn a_reload_proves_nobody() {
    for state in STATES {
        let mut open = of_users(state);
        open.routes[0].auth = false;
        let mut cluster = Cluster::new(open);
        let sent = cluster.send(&request("INVITE", ALICE, "call"));
        let first = to_server(&sent).to;
        let reload = cluster.shared.reload(of_users(state), cluster.now);
        reload.unwrap();
        let sent = cluster.wait(s(2));
        let second = sent.iter().rfind(|sent| sent.to != first).unwrap();
        assert!(second.whole("P-Asserted-Identity").is_empty(), "{state:?}");
    }
}

/// The call that a request names may be another worker's, who is asked once the sender is proven.
#[test]
fn who_replaces_a_call_of_another_worker_proves_it_once() {
    let mut world = world(of_users(Mode::Stateless));
    world.cluster = Cluster::with_workers(of_users(Mode::Stateless), 4);
    for number in 0..12 {
        let other = format!("other{number}");
        let named = world
            .cluster
            .establish_with(&request("INVITE", PEER, &other));
        let invite = request("INVITE", ALICE, &format!("call{number}"))
            .with("Replaces", format!("{other}@test;to-tag=1;from-tag=2"));
        let challenge = world.cluster.pass(&invite);
        assert_eq!(challenge.status(), 407);
        let again = proven(&invite, &challenge, "alice", "secret", 1);
        assert!(world.cluster.send(&again).is_empty());
        let ask = world.cluster.questions.last().unwrap().ask.clone();
        let answer = world.ask(ask);
        let call_id = again.get("Call-ID").as_bytes();
        let owner = world.cluster.nodes[0].owner(call_id);
        let sent = world.cluster.answer_to(owner, answer);
        assert_eq!((sent.len(), sent[0].to), (1, named.server));
        assert!(!sent[0].whole("P-Asserted-Identity").is_empty());
        assert!(world.cluster.questions.is_empty());
    }
}

const IDENTITIES: [&str; 3] = [
    "P-Asserted-Identity",
    "P-Preferred-Identity",
    "Remote-Party-ID",
];

/// A message that asserts who sent it, as loudly as it can.
fn asserting(message: Msg) -> Msg {
    message
        .with("P-Asserted-Identity", "\"CEO\" <sip:ceo@example.com>")
        .with("p-asserted-identity", "<tel:+4930>")
        .with("P-Preferred-Identity", "<sip:ceo@example.com>")
        .with("Remote-Party-ID", "<sip:ceo@example.com>;party=calling")
        .with("X-Other", "stays")
}

fn asserts(message: &Msg) -> usize {
    let is_there = |name: &&&str| !message.whole(name).is_empty();
    let lower = usize::from(!message.whole("p-asserted-identity").is_empty());
    assert_eq!(message.whole("X-Other"), "stays");
    IDENTITIES.iter().filter(is_there).count() + lower
}

/// RFC 3325 §5
#[test]
fn only_who_is_believed_asserts_identities() {
    for state in STATES {
        for (from, expected) in [(ALICE, 0), (PEER, 4), (TWO, 4)] {
            let mut config = of_users(state);
            config.routes[0].auth = false;
            let mut cluster = Cluster::new(config);
            let sent = cluster.send(&asserting(request("INVITE", from, "call")));
            let received = to_server(&sent);
            assert_eq!(asserts(received), expected, "{from} {state:?}");
            let back = cluster.pass(&asserting(received.respond(200)));
            assert_eq!(asserts(&back), 4, "a server is believed");
            if from == TWO {
                continue;
            }

            // The same in the dialog, from the server outwards, and back from there.
            let invite = request("INVITE", from, "call");
            let mut callee = Dialog::of_callee(received, &received.respond(200));
            let sent = cluster.send(&asserting(callee.request("INFO")));
            let info = to_server(&sent);
            assert_eq!((info.to, asserts(info)), (invite.from, 4));
            let answer = asserting(info.respond(200));
            assert_eq!(asserts(&cluster.pass(&answer)), expected);
            let mut caller = Dialog::of_caller(&invite, &back);
            let sent = cluster.send(&asserting(caller.request("INFO")));
            assert_eq!(asserts(to_server(&sent)), expected);
        }
    }
}

/// RFC 3325 §7: strangers are not told what is to be kept private.
#[test]
fn private_identities_stay_inside() {
    for (privacy, to, expected) in [
        ("id", ALICE, 0),
        ("header; ID", ALICE, 0),
        ("none", ALICE, 4),
        ("header", ALICE, 4),
        ("id", PEER, 4),
    ] {
        let mut config = of_users(Mode::Stateless);
        config.routes[0].auth = false;
        let mut cluster = Cluster::new(config);
        let mut invite = request("INVITE", ONE, "out");
        invite.start = format!("INVITE sip:x@{to} SIP/2.0");
        let invite = asserting(invite).with("Privacy", privacy);
        assert_eq!(asserts(&cluster.pass(&invite)), expected, "{privacy} {to}");

        let received = cluster.pass(&request("INVITE", to, "in"));
        let answer = asserting(received.respond(180)).with("Privacy", privacy);
        assert_eq!(asserts(&cluster.pass(&answer)), expected, "{privacy} {to}");
    }
}

/// RFC 3325 §5: servers are told who has proven to be whom, and nobody else is.
#[test]
fn proven_users_are_asserted_to_servers() {
    for state in STATES {
        let mut world = world(of_users(state));
        let invite = asserting(request("INVITE", ALICE, "call"));
        let challenge = world.pass(&invite);
        let again = proven(&invite, &challenge, "alice", "secret", 1).with(
            "Proxy-Authorization",
            "Digest realm=\"another\", username=\"a\"",
        );
        let sent = world.send(&again);
        let first = to_server(&sent);
        // Its server is silent, so it goes to the other, in the same words.
        let sent = world.cluster.wait(s(2));
        let second = sent.iter().rfind(|sent| sent.to != first.to).unwrap();
        for received in [first, second] {
            assert_eq!(
                received.all("P-Asserted-Identity"),
                ["<sip:alice@example.com>"]
            );
            assert!(received.whole("Remote-Party-ID").is_empty());
            let shown = received.whole("Proxy-Authorization");
            assert!(shown.contains("another"), "what others are shown stays");
        }
    }
}

#[test]
fn a_user_s_phone_is_not_told_who_was_proven() {
    let mut config = location();
    config.routes[0].auth = true;
    let mut world = world(config);
    let mut invite = request("INVITE", ALICE, "call");
    invite.start = "INVITE sip:bob@example.com SIP/2.0".to_owned();
    world.bind("<sip:bob@198.51.100.1:5060>");
    let challenge = world.pass(&invite);
    let sent = world.send(&proven(&invite, &challenge, "alice", "secret", 1));
    let received = to_server(&sent);
    assert_eq!(received.to.to_string(), "198.51.100.1:5060");
    assert!(received.whole("P-Asserted-Identity").is_empty());
    assert!(received.whole("Proxy-Authorization").is_empty());
}

/// The route's own changes.
fn editing(state: Mode) -> Config {
    let mut config = of_users(state);
    let route = &mut config.routes[0];
    route.auth = false;
    route.remove = vec!["X-Internal".to_owned(), "Subject".to_owned()];
    route.add = vec![
        ("X-Edge".to_owned(), "one".to_owned()),
        ("X-Internal".to_owned(), "ours".to_owned()),
    ];
    config
}

#[test]
fn a_route_removes_and_adds_headers() {
    for state in STATES {
        let mut cluster = Cluster::new(editing(state));
        let invite = request("INVITE", ALICE, "call")
            .with("x-internal", "forged")
            .with("Subject", "none")
            .with("X-Internal", "forged")
            .with("X-Edges", "stays");
        let sent = cluster.send(&invite);
        let first = to_server(&sent).clone();
        // Its server is silent, so it goes to the other.
        let sent = cluster.wait(s(2));
        let second = sent.iter().rfind(|sent| sent.to != first.to).unwrap();
        for received in [&first, second] {
            let edited = ["x-internal", "Subject", "X-Internal", "X-Edges", "X-Edge"];
            let edited = edited.map(|name| received.all(name));
            let expected: [&[&str]; 5] = [&[], &[], &["ours"], &["stays"], &["one"]];
            assert_eq!(edited, expected, "{state:?}");
        }

        // A dialog's requests go on as they are, and so do a server's outwards.
        let answer = second.respond(200);
        let answered = cluster.send(&answer).pop().unwrap();
        let mut caller = Dialog::of_caller(&invite, &answered);
        let sent = cluster.send(&caller.request("INFO").with("Subject", "s"));
        assert_eq!(to_server(&sent).all("Subject"), ["s"]);
        let mut outward = request("INVITE", ONE, "outward");
        outward.start = format!("INVITE sip:x@{ALICE} SIP/2.0");
        let sent = cluster.send(&outward.with("Subject", "s"));
        assert_eq!(to_server(&sent).all("Subject"), ["s"]);
        assert!(to_server(&sent).all("X-Edge").is_empty());
    }
}

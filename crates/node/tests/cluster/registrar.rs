//! REGISTER, and calls to those who did: RFC 3261 §10.3, RFC 3327, RFC 3608, RFC 7616.

use std::{collections::BTreeMap, fmt::Write as _};

use location::{Aor, Subscriber};
use node::{
    Answer, Ask, Config, Record,
    config::{Destination, Mode},
    stats::Event,
};
use proptest::prelude::*;
use sha2::{Digest, Sha256};
use sip::digest::{Algorithm, Ha1};

use crate::{
    harness::{ALICE, Cluster, EDGE, ONE, Sent, location, ms, route, s},
    message::{Dialog, Msg, request, uri_of},
};

const PHONE: &str = "198.51.100.1:5060";
const DESK: &str = "198.51.100.2:5060";

/// A node and the store that it asks, which answers at once.
struct World {
    cluster: Cluster,
    store: BTreeMap<Box<[u8]>, Record>,
    fails: bool,
}

/// Anybody may register.
fn open() -> Config {
    let mut config = location();
    config.registrar.as_mut().unwrap().algorithms.clear();
    config
}

impl World {
    fn new(config: Config) -> Self {
        Self {
            cluster: Cluster::new(config),
            store: BTreeMap::new(),
            fails: false,
        }
    }

    /// A user with the password "secret".
    fn add_user(&mut self, user: &str) {
        let aor = Aor::new(user, "example.com").unwrap();
        let hash = Ha1::new(
            Algorithm::Sha256,
            user.as_bytes(),
            b"example.com",
            b"secret",
        );
        let Ha1::Sha256(hash) = hash else { panic!() };
        let key = Subscriber::key_of(&aor).into();
        let subscriber = Subscriber {
            aor,
            ha1_md5: None,
            ha1_sha256: Some(hash),
        };
        let record = Record {
            value: subscriber.write().into(),
            expires: None,
        };
        self.store.insert(key, record);
    }

    /// Lets the node receive a message and ask all it wants to; returns what it sends.
    fn send(&mut self, message: &Msg) -> Vec<Sent> {
        let mut sent = self.cluster.send(message);
        while let Some(question) = self.cluster.questions.last() {
            let answer = match self.fails {
                true => Answer::Failed,
                false => self.ask(question.ask.clone()),
            };
            sent.extend(self.cluster.answer(answer));
        }
        sent
    }

    fn ask(&mut self, ask: Ask) -> Answer {
        match ask {
            Ask::Locate { .. } => Answer::Located(Vec::new()),
            Ask::Read { key } => Answer::Record(self.store.get(&key).cloned()),
            Ask::Change { key, seen, next } => {
                if self.store.get(&key) != seen.as_ref() {
                    return Answer::Record(self.store.get(&key).cloned());
                }
                match next {
                    Some(next) => self.store.insert(key, next),
                    None => self.store.remove(&key),
                };
                Answer::Changed
            }
        }
    }

    /// The same when one message is to be sent.
    fn pass(&mut self, message: &Msg) -> Sent {
        let mut sent = self.send(message);
        assert_eq!(sent.len(), 1, "{message}\n{sent:#?}");
        sent.remove(0)
    }

    /// The status that a message gets, and the contacts in the answer.
    fn contacts(&mut self, message: &Msg) -> (u16, Vec<String>) {
        let reply = self.pass(message);
        let contacts = reply.all("Contact").iter().map(|&c| c.to_owned()).collect();
        (reply.status(), contacts)
    }
}

/// A phone that registers as `sip:bob@example.com`.
fn register(cseq: u32, contact: &str) -> Msg {
    let register = of(request("REGISTER", PHONE, "bob"), "bob", cseq);
    match contact {
        "" => register,
        contact => register.with("Contact", contact),
    }
}

fn of(message: Msg, user: &str, cseq: u32) -> Msg {
    let mut message = message
        .without("Contact")
        .set("To", format!("<sip:{user}@example.com>"))
        .set("CSeq", format!("{cseq} REGISTER"))
        .set(
            "Via",
            format!("SIP/2.0/UDP {PHONE};rport;branch=z9hG4bK-{user}-{cseq}"),
        );
    message.start = "REGISTER sip:example.com SIP/2.0".to_owned();
    message
}

fn hex(text: &str) -> String {
    Sha256::digest(text)
        .iter()
        .fold(String::new(), |mut hex, byte| {
            write!(hex, "{byte:02x}").unwrap();
            hex
        })
}

/// What a user agent makes of a challenge.
fn credentials(challenge: &Sent, user: &str, password: &str, nc: u32) -> String {
    let field = challenge.all("WWW-Authenticate");
    let nonce = field.iter().find_map(|part| part.strip_prefix("nonce=\""));
    let nonce = nonce.unwrap().trim_end_matches('"');
    let a1 = hex(&format!("{user}:example.com:{password}"));
    let a2 = hex("REGISTER:sip:example.com");
    let response = hex(&format!("{a1}:{nonce}:{nc:08x}:c:auth:{a2}"));
    format!(
        "Digest username=\"{user}\", realm=\"example.com\", nonce=\"{nonce}\", \
         uri=\"sip:example.com\", algorithm=SHA-256, qop=auth, nc={nc:08x}, cnonce=\"c\", \
         response=\"{response}\""
    )
}

/// RFC 3261 §10.3 steps 6 to 8
#[test]
fn bindings_are_made_refreshed_and_removed() {
    let mut world = World::new(open());
    let one = "<sip:bob@198.51.100.1>";
    let steps: [(Msg, &[&str]); 9] = [
        (register(1, ""), &[]),
        (register(2, one), &["<sip:bob@198.51.100.1>;expires=3600"]),
        (
            register(3, "<sip:bob@198.51.100.2>;expires=60;q=0.25").with("Expires", 100),
            &[
                "<sip:bob@198.51.100.1>;expires=3600",
                "<sip:bob@198.51.100.2>;expires=60;q=0.25",
            ],
        ),
        (
            register(
                4,
                "sip:BOB@198.51.100.3, sip:%62ob@198.51.100.1;expires=100000",
            ),
            &[
                "<sip:%62ob@198.51.100.1>;expires=7200",
                "<sip:bob@198.51.100.2>;expires=60;q=0.25",
                "<sip:BOB@198.51.100.3>;expires=3600",
            ],
        ),
        (
            register(5, "<sip:bob@198.51.100.2>;expires=malformed"),
            &[
                "<sip:%62ob@198.51.100.1>;expires=7200",
                "<sip:bob@198.51.100.2>;expires=3600",
                "<sip:BOB@198.51.100.3>;expires=3600",
            ],
        ),
        (
            register(
                6,
                "<sip:bob@198.51.100.1>;expires=0, <sip:nobody@198.51.100.9>;expires=0",
            ),
            &[
                "<sip:bob@198.51.100.2>;expires=3600",
                "<sip:BOB@198.51.100.3>;expires=3600",
            ],
        ),
        (
            register(7, one).with("Expires", 0),
            &[
                "<sip:bob@198.51.100.2>;expires=3600",
                "<sip:BOB@198.51.100.3>;expires=3600",
            ],
        ),
        (register(8, "*").with("Expires", 0), &[]),
        (register(9, ""), &[]),
    ];
    for (message, expected) in steps {
        let (status, contacts) = world.contacts(&message);
        assert_eq!(
            (status, contacts),
            (200, expected.iter().map(|&c| c.to_owned()).collect())
        );
        // RFC 3261 §8.2.7: a retransmission changes nothing and has the same answer.
        assert_eq!(world.contacts(&message).1, expected);
    }
    assert!(world.store.is_empty());
    assert_eq!(world.cluster.sizes().2, 0);
    assert_eq!(world.cluster.event(Event::Bound), 5);
    assert_eq!(world.cluster.event(Event::Unbound), 3);
}

#[test]
fn bindings_end() {
    let mut world = World::new(open());
    world.pass(&register(1, "<sip:bob@198.51.100.1>;expires=60"));
    world.pass(&register(2, "<sip:bob@198.51.100.2>;expires=90"));
    world.cluster.wait(s(30));
    let (_, contacts) = world.contacts(&register(3, ""));
    assert_eq!(
        contacts,
        [
            "<sip:bob@198.51.100.1>;expires=30",
            "<sip:bob@198.51.100.2>;expires=60"
        ]
    );
    world.cluster.wait(s(30));
    let (_, contacts) = world.contacts(&register(4, ""));
    assert_eq!(contacts, ["<sip:bob@198.51.100.2>;expires=30"]);
    world.cluster.wait(s(31));
    assert_eq!(world.contacts(&register(5, "")).1, [""; 0]);
    let invite = request("INVITE", ALICE, "call").set("To", "<sip:bob@example.com>");
    let call = Msg {
        start: "INVITE sip:bob@example.com SIP/2.0".to_owned(),
        ..invite
    };
    assert_eq!(world.pass(&call).status(), 480);
}

/// RFC 3261 §10.3 step 7: a request that is overtaken changes nothing at all.
#[test]
fn requests_out_of_order_are_refused_whole() {
    let mut world = World::new(open());
    let (one, two) = ("<sip:bob@198.51.100.1>", "<sip:bob@198.51.100.2>");
    world.pass(&register(5, one));
    for late in [
        register(4, &format!("{two}, {one};expires=0")),
        register(4, "*").with("Expires", 0),
    ] {
        assert_eq!(world.pass(&late).status(), 500);
    }
    // A phone that has started anew has another Call-ID.
    let restarted = register(1, &format!("{one};expires=100")).set("Call-ID", "after");
    let expected = ["<sip:bob@198.51.100.1>;expires=100".to_owned()];
    assert_eq!(world.contacts(&restarted), (200, expected.into()));
}

#[test]
fn what_is_wrong_with_a_register_is_told() {
    let phone = "<sip:bob@198.51.100.1>";
    let good = || register(1, phone);
    let to = |uri: &str| good().set("To", format!("<{uri}>;tag-less"));
    let at = |uri: &str| Msg {
        start: format!("REGISTER {uri} SIP/2.0"),
        ..good()
    };
    let cases: [(Msg, u16, (&str, &str)); 22] = [
        (at("sip:example.org"), 404, ("", "")),
        (at(&format!("sip:{EDGE}")), 200, ("", "")),
        (to("sip:bob@example.org"), 404, ("", "")),
        (to("sip:example.com"), 404, ("", "")),
        (to("tel:+4930123456"), 404, ("", "")),
        (to("sips:bob@EXAMPLE.com:5061"), 200, ("", "")),
        (register(1, "*"), 400, ("", "")),
        (register(1, "*").with("Expires", 60), 400, ("", "")),
        (
            register(1, &format!("*, {phone}")).with("Expires", 0),
            400,
            ("", ""),
        ),
        (register(1, "*;q=1").with("Expires", 0), 400, ("", "")),
        (register(1, "<sip:bob@198.51.100.1"), 400, ("", "")),
        (register(1, "<no uri>"), 400, ("", "")),
        (register(1, &format!("{phone};q=2")), 400, ("", "")),
        (
            register(1, &format!("{phone};expires=59")),
            423,
            ("Min-Expires", "60"),
        ),
        (good().with("Expires", 1), 423, ("Min-Expires", "60")),
        (
            good().with("Require", "gruu, path"),
            420,
            ("Unsupported", "gruu"),
        ),
        (
            good().with("Require", "outbound"),
            420,
            ("Unsupported", "outbound"),
        ),
        (good().with("Supported", "gruu, outbound"), 200, ("", "")),
        (
            good().with("Path", "<sip:192.0.2.1;lr>"),
            420,
            ("Unsupported", "path"),
        ),
        (
            good().with("Supported", "path").with("Path", "<sip:"),
            400,
            ("", ""),
        ),
        (
            good()
                .with("Supported", "a, PATH")
                .with("Path", "<sip:192.0.2.1;lr>"),
            200,
            ("Path", "<sip:192.0.2.1;lr>"),
        ),
        (good().set("Call-ID", "\u{e9}"), 200, ("", "")),
    ];
    for (message, status, (name, value)) in cases {
        let mut world = World::new(open());
        let reply = world.pass(&message);
        assert_eq!(reply.status(), status, "{message}");
        if !name.is_empty() {
            assert_eq!(reply.get(name), value, "{message}");
        }
        assert_eq!(world.store.len(), usize::from(status == 200), "{message}");
    }
}

#[test]
fn a_user_has_so_many_contacts() {
    let mut world = World::new(open());
    for number in 1..=3 {
        let contact = format!("<sip:bob@198.51.100.{number}>");
        assert_eq!(world.pass(&register(number, &contact)).status(), 200);
    }
    let fourth = world.pass(&register(4, "<sip:bob@198.51.100.4>"));
    assert_eq!(fourth.status(), 403);
    assert_eq!(world.cluster.event(Event::ContactsFull), 1);
    let moved = register(
        5,
        "<sip:bob@198.51.100.1>;expires=0, <sip:bob@198.51.100.4>",
    );
    assert_eq!(world.contacts(&moved).1.len(), 3);
}

/// RFC 3608 §6.3
#[test]
fn users_are_told_their_service_route() {
    let mut config = open();
    let route = vec![
        "sip:a.example.com;lr".to_owned(),
        "sip:b.example.com;lr".to_owned(),
    ];
    config.registrar.as_mut().unwrap().service_route = route;
    let reply = World::new(config).pass(&register(1, "<sip:bob@198.51.100.1>"));
    assert_eq!(
        reply.all("Service-Route"),
        ["<sip:a.example.com;lr>", "<sip:b.example.com;lr>"]
    );
}

/// RFC 3261 §22, RFC 7616, RFC 8760 §2.3
#[test]
fn who_knows_the_password_may_register() {
    let mut world = World::new(location());
    world.add_user("bob");
    let contact = "<sip:bob@198.51.100.1>";
    let challenge = world.pass(&register(1, contact));
    assert_eq!(challenge.status(), 401);
    let algorithms = challenge.all("WWW-Authenticate").into_iter();
    let algorithms: Vec<_> = algorithms
        .filter(|part| part.starts_with("algorithm"))
        .collect();
    assert_eq!(algorithms, ["algorithm=SHA-256", "algorithm=MD5"]);

    let with = |cseq, user: &str, password: &str, nc| {
        let shown = credentials(&challenge, user, password, nc);
        register(cseq, contact).with("Authorization", shown)
    };
    let good = with(2, "bob", "secret", 1);
    assert_eq!(world.pass(&good).status(), 200);
    assert_eq!(world.pass(&good).status(), 200, "a retransmission");
    assert_eq!(world.pass(&with(3, "bob", "secret", 2)).status(), 200);

    // Whoever hears them can't use them again, and is told nothing of who exists.
    let replayed = world.pass(&with(4, "bob", "secret", 2));
    assert_eq!(replayed.status(), 401);
    assert!(replayed.get("WWW-Authenticate").starts_with("Digest"));
    assert!(replayed.all("WWW-Authenticate").contains(&"stale=true"));
    for (user, password) in [("bob", "guess"), ("nobody", "secret")] {
        let wrong = world.pass(&with(5, user, password, 3));
        assert_eq!(wrong.status(), 401);
        assert!(!wrong.all("WWW-Authenticate").contains(&"stale=true"));
    }
    assert_eq!(world.cluster.event(Event::WrongCredentials), 2);
    let of_another_call = with(6, "bob", "secret", 4).set("Call-ID", "another");
    let stale = world.pass(&of_another_call);
    assert!(stale.all("WWW-Authenticate").contains(&"stale=true"));
    world.cluster.wait(s(601));
    let stale = world.pass(&with(7, "bob", "secret", 4));
    assert!(stale.all("WWW-Authenticate").contains(&"stale=true"));
}

/// RFC 3261 §10.3 step 4
#[test]
fn nobody_registers_somebody_else() {
    let mut world = World::new(location());
    world.add_user("bob");
    world.add_user("carol");
    let challenge = world.pass(&register(1, "<sip:bob@198.51.100.1>"));
    let shown = credentials(&challenge, "carol", "secret", 1);
    let forged = register(2, "<sip:mallory@203.0.113.66>").with("Authorization", shown);
    assert_eq!(world.pass(&forged).status(), 403);
    assert_eq!(world.store.len(), 2, "no bindings");
}

/// Another node with the secret takes the nonce; one with another secret does not.
#[test]
fn nonces_are_good_on_every_node() {
    for (secret, expected) in [(None, 200), (Some(vec![7; 32]), 401)] {
        let mut one = World::new(location());
        let mut config = location();
        if let Some(secret) = secret {
            config.secret = secret.into();
        }
        let mut other = World::new(config);
        other.add_user("bob");
        let challenge = one.pass(&register(1, "<sip:bob@198.51.100.1>"));
        let shown = credentials(&challenge, "bob", "secret", 1);
        let again = register(2, "<sip:bob@198.51.100.1>").with("Authorization", shown);
        assert_eq!(other.pass(&again).status(), expected);
    }
}

#[test]
fn a_store_that_fails_costs_a_503() {
    let mut world = World::new(open());
    world.fails = true;
    let refused = world.pass(&register(1, "<sip:bob@198.51.100.1>"));
    assert_eq!(refused.status(), 503);
    let wait: u32 = refused.get("Retry-After").parse().unwrap();
    assert!((5..=15).contains(&wait));
    assert_eq!(world.cluster.event(Event::StoreFailed), 1);
    assert_eq!(world.pass(&register(2, "")).status(), 503);
    world.fails = false;
    assert_eq!(world.pass(&register(3, "")).status(), 200);
}

#[test]
fn a_store_that_hangs_costs_a_503_and_no_memory() {
    let mut config = open();
    config.limits.registrations = 2;
    let mut cluster = Cluster::new(config);
    let phone = |number: u32| {
        let user = format!("user{number}");
        of(request("REGISTER", PHONE, &user), &user, 1).with("Contact", "<sip:a@198.51.100.1>")
    };
    for number in 1..=2 {
        assert!(cluster.send(&phone(number)).is_empty());
        assert!(cluster.send(&phone(number)).is_empty(), "it waits already");
    }
    assert_eq!(cluster.pass(&phone(3)).status(), 503);
    assert_eq!(cluster.event(Event::RegistrationsFull), 1);
    assert_eq!(cluster.sizes().2, 2, "a node that stops waits for them");
    let refused = cluster.wait(ms(3_100));
    assert_eq!(refused.len(), 2);
    assert!(refused.iter().all(|refused| refused.status() == 503));
    assert_eq!(cluster.sizes().2, 0);
    assert!(cluster.answer(Answer::Record(None)).is_empty(), "too late");
    assert!(cluster.send(&phone(4)).is_empty(), "there is room again");
}

/// Two nodes change the same record: neither loses what the other did.
#[test]
fn changes_that_meet_are_both_made() {
    let mut world = World::new(open());
    let mut sent = world.cluster.send(&register(2, "<sip:bob@198.51.100.1>"));
    // The store is read, and changed by another before it is written.
    let read = Answer::Record(None);
    sent.extend(world.cluster.answer(read));
    let pending = world.cluster.questions.pop().unwrap();
    let other = register(1, "<sip:bob@198.51.100.2>").set("Call-ID", "other");
    assert_eq!(world.pass(&other).status(), 200);
    world.cluster.questions.push(pending);
    let both = world.send(&register(2, "<sip:bob@198.51.100.1>"));
    assert!(sent.is_empty());
    let contacts = both[0].all("Contact");
    assert_eq!(contacts.len(), 2, "{both:#?}");
}

/// RFC 3327 §5.3 and §5.4: calls go along the Path, and in-dialog requests along the route set.
#[test]
fn calls_go_along_the_path() {
    let mut world = World::new(open());
    let path = "<sip:192.0.2.77:5070;lr>,<sip:192.0.2.78;lr>";
    let register = register(1, "<sip:bob@10.0.0.9:5062>;q=0.5")
        .with("Supported", "path")
        .with("Path", path);
    assert_eq!(world.pass(&register).all("Path").join(","), path);
    let mut invite = request("INVITE", ALICE, "call");
    invite.start = "INVITE sip:bob@example.com SIP/2.0".to_owned();
    let sent = world.pass(&invite);
    assert_eq!(sent.to.to_string(), "192.0.2.77:5070");
    assert_eq!(sent.uri(), "sip:bob@10.0.0.9:5062");
    assert_eq!(sent.all("Route").join(","), path);

    // The first proxy of the path stays in the dialog, and so is asked for by the route set.
    let recorded = Msg::new(sent.to, "SIP/2.0 200 OK".to_owned());
    let mut answer = sent.respond(200);
    let routes: Vec<String> = answer
        .all("Record-Route")
        .iter()
        .map(|&r| r.to_owned())
        .collect();
    answer = answer
        .without("Record-Route")
        .with("Record-Route", "<sip:192.0.2.77:5070;lr>");
    answer = routes
        .iter()
        .fold(answer, |answer, route| answer.with("Record-Route", route));
    assert_eq!(recorded.from, answer.from);
    let back = world.pass(&answer);
    let mut caller = Dialog::of_caller(&invite, &back);
    let ack = world.pass(&caller.ack());
    assert_eq!(ack.to.to_string(), "192.0.2.77:5070");
    assert_eq!(ack.all("Route"), ["<sip:192.0.2.77:5070;lr>"]);
    let bye = world.pass(&caller.request("BYE"));
    assert_eq!(bye.to.to_string(), "192.0.2.77:5070");
}

/// A pool's server calls a user; a user calls a service of the pool.
#[test]
fn servers_and_users_call_each_other() {
    let mut config = open();
    config.routes = vec![
        route(&[], &["app.example.com"], "app"),
        config.routes[0].clone(),
    ];
    let mut world = World::new(config);
    world.pass(&register(1, &format!("<sip:bob@{PHONE}>")));
    let mut invite = request("INVITE", ONE, "out");
    invite.start = "INVITE sip:bob@example.com SIP/2.0".to_owned();
    let sent = world.pass(&invite);
    assert_eq!(sent.to.to_string(), PHONE);
    let back = world.pass(&sent.respond(200));
    assert_eq!(back.to.to_string(), ONE);
    let mut caller = Dialog::of_caller(&invite, &back);
    assert_eq!(world.pass(&caller.ack()).to.to_string(), PHONE);
    assert_eq!(world.pass(&caller.request("BYE")).to.to_string(), PHONE);

    let mut to_address = request("INVITE", ONE, "outward");
    to_address.start = format!("INVITE sip:x@{DESK} SIP/2.0");
    assert_eq!(world.pass(&to_address).to.to_string(), DESK);
    let mut to_service = request("INVITE", PHONE, "in");
    to_service.start = "INVITE sip:service@app.example.com SIP/2.0".to_owned();
    assert_eq!(world.pass(&to_service).to.to_string(), ONE);
}

#[test]
fn a_register_may_go_elsewhere() {
    let mut config = open();
    let mut elsewhere = route(&["REGISTER"], &[], "app");
    elsewhere.state = Mode::Stateless;
    config.routes.insert(0, elsewhere);
    assert_eq!(config.routes[1].to, Destination::Registrar);
    let mut world = World::new(config);
    let sent = world.pass(&register(1, "<sip:bob@198.51.100.1>"));
    assert_eq!(
        (sent.to.to_string().as_str(), sent.method()),
        (ONE, "REGISTER")
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever users register, refresh and remove, and however the store fails meanwhile: each
    /// sees what was acknowledged last, and calls go there and nowhere else.
    #[test]
    fn what_is_acknowledged_is_found(
        steps in prop::collection::vec((0..2_usize, 0..4_u8, any::<bool>(), 0..8_u8), 1..40),
    ) {
        let mut world = World::new(open());
        let mut model: [BTreeMap<u8, ()>; 2] = Default::default();
        for (number, (user, contact, removes, luck)) in steps.into_iter().enumerate() {
            let name = ["bob", "carol"][user];
            let expires = if removes { 0 } else { 3600 };
            let field = format!("<sip:{name}@198.51.100.{contact}>;expires={expires}");
            let message = of(request("REGISTER", PHONE, name), name, number as u32 + 1)
                .with("Contact", field);
            world.fails = luck == 0;
            let reply = world.pass(&message);
            world.fails = false;
            if reply.status() == 200 {
                match removes {
                    true => model[user].remove(&contact),
                    false => model[user].insert(contact, ()),
                };
                let found: Vec<_> = reply.all("Contact").iter().map(|c| uri_of(c).to_owned()).collect();
                let mut found: Vec<u8> = found.iter().map(|c| c[c.len() - 1..].parse().unwrap()).collect();
                found.sort_unstable();
                let expected: Vec<u8> = model[user].keys().copied().collect();
                prop_assert_eq!(found, expected);
            } else {
                let expected = if model[user].len() == 3 && luck != 0 { 403 } else { 503 };
                prop_assert_eq!(reply.status(), expected);
            }
            let mut message = request("MESSAGE", ALICE, &format!("call{number}"));
            message.start = format!("MESSAGE sip:{name}@example.com SIP/2.0");
            let sent = world.send(&message);
            let mut went: Vec<_> = sent.iter().filter(|sent| sent.is_request()).map(|sent| sent.uri().to_owned()).collect();
            went.sort_unstable();
            let expected: Vec<_> = model[user].keys().map(|c| format!("sip:{name}@198.51.100.{c}")).collect();
            prop_assert_eq!(went, expected);
        }
    }
}

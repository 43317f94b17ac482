//! Who may register: RFC 7616.

use super::*;

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

/// The nonce count of a later REGISTER, and its contact.
type Later<'a> = (u32, &'a str);

/// Bob registers at one node; whoever heard it sends it with another contact to another node, or to the
/// same after a restart.
fn replayed(first: &str, then: &[Later<'_>], replay: &str) -> (u16, Vec<String>) {
    let mut world = World::new(location());
    world.add_user("bob");
    let challenge = world.pass(&register(1, ""));
    let with = |cseq, contact: &str, nc| {
        let shown = credentials(&challenge, "bob", "secret", nc);
        register(cseq, contact).with("Authorization", shown)
    };
    world.pass(&with(2, first, 1));
    for &(nc, contact) in then {
        assert_eq!(world.pass(&with(2 + nc, contact, nc)).status(), 200);
    }
    world.cluster.restart(location());
    let reply = world.pass(&with(90, replay, 1));
    if reply.status() == 401 {
        assert!(reply.all("WWW-Authenticate").contains(&"stale=true"));
    }
    world.cluster.restart(location());
    let challenge = world.pass(&register(91, ""));
    let shown = credentials(&challenge, "bob", "secret", 1);
    let honest = world.pass(&register(92, "").with("Authorization", shown));
    let contacts = honest.all("Contact").into_iter();
    let contacts = contacts.map(|contact| uri_of(contact).to_owned());
    (reply.status(), contacts.collect())
}

/// A REGISTER replayed at another node, or after a restart, with another Contact, was granted: each node
/// remembered for itself which credentials it had seen. RFC 7616 §5.4
#[test]
fn credentials_are_good_once_in_the_whole_cluster() {
    let phone = "<sip:bob@198.51.100.1>";
    let gone = "<sip:bob@198.51.100.1>;expires=0";
    let mallory = "<sip:mallory@203.0.113.66>";
    let many = format!("{phone},<sip:a@198.51.100.1>,<sip:b@198.51.100.1>,<sip:c@198.51.100.1>");
    let bound = ["sip:bob@198.51.100.1"];
    let cases: [(&str, &[Later<'_>], &[&str]); 6] = [
        (phone, &[], &bound),
        (phone, &[(2, phone), (7, phone)], &bound),
        // Those that bind nothing, that unbind, and that are refused, are used up, too.
        ("", &[], &[]),
        (phone, &[(2, gone)], &[]),
        (&many, &[], &[]),
        (phone, &[(2, "")], &bound),
    ];
    for (first, then, expected) in cases {
        for replay in [mallory, &format!("{gone},{mallory}")] {
            let (status, contacts) = replayed(first, then, replay);
            assert_eq!(status, 401, "{first} {then:?} {replay}");
            assert_eq!(contacts, expected, "{first} {then:?} {replay}");
        }
    }
    // What comes late and changes nothing has the answer that was lost.
    let (status, contacts) = replayed(phone, &[], "");
    assert_eq!((status, contacts.len()), (200, 1));
}

/// Each phone of a user has its own nonce.
#[test]
fn the_phones_of_a_user_do_not_lock_each_other_out() {
    let mut world = World::new(location());
    world.add_user("bob");
    let of_phone = |phone: u32, cseq| {
        let contact = format!("<sip:bob@198.51.100.{phone}>");
        register(10 * cseq + phone, &contact).set("Call-ID", format!("phone{phone}"))
    };
    let challenges = [1, 2, 3].map(|phone| world.pass(&of_phone(phone, 1)));
    for nc in 1..=4 {
        for (phone, challenge) in (1..).zip(&challenges) {
            let shown = credentials(challenge, "bob", "secret", nc);
            let message = of_phone(phone, nc + 1).with("Authorization", shown);
            assert_eq!(world.pass(&message).status(), 200, "phone {phone}, {nc}");
        }
        world.cluster.restart(location());
    }
}

/// Nonces that are no good any more are not kept, nor is the record of a user who has nothing else.
#[test]
fn used_nonces_end() {
    let mut world = World::new(location());
    world.add_user("bob");
    let aor = Aor::new("bob", "example.com").unwrap();
    let mut length = 0;
    for round in 0..5 {
        let challenge = world.pass(&register(10 * round + 1, ""));
        let shown = credentials(&challenge, "bob", "secret", 1);
        let message = register(10 * round + 2, "<sip:bob@198.51.100.1>;expires=60");
        assert_eq!(
            world.pass(&message.with("Authorization", shown)).status(),
            200
        );
        let record = &world.store[aor.key()];
        assert!(length == 0 || record.value.len() == length);
        length = record.value.len();
        let known = Location::read(&record.value).unwrap().nonces.known;
        let ends = u64::from(known[0].issued_s) + 600;
        assert_eq!((known.len(), record.expires), (1, Some(s(ends))));
        world.cluster.wait(s(601));
    }
}

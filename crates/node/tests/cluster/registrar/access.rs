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

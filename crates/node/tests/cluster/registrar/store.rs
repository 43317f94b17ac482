//! Stores that fail, hang, or change meanwhile.

use super::*;

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
                // It has answered a moment ago, but for the first.
                let failed = if number == 0 { 503 } else { 500 };
                let expected = if model[user].len() == 3 && luck != 0 { 403 } else { failed };
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

//! What users bind: RFC 3261 §10.3.

use super::*;

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

/// A REGISTER, the status that it gets, and a header field of the answer.
type Case = (Msg, u16, (&'static str, &'static str));

/// What Request-URI, To, Contact and Expires can be.
fn addresses_and_contacts() -> Vec<Case> {
    let phone = "<sip:bob@198.51.100.1>";
    let good = || register(1, phone);
    let to = |uri: &str| good().set("To", format!("<{uri}>;tag-less"));
    let at = |uri: &str| Msg {
        start: format!("REGISTER {uri} SIP/2.0"),
        ..good()
    };
    vec![
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
        (register(1, &format!("{phone};;")), 400, ("", "")),
        (register(1, &format!("{phone}, {phone}")), 200, ("", "")),
        (
            register(1, &format!("{phone}, {phone};expires=0")),
            400,
            ("", ""),
        ),
        (
            register(1, &format!("{phone};expires=59")),
            423,
            ("Min-Expires", "60"),
        ),
        (good().with("Expires", 1), 423, ("Min-Expires", "60")),
    ]
}

/// What Require, Supported, Path and Call-ID can be.
fn extensions() -> Vec<Case> {
    let good = || through(OUTER, register(1, "<sip:bob@198.51.100.1>"));
    let long = format!("<sip:{}@192.0.2.1;lr>", "x".repeat(500));
    vec![
        (good().with("Require", "gruu, path"), 200, ("", "")),
        (
            good().with("Require", "path, x-unknown"),
            420,
            ("Unsupported", "x-unknown"),
        ),
        (good().with("Require", "outbound"), 200, ("", "")),
        (good().with("Supported", "gruu, outbound"), 200, ("", "")),
        (good().with("Path", "<sip:192.0.2.1;lr>"), 200, ("Path", "")),
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
        (
            good().with("Supported", "path").with("Path", long),
            400,
            ("", ""),
        ),
        (good().set("Call-ID", "\u{e9}"), 200, ("", "")),
    ]
}

#[test]
fn what_is_wrong_with_a_register_is_told() {
    for (message, status, (name, value)) in addresses_and_contacts().into_iter().chain(extensions())
    {
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

/// Anybody who registered could say with a Path where the node sends a user's calls.
#[test]
fn only_peers_set_a_path() {
    let with_path = |from: &str| {
        let register = register(1, "<sip:bob@198.51.100.1>")
            .with("Supported", "path")
            .with("Path", "<sip:203.0.113.66;lr>");
        through(from, register)
    };
    let mut config = open();
    let edge = "203.0.113.50:5060";
    config.exchange.peers = vec![edge.parse().unwrap()];
    for (from, status) in [
        (PHONE, 403),
        ("203.0.113.50:5061", 403),
        (edge, 200),
        (ONE, 200),
        (OUTER, 200),
    ] {
        let mut world = World::new(config.clone());
        assert_eq!(world.pass(&with_path(from)).status(), status, "{from}");
        assert_eq!(world.store.len(), usize::from(status == 200), "{from}");
    }
}

/// A contact of 15 KB with thousands of parameters stalled a worker that compared it with another: it is
/// refused before anything is compared, and so are more contacts than can be wanted.
#[test]
fn contacts_are_short_and_few() {
    let of_length = |length: usize| {
        let contact = "<sip:bob@198.51.100.1;x=>";
        contact.replace("x=", &format!("x={}", "y".repeat(length - contact.len())))
    };
    let with = |count: usize, part: &str| format!("<sip:bob@198.51.100.1{}>", part.repeat(count));
    let many = |count| {
        let contacts = (0..count).map(|number| format!("<sip:{number}@198.51.100.1>;expires=0"));
        contacts.collect::<Vec<_>>().join(",")
    };
    for (contact, status, reason) in [
        (of_length(512), 200, "OK"),
        (of_length(513), 400, "Contact Too Long"),
        (with(32, ";a"), 200, "OK"),
        (with(33, ";a"), 400, "Too Many Contact Parameters"),
        (with(32, "?a&"), 400, "Too Many Contact Parameters"),
        (with(5_000, ";a"), 400, "Contact Too Long"),
        (many(6), 200, "OK"),
        (many(7), 403, "Too Many Contacts"),
    ] {
        let mut world = World::new(open());
        let reply = world.pass(&register(1, &contact));
        assert_eq!(
            reply.start,
            format!("SIP/2.0 {status} {reason}"),
            "{contact}"
        );
        assert_eq!(
            world.cluster.event(Event::ContactsFull),
            u64::from(status == 403)
        );
    }
}

/// A whole REGISTER was refused for a `q=.5`, for more than three digits of q, and for a semicolon with
/// nothing behind it.
#[test]
fn what_is_plain_is_understood() {
    let phone = "<sip:bob@198.51.100.1>";
    for (parameters, expected) in [
        (";q=.5", ";expires=3600;q=0.5"),
        (";q=0.70001", ";expires=3600;q=0.7"),
        (";q=1.0000;", ";expires=3600"),
        (";expires=60 ;", ";expires=60"),
        (
            ";expires=60;, <sip:bob@198.51.100.2>;expires=0;",
            ";expires=60",
        ),
    ] {
        let register = register(1, &format!("{phone}{parameters}"));
        let register = register.set("To", "<sip:bob@example.com>;");
        let reply = World::new(open()).pass(&register);
        assert_eq!(reply.status(), 200, "{parameters}");
        assert_eq!(reply.all("Contact"), [format!("{phone}{expected}")]);
        assert!(reply.get("To").starts_with("<sip:bob@example.com>;tag="));
    }
}

/// A REGISTER of other contents with the Call-ID and the CSeq of the last one was answered 200, and
/// nothing was done. RFC 3261 §10.3 step 7
#[test]
fn a_retransmission_alone_has_the_same_cseq() {
    let (one, two) = ("<sip:bob@198.51.100.1>", "<sip:bob@198.51.100.2>");
    let first = register(5, &format!("{one};expires=600, {two};expires=0"));
    for (again, expected) in [
        (first.clone(), 200),
        (register(5, ""), 200),
        (register(5, &format!("{one};expires=601")), 500),
        (register(5, &format!("{one};expires=600;q=0.5")), 500),
        (register(5, &format!("{one};expires=600, {two}")), 500),
        (register(5, two), 500),
        (register(5, &format!("{one};expires=0")), 500),
        (register(5, "*").with("Expires", 0), 500),
        (register(5, two).set("Call-ID", "another"), 200),
        (register(6, two), 200),
    ] {
        let mut world = World::new(open());
        assert_eq!(world.pass(&first).status(), 200);
        world.cluster.wait(s(1));
        assert_eq!(world.pass(&again).status(), expected, "{again}");
    }
}

const DEVICE: &str = "+sip.instance=\"<urn:uuid:00000000-0000-1000-8000-AABBCCDDEEFF>\"";

/// The contacts in the answer, each by its last digit.
fn last_digits(contacts: &[String]) -> String {
    let last = |contact: &String| uri_of(contact).chars().last();
    contacts.iter().filter_map(last).collect()
}

/// A phone that roamed to its tenth address was locked out: each address was another binding. RFC 5626 §6
#[test]
fn a_device_keeps_its_binding_wherever_it_roams() {
    let at = |number: u32, rest: &str| format!("<sip:bob@198.51.100.{number}>;{rest}");
    let lower = DEVICE.to_ascii_lowercase();
    let flow = |id: u32| format!("{lower};reg-id={id}");
    let steps = [
        (at(1, DEVICE), "1"),
        (at(2, DEVICE), "2"),
        (at(3, &lower), "3"),
        // Several contacts of a device in one request are several bindings.
        (format!("{}, {}", at(3, DEVICE), at(4, DEVICE)), "34"),
        (format!("{}, {}", at(3, DEVICE), at(4, "expires=0")), "3"),
        (at(5, "+sip.instance=\"<urn:other>\""), "35"),
        (at(5, "expires=0"), "3"),
        // Its flows are told apart, by the same contact too.
        (at(6, &flow(1)), "36"),
        (at(6, &flow(2)), "366"),
        (at(7, &flow(2)), "367"),
        (at(8, &flow(1)), "387"),
        (at(9, &format!("{};expires=0", flow(1))), "37"),
        (at(8, "reg-id=2"), "378"),
    ];
    let mut world = World::new(open());
    for (number, (contact, expected)) in (1..).zip(steps) {
        let message = register(number, &contact);
        for _ in 0..2 {
            let (status, contacts) = world.contacts(&message);
            assert_eq!(
                (status, &*last_digits(&contacts)),
                (200, expected),
                "{contact}"
            );
        }
    }
}

/// A phone that does not name itself was locked out by its old addresses, too.
#[test]
fn the_oldest_contact_goes_where_that_is_wanted() {
    let mut config = open();
    config.registrar.as_mut().unwrap().when_full = WhenFull::ReplaceOldest;
    let mut world = World::new(config);
    let at = |number: u32| format!("<sip:bob@198.51.100.{number}>");
    let steps = [
        (at(1), "1"),
        (at(2), "12"),
        (at(3), "123"),
        (at(1) + ";expires=60", "123"),
        (at(4), "134"),
        (format!("{}, {}", at(5), at(6)), "456"),
        ([at(7), at(8), at(9)].join(","), "789"),
    ];
    for (number, (contact, expected)) in (1..).zip(steps) {
        let (status, contacts) = world.contacts(&register(number, &contact));
        assert_eq!(
            (status, &*last_digits(&contacts)),
            (200, expected),
            "{contact}"
        );
        world.cluster.wait(s(1));
    }
    assert_eq!(world.cluster.event(Event::ContactsReplaced), 6);
    let too_many = [at(1), at(2), at(3), at(4)].join(",");
    assert_eq!(world.pass(&register(9, &too_many)).status(), 403);
}

/// Contacts and what may look like one.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "<sip:bob@198.51.100.1>",
        "<sip:bob@198.51.100.2:5070;ob>",
        "sip:bob@198.51.100.3",
        "<sip:",
        "tel:+49",
        "*",
        "\"Bob, at home\" ",
        ";q=.5",
        ";q=",
        ";expires=60",
        ";expires=0",
        ";expires",
        ";reg-id=1",
        ";reg-id=x",
        ";+sip.instance=\"<urn:a>\"",
        ";+sip.instance=\"",
        ";transport=tcp",
        "?a=b",
        ",",
        ";",
        "<",
        ">",
        "\u{e9}",
    ]);
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever stands in Contact, there is one answer, and a record that can be read; what was granted
    /// once is granted again.
    #[test]
    fn any_contact_is_granted_or_refused(fields in prop::collection::vec(pieces(), 1..6)) {
        let mut world = World::new(open());
        for (number, field) in (1..).zip(fields) {
            let message = register(number, &field);
            let first = world.pass(&message);
            prop_assert!(matches!(first.status(), 200 | 400 | 403 | 423), "{}", field);
            for record in world.store.values() {
                let bindings = Location::read(&record.value).unwrap().bindings;
                prop_assert!((1..=3).contains(&bindings.len()));
            }
            if first.status() == 200 {
                prop_assert_eq!(&world.pass(&message).bytes, &first.bytes);
            }
        }
    }
}

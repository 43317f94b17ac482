//! URIs that lead to one device: RFC 5627.

use super::*;

const DESK_ID: &str = "<urn:uuid:00000000-0000-1000-8000-aabbccddeeff>";
const MOBILE_ID: &str = "<urn:uuid:00000000-0000-1000-8000-000000000001>";

/// A REGISTER of a device that takes such URIs.
fn device(cseq: u32, id: &str, at: &str, call_id: &str) -> Msg {
    let contact = format!("<sip:bob@{at}>;+sip.instance=\"{id}\"");
    let register = register(cseq, &contact).with("Supported", "gruu");
    register.set("Call-ID", call_id)
}

/// The public and the temporary one that a device is told.
fn gruus(granted: &Sent, id: &str) -> [String; 2] {
    assert_eq!(granted.status(), 200);
    let contacts = granted.all("Contact");
    let named = format!("+sip.instance=\"{id}\"");
    let own = contacts
        .iter()
        .find(|contact| contact.contains(&named))
        .unwrap();
    ["pub-gruu=\"", "temp-gruu=\""].map(|name| {
        let value = own.split(name).nth(1).unwrap();
        value.split('"').next().unwrap().to_owned()
    })
}

/// Where a call to a URI goes, or its status.
fn call(world: &mut World, uri: &str, number: u32) -> Vec<String> {
    let mut invite = request("INVITE", ALICE, &format!("call-{number}"));
    invite.start = format!("INVITE {uri} SIP/2.0");
    let sent = world.send(&invite);
    let way = |sent: &Sent| match sent.status() {
        0 => format!("{} {}", sent.to, sent.uri()),
        status => status.to_string(),
    };
    sent.iter()
        .filter(|sent| sent.status() != 100)
        .map(way)
        .collect()
}

#[test]
fn a_request_to_a_device_goes_there_alone() {
    let mut world = World::new(open());
    let desk = gruus(&world.pass(&device(1, DESK_ID, DESK, "desk")), DESK_ID);
    let mobile = gruus(
        &world.pass(&device(1, MOBILE_ID, PHONE, "mobile")),
        MOBILE_ID,
    );
    assert!(
        desk[0].starts_with("sip:bob@example.com;gr="),
        "{}",
        desk[0]
    );
    assert!(
        desk[1].starts_with("sip:") && desk[1].ends_with("@example.com;gr"),
        "{}",
        desk[1]
    );
    assert!(!desk[1].contains("bob"));
    let mut number = 0;
    let mut call = |world: &mut World, uri: &str| {
        number += 1;
        call(world, uri, number)
    };
    for (uris, at) in [(desk, DESK), (mobile, PHONE)] {
        for uri in uris {
            assert_eq!(
                call(&mut world, &uri),
                [format!("{at} sip:bob@{at}")],
                "{uri}"
            );
        }
    }
    assert_eq!(call(&mut world, "sip:bob@example.com").len(), 2);
    for (uri, expected) in [
        ("sip:bob@example.com;gr=00000000deadbeef", "480"),
        ("sip:bob@example.com;gr=x", "404"),
        ("sip:bob@example.com;gr=", "404"),
        ("sip:bob@example.com;gr", "404"),
        ("sip:nobody@example.com;gr=00000000deadbeef", "480"),
    ] {
        assert_eq!(call(&mut world, uri), [expected], "{uri}");
    }
}

/// RFC 5627 §5.1: a temporary one ends with another Call-ID, or with the last contact of its device; a public one
/// stays.
#[test]
fn temporary_ones_end_and_the_public_one_stays() {
    let mut world = World::new(open());
    let first = gruus(&world.pass(&device(1, DESK_ID, DESK, "one")), DESK_ID);
    // The same request has the same answer, and each refresh another.
    let again = gruus(&world.pass(&device(1, DESK_ID, DESK, "one")), DESK_ID);
    assert_eq!(first, again);
    world.cluster.wait(s(2));
    let second = gruus(&world.pass(&device(2, DESK_ID, DESK, "one")), DESK_ID);
    assert_eq!(first[0], second[0]);
    assert_ne!(first[1], second[1]);
    let there = [format!("{DESK} sip:bob@{DESK}")];
    assert_eq!(call(&mut world, &first[1], 1), there);
    assert_eq!(call(&mut world, &second[1], 2), there);

    let third = gruus(&world.pass(&device(1, DESK_ID, DESK, "two")), DESK_ID);
    assert_eq!(call(&mut world, &second[1], 3), ["404"]);
    assert_eq!(call(&mut world, &third[1], 4), there);

    let gone = device(2, DESK_ID, DESK, "two").with("Expires", 0);
    assert_eq!(world.pass(&gone).status(), 200);
    assert_eq!(call(&mut world, &third[1], 5), ["404"]);
    assert_eq!(call(&mut world, &third[0], 6), ["480"]);
}

#[test]
fn who_does_not_take_them_gets_none() {
    let mut world = World::new(open());
    let plain = device(1, DESK_ID, DESK, "one").without("Supported");
    assert!(!world.pass(&plain).whole("Contact").contains("gruu"));
    // What another device calls itself is not kept.
    let granted = world.pass(&device(1, MOBILE_ID, PHONE, "mobile"));
    let told = granted.all("Contact").join(",");
    assert_eq!(told.matches("pub-gruu").count(), 1, "{told}");
    // A name that does not fit is in no temporary one.
    let long = "b".repeat(34);
    let register = of(request("REGISTER", PHONE, "long"), &long, 1);
    let contact = format!("<sip:b@{PHONE}>;+sip.instance=\"{DESK_ID}\"");
    let granted = world.pass(&register.with("Contact", contact).with("Supported", "gruu"));
    let told = granted.whole("Contact");
    assert!(
        told.contains("pub-gruu") && !told.contains("temp-gruu"),
        "{told}"
    );
}

/// A phone's flows are one device's: such a call takes one of them.
#[test]
fn a_device_is_called_by_its_latest_flow() {
    let mut world = World::new(open());
    let flow = |number: u32, at: &str| {
        let contact = format!("<sip:bob@{at};ob>;reg-id={number};+sip.instance=\"{DESK_ID}\"");
        let register = register(number, &contact)
            .with("Supported", "gruu, outbound")
            .from(at);
        register.set("Call-ID", "flows")
    };
    world.pass(&flow(1, PHONE));
    world.cluster.wait(s(1));
    let [public, temporary] = gruus(&world.pass(&flow(2, DESK)), DESK_ID);
    for (number, uri) in [public, temporary].into_iter().enumerate() {
        let called = call(&mut world, &uri, number as u32);
        assert_eq!(called, [format!("{DESK} sip:bob@{DESK};ob")]);
    }
}

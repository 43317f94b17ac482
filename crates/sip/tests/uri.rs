//! URIs taken apart and compared.

use sip::{Host, Param, Scheme, Uri, UriError};

fn parse(text: &str) -> Uri<'_> {
    Uri::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn parts() {
    let uri = parse(
        "sips:alice:secret@[2001:db8::1]:5071;transport=tcp;lr?subject=project%20x&priority=urgent",
    );
    assert_eq!(uri.scheme, Scheme::Sips);
    assert_eq!(
        (uri.user, uri.password),
        (Some(&b"alice"[..]), Some(&b"secret"[..]))
    );
    assert_eq!(uri.host, Host::Ip("2001:db8::1".parse().unwrap()));
    assert_eq!(uri.port, Some(5071));
    assert_eq!(uri.param(b"TRANSPORT"), Param::Value(b"tcp"));
    assert_eq!(uri.param(b"lr"), Param::Flag);
    assert_eq!(uri.param(b"maddr"), Param::Absent);
    assert_eq!(uri.headers, b"subject=project%20x&priority=urgent");
    let uri = parse("sip:user;par=u%40example.net@example.com");
    assert_eq!(
        (uri.user, uri.host),
        (
            Some(&b"user;par=u%40example.net"[..]),
            Host::Name(b"example.com")
        )
    );
    let uri = parse("tel:+1-201-555-0123;phone-context=x");
    assert_eq!(
        (uri.scheme, uri.host),
        (Scheme::Tel, Host::Name(b"+1-201-555-0123;phone-context=x"))
    );
}

#[test]
fn malformed() {
    let check = |text: &str, expected: UriError| {
        assert_eq!(Uri::parse(text.as_bytes()), Err(expected), "{text}");
    };
    check("", UriError::Scheme);
    check("example.com", UriError::Scheme);
    check(":example.com", UriError::Scheme);
    check("<sip:example.com>", UriError::Character);
    check("sip:a b@example.com", UriError::Character);
    check("sip:example.com\u{e9}", UriError::Character);
    check("sip:@example.com", UriError::User);
    check("sip:", UriError::Host);
    check("sip:a@", UriError::Host);
    check("sip:a@b@c", UriError::Host);
    check("sip:[2001:db8::1", UriError::Host);
    check("sip:[::1]5060", UriError::Host);
    check("sip:[192.0.2.1]", UriError::Host);
    check("sip:2001:db8::1", UriError::Port);
    check("sip:example.com:", UriError::Port);
    check("sip:example.com:65536", UriError::Port);
}

#[test]
fn addresses() {
    let check = |text: &str, expected: Option<&str>| {
        assert_eq!(
            parse(text).address(),
            expected.map(|address| address.parse().unwrap()),
            "{text}"
        );
    };
    check("sip:192.0.2.1", Some("192.0.2.1:5060"));
    check("sips:192.0.2.1", Some("192.0.2.1:5061"));
    check("sip:a@192.0.2.1:5070;lr", Some("192.0.2.1:5070"));
    check("sip:a@[2001:db8::1]:5070", Some("[2001:db8::1]:5070"));
    check("sip:a@example.com;maddr=192.0.2.2", Some("192.0.2.2:5060"));
    check("sip:a@192.0.2.1;maddr=example.com", None);
    check("sip:a@example.com", None);
    check("sip:256.0.0.1", None);
    check("tel:+12015550123", None);
}

/// RFC 3261 §19.1.4: its examples, and more. Whether two URIs are equivalent.
const EQUIVALENCES: [(&str, &str, bool); 21] = [
    (
        "sip:%61lice@atlanta.com;transport=TCP",
        "sip:alice@AtLanTa.CoM;Transport=tcp",
        true,
    ),
    (
        "sip:carol@chicago.com",
        "sip:carol@chicago.com;newparam=5",
        true,
    ),
    (
        "sip:carol@chicago.com",
        "sip:carol@chicago.com;security=on",
        true,
    ),
    (
        "sip:carol@chicago.com;newparam=5",
        "sip:carol@chicago.com;security=on",
        true,
    ),
    (
        "sip:biloxi.com;transport=tcp;method=REGISTER?to=sip:bob%40biloxi.com",
        "sip:biloxi.com;method=REGISTER;transport=tcp?to=sip:bob%40biloxi.com",
        true,
    ),
    (
        "sip:alice@atlanta.com?subject=project%20x&priority=urgent",
        "sip:alice@atlanta.com?priority=urgent&subject=project%20x",
        true,
    ),
    (
        "SIP:ALICE@AtLanTa.CoM;Transport=udp",
        "sip:alice@AtLanTa.CoM;Transport=UDP",
        false,
    ),
    ("sip:bob@biloxi.com", "sip:bob@biloxi.com:5060", false),
    (
        "sip:bob@biloxi.com",
        "sip:bob@biloxi.com;transport=udp",
        false,
    ),
    (
        "sip:bob@biloxi.com",
        "sip:bob@biloxi.com:6000;transport=tcp",
        false,
    ),
    (
        "sip:carol@chicago.com",
        "sip:carol@chicago.com?Subject=next%20meeting",
        false,
    ),
    ("sip:bob@phone21.boxesbybob.com", "sip:bob@192.0.2.4", false),
    (
        "sip:carol@chicago.com;security=on",
        "sip:carol@chicago.com;security=off",
        false,
    ),
    ("sip:carol@chicago.com", "sips:carol@chicago.com", false),
    ("sip:carol@chicago.com", "sip:chicago.com", false),
    ("sip:carol@chicago.com", "sip:carol:pass@chicago.com", false),
    ("sip:a;b@chicago.com", "sip:a%3Bb@chicago.com", false),
    ("sip:a@[2001:db8::1]", "sip:a@[2001:DB8:0::1]", true),
    ("tel:+12015550123", "tel:+12015550123", true),
    ("tel:+12015550123", "tel:+12015550124", false),
    ("mailto:a@example.com", "isbn:a@example.com", false),
];

#[test]
fn equivalence_holds_in_both_directions() {
    let check = |one: &str, other: &str, expected: bool| {
        let (first, second) = (parse(one), parse(other));
        assert_eq!(first.equivalent(&second), expected, "{one} {other}");
        assert_eq!(second.equivalent(&first), expected, "{other} {one}");
    };
    for (one, other, expected) in EQUIVALENCES {
        check(one, other, expected);
    }
    for needed in [
        "user=phone",
        "ttl=1",
        "method=INVITE",
        "maddr=192.0.2.1",
        "transport=udp",
    ] {
        check(
            "sip:carol@chicago.com",
            &format!("sip:carol@chicago.com;{needed}"),
            false,
        );
    }
}

/// RFC 3261 §19.1.4, RFC 3966
#[test]
fn users_begin_with_a_text_without_their_escapes() {
    for (uri, text, expected) in [
        ("sip:+4930@a", "+49", true),
        ("sip:%2b4930@a", "+49", true),
        ("sip:+49@a", "+49", true),
        ("sip:+4@a", "+49", false),
        ("sip:0049@a", "+49", false),
        ("sip:%4@a", "%4", true),
        ("tel:+49-30;phone-context=x", "+49", true),
        ("urn:+49", "+49", false),
        ("sip:a", "a", false),
    ] {
        let parsed = Uri::parse(uri.as_bytes()).unwrap();
        assert_eq!(parsed.user_begins_with(text.as_bytes()), expected, "{uri}");
    }
}

//! URIs taken apart and compared.

use std::collections::BTreeMap;

use proptest::prelude::*;
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

/// A contact with `?headers` or `;method=` became a Request-URI with them, which our own edge refuses.
/// RFC 3261 §16.6 item 2, §19.1.1, §19.1.5
#[test]
fn a_request_uri_has_no_headers_and_no_method() {
    for (uri, expected) in [
        ("sip:bob@192.0.2.1", "sip:bob@192.0.2.1"),
        (
            "sip:bob@192.0.2.1:5062;transport=udp;x",
            "sip:bob@192.0.2.1:5062;transport=udp;x",
        ),
        ("sip:bob@192.0.2.1?Subject=x&Route=y", "sip:bob@192.0.2.1"),
        (
            "sip:bob@[2001:db8::1];METHOD=BYE;ob;method?a=b",
            "sip:bob@[2001:db8::1];ob",
        ),
        (
            "sip:b;method=x?y@example.com;method=BYE",
            "sip:b;method=x?y@example.com",
        ),
        ("sip:example.com;methods=x;?", "sip:example.com;methods=x"),
        ("tel:+4930;method=x?y", "tel:+4930;method=x?y"),
    ] {
        let mut out = Vec::new();
        parse(uri).write_as_request_uri(&mut out);
        assert_eq!(String::from_utf8_lossy(&out), expected, "{uri}");
    }
}

/// Two contacts of 15 KB with thousands of parameters stalled a worker: each parameter of one was looked
/// for among all of the other.
#[test]
fn uris_with_many_parameters_are_compared_as_texts() {
    let list = |count: usize, separator: &str| {
        let parts = (0..count).map(|number| format!("{separator}p{number}=1"));
        parts.collect::<String>()
    };
    for (separator, lead) in [(";", ""), ("&", "?x=y")] {
        for (count, expected) in [(31, true), (33, false), (2_000, false)] {
            let one = format!("sip:a@example.com{lead}{}", list(count, separator));
            let other = one.replace("example.com", "EXAMPLE.com");
            assert_eq!(parse(&one).equivalent(&parse(&other)), expected, "{count}");
            assert!(parse(&one).equivalent(&parse(&one)));
        }
    }
}

/// RFC 3261 §19.1.4 as it stands there: everything is unescaped, put into maps, and compared.
fn obviously_equivalent(one: &str, other: &str) -> bool {
    type Parts = BTreeMap<String, Option<String>>;
    let plain = |text: &str| text.replace("%61", "a").replace("%3B", "(semicolon)");
    let split = |text: &str, separator: char| -> Parts {
        let parts = text.split(separator).filter(|part| !part.is_empty());
        let pair = |part: &str| match part.split_once('=') {
            Some((name, value)) => (plain(name).to_lowercase(), Some(plain(value))),
            None => (plain(part).to_lowercase(), None),
        };
        parts.map(pair).collect()
    };
    let take_apart = |text: &str| {
        let (rest, headers) = text.split_once('?').unwrap_or((text, ""));
        let (user, rest) = rest.split_once('@').unwrap_or(("", rest));
        let (host, params) = rest.split_once(';').unwrap_or((rest, ""));
        let lower = |(name, value): (String, Option<String>)| {
            (name, value.map(|value| value.to_lowercase()))
        };
        let params: Parts = split(params, ';').into_iter().map(lower).collect();
        (
            plain(user),
            host.to_lowercase(),
            params,
            split(headers, '&'),
        )
    };
    let (one, other) = (take_apart(one), take_apart(other));
    let needed = ["transport", "user", "ttl", "method", "maddr"];
    let names = one.2.keys().chain(other.2.keys());
    let agree = |name: &String| match (one.2.get(name), other.2.get(name)) {
        (Some(one), Some(other)) => one == other,
        _ => !needed.contains(&name.as_str()),
    };
    (&one.0, &one.1, &one.3) == (&other.0, &other.1, &other.3) && { names }.all(agree)
}

/// URIs of few words, so that two of them are often alike. No name comes twice.
fn uris() -> impl Strategy<Value = String> {
    let word = || prop::sample::select(vec!["a", "%61", "A", "b", "%3B"]);
    let param = ["transport", "TTL", "lr", "x", "method"];
    let parts = |names: [&'static str; 5]| {
        let value = prop::option::weighted(0.3, prop::option::of(word()));
        prop::array::uniform5(value).prop_map(move |values| {
            let parts = names.iter().zip(values).filter_map(|(name, value)| {
                let value = value?.map_or(String::new(), |value| format!("={value}"));
                Some(format!("{name}{value}"))
            });
            parts.collect::<Vec<_>>()
        })
    };
    let user = prop::option::of(word());
    let host = prop::sample::select(vec!["host", "HOST", "host:5060", "192.0.2.1"]);
    let parts = (
        parts(param).prop_shuffle(),
        parts(["to", "Subject", "from", "y", "z"]).prop_shuffle(),
    );
    (user, host, parts).prop_map(|(user, host, (params, headers))| {
        let user = user.map_or(String::new(), |user| format!("{user}@"));
        let params: String = params.iter().map(|param| format!(";{param}")).collect();
        let mark = if headers.is_empty() { "" } else { "?" };
        format!("sip:{user}{host}{params}{mark}{}", headers.join("&"))
    })
}

proptest! {
    #[test]
    fn equivalence_is_what_it_obviously_is(one in uris(), other in uris()) {
        let expected = obviously_equivalent(&one, &other);
        prop_assert_eq!(parse(&one).equivalent(&parse(&other)), expected);
        let shouted = one.replace("sip:", "SIP:");
        prop_assert!(parse(&one).equivalent(&parse(&shouted)));
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

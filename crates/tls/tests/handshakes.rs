//! Who shakes hands with whom, and what the others are told.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "other tests use the rest")]
mod common;

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use common::{Authority, Pair, SECRET, client, server, wall};
use rcgen::date_time_ymd;
use stream::{Layer, Why};
use tls::{Clients, Identity, Naming, Server, Trust};

#[test]
fn messages_go_both_ways() {
    let authority = Authority::new();
    let server = server(&[authority.identity(&["example.com"])], &Clients::Any);
    let mut pair = Pair::new(&authority.client(), "example.com", &server);
    assert!(pair.is_open());
    let long = [b'x'; 60_000];
    pair.send(0, b"hello");
    pair.send(0, &long);
    pair.send(1, &long);
    assert_eq!(pair.heard[1], [&b"hello"[..], &long].concat());
    assert_eq!(pair.heard[0], long);
    let mut wire = Vec::new();
    pair.sides[0].close(&mut wire);
    pair.carry(0, &wire);
    assert_eq!(pair.ends, [None, Some(Why::Peer)]);
}

/// A message of one record arrives as one record: 22 bytes more of TLS 1.3, or a little more of 1.2.
#[test]
fn a_message_is_one_record() {
    let authority = Authority::new();
    let server = server(&[authority.identity(&["example.com"])], &Clients::Any);
    let mut pair = Pair::new(&authority.client(), "example.com", &server);
    let mut wire = Vec::new();
    pair.sides[0].send(&[b'x'; 1_000], &mut wire).unwrap();
    assert_eq!(wire.len(), 1_000 + 22);
    assert_eq!(pair.sides[0].version(), Some("TLSv1_3"));
}

/// What rustls kept of a record counted nowhere: a peer that never ended it kept the memory for as long as it liked.
#[test]
fn a_record_that_is_not_whole_is_held() {
    let authority = Authority::new();
    let server = server(&[authority.identity(&["example.com"])], &Clients::Any);
    const FIRST: usize = 1_000 + 22;
    let cases = [
        (1, 1),
        (5, 5),
        (6, 6),
        (FIRST - 1, FIRST - 1),
        (FIRST, 0),
        (FIRST + 9, 9),
    ];
    for (cut, held) in cases {
        let mut pair = Pair::new(&authority.client(), "example.com", &server);
        assert!(pair.is_open() && pair.sides.iter().all(|side| side.held_bytes() == 0));
        let mut wire = Vec::new();
        pair.sides[0].send(&[b'x'; 1_000], &mut wire).unwrap();
        pair.sides[0].send(b"hello", &mut wire).unwrap();
        pair.carry(0, &wire[..cut]);
        assert_eq!(pair.sides[1].held_bytes(), held, "{cut}");
        for byte in &wire[cut..] {
            pair.carry(0, &[*byte]);
        }
        assert_eq!(pair.sides[1].held_bytes(), 0, "{cut}");
        assert_eq!(pair.heard[1].len(), 1_005, "{cut}");
    }
}

/// RFC 5922 §7.1 and §7.2.
#[test]
fn servers_are_known_by_their_sip_names() {
    let authority = Authority::new();
    let cases: &[(&[&str], &str, bool, bool)] = &[
        (&["example.com"], "example.com", true, true),
        (&["example.com"], "EXAMPLE.com", true, true),
        (&["example.com"], "a.example.com", false, false),
        (&["*.example.com"], "a.example.com", false, true),
        (&["sip:example.com"], "example.com", true, true),
        (
            &["sip:Example.com;transport=tls", "x.org"],
            "example.com",
            true,
            true,
        ),
        (&["sip:example.com", "x.org"], "x.org", false, true),
        (&["sip:bob@example.com"], "example.com", false, false),
        (&["192.0.2.1"], "192.0.2.1", true, true),
        (&["192.0.2.1"], "192.0.2.2", false, false),
    ];
    for &(names, wanted, as_sip, as_web) in cases {
        let server = server(&[authority.identity(names)], &Clients::Any);
        for (naming, expected) in [(Naming::Sip, as_sip), (Naming::Web, as_web)] {
            let client = client(&authority.trust(), naming, None);
            let pair = Pair::new(&client, wanted, &server);
            assert_eq!(pair.is_open(), expected, "{names:?} {wanted} {naming:?}");
        }
    }
    let client = authority.client();
    let error = client.session("not a name").unwrap_err().to_string();
    assert_eq!(error, "\"not a name\" is neither a domain nor an address");
}

#[test]
fn bad_servers_are_told_apart() {
    let authority = Authority::new();
    let stranger = Authority::new();
    let expired = authority.issue("expired", &["example.com"], |params| {
        params.not_after = date_time_ymd(2025, 1, 1);
    });
    let early = authority.issue("early", &["example.com"], |params| {
        params.not_before = date_time_ymd(2045, 1, 1);
    });
    let load = |(certificate, key): &(PathBuf, PathBuf)| Identity::load(certificate, key).unwrap();
    let cases = [
        (
            load(&expired),
            "the peer's certificate has expired: it must be renewed there",
        ),
        (
            load(&early),
            "the peer's certificate is not valid yet: check both clocks",
        ),
        (
            authority.identity(&["example.org", "example.net"]),
            "the peer's certificate is not of example.com, but of: example.org, example.net",
        ),
        (
            stranger.identity(&["example.com"]),
            "the peer's certificate was issued by an authority that is not trusted here",
        ),
    ];
    for (identity, detail) in cases {
        let server = server(&[identity], &Clients::Any);
        let pair = Pair::new(&authority.client(), "example.com", &server);
        let [of_client, of_server] = pair.failure();
        assert_eq!(of_client, (Some(Why::Certificate), detail.to_owned()));
        assert_eq!(of_server.0, Some(Why::Certificate));
        assert!(
            of_server
                .1
                .starts_with("the peer refuses our certificate: ")
        );
    }
    let problem = load(&expired).problem(wall()()).unwrap().to_string();
    assert!(
        problem.contains("expired.pem: has a certificate that expired on Jan  1"),
        "{problem}"
    );
    let problem = load(&early).problem(wall()()).unwrap().to_string();
    assert!(problem.contains("is not valid before"), "{problem}");
    let good = authority.identity(&["example.com"]);
    assert!(good.problem(wall()()).is_none());
}

#[test]
fn what_is_revoked_is_refused() {
    let authority = Authority::new();
    let issue = |name: &str, serial: u64| {
        let (certificate, key) = authority.issue(name, &["example.com"], |params| {
            params.serial_number = Some(serial.into());
        });
        Identity::load(&certificate, &key).unwrap()
    };
    let (good, bad) = (issue("good", 1), issue("bad", 2));
    let list = authority.revoke(2);
    let trust = authority.trust().with_revocations(&list).unwrap();
    for (identity, is_good) in [(good, true), (bad, false)] {
        let client = client(&trust, Naming::Sip, None);
        let server = server(&[identity], &Clients::Any);
        let pair = Pair::new(&client, "example.com", &server);
        assert_eq!(pair.is_open(), is_good);
        if !is_good {
            let [(why, detail), _] = pair.failure();
            assert_eq!(why, Some(Why::Certificate));
            assert_eq!(detail, "the peer's certificate was revoked");
        }
    }
}

#[test]
fn clients_prove_who_they_are() {
    let authority = Authority::new();
    let stranger = Authority::new();
    let own = authority.identity(&["server.com"]);
    let mine = authority.identity(&["client.com"]);
    let alien = stranger.identity(&["client.com"]);
    let asks = [
        Clients::Any,
        Clients::MayProve(authority.trust()),
        Clients::MustProve(authority.trust()),
    ];
    let domain = vec!["client.com".to_owned()];
    for (ask, clients) in asks.iter().enumerate() {
        let server = server(std::slice::from_ref(&own), clients);
        let meet = |identity| {
            let client = client(&authority.trust(), Naming::Sip, identity);
            Pair::new(&client, "server.com", &server)
        };
        let pair = meet(None);
        assert_eq!(pair.is_open(), ask < 2);
        if !pair.is_open() {
            let [_, (why, detail)] = pair.failure();
            assert_eq!(why, Some(Why::Certificate));
            assert_eq!(
                detail,
                "the peer showed no certificate, and one is required"
            );
        }
        let pair = meet(Some(&mine));
        assert!(pair.is_open());
        let peer = pair.sides[1].peer().map(|names| names.domains().to_vec());
        assert_eq!(peer, (ask > 0).then(|| domain.clone()));
        assert_eq!(meet(Some(&alien)).is_open(), ask == 0);
    }
}

#[test]
fn the_certificate_fits_the_name() {
    let authority = Authority::new();
    let names: [&[&str]; 3] = [&["a.org"], &["*.b.org"], &["sip:x.b.org", "y.org"]];
    let identities = names.map(|names| authority.identity(names));
    let server = server(&identities, &Clients::Any);
    let client = client(&authority.trust(), Naming::Web, None);
    for (wanted, shown) in [
        ("a.org", "a.org"),
        ("z.b.org", "*.b.org"),
        ("x.b.org", "x.b.org"),
    ] {
        let pair = Pair::new(&client, wanted, &server);
        let peer = pair.sides[0].peer().unwrap();
        assert_eq!(peer.domains(), [shown]);
    }
    let pair = Pair::new(&client, "else.org", &server);
    assert!(
        !pair.is_open(),
        "the first one is shown, and is not of that name"
    );
}

/// Any node with the secret resumes, for as long as the ticket is good, and asks no less of the client.
#[test]
fn sessions_are_resumed_on_any_node() {
    let authority = Authority::new();
    let identity = authority.identity(&["example.com"]);
    let seconds = Arc::new(AtomicU64::new(1_795_000_000));
    let node = |secret: &[u8], clients: &Clients| {
        let seconds = Arc::clone(&seconds);
        let wall = Arc::new(move || Duration::from_secs(seconds.load(Ordering::Relaxed)));
        Server::new(std::slice::from_ref(&identity), clients, secret, wall).unwrap()
    };
    let client = client(&authority.trust(), Naming::Sip, Some(&identity));
    let is_resumed = |server: &Server| {
        let pair = Pair::new(&client, "example.com", server);
        assert!(pair.is_open());
        assert_eq!(pair.sides[0].is_resumed(), pair.sides[1].is_resumed());
        pair.sides[1].is_resumed()
    };
    let may = Clients::MayProve(authority.trust());
    assert!(!is_resumed(&node(SECRET, &Clients::Any)));
    assert!(is_resumed(&node(SECRET, &Clients::Any)));
    seconds.fetch_add(6 * 3600, Ordering::Relaxed);
    assert!(is_resumed(&node(SECRET, &Clients::Any)));
    seconds.fetch_add(2 * 6 * 3600, Ordering::Relaxed);
    assert!(!is_resumed(&node(SECRET, &Clients::Any)));
    assert!(!is_resumed(&node(SECRET, &may)));
    let server = node(SECRET, &may);
    let pair = Pair::new(&client, "example.com", &server);
    let domains = pair.sides[1].peer().map(|names| names.domains().to_vec());
    assert!(pair.sides[1].is_resumed());
    assert_eq!(domains, Some(vec!["example.com".to_owned()]));
    assert!(!is_resumed(&node(
        b"another secret that is as long as it",
        &may
    )));
}

#[test]
fn rubbish_ends_the_handshake() {
    let authority = Authority::new();
    let server = server(&[authority.identity(&["example.com"])], &Clients::Any);
    let texts: [&[u8]; 4] = [
        b"INVITE sip:bob@example.com SIP/2.0\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        &[0; 100],
        b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00",
    ];
    for text in texts {
        let mut session = server.session().unwrap();
        let heard = session.receive(text, &mut |_| panic!("nothing is said"));
        assert_eq!(heard, Err(Why::Tls));
        assert!(session.detail().is_some());
        let mut wire = Vec::new();
        session.write_own(&mut wire);
        assert!(wire.len() <= 7, "an alert at most");
    }
    // A handshake message that claims 16 MB is not waited for.
    let mut session = server.session().unwrap();
    let hello = [
        &[0x16, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff][..],
        &[0; 16_380],
    ]
    .concat();
    let mut taken = Ok(());
    for _ in 0..200 {
        taken = taken.and_then(|()| session.receive(&hello, &mut |_| ()));
    }
    assert_eq!(taken, Err(Why::Tls));
}

#[test]
fn the_systems_roots_are_found() {
    assert!(
        Trust::of_system().is_ok(),
        "the machine has ca-certificates"
    );
}

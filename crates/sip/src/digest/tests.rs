use super::*;

const MUFASA: &str = "Digest username=\"Mufasa\",
       realm=\"http-auth@example.org\",
       uri=\"/dir/index.html\",
       nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\",
       nc=00000001,
       cnonce=\"f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ\",
       qop=auth,
       opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\",";

fn mufasa(algorithm: Algorithm) -> Ha1 {
    Ha1::new(
        algorithm,
        b"Mufasa",
        b"http-auth@example.org",
        b"Circle of Life",
    )
}

/// RFC 7616 §3.9.1, and RFC 2617 §3.5 with its own nonce.
#[test]
fn the_examples_of_the_rfc_match() {
    let cases = [
        (
            Algorithm::Md5,
            "algorithm=MD5, response=\"8ca523f5e9506fed4657c9700eebdbec\"",
        ),
        (
            Algorithm::Sha256,
            "algorithm=SHA-256, response=\
             \"753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1\"",
        ),
    ];
    for (algorithm, rest) in cases {
        let text = format!("{MUFASA} {rest}");
        let credentials = Credentials::parse(text.as_bytes()).unwrap();
        assert_eq!(credentials.algorithm, algorithm);
        assert_eq!(credentials.nc, 1);
        assert!(credentials.matches(b"GET", &mufasa(algorithm)));
        assert!(!credentials.matches(b"PUT", &mufasa(algorithm)));
        let other = Ha1::new(algorithm, b"Mufasa", b"http-auth@example.org", b"circle");
        assert!(!credentials.matches(b"GET", &other));
    }
    let sha_for_md5 = format!("{MUFASA} algorithm=MD5, response=\"{}\"", "0".repeat(32));
    let credentials = Credentials::parse(sha_for_md5.as_bytes()).unwrap();
    assert!(!credentials.matches(b"GET", &mufasa(Algorithm::Sha256)));
    let old = "Digest username=\"Mufasa\", realm=\"testrealm@host.com\",
        nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\", uri=\"/dir/index.html\", qop=auth, nc=00000001,
        cnonce=\"0a4f113b\", response=\"6629fae49393a05397450978507c4ef1\",
        opaque=\"5ccc069c403ebaf9f0171e9517f40e41\"";
    let ha1 = Ha1::new(
        Algorithm::Md5,
        b"Mufasa",
        b"testrealm@host.com",
        b"Circle Of Life",
    );
    let credentials = Credentials::parse(old.as_bytes()).unwrap();
    assert!(credentials.matches(b"GET", &ha1));
}

#[test]
fn credentials_are_read_as_written() {
    const ALL: &str = "username=\"u\", realm=\"r\", nonce=\"n\", uri=\"sip:h\", response=\"0\", \
                       cnonce=\"c\", nc=1";
    let cases = [
        ("Digest ALL, qop=auth", Ok(())),
        (" DIGEST\r\n ALL ,\r\n\tQOP = \"AUTH\"", Ok(())),
        ("Digest ALL, qop=auth,", Ok(())),
        (
            "Digest ALL, qop=auth, algorithm=sha-256, new=\"a\\\"b,c\"",
            Ok(()),
        ),
        ("Basic dXNlcg==", Err(DigestError::Scheme)),
        ("", Err(DigestError::Scheme)),
        ("Digest", Err(DigestError::Qop)),
        ("Digest ALL", Err(DigestError::Qop)),
        ("Digest ALL, qop=auth-int", Err(DigestError::Qop)),
        (
            "Digest ALL, qop=auth, algorithm=MD5-sess",
            Err(DigestError::Algorithm),
        ),
        (
            "Digest ALL, qop=auth, realm=\"s\"",
            Err(DigestError::Malformed),
        ),
        ("Digest ALL, qop=auth, realm", Err(DigestError::Malformed)),
        (
            "Digest ALL, qop=auth, opaque=\"open",
            Err(DigestError::Malformed),
        ),
        ("Digest ALL qop=auth", Err(DigestError::Malformed)),
        (
            "Digest qop=auth, nc=1",
            Err(DigestError::Missing("username")),
        ),
    ];
    for (text, expected) in cases {
        let text = text.replace("ALL", ALL);
        let parsed = Credentials::parse(text.as_bytes()).map(|_| ());
        assert_eq!(parsed, expected, "{text}");
    }
    for nc in ["+1", "\"\"", "100000000"] {
        let all = ALL.replace("nc=1", &format!("nc={nc}"));
        let text = format!("Digest {all}, qop=auth");
        let parsed = Credentials::parse(text.as_bytes());
        assert_eq!(parsed, Err(DigestError::Malformed), "{text}");
    }
}

fn challenge(nonce: &str) -> Challenge<'_> {
    Challenge {
        realm: "example.com",
        nonce,
        stale: false,
    }
}

#[test]
fn a_challenge_is_written_and_read() {
    let value = "Digest realm=\"example.com\", nonce=\"n\", algorithm=";
    for (stale, algorithm, rest) in [
        (false, Algorithm::Sha256, "SHA-256, qop=\"auth\""),
        (true, Algorithm::Md5, "MD5, qop=\"auth\", stale=true"),
    ] {
        let challenge = Challenge {
            stale,
            ..challenge("n")
        };
        let text = challenge.value(algorithm);
        assert_eq!(text, [value, rest].concat());
        let demand = Demand {
            realm: "example.com",
            nonce: "n",
            opaque: None,
            algorithm,
            is_counted: true,
            is_stale: stale,
        };
        assert_eq!(Demand::parse(text.as_bytes()), Ok(demand));
    }
}

#[test]
fn demands_are_those_that_can_be_met() {
    const ALL: &str = "realm=\"r\", nonce=\"n\"";
    let cases = [
        ("Digest ALL", Ok(false)),
        (
            "Digest ALL, qop=\"auth-int, auth\", domain=\"sip:a\"",
            Ok(true),
        ),
        ("Digest ALL, qop=auth", Ok(true)),
        ("Digest ALL, qop=\"auth-int\"", Err(DigestError::Qop)),
        (
            "Digest ALL, algorithm=SHA-512-256",
            Err(DigestError::Algorithm),
        ),
        ("Digest nonce=\"n\"", Err(DigestError::Missing("realm"))),
        ("Digest realm=\"\u{ff}", Err(DigestError::Malformed)),
        ("Bearer ALL", Err(DigestError::Scheme)),
    ];
    for (text, expected) in cases {
        let text = text.replace("ALL", ALL);
        let demand = Demand::parse(text.as_bytes()).map(|demand| demand.is_counted);
        assert_eq!(demand, expected, "{text}");
    }
}

/// RFC 2617 §3.5 and RFC 2069 §2.4 as its erratum 749 has it.
#[test]
fn a_prover_writes_what_the_rfcs_do() {
    let proof = |challenge: &str, password| {
        let demand = Demand::parse(challenge.as_bytes()).unwrap();
        Prover::new(&demand, "Mufasa", password).credentials("GET", "/dir/index.html", 1, 7)
    };
    let text = proof(
        "Digest realm=\"testrealm@host.com\", nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\", \
         opaque=\"5ccc069c403ebaf9f0171e9517f40e41\"",
        "CircleOfLife",
    );
    assert!(
        text.contains("response=\"1949323746fe6a43ef61f9606e7febea\""),
        "{text}"
    );
    assert!(text.contains("opaque=\"5ccc069c403ebaf9f0171e9517f40e41\"") && !text.contains("qop"));
    let text = proof(
        "Digest realm=\"http-auth@example.org\", nonce=\"n\", algorithm=SHA-256, qop=\"auth\"",
        "Circle of Life",
    );
    let credentials = Credentials::parse(text.as_bytes()).unwrap();
    assert!(credentials.matches(b"GET", &mufasa(Algorithm::Sha256)));
    assert!(!credentials.matches(b"PUT", &mufasa(Algorithm::Sha256)));
}

const LIFETIME: Duration = Duration::from_secs(60);
const NOW: Duration = Duration::from_secs(1_800_000_000);

fn nonces(key: u8) -> Nonces {
    Nonces::new(&[key; 16], LIFETIME)
}

/// What a verifier says of a client that knows the password.
fn say(verifier: &mut Verifier, now: Duration, nonce: &str, nc: u32) -> Verdict {
    say_in(verifier, now, nonce, nc, b"7@host")
}

fn say_in(verifier: &mut Verifier, now: Duration, nonce: &str, nc: u32, call_id: &[u8]) -> Verdict {
    let ha1 = Ha1::new(Algorithm::Sha256, b"alice", b"example.com", b"secret");
    let challenge = challenge(nonce).value(Algorithm::Sha256);
    let demand = Demand::parse(challenge.as_bytes()).unwrap();
    let prover = Prover::new(&demand, "alice", "secret");
    let text = prover.credentials("REGISTER", "sip:example.com", nc, 7);
    let credentials = Credentials::parse(text.as_bytes()).unwrap();
    let forged = Ha1::new(Algorithm::Sha256, b"alice", b"example.com", b"guess");
    assert_eq!(
        verifier.verify(now, &credentials, b"REGISTER", call_id, &forged),
        Verdict::Wrong
    );
    verifier.verify(now, &credentials, b"REGISTER", call_id, &ha1)
}

fn issued(nonces: &Nonces, random: u64) -> String {
    nonces.issue(NOW, random, b"7@host")
}

#[test]
fn a_nonce_is_good_on_every_node_for_its_lifetime() {
    let nonce = issued(&nonces(1), 7);
    let second = Duration::from_secs(1);
    let cases = [
        (nonces(1), NOW, Verdict::Good),
        (nonces(1), NOW + LIFETIME, Verdict::Good),
        (nonces(1), NOW - second, Verdict::Good),
        (nonces(1), NOW + LIFETIME + second, Verdict::Stale),
        (nonces(1), NOW - LIFETIME - second, Verdict::Stale),
        (nonces(2), NOW, Verdict::Stale),
    ];
    for (nonces, now, expected) in cases {
        let mut verifier = Verifier::new(nonces, 10);
        assert_eq!(say(&mut verifier, now, &nonce, 1), expected, "{now:?}");
    }
    for at in 0..nonce.len() {
        let digit = if &nonce[at..=at] == "0" { "1" } else { "0" };
        let mut forged = nonce.clone();
        forged.replace_range(at..=at, digit);
        let mut verifier = Verifier::new(nonces(1), 10);
        assert_eq!(say(&mut verifier, NOW, &forged, 1), Verdict::Stale, "{at}");
    }
    let of_another_call = nonces(1).issue(NOW, 7, b"8@host");
    let mut verifier = Verifier::new(nonces(1), 10);
    assert_eq!(say(&mut verifier, NOW, &of_another_call, 1), Verdict::Stale);
}

#[test]
fn a_count_is_good_once() {
    let nonce = issued(&nonces(1), 7);
    let mut verifier = Verifier::new(nonces(1), 10);
    let cases = [
        (5, Verdict::Good),
        (5, Verdict::Replayed),
        (4, Verdict::Good),
        (4, Verdict::Replayed),
        (68, Verdict::Good),
        (5, Verdict::Replayed),
        (6, Verdict::Good),
        (4, Verdict::Replayed),
        (1_000, Verdict::Good),
        (68, Verdict::Replayed),
        (999, Verdict::Good),
        (u32::MAX, Verdict::Good),
        (u32::MAX, Verdict::Replayed),
        (0, Verdict::Replayed),
    ];
    for (nc, expected) in cases {
        assert_eq!(say(&mut verifier, NOW, &nonce, nc), expected, "{nc}");
    }
}

/// Of 20,000 callers behind one address in a second, two got the same random number once in a while. The second one's credentials
/// counted as a replay, and its call ended with a 407.
#[test]
fn two_calls_with_the_same_random_number_are_told_apart() {
    let nonces = nonces(1);
    let mut verifier = Verifier::new(nonces.clone(), 10);
    for expected in [Verdict::Good, Verdict::Replayed] {
        for call_id in [&b"7@host"[..], b"8@host"] {
            let nonce = nonces.issue(NOW, 7, call_id);
            let verdict = say_in(&mut verifier, NOW, &nonce, 1, call_id);
            assert_eq!(verdict, expected, "{call_id:?}");
        }
    }
}

#[test]
fn forgotten_nonces_are_stale() {
    let nonces = nonces(1);
    let mut verifier = Verifier::new(nonces.clone(), 3);
    for random in 0..10 {
        let nonce = issued(&nonces, random);
        assert_eq!(say(&mut verifier, NOW, &nonce, 1), Verdict::Good);
    }
    for random in 0..10 {
        let expected = if random < 7 {
            Verdict::Stale
        } else {
            Verdict::Replayed
        };
        let nonce = issued(&nonces, random);
        assert_eq!(say(&mut verifier, NOW, &nonce, 1), expected, "{random}");
    }
}

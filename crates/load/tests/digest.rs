//! Phones that prove their passwords to a registrar, in virtual time.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::{net::SocketAddr, time::Duration};

use fastrand::Rng;
use load::{
    Account, Accounts, Failure, Outbox, Phones, PhonesConfig, Rate, Retransmission, Stream, Turns,
};
use sip::{
    HeaderName, Message,
    digest::{Algorithm, Challenge, Credentials, Ha1, Nonces, Verdict, Verifier},
};

const S: Duration = Duration::from_secs(1);
const LIFETIME: Duration = Duration::from_secs(1_000);
const PHONE: &str = "192.0.2.101:5070";
const REGISTRAR: &str = "192.0.2.1:5060";

/// A registrar that keeps nothing but what it has said. The password of a
/// user is `secret-` and their name.
struct Registrar {
    /// What it hands out.
    nonces: Nonces,
    verifier: Verifier,
    algorithms: Vec<Algorithm>,
    /// 401, or 407 for a proxy.
    status: u16,
    /// With which status each REGISTER was answered.
    said: Vec<u16>,
    /// The count of each REGISTER that was granted.
    counts: Vec<u32>,
}

impl Registrar {
    fn new(algorithms: &[Algorithm]) -> Self {
        let nonces = Nonces::new(&[7; 16], LIFETIME);
        Self {
            verifier: Verifier::new(nonces.clone(), 100),
            nonces,
            algorithms: algorithms.to_vec(),
            status: 401,
            said: Vec::new(),
            counts: Vec::new(),
        }
    }

    fn answer(&mut self, now: Duration, request: &Message<'_>) -> Vec<u8> {
        let (status, stale) = self.judge(now, request);
        self.said.push(status);
        let call_id = request.call_id().unwrap();
        let random = self.said.len() as u64;
        let nonce = self.nonces.issue(now, random, call_id);
        let challenge = Challenge {
            realm: "example.com",
            nonce: &nonce,
            stale,
        };
        let values: Vec<_> = self
            .algorithms
            .iter()
            .map(|&algorithm| challenge.value(algorithm))
            .collect();
        let asking = match self.status {
            401 => "WWW-Authenticate",
            _ => "Proxy-Authenticate",
        };
        let asked = values.iter().map(|value| (asking, &**value));
        let headers: Vec<_> = asked.filter(|_| status == self.status).collect();
        let from = PHONE.parse().unwrap();
        let mut reply = Vec::new();
        sip::write_reply(
            request,
            status,
            "Any",
            Some("r"),
            from,
            &headers,
            &mut reply,
        );
        reply
    }

    fn judge(&mut self, now: Duration, request: &Message<'_>) -> (u16, bool) {
        let shown = match self.status {
            401 => HeaderName::Authorization,
            _ => HeaderName::ProxyAuthorization,
        };
        let Some(shown) = request.header(shown) else {
            return (self.status, false);
        };
        let shown = Credentials::parse(shown).unwrap();
        let password = [b"secret-", shown.username].concat();
        let ha1 = Ha1::new(shown.algorithm, shown.username, b"example.com", &password);
        let call_id = request.call_id().unwrap();
        match self
            .verifier
            .verify(now, &shown, b"REGISTER", call_id, &ha1)
        {
            Verdict::Good => {
                self.counts.push(shown.nc);
                (200, false)
            }
            Verdict::Stale | Verdict::Replayed => (self.status, true),
            Verdict::Wrong => (self.status, false),
        }
    }
}

fn config(accounts: Accounts) -> PhonesConfig {
    let address: SocketAddr = PHONE.parse().unwrap();
    PhonesConfig {
        sockets: vec![address],
        transport: load::Transport::Udp,
        contacts: vec![address],
        registrar: REGISTRAR.parse().unwrap(),
        domain: "example.com".to_owned(),
        accounts,
        turns: Turns::Once,
        rate: Rate::Constant(1.0),
        stream: Stream::Even,
        expires: 400 * S,
        refresh: 0.5,
        retransmission: Retransmission::Rfc3261,
    }
}

/// One phone of a user with this password.
fn one(password: &str) -> Phones {
    let account = Account {
        user: "alice".to_owned(),
        password: password.to_owned(),
    };
    let config = config(Accounts::Listed(vec![account]));
    Phones::new(config, Rng::with_seed(1), Duration::ZERO)
}

/// Runs until the time has come.
fn run(phones: &mut Phones, registrar: &mut Registrar, until: Duration) {
    let mut out = Outbox::default();
    while let Some(now) = phones.deadline().filter(|next| *next <= until) {
        phones.handle_timeout(now, &mut out);
        while !out.is_empty() {
            let mut next = Outbox::default();
            for (socket, to, request) in out.datagrams() {
                let message = Message::parse(request, 64).unwrap();
                message.validate().unwrap();
                let answer = registrar.answer(now, &message);
                phones.handle_input(now, socket, to, &answer, &mut next);
            }
            out = next;
        }
    }
}

#[test]
fn a_phone_goes_on_with_its_nonce_until_it_is_stale() {
    for algorithm in [Algorithm::Md5, Algorithm::Sha256] {
        let (mut phones, mut registrar) = (one("secret-alice"), Registrar::new(&[algorithm]));
        run(&mut phones, &mut registrar, 900 * S);
        // At 1, 201, 401, 601 and 801 s.
        assert_eq!(registrar.said, [401, 200, 200, 200, 200, 200]);
        assert_eq!(registrar.counts, [1, 2, 3, 4, 5]);
        assert_eq!(phones.stats().challenges, 1);
        // After 1000 s the nonce is too old.
        run(&mut phones, &mut registrar, 1_300 * S);
        assert_eq!(registrar.said[6..], [200, 401, 200]);
        assert_eq!(registrar.counts[5..], [6, 1]);
        let stats = phones.stats();
        assert_eq!((stats.challenges, stats.failures()), (2, 0));
        assert_eq!((stats.offered, stats.carried), (7, 7));
        phones.leave(1_300 * S);
        run(&mut phones, &mut registrar, 1_400 * S);
        assert_eq!(registrar.counts[7..], [2]);
        assert!(phones.is_done() && phones.registered() == 0);
    }
}

#[test]
fn the_first_challenge_that_can_be_met_is() {
    let (mut phones, mut registrar) = (
        one("secret-alice"),
        Registrar::new(&[Algorithm::Sha256, Algorithm::Md5]),
    );
    registrar.status = 407;
    run(&mut phones, &mut registrar, S);
    assert_eq!(registrar.said, [407, 200]);
}

#[test]
fn a_wrong_password_is_shown_once() {
    let (mut phones, mut registrar) = (one("guess"), Registrar::new(&[Algorithm::Md5]));
    run(&mut phones, &mut registrar, 10 * S);
    assert_eq!(registrar.said, [401, 401]);
    assert_eq!(phones.stats().failed[&Failure::RegisterRejected(401)], 1);
}

#[test]
fn who_has_no_password_is_refused() {
    let accounts = Accounts::open(1);
    let mut phones = Phones::new(config(accounts), Rng::with_seed(1), Duration::ZERO);
    let mut registrar = Registrar::new(&[Algorithm::Md5]);
    run(&mut phones, &mut registrar, 10 * S);
    assert_eq!(registrar.said, [401]);
    let stats = phones.stats();
    assert_eq!(stats.failed[&Failure::RegisterRejected(401)], 1);
    assert_eq!(stats.challenges, 0);
}

#[test]
fn a_registrar_that_finds_every_nonce_stale_is_given_up() {
    let (mut phones, mut registrar) = (one("secret-alice"), Registrar::new(&[Algorithm::Md5]));
    registrar.nonces = Nonces::new(&[8; 16], LIFETIME);
    run(&mut phones, &mut registrar, 10 * S);
    assert_eq!(registrar.said, [401; 4]);
    assert_eq!(phones.stats().challenges, 3);
    assert_eq!(phones.stats().failed[&Failure::RegisterRejected(401)], 1);
}

#[test]
fn passwords_follow_a_pattern() {
    let accounts = Accounts::Numbered {
        users: 20,
        password: Some("secret-{user}".to_owned()),
    };
    let mut phones = Phones::new(config(accounts), Rng::with_seed(1), Duration::ZERO);
    let mut registrar = Registrar::new(&[Algorithm::Md5]);
    run(&mut phones, &mut registrar, 20 * S);
    assert_eq!(phones.registered(), 20);
    assert_eq!(
        (phones.stats().challenges, phones.stats().failures()),
        (20, 0)
    );
}

/// RFC 3261 §17.1: a request that is sent again is the same.
#[test]
fn credentials_are_sent_again_as_they_were() {
    let (mut phones, mut registrar) = (one("secret-alice"), Registrar::new(&[Algorithm::Md5]));
    let (mut first, mut shown, mut again) = <(Outbox, Outbox, Outbox)>::default();
    phones.handle_timeout(S, &mut first);
    let (socket, to, request) = first.datagrams().next().unwrap();
    let message = Message::parse(request, 64).unwrap();
    let challenge = registrar.answer(S, &message);
    phones.handle_input(S, socket, to, &challenge, &mut shown);
    phones.handle_timeout(2 * S, &mut again);
    let bytes = |out: &Outbox| out.datagrams().next().unwrap().2.to_vec();
    assert_eq!(bytes(&shown), bytes(&again));
}

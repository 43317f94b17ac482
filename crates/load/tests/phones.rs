//! Registering phones in virtual time.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::{net::SocketAddr, time::Duration};

use fastrand::Rng;
use load::{
    Accounts, Cohort, Failure, Outbox, Phones, PhonesConfig, Rate, Retransmission, Server,
    ServerConfig, Stream, Turns,
};
use sip::Message;

const REGISTRAR: &str = "192.0.2.1:5060";
const S: Duration = Duration::from_secs(1);

/// Phones, and a registrar that grants everything behind a network that loses some.
struct World {
    now: Duration,
    phones: Phones,
    registrar: Server,
    rng: Rng,
    loss: f64,
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn config(users: u32, per_s: f64) -> PhonesConfig {
    let sockets: Vec<_> = ["192.0.2.101:5070", "192.0.2.102:5070"]
        .map(address)
        .to_vec();
    PhonesConfig {
        contacts: sockets.clone(),
        sockets,
        transport: load::Transport::Udp,
        registrar: address(REGISTRAR),
        domain: "example.com".to_owned(),
        accounts: Accounts::open(users),
        turns: Turns::Once,
        rate: Rate::Constant(per_s),
        stream: Stream::Even,
        expires: 300 * S,
        refresh: 0.9,
        retransmission: Retransmission::Rfc3261,
    }
}

impl World {
    fn new(config: PhonesConfig, loss: f64) -> Self {
        let server = ServerConfig::prompt(address(REGISTRAR));
        Self {
            now: Duration::ZERO,
            phones: Phones::new(config, Rng::with_seed(1), Duration::ZERO),
            registrar: Server::new(server, Rng::with_seed(2), Duration::ZERO),
            rng: Rng::with_seed(3),
            loss,
        }
    }

    /// Runs until nothing more happens or the time has come.
    fn run(&mut self, until: Duration) {
        while let Some(next) = self.phones.deadline().filter(|next| *next <= until) {
            self.now = self.now.max(next);
            let mut requests = Outbox::default();
            self.phones.handle_timeout(self.now, &mut requests);
            for (socket, to, request) in requests.datagrams() {
                Message::parse(request, 64).unwrap().validate().unwrap();
                assert_eq!(to, address(REGISTRAR));
                self.deliver(socket, request);
            }
        }
        self.now = until;
    }

    fn deliver(&mut self, socket: usize, request: &[u8]) {
        let from = address("192.0.2.101:5070");
        let mut responses = Outbox::default();
        if self.rng.f64() >= self.loss {
            self.registrar
                .handle_input(self.now, from, request, &mut responses);
        }
        for (.., response) in responses.datagrams() {
            Message::parse(response, 64).unwrap().validate().unwrap();
            self.phones.handle_input(
                self.now,
                socket,
                address(REGISTRAR),
                response,
                &mut Outbox::default(),
            );
        }
    }
}

#[test]
fn phones_come_stay_and_leave() {
    let mut world = World::new(config(1_000, 100.0), 0.0);
    world.run(10 * S);
    assert_eq!(
        (world.phones.registered(), world.phones.turned()),
        (1_000, 1_000)
    );
    assert_eq!(world.phones.stats().carried, 1_000);
    // The first refresh comes after 90 % of 300 s.
    world.run(270 * S);
    assert_eq!(world.phones.stats().carried, 1_000);
    world.run(280 * S);
    assert_eq!(world.phones.stats().carried, 2_000);
    world.phones.leave(world.now);
    assert!(!world.phones.is_done());
    world.run(290 * S);
    assert!(world.phones.is_done());
    assert_eq!(world.phones.registered(), 0);
    let stats = world.phones.stats();
    assert_eq!(
        (stats.offered, stats.carried, stats.failures()),
        (3_000, 3_000, 0)
    );
    assert_eq!(world.registrar.stats().others, 3_000);
    world.run(10_000 * S);
    assert_eq!(world.phones.stats().offered, 3_000);
}

#[test]
fn stopped_phones_refresh_no_more() {
    let mut world = World::new(config(100, 100.0), 0.0);
    world.run(2 * S);
    world.phones.stop();
    assert!(world.phones.is_done());
    world.run(10_000 * S);
    assert_eq!(world.phones.stats().offered, 100);
    assert_eq!(world.phones.registered(), 100);
}

#[test]
fn registrations_are_counted_by_when_they_began_and_their_rate_can_change() {
    let drawn = PhonesConfig {
        turns: Turns::Drawn,
        ..config(50, 10.0)
    };
    let mut world = World::new(drawn, 0.0);
    world.phones.begin_cohort();
    world.run(10 * S);
    world.phones.begin_cohort();
    world.phones.set_rate(world.now, Rate::Constant(100.0));
    world.run(20 * S);
    let offered: Vec<_> = world.phones.cohorts().iter().map(|it| it.offered).collect();
    assert_eq!(offered, [100, 1000]);
    let is_granted =
        |it: &Cohort| it.carried == it.offered && it.answers.len() as u64 == it.carried;
    assert!(world.phones.cohorts().iter().all(is_granted));
}

#[test]
fn what_is_lost_is_sent_again() {
    let mut world = World::new(config(1_000, 100.0), 0.3);
    world.run(100 * S);
    let stats = world.phones.stats();
    assert_eq!(stats.carried + stats.failures(), 1_000);
    assert!(stats.carried >= 999, "{stats:?}");
    assert!((300..600).contains(&stats.retransmissions), "{stats:?}");
}

#[test]
fn silence_is_a_failure_and_the_phone_tries_again() {
    let mut world = World::new(config(1, 1.0), 1.0);
    world.run(34 * S);
    let silence = |world: &World| world.phones.stats().failed[&Failure::RegisterSilence];
    assert_eq!((silence(&world), world.phones.in_progress()), (1, 0));
    // RFC 3261 §17.1.2.2: at 0, 0.5, 1.5, 3.5 s and then every 4 s.
    assert_eq!(world.phones.stats().retransmissions, 10);
    world.loss = 0.0;
    world.run(64 * S);
    assert_eq!((world.phones.registered(), silence(&world)), (1, 1));
}

/// A phone whose connection was closed waited for the response until Timer F, and one that was registered noticed nothing.
#[test]
fn phones_whose_connection_is_lost_register_again() {
    let mut world = World::new(config(4, 4.0), 0.0);
    world.run(2 * S);
    assert_eq!(world.phones.registered(), 4);
    world.phones.handle_closed(world.now, 1);
    assert_eq!(world.phones.registered(), 2);
    world.loss = 1.0;
    world.run(33 * S);
    assert_eq!(world.phones.in_progress(), 2);
    world.phones.handle_closed(world.now, 1);
    assert_eq!(world.phones.in_progress(), 0);
    assert_eq!(
        world.phones.stats().failed[&Failure::RegisterClosed],
        2,
        "{:?}",
        world.phones.stats()
    );
    world.loss = 0.0;
    world.run(64 * S);
    assert_eq!(world.phones.registered(), 4);
}

/// What one phone does about a response of its registrar: the lines of the request that follows at
/// once.
fn answered(status: u16, headers: &[(&str, &str)]) -> (Phones, Option<String>) {
    let mut phones = Phones::new(config(1, 1.0), Rng::with_seed(1), Duration::ZERO);
    let (mut first, mut second) = (Outbox::default(), Outbox::default());
    phones.handle_timeout(S, &mut first);
    let (.., request) = first.datagrams().next().unwrap();
    let request = Message::parse(request, 64).unwrap();
    let mut response = Vec::new();
    let from = address("192.0.2.101:5070");
    sip::write_reply(
        &request,
        status,
        "Any",
        Some("r"),
        from,
        headers,
        &mut response,
    );
    phones.handle_input(S, 0, address(REGISTRAR), &response, &mut second);
    let follows = second
        .datagrams()
        .next()
        .map(|(.., bytes)| String::from_utf8(bytes.to_vec()).unwrap());
    (phones, follows)
}

/// When the next request is sent.
fn next_request(mut phones: Phones) -> Duration {
    let mut out = Outbox::default();
    loop {
        let due = phones.deadline().unwrap();
        phones.handle_timeout(due, &mut out);
        if !out.is_empty() {
            return due;
        }
    }
}

#[test]
fn too_short_a_time_is_raised() {
    let (phones, request) = answered(423, &[("Min-Expires", "600")]);
    let request = request.unwrap();
    assert!(request.contains(";expires=600\r\n") && request.contains("CSeq: 2 REGISTER"));
    assert_eq!((phones.stats().offered, phones.stats().failures()), (1, 0));
    let (phones, request) = answered(423, &[]);
    assert_eq!((request, phones.stats().failures()), (None, 1));
}

#[test]
fn a_refused_phone_waits_as_long_as_it_is_told() {
    let (phones, request) = answered(503, &[("Retry-After", "100")]);
    assert_eq!(request, None);
    assert_eq!(phones.stats().failed[&Failure::RegisterRejected(503)], 1);
    let due = next_request(phones);
    assert!((51 * S..=101 * S).contains(&due), "{due:?}");
}

#[test]
fn the_own_contact_tells_the_granted_time() {
    let others = "<sip:user-0@192.0.2.7:5070>;expires=7, <sip:user-0@192.0.2.101:5070>;expires=60";
    let (phones, _) = answered(200, &[("Contact", others), ("Expires", "1000")]);
    assert_eq!(next_request(phones), 55 * S);
    let (phones, _) = answered(200, &[("Expires", "1000")]);
    assert_eq!(next_request(phones), 901 * S);
}

#[test]
fn users_are_drawn_as_long_as_it_takes() {
    let config = PhonesConfig {
        turns: Turns::Drawn,
        ..config(3, 100.0)
    };
    let mut world = World::new(config, 0.0);
    world.run(100 * S);
    // Nobody stays, refreshes or leaves.
    let stats = world.phones.stats();
    assert!(stats.offered.abs_diff(10_000) <= 1, "{stats:?}");
    assert_eq!((stats.carried, stats.failures()), (stats.offered, 0));
    assert_eq!(
        (world.phones.registered(), world.phones.in_progress()),
        (0, 0)
    );
    world.phones.stop();
    assert!(world.phones.is_done());
    let offered = world.phones.stats().offered;
    world.run(200 * S);
    assert_eq!(world.phones.stats().offered, offered);
}

#[test]
fn a_test_of_sipstone_fails_after_2_s_and_comes_once() {
    let config = PhonesConfig {
        turns: Turns::Drawn,
        retransmission: Retransmission::Sipstone,
        ..config(1, 10.0)
    };
    let mut world = World::new(config, 1.0);
    world.run(10 * S);
    let stats = world.phones.stats();
    assert_eq!(stats.retransmissions, 0);
    assert_eq!(world.phones.in_progress(), 20);
    assert_eq!(stats.failed[&Failure::RegisterSilence], stats.offered - 20);
}

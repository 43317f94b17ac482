//! Phones and callers behind NATs: they register, call and hang up through an edge.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::{
    common::{Edge, PATIENCE, Settings},
    edge::{self, Counts, wait_until_idle},
    kamailio::Kamailio,
    network::{Home, Host},
    phones::Baresip,
    process::within,
    registrar,
    restart::crash_and_start,
};

/// What the homes reach.
const EDGE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 51, 100, 10)), 5060);
/// What stands behind the edge.
const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 11)), 5060);

/// A phone or a server, and where it runs.
struct Phone<'h> {
    host: &'h Host,
    baresip: Baresip,
}

impl<'h> Phone<'h> {
    fn start(host: &'h Host, address: SocketAddr, account: &str) -> Self {
        let baresip = host.run(|| Baresip::start_at(address, account));
        Self { host, baresip }
    }

    /// A user's phone at home, once it has registered through the edge.
    fn register(user: &str, home: &'h Home, seconds: u32) -> Self {
        let account = registrar::account(user, EDGE, seconds);
        let phone = Self::start(&home.phone, Home::PHONE, &account);
        phone.is_registered();
        phone
    }

    /// Waits until it is.
    fn is_registered(&self) {
        within(PATIENCE, "the phone's registration", || {
            self.times("200 OK") > 0
        });
    }

    fn press(&self, key: &str, parameter: &str) {
        self.host.run(|| self.baresip.press(key, parameter));
    }

    fn times(&self, words: &str) -> usize {
        self.baresip.times(words)
    }
}

/// A host with an edge before one server, and two homes.
fn public_and_homes() -> (Host, [Home; 2]) {
    let public = Host::new(&[EDGE.ip(), SERVER.ip()]);
    let homes = [1, 2].map(|number| Home::new(&public, EDGE.ip(), number));
    (public, homes)
}

fn start_edge(public: &Host) -> Edge {
    let mut settings = Settings::new();
    settings.sip = EDGE;
    edge::configure(&settings, "", &[SERVER]);
    public.run(|| settings.start())
}

/// A registrar of Alice and Bob, as the edge's server.
fn start_registrar(public: &Host) -> Edge {
    let mut settings = Settings::new();
    settings.sip = SERVER;
    let section = "store = \"file:location.db\"\nexpires = { min = \"1s\" }";
    registrar::configure(&settings, section, "");
    registrar::add_users(&settings, ["alice", "bob"].map(str::to_owned));
    public.run(|| settings.start())
}

/// Calls Bob twice: either hangs up, and the other learns of it.
fn call(alice: &Phone<'_>, bob: &Phone<'_>, mut meanwhile: impl FnMut()) {
    for (hanging_up, other) in [(alice, bob), (bob, alice)] {
        let calls = [alice, bob].map(|phone| phone.times("Call established"));
        let ended = other.times("session closed");
        alice.press("dial", "sip:bob@example.com");
        within(PATIENCE, "the call", || {
            [alice, bob].map(|phone| phone.times("Call established")) == calls.map(|it| it + 1)
        });
        meanwhile();
        hanging_up.press("hangup", "");
        within(PATIENCE, "the end of the call", || {
            other.times("session closed") == ended + 1
        });
    }
}

fn bound(public: &Host, registrar: &Edge) -> u64 {
    public.run(|| Counts::of(registrar).event("bound"))
}

#[test]
fn phones_at_home_call_each_other() {
    let (public, homes) = public_and_homes();
    let (registrar, edge) = (start_registrar(&public), start_edge(&public));
    let alice = Phone::register("alice", &homes[0], 600);
    let bob = Phone::register("bob", &homes[1], 600);
    call(&alice, &bob, || ());
    assert_eq!(bound(&public, &registrar), 2);
    public.run(|| wait_until_idle(&edge, PATIENCE));
    public.run(|| wait_until_idle(&registrar, PATIENCE));
}

#[test]
fn a_phone_whose_nat_forgot_it_is_called_once_it_has_registered_again() {
    let (public, homes) = public_and_homes();
    let (registrar, edge) = (start_registrar(&public), start_edge(&public));
    let alice = Phone::register("alice", &homes[0], 600);
    let bob = Phone::register("bob", &homes[1], 2);
    call(&alice, &bob, || ());
    homes[1].restart_router();
    let before = bound(&public, &registrar);
    // The first may have been on its way before.
    within(PATIENCE, "Bob's next registrations", || {
        bound(&public, &registrar) >= before + 2
    });
    call(&alice, &bob, || ());
    public.run(|| wait_until_idle(&edge, PATIENCE));
}

/// A node is killed and started again.
fn crash(public: &Host, node: &mut Option<Edge>) {
    let restart = |node| public.run(|| crash_and_start(node));
    *node = node.take().map(restart);
}

/// All nodes are killed in the middle of each call, and nobody registers after that.
#[test]
fn phones_at_home_do_not_notice_the_death_of_their_nodes() {
    let (public, homes) = public_and_homes();
    let mut registrar = Some(start_registrar(&public));
    let mut edge = Some(start_edge(&public));
    let alice = Phone::register("alice", &homes[0], 600);
    let bob = Phone::register("bob", &homes[1], 600);
    call(&alice, &bob, || crash(&public, &mut edge));
    call(&alice, &bob, || ());
    assert_eq!(bound(&public, registrar.as_ref().unwrap()), 2);
    call(&alice, &bob, || {
        crash(&public, &mut registrar);
        crash(&public, &mut edge);
    });
    call(&alice, &bob, || ());
    assert_eq!(bound(&public, registrar.as_ref().unwrap()), 0);
}

#[test]
fn a_server_hangs_up_on_a_caller_at_home() {
    let (public, homes) = public_and_homes();
    let account = format!("<sip:bob@{SERVER}>;regint=0;answermode=auto");
    let bob = Phone::start(&public, SERVER, &account);
    let mut edge = Some(start_edge(&public));
    let account = format!("<sip:alice@example.com>;regint=0;outbound=\"sip:{EDGE};lr\"");
    let alice = Phone::start(&homes[0].phone, Home::PHONE, &account);
    call(&alice, &bob, || ());
    call(&alice, &bob, || crash(&public, &mut edge));
    // Alice's NAT forgets her, and she says so in the call.
    call(&alice, &bob, || {
        homes[0].restart_router();
        reinvite(&alice, &bob);
    });
}

/// One end of a call sends a re-INVITE to the other.
fn reinvite(one: &Phone<'_>, other: &Phone<'_>) {
    let before = other.times("got re-INVITE");
    one.press("reinvite", "");
    within(PATIENCE, "the re-INVITE", || {
        other.times("got re-INVITE") == before + 1
    });
}

#[test]
fn a_caller_at_home_whose_nat_forgot_it_says_where_it_is() {
    let (public, homes) = public_and_homes();
    let (_registrar, edge) = (start_registrar(&public), start_edge(&public));
    let alice = Phone::register("alice", &homes[0], 600);
    let bob = Phone::register("bob", &homes[1], 600);
    call(&alice, &bob, || {
        homes[0].restart_router();
        reinvite(&alice, &bob);
        reinvite(&bob, &alice);
    });
    public.run(|| wait_until_idle(&edge, PATIENCE));
}

/// Its registrar keeps the edge's Path, and sends calls over it.
#[test]
fn phones_at_home_register_at_kamailio() {
    let (public, homes) = public_and_homes();
    let registrar = include_str!("scenarios/registrar.cfg");
    let _kamailio = public.run(|| Kamailio::start_at(SERVER, registrar));
    let edge = start_edge(&public);
    let alice = Phone::register("alice", &homes[0], 60);
    let bob = Phone::register("bob", &homes[1], 60);
    call(&alice, &bob, || ());
    public.run(|| wait_until_idle(&edge, PATIENCE));
}

#[test]
fn phones_of_one_home_call_each_other() {
    let (public, [home, _]) = public_and_homes();
    let (_registrar, edge) = (start_registrar(&public), start_edge(&public));
    let alice = Phone::register("alice", &home, 600);
    let account = registrar::account("bob", EDGE, 600);
    let bob = SocketAddr::new(Home::PHONE.ip(), 5070);
    let bob = Phone::start(&home.phone, bob, &account);
    bob.is_registered();
    call(&alice, &bob, || ());
    public.run(|| wait_until_idle(&edge, PATIENCE));
}

#[test]
fn a_phone_at_home_rings_and_is_not_answered() {
    let (public, homes) = public_and_homes();
    let (_registrar, edge) = (start_registrar(&public), start_edge(&public));
    let alice = Phone::register("alice", &homes[0], 600);
    let account =
        registrar::account("bob", EDGE, 600).replace("answermode=auto", "answermode=manual");
    let bob = Phone::start(&homes[1].phone, Home::PHONE, &account);
    bob.is_registered();
    for (number, (hanging_up, other)) in [(&alice, &bob), (&bob, &alice)].into_iter().enumerate() {
        alice.press("dial", "sip:bob@example.com");
        within(PATIENCE, "the call", || {
            bob.times("Incoming call from") > number
        });
        hanging_up.press("hangup", "");
        within(PATIENCE, "the end of the call", || {
            other.times("session closed") == 1
        });
        public.run(|| wait_until_idle(&edge, PATIENCE));
    }
}

//! Who checks those who call on a path of nodes: real nodes, callers with passwords, and every request that reaches a
//! server.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::time::Duration;

use location::{Aor, Subscriber};
use node::{Record, config::Mode, stats};
use sim::{
    Death, Event, Link, PartyId, Store, Watch, What,
    farm::{Farm, Users, domain},
};
use sip::{
    HeaderName, Message, Method,
    digest::{Algorithm, Ha1},
};
use topology::{Node, Path, Topology};

/// A tenth of the paper's nodes.
const TENTH: (f64, f64) = (570.0, 470.0);

fn s(s: u64) -> Duration {
    Duration::from_secs(s)
}

fn topology(nodes: &[(f64, f64)], paths: &[(&[usize], f64)]) -> Topology {
    let node = |(index, &(stateless, stateful)): (usize, &(f64, f64))| Node {
        name: format!("n{index}"),
        stateless,
        stateful,
    };
    let path = |(nodes, share): &(&[usize], f64)| Path {
        nodes: nodes.to_vec(),
        share: *share,
    };
    Topology {
        nodes: nodes.iter().enumerate().map(node).collect(),
        paths: paths.iter().map(path).collect(),
    }
}

/// The caller of each path, with this password.
fn users(topology: &Topology, check: Duration) -> Users {
    let (store, password) = (Store::default(), "secret".to_owned());
    for path in 0..topology.paths.len() {
        let realm = domain(path);
        let aor = Aor::new("caller", &realm).unwrap();
        let secret = password.as_bytes();
        let Ha1::Sha256(hash) = Ha1::new(Algorithm::Sha256, b"caller", realm.as_bytes(), secret)
        else {
            panic!()
        };
        let key = Subscriber::key_of(&aor);
        let subscriber = Subscriber {
            aor,
            ha1_md5: None,
            ha1_sha256: Some(hash),
        };
        let record = Record {
            value: subscriber.write().into(),
            expires: None,
        };
        store.insert(key.as_ref(), record);
    }
    Users {
        store,
        password,
        check,
    }
}

/// Looks at each INVITE that reaches a server.
#[derive(Debug, Default)]
struct Checks {
    servers: Vec<PartyId>,
    invites: u64,
    /// Those that a node behind the first has checked.
    left: u64,
    /// Those that nobody has checked.
    unchecked: u64,
}

impl Watch for Checks {
    fn see(&mut self, event: &Event<'_>) {
        let is_there = event.receiver.is_some_and(|id| self.servers.contains(&id));
        if !matches!(event.what, What::Arrived) || !is_there {
            return;
        }
        let Ok(message) = Message::parse(event.bytes, 128) else {
            return;
        };
        if message.method() != Some(Method::Invite) || message.to_tag() != Ok(None) {
            return;
        }
        let identity = message.header_values(HeaderName::PAssertedIdentity).count();
        let shows = message.header(HeaderName::ProxyAuthorization).is_some();
        let is_marked = |letter: u8| {
            let mut vias = message.vias().map_while(Result::ok);
            vias.any(|via| {
                let mark = via.find_param(&message, b"sy-check");
                mark.is_some_and(|(_, mark)| mark.first() == Some(&letter))
            })
        };
        self.invites += 1;
        self.left += u64::from(is_marked(b'o'));
        self.unchecked += u64::from(identity != 1 || shows || !is_marked(b'd'));
    }
}

fn proven(farm: &Farm) -> u64 {
    let of = |&node: &PartyId| {
        let shared = farm.world.edge(node).shared();
        shared.workers()[0].event(stats::Event::Proven)
    };
    farm.nodes().iter().map(of).sum()
}

fn watch(farm: &Farm) -> Checks {
    Checks {
        servers: farm.servers().to_vec(),
        ..Checks::default()
    }
}

/// With a network that loses nothing each call is checked once, and much of it behind the first node.
#[test]
fn each_call_is_checked_once() {
    let two = topology(&[TENTH; 2], &[(&[0, 1], 1.0)]);
    let check = Duration::from_micros(300);
    let link = Link::clean(Duration::from_millis(1));
    let users = users(&two, check);
    let mut farm = Farm::of_users(&two, |_| Mode::Dynamic, 1, link, Some(users)).unwrap();
    let mut watch = watch(&farm);
    farm.call(430.0, s(20));
    let stats = farm.stats(s(60), &mut watch);
    assert_eq!(watch.unchecked, 0);
    assert!(
        stats.carried > 8_000 && stats.carried == stats.offered,
        "{stats:?}"
    );
    assert_eq!(proven(&farm), stats.carried);
    assert!(watch.left > 400, "{watch:?}");
}

/// No request reaches a server unchecked, whatever the network loses and whichever node restarts.
#[test]
fn no_request_passes_unchecked() {
    let four = topology(
        &[TENTH; 4],
        &[(&[0, 1, 3], 2.0), (&[0, 2, 3], 1.0), (&[3, 1, 0], 1.0)],
    );
    let link = Link {
        loss: 0.02,
        duplication: 0.01,
        reordering: 0.05,
        held_back: Duration::from_millis(30),
        ..Link::clean(Duration::from_millis(1))
    };
    let users = users(&four, Duration::from_micros(300));
    let mut farm = Farm::of_users(&four, |_| Mode::Dynamic, 7, link, Some(users)).unwrap();
    let mut watch = watch(&farm);
    farm.call(400.0, s(40));
    for second in 0..75 {
        farm.stats(s(1), &mut watch);
        if second % 5 == 4 && second < 40 {
            let node = farm.nodes()[(second / 5) as usize % 4];
            farm.world.crash(node, Death::Process, &mut watch);
            farm.stats(Duration::from_millis(50), &mut watch);
            farm.world.restart(node, &mut watch).unwrap();
        }
    }
    assert!(watch.invites > 10_000 && watch.left > 500, "{watch:?}");
    assert_eq!(watch.unchecked, 0, "{watch:?}");
}

/// `cargo test -p sim --test checks -- --ignored --nocapture carried`
///
/// A check costs as much as passing a call on: what the linear program says of that, and what two nodes carry.
#[test]
#[ignore = "it prints what is carried"]
#[expect(clippy::print_stdout, reason = "it prints")]
fn carried() {
    let (pass, hold) = (1.0 / TENTH.0, 1.0 / TENTH.1);
    for check in [0.0, 0.25, 0.5, 1.0] {
        let check = check * pass;
        // The challenge costs the first node three messages more, of six.
        let first = (1.0 / (1.5 * pass), 1.0 / (0.5 * pass + hold + check));
        let second = (1.0 / pass, 1.0 / (hold + check));
        let told = topology(&[first, second], &[(&[0, 1], 1.0)]);
        let (best, fixed) = (told.best().unwrap(), told.fixed().unwrap());
        let two = topology(&[TENTH; 2], &[(&[0, 1], 1.0)]);
        let users = users(&two, Duration::from_secs_f64(check));
        let link = Link::clean(Duration::from_millis(1));
        let mut farm = Farm::of_users(&two, |_| Mode::Dynamic, 1, link, Some(users)).unwrap();
        farm.call(best.calls_per_s, s(24));
        farm.run(s(4));
        println!(
            "check {:.0} us: best {:.0}/s, fixed {:.0}/s, carried {:.0}/s",
            1e6 * check,
            best.calls_per_s,
            fixed.calls_per_s,
            farm.run(s(20))
        );
    }
}

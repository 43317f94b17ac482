//! Who guesses passwords or names.

use node::{Notice, stats::Dropped};

use super::*;
use crate::harness::{config, listener};

const MALLORY: &str = "203.0.113.66:5060";

impl World {
    /// A wrong password, shown from one address for a challenge that another got.
    fn guess(&mut self, challenged: &str, from: &str, user: &str, number: u32) -> Option<u16> {
        let call = format!("{challenged}-{user}-{number}");
        let ask = |cseq: u32| {
            of(request("REGISTER", challenged, &call), user, cseq).set("Call-ID", &call)
        };
        let challenge = self.send(&ask(1)).pop()?;
        assert_eq!(challenge.status(), 401);
        let shown = credentials(&challenge, user, "guess", 1);
        let guess = ask(2).with("Authorization", shown).from(from);
        Some(self.send(&guess).pop()?.status())
    }

    fn notices(&self) -> Vec<Notice> {
        self.cluster.shared.guard().take_notices().0
    }

    fn bans(&self) -> Vec<String> {
        let bans = self.cluster.shared.guard().bans(self.cluster.now);
        bans.iter().map(|ban| ban.source.to_string()).collect()
    }

    /// Registers bob with his password, from a phone of his.
    fn log_in(&mut self, from: &str) {
        let contact = format!("<sip:bob@{from}>");
        let call = format!("bob-{from}");
        let ask = |cseq| register(cseq, &contact).set("Call-ID", &call).from(from);
        let challenge = self.pass(&ask(1));
        let shown = credentials(&challenge, "bob", "secret", 1);
        let granted = self.pass(&ask(2).with("Authorization", shown));
        assert_eq!(granted.status(), 200);
    }
}

/// Wrong passwords were free: anybody could try as many as the store could look up.
#[test]
fn guesses_ban_their_source_for_a_time() {
    let mut world = World::new(location());
    world.add_user("bob");
    let users = (0..10).map(|number| {
        if number == 3 {
            "bob".into()
        } else {
            format!("user{number}")
        }
    });
    for (number, user) in (1..).zip(users.collect::<Vec<_>>()) {
        assert_eq!(world.guess(MALLORY, MALLORY, &user, number), Some(401));
    }
    assert_eq!(world.bans(), ["203.0.113.66"]);
    assert_eq!(world.cluster.event(Event::SourceBanned), 1);
    assert_eq!(world.guess(MALLORY, MALLORY, "bob", 11), None, "not heard");
    assert_eq!(world.cluster.dropped(Dropped::Banned), 1);
    world.log_in(PHONE);

    let notices = world.notices();
    assert_eq!(
        notices.len(),
        11,
        "one for each failed login, one for the ban"
    );
    let Notice::LoginFailed {
        from,
        user,
        realm,
        is_held_against,
    } = &notices[3]
    else {
        panic!("{:?}", notices[3]);
    };
    assert_eq!(
        (from.to_string(), &**user, &**realm),
        ("203.0.113.66".into(), "bob", "example.com")
    );
    assert!(is_held_against);
    world.cluster.wait(s(600));
    assert_eq!(world.bans(), [""; 0]);
    assert_eq!(world.guess(MALLORY, MALLORY, "bob", 12), Some(401));
}

/// Over UDP anybody can write anybody's address on a guess; the victim was banned for it. Then nobody was banned, but ten
/// such guesses had the user's right password unread wherever they had not logged in lately.
#[test]
fn who_has_not_got_the_challenge_has_guessed_nothing() {
    let mut world = World::new(location());
    world.add_user("bob");
    for number in 0..100 {
        assert_eq!(world.guess(MALLORY, PHONE, "bob", number), Some(401));
    }
    assert_eq!(world.bans(), [""; 0]);
    assert!(world.notices().is_empty());
    assert_eq!(world.cluster.event(Event::WrongCredentials), 0);
    world.log_in(DESK);
}

/// One phone with a wrong password banned the whole office behind the same address.
#[test]
fn one_wrong_password_bans_no_office() {
    let mut world = World::new(location());
    world.add_user("bob");
    world.log_in(PHONE);
    for number in 0..50 {
        assert!(world.guess(PHONE, PHONE, "carol", number).is_some());
    }
    assert_eq!(world.bans(), [""; 0]);
    world.log_in(PHONE);
}

/// Servers that pass REGISTERs on have one address for all users.
#[test]
fn a_server_is_not_banned() {
    let mut world = World::new(location());
    for number in 0..50 {
        assert_eq!(
            world.guess(ONE, ONE, &format!("user{number}"), number),
            Some(401)
        );
    }
    assert_eq!(world.bans(), [""; 0]);
}

/// A phone as an edge passes its requests on.
struct Behind {
    path: String,
    phone: &'static str,
}

impl Behind {
    fn edge(phone: &'static str) -> Self {
        let mut at_outer = config(&[ONE]);
        at_outer.listeners = vec![listener(OUTER)];
        let sent = Cluster::new(at_outer).pass(&request("REGISTER", phone, "path").from(phone));
        let path = sent.get("Path").to_owned();
        Self { path, phone }
    }

    /// The last answer to a login with this password that comes from an address.
    fn log_in(&self, world: &mut World, from: &str, password: &str, call: &str) -> Option<u16> {
        let ask = |cseq: u32| {
            let contact = format!("<sip:bob@{}>", self.phone);
            let ask = register(cseq, &contact).set("Call-ID", format!("{}-{call}", self.phone));
            ask.with("Path", &self.path).from(from)
        };
        let challenge = world.send(&ask(1)).pop()?;
        let shown = credentials(&challenge, "bob", password, 1);
        let answer = world.send(&ask(2).with("Authorization", shown)).pop()?;
        Some(answer.status())
    }
}

/// Ten wrong passwords through an edge banned it at a registrar that had seen no login through it yet, and so all
/// the edge's phones.
#[test]
fn an_edge_of_the_cluster_is_not_banned() {
    let (mallory, bob) = (Behind::edge(MALLORY), Behind::edge(PHONE));
    let mut world = World::new(location());
    world.add_user("bob");
    for number in 0..20 {
        let answer = mallory.log_in(&mut world, OUTER, "guess", &number.to_string());
        assert_eq!(answer, Some(401));
    }
    assert_eq!(world.bans(), ["203.0.113.66"]);
    let right = mallory.log_in(&mut world, OUTER, "secret", "right");
    assert_eq!(right, Some(401), "it is banned behind the edge, too");
    world.cluster.wait(s(10));
    assert_eq!(bob.log_in(&mut world, OUTER, "secret", "right"), Some(200));
}

/// Whoever is told the Path of a phone and guesses without the edge.
#[test]
fn a_path_hides_nobody() {
    let phone = Behind::edge(PHONE);
    let mut world = World::new(location());
    world.add_user("bob");
    for number in 0..20 {
        phone.log_in(&mut world, MALLORY, "guess", &number.to_string());
    }
    assert_eq!(world.bans(), ["203.0.113.66"]);
}

/// Whoever guessed at a user through an edge had the user's right password unread behind each edge: nobody had logged in
/// from a phone's address there.
#[test]
fn a_guess_through_an_edge_locks_nobody_out() {
    let (mallory, bob) = (Behind::edge(MALLORY), Behind::edge(PHONE));
    let mut world = World::new(location());
    world.add_user("bob");
    assert_eq!(bob.log_in(&mut world, OUTER, "secret", "first"), Some(200));
    for number in 0..20 {
        mallory.log_in(&mut world, OUTER, "guess", &number.to_string());
    }
    assert_eq!(bob.log_in(&mut world, OUTER, "secret", "later"), Some(200));
}

/// A thousand addresses could try a thousand times as many passwords of a user.
#[test]
fn a_user_is_not_guessed_from_many_addresses() {
    let mut world = World::new(location());
    world.add_user("bob");
    world.log_in(PHONE);
    for number in 0..200 {
        let from = format!("203.0.113.{number}:5060");
        assert_eq!(world.guess(&from, &from, "bob", number), Some(401));
    }
    assert_eq!(world.cluster.event(Event::WrongCredentials), 10);
    assert_eq!(world.cluster.event(Event::GuessRefused), 190);
    world.log_in(PHONE);
    world.cluster.wait(s(60));
    world.log_in(DESK);
}

/// A stranger who is told who exists needs to guess passwords only. Known and unknown users get the
/// same answers, after a few guesses and after many.
#[test]
fn unknown_users_look_like_known_ones() {
    let mut world = World::new(location());
    world.add_user("bob");
    let mut answers = |user: &str, network: u8| {
        let tries = (0..20).map(|number| {
            let from = format!("{network}.0.113.{number}:5060");
            let ask = |cseq| {
                let ask = of(request("REGISTER", &from, user), user, cseq);
                ask.set("Call-ID", number)
            };
            let challenge = world.pass(&ask(1));
            let shown = credentials(&challenge, user, "guess", 1);
            let wrong = world.pass(&ask(2).with("Authorization", shown));
            [challenge, wrong].map(|answer| shape(&answer, user))
        });
        tries.collect::<Vec<_>>()
    };
    assert_eq!(answers("bob", 198), answers("eve", 203));
    assert_eq!(world.cluster.event(Event::GuessRefused), 20);
}

/// An answer without what differs from request to request.
fn shape(answer: &Sent, user: &str) -> Vec<String> {
    let text = answer.message.to_string().replace(user, "USER");
    let lines = text.lines().filter(|line| !line.starts_with("Via"));
    let constant = |line: &str| {
        let end = ["nonce=", "tag="]
            .iter()
            .filter_map(|it| line.find(it))
            .min();
        line[..end.unwrap_or(line.len())].to_owned()
    };
    lines.map(constant).collect()
}

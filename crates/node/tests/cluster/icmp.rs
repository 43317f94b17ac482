//! What the network says of those where nobody listens, and what others say in its name.

use balance::Health;
use node::{
    Cause, Config,
    stats::{Dropped, Event},
};

use crate::{
    harness::{ALICE, Cluster, ONE, Sent, TRANSACTION_MAX, TWO, config, ms, probe, s, stateful},
    message::request,
};

fn probing(mut config: Config) -> Config {
    config.pools[0].probe = Some(probe());
    config
}

/// Lets all servers answer their probes for some seconds, and takes the news.
fn settle(cluster: &mut Cluster) {
    for _ in 0..300 {
        for probe in cluster.wait(ms(10)) {
            cluster.send(&probe.respond(200));
        }
    }
    assert_eq!(cluster.shared.take_changes().count(), 0);
}

fn causes(cluster: &Cluster) -> Vec<Cause> {
    cluster.shared.take_changes().map(|it| it.cause).collect()
}

fn health(cluster: &Cluster, server: &str) -> Health {
    cluster.member(server).server.health()
}

/// One forged ICMP error took a server out, although it quoted a datagram that was never sent.
#[test]
fn what_quotes_nothing_of_ours_is_ignored() {
    for workers in [1, 3] {
        let mut cluster = Cluster::with_workers(probing(config(&[ONE, TWO])), workers);
        settle(&mut cluster);
        let open = cluster.pass(&request("INVITE", ALICE, "open"));
        let (server, text) = (open.to, String::from_utf8(open.bytes.clone()).unwrap());
        let other = if server == ONE.parse().unwrap() {
            TWO
        } else {
            ONE
        };
        let closed = cluster.pass(&request("OPTIONS", ALICE, "closed"));
        cluster.pass(&closed.respond(200));
        let branch = open.branch();
        let guess = |from: usize, to: char| {
            let mut guess: Vec<char> = branch.chars().collect();
            guess[from] = if guess[from] == to { '1' } else { to };
            text.replace(branch, &guess.into_iter().collect::<String>())
        };
        let forged = [
            String::new(),
            "x".repeat(2_000),
            request("INVITE", ALICE, "open").to_string(),
            guess(branch.len() - 1, '0'),
            guess(12, '0'),
            guess(9, 'A'),
            guess(9, 'p'),
            text.replace("open@test", "shut@test"),
            String::from_utf8(closed.bytes).unwrap(),
            text[..text.find(branch).unwrap() + 20].to_owned(),
        ];
        let count = forged.len() as u64 + 1;
        for bytes in forged {
            assert!(
                cluster.quote(server, bytes.as_bytes()).is_empty(),
                "{bytes}"
            );
        }
        assert!(
            cluster
                .quote(other.parse().unwrap(), text.as_bytes())
                .is_empty()
        );
        assert_eq!(cluster.dropped(Dropped::UnmatchedQuote), count);
        assert_eq!(cluster.event(Event::Unreachable), 0);
        settle(&mut cluster);
    }
}

/// The quotation of a request makes a probe go out at once; the server is down when that fails, too.
#[test]
fn an_icmp_error_asks_with_a_probe() {
    for is_there in [true, false] {
        for workers in [1, 3] {
            let mut cluster = Cluster::with_workers(probing(config(&[ONE, TWO])), workers);
            settle(&mut cluster);
            let open = cluster.pass(&request("INVITE", ALICE, "open"));
            let server = open.to.to_string();
            let mut sent = cluster.unreachable(&server);
            sent.extend(cluster.wait(ms(20)));
            let probe = sent.iter().find(|sent| sent.method() == "OPTIONS").unwrap();
            let moved = sent.iter().find(|sent| sent.method() == "INVITE").unwrap();
            assert_eq!(probe.to, open.to);
            assert_ne!(moved.to, open.to, "the call goes on at once");
            assert_eq!(health(&cluster, &server), Health::Up);
            if is_there {
                cluster.send(&probe.respond(200));
                settle(&mut cluster);
            } else {
                cluster.unreachable(&server);
                assert_eq!(health(&cluster, &server), Health::Down);
                assert_eq!(causes(&cluster), [Cause::Unreachable]);
            }
        }
    }
}

#[test]
fn a_probe_that_stays_unanswered_confirms_an_icmp_error() {
    let mut cluster = Cluster::new(probing(config(&[ONE, TWO])));
    settle(&mut cluster);
    let open = cluster.pass(&request("INVITE", ALICE, "open"));
    let server = open.to.to_string();
    cluster.unreachable(&server);
    for _ in 0..110 {
        for probe in cluster.wait(ms(10)) {
            if probe.to != open.to {
                cluster.send(&probe.respond(200));
            }
        }
    }
    assert_eq!(health(&cluster, &server), Health::Down);
    assert_eq!(causes(&cluster), [Cause::ProbesUnanswered]);
}

/// Without probes there is nobody to ask. One call finds out when the server is back.
#[test]
fn without_probes_the_quotation_of_an_open_request_is_enough() {
    let mut cluster = Cluster::with_workers(config(&[ONE, TWO]), 3);
    let open = cluster.pass(&request("INVITE", ALICE, "open"));
    let server = open.to.to_string();
    assert_eq!(cluster.unreachable(&server)[0].method(), "INVITE");
    assert_eq!(causes(&cluster), [Cause::Unreachable]);
    assert!(
        cluster.unreachable(&server).is_empty(),
        "it is open there no more"
    );
    cluster.wait(s(1));
    let tried = cluster.pass(&request("INVITE", ALICE, "tried"));
    assert_eq!(tried.to, open.to);
    cluster.pass(&tried.respond(180));
    assert_eq!(causes(&cluster), [Cause::Answered]);
}

fn statuses(sent: &[Sent], to: &str) -> Vec<u16> {
    let to = to.parse().unwrap();
    sent.iter()
        .filter(|sent| sent.to == to)
        .map(|sent| sent.status())
        .collect()
}

/// A phone that had closed its port: the ICMP error was counted, and the caller waited for 64*T1.
/// RFC 3261 §16.9
#[test]
fn a_branch_where_nobody_listens_has_failed_at_once() {
    for workers in [1, 3] {
        let mut cluster = Cluster::with_workers(stateful(&[ONE]), workers);
        let invite = request("INVITE", ALICE, "call");
        let received = cluster.pass(&invite);
        let sent = cluster.unreachable(ONE);
        assert_eq!(
            statuses(&sent, ALICE),
            [500],
            "a 503 would be about the node"
        );
        assert_eq!(cluster.total(), (0, 0, 0.0));
        assert!(cluster.unreachable(ONE).is_empty());
        assert!(cluster.send(&invite.ack_of(&sent[0])).is_empty());
        assert!(cluster.send(&received.respond(180)).is_empty(), "too late");
        cluster.wait(TRANSACTION_MAX * 2);
        assert_eq!(cluster.held(), 0);
    }
}

#[test]
fn what_rings_or_was_cancelled_is_not_ended_by_an_icmp_error() {
    let mut cluster = Cluster::new(stateful(&[ONE]));
    let received = cluster.pass(&request("INVITE", ALICE, "call"));
    cluster.pass(&received.respond(180));
    assert!(statuses(&cluster.unreachable(ONE), ALICE).is_empty());
    assert_eq!(
        statuses(&cluster.send(&received.respond(200)), ALICE),
        [200]
    );
}

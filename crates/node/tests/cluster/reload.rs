//! Servers that come, go and change while calls are up.

use node::{Config, ReloadError, Transport};

use crate::{
    harness::{
        ALICE, Cluster, ONE, THREE, TRANSACTION_MAX, TWO, config, ms, pool, route, s, stateful,
    },
    message::request,
};

fn reload(cluster: &mut Cluster, config: Config) {
    cluster.shared.reload(config, cluster.now).unwrap();
    cluster.wait(ms(10));
}

#[test]
fn a_server_that_goes_keeps_its_calls() {
    let mut cluster = Cluster::with_workers(config(&[ONE, TWO]), 3);
    let mut calls: Vec<_> = (0..10)
        .map(|number| cluster.establish(&format!("call{number}")))
        .collect();
    assert_eq!(cluster.ledger(ONE), (5, 0, 0.0));
    reload(&mut cluster, config(&[TWO]));
    assert_eq!(cluster.ledger(ONE), (5, 0, 0.0));
    for number in 0..5 {
        let invite = request("INVITE", ALICE, &format!("new{number}"));
        assert_eq!(cluster.pass(&invite).to, TWO.parse().unwrap());
    }
    for call in &mut calls {
        assert_eq!(
            cluster.exchange(&call.caller.request("INFO"), 200).to,
            call.server
        );
        assert_eq!(
            cluster.exchange(&call.caller.request("BYE"), 200).to,
            call.server
        );
    }
    assert_eq!(cluster.ledger(ONE), (0, 0, 0.0));
    reload(&mut cluster, config(&[TWO]));
    cluster.wait(TRANSACTION_MAX);
    reload(&mut cluster, config(&[TWO]));
    let snapshot = cluster.shared.snapshot();
    assert!(
        snapshot
            .members()
            .iter()
            .flatten()
            .all(|m| m.address != ONE.parse().unwrap())
    );
}

/// A server that came with the second of two reloads got the number of one that went with the
/// first, and with it what its late transactions named: the INVITE below went to the new one,
/// which never saw it.
#[test]
fn a_number_is_not_used_again_while_transactions_name_it() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let invite = request("INVITE", ALICE, "call");
    let received = cluster.pass(&invite);
    let failure = cluster.pass(&received.respond(486));
    reload(&mut cluster, config(&[TWO]));
    reload(&mut cluster, config(&[TWO, THREE]));
    assert_eq!(cluster.pass(&invite.ack_of(&failure)).to, received.to);
    assert_eq!(cluster.pass(&invite).to, received.to);
    let number = |cluster: &Cluster, at| cluster.member(at).server.id();
    assert_ne!(number(&cluster, THREE), number(&cluster, ONE));
    cluster.wait(TRANSACTION_MAX + ms(20));
    let free = number(&cluster, ONE);
    reload(&mut cluster, config(&[TWO]));
    reload(&mut cluster, config(&[TWO, "10.0.0.4:5060"]));
    assert_eq!(number(&cluster, "10.0.0.4:5060"), free);
}

#[test]
fn a_server_that_goes_while_it_is_asked_may_answer() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let received = cluster.pass(&request("INVITE", ALICE, "call"));
    reload(&mut cluster, config(&[TWO]));
    assert_eq!(cluster.ledger(ONE), (1, 1, 1.75));
    cluster.pass(&received.respond(486));
    assert_eq!(cluster.ledger(ONE), (0, 0, 0.0));
}

#[test]
fn a_silent_server_that_goes_loses_its_call_to_the_others() {
    let mut cluster = Cluster::new(config(&[ONE]));
    cluster.pass(&request("INVITE", ALICE, "call"));
    reload(&mut cluster, config(&[TWO]));
    let sent = cluster.wait(s(2));
    assert_eq!((sent.len(), sent[0].to), (1, TWO.parse().unwrap()));
    assert_eq!(cluster.ledger(ONE), (0, 0, 0.0));
    assert_eq!(cluster.ledger(TWO), (1, 1, 1.75));
}

#[test]
fn a_server_that_comes_gets_calls() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let mut call = cluster.establish("call");
    reload(&mut cluster, config(&[ONE, TWO, THREE]));
    assert_eq!(cluster.ledger(ONE), (1, 0, 0.0));
    for number in 0..8 {
        cluster.pass(&request("INVITE", ALICE, &format!("new{number}")));
    }
    assert_eq!(cluster.ledger(TWO), (3, 3, 5.25));
    assert_eq!(cluster.ledger(THREE), (3, 3, 5.25));
    assert_eq!(
        cluster.exchange(&call.caller.request("BYE"), 200).to,
        call.server
    );
}

#[test]
fn a_server_that_comes_back_has_its_ledger() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let calls: Vec<_> = (0..4)
        .map(|number| cluster.establish(&format!("call{number}")))
        .collect();
    reload(&mut cluster, config(&[TWO]));
    reload(&mut cluster, config(&[ONE, TWO]));
    assert_eq!(cluster.ledger(ONE), (2, 0, 0.0));
    for mut call in calls {
        cluster.exchange(&call.caller.request("BYE"), 200);
    }
    assert_eq!(cluster.total(), (0, 0, 0.0));
}

/// A server that a reload gave another transport or name was reached as before until the node was started anew.
#[test]
fn a_server_is_reached_as_the_last_configuration_says() {
    let mut cluster = Cluster::new(config(&[ONE]));
    let mut call = cluster.establish("call");
    let mut secure = config(&[ONE]);
    let server = &mut secure.pools[0].servers[0];
    (server.transport, server.host) = (Transport::Tls, Some("one.example".into()));
    let before = cluster.member(ONE);
    reload(&mut cluster, secure);
    let after = cluster.member(ONE);
    assert_eq!(after.transport, Transport::Tls);
    assert_eq!(after.host.as_deref(), Some("one.example"));
    assert_eq!(after.server.id(), before.server.id());
    assert_eq!(cluster.ledger(ONE), (1, 0, 0.0));
    reload(&mut cluster, config(&[ONE]));
    cluster.exchange(&call.caller.request("BYE"), 200);
    assert_eq!(cluster.ledger(ONE), (0, 0, 0.0));
}

#[test]
fn a_capacity_changes_under_open_calls() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let received: Vec<_> = (0..4)
        .map(|number| cluster.pass(&request("INVITE", ALICE, &format!("call{number}"))))
        .collect();
    let mut changed = config(&[ONE, TWO]);
    changed.pools[0].servers[1].capacity = 3.0;
    changed.pools[0].costs = vec![("INVITE".to_owned(), 5.0)];
    reload(&mut cluster, changed);
    assert_eq!(cluster.total(), (4, 4, 7.0));
    for received in received {
        cluster.pass(&received.respond(486));
    }
    assert_eq!(
        cluster.total(),
        (0, 0, 0.0),
        "each closes with what it was opened with"
    );
    for number in 0..8 {
        cluster.pass(&request("INVITE", ALICE, &format!("new{number}")));
    }
    assert_eq!(cluster.ledger(ONE).0, 2);
    assert_eq!(cluster.ledger(TWO).0, 6);
}

#[test]
fn a_pool_gets_other_servers_and_all_else_stays() {
    let mut both = config(&[ONE, TWO]);
    both.pools.push(pool("other", &[THREE]));
    let mut cluster = Cluster::new(both);
    let mut calls = [cluster.establish("one"), cluster.establish("two")];
    for address in [TWO, THREE] {
        cluster.member(address).server.set_capacity(4.0);
    }
    let four = "10.0.0.14:5060";
    let servers = [TWO, four].map(|address| node::config::PoolServer {
        transport: Transport::Udp,
        address: address.parse().unwrap(),
        host: None,
        capacity: 1.0,
        cluster: None,
        priority: 0,
    });
    let set = cluster
        .shared
        .set_servers("app", servers.into(), cluster.now);
    assert_eq!(set, Ok(()));
    cluster.wait(ms(10));
    assert!(cluster.member(ONE).server.is_removed());
    for address in [TWO, THREE] {
        let capacity = cluster.member(address).server.capacity();
        assert_eq!(capacity, 4.0, "set by hand, as nobody said otherwise since");
    }
    for call in &mut calls {
        let server = cluster.exchange(&call.caller.request("BYE"), 200).to;
        assert_eq!(server, call.server);
    }
    assert_eq!(cluster.total(), (0, 0, 0.0));
    let snapshot = cluster.shared.snapshot();
    assert_eq!(snapshot.config().pools[1].servers.len(), 1);
    let ids = snapshot.pools()[0].pool().servers().iter();
    let [two, four] = [TWO, four].map(|address| cluster.member(address).server.id());
    assert!(ids.map(|server| server.id()).eq([two, four]));
}

#[test]
fn a_pool_goes_and_its_calls_end_in_peace() {
    let mut both = config(&[ONE]);
    both.pools.push(pool("old", &[TWO]));
    both.routes = vec![
        route(&[], &["old.example.com"], "old"),
        route(&[], &[], "app"),
    ];
    let mut cluster = Cluster::new(both);
    let mut invite = request("INVITE", ALICE, "call");
    invite.start = "INVITE sip:x@old.example.com SIP/2.0".to_owned();
    let mut call = cluster.establish_with(&invite);
    assert_eq!(call.server, TWO.parse().unwrap());
    let open = cluster.pass(&call.caller.request("INFO"));
    reload(&mut cluster, config(&[ONE]));
    cluster.pass(&open.respond(200));
    assert_eq!(
        cluster.exchange(&call.caller.request("BYE"), 200).to,
        call.server
    );
    assert_eq!(cluster.total(), (0, 0, 0.0));
}

#[test]
fn what_is_fixed_at_start_is_refused_whole() {
    let cluster = Cluster::new(config(&[ONE]));
    let mut changed = config(&[ONE, TWO]);
    changed.secret = b"another secret of thirty-two bytes or more"
        .to_vec()
        .into();
    assert_eq!(
        cluster.shared.reload(changed, cluster.now),
        Err(ReloadError::Fixed("node.secret"))
    );
    let mut changed = config(&[ONE, TWO]);
    changed.limits.sessions += 1;
    assert_eq!(
        cluster.shared.reload(changed, cluster.now),
        Err(ReloadError::Fixed("limits"))
    );
    assert_eq!(cluster.shared.snapshot().config().pools[0].servers.len(), 1);
}

#[test]
fn a_drained_server_gets_no_new_calls() {
    let mut cluster = Cluster::new(config(&[ONE, TWO]));
    let mut calls = [cluster.establish("one"), cluster.establish("two")];
    cluster.member(ONE).server.drain();
    for number in 0..5 {
        let invite = request("INVITE", ALICE, &format!("new{number}"));
        assert_eq!(cluster.pass(&invite).to, TWO.parse().unwrap());
    }
    for call in &mut calls {
        assert_eq!(
            cluster.exchange(&call.caller.request("INFO"), 200).to,
            call.server
        );
    }
    cluster.member(ONE).server.undrain(cluster.now);
    assert_eq!(
        cluster.pass(&request("INVITE", ALICE, "back")).to,
        ONE.parse().unwrap()
    );
}

/// Held transactions kept the timers that the node had started with.
#[test]
fn new_timers_are_those_of_held_transactions_too() {
    let mut cluster = Cluster::new(stateful(&[ONE]));
    let mut other = stateful(&[ONE]);
    other.timers.t1 = ms(100);
    reload(&mut cluster, other);
    cluster.pass(&request("INVITE", ALICE, "call"));
    assert!(cluster.wait(ms(90)).is_empty());
    assert_eq!(cluster.wait(ms(20)).len(), 1, "it is sent again");
}

//! The store's replica takes over (paper 001 §3.3): Redis behind sentinels, or a Redis cluster.

use std::{io, path::Path};

use testbed::Redis;

use super::{
    nodes::{Death, Node, missing_of, output, sipyard},
    run::{AFTER, BEFORE, PATIENCE, PER_S, Run, UsersFate},
    traffic::{Calls, Traffic, Users},
};
use crate::{load_program::Callees, process::pin, subject::CORE};

/// Users who are called; others register meanwhile.
const CALLED: u32 = 300;

pub(super) fn missing() -> Option<String> {
    missing_of(&["redis-server", "redis-cli"])
}

/// A server with these options, on the core of the programs.
pub(super) fn start(options: &[&str]) -> io::Result<Redis> {
    pinned(Redis::start(options)?)
}

fn pinned(redis: Redis) -> io::Result<Redis> {
    pin(redis.id(), CORE)?;
    Ok(redis)
}

/// `redis://` with these hosts.
fn store(servers: &[Redis]) -> String {
    let hosts: Vec<_> = servers.iter().map(|it| it.address.to_string()).collect();
    format!("redis://{}", hosts.join(","))
}

/// A primary with a replica, and three sentinels who watch them.
fn watched() -> io::Result<([Redis; 2], Vec<Redis>)> {
    let primary = start(&[])?;
    let port = primary.address.port().to_string();
    let replica = start(&["--replicaof", "127.0.0.1", &port])?;
    replica.until("the replica is in step", |it| {
        it.ask("INFO replication").contains("master_link_status:up")
    })?;
    let sentinels = (0..3)
        .map(|_| sentinel(&port))
        .collect::<io::Result<Vec<_>>>()?;
    for sentinel in &sentinels {
        sentinel.until("the sentinels know each other and the replica", |it| {
            it.ask("INFO sentinel").contains("slaves=1,sentinels=3")
        })?;
    }
    Ok(([primary, replica], sentinels))
}

fn sentinel(port: &str) -> io::Result<Redis> {
    pinned(Redis::sentinel(&format!(
        "sentinel monitor location 127.0.0.1 {port} 2\nsentinel down-after-milliseconds location 1000\n"
    ))?)
}

pub(super) fn sentinel_killed(round: u64) -> io::Result<Run> {
    sentinel_run(round, Death::Killed)
}

pub(super) fn sentinel_silent(round: u64) -> io::Result<Run> {
    sentinel_run(round, Death::Silent)
}

fn sentinel_run(round: u64, death: Death) -> io::Result<Run> {
    let (servers, sentinels) = watched()?;
    let mut run = registrar(round, &store(&sentinels), || death.strike(servers[0].id()))?;
    let is_promoted = servers[1].ask("ROLE").contains("master");
    run.note = format!("the replica was promoted: {is_promoted}");
    Ok(run)
}

pub(super) fn cluster_killed(round: u64) -> io::Result<Run> {
    let options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];
    let servers = (0..6)
        .map(|_| start(&options))
        .collect::<io::Result<Vec<_>>>()?;
    let hosts: Vec<_> = servers.iter().map(|it| it.address.to_string()).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let create = [
        "--cluster-yes",
        "--cluster",
        "create",
        "--cluster-replicas",
        "1",
    ];
    // It wants its options last.
    let arguments = [&create[1..3], &hosts, &create[3..], &create[..1]].concat();
    output(Path::new("/usr/bin/redis-cli"), &arguments)?;
    for server in &servers {
        server.until("the cluster stands", |it| {
            let info = it.ask("CLUSTER INFO");
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:6")
        })?;
        server.until("the replicas are in step", |it| {
            !it.ask("INFO replication")
                .contains("master_link_status:down")
        })?;
    }
    registrar(round, &store(&servers), || {
        Death::Killed.strike(servers[0].id())
    })
}

/// A registrar with this store, at which users register and are called while the store fails.
fn registrar(round: u64, store: &str, fail: impl FnOnce()) -> io::Result<Run> {
    let node = Node::start(&format!(
        "[registrar]\nauth = false\ndomains = [\"example.com\", \"example.net\"]\nstore = \"{store}\"\n\
         [[route]]\nto = \"registrar\"\n"
    ))?;
    let fail = || {
        fail();
        Ok(())
    };
    users_through(round, &node, store, fail, |_, ()| Ok(String::new()))
}

/// Users register at a node and are called through it while something fails; `then` something may come.
pub(super) fn users_through<T>(
    round: u64,
    node: &Node,
    store: &str,
    fail: impl FnOnce() -> io::Result<T>,
    then: impl FnOnce(&mut Traffic, T) -> io::Result<String>,
) -> io::Result<Run> {
    let phones = Callees::start(2, &[])?;
    let mut traffic = Traffic::new(round);
    let users = |domain, number, per_s| Users {
        registrar: node.sip,
        contacts: phones.addresses.clone(),
        domain,
        number,
        per_s,
    };
    traffic.register(users("example.com", CALLED, 300.0))?;
    traffic.run_until_registered(PATIENCE)?;
    let calls = traffic.call(&Calls {
        users: CALLED,
        ..Calls::through(node.sip, PER_S)
    })?;
    let number = ((BEFORE + AFTER).as_secs_f64() * PER_S) as u32;
    let registers = traffic.register(users("example.net", number, PER_S))?;
    traffic.run(BEFORE)?;
    let failed = traffic.now();
    let failing = fail()?;
    traffic.run(AFTER)?;
    let note = then(&mut traffic, failing)?;
    traffic.run_until_registered(PATIENCE)?;
    traffic.finish(PATIENCE)?;
    let acknowledged = traffic.registered();
    Ok(Run {
        calls: traffic.record(calls).fate(failed),
        users: Some(UsersFate {
            registers: traffic.record(registers).fate(failed),
            acknowledged,
            gone: acknowledged.saturating_sub(kept(store)?),
        }),
        note,
    })
}

/// How many users' bindings a store has.
fn kept(store: &str) -> io::Result<u64> {
    let said = sipyard(&["store", "check", "--store", store])?;
    let number = said
        .split_once('(')
        .and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
    number.ok_or_else(|| io::Error::other(format!("not as expected: {said}")))
}

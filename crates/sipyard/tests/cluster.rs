//! Nodes of several processes as one: they find each other through Redis, come, leave and are killed.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]
#![allow(
    clippy::disallowed_methods,
    reason = "how soon a dead node is gone is measured on the real clock"
)]

mod common;

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use common::{
    Edge, Settings, eventually,
    load::{Serving, call, load},
};
use serde_json::Value;
use testbed::Redis;

const LEASE: Duration = Duration::from_secs(2);

/// A node that takes its servers from what others announce, and does not probe them.
fn edge(redis: &Redis, pool: &str, more: &str) -> Edge {
    edge_of(redis, "\"pool:core\"", pool, more)
}

fn edge_of(redis: &Redis, servers: &str, pool: &str, more: &str) -> Edge {
    let settings = Settings::new();
    settings.write(
        &format!("servers = {servers}\nprobe = false\nslow_start = \"0s\"\n{pool}"),
        &format!("cluster.store = \"redis://{}\"\n{more}", redis.address),
    );
    settings.start()
}

/// A node that announces itself, with these sections besides.
fn core(redis: &Redis, more: &str) -> Edge {
    announced(redis, "core", more)
}

/// A node that announces itself under this name.
fn announced(redis: &Redis, name: &str, more: &str) -> Edge {
    let settings = Settings::new();
    let (sip, admin) = (settings.sip, settings.admin);
    settings.write_whole(&format!(
        r#"node = {{ name = "core", secret = "file:secret", workers = 1 }}
listen = [ {{ transport = "udp", address = "{sip}" }} ]
admin = {{ address = "{admin}", socket = "admin.sock" }}
{more}
[cluster]
store = "redis://{redis}"
announce = "{name}"
lease = "{lease}s"
"#,
        redis = redis.address,
        lease = LEASE.as_secs(),
    ));
    let core = settings.start();
    core.wait_for_log(&format!("as a server of pool:{name}"));
    core
}

/// A node before a server.
fn relay(redis: &Redis, server: &Serving) -> Edge {
    let server = server.address;
    core(
        redis,
        &format!("route = [ {{ to = \"app\" }} ]\npool.app.servers = [\"{server}\"]\n"),
    )
}

/// A node at which users register and are found.
fn registrar(redis: &Redis, store: &str) -> Edge {
    core(redis, &registers(store))
}

/// The sections of a registrar with this store.
fn registers(store: &str) -> String {
    format!(
        "route = [ {{ to = \"registrar\" }} ]\n[registrar]\nauth = false\n\
         domains = [\"example.com\"]\nstore = \"{store}\"\n"
    )
}

fn servers(edge: &Edge) -> Vec<SocketAddr> {
    let status = edge.status();
    let servers = status["pools"][0]["servers"].as_array().unwrap().iter();
    let mut servers: Vec<SocketAddr> = servers
        .map(|server| server["address"].as_str().unwrap().parse().unwrap())
        .collect();
    servers.sort_unstable();
    servers
}

fn await_servers(edge: &Edge, nodes: &[&Edge]) {
    let mut expected: Vec<_> = nodes.iter().map(|node| node.sip()).collect();
    expected.sort_unstable();
    eventually("the edge's servers", || servers(edge) == expected);
}

/// How many of 20 calls are carried; with these options besides.
fn carried(edge: &Edge, arguments: &[&str]) -> u64 {
    let options = [&["--rate", "100", "--calls", "20"], arguments].concat();
    let output = call(edge.sip(), &options);
    let calls: Value = serde_json::from_slice(&output.stdout).unwrap();
    calls["carried"].as_u64().unwrap()
}

#[test]
fn nodes_that_come_are_used_and_dead_ones_leave_within_their_lease() {
    let mut redis = Redis::start(&[]).unwrap();
    let server = Serving::start(&[]);
    let edge = edge(&redis, "", "");
    assert!(servers(&edge).is_empty());
    let (_, status, _) = edge.ctl(&["status"]);
    assert!(status.contains("no node announces itself"), "{status}");

    let (mut first, second) = (relay(&redis, &server), relay(&redis, &server));
    await_servers(&edge, &[&first, &second]);
    assert_eq!(carried(&edge, &[]), 20);

    first.signal("KILL");
    first.wait();
    let killed = Instant::now();
    await_servers(&edge, &[&second]);
    // It was heard of a moment ago at the latest; edges look twenty times a second.
    let busy = Duration::from_secs(1);
    assert!(killed.elapsed() < LEASE + busy, "{:?}", killed.elapsed());
    let mut third = relay(&redis, &server);
    await_servers(&edge, &[&second, &third]);
    assert_eq!(carried(&edge, &[]), 20);

    // Without the store all stays, also when it comes back empty.
    redis.kill();
    edge.wait_for_log("pool:core: the store is unavailable");
    assert_eq!(servers(&edge).len(), 2);
    assert_eq!(carried(&edge, &[]), 20);
    let redis = Redis::start_at(redis.address, &[]).unwrap();
    for node in [&second, &third] {
        let address = node.sip().to_string();
        eventually("they announce themselves again", || {
            redis.ask("GET sipyard:pool:core").contains(&address)
        });
    }
    await_servers(&edge, &[&second, &third]);

    third.signal("TERM");
    let told = Instant::now();
    await_servers(&edge, &[&second]);
    assert!(told.elapsed() < LEASE, "{:?}", told.elapsed());
    third.wait();
}

/// Registers 20 users whose calls go to `phones`.
fn register(edge: &Edge, phones: &Serving) {
    let arguments = format!(
        "register --to {} --users 20 --rate 100 --contact {} --stay",
        edge.sip(),
        phones.address
    );
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let registered = load(&arguments);
    assert_eq!(registered.status.code(), Some(0), "{registered:?}");
}

#[test]
fn what_concerns_a_user_meets_at_one_registrar() {
    let redis = Redis::start(&[]).unwrap();
    let phones = Serving::start(&[]);
    // It is not its own server.
    let edge = edge_of(
        &redis,
        r#"[ { address = "pool:a", cluster = "a" }, { address = "pool:b", cluster = "b" } ]"#,
        "policy = \"user-hash\"",
        "cluster.announce = \"a\"",
    );
    // Neither knows what the other does, so nobody may be sent to the other, however busy the one is.
    let nodes = ["a", "b"].map(|name| announced(&redis, name, &registers("memory")));
    await_servers(&edge, &[&nodes[0], &nodes[1]]);
    register(&edge, &phones);
    assert_eq!(carried(&edge, &["--users", "20"]), 20);
}

#[test]
fn users_are_found_when_the_registrar_they_used_is_killed() {
    let redis = Redis::start(&[]).unwrap();
    let phones = Serving::start(&[]);
    let edge = edge(&redis, "policy = \"user-hash\"", "");
    let store = format!("redis://{}", redis.address);
    let (mut first, second) = (registrar(&redis, &store), registrar(&redis, &store));
    await_servers(&edge, &[&first, &second]);
    register(&edge, &phones);
    assert_eq!(carried(&edge, &["--users", "20"]), 20);
    let placed = |server: &Value| server["placed"].as_u64().unwrap();
    let status = edge.status();
    let mut servers = status["pools"][0]["servers"].as_array().unwrap().iter();
    assert!(servers.all(|it| placed(it) > 0), "{status}");

    first.signal("KILL");
    first.wait();
    await_servers(&edge, &[&second]);
    assert_eq!(carried(&edge, &["--users", "20"]), 20);
    assert_eq!(phones.end()[0]["calls"], 40);
}

#[test]
fn users_are_found_while_the_store_is_down() {
    let mut redis = Redis::start(&[]).unwrap();
    let phones = Serving::start(&[]);
    let edge = edge(&redis, "", "");
    let node = registrar(&redis, &format!("redis://{}", redis.address));
    await_servers(&edge, &[&node]);
    register(&edge, &phones);
    redis.kill();
    assert_eq!(carried(&edge, &["--users", "20"]), 20);
    node.wait_for_log("the store is unavailable");
}

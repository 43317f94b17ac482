//! The store's replica takes over (paper 001 §3.3): Redis behind sentinels, or a Redis cluster.

use std::{
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::Path,
    time::Duration,
};

use tempfile::TempDir;

use super::{
    nodes::{Death, Node, missing_of, output, sipyard, until, written},
    run::{AFTER, BEFORE, PATIENCE, PER_S, Run, UsersFate},
    traffic::{Calls, Traffic, Users},
};
use crate::{load_program::Callees, process::Process, subject::CORE};

const REDIS: &str = "/usr/bin/redis-server";

/// Users who are called; others register meanwhile.
const CALLED: u32 = 300;

pub(super) fn missing() -> Option<String> {
    missing_of(&["redis-server", "redis-cli"])
}

/// A process of redis-server that keeps nothing on disk.
pub(super) struct Redis {
    pub(super) process: Process,
    port: u16,
    _folder: TempDir,
}

impl Redis {
    pub(super) fn start(arguments: &[&str]) -> io::Result<Self> {
        Self::start_in(tempfile::tempdir()?, arguments)
    }

    fn start_in(folder: TempDir, arguments: &[&str]) -> io::Result<Self> {
        let port = free_port()?;
        let (at, text) = (folder.path().display().to_string(), port.to_string());
        let own = ["--bind", "127.0.0.1", "--port", &text, "--dir", &at];
        let process = Process::start(CORE, Path::new(REDIS), &[arguments, &own].concat())?;
        let redis = Self {
            process,
            port,
            _folder: folder,
        };
        until("Redis answers", || {
            Ok(redis.ask("PING").starts_with("+PONG"))
        })?;
        Ok(redis)
    }

    /// One that does for itself.
    pub(super) fn alone() -> io::Result<Self> {
        Self::start(&["--save", ""])
    }

    pub(super) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The beginning of the answer to an inline command; empty without one.
    fn ask(&self, command: &str) -> String {
        let ask = || -> io::Result<String> {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
            stream.set_read_timeout(Some(Duration::from_secs(1)))?;
            write!(stream, "{command}\r\n")?;
            let mut answer = [0; 8192];
            let length = stream.read(&mut answer)?;
            Ok(String::from_utf8_lossy(&answer[..length]).into_owned())
        };
        ask().unwrap_or_default()
    }
}

/// A port whose like 10,000 higher is free too, as a cluster's server takes both.
fn free_port() -> io::Result<u16> {
    loop {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        if port < 55_000 && TcpListener::bind((Ipv4Addr::LOCALHOST, port + 10_000)).is_ok() {
            return Ok(port);
        }
    }
}

/// `redis://` with these hosts.
fn store(servers: &[Redis]) -> String {
    let hosts: Vec<_> = servers.iter().map(Redis::address).collect();
    format!("redis://{}", hosts.join(","))
}

/// A primary with a replica, and three sentinels who watch them.
fn watched() -> io::Result<([Redis; 2], Vec<Redis>)> {
    let primary = Redis::alone()?;
    let port = primary.port.to_string();
    let replica = Redis::start(&["--save", "", "--replicaof", "127.0.0.1", &port])?;
    until("the replica is in step", || {
        Ok(replica
            .ask("INFO replication")
            .contains("master_link_status:up"))
    })?;
    let sentinels = (0..3)
        .map(|_| sentinel(&port))
        .collect::<io::Result<Vec<_>>>()?;
    for sentinel in &sentinels {
        until("the sentinels know each other and the replica", || {
            let known = sentinel.ask("INFO sentinel");
            Ok(known.contains("slaves=1,sentinels=3"))
        })?;
    }
    Ok(([primary, replica], sentinels))
}

fn sentinel(port: &str) -> io::Result<Redis> {
    let folder = tempfile::tempdir()?;
    let text = format!(
        "sentinel monitor location 127.0.0.1 {port} 2\nsentinel down-after-milliseconds location 1000\n"
    );
    let file = written(folder.path(), "sentinel.conf", &text)?;
    Redis::start_in(folder, &[&file, "--sentinel"])
}

pub(super) fn sentinel_killed(round: u64) -> io::Result<Run> {
    sentinel_run(round, Death::Killed)
}

pub(super) fn sentinel_silent(round: u64) -> io::Result<Run> {
    sentinel_run(round, Death::Silent)
}

fn sentinel_run(round: u64, death: Death) -> io::Result<Run> {
    let (servers, sentinels) = watched()?;
    let mut run = registrar(round, &store(&sentinels), || {
        death.strike(&servers[0].process)
    })?;
    let is_promoted = servers[1].ask("ROLE").contains("master");
    run.note = format!("the replica was promoted: {is_promoted}");
    Ok(run)
}

pub(super) fn cluster_killed(round: u64) -> io::Result<Run> {
    let options = [
        "--save",
        "",
        "--cluster-enabled",
        "yes",
        "--cluster-node-timeout",
        "2000",
    ];
    let start = |_| Redis::start(&options);
    let servers = (0..6).map(start).collect::<io::Result<Vec<_>>>()?;
    let hosts: Vec<_> = servers.iter().map(Redis::address).collect();
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
        until("the cluster stands", || {
            let info = server.ask("CLUSTER INFO");
            Ok(info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:6"))
        })?;
        until("the replicas are in step", || {
            let info = server.ask("INFO replication");
            Ok(!info.contains("master_link_status:down"))
        })?;
    }
    registrar(round, &store(&servers), || {
        Death::Killed.strike(&servers[0].process)
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

/// Where a store is that needs no name.
pub(super) fn address_of(redis: &Redis) -> String {
    format!("redis://{}", redis.address())
}

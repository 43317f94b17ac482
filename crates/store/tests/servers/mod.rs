//! Redis servers that work together.

use std::process::Command;

use testbed::Redis;

pub(crate) fn start(options: &[&str]) -> Redis {
    Redis::start(options).unwrap()
}

/// Three servers that are one cluster.
pub(crate) fn cluster() -> Vec<Redis> {
    let servers: Vec<Redis> = (0..3)
        .map(|_| start(&["--cluster-enabled", "yes"]))
        .collect();
    let output = Command::new("redis-cli")
        .args(["--cluster", "create", "--cluster-yes"])
        .args(servers.iter().map(|it| it.address.to_string()))
        .output()
        .expect("redis-cli came with redis-server");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    for server in &servers {
        let stands = |it: &Redis| it.ask("CLUSTER INFO").contains("cluster_state:ok");
        server.until("the cluster stands", stands).unwrap();
    }
    servers
}

/// A master, its replica, and a sentinel that promotes the one for the other.
pub(crate) fn sentinel() -> (Vec<Redis>, Redis) {
    let master = start(&[]);
    let port = master.address.port().to_string();
    let replica = start(&["--replicaof", "127.0.0.1", &port]);
    let sentinel = Redis::sentinel(&format!(
        "sentinel monitor m 127.0.0.1 {port} 1\nsentinel down-after-milliseconds m 500\n\
         sentinel failover-timeout m 2000\n"
    ))
    .unwrap();
    let knows_replica = |it: &Redis| it.ask("INFO sentinel").contains("slaves=1");
    sentinel
        .until("the sentinel knows the replica", knows_replica)
        .unwrap();
    (vec![master, replica], sentinel)
}

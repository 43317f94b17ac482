//! Every node of a cluster is replaced while calls go on.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::{
    env,
    net::TcpListener,
    process::{Child, Stdio},
};

use common::{
    Settings, eventually,
    load::{Serving, load},
    manager::{Manager, Running},
    sipyard,
};
use serde_json::Value;
use testbed::Redis;

const USERS: &str = "50";
const ROUNDS: usize = 3;

/// A node, and who starts it.
struct Node {
    settings: Settings,
    manager: Manager,
    running: Running,
}

impl Node {
    fn start(settings: Settings) -> Self {
        let mut manager = Manager::new(&settings);
        let running = manager.start(&settings, "");
        manager.wait_for("READY=1");
        Self {
            settings,
            manager,
            running,
        }
    }

    /// Ends the process by a signal, and starts another one.
    fn replace(&mut self, signal: &str) {
        self.running.signal(signal);
        assert!(self.running.wait().success());
        match signal {
            "TERM" => self.manager.forget(),
            _ => self.manager.heard.clear(),
        }
        self.running = self.manager.start(&self.settings, "");
        self.manager.wait_for("READY=1");
    }

    /// Waits until the manager keeps its socket.
    fn await_socket(&mut self) {
        while self.manager.kept.is_empty() {
            self.manager.hear();
        }
    }

    /// The states of its pool's servers.
    fn servers(&self) -> Vec<String> {
        let socket = self.settings.path().with_file_name("admin.sock");
        let mut ctl = sipyard();
        ctl.arg("ctl").arg("--admin").arg(socket);
        let output = ctl.args(["status", "--json"]).output().unwrap();
        let status: Value = serde_json::from_slice(&output.stdout).unwrap();
        let servers = status["pools"][0]["servers"].as_array().unwrap();
        let state = |server: &Value| server["state"].as_str().unwrap().to_owned();
        servers.iter().map(state).collect()
    }

    /// Whether two servers take calls.
    fn has_two(&self) -> bool {
        self.servers().iter().filter(|state| *state == "up").count() == 2
    }
}

fn edge(redis: &Redis) -> Node {
    let settings = Settings::new();
    settings.write(
        "servers = \"pool:core\"\npolicy = \"user-hash\"\nslow_start = \"0s\"",
        &format!("cluster.store = \"redis://{}\"", redis.address),
    );
    Node::start(settings)
}

fn registrar(redis: &Redis, lease: &str) -> Node {
    let settings = Settings::new();
    let (sip, admin, redis) = (settings.sip, settings.admin, redis.address);
    settings.write_whole(&format!(
        r#"node = {{ name = "core", secret = "file:secret", workers = 1 }}
listen = [ {{ transport = "udp", address = "{sip}" }} ]
admin = {{ address = "{admin}", socket = "admin.sock" }}
route = [ {{ to = "registrar" }} ]
registrar = {{ auth = false, domains = ["example.com"], store = "redis://{redis}" }}
cluster = {{ store = "redis://{redis}", announce = "core", lease = "{lease}" }}
"#
    ));
    Node::start(settings)
}

fn callers(edge: &Node, rate: &str) -> Child {
    let to = edge.settings.sip.to_string();
    let mut caller = sipyard();
    caller.args(["load", "call", "--json", "-", "--to", &to, "--rate", rate]);
    caller.args(["--users", USERS, "--holding", "500ms", "--duration", "60s"]);
    caller.stdout(Stdio::piped()).spawn().unwrap()
}

/// `ROLLING_RATE` is the rate at each edge, in calls per second.
#[test]
fn every_node_of_a_cluster_is_replaced_without_a_failed_call() {
    let rate = env::var("ROLLING_RATE").unwrap_or_else(|_| "100".to_owned());
    let mut redis = Redis::start(&[]).unwrap();
    let phones = Serving::start(&[]);
    let mut edges = [edge(&redis), edge(&redis)];
    let mut registrars = [registrar(&redis, "3s"), registrar(&redis, "3s")];
    let are_up = |edges: &[Node; 2]| edges.iter().all(Node::has_two);
    eventually("both registrars are used", || are_up(&edges));
    edges.iter_mut().for_each(Node::await_socket);
    let (to, contact) = (
        edges[0].settings.sip.to_string(),
        phones.address.to_string(),
    );
    let registered = load(&[
        "register",
        "--to",
        &to,
        "--users",
        USERS,
        "--rate",
        "100",
        "--contact",
        &contact,
        "--stay",
    ]);
    assert!(registered.status.success(), "{registered:?}");
    let callers: Vec<Child> = edges.iter().map(|edge| callers(edge, &rate)).collect();
    for _ in 0..ROUNDS {
        for registrar in &mut registrars {
            registrar.replace("TERM");
            eventually("the new registrar is used", || are_up(&edges));
        }
        for edge in &mut edges {
            edge.replace("USR2");
            edge.await_socket();
        }
        redis.replace().unwrap();
        eventually("the new edges use both registrars", || are_up(&edges));
    }
    for mut caller in callers {
        common::load::signal(caller.id(), "INT");
        let output = caller.stdout.take().unwrap();
        let told: Value = serde_json::from_reader(output).unwrap();
        caller.wait().unwrap();
        assert_eq!(told["failed"], 0, "{told:#}");
        assert!(told["carried"].as_u64().unwrap() > 50, "{told:#}");
    }
}

/// A registrar that was told to stop while the store was being replaced did not say so a second time. It stayed in the
/// pools of the edges, and callers got its 503.
#[test]
fn a_node_leaves_although_the_store_is_being_replaced() {
    let mut redis = Redis::start(&[]).unwrap();
    let edge = edge(&redis);
    let mut registrars = [registrar(&redis, "60s"), registrar(&redis, "60s")];
    eventually("both registrars are used", || edge.has_two());
    redis.end().unwrap();
    let no_store = TcpListener::bind(redis.address).unwrap();
    let leaving = &mut registrars[0];
    leaving.running.signal("TERM");
    leaving.manager.wait_for("STOPPING=1");
    // Each node tries every 100 ms.
    for _ in 0..20 {
        no_store.accept().unwrap();
    }
    drop(no_store);
    redis.start_again().unwrap();
    eventually("the edge knows that one has left", || {
        edge.servers().len() == 1
    });
    assert!(leaving.running.wait().success());
}

//! The node of a test, and what it counts.

use std::{net::SocketAddr, time::Duration};

use serde_json::Value;

use crate::{
    common::{Edge, Settings},
    process::within,
};

/// Writes the configuration of a node with two workers before `servers`; `pool` holds other keys
/// of their pool, and sections after it.
pub(crate) fn configure(settings: &Settings, pool: &str, servers: &[SocketAddr]) {
    let Settings { sip, admin, .. } = settings;
    let servers: Vec<String> = servers
        .iter()
        .map(|server| format!("{{ address = \"{server}\" }}"))
        .collect();
    let servers = servers.join(", ");
    settings.write_whole(&format!(
        r#"node = {{ name = "edge", secret = "file:secret", workers = 2 }}
listen = [ {{ transport = "udp", address = "{sip}" }} ]
route = [ {{ to = "app" }} ]
admin = {{ address = "{admin}", socket = "admin.sock" }}
[pool.app]
servers = [ {servers} ]
{pool}
"#
    ));
}

/// Starts a node that [`configure`] configures.
pub(crate) fn start(pool: &str, servers: &[SocketAddr]) -> Edge {
    let settings = Settings::new();
    configure(&settings, pool, servers);
    settings.start()
}

/// A node's counts at one moment.
pub(crate) struct Counts(Value);

impl Counts {
    /// The counts of now.
    pub(crate) fn of(edge: &Edge) -> Self {
        Self(edge.status())
    }

    /// A number of a server, such as "placed".
    pub(crate) fn of_server(&self, address: SocketAddr, name: &str) -> u64 {
        let address = address.to_string();
        let server = self
            .servers()
            .find(|server| server["address"] == address.as_str());
        server.map_or(0, |server| server[name].as_u64().unwrap())
    }

    /// A server's state, such as "up".
    pub(crate) fn state(&self, address: SocketAddr) -> String {
        let address = address.to_string();
        let server = self
            .servers()
            .find(|server| server["address"] == address.as_str());
        server
            .map_or("gone", |server| server["state"].as_str().unwrap())
            .to_owned()
    }

    /// Open calls of all servers.
    pub(crate) fn calls(&self) -> u64 {
        self.servers()
            .map(|server| server["calls"].as_u64().unwrap())
            .sum()
    }

    /// Open transactions of all servers.
    pub(crate) fn transactions(&self) -> u64 {
        self.servers()
            .map(|server| server["transactions"].as_u64().unwrap())
            .sum()
    }

    /// Open sessions of all workers.
    pub(crate) fn sessions(&self) -> u64 {
        self.workers()
            .map(|worker| worker["sessions_active"].as_u64().unwrap())
            .sum()
    }

    /// An event of the workers since the start, such as "rebuilt".
    pub(crate) fn event(&self, name: &str) -> u64 {
        self.workers()
            .map(|worker| worker[name].as_u64().unwrap())
            .sum()
    }

    /// Answers of the node's own with a status.
    pub(crate) fn replies(&self, status: &str) -> u64 {
        self.workers()
            .map(|worker| worker["replies"][status].as_u64().unwrap())
            .sum()
    }

    /// Nothing is open: exactly zero everywhere.
    pub(crate) fn are_zero(&self) -> bool {
        let work: f64 = self
            .servers()
            .map(|server| server["work"].as_f64().unwrap())
            .sum();
        let open_at_workers: u64 = self
            .workers()
            .map(|worker| worker["transactions"].as_u64().unwrap())
            .sum();
        self.calls() + self.transactions() + self.sessions() + open_at_workers == 0 && work == 0.0
    }

    fn servers(&self) -> impl Iterator<Item = &Value> {
        let pools = self.0["pools"].as_array().unwrap().iter();
        pools
            .flat_map(|pool| pool["servers"].as_array().unwrap())
            .chain(self.0["removed"].as_array().unwrap())
    }

    fn workers(&self) -> impl Iterator<Item = &Value> {
        self.0["workers"].as_array().unwrap().iter()
    }
}

impl std::fmt::Display for Counts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

/// Waits until nothing is open, and shows what is if that doesn't come.
pub(crate) fn wait_until_idle(edge: &Edge, limit: Duration) {
    within_counts(edge, limit, "nothing open", Counts::are_zero);
}

/// Waits until the counts are right, and shows them if they never are.
pub(crate) fn within_counts(
    edge: &Edge,
    limit: Duration,
    what: &str,
    mut holds: impl FnMut(&Counts) -> bool,
) {
    let mut last = None;
    let right = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        within(limit, what, || holds(last.insert(Counts::of(edge))));
    }));
    if let Err(panic) = right {
        if let Some(last) = last {
            eprintln!("--- counts ---\n{last}\n---");
        }
        std::panic::resume_unwind(panic);
    }
}

//! The parts of a configuration that an import fills.

use std::net::SocketAddr;

use crate::notes::At;

/// The program that the texts are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Kamailio 5 and 6.
    Kamailio,
    /// OpenSIPS 2 and 3.
    Opensips,
}

/// The parts of the configuration.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) listeners: Vec<Listener>,
    pub(crate) pools: Vec<Pool>,
    pub(crate) routes: Vec<Route>,
    pub(crate) registrar: Option<Registrar>,
    /// None: the script has no dispatcher, or says nothing, so probes are as usual.
    pub(crate) probe: Option<Probe>,
    pub(crate) answer_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listener {
    pub(crate) transport: String,
    pub(crate) address: SocketAddr,
    pub(crate) advertise: Option<String>,
}

/// The probes of all pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    Off,
    On {
        interval_s: u64,
        fall: Option<u64>,
        rise: Option<u64>,
    },
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) to: String,
    pub(crate) users: Option<String>,
    pub(crate) hosts: Vec<String>,
    pub(crate) is_stateful: bool,
    /// It is written as a comment.
    pub(crate) is_hint: bool,
}

impl Route {
    pub(crate) fn to(pool: String, users: Option<String>) -> Self {
        Self {
            to: pool,
            users,
            hosts: Vec::new(),
            is_stateful: false,
            is_hint: false,
        }
    }
}

/// The section `[registrar]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Registrar {
    pub(crate) domains: Vec<String>,
    pub(crate) has_passwords: bool,
    pub(crate) min_s: Option<u64>,
    pub(crate) default_s: Option<u64>,
    pub(crate) max_s: Option<u64>,
    pub(crate) contacts: Option<u64>,
}

/// A pool.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub(crate) name: String,
    pub(crate) policy: &'static str,
    /// Why it has that policy.
    pub(crate) reason: String,
    pub(crate) servers: Vec<Server>,
}

#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) at: At,
    /// `IP:PORT` or `NAME:PORT`.
    pub(crate) address: String,
    pub(crate) capacity: f64,
    /// 0 is used first.
    pub(crate) priority: usize,
    pub(crate) is_off: bool,
}

impl Server {
    pub(crate) fn new(at: At, address: String) -> Self {
        Self {
            at,
            address,
            capacity: 1.0,
            priority: 0,
            is_off: false,
        }
    }
}

//! Every way of failing over that paper 001 §3 names, on real programs: what fails, who notices, what it costs.

mod client;
mod dns;
mod fate;
mod hang;
mod hosts;
mod nodes;
mod page;
mod pool;
mod redis;
mod run;
mod takeover;
mod traffic;

use std::io;

use serde::{Deserialize, Serialize};

use self::{hang::Hang, run::Run};
pub(crate) use page::page;

const ROUNDS: u64 = 3;

/// All that was measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Results {
    ways: Vec<Way>,
    hangs: Vec<Hang>,
    left_out: Vec<String>,
}

/// One way of failing over.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Way {
    name: String,
    /// The programs, and what failed.
    what: String,
    runs: Vec<Run>,
}

struct Plan {
    name: &'static str,
    what: &'static str,
    missing: fn() -> Option<String>,
    run: fn(u64) -> io::Result<Run>,
}

const PLANS: [Plan; 12] = [
    Plan {
        name: "client's second proxy, Kamailio",
        what: "Kamailio with two next hops (fr_timer 2 s, OPTIONS every second) before two Sipyard nodes with one \
               secret; the first is killed",
        missing: client::missing,
        run: client::kamailio,
    },
    Plan {
        name: "client's second proxy, Sipyard",
        what: "a Sipyard edge with a pool of two Sipyard nodes; one is killed",
        missing: nothing,
        run: client::edge_before_killed,
    },
    Plan {
        name: "client's second proxy, silent",
        what: "the same, but one hangs (SIGSTOP) in place of refusing",
        missing: nothing,
        run: client::edge_before_silent,
    },
    Plan {
        name: "DNS SRV",
        what: "a Sipyard edge with `servers = \"srv:...\"`, NSD with two SRV records of priorities 1 and 2; the first \
               proxy is killed",
        missing: dns::missing,
        run: dns::killed,
    },
    Plan {
        name: "DNS SRV, silent",
        what: "the same, but the first proxy hangs (SIGSTOP)",
        missing: dns::missing,
        run: dns::silent,
    },
    Plan {
        name: "store's replica, Sentinel",
        what: "a registrar, Redis with a replica and three sentinels (down after 1 s); the primary is killed",
        missing: redis::missing,
        run: redis::sentinel_killed,
    },
    Plan {
        name: "store's replica, Sentinel, silent",
        what: "the same, but the primary hangs (SIGSTOP)",
        missing: redis::missing,
        run: redis::sentinel_silent,
    },
    Plan {
        name: "store's replica, Redis cluster",
        what: "a registrar, three primaries with a replica each (cluster-node-timeout 2 s); one primary is killed",
        missing: redis::missing,
        run: redis::cluster_killed,
    },
    Plan {
        name: "IP take-over, host cut off",
        what: "two edges with one secret on an address of keepalived (VRRP, advertised every second), two servers, \
               each in a network namespace; the first edge's link is cut",
        missing: takeover::missing,
        run: takeover::cut_off,
    },
    Plan {
        name: "IP take-over, edge killed",
        what: "the same, but the first edge's process is killed and its host lives (keepalived asks `sipyard ctl \
               status` every second)",
        missing: takeover::missing,
        run: takeover::killed,
    },
    Plan {
        name: "pool membership",
        what: "an edge with `servers = \"pool:core\"` before two registrars that announce themselves in Redis (lease \
               3 s); one is killed, later a third one starts",
        missing: redis::missing,
        run: pool::killed,
    },
    Plan {
        name: "pool membership, silent",
        what: "the same, but one hangs (SIGSTOP)",
        missing: redis::missing,
        run: pool::silent,
    },
];

/// Measures the ways whose names hold `only`, or all.
pub(crate) fn measure(only: Option<&str>) -> io::Result<Results> {
    let is_wanted = |name: &str| only.is_none_or(|only| name.contains(only));
    let mut results = Results::default();
    for plan in PLANS.iter().filter(|plan| is_wanted(plan.name)) {
        let measured = match (plan.missing)() {
            Some(reason) => Err(reason),
            None => plan.measure().map_err(|error| error.to_string()),
        };
        match measured {
            Ok(way) => results.ways.push(way),
            Err(reason) => results.left_out.push(format!("{}: {reason}", plan.name)),
        }
    }
    for (name, measure) in hang::PLANS {
        match redis::missing().or_else(dns::missing) {
            _ if !is_wanted(name) => {}
            Some(reason) => results.left_out.push(format!("{name}: {reason}")),
            None => results.hangs.push(measure()?),
        }
    }
    Ok(results)
}

impl Plan {
    fn measure(&self) -> io::Result<Way> {
        let mut runs = Vec::new();
        for round in 1..=ROUNDS {
            let run = (self.run)(round)?;
            println!("{}, round {round}: {run:?}", self.name);
            runs.push(run);
        }
        Ok(Way {
            name: self.name.to_owned(),
            what: self.what.to_owned(),
            runs,
        })
    }
}

fn nothing() -> Option<String> {
    None
}

//! The ledger counted anew, to be held beside the one that is kept.

use std::collections::BTreeMap;

use balance::ServerId;

use crate::{calls::Life, node::Node};

/// What one worker has open on one server.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Open {
    /// Open calls.
    pub calls: u64,
    /// Open transactions.
    pub transactions: u64,
    /// Their cost; 1.0 is a BYE.
    pub work: f64,
}

impl Node {
    /// What this worker has open on each server, counted from its sessions and transactions. The
    /// sums over all workers are what the servers' ledgers say at any time; this looks at every
    /// session and is meant for checks.
    pub fn recount(&self) -> BTreeMap<ServerId, Open> {
        let mut servers: BTreeMap<ServerId, Open> = BTreeMap::new();
        let work = &self.desks.proxy.work;
        for session in work.calls.iter() {
            if session.is_call && session.life == Life::Active {
                servers.entry(session.server).or_default().calls += 1;
            }
        }
        for (_, request) in work.iter() {
            if request.is_charged {
                let open = servers.entry(request.server()).or_default();
                open.transactions += 1;
                open.work += request.cost.relative();
            }
        }
        servers
    }
}

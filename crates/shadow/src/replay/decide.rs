//! Sets a node's decisions beside those that were taken.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use balance::Policy;
use sip::Message;

use super::{Ledger, Replay};
use crate::{
    HEADERS_MAX,
    report::{Difference, Outcome},
};

/// Differences that are told one by one.
const DIFFERENCES_MAX: usize = 10_000;

impl Replay<'_> {
    pub(super) fn note_ledgers(&mut self) {
        self.before.clear();
        let snapshot = self.shared.snapshot();
        for member in snapshot.members().iter().flatten() {
            let server = &member.server;
            let work = server.work();
            let ledger = (server.calls(), server.transactions(), (work * 1e3) as u64);
            self.before
                .insert(member.address, (ledger, server.capacity()));
        }
    }

    pub(super) fn decide(&mut self, index: usize, would: SocketAddr) {
        let history = self.history;
        let call = &history.calls[index];
        match call.server {
            Some(taken) if taken == would => self.outcome.same += 1,
            Some(taken) => {
                self.outcome.other += 1;
                let why = self.why(taken, would);
                *self.outcome.reasons.entry(why).or_default() += 1;
                if self.outcome.differences.len() < DIFFERENCES_MAX {
                    let ledger = |of| self.before.get(&of).map(|(ledger, _)| *ledger);
                    let request = Message::parse(&call.request, HEADERS_MAX);
                    let id = request
                        .ok()
                        .and_then(|it| it.call_id().ok().map(<[u8]>::to_vec));
                    self.outcome.differences.push(Difference {
                        call_id: String::from_utf8_lossy(&id.unwrap_or_default()).into_owned(),
                        at: self.now,
                        taken,
                        would,
                        why,
                        taken_ledger: ledger(taken),
                        would_ledger: ledger(would),
                    });
                }
            }
            None => self.outcome.only_would += 1,
        }
    }

    /// Why the node chose a server in place of another.
    fn why(&self, taken: SocketAddr, would: SocketAddr) -> &'static str {
        let (Some(there), Some(here)) = (self.before.get(&taken), self.before.get(&would)) else {
            return "the server that had it is in no pool";
        };
        let snapshot = self.shared.snapshot();
        let has = |pool: &&node::PoolView| {
            let mut servers = pool.config().servers.iter();
            servers.any(|server| server.address == would)
        };
        let Some(pool) = snapshot.pools().iter().find(has) else {
            return "another pool";
        };
        if !pool
            .config()
            .servers
            .iter()
            .any(|server| server.address == taken)
        {
            return "another pool";
        }
        let member = snapshot
            .members()
            .iter()
            .flatten()
            .find(|it| it.address == taken);
        if member.is_some_and(|member| !member.server.is_eligible(self.now)) {
            return "the server that had it would not be in use";
        }
        let load =
            |((calls, transactions, work), capacity): &(Ledger, f64)| match pool.config().policy {
                Policy::Tlwl | Policy::P2c => Some(*work as f64 / capacity),
                Policy::Tjsq => Some(*transactions as f64 / capacity),
                Policy::Cjsq => Some(*calls as f64 / capacity),
                _ => None,
            };
        match (load(here), load(there)) {
            (Some(here), Some(there)) if here < there => "it had less open",
            (Some(here), Some(there)) if here == there => "both had as much open: drawn",
            _ => "the policy does not compare what is open",
        }
    }

    pub(super) fn finish(mut self) -> Outcome {
        let history = self.history;
        let mut seconds: BTreeMap<(bool, SocketAddr, u64), usize> = BTreeMap::new();
        for (call, play) in history.calls.iter().zip(&self.plays) {
            let second = call.at.as_secs();
            for (would, server) in [(false, call.server), (true, play.placed)] {
                let Some(server) = server else { continue };
                let row = self.outcome.servers.entry(server).or_default();
                let count = if would {
                    &mut row.would
                } else {
                    &mut row.taken
                };
                *count += 1;
                *seconds.entry((would, server, second)).or_default() += 1;
            }
        }
        for ((would, server, _), count) in seconds {
            let row = self.outcome.servers.entry(server).or_default();
            let peak = if would {
                &mut row.would_peak
            } else {
                &mut row.taken_peak
            };
            *peak = (*peak).max(count);
        }
        let span = self.now.max(Duration::from_millis(1));
        for (address, queue) in &self.servers {
            if let Some(row) = self.outcome.servers.get_mut(address) {
                row.busy_per_mille = (queue.busy.as_nanos() * 1_000 / span.as_nanos()) as u64;
            }
        }
        self.outcome.calls = history.calls.len();
        let answered = self.outcome.refused.values().sum::<usize>();
        let placed = self.outcome.same + self.outcome.other + self.outcome.only_would;
        let silent = history.calls.len().saturating_sub(placed + answered);
        if silent > 0 {
            self.outcome.refused.insert(0, silent);
        }
        self.outcome.taken_times.sort_unstable();
        self.outcome.would_times.sort_unstable();
        let measured = history.times.methods();
        self.outcome.measured = measured
            .map(|(name, idle, any)| (name.to_owned(), idle, any))
            .collect();
        self.outcome.span = span;
        self.outcome
    }
}

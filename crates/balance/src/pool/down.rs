//! Placement on servers that are down, so that calls find out when they are back.

use std::sync::{Arc, atomic::Ordering::Relaxed};
use std::time::Duration;

use super::{Arrival, Pool};
use crate::server::Server;
use crate::standing::Ineligible;
use crate::{hash, nanos};

/// How often a pool without an eligible server lets a call try one that is down.
pub const LAST_RESORT_EVERY: Duration = Duration::from_millis(250);

impl Pool {
    /// Places an arrival on a server without probes whose next try is due.
    pub(super) fn retry(&self, now: u64, arrival: &Arrival<'_>) -> Option<&Arc<Server>> {
        let is_due = |server: &Server| server.standing().is_retry_due(now);
        if !self.servers.iter().any(|server| is_due(server)) {
            return None;
        }
        let mut servers = self.may_hold(arrival);
        let server = servers.find(|server| is_due(server) && server.standing().retry(now))?;
        server.ledger().place(arrival.call, arrival.cost);
        Some(server)
    }

    /// Places an arrival on any server that is down, if it is time for one.
    pub(super) fn place_at_last(
        &self,
        now: u64,
        arrival: &Arrival<'_>,
        rng: &mut fastrand::Rng,
    ) -> Option<&Arc<Server>> {
        let is_down =
            |server: &&Arc<Server>| server.standing().eligibility(now) == Err(Ineligible::Down);
        let down = || {
            self.tiers()
                .flat_map(|tier| tier.may_hold(arrival))
                .filter(is_down)
        };
        let count = down().count();
        let due = self.last_resort_at.load(Relaxed);
        if count == 0 || due > now {
            return None;
        }
        let next = now.saturating_add(nanos(LAST_RESORT_EVERY));
        let taken = self
            .last_resort_at
            .compare_exchange(due, next, Relaxed, Relaxed);
        let server = taken.ok().and_then(|_| down().nth(rng.usize(..count)))?;
        server.ledger().place(arrival.call, arrival.cost);
        Some(server)
    }

    /// The servers of the key's cluster, down or not, but for those to avoid.
    fn may_hold(&self, arrival: &Arrival<'_>) -> impl Iterator<Item = &Arc<Server>> {
        let hash = hash::fnv1a(arrival.key);
        let draw = |cluster: u64| hash::draw(hash, cluster);
        let there = self
            .clusters
            .iter()
            .zip(&self.servers)
            .filter(|(_, server)| !server.is_removed());
        let cluster = there
            .map(|(cluster, _)| *cluster)
            .max_by(|one, other| draw(*one).total_cmp(&draw(*other)));
        let servers = self.servers.iter().enumerate();
        let servers = servers.filter(move |(index, _)| !self.is_foreign(cluster, *index));
        let avoid = arrival.avoid;
        servers
            .map(|(_, server)| server)
            .filter(move |server| !avoid.contains(&server.id()))
    }
}

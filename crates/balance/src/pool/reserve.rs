//! A pool and its reserve, such as the servers of the second priority of a DNS name. RFC 2782

use std::sync::Arc;
use std::time::Duration;

use super::Pool;
use crate::ServerId;
use crate::server::Server;

impl Pool {
    /// Gives the pool a reserve: a pool that gets an arrival if no server here may get it.
    #[must_use]
    pub fn with_reserve(mut self, reserve: Self) -> Self {
        self.reserve = Some(Box::new(reserve));
        self
    }

    /// The servers in their order, then those of the reserve.
    pub fn all_servers(&self) -> impl Iterator<Item = &Arc<Server>> {
        self.tiers().flat_map(|tier| &tier.servers)
    }

    /// Whether a server that can replace this one is eligible: another one of its cluster.
    pub fn has_another(&self, now: Duration, than: ServerId) -> bool {
        let place = self.servers.iter().position(|server| server.id() == than);
        let cluster = place.and_then(|index| self.clusters.get(index).copied());
        let mut others = self.servers.iter().enumerate();
        let is_here = others.any(|(index, server)| {
            let replaces = server.id() != than && !self.is_foreign(cluster, index);
            replaces && server.is_eligible(now)
        });
        let reserve = self.reserve.as_deref();
        is_here || reserve.is_some_and(|reserve| reserve.has_another(now, than))
    }

    /// Whether a server is eligible, its reserve's left out.
    pub(super) fn is_eligible(&self, now: u64) -> bool {
        let mut servers = self.servers.iter();
        servers.any(|server| server.standing().eligibility(now).is_ok())
    }

    /// The pool, then its reserve, and so on.
    pub(super) fn tiers(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |tier| tier.reserve.as_deref())
    }
}

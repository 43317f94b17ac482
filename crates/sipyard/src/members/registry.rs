//! The store in which nodes announce themselves.

use std::{io, task::Poll, time::Duration};

use ::store::{Error, Limits, Next, Put, Store, Value};
use node::config::PoolServer;
use socket::Clock;
use tokio::time::{interval, sleep};

use super::lease::{Announcement, Leases, read, write};
use crate::{
    answer::{answered, submit},
    config::{Announced, Cluster},
};

/// How often the thread looks for changes of the DNS, of announcements, and of the health that
/// decides how many groups are in use. A pool whose last server dies does not wait for that: it places
/// on its reserve. Most looks only read a cache.
pub(super) const TICK: Duration = Duration::from_millis(50);
/// A node renews its lease this many times per lease, so that two renewals may be lost.
const RENEWALS: u32 = 3;
/// The most attempts of one update. An attempt fails only if another node's succeeded.
const ATTEMPTS: usize = 100;
/// How old a cached record of the other nodes may be, because a notice of a change may be lost.
const AGE_MAX: Duration = Duration::from_millis(500);
/// The pause before this node says again that it leaves.
const AGAIN: Duration = Duration::from_millis(100);

/// Reads and writes the announcements of nodes.
pub(super) struct Registry {
    store: Store,
    cluster: Cluster,
    clock: Clock,
}

impl Registry {
    pub(super) fn open(cluster: &Cluster, clock: Clock) -> io::Result<Self> {
        let limits = Limits {
            age_max: AGE_MAX,
            ..Limits::default()
        };
        Ok(Self {
            store: Store::open(&cluster.store, &limits).map_err(io::Error::other)?,
            cluster: cluster.clone(),
            clock,
        })
    }

    pub(super) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Asks for the announcements of the nodes of a pool.
    pub(super) fn ask(
        &self,
        pool: &str,
        done: impl FnOnce(Result<Option<Value>, Error>) + Send + 'static,
    ) -> Poll<Result<Option<Value>, Error>> {
        self.store.get(&key(pool), done)
    }

    /// Announces this node and renews its lease, if it has something to announce. It then never
    /// returns.
    pub(super) async fn announce(&self) {
        let Some(own) = &self.cluster.announced else {
            return;
        };
        let (pool, address) = (&own.pool, own.server.address);
        let mut tick = interval(self.cluster.lease / RENEWALS);
        let mut leases = Leases::default();
        let mut before = None;
        loop {
            tick.tick().await;
            let said = self.say(own, self.cluster.lease, &mut leases).await;
            let problem = said.err().map(|error| error.to_string());
            if before.as_ref() != Some(&problem) {
                match &problem {
                    None => tracing::info!("announced {address} as a server of pool:{pool}"),
                    Some(why) => tracing::warn!(
                        "can't announce {address}: {why}; the next renewal tries again"
                    ),
                }
            }
            before = Some(problem);
        }
    }

    /// The longest time that [`Self::withdraw`] takes.
    pub(super) fn withdrawal_max(&self) -> Duration {
        match self.cluster.announced {
            Some(_) => self.cluster.lease + AGE_MAX + TICK,
            None => Duration::ZERO,
        }
    }

    /// Announces that this node leaves, and waits until the others know. A store that is being replaced is asked
    /// again, for the length of a lease.
    pub(super) async fn withdraw(&self) {
        let Some(own) = &self.cluster.announced else {
            return;
        };
        let end = self.clock.now() + self.cluster.lease;
        while let Err(error) = self.say(own, Duration::ZERO, &mut Leases::default()).await {
            if self.clock.now() + AGAIN > end {
                tracing::warn!(
                    "can't announce that this node leaves: {error}; it stays in the others' pools \
                     until its lease ends"
                );
                return;
            }
            sleep(AGAIN).await;
        }
        sleep(AGE_MAX + TICK).await;
    }

    async fn say(
        &self,
        own: &Announced,
        lease: Duration,
        leases: &mut Leases,
    ) -> Result<(), Error> {
        let key = key(&own.pool);
        let server: PoolServer = own.server.clone();
        let own = Announcement {
            server,
            lease,
            stamp: socket::seed(),
        };
        let mut seen = answered(submit(|done| self.store.get(&key, done))).await?;
        for _ in 0..ATTEMPTS {
            let now = self.clock.now();
            // What can't be read is written anew.
            let others = seen.as_deref().and_then(read).unwrap_or_default();
            let value = write(&leases.renew(others, own.clone(), now));
            let next = Next {
                value: value.as_bytes(),
                expires: None,
            };
            let put = submit(|done| self.store.put(&key, seen.as_ref(), Some(next), done));
            match answered(put).await? {
                Put::Stored => return Ok(()),
                Put::Changed(value) => seen = value,
            }
        }
        Err(Error::Busy)
    }
}

const PREFIX: &str = "pool:";

fn key(pool: &str) -> Vec<u8> {
    format!("{PREFIX}{pool}").into_bytes()
}

/// Whether a record of this key belongs to nodes, not to users.
pub(crate) fn is_of_nodes(key: &[u8]) -> bool {
    key.starts_with(PREFIX.as_bytes())
}

//! Since when each server is as it is, and why.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use node::Change;

/// Servers whose latest change is remembered.
const SERVERS_MAX: usize = 65_535;

/// The latest change of each server's health.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    latest: Mutex<HashMap<(String, SocketAddr), News>>,
}

/// A change of a server's health.
#[derive(Clone, Debug)]
pub(crate) struct News {
    /// When it was noticed, from the node's zero.
    pub(crate) at: Duration,
    /// What the log says.
    pub(crate) why: String,
}

impl Servers {
    fn locked(&self) -> MutexGuard<'_, HashMap<(String, SocketAddr), News>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a change.
    pub(crate) fn note(&self, change: &Change, at: Duration) {
        let key = (change.pool.clone(), change.address);
        let mut latest = self.locked();
        if latest.len() < SERVERS_MAX || latest.contains_key(&key) {
            let why = change.cause.to_string();
            latest.insert(key, News { at, why });
        }
    }

    /// The latest change of a server; none since the start.
    pub(crate) fn of(&self, pool: &str, address: SocketAddr) -> Option<News> {
        self.locked().get(&(pool.to_owned(), address)).cloned()
    }
}

//! Finds the edge in a capture: who gets requests first, and passes them on.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{DefaultHasher, Hash, Hasher},
    net::SocketAddr,
};

use sip::Message;

use crate::HEADERS_MAX;

/// Requests that are followed.
const REQUESTS_MAX: usize = 50_000;
/// Who passes on less than this part of what the busiest does is no edge.
const SHARE_MIN: usize = 20;

/// Follows requests until there are enough.
#[derive(Debug, Default)]
pub struct Search {
    /// Where each request went first.
    first: HashMap<u64, SocketAddr>,
    passed_on: BTreeMap<SocketAddr, usize>,
}

/// Starts to look for edges.
#[must_use]
pub fn edges() -> Search {
    Search::default()
}

impl Search {
    /// Takes a datagram; whether to go on.
    pub fn take(&mut self, source: SocketAddr, destination: SocketAddr, payload: &[u8]) -> bool {
        if let Some(key) = key(payload) {
            let first = *self.first.entry(key).or_insert(destination);
            // It may pass requests on from another port.
            if first.ip() == source.ip() && first != destination {
                *self.passed_on.entry(first).or_default() += 1;
            }
        }
        self.first.len() < REQUESTS_MAX
    }

    /// The edges' addresses.
    #[must_use]
    pub fn found(&self) -> Vec<SocketAddr> {
        let most = self.passed_on.values().max().copied().unwrap_or(0);
        let often = self
            .passed_on
            .iter()
            .filter(|(_, count)| **count * SHARE_MIN >= most);
        often.map(|(address, _)| *address).collect()
    }
}

/// What a request has in common with what it becomes at the next hop.
fn key(payload: &[u8]) -> Option<u64> {
    let message = Message::parse(payload, HEADERS_MAX).ok()?;
    let method = message.method()?;
    let mut hasher = DefaultHasher::new();
    method.as_bytes().hash(&mut hasher);
    message.call_id().ok()?.hash(&mut hasher);
    message.cseq().ok()?.number.hash(&mut hasher);
    Some(hasher.finish())
}

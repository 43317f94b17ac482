//! Digest authentication (RFC 3261 §22, RFC 7616, RFC 8760): MD5 and SHA-256, `qop=auth`.
//!
//! A server writes challenges with [`Challenge`], reads the answer as [`Credentials`], looks up the
//! user's [`Ha1`] and asks its [`Verifier`] what to make of it. Nonces carry their time and a MAC
//! over it, so that every node that has the key knows them without having issued them. A client reads
//! the challenge as a [`Demand`] and meets it with a [`Prover`].
//!
//! Times are wall time, as nodes share it: a [`Duration`] since the UNIX epoch.

mod challenge;
mod credentials;
mod demand;
mod hash;
mod nonce;
mod parameters;
mod prover;
mod replays;

use std::time::Duration;

pub use challenge::Challenge;
pub use credentials::{Credentials, DigestError};
pub use demand::Demand;
pub use hash::{Algorithm, Ha1};
pub use nonce::Nonces;
pub use prover::Prover;

use nonce::Freshness;
use replays::{Count, Replays};

/// What to make of credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They are the user's, for this request.
    Good,
    /// They are the user's, but the nonce is too old, or not of this cluster: challenge again with
    /// `stale`.
    Stale,
    /// They are the user's, but were used before: challenge again with `stale`.
    Replayed,
    /// They are nobody's.
    Wrong,
}

/// Judges credentials, and remembers which it has seen.
#[derive(Debug)]
pub struct Verifier {
    nonces: Nonces,
    replays: Replays,
}

impl Verifier {
    /// A verifier of these nonces that follows the counts of so many of them at a time, at least one.
    /// When there are more, the oldest are answered as stale. Counts seen by another verifier are
    /// unknown to this one.
    pub fn new(nonces: Nonces, nonces_max: usize) -> Self {
        Self {
            nonces,
            replays: Replays::new(nonces_max),
        }
    }

    /// The nonces that it takes.
    pub fn nonces(&self) -> &Nonces {
        &self.nonces
    }

    /// What to make of the credentials of a request of this method and Call-ID by the user whose secret
    /// this is.
    pub fn verify(
        &mut self,
        now: Duration,
        credentials: &Credentials<'_>,
        method: &[u8],
        call_id: &[u8],
        ha1: &Ha1,
    ) -> Verdict {
        if !credentials.matches(method, ha1) {
            return Verdict::Wrong;
        }
        let Freshness::Fresh(nonce) = self.nonces.check(now, credentials.nonce, call_id) else {
            return Verdict::Stale;
        };
        match self.replays.count(nonce, credentials.nc) {
            Count::New => Verdict::Good,
            Count::Seen => Verdict::Replayed,
            Count::Unknown => Verdict::Stale,
        }
    }
}

#[cfg(test)]
mod tests;

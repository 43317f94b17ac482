//! Digest authentication (RFC 3261 §22, RFC 7616, RFC 8760): MD5 and SHA-256, `qop=auth`.
//!
//! A server writes challenges with [`Challenge`] and reads the answers as [`Credentials`]. It looks
//! up the user's [`Ha1`], and its [`Verifier`] judges the credentials. Nonces contain their time
//! and a MAC over it, so every node with the key recognizes them, even if another node issued them.
//! A client reads the challenge as a [`Demand`] and answers it with a [`Prover`].
//!
//! Times are wall time, because nodes share it: a [`Duration`] since the UNIX epoch.

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
pub use nonce::{Nonce, Nonces};
pub use prover::Prover;

use replays::{Count, Replays};

/// The verdict on credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They are the user's, for this request.
    Good,
    /// They are the user's, but the nonce is too old, or not of this cluster: challenge again with
    /// `stale`.
    Stale,
    /// They are the user's, but were used before: challenge again with `stale`.
    Replayed,
    /// They prove no secret.
    Wrong,
}

/// Judges credentials, and remembers which of them it has seen.
#[derive(Debug)]
pub struct Verifier {
    nonces: Nonces,
    replays: Replays,
}

impl Verifier {
    /// A verifier of these nonces. It follows the counts of this many nonces at a time, at least
    /// one. If there are more, it answers the oldest as stale. It does not know the counts that
    /// another verifier has seen.
    pub fn new(nonces: Nonces, nonces_max: usize) -> Self {
        Self {
            nonces,
            replays: Replays::new(nonces_max),
        }
    }

    /// The nonces that it accepts.
    pub fn nonces(&self) -> &Nonces {
        &self.nonces
    }

    /// Judges the credentials of a request with this method and Call-ID. The secret is that of the
    /// user.
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
        let Some(issued) = self.nonces.check(now, credentials.nonce, call_id) else {
            return Verdict::Stale;
        };
        match self.replays.count(issued, credentials.nc) {
            Count::New => Verdict::Good,
            Count::Seen => Verdict::Replayed,
            Count::Unknown => Verdict::Stale,
        }
    }
}

#[cfg(test)]
mod tests;

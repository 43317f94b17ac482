//! The keyed hashes of a cluster: all come from its secret, so that every node that has it, and
//! the same node after a restart, computes the same.

use std::{fmt, hash::Hasher};

use sha2::{Digest, Sha256};
use siphasher::sip::SipHasher24;
use siphasher::sip128::{Hasher128, SipHasher13};

/// Identifies a session: a keyed 128-bit hash of its Call-ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SessionKey(u64, u64);

impl SessionKey {
    /// The worker that owns the session.
    pub(crate) fn worker(self, workers: usize) -> usize {
        worker_of(self.1, workers)
    }

    /// A transaction's identity: its hash, whose lowest bits tell the session's worker, so that a
    /// branch alone does.
    pub(crate) fn identify(self, hash: u64) -> u64 {
        hash & !SHARD | self.1 & SHARD
    }

    /// Bits for a hash table's slot.
    pub(crate) fn bits(self) -> u64 {
        self.0
    }
}

/// The bits that choose a worker.
const SHARD: u64 = 0xffff;

/// The worker that owns a session or the transaction of this identity.
pub(crate) fn worker_of(bits: u64, workers: usize) -> usize {
    ((bits & SHARD) % workers as u64) as usize
}

/// Hash keys derived from the cluster's secret.
#[derive(Clone)]
pub(crate) struct Keys {
    session: SipHasher13,
    branch: SipHasher24,
    token: SipHasher24,
    report: SipHasher24,
    nonce: [u8; 16],
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys")
    }
}

impl Keys {
    pub(crate) fn new(secret: &[u8]) -> Self {
        Self {
            session: SipHasher13::new_with_key(&derive("sipyard session", secret)),
            branch: SipHasher24::new_with_key(&derive("sipyard branch", secret)),
            token: SipHasher24::new_with_key(&derive("sipyard token", secret)),
            report: SipHasher24::new_with_key(&derive("sipyard report", secret)),
            nonce: derive("sipyard nonce", secret),
        }
    }

    pub(crate) fn session(&self, call_id: &[u8]) -> SessionKey {
        let mut hasher = self.session;
        hasher.write(call_id);
        let hash = hasher.finish128();
        SessionKey(hash.h1, hash.h2)
    }

    /// Hashes the identity of a session's transaction, which our branches carry: the same for an
    /// INVITE, its CANCEL and the ACK of its failure, and for every retransmission. RFC 3261 §16.11
    pub(crate) fn branch(&self, session: SessionKey) -> SipHasher24 {
        let mut hasher = self.branch;
        hasher.write_u64(session.0);
        hasher
    }

    /// A hash of parts that belong to a session.
    pub(crate) fn of_session(&self, session: SessionKey, parts: &[&[u8]]) -> u64 {
        let mut hasher = self.branch(session);
        write_parts(&mut hasher, parts);
        hasher.finish()
    }

    /// The key of the registrar's nonces.
    pub(crate) fn nonce(&self) -> &[u8; 16] {
        &self.nonce
    }

    /// The MAC of a ledger report.
    pub(crate) fn report(&self, bytes: &[u8]) -> u64 {
        let mut hasher = self.report;
        hasher.write(bytes);
        hasher.finish()
    }

    /// The identity of a node among its peers.
    pub(crate) fn owner(&self, name: &str, listeners: &str) -> u64 {
        let mut hasher = self.report;
        write_parts(
            &mut hasher,
            &[b"owner", name.as_bytes(), listeners.as_bytes()],
        );
        hasher.finish()
    }

    /// The MAC of an affinity token.
    pub(crate) fn token(&self, parts: &[&[u8]]) -> u64 {
        let mut hasher = self.token;
        write_parts(&mut hasher, parts);
        hasher.finish()
    }
}

/// Lengths go in too, so that no two lists of parts read the same: all in one word, as a hasher
/// takes few long pieces faster than many short ones.
fn write_parts(hasher: &mut SipHasher24, parts: &[&[u8]]) {
    let mut lengths = 0;
    for part in parts {
        debug_assert!(part.len() < 1 << 16, "a message is no longer");
        lengths = lengths << 16 | part.len() as u64;
        hasher.write(part);
    }
    debug_assert!(parts.len() <= 4, "their lengths fit in 64 bits");
    hasher.write_u64(lengths);
}

fn derive(purpose: &str, secret: &[u8]) -> [u8; 16] {
    let digest = Sha256::new()
        .chain_update(purpose)
        .chain_update([0])
        .chain_update(secret)
        .finalize();
    *digest.first_chunk().expect("SHA-256 yields 32 bytes")
}

/// A short, unkeyed hash that tells tags of one dialog apart.
pub(crate) fn tag_hash(tag: &[u8]) -> u32 {
    tag.iter().fold(0x811c_9dc5, |hash, &byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

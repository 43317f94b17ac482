//! The keyed hashes of a cluster: all come from its secret, so that every node that has it, and
//! the same node after a restart, computes the same.

use std::{
    fmt,
    hash::Hasher,
    iter,
    net::{IpAddr, SocketAddr},
};

use abuse::Source;
use sha2::{Digest, Sha256};
use siphasher::sip::SipHasher24;
use siphasher::sip128::{Hasher128, SipHasher13};
use transaction::Flow;

use super::seal::Sealer;

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
    way: SipHasher24,
    /// Of the secret, and of the other one that is accepted.
    dialog: (Sealer, Option<Sealer>),
    path: (Sealer, Option<Sealer>),
    gruu: (Sealer, Option<Sealer>),
    report: SipHasher24,
    accepted_report: Option<SipHasher24>,
    nonce: [u8; 16],
    guard: [u8; 16],
    edge: EdgeTag,
}

/// Tells the nodes of a cluster apart in a few bits. Two of them have one tag in one of 8,191 cases; then each says
/// that it has no such connection. Zero: it is not told.
pub(crate) type EdgeTag = u16;

/// The bits of an [`EdgeTag`].
pub(super) const EDGE_BITS: u32 = 13;

/// The tag of the node with this [identity](Keys::owner).
pub(crate) fn edge_of(owner: u64) -> EdgeTag {
    let bits = (owner as EdgeTag) & ((1 << EDGE_BITS) - 1);
    bits.max(1)
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys")
    }
}

impl Keys {
    /// Tokens and reports are written with `secret`, and read with `accepted`, too.
    pub(crate) fn new(secret: &[u8], accepted: Option<&[u8]>) -> Self {
        let sealers = |purpose: &str| {
            let other = accepted.map(|accepted| Sealer::new(purpose, accepted));
            (Sealer::new(purpose, secret), other)
        };
        let report = |secret: &[u8]| SipHasher24::new_with_key(&derive("sipyard report", secret));
        Self {
            session: SipHasher13::new_with_key(&derive("sipyard session", secret)),
            branch: SipHasher24::new_with_key(&derive("sipyard branch", secret)),
            way: SipHasher24::new_with_key(&derive("sipyard way", secret)),
            dialog: sealers("dialog"),
            path: sealers("path"),
            gruu: sealers("gruu"),
            report: report(secret),
            accepted_report: accepted.map(report),
            nonce: derive("sipyard nonce", secret),
            guard: derive("sipyard guard", secret),
            edge: 0,
        }
    }

    /// The same for the node with this tag.
    pub(crate) fn of_edge(self, edge: EdgeTag) -> Self {
        Self { edge, ..self }
    }

    /// The tag of this node.
    pub(crate) fn edge(&self) -> EdgeTag {
        self.edge
    }

    /// The same, if it is another's.
    pub(super) fn elsewhere(&self, edge: EdgeTag) -> Option<EdgeTag> {
        (edge != 0 && edge != self.edge).then_some(edge)
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

    /// What our branch says of a request that is held. No peer can make it of what the branch of a
    /// stateless hop says, or the other way round. It tells the same worker.
    pub(crate) fn held(&self, id: u64) -> u64 {
        let mut hasher = self.branch;
        write_parts(&mut hasher, &[b"held", &id.to_be_bytes()]);
        hasher.finish() & !SHARD | id & SHARD
    }

    /// Binds the request of a branch to the way that its responses take. Their sender could else have them go anywhere:
    /// the Via below ours and the number of a connection are in them.
    pub(crate) fn way_back(&self, branch: u64, back: Flow) -> u32 {
        let ip = match back.remote.ip().to_canonical() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let connection = back.connection.map_or(0, |connection| connection.0.get());
        let mut bytes = [0; 31];
        bytes[..8].copy_from_slice(&branch.to_be_bytes());
        bytes[8..24].copy_from_slice(&ip.octets());
        bytes[24..26].copy_from_slice(&back.remote.port().to_be_bytes());
        bytes[26..30].copy_from_slice(&connection.to_be_bytes());
        bytes[30] = back.listener;
        let mut hasher = self.way;
        hasher.write(&bytes);
        hasher.finish() as u32
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

    /// The key of the tables of sources.
    pub(crate) fn guard(&self) -> &[u8; 16] {
        &self.guard
    }

    /// Binds a random number to a source: 32 bits of each.
    pub(crate) fn of_source(&self, source: &[u8; 16], random: u32) -> u64 {
        let mut hasher = self.report;
        write_parts(&mut hasher, &[b"source", source, &random.to_be_bytes()]);
        u64::from(random) << 32 | hasher.finish() >> 32
    }

    /// The MAC of a ledger report.
    pub(crate) fn report(&self, bytes: &[u8]) -> u64 {
        mac(self.report, bytes)
    }

    /// Whether this is the MAC of a report, under a secret that is accepted.
    pub(crate) fn is_report(&self, bytes: &[u8], is: u64) -> bool {
        let keys = iter::once(self.report).chain(self.accepted_report);
        keys.into_iter().any(|key| mac(key, bytes) == is)
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

    /// A hash of where a datagram came from, by which sources are told apart.
    pub(crate) fn source(&self, ip: IpAddr) -> u64 {
        let mut hasher = self.session;
        hasher.write(&Source::from(ip).octets());
        hasher.finish128().h1
    }

    /// A hash of a neighbour's address.
    pub(crate) fn neighbour(&self, address: SocketAddr) -> u64 {
        let mut hasher = self.session;
        hasher.write(&Source::from(address.ip()).octets());
        hasher.write_u16(address.port());
        hasher.finish128().h1
    }

    /// Seals a dialog's tokens.
    pub(super) fn dialog(&self) -> &Sealer {
        &self.dialog.0
    }

    /// Open a dialog's tokens.
    pub(super) fn dialogs(&self) -> impl Iterator<Item = &Sealer> {
        iter::once(&self.dialog.0).chain(&self.dialog.1)
    }

    /// Seals the tokens of Path URIs.
    pub(super) fn path(&self) -> &Sealer {
        &self.path.0
    }

    /// Seals what temporary GRUUs say.
    pub(super) fn gruu(&self) -> &Sealer {
        &self.gruu.0
    }

    /// Open temporary GRUUs.
    pub(super) fn gruus(&self) -> impl Iterator<Item = &Sealer> {
        iter::once(&self.gruu.0).chain(&self.gruu.1)
    }

    /// Open the tokens of Path URIs.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Sealer> {
        iter::once(&self.path.0).chain(&self.path.1)
    }
}

fn mac(mut key: SipHasher24, bytes: &[u8]) -> u64 {
    key.write(bytes);
    key.finish()
}

/// Lengths go in too, so that no two lists of parts read the same: all in one word, as a hasher
/// takes few long pieces faster than many short ones.
pub(super) fn write_parts(hasher: &mut impl Hasher, parts: &[&[u8]]) {
    let mut lengths = 0;
    for part in parts {
        debug_assert!(part.len() < 1 << 16, "a message is no longer");
        lengths = lengths << 16 | part.len() as u64;
        hasher.write(part);
    }
    debug_assert!(parts.len() <= 4, "their lengths fit in 64 bits");
    hasher.write_u64(lengths);
}

pub(super) fn derive(purpose: &str, secret: &[u8]) -> [u8; 16] {
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

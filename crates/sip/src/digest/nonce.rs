//! Nonces that every node with the key can check. They contain their time, a random part, and a
//! MAC.

use std::{fmt, hash::Hasher, time::Duration};

use siphasher::sip::SipHasher24;

use super::hash::Hex;

/// Seconds, random part, MAC.
const BYTES: usize = 4 + 8 + 8;

/// Issues and checks nonces.
#[derive(Clone)]
pub struct Nonces {
    mac: SipHasher24,
    lifetime: Duration,
}

impl fmt::Debug for Nonces {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nonces({:?})", self.lifetime)
    }
}

/// What a nonce of [`Nonces`] tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nonce {
    /// When it was issued, in seconds since the UNIX epoch.
    pub issued_s: u32,
    /// Its random part.
    pub random: u64,
}

impl Nonce {
    /// The parts that a nonce's text tells, true or not: a [`Verifier`](super::Verifier) alone knows
    /// whether it was issued with our key.
    pub fn read(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let number = |from, to| u64::from_str_radix(text.get(from..to)?, 16).ok();
        Some(Self {
            issued_s: number(0, 8)? as u32,
            random: number(8, 24)?,
        })
    }
}

/// A nonce by all that tells it apart. Two requests of a busy second may have got the same random number; the MAC is over their
/// Call-IDs, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Issued {
    pub(super) nonce: Nonce,
    pub(super) mac: u64,
}

impl Nonces {
    /// Nonces under a key that only the nodes of a cluster have. Each nonce is valid for a
    /// lifetime.
    pub fn new(key: &[u8; 16], lifetime: Duration) -> Self {
        Self {
            mac: SipHasher24::new_with_key(key),
            lifetime,
        }
    }

    /// Issues a nonce that is valid for requests with this Call-ID. So a node that follows the
    /// counts of a Call-ID's nonces misses none. No two nonces may have the same random part within
    /// a lifetime.
    pub fn issue(&self, now: Duration, random: u64, call_id: &[u8]) -> String {
        let nonce = Nonce {
            issued_s: now.as_secs() as u32,
            random,
        };
        let text = text(nonce, self.mac(nonce, call_id));
        String::from_utf8_lossy(text.as_bytes()).into_owned()
    }

    /// The random part of a nonce that is valid at this time for requests with this Call-ID; none if it
    /// is not.
    pub fn random(&self, now: Duration, text: &[u8], call_id: &[u8]) -> Option<u64> {
        Some(self.check(now, text, call_id)?.nonce.random)
    }

    /// What a client's nonce tells; none: it is too old, from the future, of another Call-ID, or not ours.
    pub(super) fn check(&self, now: Duration, shown: &[u8], call_id: &[u8]) -> Option<Issued> {
        let nonce = Nonce::read(shown)?;
        let mac = self.mac(nonce, call_id);
        // Clocks of nodes differ, so one may be ahead of ours.
        let age = now.abs_diff(Duration::from_secs(nonce.issued_s.into()));
        (text(nonce, mac).is(shown) && age <= self.lifetime).then_some(Issued { nonce, mac })
    }

    fn mac(&self, nonce: Nonce, call_id: &[u8]) -> u64 {
        let mut hasher = self.mac;
        hasher.write(&nonce.issued_s.to_be_bytes());
        hasher.write(&nonce.random.to_be_bytes());
        hasher.write(call_id);
        hasher.finish()
    }
}

fn text(nonce: Nonce, mac: u64) -> Hex {
    let mut bytes = [0; BYTES];
    bytes[..4].copy_from_slice(&nonce.issued_s.to_be_bytes());
    bytes[4..12].copy_from_slice(&nonce.random.to_be_bytes());
    bytes[12..].copy_from_slice(&mac.to_be_bytes());
    Hex::of(&bytes)
}

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

/// What a client's nonce is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freshness {
    Fresh(Nonce),
    /// Too old, from the future, of another Call-ID, or not ours.
    Stale,
}

/// The MAC in a nonce's text, of which [`Nonces::check`] has said that it is ours.
pub(super) fn mac(text: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(text.get(24..)?).ok()?;
    u64::from_str_radix(digits, 16).ok()
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
        String::from_utf8_lossy(self.text(nonce, call_id).as_bytes()).into_owned()
    }

    /// The random part of a nonce that is valid at this time for requests with this Call-ID; none if it
    /// is not.
    pub fn random(&self, now: Duration, text: &[u8], call_id: &[u8]) -> Option<u64> {
        match self.check(now, text, call_id) {
            Freshness::Fresh(nonce) => Some(nonce.random),
            Freshness::Stale => None,
        }
    }

    pub(super) fn check(&self, now: Duration, text: &[u8], call_id: &[u8]) -> Freshness {
        let is_ours = |nonce: &Nonce| self.text(*nonce, call_id).is(text);
        let Some(nonce) = Nonce::read(text).filter(is_ours) else {
            return Freshness::Stale;
        };
        let age = now.abs_diff(Duration::from_secs(nonce.issued_s.into()));
        // Clocks of nodes differ, so one may be ahead of ours.
        if age > self.lifetime {
            return Freshness::Stale;
        }
        Freshness::Fresh(nonce)
    }

    fn text(&self, nonce: Nonce, call_id: &[u8]) -> Hex {
        let mut bytes = [0; BYTES];
        let (signed, mac) = bytes.split_at_mut(12);
        signed[..4].copy_from_slice(&nonce.issued_s.to_be_bytes());
        signed[4..].copy_from_slice(&nonce.random.to_be_bytes());
        let mut hasher = self.mac;
        hasher.write(signed);
        hasher.write(call_id);
        mac.copy_from_slice(&hasher.finish().to_be_bytes());
        Hex::of(&bytes)
    }
}

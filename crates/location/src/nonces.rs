//! The nonces of a user that were used: RFC 7616 §5.4.

use std::time::Duration;

use crate::codec::{Corrupt, Reader};

/// How long a nonce is good. Phones refresh their bindings with the one they have.
pub const NONCE_LIFETIME: Duration = Duration::from_secs(600);

/// A nonce of an accepted REGISTER.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsedNonce {
    /// When it was issued, in seconds since the UNIX epoch.
    pub issued_s: u32,
    /// Its random part.
    pub random: u64,
    /// The highest nonce count that was accepted.
    pub count: u32,
}

/// The nonces that a user's phones have used, as far as they are good still. Every node of the cluster
/// reads them, and so does a node after a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsedNonces {
    /// Those that are known.
    pub known: Vec<UsedNonce>,
    /// When the latest of those that were forgotten was issued, in seconds since the UNIX epoch. Any
    /// unknown nonce that is not younger may have been used.
    pub forgotten_s: u32,
}

impl UsedNonces {
    /// Whether a nonce with this count goes beyond all that was accepted.
    pub fn is_new(&self, used: UsedNonce) -> bool {
        match self.known.iter().find(|known| known.is_same(&used)) {
            Some(known) => used.count > known.count,
            None => used.issued_s > self.forgotten_s,
        }
    }

    /// Notes that a nonce was accepted. Nonces older than their lifetime are forgotten, and the oldest of
    /// more than `max`.
    pub fn note(&mut self, used: UsedNonce, now: Duration, max: usize) {
        match self.known.iter_mut().find(|known| known.is_same(&used)) {
            Some(known) => known.count = known.count.max(used.count),
            None => self.known.push(used),
        }
        self.known.sort_unstable_by_key(|known| known.issued_s);
        let is_over = |known: &UsedNonce| known.ends() < now;
        let old = self.known.partition_point(is_over);
        let forgotten = old.max(self.known.len().saturating_sub(max));
        for gone in self.known.drain(..forgotten) {
            self.forgotten_s = self.forgotten_s.max(gone.issued_s);
        }
    }

    /// When none of them is good any more, if there is one.
    pub fn end(&self) -> Option<Duration> {
        self.known.iter().map(|known| known.ends()).max()
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.forgotten_s.to_be_bytes());
        out.extend_from_slice(&(self.known.len() as u16).to_be_bytes());
        for known in &self.known {
            out.extend_from_slice(&known.issued_s.to_be_bytes());
            out.extend_from_slice(&known.random.to_be_bytes());
            out.extend_from_slice(&known.count.to_be_bytes());
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Corrupt> {
        let forgotten_s = reader.number_u32()?;
        let count = reader.number_u16()?;
        let known = (0..count).map(|_| {
            Ok(UsedNonce {
                issued_s: reader.number_u32()?,
                random: reader.array().map(u64::from_be_bytes)?,
                count: reader.number_u32()?,
            })
        });
        Ok(Self {
            known: known.collect::<Result<_, _>>()?,
            forgotten_s,
        })
    }
}

impl UsedNonce {
    fn is_same(&self, other: &Self) -> bool {
        (self.issued_s, self.random) == (other.issued_s, other.random)
    }

    fn ends(&self) -> Duration {
        Duration::from_secs(self.issued_s.into()) + NONCE_LIFETIME
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// No nonce and count is new twice, however many there are and however old they are.
        #[test]
        fn nothing_is_new_twice(steps in prop::collection::vec((0..40_u32, 0..3_u64, 0..5_u32), 0..200)) {
            let (mut nonces, mut accepted) = (UsedNonces::default(), BTreeMap::new());
            for (number, (age, random, count)) in steps.into_iter().enumerate() {
                let now = 1_000 + number as u32 * 20;
                let used = UsedNonce { issued_s: now - age * 20, random, count };
                if !nonces.is_new(used) {
                    continue;
                }
                let highest = accepted.insert((used.issued_s, random), count);
                prop_assert!(highest.is_none_or(|highest| highest < count), "{:?}", used);
                nonces.note(used, Duration::from_secs(now.into()), 8);
                prop_assert!(nonces.known.len() <= 8);
            }
        }
    }

    #[test]
    fn a_fresh_nonce_is_new_whatever_was_forgotten() {
        let mut nonces = UsedNonces::default();
        let nonce = |issued_s, random, count| UsedNonce {
            issued_s,
            random,
            count,
        };
        for random in 0..20 {
            let used = nonce(1_000 + random as u32, random, 1);
            assert!(nonces.is_new(used));
            nonces.note(used, Duration::from_secs(1_020), 8);
        }
        assert!(nonces.is_new(nonce(1_020, 77, 1)));
        assert!(nonces.is_new(nonce(1_015, 15, 2)), "it is known");
        assert!(!nonces.is_new(nonce(1_015, 15, 1)));
        assert!(
            !nonces.is_new(nonce(1_011, 77, 1)),
            "as old as a forgotten one"
        );
        assert_eq!(nonces.end(), Some(Duration::from_secs(1_619)));
    }
}

//! Subscribers: the users who may register and call, with the hashes of their passwords.

use std::fmt;

use crate::{
    Aor,
    codec::{Corrupt, Reader},
};

const VERSION: u8 = 1;
const MARK: &str = "user:";
const HAS_MD5: u8 = 1;
const HAS_SHA256: u8 = 2;

/// A user of a domain and the hashes of their password, `H(user:domain:password)`
/// (RFC 7616 §3.4.2). Nothing keeps the password itself. A subscriber without a hash can't
/// authenticate.
#[derive(Clone, PartialEq, Eq)]
pub struct Subscriber {
    /// The user; the domain is the realm.
    pub aor: Aor,
    /// The hash by MD5.
    pub ha1_md5: Option<[u8; 16]>,
    /// The hash by SHA-256.
    pub ha1_sha256: Option<[u8; 32]>,
}

impl Subscriber {
    /// The prefix of the keys of all subscribers.
    pub const PREFIX: &[u8] = MARK.as_bytes();

    /// The key of a subscriber's record.
    pub fn key_of(aor: &Aor) -> Vec<u8> {
        [MARK, aor.as_str()].concat().into_bytes()
    }

    /// Writes the record of a subscriber.
    pub fn write(&self) -> Vec<u8> {
        let has = |present: bool, bit: u8| if present { bit } else { 0 };
        let hashes =
            has(self.ha1_md5.is_some(), HAS_MD5) | has(self.ha1_sha256.is_some(), HAS_SHA256);
        let mut out = vec![VERSION, hashes];
        out.extend(self.ha1_md5.iter().flatten());
        out.extend(self.ha1_sha256.iter().flatten());
        out
    }

    /// Reads a subscriber from a key and a record.
    ///
    /// # Errors
    /// If they do not belong to a subscriber.
    pub fn read(key: &[u8], record: &[u8]) -> Result<Self, Corrupt> {
        let name = key.strip_prefix(Self::PREFIX).ok_or(Corrupt)?;
        let (user, domain) = std::str::from_utf8(name)
            .ok()
            .and_then(|name| name.rsplit_once('@'))
            .ok_or(Corrupt)?;
        let aor = Aor::new(user, domain).ok_or(Corrupt)?;
        let mut reader = Reader::new(record, VERSION)?;
        let [hashes] = reader.array()?;
        let md5 = (hashes & HAS_MD5 != 0)
            .then(|| reader.array())
            .transpose()?;
        let sha256 = (hashes & HAS_SHA256 != 0)
            .then(|| reader.array())
            .transpose()?;
        if hashes > HAS_MD5 | HAS_SHA256 || !reader.is_at_end() {
            return Err(Corrupt);
        }
        Ok(Self {
            aor,
            ha1_md5: md5,
            ha1_sha256: sha256,
        })
    }
}

impl fmt::Debug for Subscriber {
    /// Leaves out the hashes, because they are enough to log in.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Subscriber({})", self.aor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let aor = Aor::new("alice", "example.com").unwrap();
        let key = Subscriber::key_of(&aor);
        for (ha1_md5, ha1_sha256) in [
            (Some([1; 16]), Some([2; 32])),
            (Some([1; 16]), None),
            (None, Some([2; 32])),
        ] {
            let subscriber = Subscriber {
                aor: aor.clone(),
                ha1_md5,
                ha1_sha256,
            };
            let record = subscriber.write();
            assert_eq!(Subscriber::read(&key, &record), Ok(subscriber));
            for len in 0..record.len() {
                assert_eq!(Subscriber::read(&key, &record[..len]), Err(Corrupt));
            }
        }
        assert_eq!(Subscriber::read(&key, &[VERSION, 4]), Err(Corrupt));
        assert_eq!(Subscriber::read(b"aor:a@b", &[VERSION, 0]), Err(Corrupt));
    }
}

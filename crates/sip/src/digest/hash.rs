//! The hashes of RFC 7616 §3.4.

use std::fmt;

use md5::Md5;
use sha2::{Digest, Sha256, digest::Output};

/// A hash algorithm (RFC 8760 §2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// SHA-256: what a server should offer first.
    Sha256,
    /// MD5: what old clients know.
    Md5,
}

impl Algorithm {
    /// Its name in a header field.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sha256 => "SHA-256",
            Self::Md5 => "MD5",
        }
    }

    /// The algorithm of this name, in any case.
    pub fn from_bytes(name: &[u8]) -> Option<Self> {
        [Self::Sha256, Self::Md5]
            .into_iter()
            .find(|known| name.eq_ignore_ascii_case(known.as_str().as_bytes()))
    }

    /// The hash of texts with colons between them, in hexadecimal.
    pub(super) fn hash(self, parts: &[&[u8]]) -> Hex {
        match self {
            Self::Sha256 => Hex::of(&joined::<Sha256>(parts)),
            Self::Md5 => Hex::of(&joined::<Md5>(parts)),
        }
    }
}

fn joined<D: Digest>(parts: &[&[u8]]) -> Output<D> {
    let mut hash = D::new();
    for (place, part) in parts.iter().enumerate() {
        if place > 0 {
            hash.update(b":");
        }
        hash.update(part);
    }
    hash.finalize()
}

/// A hash in hexadecimal, lower case.
pub(super) struct Hex {
    digits: [u8; 64],
    len: usize,
}

impl Hex {
    pub(super) fn of(bytes: &[u8]) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut hex = Self {
            digits: [0; 64],
            len: 2 * bytes.len(),
        };
        for (pair, byte) in hex.digits.chunks_exact_mut(2).zip(bytes) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        hex
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.digits[..self.len]
    }

    /// Whether this is the text, in a time that tells nothing of where they differ.
    pub(super) fn is(&self, text: &[u8]) -> bool {
        let pairs = self.as_bytes().iter().zip(text);
        let differences = pairs.fold(0, |all, (one, other)| {
            all | one ^ other.to_ascii_lowercase()
        });
        self.len == text.len() && differences == 0
    }
}

/// A user's secret: the hash of `user:realm:password`. It is enough to log in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ha1 {
    /// By SHA-256.
    Sha256([u8; 32]),
    /// By MD5.
    Md5([u8; 16]),
}

impl Ha1 {
    /// The secret of a user with a password.
    pub fn new(algorithm: Algorithm, user: &[u8], realm: &[u8], password: &[u8]) -> Self {
        let parts = [user, realm, password];
        match algorithm {
            Algorithm::Sha256 => Self::Sha256(joined::<Sha256>(&parts).into()),
            Algorithm::Md5 => Self::Md5(joined::<Md5>(&parts).into()),
        }
    }

    pub(super) fn hex(&self) -> Hex {
        match self {
            Self::Sha256(hash) => Hex::of(hash),
            Self::Md5(hash) => Hex::of(hash),
        }
    }

    /// The algorithm of the hash.
    pub const fn algorithm(&self) -> Algorithm {
        match self {
            Self::Sha256(_) => Algorithm::Sha256,
            Self::Md5(_) => Algorithm::Md5,
        }
    }
}

impl fmt::Debug for Ha1 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ha1({})", self.algorithm().as_str())
    }
}

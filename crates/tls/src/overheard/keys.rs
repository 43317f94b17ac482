//! Keys of records, made of secrets: RFC 8446 §7, RFC 5246 §6.3.

use std::fmt;

use aws_lc_rs::{
    aead::{
        AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce,
        UnboundKey,
    },
    hkdf::{HKDF_SHA256, HKDF_SHA384, KeyType, Prk},
    hmac::{self, HMAC_SHA256, HMAC_SHA384},
};

const TAG_BYTES: usize = 16;

/// A cipher, and the hash that its keys are made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suite {
    Aes128,
    Aes256,
    ChaCha20,
}

/// What opens the records of one direction.
pub(super) struct Keys {
    key: LessSafeKey,
    /// Of every nonce: 12 bytes, or 4 with AES in TLS 1.2.
    fixed: Vec<u8>,
    sequence: u64,
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

impl Suite {
    /// None: it is another.
    pub(super) fn of(number: u16) -> Option<Self> {
        Some(match number {
            0x1301 | 0xc02b | 0xc02f | 0x009c | 0x009e => Self::Aes128,
            0x1302 | 0xc02c | 0xc030 | 0x009d | 0x009f => Self::Aes256,
            0x1303 | 0xcca8..=0xccaa => Self::ChaCha20,
            _ => return None,
        })
    }

    fn cipher(self) -> &'static Algorithm {
        match self {
            Self::Aes128 => &AES_128_GCM,
            Self::Aes256 => &AES_256_GCM,
            Self::ChaCha20 => &CHACHA20_POLY1305,
        }
    }

    fn hash_bytes(self) -> usize {
        if self == Self::Aes256 { 48 } else { 32 }
    }

    fn hmac(self) -> hmac::Algorithm {
        if self == Self::Aes256 {
            HMAC_SHA384
        } else {
            HMAC_SHA256
        }
    }

    /// RFC 8446 §7.1: HKDF-Expand-Label, with no context.
    fn expand(self, secret: &[u8], label: &str, length: usize) -> Option<Vec<u8>> {
        let hash = if self == Self::Aes256 {
            HKDF_SHA384
        } else {
            HKDF_SHA256
        };
        let label = format!("tls13 {label}");
        let head = (length as u16).to_be_bytes();
        let info = [&head[..], &[label.len() as u8], label.as_bytes(), &[0]];
        let mut out = vec![0; length];
        let prk = Prk::new_less_safe(hash, secret);
        prk.expand(&info, Length(length))
            .ok()?
            .fill(&mut out)
            .ok()?;
        Some(out)
    }

    /// RFC 5246 §5: the pseudorandom function.
    fn stretch(self, secret: &[u8], seed: &[u8], length: usize) -> Vec<u8> {
        let key = hmac::Key::new(self.hmac(), secret);
        let sign = |parts: &[&[u8]]| hmac::sign(&key, &parts.concat()).as_ref().to_vec();
        let (mut out, mut link) = (Vec::new(), sign(&[seed]));
        while out.len() < length {
            out.extend(sign(&[&link, seed]));
            link = sign(&[&link]);
        }
        out.truncate(length);
        out
    }
}

/// The secret that follows one in TLS 1.3: RFC 8446 §7.2.
pub(super) fn updated(suite: Suite, secret: &[u8]) -> Option<Vec<u8>> {
    suite.expand(secret, "traffic upd", suite.hash_bytes())
}

impl Keys {
    /// Those of TLS 1.3.
    pub(super) fn of_secret(suite: Suite, secret: &[u8]) -> Option<Self> {
        let key = suite.expand(secret, "key", suite.cipher().key_len())?;
        Self::new(suite, &key, suite.expand(secret, "iv", NONCE_LEN)?)
    }

    /// Those of one side in TLS 1.2: of the client, 0, or the server, 1. The randoms are the server's and the client's.
    pub(super) fn of_master(
        suite: Suite,
        master: &[u8],
        randoms: [[u8; 32]; 2],
        side: usize,
    ) -> Option<Self> {
        let fixed = if suite == Suite::ChaCha20 { 12 } else { 4 };
        let key = suite.cipher().key_len();
        let seed = [b"key expansion", &randoms.concat()[..]].concat();
        let block = suite.stretch(master, &seed, 2 * (key + fixed));
        let at = |start: usize, length: usize| &block[start + side * length..][..length];
        Self::new(suite, at(0, key), at(2 * key, fixed).to_vec())
    }

    fn new(suite: Suite, key: &[u8], fixed: Vec<u8>) -> Option<Self> {
        let key = UnboundKey::new(suite.cipher(), key).ok()?;
        Some(Self {
            key: LessSafeKey::new(key),
            fixed,
            sequence: 0,
        })
    }

    /// Opens the next record of TLS 1.3.
    pub(super) fn open_1_3(&mut self, header: [u8; 5], body: &[u8]) -> Option<Vec<u8>> {
        let nonce = self.counted();
        self.open(nonce, &header, body)
    }

    /// Opens the next record of TLS 1.2.
    pub(super) fn open_1_2(&mut self, header: [u8; 5], body: &[u8]) -> Option<Vec<u8>> {
        let (nonce, body) = if self.fixed.len() == NONCE_LEN {
            (self.counted(), body)
        } else {
            let (explicit, rest) = body.split_first_chunk::<8>()?;
            let nonce = [&self.fixed[..], explicit].concat();
            (nonce.try_into().ok()?, rest)
        };
        let length = u16::try_from(body.len().checked_sub(TAG_BYTES)?).ok()?;
        let sequence = self.sequence.to_be_bytes();
        let about = [&sequence[..], &header[..3], &length.to_be_bytes()].concat();
        self.open(nonce, &about, body)
    }

    /// RFC 8446 §5.3
    fn counted(&self) -> [u8; NONCE_LEN] {
        let mut nonce = [0; NONCE_LEN];
        nonce.copy_from_slice(&self.fixed);
        for (byte, number) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= number;
        }
        nonce
    }

    fn open(&mut self, nonce: [u8; NONCE_LEN], about: &[u8], body: &[u8]) -> Option<Vec<u8>> {
        self.sequence += 1;
        let mut bytes = body.to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        let opened = self.key.open_in_place(nonce, Aad::from(about), &mut bytes);
        let length = opened.ok()?.len();
        bytes.truncate(length);
        Some(bytes)
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys at {}", self.sequence)
    }
}

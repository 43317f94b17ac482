//! A value with its key and its expiry, in one allocation.

use std::{fmt, ops::Deref, sync::Arc, time::Duration};

use crate::Error;

/// Expiry in milliseconds, length of the key, and whether there is a value.
const HEAD_BYTES: usize = 8 + 2 + 1;
const NEVER_MS: u64 = u64::MAX;

/// The longest key and the longest value, in bytes.
pub(crate) const KEY_BYTES_MAX: usize = 4 * 1024;
pub(crate) const VALUE_BYTES_MAX: usize = 1024 * 1024;

/// A key with its value, or a note that the key has no value.
#[derive(Clone, PartialEq)]
pub(crate) struct Entry(Arc<[u8]>);

impl Entry {
    pub(crate) fn new(key: &[u8], next: Option<Next<'_>>) -> Result<Self, Error> {
        let value = next.map_or(&[][..], |next| next.value);
        if key.len() > KEY_BYTES_MAX || value.len() > VALUE_BYTES_MAX {
            return Err(Error::TooLong);
        }
        let expires_ms = next
            .and_then(|next| next.expires)
            .map_or(NEVER_MS, |expires| expires.as_millis() as u64);
        let mut bytes = Vec::with_capacity(HEAD_BYTES + key.len() + value.len());
        bytes.extend_from_slice(&expires_ms.to_be_bytes());
        bytes.extend_from_slice(&(key.len() as u16).to_be_bytes());
        bytes.push(next.is_some().into());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
        Ok(Self(bytes.into()))
    }

    /// The entry in these bytes; none if they are not an entry.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let head: &[u8; HEAD_BYTES] = bytes.first_chunk()?;
        let key_len = usize::from(u16::from_be_bytes([head[8], head[9]]));
        let fits = match head[10] {
            0 => bytes.len() == HEAD_BYTES + key_len,
            1 => bytes.len() >= HEAD_BYTES + key_len,
            _ => false,
        };
        fits.then(|| Self(bytes.into()))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.0[HEAD_BYTES..self.value_at()]
    }

    pub(crate) fn value(&self) -> Option<Value> {
        (self.0[10] == 1).then(|| Value(self.clone()))
    }

    /// Whether a value has expired.
    pub(crate) fn is_over(&self, wall: Duration) -> bool {
        wall.as_millis() >= u128::from(self.expires_ms())
    }

    fn expires_ms(&self) -> u64 {
        u64::from_be_bytes(*self.0.first_chunk().expect("the constructors wrote it"))
    }

    fn value_at(&self) -> usize {
        HEAD_BYTES + usize::from(u16::from_be_bytes([self.0[8], self.0[9]]))
    }
}

/// The new value of a key.
#[derive(Clone, Copy, Debug)]
pub struct Next<'a> {
    /// The bytes.
    pub value: &'a [u8],
    /// When the value expires: wall time since the UNIX epoch. None: never.
    pub expires: Option<Duration>,
}

/// A value of the store. Copies share the bytes.
#[derive(Clone)]
pub struct Value(Entry);

impl Value {
    /// Makes the value that a key had, from its bytes and its expiry:
    /// [`Store::put`](crate::Store::put) takes it as the seen value.
    ///
    /// # Errors
    /// If it is too long for a store.
    pub fn new(key: &[u8], next: Next<'_>) -> Result<Self, Error> {
        Entry::new(key, Some(next)).map(Self)
    }

    /// When it expires: wall time since the UNIX epoch. None: never.
    pub fn expires(&self) -> Option<Duration> {
        match self.0.expires_ms() {
            NEVER_MS => None,
            ms => Some(Duration::from_millis(ms)),
        }
    }

    /// The bytes with the key and the expiry, in the form that the store keeps.
    pub(crate) fn entry_bytes(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0.0[self.0.value_at()..]
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Value {}

impl fmt::Debug for Value {
    /// Leaves out the bytes, because they may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Value({} bytes)", self.len())
    }
}

//! Names of requests that are keyed hashes already.

use std::hash::Hasher;

/// A name is its own hash.
#[derive(Debug, Default)]
pub(super) struct Named(u64);

impl Hasher for Named {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("a name is a number");
    }

    fn write_u64(&mut self, name: u64) {
        self.0 = name;
    }
}

//! Copies of messages, in memory that is used again.

use std::ops::Deref;

/// A buffer that has grown beyond this for one long message gives its memory back.
const CAPACITY_MAX: usize = 4096;

/// Buffers for the bytes that others keep: what is kept, and what waits to be used again, may not
/// take more memory than the budget.
#[derive(Debug)]
pub struct Buffers {
    idle: Vec<Vec<u8>>,
    /// The capacity of the idle buffers.
    idle_bytes: usize,
    kept_bytes: usize,
    budget: usize,
}

/// A copy that [`Buffers::keep`] made. [`Buffers::release`] takes it back.
#[derive(Debug, Default)]
pub struct Kept(Vec<u8>);

impl Deref for Kept {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Buffers {
    /// No buffer yet, and later `budget` bytes of them at most.
    #[must_use]
    pub fn new(budget: usize) -> Self {
        Self {
            idle: Vec::new(),
            idle_bytes: 0,
            kept_bytes: 0,
            budget,
        }
    }

    /// An empty buffer, for bytes whose number the caller bounds.
    pub fn take(&mut self) -> Vec<u8> {
        let buffer = self.idle.pop().unwrap_or_default();
        self.idle_bytes -= buffer.capacity();
        buffer
    }

    /// Gives a buffer back.
    pub fn give(&mut self, mut buffer: Vec<u8>) {
        let bytes = buffer.capacity();
        let in_use = self.idle_bytes + self.kept_bytes;
        if (1..=CAPACITY_MAX).contains(&bytes) && in_use + bytes <= self.budget {
            buffer.clear();
            self.idle_bytes += bytes;
            self.idle.push(buffer);
        }
    }

    /// Whether so many bytes can be kept.
    #[must_use]
    pub fn has_room(&self, bytes: usize) -> bool {
        self.kept_bytes + bytes <= self.budget
    }

    /// Copies bytes; none when the budget has no room for them.
    pub fn keep(&mut self, bytes: &[u8]) -> Option<Kept> {
        if !self.has_room(bytes.len()) {
            return None;
        }
        let mut buffer = self.take();
        buffer.extend_from_slice(bytes);
        self.kept_bytes += bytes.len();
        Some(Kept(buffer))
    }

    /// Takes a copy back.
    pub fn release(&mut self, kept: Kept) {
        self.kept_bytes -= kept.len();
        self.give(kept.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_stay_within_the_budget() {
        let mut buffers = Buffers::new(10);
        let kept = buffers.keep(b"12345678").unwrap();
        assert_eq!(*kept, *b"12345678");
        assert!(buffers.keep(b"123").is_none());
        let other = buffers.keep(b"12").unwrap();
        buffers.release(kept);
        buffers.release(other);
        assert!(buffers.keep(b"1234567890").is_some());
    }

    #[test]
    fn idle_buffers_stay_within_the_budget() {
        let mut buffers = Buffers::new(100);
        for _ in 0..3 {
            buffers.give(Vec::with_capacity(40));
        }
        assert_eq!((buffers.idle.len(), buffers.idle_bytes), (2, 80));
        assert!(buffers.take().capacity() >= 40);
        buffers.give(Vec::with_capacity(2 * CAPACITY_MAX));
        assert_eq!(buffers.idle_bytes, 40);
    }
}

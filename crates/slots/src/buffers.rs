//! Copies of messages, in memory that is used again.

use std::ops::{Deref, Range};

/// A buffer that has grown beyond this for one long message gives its memory back, unless said otherwise.
const CAPACITY_MAX: usize = 4096;

/// Buffers for the bytes that others keep: what is kept, and what waits to be used again, may not
/// take more memory than the budget.
#[derive(Debug)]
pub struct Buffers {
    idle: Vec<Vec<u8>>,
    /// The capacity of the idle buffers, and of those that are kept.
    idle_bytes: usize,
    kept_bytes: usize,
    budget: usize,
    /// The most bytes of an idle buffer.
    capacity_max: usize,
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

impl Kept {
    /// Leaves a part of it out.
    pub fn remove(&mut self, part: Range<usize>) {
        self.0.drain(part);
    }
}

impl Buffers {
    /// No buffer yet, and later `budget` bytes of them at most.
    #[must_use]
    pub fn new(budget: usize) -> Self {
        Self::of_capacity(budget, CAPACITY_MAX)
    }

    /// The same, and a buffer of more than `capacity_max` bytes is not used again.
    #[must_use]
    pub fn of_capacity(budget: usize, capacity_max: usize) -> Self {
        Self {
            idle: Vec::new(),
            idle_bytes: 0,
            kept_bytes: 0,
            budget,
            capacity_max,
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
        if (1..=self.capacity_max).contains(&bytes) && in_use + bytes <= self.budget {
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

    /// Memory that copies take, in bytes.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// Copies bytes; none when the budget has no room for them.
    pub fn keep(&mut self, bytes: &[u8]) -> Option<Kept> {
        let has_room = self.has_room(bytes.len());
        has_room.then(|| self.keep_written(|buffer| buffer.extend_from_slice(bytes)))
    }

    /// Keeps what `write` appends, however much: the caller has asked before whether there
    /// [is room](Self::has_room), or asks afterwards and releases it.
    pub fn keep_written(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Kept {
        let mut buffer = self.take();
        write(&mut buffer);
        self.kept_bytes += buffer.capacity();
        Kept(buffer)
    }

    /// Takes a copy back.
    pub fn release(&mut self, kept: Kept) {
        self.kept_bytes -= kept.0.capacity();
        self.give(kept.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_stay_within_the_budget() {
        let mut buffers = Buffers::new(100);
        let kept = buffers.keep(&[1; 80]).unwrap();
        assert_eq!((&*kept, buffers.kept_bytes()), (&[1; 80][..], 80));
        assert!(buffers.keep(&[2; 30]).is_none());
        let other = buffers.keep(&[2; 20]).unwrap();
        buffers.release(kept);
        buffers.release(other);
        assert_eq!(buffers.kept_bytes(), 0);
        assert!(buffers.keep(&[3; 100]).is_some());
    }

    /// Long messages grow their buffers to twice their size, and short ones are kept in the buffers of
    /// long ones: their memory counts, not what is in it.
    #[test]
    fn the_memory_of_a_copy_counts() {
        let mut buffers = Buffers::new(100);
        let kept = buffers.keep_written(|buffer| buffer.reserve_exact(90));
        assert_eq!((kept.len(), buffers.kept_bytes()), (0, 90));
        assert!(!buffers.has_room(20));
        buffers.release(kept);
        let kept = buffers.keep(b"short").unwrap();
        assert_eq!(buffers.kept_bytes(), 90);
        buffers.release(kept);
        assert!(buffers.has_room(100));
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

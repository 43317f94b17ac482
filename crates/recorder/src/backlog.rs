//! What taps have seen and nobody has sorted by call yet.
//!
//! To sort a message costs more than to pass it on. So a busy node only keeps full taps, and sorts them when somebody
//! asks for a call.

use std::{collections::VecDeque, mem};

use node::tap::Tap;

/// Memory of emptied taps that is kept.
const EMPTY_BYTES_MAX: usize = 16 << 20;

/// Full taps, the oldest first, and emptied ones.
#[derive(Debug, Default)]
pub struct Backlog {
    full: VecDeque<Tap>,
    empty: Vec<Tap>,
    bytes: usize,
    missed: u64,
    passed_over: u64,
}

impl Backlog {
    /// Adds a tap. One that has seen nothing is only emptied.
    pub fn put(&mut self, mut tap: Tap) {
        self.missed += tap.missed();
        if tap.entries().is_empty() {
            self.give_back(tap);
        } else {
            tap.fit();
            self.bytes += tap.capacity();
            self.full.push_back(tap);
        }
    }

    /// Takes the oldest full tap out.
    pub fn take(&mut self) -> Option<Tap> {
        let tap = self.full.pop_front()?;
        self.bytes -= tap.capacity();
        Some(tap)
    }

    /// Forgets the oldest taps until the others take at most so many bytes.
    pub fn keep(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max
            && let Some(tap) = self.take()
        {
            self.passed_over += tap.entries().len() as u64;
            self.give_back(tap);
        }
    }

    /// Forgets all taps.
    pub fn clear(&mut self) {
        *self = Self {
            missed: self.missed,
            passed_over: self.passed_over,
            ..Self::default()
        };
    }

    /// Keeps the memory of a tap that was read.
    pub fn give_back(&mut self, mut tap: Tap) {
        let kept: usize = self.empty.iter().map(Tap::capacity).sum();
        if kept + tap.capacity() <= EMPTY_BYTES_MAX {
            tap.clear();
            self.empty.push(tap);
        }
    }

    /// Emptied taps.
    pub fn empty_ones(&mut self) -> Vec<Tap> {
        mem::take(&mut self.empty)
    }

    /// Memory that the full taps take, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Messages, reasons and placements that the taps had no room for.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Messages, reasons and placements that were forgotten before anybody asked for them.
    #[must_use]
    pub fn passed_over(&self) -> u64 {
        self.passed_over
    }
}

//! Records which counts of which nonces were used.

use std::collections::BTreeMap;

use super::nonce::Issued;

/// How far behind the highest count one may come: requests overtake each other.
const WINDOW: u32 = 64;

/// The counts of the latest nonces.
#[derive(Debug)]
pub(super) struct Replays {
    seen: BTreeMap<Issued, Window>,
    nonces_max: usize,
    /// The youngest nonce that was forgotten: of it and older ones nothing is known.
    forgotten: Option<Issued>,
}

/// The highest count, and which of the 64 up to it were used: its own is the lowest bit.
#[derive(Debug)]
struct Window {
    highest: u32,
    used: u64,
}

/// What is known of a nonce's count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    New,
    Seen,
    Unknown,
}

impl Replays {
    pub(super) fn new(nonces_max: usize) -> Self {
        Self {
            seen: BTreeMap::new(),
            nonces_max: nonces_max.max(1),
            forgotten: None,
        }
    }

    /// Marks a count as used.
    pub(super) fn count(&mut self, nonce: Issued, nc: u32) -> Count {
        if let Some(window) = self.seen.get_mut(&nonce) {
            return window.count(nc);
        }
        if self.forgotten.is_some_and(|forgotten| nonce <= forgotten) {
            return Count::Unknown;
        }
        let window = Window {
            highest: nc,
            used: 1,
        };
        self.seen.insert(nonce, window);
        if self.seen.len() > self.nonces_max {
            self.forgotten = self.seen.pop_first().map(|(nonce, _)| nonce);
        }
        Count::New
    }
}

impl Window {
    fn count(&mut self, nc: u32) -> Count {
        if let Some(ahead) = nc.checked_sub(self.highest).filter(|ahead| *ahead > 0) {
            self.highest = nc;
            self.used = self.used.checked_shl(ahead).unwrap_or(0) | 1;
            return Count::New;
        }
        let behind = self.highest - nc;
        if behind >= WINDOW || self.used & 1 << behind != 0 {
            return Count::Seen;
        }
        self.used |= 1 << behind;
        Count::New
    }
}

//! The nodes before and behind this one.

use std::time::Duration;

/// Nodes before and behind that are known at most. Who is one too many counts as nobody who takes part:
/// it is told no room, and is left no request open.
pub(crate) const PEERS_MAX: usize = 63;

/// The place of all who take no part.
pub(crate) const NOBODY: usize = 0;

/// Places: those of the peers, and nobody's.
pub(crate) const PLACES: usize = 1 + PEERS_MAX;

/// Who is silent for so long is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(10);

/// Peers by key, each with its place.
#[derive(Debug)]
pub(crate) struct Peers {
    keys: [u64; PLACES],
    heard: [Duration; PLACES],
    /// No place from here on is taken.
    end: usize,
}

impl Peers {
    pub(crate) fn new() -> Self {
        Self {
            keys: [0; PLACES],
            heard: [Duration::ZERO; PLACES],
            end: 1,
        }
    }

    pub(crate) fn find(&self, key: u64) -> Option<usize> {
        self.keys[1..self.end]
            .iter()
            .position(|&known| known == key.max(1))
            .map(|index| 1 + index)
    }

    /// The place of a peer that was heard, a new one if need be; nobody's if there is none left.
    pub(crate) fn note(&mut self, now: Duration, key: u64) -> usize {
        let place = self.find(key).or_else(|| self.free());
        let Some(place) = place else {
            return NOBODY;
        };
        self.keys[place] = key.max(1);
        self.heard[place] = now;
        self.end = self.end.max(place + 1);
        place
    }

    /// Places that may be taken: all below this.
    pub(crate) fn end(&self) -> usize {
        self.end
    }

    /// Forgets who was silent for long; returns their places.
    pub(crate) fn forget_silent(&mut self, now: Duration) -> impl Iterator<Item = usize> {
        let mut gone = [false; PLACES];
        for (place, is_gone) in gone.iter_mut().enumerate().take(self.end).skip(1) {
            *is_gone = self.keys[place] != 0 && self.heard[place] + FORGOTTEN_AFTER < now;
            if *is_gone {
                self.keys[place] = 0;
            }
        }
        while self.end > 1 && self.keys[self.end - 1] == 0 {
            self.end -= 1;
        }
        (0..PLACES).filter(move |&place| gone[place])
    }

    fn free(&self) -> Option<usize> {
        let gap = self.keys[1..self.end].iter().position(|&key| key == 0);
        gap.map(|index| 1 + index)
            .or_else(|| Some(self.end).filter(|&end| end < PLACES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_few_and_come_back() {
        let mut peers = Peers::new();
        let s = Duration::from_secs;
        for key in 0..PEERS_MAX as u64 {
            assert_eq!(peers.note(s(0), 100 + key), 1 + key as usize);
        }
        assert_eq!(peers.note(s(0), 7), NOBODY);
        assert_eq!(peers.find(7), None);
        peers.note(s(9), 102);
        assert_eq!(peers.forget_silent(s(11)).count(), PEERS_MAX - 1);
        assert_eq!((peers.find(102), peers.end()), (Some(3), 4));
        assert_eq!(peers.note(s(11), 7), 1);
    }
}

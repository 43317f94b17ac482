//! The times at which parties want to be woken: a tournament tree, so that many parties cost
//! little.

use std::time::Duration;

/// One time for each party.
#[derive(Debug)]
pub(crate) struct Wakes {
    /// A binary tree of minima: the root at 1, the parties' own times from `leaves` on.
    tree: Vec<Duration>,
    leaves: usize,
}

impl Wakes {
    pub(crate) fn new(parties: usize) -> Self {
        let leaves = parties.next_power_of_two();
        Self {
            tree: vec![Duration::MAX; 2 * leaves],
            leaves,
        }
    }

    pub(crate) fn set(&mut self, party: usize, at: Duration) {
        let mut place = self.leaves + party;
        self.tree[place] = at;
        while place > 1 {
            place /= 2;
            let least = self.tree[2 * place].min(self.tree[2 * place + 1]);
            if self.tree[place] == least {
                return;
            }
            self.tree[place] = least;
        }
    }

    /// The earliest time of all.
    pub(crate) fn next_at(&self) -> Duration {
        self.tree[1]
    }

    /// The party to be woken at that time; of several the first.
    pub(crate) fn next(&self) -> usize {
        let mut place = 1;
        while place < self.leaves {
            place *= 2;
            if self.tree[place] != self.tree[1] {
                place += 1;
            }
        }
        place - self.leaves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_wakes_first_whatever_was_set() {
        let mut rng = fastrand::Rng::with_seed(7);
        for parties in [1, 2, 3, 8, 21] {
            let mut wakes = Wakes::new(parties);
            let mut plain = vec![Duration::MAX; parties];
            for _ in 0..1_000 {
                let (party, at) = (rng.usize(..parties), Duration::from_millis(rng.u64(..50)));
                wakes.set(party, at);
                plain[party] = at;
                let least = *plain.iter().min().unwrap();
                assert_eq!(wakes.next_at(), least);
                assert_eq!(Some(wakes.next()), plain.iter().position(|at| *at == least));
            }
        }
    }
}

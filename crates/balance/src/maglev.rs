//! Maglev's look-up table.

use crate::hash;

/// Sizes of tables, primes. The paper asks for a hundred entries a server at least, so that shares
/// are even within a hundredth.
const SIZES: [usize; 3] = [5_003, 65_537, 655_373];
const ENTRIES_PER_SERVER: usize = 100;

/// How many entries are looked at for one key, each far from the last.
const PROBES: u64 = 64;

/// A table of servers' places, filled in turns, each server following a permutation of its own:
/// Eisenbud et al., "Maglev: A Fast and Reliable Software Network Load Balancer", NSDI 2016, §3.4.
/// A server with twice the capacity has twice the turns.
#[derive(Debug, Default)]
pub(crate) struct Table(Box<[u16]>);

struct Filler {
    next: usize,
    skip: usize,
    turns_per_round: f64,
    turns: f64,
}

impl Table {
    /// A table of servers by hash of their name and capacity.
    pub(crate) fn new(servers: &[(u64, f64)]) -> Self {
        if servers.is_empty() {
            return Self::default();
        }
        let wanted = servers.len() * ENTRIES_PER_SERVER;
        let size = SIZES.into_iter().find(|size| *size >= wanted);
        let size = size.unwrap_or(SIZES[SIZES.len() - 1]);
        let most = servers.iter().fold(0.0, |most, (_, c)| f64::max(most, *c));
        let mut fillers: Vec<_> = servers
            .iter()
            .map(|(name_hash, capacity)| Filler::new(*name_hash, capacity / most, size))
            .collect();
        let mut entries = vec![u16::MAX; size].into_boxed_slice();
        let mut left = size;
        while left > 0 {
            for (index, filler) in fillers.iter_mut().enumerate() {
                filler.turns += filler.turns_per_round;
                while filler.turns >= 1.0 && left > 0 {
                    filler.turns -= 1.0;
                    filler.take(&mut entries, index as u16);
                    left -= 1;
                }
            }
        }
        Self(entries)
    }

    /// The places that a key probes, in order.
    pub(crate) fn probes(&self, key_hash: u64) -> impl Iterator<Item = usize> {
        let size = self.0.len() as u64;
        let probes = if size == 0 { 0 } else { PROBES };
        (0..probes).map(move |probe| {
            let entry = hash::mix(key_hash.wrapping_add(probe)) % size;
            usize::from(self.0[entry as usize])
        })
    }
}

impl Filler {
    fn new(name_hash: u64, turns_per_round: f64, size: usize) -> Self {
        let size = size as u64;
        Self {
            next: (name_hash % size) as usize,
            skip: (hash::mix(name_hash) % (size - 1) + 1) as usize,
            turns_per_round,
            turns: 0.0,
        }
    }

    /// Takes the next free entry of its permutation; there must be one.
    fn take(&mut self, entries: &mut [u16], index: u16) {
        while entries[self.next] != u16::MAX {
            self.next = (self.next + self.skip) % entries.len();
        }
        entries[self.next] = index;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(servers: u16) -> Table {
        let server = |i: u16| (hash::fnv1a(&i.to_be_bytes()), 1.0);
        Table::new(&(0..servers).map(server).collect::<Vec<_>>())
    }

    #[test]
    fn shares_follow_capacity() {
        let table = Table::new(&[(1, 1.0), (2, 0.25), (3, 0.5), (4, 0.001)]);
        let mut shares = [0_u32; 4];
        table.0.iter().for_each(|i| shares[usize::from(*i)] += 1);
        for (share, capacity) in shares.into_iter().zip([1.0, 0.25, 0.5, 0.001]) {
            let expected = 5_003.0 * capacity / 1.751;
            assert!((f64::from(share) - expected).abs() < 2.0, "{shares:?}");
        }
    }

    #[test]
    fn few_entries_change_when_a_server_goes() {
        let (with, without) = (table(9), table(8));
        let kept = with
            .0
            .iter()
            .zip(&without.0)
            .filter(|(a, b)| a == b)
            .count();
        let had_a_server_that_stays = with.0.iter().filter(|i| **i != 8).count();
        assert!(kept * 100 > had_a_server_that_stays * 85, "{kept}");
    }

    #[test]
    fn many_servers_fit_and_none_probes_nothing() {
        let table = table(7_000);
        assert_eq!(table.0.len(), 655_373);
        assert!(table.0.iter().all(|i| *i < 7_000));
        assert_eq!(Table::new(&[]).probes(7).count(), 0);
        assert_eq!(Table::default().probes(7).count(), 0);
    }
}

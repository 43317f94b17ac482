//! The names of parties, and how they die.

/// A party's number, in the order in which the parties were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartyId(pub(crate) u32);

/// How a party dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// Its process ends. The system tells senders with ICMP that no socket listens.
    Process,
    /// Its machine fails, so senders get no ICMP.
    Machine,
}

impl PartyId {
    /// Its index in [`World::names`](crate::World::names).
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

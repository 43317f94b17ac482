//! The letters of what requests take of semaphores and locks.

use crate::model::Locking;

/// LQNS signals by P and waits by V, the other way round than Dijkstra.
const LETTERS: [(&str, Locking); 6] = [
    ("P", Locking::Signal),
    ("V", Locking::Wait),
    ("R", Locking::ReadLock),
    ("U", Locking::ReadUnlock),
    ("W", Locking::WriteLock),
    ("X", Locking::WriteUnlock),
];

pub(super) fn locking(letter: &str) -> Option<Locking> {
    let known = LETTERS.iter().find(|known| known.0 == letter);
    known.map(|known| known.1)
}

pub(super) fn letter(locking: Locking) -> &'static str {
    let known = LETTERS.iter().find(|known| known.1 == locking);
    known.expect("each has a letter").0
}

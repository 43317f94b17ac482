//! What the OS knows and a node is told: the time, and chance.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A monotonic clock that starts at zero. Copies tell the same time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    zero: Instant,
}

impl Clock {
    /// A clock whose zero is this moment.
    #[must_use]
    pub fn start() -> Self {
        Self {
            zero: Instant::now(),
        }
    }

    /// The time since its zero.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.zero.elapsed()
    }
}

/// The wall clock, since 1970.
pub(crate) fn wall() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default()
}

/// A seed that nobody can guess.
///
/// # Panics
/// If the OS has no entropy, which no supported one lets a process see.
#[must_use]
pub fn seed() -> u64 {
    getrandom::u64().expect("the OS has entropy")
}

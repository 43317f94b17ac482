//! What bounds requests, when they come, and what answers them.

use std::{
    sync::LazyLock,
    time::{Duration, Instant, SystemTime},
};

use crate::{Error, Value};

/// What bounds a store.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Memory for entries: all of them in `memory` and `file:`, the cached ones of `redis://`. In bytes.
    pub memory_bytes: usize,
    /// Requests that wait for their answer.
    pub queue: usize,
    /// How long a request may wait for Redis.
    pub wait_max: Duration,
    /// How long a cached entry is believed without asking Redis again. Others' changes are known a
    /// message later, but messages can be lost.
    pub age_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 1 << 30,
            queue: 65_536,
            wait_max: Duration::from_secs(1),
            age_max: Duration::from_secs(30),
        }
    }
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is made.
    Stored,
    /// It is not made: the value is not what was seen, but this one.
    Changed(Option<Value>),
}

/// Takes an answer that comes later, on the store's thread, once. It must not wait.
pub(crate) type Done<T> = Box<dyn FnOnce(Result<T, Error>) + Send>;

/// Both clocks, read once for a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    /// Since the UNIX epoch.
    pub(crate) wall: Duration,
    /// Since the process began; never goes back.
    pub(crate) age: Duration,
}

impl Now {
    pub(crate) fn read() -> Self {
        static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
        let wall = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        Self {
            wall,
            age: BEGAN.elapsed(),
        }
    }
}

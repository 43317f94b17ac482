//! What the OS knows and a node is told: the time, and chance.

use std::{
    os::unix::thread::RawPthread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

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

/// The processor time that a thread of ours has used; none if it is gone.
///
/// # Safety
/// The thread has not been joined yet.
pub(crate) unsafe fn processor_time(thread: RawPthread) -> Option<Duration> {
    let mut clock = 0;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: both write to what they are given, and the caller vouches for the thread.
    let read = unsafe {
        libc::pthread_getcpuclockid(thread, &raw mut clock) == 0
            && libc::clock_gettime(clock, &raw mut time) == 0
    };
    read.then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// A seed that nobody can guess.
///
/// # Panics
/// If the OS has no entropy, which no supported one lets a process see.
#[must_use]
pub fn seed() -> u64 {
    getrandom::u64().expect("the OS has entropy")
}

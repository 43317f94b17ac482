//! The clock, the processor time of a thread, and seeds.

use std::{
    os::unix::thread::JoinHandleExt,
    thread::JoinHandle,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// A monotonic clock that starts at zero. Copies tell the same time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    zero: Instant,
}

impl Clock {
    /// Starts a clock at zero.
    #[must_use]
    pub fn start() -> Self {
        Self {
            zero: Instant::now(),
        }
    }

    /// Returns the time since the clock's zero.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.zero.elapsed()
    }
}

/// Reads the wall clock: the time since 1970.
#[must_use]
pub fn wall() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default()
}

/// Returns the processor time that a thread has used, in user and in kernel mode; none if the
/// thread has ended.
#[must_use]
pub fn processor_time<T>(thread: &JoinHandle<T>) -> Option<Duration> {
    // An integer with the GNU C library, a pointer with musl.
    let thread = thread.as_pthread_t() as _;
    let mut clock = 0;
    // SAFETY: it writes to what it is given. The borrowed handle has neither joined nor detached the thread, so its
    // identifier is valid.
    let found = unsafe { libc::pthread_getcpuclockid(thread, &raw mut clock) == 0 };
    found.then(|| time_of(clock)).flatten()
}

/// The processor time that this thread has used, in user and in kernel mode.
#[must_use]
pub fn own_processor_time() -> Duration {
    time_of(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or_default()
}

fn time_of(clock: libc::clockid_t) -> Option<Duration> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: it writes to what it is given.
    let read = unsafe { libc::clock_gettime(clock, &raw mut time) == 0 };
    read.then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// Draws a seed that nobody can guess.
///
/// # Panics
/// If the OS has no entropy. Supported systems always have some.
#[must_use]
pub fn seed() -> u64 {
    getrandom::u64().expect("the OS has entropy")
}

//! Wakes a thread that sleeps in `poll`.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::{AsFd, BorrowedFd, FromRawFd},
    sync::atomic::{AtomicBool, Ordering, fence},
};

/// An eventfd. A waker writes to it only while its owner sleeps, so it costs nothing while the
/// owner is awake.
#[derive(Debug)]
pub struct Waker {
    event: File,
    armed: AtomicBool,
}

impl Waker {
    /// Creates a waker whose owner is awake.
    ///
    /// # Errors
    /// If the system has no descriptor left.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers are passed.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is fresh, so that nobody else owns it.
        let event = unsafe { File::from_raw_fd(fd) };
        Ok(Self {
            event,
            armed: AtomicBool::new(false),
        })
    }

    /// Announces that the owner will sleep. The owner must look for work once more after this call.
    /// The fences here and in [`Self::wake`] ensure that the owner finds the work, or that the
    /// other thread sees that the owner sleeps.
    pub fn arm(&self) {
        self.armed.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Announces that the owner is awake again. `signalled` says if `poll` reported the event. A
    /// later event shortens the next sleep, which does no harm.
    pub fn disarm(&self, signalled: bool) {
        self.armed.store(false, Ordering::Relaxed);
        if signalled {
            let _ = (&self.event).read(&mut [0; 8]);
        }
    }

    /// Wakes the owner if it sleeps. The caller must leave the work before this call.
    pub fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.armed.load(Ordering::Relaxed) && self.armed.swap(false, Ordering::Relaxed) {
            // It fails only when the counter is full, and then the owner wakes up anyway.
            let _ = (&self.event).write(&1u64.to_ne_bytes());
        }
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::atomic::AtomicU64, thread, time::Duration};

    use super::*;
    use crate::Poll;

    const ROUNDS: u64 = 50_000;
    const PATIENCE: Duration = Duration::from_secs(5);

    /// Two threads take turns. Each sleeps until the other has incremented the count.
    #[test]
    fn no_wake_up_is_lost() {
        let wakers = [Waker::new().unwrap(), Waker::new().unwrap()];
        let count = AtomicU64::new(0);
        let play = |side: usize| {
            for round in (side as u64..2 * ROUNDS).step_by(2) {
                while count.load(Ordering::Relaxed) < round {
                    sleep(&wakers[side], || count.load(Ordering::Relaxed) < round);
                }
                count.store(round + 1, Ordering::Relaxed);
                wakers[1 - side].wake();
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| play(0));
            scope.spawn(|| play(1));
        });
        assert_eq!(count.into_inner(), 2 * ROUNDS);
    }

    #[test]
    fn a_late_signal_ends_one_sleep() {
        let waker = Waker::new().unwrap();
        waker.arm();
        waker.wake();
        waker.disarm(false);
        assert!(poll(&waker, Duration::ZERO));
        waker.disarm(true);
        assert!(!poll(&waker, Duration::ZERO));
        waker.wake();
        assert!(!poll(&waker, Duration::ZERO), "the awake are not woken");
    }

    fn sleep(waker: &Waker, is_idle: impl Fn() -> bool) {
        waker.arm();
        let signalled = is_idle() && {
            assert!(poll(waker, PATIENCE), "nobody woke the sleeper");
            true
        };
        waker.disarm(signalled);
    }

    fn poll(waker: &Waker, timeout: Duration) -> bool {
        let mut poll = Poll::default();
        poll.wait([waker.as_fd()], Some(timeout));
        poll.is_ready(0)
    }
}

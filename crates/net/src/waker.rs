//! Waking a worker that sleeps in `poll`.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::{AsRawFd, FromRawFd, RawFd},
    sync::atomic::{AtomicBool, Ordering, fence},
};

/// An eventfd that is written only while its owner sleeps, so that waking the awake costs nothing.
#[derive(Debug)]
pub(crate) struct Waker {
    event: File,
    armed: AtomicBool,
}

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
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

    /// To be called before the owner looks for work for the last time and then sleeps. The fences
    /// here and in [`Self::wake`] see to it that either the owner finds the work or the other sees
    /// it armed.
    pub(crate) fn arm(&self) {
        self.armed.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// To be called when the owner is awake again.
    pub(crate) fn disarm(&self) {
        if !self.armed.swap(false, Ordering::Relaxed) {
            // Written, or about to be: then the next sleep is cut short, which does no harm.
            let _ = (&self.event).read(&mut [0; 8]);
        }
    }

    /// To be called after there is work for the owner.
    pub(crate) fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.armed.load(Ordering::Relaxed) && self.armed.swap(false, Ordering::Relaxed) {
            // It fails only when the counter is full, and then the owner wakes up anyway.
            let _ = (&self.event).write(&1u64.to_ne_bytes());
        }
    }
}

impl AsRawFd for Waker {
    fn as_raw_fd(&self) -> RawFd {
        self.event.as_raw_fd()
    }
}

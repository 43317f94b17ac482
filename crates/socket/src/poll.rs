//! Waits for several descriptors at once.

use std::{
    fmt,
    os::fd::{AsRawFd, BorrowedFd},
    ptr,
    time::Duration,
};

/// Waits until one of several sockets or wakers is ready. It reuses its memory.
#[derive(Default)]
pub struct Poll {
    entries: Vec<libc::pollfd>,
}

impl Poll {
    /// Waits until a descriptor has something to read or an error, `timeout` ends, or a signal
    /// arrives. [`Self::is_ready`] then tells which descriptor it was. Without a timeout it waits
    /// forever.
    pub fn wait<'a>(
        &mut self,
        descriptors: impl IntoIterator<Item = BorrowedFd<'a>>,
        timeout: Option<Duration>,
    ) {
        let entry = |descriptor: BorrowedFd<'_>| libc::pollfd {
            fd: descriptor.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        self.entries.clear();
        self.entries.extend(descriptors.into_iter().map(entry));
        let timeout = timeout.map(|timeout| libc::timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        let (fds, count) = (
            self.entries.as_mut_ptr(),
            self.entries.len() as libc::nfds_t,
        );
        let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: the vector holds `count` entries, and the timeout is null or valid; without a
        // mask of signals none is read.
        if unsafe { libc::ppoll(fds, count, timeout, ptr::null()) } < 0 {
            // A signal came in before anything was told.
            self.entries.iter_mut().for_each(|entry| entry.revents = 0);
        }
    }

    /// Whether the descriptor at this index has something to read.
    #[must_use]
    pub fn is_ready(&self, place: usize) -> bool {
        self.entries[place].revents != 0
    }

    /// Whether the socket at this index has an error. [`crate::udp::Socket::unreachable`] reads it;
    /// until then the socket stays ready.
    #[must_use]
    pub fn has_error(&self, place: usize) -> bool {
        self.entries[place].revents & libc::POLLERR != 0
    }
}

impl fmt::Debug for Poll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poll")
            .field("descriptors", &self.entries.len())
            .finish()
    }
}

//! Waiting for several sockets at once.

use std::{os::fd::AsRawFd, ptr, time::Duration};

use super::Socket;

/// Waits for whichever of several sockets has a datagram first. The memory is used again and again.
#[derive(Default)]
pub struct Poll {
    entries: Vec<libc::pollfd>,
}

impl Poll {
    /// Waits until one of the sockets has something to receive, be it an error, `timeout` is over
    /// or a signal comes in; then [`Self::is_ready`] tells which has. No timeout: for ever.
    pub fn wait<'a>(
        &mut self,
        sockets: impl IntoIterator<Item = &'a Socket>,
        timeout: Option<Duration>,
    ) {
        let entry = |socket: &Socket| libc::pollfd {
            fd: socket.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        self.entries.clear();
        self.entries.extend(sockets.into_iter().map(entry));
        let timeout = timeout.map(|timeout| libc::timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(libc::time_t::MAX),
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

    /// Whether the socket at this place has something to receive.
    #[must_use]
    pub fn is_ready(&self, place: usize) -> bool {
        self.entries[place].revents != 0
    }

    /// Whether [`Socket::unreachable`] has something to tell, without which the socket stays ready.
    #[must_use]
    pub fn has_error(&self, place: usize) -> bool {
        self.entries[place].revents & libc::POLLERR != 0
    }
}

impl std::fmt::Debug for Poll {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Poll")
            .field("sockets", &self.entries.len())
            .finish()
    }
}

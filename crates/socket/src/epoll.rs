//! Waits for thousands of descriptors.

use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    ptr,
    time::Duration,
};

/// Descriptors of which a few are ready at a time. It is itself a descriptor that is ready when one of them
/// is.
#[derive(Debug)]
pub struct Epoll {
    inner: OwnedFd,
    ready: Vec<Ready>,
}

/// What to wait for. Errors and the peer's end are always told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Neither: it is left alone.
    Nothing,
    /// Until there is something to read.
    Read,
    /// Until there is something to read, or room to write.
    Both,
    /// Until there is room to write.
    Write,
}

/// When to tell that a descriptor is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// As long as it is.
    Level,
    /// When it becomes so, when more comes, and after [`Epoll::change`]. The peer's end is told, too.
    Edge,
}

/// A descriptor that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// What [`Epoll::add`] was told.
    pub token: u64,
    /// There is something to read, an end or an error.
    pub readable: bool,
    /// There is room to write, or an error.
    pub writable: bool,
    /// There is an error.
    pub error: bool,
    /// The peer sends nothing more after what is there to read, as far as was asked.
    pub ended: bool,
}

impl Interest {
    fn events(self) -> u32 {
        let events = match self {
            Self::Nothing => 0,
            Self::Read => libc::EPOLLIN,
            Self::Both => libc::EPOLLIN | libc::EPOLLOUT,
            Self::Write => libc::EPOLLOUT,
        };
        events as u32
    }
}

impl Trigger {
    fn events(self) -> u32 {
        let events = match self {
            Self::Level => 0,
            Self::Edge => libc::EPOLLET | libc::EPOLLRDHUP,
        };
        events as u32
    }
}

impl Epoll {
    /// Waits for nothing yet.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new() -> io::Result<Self> {
        // SAFETY: it takes no pointer.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            // SAFETY: the descriptor is new, and nobody else has it.
            inner: unsafe { OwnedFd::from_raw_fd(fd) },
            ready: Vec::new(),
        })
    }

    /// Waits for one more descriptor. To close it ends that.
    ///
    /// # Errors
    /// The system's error: it is there already, or there is no memory left.
    pub fn add(
        &self,
        of: impl AsFd,
        token: u64,
        interest: Interest,
        trigger: Trigger,
    ) -> io::Result<()> {
        let events = interest.events() | trigger.events();
        self.control(libc::EPOLL_CTL_ADD, of.as_fd(), token, events)
    }

    /// Waits for something else.
    ///
    /// # Errors
    /// The system's error: it is not there.
    pub fn change(
        &self,
        of: impl AsFd,
        token: u64,
        interest: Interest,
        trigger: Trigger,
    ) -> io::Result<()> {
        let events = interest.events() | trigger.events();
        self.control(libc::EPOLL_CTL_MOD, of.as_fd(), token, events)
    }

    /// Waits for a descriptor no longer.
    ///
    /// # Errors
    /// The system's error: it is not there.
    pub fn remove(&self, of: impl AsFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, of.as_fd(), 0, 0)
    }

    fn control(
        &self,
        operation: libc::c_int,
        of: BorrowedFd<'_>,
        token: u64,
        events: u32,
    ) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: token };
        let (epoll, fd) = (self.inner.as_raw_fd(), of.as_raw_fd());
        // SAFETY: the event lives until the call returns.
        let result = unsafe { libc::epoll_ctl(epoll, operation, fd, &raw mut event) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Who is ready now, at most so many. What is left comes first at the next call.
    pub fn poll(&mut self, max: usize) -> &[Ready] {
        self.wait(max, Duration::ZERO)
    }

    /// The same, once somebody is; waits at most this long, in whole milliseconds.
    pub fn wait(&mut self, max: usize, timeout: Duration) -> &[Ready] {
        const NONE: libc::epoll_event = libc::epoll_event { events: 0, u64: 0 };
        let mut events = [NONE; 64];
        let max = max.min(events.len()) as libc::c_int;
        let timeout = libc::c_int::try_from(timeout.as_millis()).unwrap_or(libc::c_int::MAX);
        // SAFETY: there is room for `max` events, and a null mask of signals is not read.
        let count = unsafe {
            let (epoll, events) = (self.inner.as_raw_fd(), events.as_mut_ptr());
            libc::epoll_pwait(epoll, events, max, timeout, ptr::null())
        };
        // A signal came in before anything was told.
        let count = usize::try_from(count).unwrap_or(0);
        let has = |events: u32, any: libc::c_int| events & any as u32 != 0;
        let ready = |event: &libc::epoll_event| Ready {
            token: event.u64,
            readable: has(
                event.events,
                libc::EPOLLIN | libc::EPOLLHUP | libc::EPOLLERR,
            ),
            writable: has(event.events, libc::EPOLLOUT | libc::EPOLLERR),
            error: has(event.events, libc::EPOLLERR),
            ended: has(event.events, libc::EPOLLRDHUP | libc::EPOLLHUP),
        };
        self.ready.clear();
        self.ready.extend(events[..count].iter().map(ready));
        &self.ready
    }
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

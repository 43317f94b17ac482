//! UDP in batches. Every datagram of a batch may have another peer.

mod address;
mod batch;
mod filter;
mod local;
mod queue;

use std::{
    io, mem,
    net::SocketAddr,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    ptr,
    sync::Arc,
    time::Duration,
};

use socket2::{Domain, Protocol, Type};

use filter::Filter;
use local::Heard;

use crate::dated::date;

pub use batch::{Datagram, RecvBatch, SendBatch};
pub use filter::Instruction;

/// Datagrams that one system call moves.
pub const BATCH: usize = 64;

/// How long a sender waits for space in a full send buffer, in milliseconds.
const ROOM_WAIT_MS: libc::c_int = 5;

/// How often a datagram is tried. An error may belong to an earlier datagram, and there may be more
/// than one such error.
const ATTEMPTS: u32 = 3;

/// How a socket is set up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Lets other sockets with this option bind the same address. The kernel distributes the peers
    /// over them.
    pub reuse_port: bool,
    /// The size of the kernel's receive buffer, if the kernel grants it; none: its default.
    pub recv_buffer: Option<usize>,
    /// The size of the kernel's send buffer, if the kernel grants it; none: its default.
    pub send_buffer: Option<usize>,
}

/// Whether to wait for a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Waits until a datagram arrives or the receive timeout ends.
    Block,
    /// Does not wait.
    Poll,
}

/// The results of [`Socket::send`], as numbers of datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// The kernel accepted them.
    pub sent: u64,
    /// Lost: longer than the path or the protocol allows.
    pub too_long: u64,
    /// Lost: no route.
    pub unreachable: u64,
    /// Lost: the kernel had no buffer space, even after a wait.
    pub no_room: u64,
    /// Lost: refused for another reason, such as a filter or an address of the other family.
    pub refused: u64,
    /// Whether an error may have occurred, so that [`Socket::unreachable`] may have something to tell.
    pub error: bool,
}

/// A bound UDP socket. An IPv6 socket carries only IPv6. A socket that is bound to all addresses of
/// its family sends to each peer from the address to which the peer last sent.
#[derive(Debug)]
pub struct Socket {
    inner: socket2::Socket,
    local: SocketAddr,
    /// For a socket that is bound to all addresses.
    heard: Option<Arc<Heard>>,
    filter: Filter,
}

impl Socket {
    /// Binds `address`; port 0 takes a free port.
    ///
    /// # Errors
    /// The system's error: the address is in use or not on this machine, or there are no
    /// descriptors left.
    pub fn bind(address: SocketAddr, options: Options) -> io::Result<Self> {
        let inner = open(address, options)?;
        if options.reuse_port {
            inner.set_reuse_port(true)?;
        }
        Self::bound(inner, address)
    }

    /// Binds `count` sockets to one address, for as many threads. Unlike [`Options::reuse_port`]
    /// alone, this fails if another process has the address, whatever options that process used.
    ///
    /// # Errors
    /// As [`Self::bind`].
    pub fn bind_group(
        address: SocketAddr,
        count: usize,
        options: Options,
    ) -> io::Result<Vec<Self>> {
        // Others may join after the bind alone: the address had to be free.
        let first = Self::bound(open(address, options)?, address)?;
        let others: io::Result<Vec<_>> = (1..count).map(|_| first.join(options)).collect();
        let mut sockets = others?;
        sockets.insert(0, first);
        Ok(sockets)
    }

    /// Goes on with the sockets of one address that another process has left, for as many threads. What has
    /// arrived meanwhile is in their receive buffers. If there are too few, it binds more.
    ///
    /// # Errors
    /// As [`Self::bind`].
    pub fn adopt_group(fds: Vec<OwnedFd>, count: usize, options: Options) -> io::Result<Vec<Self>> {
        let mut sockets = Vec::new();
        for fd in fds.into_iter().take(count) {
            let inner = socket2::Socket::from(fd);
            // A filter of the other process must not outlive it.
            let _ = inner.detach_filter();
            inner.set_nonblocking(false)?;
            prepare(&inner, options)?;
            sockets.push(Self::over(inner)?);
        }
        let Some(first) = sockets.first() else {
            return Ok(sockets);
        };
        let heard = first.heard.clone();
        for socket in &mut sockets {
            socket.heard.clone_from(&heard);
        }
        while sockets.len() < count {
            // Each of them has to share the address.
            sockets
                .iter()
                .try_for_each(|socket| socket.inner.set_reuse_port(true))?;
            sockets.push(sockets[0].join(options)?);
        }
        Ok(sockets)
    }

    /// Binds one more socket to the same address. It is the last of the group that shares the address, and counts what
    /// it hears with the others.
    ///
    /// # Errors
    /// As [`Self::bind`].
    pub fn join(&self, options: Options) -> io::Result<Self> {
        self.inner.set_reuse_port(true)?;
        let shared = Options {
            reuse_port: true,
            ..options
        };
        let other = Self::bind(self.local, shared)?;
        let heard = self.heard.clone();
        Ok(Self { heard, ..other })
    }

    fn bound(inner: socket2::Socket, address: SocketAddr) -> io::Result<Self> {
        inner.bind(&address.into())?;
        Self::over(inner)
    }

    fn over(inner: socket2::Socket) -> io::Result<Self> {
        let local = inner
            .local_addr()?
            .as_socket()
            .expect("bound to an internet address");
        let heard = local.ip().is_unspecified().then(Arc::default);
        if heard.is_some() {
            let (level, option) = match local {
                SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_PKTINFO),
                SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
            };
            set_option(&inner, level, option, 1)?;
        }
        date(&inner);
        Ok(Self {
            inner,
            local,
            heard,
            filter: Filter::default(),
        })
    }

    /// The address to which it is bound.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Sets how long [`Wait::Block`] waits; none: forever. The kernel rounds up to its tick.
    ///
    /// # Errors
    /// The system's error; none is known for a valid descriptor.
    pub fn set_recv_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.inner.set_read_timeout(timeout)
    }

    /// Receives the datagrams that are there, at most a batch, and returns their number. Zero means
    /// that the wait ended.
    ///
    /// # Errors
    /// An ICMP answer to an earlier datagram, which [`Self::unreachable`] explains. The caller can
    /// call again; nothing is lost.
    pub fn recv(&self, batch: &mut RecvBatch, wait: Wait) -> io::Result<usize> {
        let flags = match wait {
            Wait::Block => libc::MSG_WAITFORONE,
            Wait::Poll => libc::MSG_DONTWAIT,
        };
        self.account_drops();
        let headers = batch.prepare(self.heard.is_some());
        // SAFETY: `prepare` returns headers whose every pointer is valid while `batch` is borrowed.
        let received = unsafe {
            libc::recvmmsg(
                self.inner.as_raw_fd(),
                headers.as_mut_ptr(),
                headers.len() as libc::c_uint,
                flags as _,
                ptr::null_mut(),
            )
        };
        if let Ok(received) = usize::try_from(received) {
            batch.received(received);
            if let Some(heard) = &self.heard {
                let mut peers = heard.peers();
                batch
                    .hits()
                    .for_each(|(peer, local)| peers.heard(peer, local));
            }
            return Ok(received);
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
            _ => Err(error),
        }
    }

    /// Sends all `items` in order. An item that fails is counted and skipped; the others are still
    /// sent.
    pub fn send<'a>(
        &self,
        batch: &mut SendBatch,
        items: impl IntoIterator<Item = (SocketAddr, &'a [u8])>,
    ) -> Sent {
        let mut sent = Sent::default();
        let mut items = items.into_iter();
        loop {
            let headers = batch.fill(&mut items, self.heard.as_deref());
            if headers.is_empty() {
                return sent;
            }
            self.send_batch(headers, &mut sent);
        }
    }

    /// Tells of the ICMP errors since the last call which say that a peer is unreachable: the peer, and
    /// the beginning of the datagram that the error quotes, perhaps nothing. Anybody can forge such an
    /// error. Call it only after an error of [`Self::recv`] or after [`Sent::error`].
    pub fn unreachable(&self, tell: impl FnMut(SocketAddr, &[u8])) {
        queue::drain(self.inner.as_raw_fd(), tell);
    }

    /// `headers` are filled: every pointer in them is valid.
    fn send_batch(&self, mut headers: &mut [libc::mmsghdr], sent: &mut Sent) {
        let mut attempts = 0;
        let mut waited = false;
        while !headers.is_empty() {
            // SAFETY: the caller filled the headers, and their length is passed along.
            let done = unsafe {
                let length = headers.len() as libc::c_uint;
                libc::sendmmsg(self.inner.as_raw_fd(), headers.as_mut_ptr(), length, 0)
            };
            if let Ok(done) = usize::try_from(done) {
                sent.sent += done as u64;
                // An error that ends a batch early shows in nothing but the count.
                sent.error |= done < headers.len();
                headers = &mut headers[done..];
                (attempts, waited) = (0, false);
                continue;
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => continue,
                Some(libc::EAGAIN) if !waited => {
                    waited = true;
                    self.wait_for_room();
                    continue;
                }
                Some(libc::EAGAIN) => {}
                _ => {
                    sent.error = true;
                    attempts += 1;
                    if attempts < ATTEMPTS {
                        continue;
                    }
                    // The address that the peer was heard on may have moved to another machine.
                    if mem::take(&mut headers[0].msg_hdr.msg_controllen) > 0 {
                        continue;
                    }
                }
            }
            sent.count(&error);
            headers = &mut headers[1..];
            attempts = 0;
        }
    }

    fn wait_for_room(&self) {
        let mut fd = libc::pollfd {
            fd: self.inner.as_raw_fd(),
            events: libc::POLLOUT,
            revents: 0,
        };
        // SAFETY: one valid pollfd. The next attempt to send tells how the wait ended.
        unsafe { libc::poll(&mut fd, 1, ROOM_WAIT_MS) };
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

impl Sent {
    /// Datagrams that were lost.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.too_long + self.unreachable + self.no_room + self.refused
    }

    fn count(&mut self, error: &io::Error) {
        let kind = match error.raw_os_error() {
            Some(libc::EMSGSIZE) => &mut self.too_long,
            Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENETDOWN) => &mut self.unreachable,
            Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => &mut self.no_room,
            _ => &mut self.refused,
        };
        *kind += 1;
    }
}

fn open(address: SocketAddr, options: Options) -> io::Result<socket2::Socket> {
    let socket = socket2::Socket::new(
        Domain::for_address(address),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    let (level, option) = match address {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_RECVERR),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_RECVERR),
    };
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    set_option(&socket, level, option, 1)?;
    prepare(&socket, options)?;
    Ok(socket)
}

/// Sets the sizes of a socket's buffers.
fn prepare(socket: &socket2::Socket, options: Options) -> io::Result<()> {
    // A size beyond the system's limit takes a privilege; without it the kernel caps the size.
    if let Some(bytes) = options.recv_buffer {
        let forced = set_size(socket, libc::SO_RCVBUFFORCE, bytes);
        forced.or_else(|_| set_size(socket, libc::SO_RCVBUF, bytes))?;
    }
    if let Some(bytes) = options.send_buffer {
        let forced = set_size(socket, libc::SO_SNDBUFFORCE, bytes);
        forced.or_else(|_| set_size(socket, libc::SO_SNDBUF, bytes))?;
    }
    Ok(())
}

fn set_size(socket: &socket2::Socket, option: libc::c_int, bytes: usize) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    set_option(socket, libc::SOL_SOCKET, option, bytes)
}

fn set_option(
    socket: &socket2::Socket,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the value is an integer of the length that is passed along.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            ptr::from_ref(&value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    match status {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

//! TCP without blocking.

use std::{
    io::{self, Read},
    mem::MaybeUninit,
    net::SocketAddr,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    time::Duration,
};

use socket2::{Domain, Protocol, Type};

use crate::{
    dated::{date, moment},
    wall,
};

/// Peers that wait to be accepted. The kernel may allow fewer: net.core.somaxconn.
const BACKLOG: i32 = 4096;

/// Bytes for one moment that the kernel tells, aligned as it needs them.
type Control = [u64; 8];

/// A socket that peers connect to. An IPv6 socket takes only IPv6.
#[derive(Debug)]
pub struct Listener {
    inner: socket2::Socket,
    local: SocketAddr,
}

/// A connection, or one that is being opened.
#[derive(Debug)]
pub struct Stream {
    inner: socket2::Socket,
    /// With how each write is sent.
    flags: libc::c_int,
}

impl Listener {
    /// Binds `count` sockets to one address, for as many threads: the kernel distributes the peers over them.
    /// Port 0 takes a free port.
    ///
    /// # Errors
    /// The system's error: another process has the address, whatever options it used, the address is not on
    /// this machine, or there are no descriptors left.
    pub fn bind_group(address: SocketAddr, count: usize) -> io::Result<Vec<Self>> {
        let first = open(address)?;
        first.set_reuse_address(true)?;
        first.bind(&address.into())?;
        // Set after the bind: the address had to be free, yet the others may join.
        first.set_reuse_port(true)?;
        first.listen(BACKLOG)?;
        date(&first);
        let local = local(&first)?;
        let mut group = vec![Self {
            inner: first,
            local,
        }];
        for _ in 1..count {
            let other = open(local)?;
            other.set_reuse_address(true)?;
            other.set_reuse_port(true)?;
            other.bind(&local.into())?;
            other.listen(BACKLOG)?;
            date(&other);
            group.push(Self {
                inner: other,
                local,
            });
        }
        Ok(group)
    }

    /// The address that it is bound to.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Connections from now on have so many bytes of the system's memory for what is not read, and more when it finds that of
    /// use. Systems that can't are left as they are.
    pub fn allow_unread(&self, memory: usize) {
        if keep_unread(&self.inner, memory) {
            let_grow(&self.inner);
        }
    }

    /// The next peer that waits, and its address.
    ///
    /// # Errors
    /// Nobody waits ([`io::ErrorKind::WouldBlock`]), the peer is gone already, or there are no descriptors
    /// left.
    pub fn accept(&self) -> io::Result<(Stream, SocketAddr)> {
        let (inner, peer) = self.inner.accept()?;
        let peer = peer.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
        inner.set_nonblocking(true)?;
        inner.set_tcp_nodelay(true)?;
        Ok((Stream { inner, flags: 0 }, peer))
    }
}

impl Stream {
    /// Begins to connect to a peer from an address of this machine, with any port. The stream is writable when
    /// that has ended; then [`Self::error`] tells how.
    ///
    /// # Errors
    /// The system's error, such as no route.
    pub fn connect(from: SocketAddr, to: SocketAddr) -> io::Result<Self> {
        let inner = open(to)?;
        inner.set_tcp_nodelay(true)?;
        if !from.ip().is_unspecified() {
            let from = SocketAddr::new(from.ip(), 0);
            inner.bind(&from.into())?;
        }
        let stream = Self { inner, flags: 0 };
        stream.begin(to)?;
        Ok(stream)
    }

    /// A stream that is not connected yet, at an address of this machine; port 0 takes a free port.
    ///
    /// # Errors
    /// The system's error, such as no port or descriptor left.
    pub fn at(from: SocketAddr) -> io::Result<Self> {
        let inner = open(from)?;
        inner.set_tcp_nodelay(true)?;
        inner.bind(&from.into())?;
        Ok(Self { inner, flags: 0 })
    }

    /// The address of this end.
    ///
    /// # Errors
    /// The system's error.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        local(&self.inner)
    }

    /// Begins to connect, as [`Self::connect`] does.
    ///
    /// # Errors
    /// The system's error, such as no route.
    pub fn begin(&self, to: SocketAddr) -> io::Result<()> {
        match self.inner.connect(&to.into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
            _ => Ok(()),
        }
    }

    /// The error that has happened since it was last asked for.
    #[must_use]
    pub fn error(&self) -> Option<io::Error> {
        self.inner.take_error().unwrap_or_else(Some)
    }

    /// Lets the system take no more than it can send now, and one write: the rest waits where it is seen. Systems that
    /// can't are left as they are.
    pub fn keep_little_unsent(&mut self) {
        if self.inner.set_tcp_notsent_lowat(1).is_ok() {
            // Else it would add to what is unsent.
            self.flags = libc::MSG_EOR;
        }
    }

    /// Lets the system have so many bytes of memory for what is not read, and no more: the rest waits at the peer. A message of
    /// 700 bytes takes 2,300. Systems that can't undo that are left as they are.
    pub fn limit_unread(&self, memory: usize) {
        keep_unread(&self.inner, memory);
    }

    /// Lets the system have at least so many bytes of memory for what is not read, and more when it finds that of use. What it has
    /// added already stays.
    pub fn allow_unread(&self, memory: usize) {
        let has = self.inner.recv_buffer_size();
        if has.is_ok_and(|has| has >= memory) || keep_unread(&self.inner, memory) {
            let_grow(&self.inner);
        }
    }

    /// Whether the other end has no room, and not the network. Where the system doesn't tell, it is so.
    #[must_use]
    pub fn awaits_reader(&self) -> bool {
        let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
        let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
        // SAFETY: the pointers are to `info` and its length, and all zeros are a value of it.
        let info = unsafe {
            let fd = self.inner.as_raw_fd();
            let at = info.as_mut_ptr().cast();
            libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, at, &raw mut length);
            info.assume_init()
        };
        info.tcpi_unacked < info.tcpi_snd_cwnd || info.tcpi_snd_cwnd == 0
    }

    /// How many bytes are there to read. Where the system doesn't tell, none.
    #[must_use]
    pub fn unread(&self) -> usize {
        let mut bytes: libc::c_int = 0;
        // SAFETY: the pointer is to an integer that outlives the call.
        unsafe { libc::ioctl(self.inner.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
        usize::try_from(bytes).unwrap_or(0)
    }

    /// Reads what is there; 0: the peer has closed.
    ///
    /// # Errors
    /// Nothing is there ([`io::ErrorKind::WouldBlock`]), or the connection is broken.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.inner).read(buffer)
    }

    /// The same, and how long the last of it has waited to be read. None: it came over a stream that this end has opened,
    /// or the system doesn't tell.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_dated(&self, buffer: &mut [u8]) -> io::Result<(usize, Option<Duration>)> {
        let mut control = Control::default();
        let mut part = libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        };
        // SAFETY: all zeros are a value of it, and whatever it points to outlives the calls.
        let mut header = unsafe { MaybeUninit::<libc::msghdr>::zeroed().assume_init() };
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of::<Control>() as _;
        // SAFETY: as above.
        let length = unsafe { libc::recvmsg(self.inner.as_raw_fd(), &raw mut header, 0) };
        let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
        // SAFETY: the kernel has filled the control bytes in.
        let came = unsafe { moment(&header) };
        let waited = came.map(|came| wall().saturating_sub(came));
        Ok((length, waited))
    }

    /// Writes as much as there is room for.
    ///
    /// # Errors
    /// There is no room ([`io::ErrorKind::WouldBlock`]), or the connection is broken.
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.send_with_flags(bytes, self.flags)
    }
}

/// Lets the system have so much memory for what is not read, and no more, if that can be undone; whether it could.
fn keep_unread(socket: &socket2::Socket, memory: usize) -> bool {
    // Linux takes twice what it is told. socket(7)
    let_grow(socket) && socket.set_recv_buffer_size(memory / 2).is_ok()
}

/// Lets the system choose how large buffers are, if it can.
fn let_grow(socket: &socket2::Socket) -> bool {
    let locks: libc::c_int = 0;
    // SAFETY: the pointer is to an integer of that size that outlives the call.
    unsafe {
        let (fd, length) = (socket.as_raw_fd(), size_of_val(&locks) as libc::socklen_t);
        let locks = (&raw const locks).cast();
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_BUF_LOCK, locks, length) == 0
    }
}

fn open(address: SocketAddr) -> io::Result<socket2::Socket> {
    let domain = Domain::for_address(address);
    let socket = socket2::Socket::new(domain, Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}

fn local(socket: &socket2::Socket) -> io::Result<SocketAddr> {
    let local = socket.local_addr()?.as_socket();
    local.ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

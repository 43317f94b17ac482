//! TCP without blocking.

use std::{
    io::{self, Read, Write},
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd},
};

use socket2::{Domain, Protocol, Type};

/// Peers that wait to be accepted. The kernel may allow fewer: net.core.somaxconn.
const BACKLOG: i32 = 4096;

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
        Ok((Stream { inner }, peer))
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
        let stream = Self { inner };
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
        Ok(Self { inner })
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

    /// Reads what is there; 0: the peer has closed.
    ///
    /// # Errors
    /// Nothing is there ([`io::ErrorKind::WouldBlock`]), or the connection is broken.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.inner).read(buffer)
    }

    /// Writes as much as there is room for.
    ///
    /// # Errors
    /// There is no room ([`io::ErrorKind::WouldBlock`]), or the connection is broken.
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        (&self.inner).write(bytes)
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

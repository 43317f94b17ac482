//! Sockets that a service manager kept for this process, or opened for it: sd_listen_fds(3).

use std::{
    env, io,
    net::SocketAddr,
    os::fd::{FromRawFd, OwnedFd, RawFd},
    process,
};

use socket2::{SockRef, Type};

/// The first descriptor that is passed.
const FIRST: RawFd = 3;
/// The most that are taken.
const COUNT_MAX: RawFd = 4_096;

/// The UDP sockets that this process was given, with their addresses. To be called once, before
/// descriptors are opened: a second call finds nothing.
#[must_use]
pub fn inherited() -> Vec<(SocketAddr, OwnedFd)> {
    static TAKEN: std::sync::Once = std::sync::Once::new();
    let mut found = Vec::new();
    TAKEN.call_once(|| {
        let number = |name: &str| env::var(name).ok()?.parse::<u32>().ok();
        if number("LISTEN_PID") != Some(process::id()) {
            return;
        }
        let count = number("LISTEN_FDS").unwrap_or(0).min(COUNT_MAX as u32) as RawFd;
        for fd in FIRST..FIRST + count {
            // SAFETY: the variables, which name this process, say that it owns these descriptors. Nobody
            // else takes them, because this runs once.
            let fd = unsafe { OwnedFd::from_raw_fd(fd) };
            found.extend(udp(&fd).map(|address| (address, fd)));
        }
    });
    found
}

/// The address of a UDP socket, which children are not to have.
fn udp(fd: &OwnedFd) -> io::Result<SocketAddr> {
    let socket = SockRef::from(fd);
    let not_udp = || io::Error::from(io::ErrorKind::InvalidInput);
    if socket.r#type()? != Type::DGRAM {
        return Err(not_udp());
    }
    socket.set_cloexec(true)?;
    socket.local_addr()?.as_socket().ok_or_else(not_udp)
}

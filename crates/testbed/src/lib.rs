//! What tests and benches of processes share: waits with a bound, free ports, processes, Redis.
//!
//! A test waits for a condition by [`within`], never for a time. A process that it starts is killed by
//! its own id when its owner is dropped, also when the test panics.
#![allow(
    clippy::disallowed_methods,
    reason = "whoever tests processes waits for them on the real clock"
)]

mod redis;
mod running;

use std::{
    fs, io,
    net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
    os::unix::fs::PermissionsExt,
    path::Path,
    thread,
    time::{Duration, Instant},
};

pub use redis::Redis;
pub use running::Running;

/// How often a condition is looked at.
const TICK: Duration = Duration::from_millis(10);

/// Waits until a condition holds.
///
/// # Panics
/// It does not hold in time. The message says `what` did not come.
#[track_caller]
pub fn within(limit: Duration, what: &str, holds: impl FnMut() -> bool) {
    assert!(comes_within(limit, holds), "not within {limit:?}: {what}");
}

/// Waits until a condition holds, and says whether it did so in time.
pub fn comes_within(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    while !holds() {
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(TICK);
    }
    true
}

/// Writes a file that its owner alone can read, as one with a secret must be.
///
/// # Errors
/// As when any file is written.
pub fn write_private(path: &Path, contents: &str) -> io::Result<()> {
    fs::write(path, contents)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))
}

/// A UDP address of this machine that nobody uses.
///
/// # Errors
/// The system has no port left.
pub fn free_udp() -> io::Result<SocketAddr> {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// A TCP address of this machine that nobody uses.
///
/// # Errors
/// The system has no port left.
pub fn free_tcp() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

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
    collections::BTreeSet,
    fs, io,
    net::{Ipv4Addr, SocketAddr},
    ops::Range,
    os::unix::fs::PermissionsExt,
    path::Path,
    process,
    sync::atomic::{AtomicU32, Ordering},
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

/// The ports that the kernel gives to no connection by itself.
const PORTS: Range<u16> = 10_000..32_768;
/// How far apart processes begin that start one after the other.
const STRIDE: u32 = 1009;
/// How far apart the addresses of one process are: a server may take some that follow its own.
const STEP: u32 = 37;
/// The addresses that this process has looked at.
static LOOKED_AT: AtomicU32 = AtomicU32::new(0);

/// An address of this machine that nobody uses, by UDP or TCP. A process gets none twice.
///
/// # Errors
/// All ports are in use, or the kernel does not tell which are.
pub fn free_address() -> io::Result<SocketAddr> {
    let (first, used) = (process::id().wrapping_mul(STRIDE), used_ports()?);
    let mut ports = PORTS.map(|_| {
        let number = LOOKED_AT.fetch_add(1, Ordering::Relaxed).wrapping_mul(STEP);
        PORTS.start + (first.wrapping_add(number) % PORTS.len() as u32) as u16
    });
    let found = ports.find(|port| !used.contains(port));
    let found =
        found.ok_or_else(|| io::Error::new(io::ErrorKind::AddrInUse, "all ports are in use"))?;
    Ok((Ipv4Addr::LOCALHOST, found).into())
}

/// The ports that somebody uses on this machine, by UDP or TCP.
///
/// The kernel's tables tell it. Who binds a socket to see whether it can has it a little longer than it
/// thinks: a process that another thread starts meanwhile inherits the socket until its program begins.
///
/// # Errors
/// The kernel's tables can't be read.
pub fn used_ports() -> io::Result<BTreeSet<u16>> {
    let mut ports = BTreeSet::new();
    for table in ["udp", "udp6", "tcp", "tcp6"] {
        let text = match fs::read_to_string(format!("/proc/net/{table}")) {
            // The machine has no IPv6.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            text => text?,
        };
        ports.extend(text.lines().filter_map(port_of));
    }
    Ok(ports)
}

/// The local port of a table's line; its first one is a heading.
fn port_of(line: &str) -> Option<u16> {
    let (_, port) = line.split_whitespace().nth(1)?.rsplit_once(':')?;
    u16::from_str_radix(port, 16).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that can't go on fails")]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::used_ports;

    #[test]
    fn who_uses_a_port_is_seen() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (udp, tcp) = (
                UdpSocket::bind(address).unwrap(),
                TcpListener::bind(address).unwrap(),
            );
            let ports = [udp.local_addr(), tcp.local_addr()].map(|address| address.unwrap().port());
            let used = used_ports().unwrap();
            assert!(
                ports.iter().all(|port| used.contains(port)),
                "{ports:?} {used:?}"
            );
            drop((udp, tcp));
        }
    }
}

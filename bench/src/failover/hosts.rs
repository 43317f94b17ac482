//! Hosts of a fail-over: network namespaces.

use std::{fs, io, os::fd::AsFd as _};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Does something on a host: sockets that are made there stay there.
pub(super) fn on_host<T>(host: &str, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let enter =
        |file: &fs::File| move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network));
    let home = fs::File::open("/proc/thread-self/ns/net")?;
    enter(&fs::File::open(format!("/run/netns/{host}"))?)?;
    let done = act();
    enter(&home)?;
    done
}

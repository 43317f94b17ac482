//! When the system has received what is read.

use std::{os::fd::AsRawFd, time::Duration};

/// Has the system tell when what it reads has come, also over the streams that a listener accepts. One that can't does
/// not.
pub(crate) fn date(socket: &socket2::Socket) {
    let on: libc::c_int = 1;
    // SAFETY: the pointer is to `on`, of this length.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        );
    }
}

/// The moment since 1970 that a message was read with, if the system told one.
///
/// # Safety
/// The header's control data must be as the kernel writes it.
pub(crate) unsafe fn moment(header: &libc::msghdr) -> Option<Duration> {
    // SAFETY: the caller vouches for the control data.
    let mut control = unsafe { libc::CMSG_FIRSTHDR(header) };
    // SAFETY: as above; its type says which struct a message carries, perhaps unaligned.
    while let Some(message) = unsafe { control.as_ref() } {
        if (message.cmsg_level, message.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
            // SAFETY: as above.
            let time = unsafe {
                libc::CMSG_DATA(control)
                    .cast::<libc::timespec>()
                    .read_unaligned()
            };
            return Some(Duration::new(time.tv_sec as u64, time.tv_nsec as u32));
        }
        // SAFETY: as above.
        control = unsafe { libc::CMSG_NXTHDR(header, control) };
    }
    None
}

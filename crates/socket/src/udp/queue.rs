//! Reads the socket's error queue: ICMP errors about datagrams that this socket sent.

use std::{mem, net::SocketAddr, os::fd::RawFd, ptr};

use super::address::Name;

/// Space for the kernel's report and the address of the router that sent the error.
const CONTROL_BYTES: usize = 256;

#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// Space for the beginning of the datagram that the error quotes. ICMPv6 quotes no more than fits in
/// 1280 bytes with all headers.
const QUOTED_BYTES: usize = 1280;

/// Empties the queue, and tells of each datagram that found nobody: its peer, and the beginning of its
/// bytes.
pub(super) fn drain(fd: RawFd, mut tell: impl FnMut(SocketAddr, &[u8])) {
    let mut name = Name::empty();
    let mut control = Control([0; CONTROL_BYTES]);
    let mut quoted = [0_u8; QUOTED_BYTES];
    loop {
        let mut slice = libc::iovec {
            iov_base: quoted.as_mut_ptr().cast(),
            iov_len: QUOTED_BYTES,
        };
        // SAFETY: all-zero bytes are a header without name, bytes and control data.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        header.msg_name = ptr::from_mut(&mut name).cast();
        header.msg_namelen = Name::LENGTH;
        header.msg_iov = &raw mut slice;
        header.msg_iovlen = 1;
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = CONTROL_BYTES as _;
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        // SAFETY: name, bytes and control data are valid for their lengths.
        let length = unsafe { libc::recvmsg(fd, &mut header, flags) };
        let Ok(length) = usize::try_from(length) else {
            return;
        };
        // SAFETY: the kernel has just written the header's control data.
        let is_unreachable = unsafe { says_unreachable(&header) };
        if let Some(peer) = name.get().filter(|_| is_unreachable) {
            tell(peer, &quoted[..length.min(QUOTED_BYTES)]);
        }
    }
}

/// # Safety
/// The header's control data must be as the kernel writes it.
unsafe fn says_unreachable(header: &libc::msghdr) -> bool {
    // SAFETY: the caller vouches for the control data that these walk.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(header) };
    // SAFETY: a control header that isn't null lies within the control data.
    while let Some(control) = unsafe { next.as_ref() } {
        if matches!(
            (control.cmsg_level, control.cmsg_type),
            (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
        ) {
            // SAFETY: a message of this type carries this struct, perhaps unaligned.
            let report = unsafe {
                libc::CMSG_DATA(control)
                    .cast::<libc::sock_extended_err>()
                    .read_unaligned()
            };
            // A message too long for the path isn't a peer that is away.
            let errno = report.ee_errno as libc::c_int;
            return matches!(
                errno,
                libc::ECONNREFUSED | libc::EHOSTUNREACH | libc::ENETUNREACH
            );
        }
        // SAFETY: as above.
        next = unsafe { libc::CMSG_NXTHDR(header, control) };
    }
    false
}

//! Socket addresses in the kernel's form.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Space for an internet address of either family.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) union Name {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

impl Name {
    /// The length of the space, which the kernel must know before it writes.
    pub(super) const LENGTH: libc::socklen_t = size_of::<Self>() as libc::socklen_t;

    /// No address.
    pub(super) const fn empty() -> Self {
        // SAFETY: all-zero bytes are valid in either member, which hold integers alone.
        unsafe { std::mem::zeroed() }
    }

    /// Writes an address; returns its length.
    pub(super) fn set(&mut self, address: SocketAddr) -> libc::socklen_t {
        match address {
            SocketAddr::V4(address) => {
                self.v4 = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: address.port().to_be(),
                    sin_addr: libc::in_addr {
                        s_addr: address.ip().to_bits().to_be(),
                    },
                    sin_zero: [0; 8],
                };
                size_of::<libc::sockaddr_in>() as libc::socklen_t
            }
            SocketAddr::V6(address) => {
                self.v6 = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: address.port().to_be(),
                    sin6_flowinfo: address.flowinfo(),
                    sin6_addr: libc::in6_addr {
                        s6_addr: address.ip().octets(),
                    },
                    sin6_scope_id: address.scope_id(),
                };
                size_of::<libc::sockaddr_in6>() as libc::socklen_t
            }
        }
    }

    /// The address, if it is an internet address. The flow label is left out, because it does not
    /// identify the peer.
    pub(super) fn get(&self) -> Option<SocketAddr> {
        // SAFETY: the room was zeroed first, so that all bytes of either member are initialised,
        // any of them valid; the family is at the same place in both.
        let (v4, v6) = unsafe { (&self.v4, &self.v6) };
        match libc::c_int::from(v4.sin_family) {
            libc::AF_INET => {
                let ip = Ipv4Addr::from_bits(u32::from_be(v4.sin_addr.s_addr));
                Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
            }
            libc::AF_INET6 => {
                let (ip, port) = (
                    Ipv6Addr::from(v6.sin6_addr.s6_addr),
                    u16::from_be(v6.sin6_port),
                );
                Some(SocketAddrV6::new(ip, port, 0, v6.sin6_scope_id).into())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &str) {
        let address = address.parse().unwrap();
        let mut name = Name::empty();
        let length = name.set(address);
        assert!(length <= Name::LENGTH);
        assert_eq!(name.get(), Some(address));
    }

    #[test]
    fn addresses_survive_the_way_to_the_kernel_and_back() {
        check("127.0.0.1:5060");
        check("255.1.2.3:65535");
        check("[2001:db8::1]:5060");
        check("[fe80::1%7]:0");
    }

    #[test]
    fn no_address_is_none() {
        assert_eq!(Name::empty().get(), None);
    }
}

//! Remembers to which of the machine's addresses a peer sent. A socket that is bound to all
//! addresses must answer from that address; otherwise the peer and its firewall do not accept the
//! answer.

use std::{
    collections::HashMap,
    mem,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The number of remembered peers: at least this, at most twice as many.
const PEERS: usize = 1 << 16;

/// Space for the kernel's messages: when a datagram came, and where to, of either family. Each has a header.
const CONTROL_BYTES: usize = 72;

const _: () = {
    // SAFETY: these compute lengths.
    let [moment, local] = unsafe {
        [
            libc::CMSG_SPACE(size_of::<libc::timespec>() as u32),
            libc::CMSG_SPACE(size_of::<libc::in6_pktinfo>() as u32),
        ]
    };
    assert!((moment + local) as usize <= CONTROL_BYTES);
};

/// The control data of one datagram.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(super) struct Control([u8; CONTROL_BYTES]);

impl Control {
    pub(super) const fn empty() -> Self {
        Self([0; CONTROL_BYTES])
    }

    /// Asks the kernel to report when a datagram came, and its destination address if the socket wants it.
    pub(super) fn ask(&mut self, header: &mut libc::msghdr) {
        header.msg_control = self.0.as_mut_ptr().cast();
        header.msg_controllen = CONTROL_BYTES as _;
    }

    /// Sends a datagram from this address; without one, the kernel chooses the address.
    pub(super) fn set(&mut self, header: &mut libc::msghdr, local: Option<IpAddr>) {
        match local {
            None => {
                header.msg_control = std::ptr::null_mut();
                header.msg_controllen = 0;
            }
            Some(IpAddr::V4(ip)) => {
                let info = libc::in_pktinfo {
                    ipi_ifindex: 0,
                    ipi_spec_dst: libc::in_addr {
                        s_addr: ip.to_bits().to_be(),
                    },
                    ipi_addr: libc::in_addr { s_addr: 0 },
                };
                self.write(header, libc::IPPROTO_IP, libc::IP_PKTINFO, info);
            }
            Some(IpAddr::V6(ip)) => {
                let info = libc::in6_pktinfo {
                    ipi6_addr: libc::in6_addr {
                        s6_addr: ip.octets(),
                    },
                    ipi6_ifindex: 0,
                };
                self.write(header, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info);
            }
        }
    }

    fn write<T>(
        &mut self,
        header: &mut libc::msghdr,
        level: libc::c_int,
        kind: libc::c_int,
        info: T,
    ) {
        self.ask(header);
        let length = size_of::<T>() as u32;
        // SAFETY: the control data is aligned as its header, and has room for either struct.
        unsafe {
            header.msg_controllen = libc::CMSG_SPACE(length) as _;
            let control = libc::CMSG_FIRSTHDR(header);
            (*control).cmsg_level = level;
            (*control).cmsg_type = kind;
            (*control).cmsg_len = libc::CMSG_LEN(length) as _;
            libc::CMSG_DATA(control).cast::<T>().write_unaligned(info);
        }
    }

    /// The destination address of a datagram.
    ///
    /// # Safety
    /// The header's control data must be as the kernel writes it.
    pub(super) unsafe fn hit(header: &libc::msghdr) -> Option<IpAddr> {
        // SAFETY: the caller vouches for the control data. Its type says which struct a message carries, perhaps
        // unaligned.
        unsafe {
            let mut control = libc::CMSG_FIRSTHDR(header);
            while let Some(message) = control.as_ref() {
                let data = libc::CMSG_DATA(control);
                match (message.cmsg_level, message.cmsg_type) {
                    (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                        let info = data.cast::<libc::in_pktinfo>().read_unaligned();
                        let ip = Ipv4Addr::from_bits(u32::from_be(info.ipi_spec_dst.s_addr));
                        return Some(ip.into());
                    }
                    (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                        let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                        let ip = Ipv6Addr::from(info.ipi6_addr.s6_addr);
                        return (!ip.is_multicast()).then_some(ip.into());
                    }
                    _ => control = libc::CMSG_NXTHDR(header, control),
                }
            }
        }
        None
    }
}

/// The addresses to which peers sent, shared by all sockets of one wildcard address: another worker
/// may answer than the one that received.
#[derive(Debug, Default)]
pub(super) struct Heard(Mutex<Peers>);

impl Heard {
    pub(super) fn peers(&self) -> MutexGuard<'_, Peers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The latest peers in two generations. When the younger is full, the older is dropped.
#[derive(Debug, Default)]
pub(super) struct Peers {
    young: HashMap<SocketAddr, IpAddr>,
    old: HashMap<SocketAddr, IpAddr>,
}

impl Peers {
    /// Records that a peer sent to an address. A datagram to another port of the peer, as
    /// RFC 3261 §18.2.2 requires without rport, also leaves from this address.
    pub(super) fn heard(&mut self, peer: SocketAddr, local: IpAddr) {
        for peer in [peer, SocketAddr::new(peer.ip(), 0)] {
            if self.young.get(&peer) == Some(&local) {
                continue;
            }
            if self.young.len() >= PEERS {
                self.old = mem::take(&mut self.young);
            }
            self.young.insert(peer, local);
        }
    }

    /// The address from which to send to a peer.
    pub(super) fn local(&self, peer: SocketAddr) -> Option<IpAddr> {
        let find = |peer| self.young.get(&peer).or_else(|| self.old.get(&peer));
        find(peer)
            .or_else(|| find(SocketAddr::new(peer.ip(), 0)))
            .copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::{Options, SendBatch, Socket};

    #[test]
    fn a_peer_is_answered_from_where_it_was_heard() {
        let mut peers = Peers::default();
        let [one, two] = ["127.0.0.1", "127.0.0.2"].map(|ip| ip.parse().unwrap());
        let peer = |text: &str| text.parse().unwrap();
        peers.heard(peer("192.0.2.1:5060"), one);
        peers.heard(peer("192.0.2.1:5070"), two);
        assert_eq!(peers.local(peer("192.0.2.1:5060")), Some(one));
        assert_eq!(peers.local(peer("192.0.2.1:5070")), Some(two));
        assert_eq!(peers.local(peer("192.0.2.1:5080")), Some(two), "the latest");
        assert_eq!(peers.local(peer("192.0.2.2:5060")), None);
        peers.heard(peer("192.0.2.1:5060"), two);
        assert_eq!(peers.local(peer("192.0.2.1:5060")), Some(two));
    }

    /// A virtual address moves to another machine, and its peers still send.
    #[test]
    fn an_address_that_has_gone_is_not_insisted_on() {
        let any = Socket::bind(([0, 0, 0, 0], 0).into(), Options::default()).unwrap();
        let peer = Socket::bind(([127, 0, 0, 1], 0).into(), Options::default()).unwrap();
        let heard = any.heard.as_ref().unwrap();
        heard
            .peers()
            .heard(peer.local_addr(), [192, 0, 2, 77].into());
        let items = [(peer.local_addr(), b"answer".as_slice()); 2];
        let sent = any.send(&mut SendBatch::new(), items);
        assert_eq!((sent.sent, sent.lost()), (2, 0));
    }

    #[test]
    fn the_latest_peers_are_remembered() {
        let mut peers = Peers::default();
        let local = IpAddr::from([127, 0, 0, 1]);
        let peer = |number: usize| SocketAddr::from(((number as u32).to_be_bytes(), 5060));
        for number in 0..4 * PEERS {
            peers.heard(peer(number), local);
        }
        assert!(peers.young.len() + peers.old.len() <= 2 * PEERS);
        let first = 4 * PEERS - PEERS / 2;
        assert!((first..4 * PEERS).all(|number| peers.local(peer(number)) == Some(local)));
        assert_eq!(peers.local(peer(0)), None);
    }
}

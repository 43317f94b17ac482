//! Opens packets down to the payload of UDP and TCP, and reassembles fragments.

use std::net::{IpAddr, SocketAddr};

use etherparse::{
    EtherType, IpNumber, LaxNetSlice, LaxSlicedPacket, SlicedPacket, TcpSlice, TransportSlice,
    UdpSlice,
    defrag::{IpDefragPayloadVec, IpDefragPool},
};
use pcap_parser::Linktype;

use super::Packet;

/// Fragments of incomplete datagrams are dropped after two or three times this many other
/// fragments.
const FRAGMENTS_MAX: u64 = 512;

/// The content of a packet.
#[derive(Debug)]
pub(crate) enum Transport<'a> {
    Udp {
        source: SocketAddr,
        destination: SocketAddr,
        payload: &'a [u8],
        /// Whether the snap length cut the payload.
        is_cut: bool,
    },
    Tcp {
        source: SocketAddr,
        destination: SocketAddr,
        segment: TcpSlice<'a>,
    },
    /// A fragment of a datagram that is not complete yet.
    Fragment,
    /// A fragment that fits no datagram.
    BadFragment,
    /// The snap length cut the headers, or a fragment.
    Cut,
    /// The link layer is unknown.
    UnknownLink,
    /// Anything else.
    Foreign,
}

/// Opens packets, and keeps fragments until their datagrams are complete.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// Each with the number of fragments seen before it.
    pool: IpDefragPool<u64, ()>,
    fragments: u64,
    /// The last datagram that was completed.
    whole: Option<IpDefragPayloadVec>,
}

#[derive(Clone, Copy)]
enum Frame<'a> {
    Ethernet(&'a [u8]),
    Typed(EtherType, &'a [u8]),
    Ip(&'a [u8]),
}

impl Decoder {
    /// Returns the content of the packet.
    pub(crate) fn open<'a>(&'a mut self, packet: &Packet<'a>) -> Transport<'a> {
        let Some(frame) = Frame::of(packet.link, packet.data) else {
            return match is_known(packet.link) {
                true if packet.is_cut => Transport::Cut,
                true => Transport::Foreign,
                false => Transport::UnknownLink,
            };
        };
        let Some(sliced) = frame.slice_lax() else {
            return Transport::Foreign;
        };
        let Some((addresses, payload)) = network(&sliced) else {
            return Transport::Foreign;
        };
        if payload.fragmented {
            return match packet.is_cut {
                true => Transport::Cut,
                false => self.add_fragment(frame, addresses),
            };
        }
        match &sliced.transport {
            Some(transport) => with_ports(addresses, transport.clone(), payload.incomplete),
            None if packet.is_cut && is_ours(payload.ip_number) => Transport::Cut,
            None => Transport::Foreign,
        }
    }

    fn add_fragment<'a>(
        &'a mut self,
        frame: Frame<'a>,
        addresses: (IpAddr, IpAddr),
    ) -> Transport<'a> {
        let Some(sliced) = frame.slice() else {
            return Transport::BadFragment;
        };
        self.fragments += 1;
        if self.fragments.is_multiple_of(FRAGMENTS_MAX) {
            let oldest = self.fragments.saturating_sub(2 * FRAGMENTS_MAX);
            self.pool.retain(|&since| since >= oldest);
        }
        if let Some(used) = self.whole.take() {
            self.pool.return_buf(used);
        }
        match self.pool.process_sliced_packet(&sliced, self.fragments, ()) {
            Ok(None) => Transport::Fragment,
            Err(_) => Transport::BadFragment,
            Ok(Some(whole)) => {
                let whole = self.whole.insert(whole);
                let transport = match whole.ip_number {
                    IpNumber::UDP => UdpSlice::from_slice(&whole.payload)
                        .ok()
                        .map(TransportSlice::Udp),
                    IpNumber::TCP => TcpSlice::from_slice(&whole.payload)
                        .ok()
                        .map(TransportSlice::Tcp),
                    _ => return Transport::Foreign,
                };
                transport.map_or(Transport::BadFragment, |transport| {
                    with_ports(addresses, transport, false)
                })
            }
        }
    }
}

impl<'a> Frame<'a> {
    /// Removes the link layer's header; none if it is cut or unknown.
    fn of(link: Linktype, data: &'a [u8]) -> Option<Self> {
        let typed = |at: usize, length: usize| {
            let word = data.get(at..at + 2)?.try_into().ok()?;
            let rest = data.get(length..)?;
            Some(Self::Typed(EtherType(u16::from_be_bytes(word)), rest))
        };
        match link {
            Linktype::ETHERNET => Some(Self::Ethernet(data)),
            Linktype::LINUX_SLL => typed(14, 16),
            Linktype::LINUX_SLL2 => typed(0, 20),
            Linktype::NULL | Linktype::LOOP => data.get(4..).map(Self::Ip),
            _ if is_known(link) => Some(Self::Ip(data)),
            _ => None,
        }
    }

    fn slice_lax(self) -> Option<LaxSlicedPacket<'a>> {
        match self {
            Self::Ethernet(data) => LaxSlicedPacket::from_ethernet(data).ok(),
            Self::Typed(ether_type, data) => {
                Some(LaxSlicedPacket::from_ether_type(ether_type, data))
            }
            Self::Ip(data) => LaxSlicedPacket::from_ip(data).ok(),
        }
    }

    fn slice(self) -> Option<SlicedPacket<'a>> {
        match self {
            Self::Ethernet(data) => SlicedPacket::from_ethernet(data).ok(),
            Self::Typed(ether_type, data) => SlicedPacket::from_ether_type(ether_type, data).ok(),
            Self::Ip(data) => SlicedPacket::from_ip(data).ok(),
        }
    }
}

fn is_known(link: Linktype) -> bool {
    // 12 and 14 are raw IP on some BSDs.
    const RAW_BSD: [Linktype; 2] = [Linktype(12), Linktype(14)];
    matches!(
        link,
        Linktype::ETHERNET
            | Linktype::LINUX_SLL
            | Linktype::LINUX_SLL2
            | Linktype::NULL
            | Linktype::LOOP
            | Linktype::RAW
            | Linktype::IPV4
            | Linktype::IPV6
    ) || RAW_BSD.contains(&link)
}

fn is_ours(number: IpNumber) -> bool {
    matches!(number, IpNumber::UDP | IpNumber::TCP)
}

fn network<'s, 'a>(
    sliced: &'s LaxSlicedPacket<'a>,
) -> Option<((IpAddr, IpAddr), &'s etherparse::LaxIpPayloadSlice<'a>)> {
    match sliced.net.as_ref()? {
        LaxNetSlice::Ipv4(ip) => {
            let header = ip.header();
            let addresses = (
                header.source_addr().into(),
                header.destination_addr().into(),
            );
            Some((addresses, ip.payload()))
        }
        LaxNetSlice::Ipv6(ip) => {
            let header = ip.header();
            let addresses = (
                header.source_addr().into(),
                header.destination_addr().into(),
            );
            Some((addresses, ip.payload()))
        }
        LaxNetSlice::Arp(_) => None,
    }
}

fn with_ports<'a>(
    (source, destination): (IpAddr, IpAddr),
    transport: TransportSlice<'a>,
    is_cut: bool,
) -> Transport<'a> {
    match transport {
        TransportSlice::Udp(datagram) => Transport::Udp {
            source: SocketAddr::new(source, datagram.source_port()),
            destination: SocketAddr::new(destination, datagram.destination_port()),
            payload: datagram.payload(),
            is_cut,
        },
        TransportSlice::Tcp(segment) => Transport::Tcp {
            source: SocketAddr::new(source, segment.source_port()),
            destination: SocketAddr::new(destination, segment.destination_port()),
            segment,
        },
        _ => Transport::Foreign,
    }
}

//! The UDP datagrams of a capture, for those who replay it.

use std::{io::Read, net::SocketAddr, time::Duration};

use crate::{
    OpenError,
    read::{Decoder, Item, Packets, Transport},
};

/// A UDP datagram.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// Since the epoch of the capture's clock.
    pub time: Duration,
    /// Its sender.
    pub source: SocketAddr,
    /// Its receiver.
    pub destination: SocketAddr,
    /// Its content.
    pub payload: &'a [u8],
    /// The offset in the file at which its packet ends.
    pub end: u64,
}

/// What a capture has besides whole UDP datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// Packets of TCP.
    pub tcp: u64,
    /// Datagrams that the snap length cut.
    pub cut: u64,
    /// Places that could not be read.
    pub damaged: u64,
}

/// Gives each whole UDP datagram of a pcap or pcapng file to `take`, until that returns false.
///
/// # Errors
/// If the bytes can't be read or are not a capture.
pub fn datagrams(
    bytes: impl Read,
    mut take: impl FnMut(Datagram<'_>) -> bool,
) -> Result<Rest, OpenError> {
    let mut packets = Packets::open(bytes)?;
    let mut decoder = Decoder::default();
    let mut rest = Rest::default();
    loop {
        let packet = match packets.next().map_err(OpenError::Read)? {
            Item::Packet(packet) => packet,
            Item::Damage => {
                rest.damaged += 1;
                continue;
            }
            Item::Cut | Item::End => return Ok(rest),
        };
        match decoder.open(&packet) {
            Transport::Udp { is_cut: true, .. } | Transport::Cut => rest.cut += 1,
            Transport::Udp {
                source,
                destination,
                payload,
                ..
            } => {
                let datagram = Datagram {
                    time: packet.time,
                    source,
                    destination,
                    payload,
                    end: packet.end,
                };
                if !take(datagram) {
                    return Ok(rest);
                }
            }
            Transport::Tcp { .. } => rest.tcp += 1,
            _ => {}
        }
    }
}

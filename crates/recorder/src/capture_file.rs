//! A call as a capture in the format pcapng, for Wireshark and sngrep.

use std::{net::SocketAddr, time::Duration};

use etherparse::PacketBuilder;

use crate::ladder::{Ladder, Step};

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
/// Packets begin with the IP header.
const LINK_RAW: u16 = 101;
const OPTION_COMMENT: u16 = 1;
const HOPS: u8 = 64;

impl Ladder {
    /// The messages as UDP packets, whatever carried them; so those of TLS can be read. A reason is a
    /// comment at the next packet. `zero` is the wall time of the node's zero since the UNIX epoch, and
    /// `listeners` are the node's addresses.
    #[must_use]
    pub fn pcapng(&self, zero: Duration, listeners: &[SocketAddr]) -> Vec<u8> {
        let mut file = Vec::new();
        let mut section = 0x1a2b_3c4d_u32.to_le_bytes().to_vec();
        section.extend([1, 0, 0, 0]);
        section.extend(u64::MAX.to_le_bytes());
        block(&mut file, SECTION, &section);
        let mut interface = LINK_RAW.to_le_bytes().to_vec();
        interface.extend([0; 6]);
        block(&mut file, INTERFACE, &interface);
        let mut reasons = Vec::new();
        for rung in &self.rungs {
            let Step::Message {
                flow,
                came_in,
                bytes,
                ..
            } = &rung.step
            else {
                reasons.push(rung.step.words());
                continue;
            };
            let own = Self::own_address(listeners, *flow);
            let ends = if *came_in {
                (flow.remote, own)
            } else {
                (own, flow.remote)
            };
            let Some(packet) = udp(ends, bytes) else {
                continue;
            };
            let comment = reasons.join("\n");
            reasons.clear();
            block(
                &mut file,
                PACKET,
                &enhanced(zero + rung.at, &packet, &comment),
            );
        }
        file
    }
}

fn udp((from, to): (SocketAddr, SocketAddr), bytes: &[u8]) -> Option<Vec<u8>> {
    let builder = match (from, to) {
        (SocketAddr::V4(from), SocketAddr::V4(to)) => {
            PacketBuilder::ipv4(from.ip().octets(), to.ip().octets(), HOPS)
        }
        (SocketAddr::V6(from), SocketAddr::V6(to)) => {
            PacketBuilder::ipv6(from.ip().octets(), to.ip().octets(), HOPS)
        }
        _ => return None,
    };
    let builder = builder.udp(from.port(), to.port());
    let mut packet = Vec::with_capacity(builder.size(bytes.len()));
    builder.write(&mut packet, bytes).ok()?;
    Some(packet)
}

/// The body of an enhanced packet block.
fn enhanced(at: Duration, packet: &[u8], comment: &str) -> Vec<u8> {
    let us = at.as_micros() as u64;
    let mut body = Vec::new();
    for word in [
        0,
        (us >> 32) as u32,
        us as u32,
        packet.len() as u32,
        packet.len() as u32,
    ] {
        body.extend(word.to_le_bytes());
    }
    padded(&mut body, packet);
    if !comment.is_empty() {
        let comment = &comment.as_bytes()[..comment.len().min(usize::from(u16::MAX))];
        body.extend(OPTION_COMMENT.to_le_bytes());
        body.extend((comment.len() as u16).to_le_bytes());
        padded(&mut body, comment);
        body.extend([0; 4]);
    }
    body
}

fn padded(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
    out.resize(out.len().next_multiple_of(4), 0);
}

fn block(file: &mut Vec<u8>, kind: u32, body: &[u8]) {
    let length = (body.len() + 12) as u32;
    file.extend(kind.to_le_bytes());
    file.extend(length.to_le_bytes());
    file.extend_from_slice(body);
    file.extend(length.to_le_bytes());
}

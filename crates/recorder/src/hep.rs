//! Messages for Homer and other collectors, in the Homer Encapsulation Protocol, version 3 (HEP3).

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use node::{
    Snapshot,
    tap::{Tap, What},
};

use crate::{
    Settings,
    ladder::Ladder,
    mask::Mask,
    reading::{is_kept, read},
};

/// Where messages go as they pass, besides being kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    /// Its address; it hears UDP.
    pub address: SocketAddr,
    /// Tells this node from others there.
    pub id: u32,
    /// What the collector wants to be told, if anything. It goes in the clear.
    pub password: Option<String>,
}

/// A message on its way.
#[derive(Clone, Copy, Debug)]
struct Passing<'a> {
    from: SocketAddr,
    to: SocketAddr,
    /// It goes over a connection.
    is_stream: bool,
    /// Wall time since the UNIX epoch.
    at: Duration,
    call_id: &'a [u8],
    bytes: &'a [u8],
}

const IPV4: u8 = 2;
const IPV6: u8 = 10;
const TCP: u8 = 6;
const UDP: u8 = 17;
const SIP: u8 = 1;
/// What is left of a datagram for a message; the rest of a longer one is left out.
const MESSAGE_MAX: usize = 64_000;

/// What a collector is told: each message as it passes, hidden like what is kept.
#[derive(Debug)]
pub struct Feed {
    collector: Collector,
    one_in: u32,
    mask: Mask,
}

impl Feed {
    /// What the collector of these settings is told, if they have one. The key is the recorder's.
    #[must_use]
    pub fn new(settings: &Settings, mask_key: [u8; 16]) -> Option<Self> {
        Some(Self {
            collector: settings.collector.clone()?,
            one_in: settings.one_in,
            mask: Mask::new(mask_key, settings.masks_users, settings.masks_bodies),
        })
    }

    /// Writes a packet about each message that a tap has seen, and gives it to `send`. `zero` is the wall time of the
    /// node's zero since the UNIX epoch.
    pub fn tell(
        &self,
        tap: &Tap,
        snapshot: &Snapshot,
        zero: Duration,
        mut send: impl FnMut(&[u8]),
    ) {
        let listeners = snapshot.config().listeners.iter();
        let listeners: Vec<_> = listeners.map(|it| it.address).collect();
        let mut packet = Vec::new();
        for entry in tap.entries() {
            let (What::Received(flow) | What::Sent(flow)) = entry.what else {
                continue;
            };
            let Some((message, key)) = read(tap.message(entry), snapshot) else {
                continue;
            };
            if !is_kept(key, self.one_in) {
                continue;
            }
            let own = Ladder::own_address(&listeners, flow);
            let (from, to) = match entry.what {
                What::Received(_) => (flow.remote, own),
                _ => (own, flow.remote),
            };
            let passing = Passing {
                from,
                to,
                is_stream: flow.is_reliable(),
                at: zero + entry.at,
                call_id: message.call_id().unwrap_or_default(),
                bytes: &self.mask.shown(&message),
            };
            self.collector.write(&passing, &mut packet);
            send(&packet);
        }
    }
}

impl Collector {
    /// Writes a packet about a message in place of what `out` holds.
    fn write(&self, passing: &Passing<'_>, out: &mut Vec<u8>) {
        let Passing { from, to, at, .. } = *passing;
        out.clear();
        out.extend_from_slice(b"HEP3\0\0");
        let addresses = match (from.ip().to_canonical(), to.ip().to_canonical()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                chunk(out, 1, &[IPV4]);
                [(3, from.octets().to_vec()), (4, to.octets().to_vec())]
            }
            (from, to) => {
                chunk(out, 1, &[IPV6]);
                [(5, octets(from)), (6, octets(to))]
            }
        };
        let protocol = if passing.is_stream { TCP } else { UDP };
        chunk(out, 2, &[protocol]);
        for (kind, octets) in addresses {
            chunk(out, kind, &octets);
        }
        chunk(out, 7, &from.port().to_be_bytes());
        chunk(out, 8, &to.port().to_be_bytes());
        chunk(out, 9, &(at.as_secs() as u32).to_be_bytes());
        chunk(out, 10, &at.subsec_micros().to_be_bytes());
        chunk(out, 11, &[SIP]);
        chunk(out, 12, &self.id.to_be_bytes());
        if let Some(password) = &self.password {
            chunk(out, 14, password.as_bytes());
        }
        chunk(
            out,
            15,
            &passing.bytes[..passing.bytes.len().min(MESSAGE_MAX)],
        );
        chunk(out, 17, passing.call_id);
        let length = (out.len() as u16).to_be_bytes();
        out[4..6].copy_from_slice(&length);
    }
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

/// Appends a chunk of the kinds that HEP itself defines.
fn chunk(out: &mut Vec<u8>, kind: u16, value: &[u8]) {
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&(value.len() as u16 + 6).to_be_bytes());
    out.extend_from_slice(value);
}

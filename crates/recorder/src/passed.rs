//! Messages of several workers' taps in the order in which they passed.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use node::{
    Flow, Transport,
    tap::{Tap, Tapped, What},
};

/// A message that has passed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passed<'a> {
    pub(crate) at: Duration,
    pub(crate) came_in: bool,
    pub(crate) flow: Flow,
    pub(crate) bytes: &'a [u8],
}

/// The same, with its bytes.
#[derive(Debug)]
pub(crate) struct Waiting {
    at: Duration,
    came_in: bool,
    flow: Flow,
    bytes: Box<[u8]>,
}

impl Waiting {
    pub(crate) fn new(passed: &Passed<'_>) -> Self {
        Self {
            at: passed.at,
            came_in: passed.came_in,
            flow: passed.flow,
            bytes: passed.bytes.into(),
        }
    }

    fn passed(&self) -> Passed<'_> {
        Passed {
            at: self.at,
            came_in: self.came_in,
            flow: self.flow,
            bytes: &self.bytes,
        }
    }
}

/// All messages in order, and how many of them are not later than `until`.
pub(crate) fn in_order<'a>(
    waiting: &'a [Waiting],
    taps: &'a [Tap],
    until: Duration,
) -> (Vec<Passed<'a>>, usize) {
    let mut passed: Vec<Passed<'_>> = waiting.iter().map(Waiting::passed).collect();
    passed.extend(taps.iter().flat_map(passed_in));
    passed.sort_by_key(|passed| passed.at);
    let due = passed.partition_point(|passed| passed.at <= until);
    (passed, due)
}

fn passed_in(tap: &Tap) -> impl Iterator<Item = Passed<'_>> {
    tap.entries().iter().filter_map(|entry| {
        let (came_in, flow) = match entry.what {
            What::Received(flow) => (true, flow),
            What::Sent(flow) => (false, flow),
            What::Because(_) | What::Placed(_) => return None,
        };
        Some(Passed {
            at: entry.at,
            came_in,
            flow,
            bytes: tap.message(entry),
        })
    })
}

/// Writes messages of a tap as [`Records::replay`](crate::Records::replay) reads them: a length of 4 bytes, the time in
/// nanoseconds, the way, and the bytes; all numbers little-endian.
pub fn write_passed(tap: &Tap, seen: &[Tapped], out: &mut Vec<u8>) {
    for entry in seen {
        let (came_in, flow) = match entry.what {
            What::Received(flow) => (true, flow),
            What::Sent(flow) => (false, flow),
            What::Because(_) | What::Placed(_) => continue,
        };
        let bytes = tap.message(entry);
        if !may_concern(bytes) {
            continue;
        }
        let ip = match flow.remote.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let length = (HEAD + bytes.len()) as u32;
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&(entry.at.as_nanos() as u64).to_le_bytes());
        out.extend_from_slice(&[came_in.into(), flow.transport as u8, flow.listener]);
        out.extend_from_slice(&ip.octets());
        out.extend_from_slice(&flow.remote.port().to_le_bytes());
        out.extend_from_slice(bytes);
    }
}

/// Whether a message may be one of an attempt: a response, or a request that begins or ends one. Others, such as REGISTERs
/// with their credentials, are not written.
fn may_concern(bytes: &[u8]) -> bool {
    let begins: [&[u8]; 4] = [b"SIP/2.0 ", b"INVITE ", b"BYE ", b"CANCEL "];
    let bytes = bytes.trim_ascii_start();
    begins.iter().any(|start| bytes.starts_with(start))
}

/// What stands before a message's bytes, but for the length.
const HEAD: usize = 8 + 3 + 16 + 2;

/// Reads what [`write_passed`] wrote, up to an end that is cut off.
pub(crate) fn read_passed(mut written: &[u8]) -> impl Iterator<Item = Passed<'_>> {
    std::iter::from_fn(move || {
        let (length, rest) = written.split_first_chunk()?;
        let (one, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        written = rest;
        let (at, one) = one.split_first_chunk()?;
        let (&[came_in, transport, listener], one) = one.split_first_chunk()?;
        let (ip, one) = one.split_first_chunk::<16>()?;
        let (port, bytes) = one.split_first_chunk()?;
        let ip = Ipv6Addr::from(*ip).to_canonical();
        Some(Passed {
            at: Duration::from_nanos(u64::from_le_bytes(*at)),
            came_in: came_in != 0,
            flow: Flow {
                transport: *Transport::ALL.get(usize::from(transport))?,
                listener,
                remote: SocketAddr::new(ip, u16::from_le_bytes(*port)),
                connection: None,
            },
            bytes,
        })
    })
}

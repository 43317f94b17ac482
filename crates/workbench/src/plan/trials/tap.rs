//! Capture files of a simulated network.

use std::{collections::BTreeSet, net::SocketAddr, time::Duration};

use capture::Trace;
use sim::{Event, PartyId, Watch, What};

/// A capture point for each of some parties, on their machines.
pub(super) struct Taps {
    points: Vec<(PartyId, Vec<u8>)>,
    call_ids: BTreeSet<String>,
}

impl Taps {
    pub(super) fn new(parties: impl IntoIterator<Item = PartyId>) -> Self {
        let begun = |party| (party, header());
        Self {
            points: parties.into_iter().map(begun).collect(),
            call_ids: BTreeSet::new(),
        }
    }

    /// How many Call-IDs the messages have.
    pub(super) fn call_ids(&self) -> usize {
        self.call_ids.len()
    }

    pub(super) fn trace(&self) -> Trace {
        let mut trace = Trace::default();
        for (number, (_, file)) in self.points.iter().enumerate() {
            let name = format!("point-{number}");
            trace.read(&name, &file[..], |_| {}).unwrap();
        }
        trace
    }
}

impl Watch for Taps {
    fn see(&mut self, event: &Event<'_>) {
        let party = match event.what {
            What::Sent => Some(event.sender),
            What::Arrived => event.receiver,
            _ => None,
        };
        let mut points = self.points.iter_mut();
        if let Some((_, file)) = points.find(|(of, _)| Some(*of) == party) {
            let text = String::from_utf8_lossy(event.bytes);
            let call_id = text.lines().find_map(|line| line.strip_prefix("Call-ID: "));
            self.call_ids.extend(call_id.map(str::to_owned));
            write_packet(file, event.at, (event.from, event.to), event.bytes);
        }
    }
}

/// A pcap file of raw IP packets with times in nanoseconds.
fn header() -> Vec<u8> {
    let words = [0xa1b2_3c4d_u32, 0x0004_0002, 0, 0, 262_144, 101];
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

fn write_packet(
    file: &mut Vec<u8>,
    at: Duration,
    (from, to): (SocketAddr, SocketAddr),
    bytes: &[u8],
) {
    let (SocketAddr::V4(from), SocketAddr::V4(to)) = (from, to) else {
        panic!("the simulated network has IPv4 alone");
    };
    let length = 28 + bytes.len() as u32;
    let words = [at.as_secs() as u32, at.subsec_nanos(), length, length];
    file.extend(words.into_iter().flat_map(u32::to_le_bytes));
    file.extend([0x45, 0]);
    file.extend((length as u16).to_be_bytes());
    // No fragment, 64 hops, UDP, no checksum.
    file.extend([0, 0, 0, 0, 64, 17, 0, 0]);
    file.extend(from.ip().octets());
    file.extend(to.ip().octets());
    let halves = [from.port(), to.port(), length as u16 - 20, 0];
    file.extend(halves.into_iter().flat_map(u16::to_be_bytes));
    file.extend(bytes);
}

//! Datagrams on their way, in buffers that are reused.

use std::{cmp::Reverse, collections::BinaryHeap, net::SocketAddr, time::Duration};

use crate::PartyId;

/// What an ICMP error of a Linux host quotes of a UDP datagram over IPv4: 576 bytes are its length,
/// of which 56 are headers.
const QUOTED_MAX: usize = 520;

/// A datagram on its way, or a report that no party received one.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) route: Route,
    /// No party listens at `route.from`; `bytes` quotes what was sent there.
    pub(crate) is_unreachable: bool,
    pub(crate) bytes: Vec<u8>,
}

/// From whom, to whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) sender: PartyId,
    pub(crate) receiver: PartyId,
    /// Which of the receiver's sockets has the address.
    pub(crate) socket: usize,
}

/// All flights, by arrival; those that arrive at one time, in the order in which they left.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    due: BinaryHeap<Reverse<(Duration, u64, u32)>>,
    slots: Vec<Flight>,
    free: Vec<u32>,
    departures: u64,
}

impl Flights {
    /// A datagram leaves and will arrive at `at`.
    pub(crate) fn depart(&mut self, at: Duration, route: Route, bytes: &[u8]) {
        self.add(at, route, false).extend_from_slice(bytes);
    }

    /// At `at`, the receiver learns that what it has sent found no party at the sender's address.
    pub(crate) fn refuse(&mut self, at: Duration, route: Route, bytes: &[u8]) {
        let quoted = &bytes[..bytes.len().min(QUOTED_MAX)];
        self.add(at, route, true).extend_from_slice(quoted);
    }

    /// When the next one arrives.
    pub(crate) fn next_at(&self) -> Option<Duration> {
        self.due.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes the next one and says when it arrives; [`Self::recycle`] wants it back.
    pub(crate) fn arrive(&mut self) -> Option<(Duration, u32, Flight)> {
        let Reverse((at, _, slot)) = self.due.pop()?;
        let flight = &mut self.slots[slot as usize];
        let bytes = std::mem::take(&mut flight.bytes);
        Some((at, slot, Flight { bytes, ..*flight }))
    }

    /// Lets another flight use the memory of one that has arrived.
    pub(crate) fn recycle(&mut self, slot: u32, mut flight: Flight) {
        flight.bytes.clear();
        self.slots[slot as usize] = flight;
        self.free.push(slot);
    }

    /// How many are on their way.
    pub(crate) fn len(&self) -> usize {
        self.due.len()
    }

    fn add(&mut self, at: Duration, route: Route, is_unreachable: bool) -> &mut Vec<u8> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(Flight {
                    route,
                    is_unreachable,
                    bytes: Vec::new(),
                });
                u32::try_from(self.slots.len() - 1).expect("2^32 datagrams don't fit in memory")
            }
        };
        self.due.push(Reverse((at, self.departures, slot)));
        self.departures += 1;
        let flight = &mut self.slots[slot as usize];
        (flight.route, flight.is_unreachable) = (route, is_unreachable);
        &mut flight.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flights_arrive_in_time_and_in_order() {
        let address = SocketAddr::from(([10, 0, 0, 1], 1));
        let route = Route {
            from: address,
            to: address,
            sender: PartyId(0),
            receiver: PartyId(0),
            socket: 0,
        };
        let s = Duration::from_secs;
        let mut flights = Flights::default();
        flights.depart(s(2), route, b"third");
        flights.depart(s(1), route, b"first");
        flights.depart(s(1), route, b"second");
        for (time, expected) in [(1, "first"), (1, "second"), (2, "third")] {
            let (at, slot, flight) = flights.arrive().unwrap();
            assert_eq!((at, &*flight.bytes), (s(time), expected.as_bytes()));
            flights.recycle(slot, flight);
        }
        assert!(flights.arrive().is_none());
        flights.depart(s(3), route, b"again");
        let (_, slot, flight) = flights.arrive().unwrap();
        assert_eq!((slot, &*flight.bytes), (0, &b"again"[..]));
    }
}

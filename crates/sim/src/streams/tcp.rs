//! The connections of all systems: bounded buffers, windows, lost packets that come again.

use std::{collections::BTreeMap, mem, net::SocketAddr, time::Duration};

use super::{
    Buffers, EndId,
    end::{End, SEGMENT_BYTES, State},
    packet::{Agenda, Packet, Step},
};
use crate::{Death, Network, PartyId, network::Passage};

/// After this time a lost packet is sent again; then after twice as long, and so on. RFC 8985 §7
const AGAIN: Duration = Duration::from_millis(20);
/// So often: for ten minutes. Linux gives up after a quarter of an hour.
const TRIES_MAX: u32 = 15;
/// The first port that those who connect come from.
const PORT_MIN: u16 = 32_768;

/// What a party learns of one of its ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    pub(crate) party: PartyId,
    pub(crate) end: EndId,
    pub(crate) what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Somebody has connected to this listener.
    Accepted { listener: u8, remote: SocketAddr },
    /// It is there.
    Connected,
    /// There is something to read, if only that nothing comes any more.
    Readable,
    /// Bytes have arrived, or there is room for more.
    Writable,
    /// The connection is no more.
    Broken,
}

/// What was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// The last of them came at this moment.
    Bytes(Duration),
    Later,
    End,
}

/// All connections.
#[derive(Debug, Default)]
pub(crate) struct Tcp {
    ends: BTreeMap<EndId, End>,
    numbers: u32,
    ports: u16,
    listeners: BTreeMap<SocketAddr, (PartyId, u8, Buffers)>,
    /// Who has connected from an address.
    connected: BTreeMap<SocketAddr, PartyId>,
    agenda: Agenda,
}

/// The connections of all systems, and the network that carries them.
pub(crate) struct Line<'a> {
    pub(crate) now: Duration,
    pub(crate) tcp: &'a mut Tcp,
    pub(crate) network: &'a mut Network,
}

impl Tcp {
    /// A party listens.
    pub(crate) fn listen(&mut self, at: SocketAddr, party: PartyId, index: u8, buffers: Buffers) {
        self.listeners.insert(at, (party, index, buffers));
    }

    pub(crate) fn next_at(&self) -> Option<Duration> {
        self.agenda.next_at()
    }

    /// The party at an address.
    pub(crate) fn party_at(&self, address: SocketAddr) -> Option<PartyId> {
        let listener = self.listeners.get(&address).map(|&(party, ..)| party);
        listener.or_else(|| self.connected.get(&address).copied())
    }

    /// Ends of connections that are not forgotten.
    pub(crate) fn ends(&self) -> usize {
        self.ends.len()
    }

    /// Whether a read would tell something.
    pub(crate) fn is_readable(&self, end: EndId) -> bool {
        let end = self.ends.get(&end);
        end.is_none_or(|end| end.is_ended || end.has_unread())
    }
}

/// What a party does.
impl Line<'_> {
    /// Begins to connect to a listener, from any port of an address.
    pub(crate) fn connect(
        &mut self,
        party: PartyId,
        from: SocketAddr,
        to: SocketAddr,
        buffers: Buffers,
    ) -> EndId {
        let Tcp { ports, numbers, .. } = self.tcp;
        let from = SocketAddr::new(from.ip(), PORT_MIN + *ports);
        (*ports, *numbers) = ((*ports + 1) % PORT_MIN, *numbers + 1);
        let id = EndId {
            number: *numbers,
            side: 0,
        };
        let other = match self.tcp.listeners.get(&to) {
            Some(&(party, _, buffers)) => End::new(party, to, State::Opening, buffers),
            None => End::new(party, to, State::Gone, buffers),
        };
        let own = End::new(party, from, State::Opening, buffers);
        self.tcp.ends.extend([(id, own), (id.other(), other)]);
        self.tcp.connected.insert(from, party);
        self.send(id, Packet::Syn);
        id
    }

    /// Reads at most so many bytes.
    pub(crate) fn read(&mut self, id: EndId, max: usize, into: &mut Vec<u8>) -> Read {
        let Some(end) = self.tcp.ends.get_mut(&id) else {
            return Read::End;
        };
        let Some(came) = end.read(max, into) else {
            return if end.is_ended { Read::End } else { Read::Later };
        };
        let room = end.promise();
        if room > 0 {
            self.send(id, Packet::Ack { bytes: 0, room });
        }
        Read::Bytes(came)
    }

    /// Writes what there is room for.
    pub(crate) fn write(&mut self, id: EndId, bytes: &[u8]) -> usize {
        let Some(end) = self.tcp.ends.get_mut(&id) else {
            return 0;
        };
        if end.unsent.len() >= end.buffers.unsent {
            return 0;
        }
        let taken = end.unsent.len() + end.in_flight;
        let count = bytes.len().min(end.buffers.send.saturating_sub(taken));
        end.unsent.extend(&bytes[..count]);
        self.transmit(id);
        count
    }

    /// The party leaves a connection. If it has not read all, the other end is told of a loss.
    pub(crate) fn close(&mut self, id: EndId) {
        let Some(end) = self.tcp.ends.get_mut(&id).filter(|end| end.is_there()) else {
            return;
        };
        if end.has_unread() {
            self.end(id, Packet::Reset);
        } else if end.unsent.is_empty() {
            self.end(id, Packet::Fin);
        } else {
            end.state = State::Closing;
            self.send(id, Packet::Probe);
        }
    }

    /// Breaks a connection at once.
    pub(crate) fn reset(&mut self, id: EndId) {
        self.end(id, Packet::Reset);
    }

    /// Breaks all connections of a party, and nobody is told before they send.
    pub(crate) fn break_all(&mut self, party: PartyId) {
        let ends = self.tcp.ends.iter();
        let of_party = ends.filter(|(_, end)| end.party == party && end.is_there());
        for id in of_party.map(|(&id, _)| id).collect::<Vec<_>>() {
            for id in [id, id.other()] {
                self.send(id.other(), Packet::Reset);
            }
        }
    }

    /// A process ends, or its machine, which says nothing.
    pub(crate) fn leave(&mut self, party: PartyId, death: Death) {
        let is_of_party = |end: &End| end.party == party && end.state != State::Gone;
        let ends = self.tcp.ends.iter();
        let ids = ends.filter_map(|(&id, end)| is_of_party(end).then_some(id));
        for id in ids.collect::<Vec<_>>() {
            match death {
                Death::Process => self.end(id, Packet::Reset),
                Death::Machine => {
                    self.vanish(id);
                    self.forget(id);
                }
            }
        }
    }

    /// The last packet of an end. Nothing goes out behind it.
    fn end(&mut self, id: EndId, packet: Packet) {
        self.vanish(id);
        self.send(id, packet);
        self.forget(id);
    }

    fn vanish(&mut self, id: EndId) {
        if let Some(end) = self.tcp.ends.get_mut(&id) {
            end.state = State::Gone;
            end.unsent.clear();
            end.forget_unread();
        }
    }

    /// A connection that both have left is forgotten.
    fn forget(&mut self, id: EndId) {
        let ends = &mut self.tcp.ends;
        let is_over = |end: &End| end.state == State::Gone && end.stuck.is_empty();
        let both = [id, id.other()];
        if both.iter().all(|id| ends.get(id).is_none_or(is_over)) {
            let opened = ends.get(&EndId { side: 0, ..id });
            opened.map(|end| self.tcp.connected.remove(&end.address));
            both.iter().for_each(|id| drop(ends.remove(id)));
        }
    }
}

/// What the systems do.
impl Line<'_> {
    /// Does the next step; what a party learns by it.
    pub(crate) fn step(&mut self, death: impl Fn(PartyId) -> Option<Death>) -> Option<Told> {
        match self.tcp.agenda.pop()? {
            Step::Again(id) => {
                let told = self.send_again(id);
                self.forget(id);
                told
            }
            Step::Arrives(id, packet) => {
                let end = self.tcp.ends.get_mut(&id)?;
                match death(end.party) {
                    Some(Death::Machine) => {
                        self.wait(id.other(), packet);
                        return None;
                    }
                    Some(Death::Process) => end.state = State::Gone,
                    None => {}
                }
                let told = self.arrive(id, packet);
                self.forget(id);
                told
            }
        }
    }

    fn arrive(&mut self, id: EndId, packet: Packet) -> Option<Told> {
        let sender = self.tcp.ends.get_mut(&id.other())?;
        let remote = sender.address;
        sender.tries = 0;
        let end = self.tcp.ends.get_mut(&id)?;
        let (party, is_there, is_opening) =
            (end.party, end.is_there(), end.state == State::Opening);
        let what = match packet {
            Packet::Reset => {
                self.vanish(id);
                What::Broken
            }
            Packet::Syn if is_opening => {
                end.state = State::Open;
                let room = end.promise();
                let listener = self.tcp.listeners.get(&end.address)?.1;
                self.send(id, Packet::SynAck { room });
                What::Accepted { listener, remote }
            }
            Packet::SynAck { room } if is_opening => {
                (end.state, end.room) = (State::Open, room);
                let room = end.promise();
                self.send(id, Packet::Ack { bytes: 0, room });
                What::Connected
            }
            Packet::Ack { bytes, room } => {
                end.in_flight -= bytes;
                end.room += room;
                self.transmit(id);
                What::Writable
            }
            Packet::Bytes(bytes) if is_there => {
                end.take_in(self.now, &bytes);
                let (bytes, room) = (bytes.len(), end.promise());
                self.send(id, Packet::Ack { bytes, room });
                What::Readable
            }
            Packet::Fin => {
                end.is_ended = true;
                What::Readable
            }
            Packet::Probe if is_there => return None,
            Packet::Bytes(_) | Packet::Syn | Packet::SynAck { .. } | Packet::Probe => {
                self.end(id, Packet::Reset);
                return None;
            }
        };
        let end = id;
        is_there.then_some(Told { party, end, what })
    }

    /// Sends what the other end has room for.
    fn transmit(&mut self, id: EndId) {
        while let Some(end) = self.tcp.ends.get_mut(&id) {
            let count = end.unsent.len().min(end.room).min(SEGMENT_BYTES);
            if count == 0 {
                break;
            }
            end.room -= count;
            end.in_flight += count;
            let bytes = end.unsent.drain(..count).collect();
            self.send(id, Packet::Bytes(bytes));
        }
        let end = self.tcp.ends.get(&id);
        if end.is_some_and(|end| end.state == State::Closing && end.unsent.is_empty()) {
            self.end(id, Packet::Fin);
        }
    }

    fn send(&mut self, from: EndId, packet: Packet) {
        let ends = &mut self.tcp.ends;
        let Some(receiver) = ends.get(&from.other()).map(|end| end.party) else {
            return;
        };
        let Some(end) = ends.get_mut(&from) else {
            return;
        };
        if !end.stuck.is_empty() {
            return end.stuck.push_back(packet);
        }
        match self.network.carry(self.now, end.party, receiver) {
            Passage::Arrives(at) | Passage::ArrivesTwice(at, _) => {
                end.last_at = at.max(end.last_at);
                let step = Step::Arrives(from.other(), packet);
                self.tcp.agenda.add(end.last_at, step);
            }
            Passage::Lost | Passage::Cut | Passage::Full => self.wait(from, packet),
        }
    }

    /// A packet got lost: those behind it wait until it has come.
    fn wait(&mut self, from: EndId, packet: Packet) {
        let Some(end) = self.tcp.ends.get_mut(&from) else {
            return;
        };
        if end.stuck.is_empty() {
            let at = self.now + AGAIN * 2u32.pow(end.tries);
            end.tries += 1;
            self.tcp.agenda.add(at, Step::Again(from));
        }
        end.stuck.push_back(packet);
    }

    /// Sends what is stuck; gives up after many times.
    fn send_again(&mut self, id: EndId) -> Option<Told> {
        let end = self.tcp.ends.get_mut(&id)?;
        let stuck = mem::take(&mut end.stuck);
        if end.tries < TRIES_MAX {
            for packet in stuck {
                self.send(id, packet);
            }
            return None;
        }
        let (party, is_there) = (end.party, end.is_there());
        self.vanish(id);
        let (end, what) = (id, What::Broken);
        is_there.then_some(Told { party, end, what })
    }
}

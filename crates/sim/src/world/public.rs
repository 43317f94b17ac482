//! What a public network has besides: NATs, strangers, and forged datagrams.

use std::net::SocketAddr;

use node::{Flow, NextHop, Transport};

use super::{Role, World};
use crate::{Conduct, Nat, PartyId, Watch, flights::Route, network::Passage};

impl World {
    /// Adds somebody at these addresses who does nothing alone.
    pub fn add_stranger(&mut self, addresses: Vec<SocketAddr>) -> PartyId {
        self.add("stranger", addresses, Role::Stranger)
    }

    /// Adds somebody who does nothing alone, and may open connections from these addresses.
    pub fn add_stream_stranger(&mut self, addresses: Vec<SocketAddr>, conduct: Conduct) -> PartyId {
        let id = self.add_stranger(addresses);
        self.connect_by(id, conduct);
        id
    }

    /// Puts a party behind a NAT: nobody outside reaches the addresses that it knows itself by.
    pub fn put_behind(&mut self, nat: Nat, id: PartyId) {
        for address in &self.parties[id.index()].sockets {
            self.by_address.remove(address);
        }
        self.nats.insert(id, nat);
    }

    /// The NAT before a party, if there is one.
    pub fn nat_mut(&mut self, id: PartyId) -> Option<&mut Nat> {
        self.nats.get_mut(&id)
    }

    /// A stranger sends a datagram from an address that need not be its own.
    pub fn forge(
        &mut self,
        stranger: PartyId,
        from: SocketAddr,
        to: SocketAddr,
        bytes: &[u8],
        watch: &mut impl Watch,
    ) {
        self.send_from(stranger, from, to, bytes, watch);
    }

    /// A stranger sends bytes over a connection from one of its addresses, which it opens if there is none.
    pub fn send_over_stream(
        &mut self,
        stranger: PartyId,
        socket: usize,
        to: SocketAddr,
        bytes: &[u8],
        watch: &mut impl Watch,
    ) {
        let transport = Transport::Tcp;
        let hop = NextHop {
            transport,
            address: to,
        };
        let index = stranger.index();
        self.send_on_stream(index, Flow::to(socket as u8, hop), bytes, watch);
        self.settle_streams(index, watch);
    }

    /// A stranger tells an edge with ICMP that nobody listens at an address.
    pub fn forge_unreachable(&mut self, stranger: PartyId, edge: PartyId, address: SocketAddr) {
        let passage = self.network.carry(self.now, stranger, edge);
        if let Passage::Arrives(at) | Passage::ArrivesTwice(at, _) = passage {
            let route = Route {
                from: address,
                to: self.parties[edge.index()].sockets[0],
                sender: stranger,
                receiver: edge,
                socket: 0,
            };
            let quoted = b"OPTIONS sip:a@b SIP/2.0\r\n\
                Via: SIP/2.0/UDP 10.0.0.1:5060;branch=z9hG4bKsy0A0123456789abcdef\r\n";
            self.flights.refuse(at, route, quoted);
        }
    }

    /// Where others see what a party's socket sends come from.
    pub(super) fn source(&mut self, index: usize, socket: usize) -> SocketAddr {
        match self.nats.get_mut(&PartyId(index as u32)) {
            Some(nat) => nat.outwards(self.now, socket),
            None => self.parties[index].sockets[socket],
        }
    }

    /// The party, and its socket, that gets what is sent to an address.
    pub(super) fn receiver(&self, to: SocketAddr) -> Option<(PartyId, usize)> {
        let behind_nat = || {
            let mut nats = self.nats.iter();
            nats.find_map(|(&id, nat)| Some((id, nat.inwards(self.now, to)?)))
        };
        self.by_address.get(&to).copied().or_else(behind_nat)
    }
}

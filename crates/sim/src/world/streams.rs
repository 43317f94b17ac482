//! Connections between the parties.

use std::time::Duration;

use load::{CallerConfig, ServerConfig};
use node::{Flow, Transport, config::Listener};

use super::{Role, World};
use crate::{
    Conduct, Event, PartyId, Watch, What,
    streams::{Buffers, Endpoint, Line, Told},
};

/// A message that came on a connection.
type Heard = (Flow, Vec<u8>);

impl World {
    /// Starts a server that listens for connections, and sends nothing but over them.
    pub fn add_stream_server(&mut self, config: ServerConfig, conduct: Conduct) -> PartyId {
        let id = self.add_server(config);
        self.tcp.listen(config.address, id, 0, conduct.buffers);
        self.connect_by(id, conduct);
        id
    }

    /// Starts a caller that opens a connection in the place of each socket.
    pub fn add_stream_caller(&mut self, config: CallerConfig, conduct: Conduct) -> PartyId {
        let transport = Transport::Tcp;
        let id = self.add_caller(CallerConfig {
            transport,
            ..config
        });
        self.connect_by(id, conduct);
        id
    }

    /// Lets a party stop to read from its connections, or go on.
    pub fn set_reading(&mut self, id: PartyId, is_reading: bool) {
        let party = &mut self.parties[id.index()];
        if let Role::Edge(edge) = &mut party.role {
            edge.set_reading(is_reading);
        }
        if let Some(streams) = &mut party.streams {
            streams.set_reading(is_reading);
        }
    }

    /// Breaks all connections of a party, as a firewall does that forgets them.
    pub fn reset_streams(&mut self, id: PartyId) {
        self.line().break_all(id);
    }

    /// Ends of connections that a system still knows.
    pub(crate) fn connection_ends(&self) -> usize {
        self.tcp.ends()
    }

    pub(super) fn listen_as(&mut self, id: PartyId, listeners: &[Listener], buffers: Buffers) {
        for (index, listener) in listeners.iter().enumerate() {
            if listener.transport.is_stream() {
                let at = listener.address;
                self.tcp.listen(at, id, index as u8, buffers);
            }
        }
    }

    pub(super) fn line(&mut self) -> Line<'_> {
        Line {
            now: self.now,
            tcp: &mut self.tcp,
            network: &mut self.network,
        }
    }

    pub(super) fn connect_by(&mut self, id: PartyId, conduct: Conduct) {
        let now = self.now;
        let party = &mut self.parties[id.index()];
        let endpoint = Endpoint::new(id, 0, party.sockets.clone(), conduct, now);
        party.streams = Some(Box::new(endpoint));
    }

    /// Lets the systems do the next thing.
    pub(super) fn step_streams(&mut self, watch: &mut impl Watch) {
        self.now = self.tcp.next_at().unwrap_or(self.now).max(self.now);
        let parties = &self.parties;
        let mut line = Line {
            now: self.now,
            tcp: &mut self.tcp,
            network: &mut self.network,
        };
        let Some(told) = line.step(|id: PartyId| parties[id.index()].death) else {
            return;
        };
        self.tell(told);
        self.hear(told.party.index(), watch);
        self.post(told.party.index(), watch);
    }

    /// Tells a party of an end of a connection.
    fn tell(&mut self, Told { party, end, what }: Told) {
        let party = &mut self.parties[party.index()];
        let line = &mut Line {
            now: self.now,
            tcp: &mut self.tcp,
            network: &mut self.network,
        };
        if let Role::Edge(edge) = &mut party.role {
            edge.on_stream(line, end, what, &mut self.node_out);
        } else if let Some(streams) = &mut party.streams {
            streams.on(line, end, what);
        }
    }

    /// Does what is due on the connections of a party that is no node.
    pub(super) fn wake_streams(&mut self, index: usize, watch: &mut impl Watch) {
        let line = &mut Line {
            now: self.now,
            tcp: &mut self.tcp,
            network: &mut self.network,
        };
        if let Some(streams) = &mut self.parties[index].streams {
            streams.handle_timeout(line);
            self.hear(index, watch);
        }
    }

    /// Lets a party that is no node hear what has come on its connections.
    fn hear(&mut self, index: usize, watch: &mut impl Watch) {
        for (flow, bytes) in self.heard_by(index) {
            self.show_message(What::Arrived, index, flow, &bytes, watch);
            let (now, out) = (self.now, &mut self.load_out);
            let (socket, from) = (usize::from(flow.listener), flow.remote);
            match &mut self.parties[index].role {
                Role::Server(server, _) => server.handle_input(now, from, &bytes, out),
                Role::Caller(caller, _) => caller.handle_input(now, socket, from, &bytes, out),
                Role::Phones(phones, _) => phones.handle_input(now, socket, from, &bytes, out),
                Role::Edge(_) | Role::Stranger => {}
            }
        }
    }

    fn heard_by(&mut self, index: usize) -> Vec<Heard> {
        let mut heard = Vec::new();
        let line = &mut Line {
            now: self.now,
            tcp: &mut self.tcp,
            network: &mut self.network,
        };
        if let Some(streams) = &mut self.parties[index].streams {
            while streams.is_ready() {
                let mut hear = |_, flow, bytes: &[u8]| heard.push((flow, bytes.to_vec()));
                streams.read(line, &mut hear);
            }
        }
        heard
    }

    /// Queues a message on a connection of a party.
    pub(super) fn send_on_stream(
        &mut self,
        index: usize,
        flow: Flow,
        bytes: &[u8],
        watch: &mut impl Watch,
    ) {
        self.arrivals += 1;
        self.show_message(What::Sent, index, flow, bytes, watch);
        let line = &mut Line {
            now: self.now,
            tcp: &mut self.tcp,
            network: &mut self.network,
        };
        let party = &mut self.parties[index];
        if let Role::Edge(edge) = &mut party.role {
            edge.send(line, flow, bytes);
        } else if let Some(streams) = &mut party.streams {
            streams.send(line, flow, bytes);
        }
    }

    /// Tells a party what became of what it sent, and looks when it wants to be woken.
    pub(super) fn settle_streams(&mut self, index: usize, watch: &mut impl Watch) {
        let party = &mut self.parties[index];
        let wake = match &mut party.role {
            Role::Edge(edge) => {
                if edge.tell_missed(self.now, &mut self.node_out) {
                    return self.post(index, watch);
                }
                Some(edge.wake_at())
            }
            _ if party.streams.is_none() => return,
            Role::Server(server, _) => server.deadline(),
            Role::Caller(caller, _) => caller.deadline(),
            Role::Phones(phones, _) => phones.deadline(),
            Role::Stranger => None,
        };
        let streams = party.streams.as_mut();
        let of_streams = streams.and_then(|streams| {
            // What load could not send is lost to it.
            drop(streams.take_missed());
            streams.deadline()
        });
        let wake = wake.into_iter().chain(of_streams).min();
        self.wakes.set(index, wake.unwrap_or(Duration::MAX));
    }

    fn show_message(
        &self,
        what: What,
        index: usize,
        flow: Flow,
        bytes: &[u8],
        watch: &mut impl Watch,
    ) {
        let own = self.parties[index].sockets[usize::from(flow.listener)];
        let id = PartyId(index as u32);
        let remote = self.tcp.party_at(flow.remote);
        let (from, to, sender, receiver) = match what {
            What::Arrived => (flow.remote, own, remote.unwrap_or(id), Some(id)),
            _ => (own, flow.remote, id, remote),
        };
        watch.see(&Event {
            at: self.now,
            what,
            from,
            to,
            sender,
            receiver,
            bytes,
        });
    }
}

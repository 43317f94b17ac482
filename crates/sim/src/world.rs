//! The parties, the clock and the network between them.

mod parties;
mod public;
mod streams;

use std::{borrow::Cow, collections::BTreeMap, mem, net::SocketAddr, time::Duration};

use balance::Policy;
use fastrand::Rng;
use load::{Caller, CallerConfig, Phones, PhonesConfig, Server, ServerConfig};
use node::{
    Config, Flow, NextHop, Quotation, ReloadError, Transport,
    config::Pool,
    tap::{self, Tap},
};

use crate::{
    Death, Edge, Event, Link, Machine, Nat, Network, PartyId, Watch, What,
    flights::{Flight, Flights, Route},
    network::Passage,
    streams::{Endpoint, Line, Tcp},
    wakes::Wakes,
};

/// What a node may receive and send at one moment, for a watch that asks why.
const TAPPED_BYTES: usize = 1 << 20;

/// The state of all parties at one moment.
#[derive(Debug)]
pub struct World {
    now: Duration,
    rng: Rng,
    network: Network,
    tcp: Tcp,
    flights: Flights,
    wakes: Wakes,
    parties: Vec<Party>,
    by_address: BTreeMap<SocketAddr, (PartyId, usize)>,
    nats: BTreeMap<PartyId, Nat>,
    arrivals: u64,
    /// Some edge places calls by what servers truly have left to do.
    has_oracle: bool,
    node_out: node::Outbox,
    load_out: load::Outbox,
}

#[derive(Debug)]
struct Party {
    name: String,
    sockets: Vec<SocketAddr>,
    role: Role,
    /// The connections of a party that is no node, if it has any.
    streams: Option<Box<Endpoint>>,
    death: Option<Death>,
}

#[derive(Debug)]
enum Role {
    Edge(Box<Edge>),
    Server(Box<Server>, ServerConfig),
    Caller(Box<Caller>, CallerConfig),
    Phones(Box<Phones>, PhonesConfig),
    /// Sends only what is forged for it.
    Stranger,
}

/// Who is there.
impl World {
    /// An empty world at time zero. `seed` determines everything that will happen in it.
    #[must_use]
    pub fn new(seed: u64, usual: Link) -> Self {
        let mut rng = Rng::with_seed(seed);
        Self {
            now: Duration::ZERO,
            network: Network::new(usual, rng.fork()),
            rng,
            tcp: Tcp::default(),
            flights: Flights::default(),
            wakes: Wakes::new(1),
            parties: Vec::new(),
            by_address: BTreeMap::new(),
            nats: BTreeMap::new(),
            arrivals: 0,
            has_oracle: false,
            node_out: node::Outbox::default(),
            load_out: load::Outbox::default(),
        }
    }

    /// Starts an edge with this many workers.
    ///
    /// # Errors
    /// If the node refuses the configuration.
    pub fn add_edge(&mut self, config: Config, workers: usize) -> Result<PartyId, ReloadError> {
        self.add_node("edge", config, workers, Machine::default())
    }

    /// Starts a node on a machine of its own. Nodes of one kind are numbered.
    ///
    /// # Errors
    /// If the node refuses the configuration.
    pub fn add_node(
        &mut self,
        kind: &str,
        config: Config,
        workers: usize,
        machine: Machine,
    ) -> Result<PartyId, ReloadError> {
        let id = self.next_id();
        self.listen_as(id, &config.listeners, machine.conduct.buffers);
        let listeners = config.listeners.iter();
        let sockets = listeners.map(|listener| listener.address).collect();
        let is_oracle = |pool: &Pool| pool.policy == Policy::Oracle;
        self.has_oracle |= config.pools.iter().any(is_oracle);
        let edge = Edge::new(id, config, workers, machine, self.rng.fork(), self.now)?;
        Ok(self.add(kind, sockets, Role::Edge(Box::new(edge))))
    }

    /// Starts a server.
    pub fn add_server(&mut self, config: ServerConfig) -> PartyId {
        let server = Server::new(config, self.rng.fork(), self.now);
        let role = Role::Server(Box::new(server), config);
        self.add("server", vec![config.address], role)
    }

    /// Starts a caller.
    pub fn add_caller(&mut self, config: CallerConfig) -> PartyId {
        let caller = Caller::new(config.clone(), self.rng.fork(), self.now);
        let sockets = config.sockets.clone();
        self.add("caller", sockets, Role::Caller(Box::new(caller), config))
    }

    /// Starts phones.
    pub fn add_phones(&mut self, config: PhonesConfig) -> PartyId {
        let phones = Phones::new(config.clone(), self.rng.fork(), self.now);
        let sockets = config.sockets.clone();
        self.add("phones", sockets, Role::Phones(Box::new(phones), config))
    }

    fn add(&mut self, kind: &str, sockets: Vec<SocketAddr>, role: Role) -> PartyId {
        let id = self.next_id();
        let like = |party: &&Party| party.name.starts_with(kind);
        let number = 1 + self.parties.iter().filter(like).count();
        for (index, &address) in sockets.iter().enumerate() {
            self.by_address.entry(address).or_insert((id, index));
        }
        self.parties.push(Party {
            name: format!("{kind}-{number}"),
            sockets,
            role,
            streams: None,
            death: None,
        });
        id
    }

    fn next_id(&self) -> PartyId {
        PartyId(self.parties.len() as u32)
    }

    /// The parties' names.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.parties
            .iter()
            .map(|party| party.name.clone())
            .collect()
    }
}

/// What happens.
impl World {
    /// The time since the start.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.now
    }

    /// The network, to change it.
    pub fn network_mut(&mut self) -> &mut Network {
        &mut self.network
    }

    /// Datagrams on their way.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// Datagrams that arrived at a party since the start, and messages that were sent on connections.
    #[must_use]
    pub fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// Kills a party. It loses everything in its memory.
    pub fn crash(&mut self, id: PartyId, death: Death, watch: &mut impl Watch) {
        self.parties[id.index()].death = Some(death);
        self.line().leave(id, death);
        self.show_party(id, What::Crashed, watch);
    }

    /// Starts a party again, with only its configuration.
    ///
    /// # Errors
    /// If a node refuses its configuration.
    pub fn restart(&mut self, id: PartyId, watch: &mut impl Watch) -> Result<(), ReloadError> {
        let (rng, now) = (self.rng.fork(), self.now);
        let party = &mut self.parties[id.index()];
        match &mut party.role {
            Role::Edge(edge) => **edge = edge.restarted(rng, now)?,
            Role::Server(server, config) => **server = Server::new(*config, rng, now),
            Role::Caller(caller, config) => **caller = Caller::new(config.clone(), rng, now),
            Role::Phones(phones, config) => **phones = Phones::new(config.clone(), rng, now),
            Role::Stranger => {}
        }
        if let Some(streams) = &mut party.streams {
            **streams = streams.restarted(now);
        }
        party.death = None;
        self.show_party(id, What::Restarted, watch);
        Ok(())
    }

    /// Whether a party is alive.
    #[must_use]
    pub fn is_up(&self, id: PartyId) -> bool {
        self.parties[id.index()].death.is_none()
    }

    /// Runs all events up to and at `end`. The time is then `end`.
    pub fn run_until(&mut self, end: Duration, watch: &mut impl Watch) {
        self.node_out.tap = watch.asks_why().then(|| Tap::new(TAPPED_BYTES));
        self.set_wakes();
        while self.next_at() <= end {
            self.step(watch);
        }
        self.now = self.now.max(end);
    }

    /// When the next thing happens; `Duration::MAX` if nothing ever will.
    fn next_at(&self) -> Duration {
        let arrival = self.flights.next_at().unwrap_or(Duration::MAX);
        let step = self.tcp.next_at().unwrap_or(Duration::MAX);
        arrival.min(step).min(self.wakes.next_at())
    }

    /// The holder of a party may have changed what it waits for.
    fn set_wakes(&mut self) {
        self.wakes = Wakes::new(self.parties.len());
        for (index, party) in self.parties.iter_mut().enumerate() {
            if party.death.is_some() {
                continue;
            }
            let wake = match &mut party.role {
                Role::Edge(edge) => {
                    edge.look_again(self.now);
                    Some(self.now)
                }
                Role::Server(server, _) => server.deadline(),
                Role::Caller(caller, _) => caller.deadline(),
                Role::Phones(phones, _) => phones.deadline(),
                Role::Stranger => None,
            };
            let of_streams = party.streams.as_ref().and_then(|it| match it.is_ready() {
                true => Some(self.now),
                false => it.deadline(),
            });
            let wake = wake.into_iter().chain(of_streams).min();
            self.wakes.set(index, wake.unwrap_or(Duration::MAX));
        }
    }

    fn step(&mut self, watch: &mut impl Watch) {
        let wake = self.wakes.next_at();
        if self
            .tcp
            .next_at()
            .is_some_and(|step| step <= self.next_at())
        {
            self.step_streams(watch);
        } else if self.flights.next_at().is_none_or(|arrival| wake < arrival) {
            self.now = self.now.max(wake);
            self.wake(self.wakes.next(), watch);
        } else if let Some((at, slot, flight)) = self.flights.arrive() {
            self.now = at;
            self.arrive(&flight, watch);
            self.flights.recycle(slot, flight);
        }
    }

    fn wake(&mut self, index: usize, watch: &mut impl Watch) {
        let now = self.now;
        let next = match &mut self.parties[index].role {
            Role::Edge(edge) => {
                let (tcp, network) = (&mut self.tcp, &mut self.network);
                let line = &mut Line { now, tcp, network };
                edge.wake(line, &mut self.node_out);
                edge.wake_at()
            }
            Role::Server(server, _) => {
                server.handle_timeout(now, &mut self.load_out);
                server.deadline().unwrap_or(Duration::MAX)
            }
            Role::Caller(caller, _) => {
                caller.handle_timeout(now, &mut self.load_out);
                caller.deadline().unwrap_or(Duration::MAX)
            }
            Role::Phones(phones, _) => {
                phones.handle_timeout(now, &mut self.load_out);
                phones.deadline().unwrap_or(Duration::MAX)
            }
            Role::Stranger => Duration::MAX,
        };
        self.wakes.set(index, next);
        self.wake_streams(index, watch);
        self.post(index, watch);
    }

    fn arrive(&mut self, flight: &Flight, watch: &mut impl Watch) {
        let Flight { route, bytes, .. } = flight;
        if !self.is_up(route.receiver) {
            return self.refuse(flight, watch);
        }
        if flight.is_unreachable {
            return self.tell_unreachable(route, bytes, watch);
        }
        self.arrivals += 1;
        self.show(What::Arrived, route, bytes, watch);
        let (now, index) = (self.now, route.receiver.index());
        if self.has_oracle {
            self.tell_backlogs(index);
        }
        let mut has_room = true;
        let wake = match &mut self.parties[index].role {
            Role::Edge(edge) => {
                let flow = Flow::udp(route.socket as u8, route.from);
                has_room = edge.receive(now, flow, bytes, &mut self.node_out);
                edge.wake_at()
            }
            Role::Server(server, _) => {
                server.handle_input(now, route.from, bytes, &mut self.load_out);
                server.deadline().unwrap_or(Duration::MAX)
            }
            Role::Caller(caller, _) => {
                let out = &mut self.load_out;
                caller.handle_input(now, route.socket, route.from, bytes, out);
                caller.deadline().unwrap_or(Duration::MAX)
            }
            Role::Phones(phones, _) => {
                let out = &mut self.load_out;
                phones.handle_input(now, route.socket, route.from, bytes, out);
                phones.deadline().unwrap_or(Duration::MAX)
            }
            Role::Stranger => Duration::MAX,
        };
        if !has_room {
            self.show(What::Overflowed, route, bytes, watch);
        }
        self.wakes.set(index, wake);
        self.post(index, watch);
    }

    /// Lets an edge know what its servers truly have left to do, which only its oracle asks for.
    fn tell_backlogs(&self, index: usize) {
        let Role::Edge(edge) = &self.parties[index].role else {
            return;
        };
        for member in edge.shared().snapshot().members().iter().flatten() {
            if let Some((id, _)) = self.by_address.get(&member.address)
                && let Role::Server(server, _) = &self.parties[id.index()].role
            {
                member.server.set_backlog(server.backlog(self.now));
            }
        }
    }

    /// A datagram arrived where no party listens. The machine reports this, if there is one.
    fn refuse(&mut self, flight: &Flight, watch: &mut impl Watch) {
        if flight.is_unreachable {
            return;
        }
        let Route {
            from,
            to,
            sender,
            receiver,
            ..
        } = flight.route;
        self.show(What::Refused, &flight.route, &flight.bytes, watch);
        if self.parties[receiver.index()].death == Some(Death::Process)
            && let Passage::Arrives(at) | Passage::ArrivesTwice(at, _) =
                self.network.carry(self.now, receiver, sender)
        {
            let back = Route {
                from: to,
                to: from,
                sender: receiver,
                receiver: sender,
                socket: 0,
            };
            self.flights.refuse(at, back, &flight.bytes);
        }
    }

    fn tell_unreachable(&mut self, route: &Route, bytes: &[u8], watch: &mut impl Watch) {
        let (now, index) = (self.now, route.receiver.index());
        if let Role::Edge(edge) = &mut self.parties[index].role {
            let flow = Flow::udp(route.socket as u8, route.from);
            let quotation = Quotation { flow, bytes };
            edge.handle_unreachable(now, quotation, &mut self.node_out);
            self.wakes.set(index, edge.wake_at());
            self.post(index, watch);
        }
    }

    /// Sends what a party wants sent.
    fn post(&mut self, index: usize, watch: &mut impl Watch) {
        let mut out = mem::take(&mut self.node_out);
        if let Some(tap) = &mut out.tap {
            for tapped in tap.entries() {
                if let tap::What::Because(moves) = tapped.what {
                    let party = PartyId(index as u32);
                    let reasons = moves.reasons();
                    reasons.for_each(|why| watch.explain(tapped.at, party, why));
                }
            }
            tap.clear();
        }
        for transmit in &out.transmits {
            let message = self.altered(index, out.payload(transmit));
            if transmit.flow.transport.is_stream() {
                self.send_on_stream(index, transmit.flow, &message, watch);
                continue;
            }
            let socket = usize::from(transmit.flow.listener);
            self.send(index, socket, transmit.flow.remote, &message, watch);
        }
        out.clear();
        self.node_out = out;
        let mut out = mem::take(&mut self.load_out);
        for (socket, to, bytes) in out.datagrams() {
            if self.parties[index].streams.is_some() {
                let hop = NextHop {
                    transport: Transport::Tcp,
                    address: to,
                };
                self.send_on_stream(index, Flow::to(socket as u8, hop), bytes, watch);
            } else {
                self.send(index, socket, to, bytes, watch);
            }
        }
        out.clear();
        self.load_out = out;
        self.settle_streams(index, watch);
    }

    /// What a party sends instead of a message.
    fn altered<'a>(&self, index: usize, message: &'a [u8]) -> Cow<'a, [u8]> {
        match &self.parties[index].role {
            Role::Edge(edge) => edge.altered(message),
            _ => Cow::Borrowed(message),
        }
    }

    fn send(
        &mut self,
        index: usize,
        socket: usize,
        to: SocketAddr,
        bytes: &[u8],
        watch: &mut impl Watch,
    ) {
        let from = self.source(index, socket);
        self.send_from(PartyId(index as u32), from, to, bytes, watch);
    }

    fn send_from(
        &mut self,
        sender: PartyId,
        from: SocketAddr,
        to: SocketAddr,
        bytes: &[u8],
        watch: &mut impl Watch,
    ) {
        let Some((receiver, socket)) = self.receiver(to) else {
            return watch.see(&Event {
                at: self.now,
                what: What::Refused,
                from,
                to,
                sender,
                receiver: None,
                bytes,
            });
        };
        let route = Route {
            from,
            to,
            sender,
            receiver,
            socket,
        };
        let what = match self.network.carry(self.now, sender, receiver) {
            Passage::Arrives(at) => {
                self.flights.depart(at, route, bytes);
                What::Sent
            }
            Passage::ArrivesTwice(first, second) => {
                self.flights.depart(first, route, bytes);
                self.flights.depart(second, route, bytes);
                What::Copied
            }
            Passage::Lost => What::Lost,
            Passage::Cut => What::Cut,
            Passage::Full => What::Full,
        };
        self.show(what, &route, bytes, watch);
    }

    fn show(&self, what: What, route: &Route, bytes: &[u8], watch: &mut impl Watch) {
        watch.see(&Event {
            at: self.now,
            what,
            from: route.from,
            to: route.to,
            sender: route.sender,
            receiver: Some(route.receiver),
            bytes,
        });
    }

    fn show_party(&self, id: PartyId, what: What, watch: &mut impl Watch) {
        let Some(&address) = self.parties[id.index()].sockets.first() else {
            return;
        };
        let route = Route {
            from: address,
            to: address,
            sender: id,
            receiver: id,
            socket: 0,
        };
        self.show(what, &route, &[], watch);
    }
}

//! What the workers read: one configuration, made ready for look-ups.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use balance::{Cost, Pool, Server, ServerId};
use ipnet::IpNet;
use sip::{Host, Method, Uri};
use transaction::{Flow, NextHop, Transport};

use crate::{
    config::{self, Config, Destination, Mode},
    listener::Listener,
    member::Member,
    routes::{NoRoute, Traits, is_host},
    wire::{
        keys::{Keys, edge_of},
        way::transport_of,
    },
};

/// An immutable view of a node's configuration and servers.
#[derive(Debug)]
pub struct Snapshot {
    config: Config,
    keys: Keys,
    listeners: Vec<Listener>,
    members: Vec<Option<Arc<Member>>>,
    by_address: BTreeMap<SocketAddr, ServerId>,
    /// All servers, those of several pools several times, in the order of their addresses.
    addresses: Vec<(SocketAddr, ServerId)>,
    pools: Vec<PoolView>,
    /// Some route is stateful.
    holds_state: bool,
    /// Some route wants to know who calls.
    wants_proof: bool,
    /// Some route adds or removes headers.
    edits_headers: bool,
    /// Some pool wants overload control.
    offers_control: bool,
}

/// A pool, ready to place on.
#[derive(Debug)]
pub struct PoolView {
    pool: Pool,
    config: config::Pool,
    invite: Cost,
    costs: Vec<(String, Cost)>,
}

impl Snapshot {
    pub(crate) fn new(config: Config, members: Vec<Option<Arc<Member>>>) -> Self {
        let pools = config
            .pools
            .iter()
            .map(|pool| PoolView::new(pool, &members))
            .collect();
        let listeners: Vec<_> = config.listeners.iter().map(Listener::new).collect();
        let mut by_address = BTreeMap::new();
        for member in members.iter().flatten() {
            let id = by_address
                .entry(member.address)
                .or_insert_with(|| member.server.id());
            if !member.server.is_removed()
                && members[usize::from(id.0)]
                    .as_ref()
                    .is_some_and(|m| m.server.is_removed())
            {
                *id = member.server.id();
            }
        }
        let mut addresses: Vec<_> = members
            .iter()
            .flatten()
            .map(|member| (member.address, member.server.id()))
            .collect();
        addresses.sort_unstable();
        let holds_state = config
            .routes
            .iter()
            .any(|route| route.state != Mode::Stateless);
        let keys = Keys::new(
            config.secret.as_ref(),
            config.accepted_secret.as_ref().map(AsRef::as_ref),
        );
        let edge = edge_of(owner(&keys, &config.name, &listeners));
        Self {
            edits_headers: config.routes.iter().any(config::Route::edits_headers),
            offers_control: config.pools.iter().any(|pool| pool.overload_control),
            wants_proof: config.routes.iter().any(|route| route.auth),
            holds_state,
            addresses,
            keys: keys.of_edge(edge),
            config,
            listeners,
            members,
            by_address,
            pools,
        }
    }

    /// The configuration it was made from.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Servers by number; removed ones too, while they have calls.
    pub fn members(&self) -> &[Option<Arc<Member>>] {
        &self.members
    }

    /// The pools, in the order of the configuration.
    pub fn pools(&self) -> &[PoolView] {
        &self.pools
    }

    /// The node's identity among its peers, the same after a restart.
    pub(crate) fn owner(&self) -> u64 {
        owner(&self.keys, &self.config.name, &self.listeners)
    }

    /// The same with the connections of this one, whatever its name is now.
    pub(crate) fn after(mut self, before: &Self) -> Self {
        self.keys = self.keys.of_edge(before.keys.edge());
        self
    }

    /// A keyed hash of a Call-ID, by which tools tell calls apart. Peers can't make two that are the same.
    pub fn session_of(&self, call_id: &[u8]) -> u64 {
        self.keys().session(call_id).bits()
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }

    pub(crate) fn member(&self, id: ServerId) -> Option<&Arc<Member>> {
        self.members.get(usize::from(id.0))?.as_ref()
    }

    /// The server that a peer is; of several pools' the first. Nothing else says that a peer is a
    /// server of ours.
    pub fn member_of(&self, flow: Flow) -> Option<&Arc<Member>> {
        let listens = self.member_at(flow.remote);
        if listens.is_some() || !flow.transport.is_stream() {
            return listens;
        }
        // Nobody can forge the address of a stream, but its port is any.
        let mut at_host = self.members_at_host(flow.remote.ip());
        at_host.find(|member| member.transport.is_stream())
    }

    /// The server that a peer is, if it is this one, else any that it is.
    pub(crate) fn member_of_or(&self, own: Option<ServerId>, flow: Flow) -> Option<&Arc<Member>> {
        let own = own.and_then(|server| self.member(server));
        own.filter(|member| member.is_at(flow))
            .or_else(|| self.member_of(flow))
    }

    /// Users whose calls go before others.
    pub fn urgent(&self) -> &[String] {
        &self.config.trust.urgent
    }

    /// Whether a peer is believed: a server of a pool, a peer of `[trust]`, or another edge.
    pub(crate) fn is_trusted(&self, flow: Flow) -> bool {
        self.member_of(flow).is_some()
            || self.config.trust.is_peer(flow.remote.ip())
            || self.config.exchange.peers.contains(&flow.remote)
    }

    /// The server that listens at an address that a token names; of several pools' the first.
    pub(crate) fn member_at(&self, address: SocketAddr) -> Option<&Arc<Member>> {
        self.member(*self.by_address.get(&address)?)
    }

    /// The same, but this server if it is there.
    pub(crate) fn member_at_or(
        &self,
        own: Option<ServerId>,
        address: SocketAddr,
    ) -> Option<&Arc<Member>> {
        let own = own.and_then(|server| self.member(server));
        own.filter(|member| member.address == address)
            .or_else(|| self.member_at(address))
    }

    /// What the server at an address is called.
    #[must_use]
    pub fn host_at(&self, address: SocketAddr) -> Option<&str> {
        self.member_at(address)?.host.as_deref()
    }

    /// Whether a server of a pool or another edge is at an address.
    pub(crate) fn is_inside(&self, address: SocketAddr) -> bool {
        self.member_at(address).is_some() || self.config.exchange.peers.contains(&address)
    }

    /// The server that a peer is, once for each pool that it is in.
    pub(crate) fn members_of(&self, flow: Flow) -> impl Iterator<Item = &Arc<Member>> {
        self.members_at(flow.remote)
    }

    /// The server at an address, once for each pool that it is in.
    pub(crate) fn members_at(&self, address: SocketAddr) -> impl Iterator<Item = &Arc<Member>> {
        let start = self.addresses.partition_point(|(at, _)| *at < address);
        self.addresses[start..]
            .iter()
            .take_while(move |(at, _)| *at == address)
            .filter_map(|(_, id)| self.member(*id))
    }

    /// Whether a server has this address, with whatever port.
    pub(crate) fn has_member_at(&self, ip: IpAddr) -> bool {
        self.members_at_host(ip).next().is_some()
    }

    /// The servers that have this address, with whatever port.
    fn members_at_host(&self, ip: IpAddr) -> impl Iterator<Item = &Arc<Member>> {
        let first = SocketAddr::new(ip, 0);
        let start = self.addresses.partition_point(|(at, _)| *at < first);
        let at_host = self.addresses[start..].iter();
        at_host
            .take_while(move |(at, _)| at.ip() == ip)
            .filter_map(|(_, id)| self.member(*id))
    }

    /// Whether somebody at this address is no stranger: a server, another edge, or a trusted peer. A listener for both
    /// families shows IPv4 addresses as IPv6 ones. RFC 4291 §2.5.5.2
    #[must_use]
    pub fn is_known(&self, from: IpAddr) -> bool {
        let edges = &self.config.exchange.peers;
        let is_at = |ip| self.has_member_at(ip) || edges.iter().any(|edge| edge.ip() == ip);
        is_at(from) || is_at(from.to_canonical()) || self.config.trust.is_peer(from)
    }

    /// Whom no filter of a socket may stop: servers, other edges and trusted networks.
    #[must_use]
    pub fn known_networks(&self) -> Vec<IpNet> {
        let servers = self.addresses.iter().map(|(at, _)| at.ip());
        let edges = self.config.exchange.peers.iter().map(SocketAddr::ip);
        let mut known: Vec<IpNet> = servers.chain(edges).map(IpNet::from).collect();
        known.extend(&self.config.trust.peers);
        known.sort();
        known.dedup();
        known
    }

    /// All servers in the order of their addresses, those of several pools several times.
    pub(crate) fn addresses(&self) -> &[(SocketAddr, ServerId)] {
        &self.addresses
    }

    /// What a request of this method costs its server.
    pub(crate) fn cost(&self, member: &Member, method: Method<'_>) -> Cost {
        self.pool_of(member)
            .map_or(Cost::ONE, |pool| pool.cost(method))
    }

    pub(crate) fn pool_of(&self, member: &Member) -> Option<&PoolView> {
        self.pools
            .iter()
            .find(|pool| pool.config.name == member.pool)
    }

    /// Whether some pool wants overload control.
    pub(crate) fn offers_control(&self) -> bool {
        self.offers_control
    }

    pub(crate) fn listener(&self, index: u8) -> &Listener {
        &self.listeners[usize::from(index)]
    }

    pub(crate) fn has_listener(&self, index: u8) -> bool {
        usize::from(index) < self.listeners.len()
    }

    /// The flow to a peer: from the listener that was hit, or from the first that reaches it.
    pub(crate) fn flow_to(&self, to: NextHop, hit: u8) -> Option<Flow> {
        let is_ipv4 = to.address.is_ipv4();
        let reaches = |listener: &Listener| {
            listener.transport == to.transport && listener.address.is_ipv4() == is_ipv4
        };
        if reaches(self.listener(hit)) {
            return Some(Flow::to(hit, to));
        }
        let listener = self.listeners.iter().position(reaches)?;
        Some(Flow::to(listener as u8, to))
    }

    /// The flows to the servers that are connected, and that get requests.
    pub fn connected_servers(&self) -> impl Iterator<Item = Flow> {
        let members = self.members.iter().flatten();
        let connected = members.filter(|it| it.transport.is_stream() && !it.server.is_removed());
        connected.filter_map(|member| self.flow_to(member.next_hop(), 0))
    }

    /// Whether a server is configured, or has requests open.
    pub fn is_in_use(&self, address: SocketAddr) -> bool {
        let mut members = self.members_at(address);
        members.any(|it| !it.server.is_removed() || it.server.transactions() > 0)
    }

    /// The flow to a peer from the listener that goes by the same name as that of a flow, so that whoever answers
    /// can't tell them apart.
    pub(crate) fn twin_flow(&self, of: Flow, to: NextHop) -> Option<Flow> {
        let name = &self.listener(of.listener).advertise;
        let is_twin = |own: &Listener| own.transport == to.transport && own.advertise == *name;
        let listener = self.listeners.iter().position(is_twin)?;
        Some(Flow::to(listener as u8, to))
    }

    /// Whether a listener carries messages by a transport.
    pub(crate) fn speaks(&self, transport: Transport) -> bool {
        let mut listeners = self.listeners.iter();
        listeners.any(|listener| listener.transport == transport)
    }

    /// Where a server listens whose address a token names: as it is configured, or over UDP.
    pub(crate) fn next_hop_at(&self, address: SocketAddr) -> NextHop {
        let member = self.member_at(address);
        member.map_or_else(|| NextHop::udp(address), |member| member.next_hop())
    }

    /// Whether a host and port are ours, as bound or as advertised.
    pub(crate) fn is_us(&self, host: &[u8], port: Option<u16>) -> bool {
        self.listeners
            .iter()
            .any(|listener| listener.is_at(host, port))
    }

    /// Whether a URI names this node.
    pub(crate) fn is_our_uri(&self, uri: &Uri<'_>) -> bool {
        let port = uri_port(uri);
        match uri.host {
            Host::Ip(ip) => self.is_ours(SocketAddr::new(ip, port)),
            Host::Name(name) => self.is_us(name, Some(port)),
        }
    }

    /// The name of the listener that a URI names.
    pub(crate) fn advertised_as(&self, uri: &Uri<'_>) -> Option<&str> {
        let port = uri_port(uri);
        let named = |listener: &&Listener| match uri.host {
            Host::Ip(ip) => listener.advertised == Some(SocketAddr::new(ip, port)),
            Host::Name(name) => listener.is_at(name, Some(port)),
        };
        let listener = self.listeners.iter().find(named)?;
        Some(&listener.advertise)
    }

    /// Whether an address is ours, as bound or as advertised.
    pub(crate) fn is_ours(&self, at: SocketAddr) -> bool {
        let is_at = |own: &Listener| own.address == at || own.advertised == Some(at);
        self.listeners.iter().any(is_at)
    }

    pub(crate) fn is_our_address(&self, address: SocketAddr) -> bool {
        self.listeners
            .iter()
            .any(|listener| listener.address == address)
    }

    /// The first route for a request, or what speaks against all.
    pub(crate) fn route(&self, traits: &Traits<'_>) -> Result<&config::Route, NoRoute> {
        let mut routes = self.routes_for(traits).peekable();
        let none = if routes.peek().is_some() {
            NoRoute::Method
        } else {
            NoRoute::Target
        };
        let allowed = routes.find(|route| route.allows(traits.method));
        allowed.ok_or(none)
    }

    /// The pool that a route leads to.
    pub(crate) fn pool_at(&self, route: &config::Route) -> Option<&PoolView> {
        let leads_to = |pool: &&PoolView| pool.is_at(route);
        self.pools.iter().find(leads_to)
    }

    /// The registrar, if a request leads there.
    pub(crate) fn registrar(&self, traits: &Traits<'_>) -> Option<&config::Registrar> {
        let registrar = self.config.registrar.as_ref()?;
        let route = self.route(traits).ok()?;
        (route.to == Destination::Registrar).then_some(registrar)
    }

    /// Whether users prove who they are to the registrar, so that this node can check who sends requests.
    pub(crate) fn knows_users(&self) -> bool {
        let registrar = self.config.registrar.as_ref();
        registrar.is_some_and(|registrar| !registrar.algorithms.is_empty())
    }

    /// Whether a Route leads to where any request may go: to a server of a pool, another edge, a host
    /// that routes name, the registrar's domain, or its Service-Route.
    pub(crate) fn is_open_route(&self, uri: &Uri<'_>) -> bool {
        let names = |listed: &String| is_host(listed, &uri.host);
        let is_service = |registrar: &config::Registrar| {
            let mut routes = registrar.service_route.iter();
            registrar.has(&uri.host)
                || routes.any(|own| Uri::parse(own.as_bytes()).is_ok_and(|own| own.equivalent(uri)))
        };
        uri.address().is_some_and(|address| self.is_inside(address))
            || self.is_our_uri(uri)
            || self.config.registrar.as_ref().is_some_and(is_service)
            || self
                .config
                .routes
                .iter()
                .any(|route| route.hosts.iter().any(names))
    }

    /// The route of a request whose sender must prove who they are.
    pub(crate) fn route_that_asks(&self, traits: &Traits<'_>) -> Option<&config::Route> {
        let route = self.wants_proof.then(|| self.route(traits).ok())??;
        route.auth.then_some(route)
    }

    /// Whether some route adds or removes headers.
    pub(crate) fn edits_headers(&self) -> bool {
        self.edits_headers
    }

    /// How the transaction of a request to or from a server is held: as the first route that
    /// leads there has it, of those that fit the request if any does. `begins`: the request begins
    /// something, so it is judged by more than its method.
    pub(crate) fn mode_of(
        &self,
        traits: &Traits<'_>,
        begins: bool,
        server: Option<ServerId>,
    ) -> Mode {
        if !self.holds_state {
            return Mode::Stateless;
        }
        let member = server.and_then(|server| self.member(server));
        let Some(pool) = member.and_then(|member| self.pool_of(member)) else {
            return Mode::Stateless;
        };
        let fits = |route: &&config::Route| pool.is_at(route) && route.allows(traits.method);
        let all = || self.config.routes.iter();
        let mut routes = self.routes_for(traits).filter(|_| begins);
        let route = routes
            .find(fits)
            .or_else(|| all().find(fits))
            .or_else(|| all().find(|route| pool.is_at(route)));
        route.map_or(Mode::Stateless, |route| route.state)
    }

    /// The methods of the routes for a request, for Allow.
    pub(crate) fn methods(&self, traits: &Traits<'_>) -> String {
        let routes = self.routes_for(traits);
        let mut methods: Vec<&str> = routes
            .flat_map(|route| &route.methods)
            .map(String::as_str)
            .collect();
        methods.sort_unstable();
        methods.dedup();
        methods.join(", ")
    }

    /// The routes for a request, whichever its method.
    fn routes_for(&self, traits: &Traits<'_>) -> impl Iterator<Item = &config::Route> {
        let is_trusted = || self.is_trusted(traits.flow);
        let routes = self.config.routes.iter();
        routes.filter(move |route| route.is_for(traits, is_trusted))
    }

    /// RFC 3261 §17.1.1.1: 64*T1.
    pub(crate) fn transaction_max(&self) -> Duration {
        self.config.timers.t1 * 64
    }
}

fn owner(keys: &Keys, name: &str, listeners: &[Listener]) -> u64 {
    let names: Vec<&str> = listeners.iter().map(|l| l.advertise.as_str()).collect();
    keys.owner(name, &names.join(" "))
}

/// The port that a URI leads to, if it leads to an address.
fn uri_port(uri: &Uri<'_>) -> u16 {
    let default = || transport_of(uri).map_or(5060, Transport::default_port);
    uri.port.unwrap_or_else(default)
}

impl PoolView {
    fn new(config: &config::Pool, members: &[Option<Arc<Member>>]) -> Self {
        let listed =
            |member: &&Arc<Member>| member.pool == config.name && !member.server.is_removed();
        let by_address: BTreeMap<SocketAddr, &Arc<Server>> = members
            .iter()
            .flatten()
            .filter(listed)
            .map(|member| (member.address, &member.server))
            .collect();
        // In the configuration's order, which is the same on every node: hashes count by it.
        let tier = |priority: u16| {
            let is_in = |it: &&config::PoolServer| {
                it.priority == priority && by_address.contains_key(&it.address)
            };
            let listed = || config.servers.iter().filter(is_in);
            let servers = listed().map(|server| Arc::clone(by_address[&server.address]));
            let pool = Pool::new(config.policy, servers.collect(), config.slow_start);
            if listed().all(|server| server.cluster.is_none()) {
                return pool;
            }
            pool.with_clusters(listed().map(|server| server.cluster.as_deref().unwrap_or_default()))
        };
        let mut priorities: Vec<u16> = config.servers.iter().map(|it| it.priority).collect();
        priorities.sort_unstable();
        priorities.dedup();
        let tiers = priorities.into_iter().map(tier).rev();
        let pool = tiers.reduce(|reserve, tier| tier.with_reserve(reserve));
        let pool = pool.unwrap_or_else(|| tier(0));
        let cost = |(method, cost): &(String, f64)| Some((method.clone(), Cost::new(*cost)?));
        let costs: Vec<_> = config.costs.iter().filter_map(cost).collect();
        let invite = costs
            .iter()
            .find(|(method, _)| method == "INVITE")
            .map_or(Cost::ONE, |(_, cost)| *cost);
        Self {
            pool,
            config: config.clone(),
            invite,
            costs,
        }
    }

    fn is_at(&self, route: &config::Route) -> bool {
        matches!(&route.to, Destination::Pool(name) if *name == self.config.name)
    }

    /// Its policy and servers.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Its configuration.
    pub fn config(&self) -> &config::Pool {
        &self.config
    }

    pub(crate) fn cost(&self, method: Method<'_>) -> Cost {
        if method == Method::Invite {
            return self.invite;
        }
        let listed = self
            .costs
            .iter()
            .find(|(listed, _)| listed.as_bytes() == method.as_bytes());
        listed.map_or(Cost::ONE, |(_, cost)| *cost)
    }

    /// The cost of a method by name, as it is known.
    pub(crate) fn known_cost(&self, method: &str) -> f64 {
        let listed = self.costs.iter().find(|(listed, _)| listed == method);
        listed.map_or(Cost::ONE, |(_, cost)| *cost).relative()
    }

    /// Failures in a row that take a server down.
    pub(crate) fn fall(&self) -> u32 {
        self.config.probe.as_ref().map_or(3, |probe| probe.fall)
    }
}

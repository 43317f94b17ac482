//! What a node is told: plain values, already checked by whoever read the file.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

pub use abuse::Rules;
use balance::Policy;
pub use ipnet::IpNet;
use sip::digest::Algorithm;
use transaction::Transport;

/// Everything a node is configured with. Replaced whole, never in part.
#[derive(Clone, Debug)]
pub struct Config {
    /// The node's name, for people.
    pub name: String,
    /// The cluster's secret: keys the affinity tokens. At least 32 bytes.
    pub secret: Secret,
    /// Another secret whose tokens and reports are read, but none are written with it: the one before, or
    /// the one to come.
    pub accepted_secret: Option<Secret>,
    /// Where the node listens. A listener's place in this list is its index.
    pub listeners: Vec<Listener>,
    /// The server pools.
    pub pools: Vec<Pool>,
    /// Who may register here.
    pub registrar: Option<Registrar>,
    /// Where requests go; the first match wins.
    pub routes: Vec<Route>,
    /// What bounds the node's memory and work.
    pub limits: Limits,
    /// What bounds connections.
    pub connections: Connections,
    /// How long the node waits for others.
    pub timers: Timers,
    /// Other edges before the same servers.
    pub exchange: Exchange,
    /// Whom the node believes, and where nobody outside may make it send to.
    pub trust: Trust,
    /// What is taken from strangers.
    pub abuse: Abuse,
}

/// Who outside of the pools is believed, and which addresses users may not name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// Networks of hosts that are believed as the servers of the pools are: media servers, other
    /// proxies, trunks with whom there is a contract. RFC 3325's trust domain.
    pub peers: Vec<IpNet>,
    /// Networks that no contact, Route or Path of a user may lead to.
    pub denied: Vec<IpNet>,
    /// Users whose calls go before others while there is too much: calls to them, and calls from them if a host that
    /// is believed asserts it (RFC 3325). 32 at most, of 1 to 32 bytes each.
    pub urgent: Vec<String>,
    /// In which proportion hosts of networks share what an overloaded node can serve; the first match wins, and all
    /// others have 1.
    pub weights: Vec<(IpNet, u16)>,
}

impl Trust {
    /// Whether a host is a peer.
    pub fn is_peer(&self, ip: IpAddr) -> bool {
        contains(&self.peers, ip)
    }

    /// Whether no user may lead the node to a host.
    pub fn is_denied(&self, ip: IpAddr) -> bool {
        contains(&self.denied, ip)
    }

    /// A host's part of what an overloaded node can serve, relative to the others'.
    pub fn weight_of(&self, ip: IpAddr) -> u16 {
        let ip = ip.to_canonical();
        let mut weights = self.weights.iter();
        let found = weights.find(|(network, _)| network.contains(&ip));
        found.map_or(1, |(_, weight)| *weight)
    }
}

/// IPv4 addresses of a listener for both families come as IPv6 ones: RFC 4291 §2.5.5.2.
fn contains(networks: &[IpNet], ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    networks.iter().any(|network| network.contains(&ip))
}

/// Bytes that nobody else may know; not even a log.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl From<Vec<u8>> for Secret {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl AsRef<[u8]> for Secret {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Where the node listens, and the name it goes by in Via and Record-Route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// What carries its messages.
    pub transport: Transport,
    /// The address to bind.
    pub address: SocketAddr,
    /// `host` or `host:port` as others reach it.
    pub advertise: String,
}

/// Servers that can stand in for each other, and how calls are placed on them.
#[derive(Clone, Debug)]
pub struct Pool {
    /// The name that routes use.
    pub name: String,
    /// How a server is chosen.
    pub policy: Policy,
    /// Cost of a transaction by method; every other method costs 1.
    pub costs: Vec<(String, f64)>,
    /// Whether costs and the servers' speeds are learned from live traffic; `costs` and capacities
    /// are what is known at first.
    pub learn_costs: bool,
    /// The servers.
    pub servers: Vec<PoolServer>,
    /// How servers are probed; none: they are judged by live traffic alone.
    pub probe: Option<Probe>,
    /// A server that comes (back) works up to its full share in this time.
    pub slow_start: Duration,
    /// An INVITE that got no answer for this long goes to another server.
    pub answer_timeout: Duration,
    /// Whether the servers are asked to tell how much to send them. Some parsers choke on it. RFC 7339
    pub overload_control: bool,
    /// Whether it is learned from the servers' answers how many requests may wait there. What is too much for all of them
    /// is refused at once.
    pub learn_room: bool,
}

/// One server of a pool.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolServer {
    /// What carries messages there. An address has one transport in all pools.
    pub transport: Transport,
    /// Where it listens.
    pub address: SocketAddr,
    /// What it is called, so that its certificate can be checked.
    pub host: Option<Arc<str>>,
    /// Its share relative to the others.
    pub capacity: f64,
    /// The cluster that it is of, whose servers alone have its users' bindings. None: one with all others that
    /// have none.
    pub cluster: Option<Arc<str>>,
    /// It gets new calls only if no server of a lower number may get them. RFC 2782
    pub priority: u16,
}

/// OPTIONS probes of a pool's servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Time between two probes of one server.
    pub interval: Duration,
    /// A probe without an answer for this long has failed.
    pub timeout: Duration,
    /// Failures in a row after which a server is down.
    pub fall: u32,
    /// Successes in a row after which it is up again.
    pub rise: u32,
}

/// The registrar of some domains: RFC 3261 §10.3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registrar {
    /// The domains, in lower case.
    pub domains: Vec<String>,
    /// How long a binding lasts at least. A shorter wish is refused: 423.
    pub expires_min: Duration,
    /// How long it lasts when its user says nothing.
    pub expires_default: Duration,
    /// How long it lasts at most. A longer wish is granted this.
    pub expires_max: Duration,
    /// Bindings that a user may have.
    pub contacts_max: usize,
    /// What becomes of one more.
    pub when_full: WhenFull,
    /// By which hashes users prove who they are, the preferred first. Empty: anybody may be anybody.
    pub algorithms: Vec<Algorithm>,
    /// URIs of the proxies that users shall send their requests through: RFC 3608.
    pub service_route: Vec<String>,
    /// Whether a binding goes whose flow is found dead. RFC 5626 §7
    pub removes_dead: bool,
    /// How bindings are kept alive; none: phones do that themselves.
    pub keep_alive: Option<KeepAlive>,
}

/// Keep-alives to bindings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// What is sent.
    pub method: KeepAliveMethod,
    /// Time between two of them to a binding; a tenth more or less.
    pub interval: Duration,
    /// Without an answer to so many in a row, the flow is dead.
    pub fall: u32,
}

/// What is sent to keep a binding alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepAliveMethod {
    /// A request, which the phone answers; through its edge, too.
    Options,
    /// Empty lines, which only keep a NAT open; to phones without another proxy between.
    Crlf,
}

/// What becomes of a contact when its user has as many as a user may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// It is refused: 403.
    Refuse,
    /// The binding that was refreshed longest ago goes for it.
    ReplaceOldest,
}

/// A rule that says where requests go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Senders it applies to; empty: all.
    pub from: Vec<Source>,
    /// Listeners it applies to, by index; empty: all.
    pub listeners: Vec<u8>,
    /// Methods it applies to; empty: all.
    pub methods: Vec<String>,
    /// Hosts of the Request-URI it applies to; empty: all.
    pub hosts: Vec<String>,
    /// What the user of the Request-URI, or the number of a `tel` URI, begins with, escapes undone; empty:
    /// anything.
    pub users: Vec<String>,
    /// Where they go.
    pub to: Destination,
    /// Whether the node remembers them until they are answered.
    pub state: Mode,
    /// Whether those who begin something must be users of the [`Registrar`], unless they are believed.
    /// RFC 3261 §22.3
    pub auth: bool,
    /// Headers that requests which begin something lose on this route, by name.
    pub remove: Vec<String>,
    /// Headers that they get, name and value.
    pub add: Vec<(String, String)>,
}

impl Route {
    /// A route that every request may take.
    pub fn of_all(to: Destination, state: Mode) -> Self {
        Self {
            from: Vec::new(),
            listeners: Vec::new(),
            methods: Vec::new(),
            hosts: Vec::new(),
            users: Vec::new(),
            to,
            state,
            auth: false,
            remove: Vec::new(),
            add: Vec::new(),
        }
    }

    pub(crate) fn edits_headers(&self) -> bool {
        !self.remove.is_empty() || !self.add.is_empty()
    }
}

/// Who sends requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Hosts of a network.
    Network(IpNet),
    /// Those who are believed: servers of the pools, [`Trust::peers`] and other edges.
    Peers,
}

impl Source {
    /// Whether it includes a sender; `is_trusted` says whether that is believed.
    pub(crate) fn has(&self, ip: IpAddr, is_trusted: impl FnOnce() -> bool) -> bool {
        match self {
            Self::Network(network) => network.contains(&ip.to_canonical()),
            Self::Peers => is_trusted(),
        }
    }
}

/// Where a route leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// To a server of the pool of this name.
    Pool(String),
    /// A REGISTER to the registrar, any other to where the user of the Request-URI is. The node is
    /// stateful for that, and asks [`Question`](crate::Question)s.
    Registrar,
}

/// What a proxy remembers: RFC 3261 §16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// No transactions: what comes is passed on. RFC 3261 §16.11
    Stateless,
    /// Transactions, so that it repeats what is lost, tries other targets and chooses an answer.
    Stateful,
    /// Transactions of those requests that no node before has, as far as the worker has time for them; the
    /// others are left to the nodes behind that have told of room.
    Dynamic,
}

/// Bounds; each has a counter and a defined answer when reached. Where messages are kept, a number of
/// them bounds their bytes, too: 4096 for each on average. All are fixed when the node starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Sessions a node holds, open and expired. Full: the oldest expired one goes; none left: 503.
    pub sessions: usize,
    /// Transactions a node holds open. Full: 503.
    pub transactions: usize,
    /// Transactions of stateful routes, those that are over and linger for 64*T1 included. Full:
    /// 503.
    pub held_transactions: usize,
    /// REGISTERs that wait for the store, and as many requests whose senders must be known. Full: 503.
    pub registrations: usize,
    /// INVITEs kept until their final response, so that they can be sent elsewhere, or answered when
    /// they have rung in vain. Full: not kept.
    pub retained_requests: usize,
    /// Bytes of a message. Longer: 513.
    pub message_bytes: usize,
    /// Header fields of a message. More: a request gets 400 if the first of them make an answer; all else is
    /// dropped.
    pub headers: usize,
    /// Messages that wait for another worker. Half full: strangers' are dropped. Full: all are.
    pub handover_queue: usize,
    /// Strangers who are followed, and as many failed logins and known sources. Full: who did least is
    /// forgotten.
    pub strangers: usize,
}

/// What a message that is kept may take of the memory for all of them. Shorter ones leave their rest to
/// longer ones.
const SHARE_BYTES: usize = 4096;

/// The bytes that so many messages of up to `message_bytes` may take together.
pub(crate) fn bytes_of(messages: usize, message_bytes: usize) -> usize {
    let shares = messages.saturating_mul(SHARE_BYTES);
    shares.saturating_add(message_bytes)
}

/// Edges that tell each other what they have open, so that each sees the whole load of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The others' listeners. Empty: the node is alone.
    pub peers: Vec<SocketAddr>,
    /// Time between two reports. A peer that is silent five times as long counts no more.
    pub interval: Duration,
}

impl Default for Exchange {
    /// A node that is alone.
    fn default() -> Self {
        Self {
            peers: Vec::new(),
            interval: Duration::from_millis(100),
        }
    }
}

/// What is taken from strangers: who is neither a server, nor another edge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Abuse {
    /// What a source may cost, and how many failed logins it may have.
    pub rules: Rules,
    /// Requests are dropped whose User-Agent or From begins with one of these words, in any case.
    pub scanners: Vec<String>,
}

/// Durations that RFC 3261 or the operator sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timers {
    /// RFC 3261 §17.1.1.1: the round-trip estimate; 64*T1 bounds a transaction and an expired session.
    pub t1: Duration,
    /// RFC 3261 §16.6 step 11: how long an INVITE may ring.
    pub timer_c: Duration,
    /// The longest a call is counted without a sign of life, when nothing better is known.
    pub call_max: Duration,
    /// How long a stopping node waits for its open transactions.
    pub drain: Duration,
}

/// What bounds connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connections {
    /// The most of them, of peers and of ours. A sixteenth is for ours and for known hosts: while that alone is left,
    /// strangers' are closed. Full: peers wait in the kernel's queue, and none is opened. Fixed when the node starts.
    pub total: usize,
    /// The most that one source may open: an IPv4 address, or an IPv6 network of 64 bits. More are closed. Each worker
    /// takes its part of them, and a quarter of that as the kernel divides them by chance; 16 at least.
    pub per_source: usize,
    /// Strangers that have not ended their handshake at most, as many known hosts again, and as many connections that
    /// this node is opening. Full: peers wait in the kernel's queue. A source may have a quarter of those that are free,
    /// and a 128th of all at least.
    pub handshakes: usize,
    /// Connections that each worker keeps open to each server that takes any, before there is something to send.
    pub per_server: usize,
    /// How long a connection may take to open, handshakes included.
    pub handshake: Duration,
    /// How long a message may take from its first byte to its last.
    pub message: Duration,
    /// How long a connection may carry nothing.
    pub idle: Duration,
    /// Bytes that wait on one connection for its peer to read them. More: it is closed.
    pub queue_bytes: usize,
    /// Memory of all that waits on connections, and of incomplete messages. More: the connection that keeps most
    /// is closed.
    pub total_bytes: usize,
    /// How long phones with several flows may be silent on one, as they are told. None: they choose by
    /// RFC 5626 §4.4.1.
    pub flow_timer: Option<Duration>,
    /// Whether requests that are too long for a datagram go by TCP to servers that are reached by UDP, as long as
    /// they take that. RFC 3261 §18.1.1
    pub large_by_tcp: bool,
}

impl Default for Connections {
    fn default() -> Self {
        Self {
            total: 65_536,
            per_source: 1_024,
            handshakes: 8_192,
            per_server: 1,
            handshake: Duration::from_secs(5),
            message: Duration::from_secs(10),
            // More than the two minutes for which RFC 5626 §4.4.1 lets a phone be silent, and a NAT remember.
            idle: Duration::from_secs(900),
            queue_bytes: 1 << 20,
            total_bytes: 256 << 20,
            flow_timer: None,
            large_by_tcp: false,
        }
    }
}

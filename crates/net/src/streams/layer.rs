//! What stands between the bytes of connections and SIP, by listener.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use node::{Transport, config::IpNet};
use wire::Wire;

/// How the connections of each listener are secured. A reload replaces it whole.
#[derive(Clone, Debug, Default)]
pub struct Security {
    listeners: Vec<Bound>,
}

/// One listener's connections.
#[derive(Clone, Debug)]
pub struct Bound {
    /// What carries messages in them.
    pub transport: Transport,
    /// What those that this node opens are bound to.
    pub address: SocketAddr,
    /// Takes handshakes, on listeners that are secure.
    pub server: Option<tls::Server>,
    /// Begins handshakes, on listeners that are secure.
    pub client: Option<tls::Client>,
    /// Balancers before this node, which tell their clients' addresses by the PROXY protocol.
    pub balancers: Vec<IpNet>,
}

impl Security {
    /// The connections of each listener, in their order.
    #[must_use]
    pub fn new(listeners: Vec<Bound>) -> Self {
        Self { listeners }
    }

    /// When the first certificate of each secure listener ends: the time since 1970, by listener.
    #[must_use]
    pub fn certificates_end(&self) -> Vec<(usize, Duration)> {
        let listeners = self.listeners.iter().enumerate();
        let end =
            |(index, bound): (usize, &Bound)| Some((index, bound.server.as_ref()?.not_after()));
        listeners.filter_map(end).collect()
    }

    /// What the node shows to servers that ask for a certificate.
    #[must_use]
    pub fn client_identity(&self) -> Option<&tls::Identity> {
        let mut clients = self.listeners.iter().filter_map(|it| it.client.as_ref());
        clients.find_map(tls::Client::identity)
    }

    /// The connections of each listener, in their order.
    #[must_use]
    pub fn listeners(&self) -> &[Bound] {
        &self.listeners
    }

    pub(super) fn listener(&self, index: u8) -> Option<&Bound> {
        self.listeners.get(usize::from(index))
    }
}

impl Bound {
    /// Whether peers' connections open later than they are accepted.
    pub(super) fn has_handshake(&self) -> bool {
        self.transport != Transport::Tcp || !self.balancers.is_empty()
    }

    /// The layer of a connection that this peer has opened.
    pub(super) fn accepted(&self, by: IpAddr, message_bytes: usize) -> Option<Wire> {
        let by = by.to_canonical();
        let is_proxied = self.balancers.iter().any(|network| network.contains(&by));
        wire::accept(
            self.transport,
            self.server.as_ref(),
            is_proxied,
            message_bytes,
        )
        .ok()
    }

    /// The layer of a connection that is opened to a peer, which has this name.
    pub(super) fn opened(
        &self,
        to: IpAddr,
        name: Option<&str>,
        message_bytes: usize,
    ) -> Option<Wire> {
        let name = name.map_or_else(|| to.to_string(), str::to_owned);
        wire::connect(self.transport, self.client.as_ref(), &name, message_bytes).ok()
    }
}

//! Connections that peers have opened, and that lead to where these peers listen, too. RFC 5923

use std::{
    net::SocketAddr,
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use node::{ConnectionId, Flow, Shared, Transport};
use sip::{Message, Param};
use stream::Connections;
use wire::Wire;

/// Of the request that may ask for it, so much is read.
const HEADERS_MAX: usize = 256;

/// Those of all workers. Only known peers have one, and each counts as a connection, so the limits of these hold.
#[derive(Debug, Default)]
pub(crate) struct Aliases {
    flows: RwLock<Vec<Flow>>,
    /// How many there are: without one, nobody takes the lock.
    count: AtomicUsize,
}

/// Whether a connection leads to where its peer listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alias {
    /// Its peer has not proved who it is, or does not ask for it.
    No,
    /// Its peer has shown a certificate: the next request tells.
    Possible,
    /// It does.
    Yes,
}

impl Aliases {
    /// The flow over a connection that leads to where another flow does.
    pub(super) fn find(&self, flow: Flow) -> Option<Flow> {
        if self.count.load(Relaxed) == 0 || flow.transport != Transport::Tls {
            return None;
        }
        let flows = self.flows.read().unwrap_or_else(PoisonError::into_inner);
        let mut flows = flows.iter();
        flows.find(|alias| alias.remote == flow.remote).copied()
    }

    pub(super) fn insert(&self, flow: Flow) {
        let mut flows = self.flows.write().unwrap_or_else(PoisonError::into_inner);
        flows.push(flow);
        self.count.store(flows.len(), Relaxed);
    }

    pub(super) fn remove(&self, id: ConnectionId) {
        let mut flows = self.flows.write().unwrap_or_else(PoisonError::into_inner);
        flows.retain(|alias| alias.connection != Some(id));
        self.count.store(flows.len(), Relaxed);
    }
}

/// The port at which the sender of a request listens, if it takes requests on the connection that this one came by.
/// None: it is no request, and tells nothing.
pub(super) fn port_of(bytes: &[u8]) -> Option<Option<u16>> {
    let message = Message::parse(bytes, HEADERS_MAX).ok()?;
    message.start_line().method()?;
    let via = message.top_via().ok()?;
    let is_alias = via.param(&message, b"alias") != Param::Absent;
    let port = via.port.unwrap_or(Transport::Tls.default_port());
    Some(is_alias.then_some(port))
}

/// Whether a connection's peer has shown a certificate. RFC 5923 §9.2
pub(super) fn has_proof(connections: &Connections<Wire>, id: ConnectionId) -> bool {
    let is_tls = |flow: Flow| flow.transport == Transport::Tls;
    connections.is_of_peer(id)
        && connections.flow(id).is_some_and(is_tls)
        && session(connections, id).is_some_and(|session| session.peer().is_some())
}

/// Whether its certificate has the name by which requests are sent to an address. RFC 5923 §8.2
pub(super) fn proves(
    connections: &Connections<Wire>,
    id: ConnectionId,
    shared: &Shared,
    address: SocketAddr,
) -> bool {
    let name = shared.name_at(address);
    let name = name.map_or_else(|| address.ip().to_string(), |name| name.to_string());
    let peer = session(connections, id).and_then(tls::Session::peer);
    peer.is_some_and(|names| names.prove(&name))
}

fn session(connections: &Connections<Wire>, id: ConnectionId) -> Option<&tls::Session> {
    connections.layer(id)?.session()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_topmost_via_says_where_its_sender_listens() {
        for (first_line, sent_by, port) in [
            (
                "OPTIONS sip:a SIP/2.0",
                "p1.example.com;alias",
                Some(Some(5061)),
            ),
            (
                "OPTIONS sip:a SIP/2.0",
                "p1.example.com:5071;ALIAS;branch=z9hG4bK1",
                Some(Some(5071)),
            ),
            (
                "OPTIONS sip:a SIP/2.0",
                "p1.example.com;branch=z9hG4bKalias",
                Some(None),
            ),
            ("OPTIONS sip:a SIP/2.0", "", None),
            ("SIP/2.0 200 OK", "p1.example.com;alias", None),
        ] {
            let message = format!(
                "{first_line}\r\nVia: SIP/2.0/TLS {sent_by}\r\nVia: SIP/2.0/TLS p2.example.com;alias\r\n\
                 Call-ID: 1\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n"
            );
            assert_eq!(port_of(message.as_bytes()), port, "{message}");
        }
    }
}

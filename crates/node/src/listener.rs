//! Where the node is heard.

use std::net::{IpAddr, SocketAddr};

use transaction::Transport;

use crate::config;

/// A listener, ready to be compared with names and addresses.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) transport: Transport,
    /// As in Via's sent-by and Record-Route.
    pub(crate) advertise: String,
    pub(crate) host: String,
    port: u16,
    pub(crate) address: SocketAddr,
    /// What it is advertised as, unless that is a name.
    pub(crate) advertised: Option<SocketAddr>,
}

impl Listener {
    pub(crate) fn new(config: &config::Listener) -> Self {
        let advertise = config.advertise.clone();
        let default_port = config.transport.default_port();
        let colon = advertise
            .rfind(':')
            .filter(|&colon| !advertise[colon..].contains(']'));
        let (host, port) = match colon {
            Some(colon) => (
                &advertise[..colon],
                advertise[colon + 1..].parse().unwrap_or(default_port),
            ),
            None => (advertise.as_str(), default_port),
        };
        let ip: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
        Self {
            transport: config.transport,
            advertised: ip.map(|ip| SocketAddr::new(ip, port)),
            host: host.to_owned(),
            port,
            address: config.address,
            advertise,
        }
    }

    /// Appends the rest of a Record-Route or Path URI that leads here, without its bracket. RFC 3261 §16.6 item 4
    pub(crate) fn write_at(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.advertise.as_bytes());
        if let Some(name) = self.transport.in_uri() {
            out.extend_from_slice(b";transport=");
            out.extend_from_slice(name.as_bytes());
        }
        out.extend_from_slice(b";lr");
    }

    /// Whether this is its name in Via or in a URI.
    pub(crate) fn is_at(&self, host: &[u8], port: Option<u16>) -> bool {
        let own = self.host.as_bytes();
        self.port == port.unwrap_or_else(|| self.transport.default_port())
            && (own == host || own.eq_ignore_ascii_case(host))
    }
}

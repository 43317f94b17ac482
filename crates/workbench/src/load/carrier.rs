//! What carries the messages of calls and registrations.

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use clap::Args;
use load::{Retransmission, Transport};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket::udp::Socket;
use tls::{Client, Clients, Identity, Naming, Server, Trust};
use traffic::{At, Endpoint, Streams, To};

use super::{Refusal, sockets, values};

/// Descriptors besides those of connections.
const DESCRIPTORS_BESIDES: u64 = 64;

#[derive(Args)]
pub(super) struct Carrier {
    /// What carries messages: udp, tcp, tls, ws or wss
    #[arg(long, value_name = "TRANSPORT", default_value = "udp", value_parser = values::transport)]
    pub(super) transport: Transport,
    /// Number of connections, unless over UDP
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    connections: Option<u32>,
    /// The name that the certificate of --to must have [default: the address of --to]
    #[arg(long, value_name = "NAME")]
    server_name: Option<String>,
    /// A PEM file of authorities whose certificates are believed [default: those of the system]
    #[arg(long, value_name = "FILE")]
    authorities: Option<PathBuf>,
}

/// What carries messages to emulated servers.
#[derive(Args)]
pub(super) struct CarrierOfServers {
    /// What carries messages: udp, tcp, tls, ws or wss
    #[arg(long, value_name = "TRANSPORT", default_value = "udp", value_parser = values::transport)]
    transport: Transport,
    /// A PEM file with the servers' certificate; over tls and wss
    #[arg(long, value_name = "FILE", requires = "key")]
    chain: Option<PathBuf>,
    /// A PEM file with the certificate's private key
    #[arg(long, value_name = "FILE", requires = "chain")]
    key: Option<PathBuf>,
}

impl CarrierOfServers {
    /// Opens the ends of this many servers at consecutive ports.
    pub(super) fn ends(&self, first: SocketAddr, servers: u16) -> Result<Vec<Ends>, Refusal> {
        let addresses = sockets::consecutive(first, servers)?;
        let refuse = |at: SocketAddr| move |error| Refusal::Arguments(format!("{at}: {error}"));
        if !self.transport.is_stream() {
            let bind = |at: SocketAddr| Ok(vec![traffic::bind(at).map_err(refuse(at))?].into());
            return addresses.into_iter().map(bind).collect();
        }
        allow_most_descriptors();
        let server = self.transport.is_secure().then(|| self.server());
        let server = server.transpose()?;
        let listen = |address: SocketAddr| {
            let (transport, server) = (self.transport, server.clone());
            let streams = Streams::listen(At {
                transport,
                address,
                server,
            });
            Ok(Ends::Streams(Box::new(streams.map_err(refuse(address))?)))
        };
        addresses.into_iter().map(listen).collect()
    }

    fn server(&self) -> Result<Server, Refusal> {
        let (Some(chain), Some(key)) = (&self.chain, &self.key) else {
            let message = "a secure transport needs --chain and --key".to_owned();
            return Err(Refusal::Arguments(message));
        };
        let refuse = |error: tls::Error| Refusal::Arguments(error.to_string());
        let identity = Identity::load(chain, key).map_err(refuse)?;
        // Nobody else opens its tickets.
        let secret = [socket::seed(), socket::seed()]
            .map(u64::to_be_bytes)
            .concat();
        let wall = Arc::new(socket::wall);
        Server::new(&[identity], &Clients::Any, &secret, wall).map_err(refuse)
    }
}

/// Sockets for datagrams, or connections.
pub(super) enum Ends {
    Sockets(Vec<Socket>),
    Streams(Box<Streams>),
}

impl Carrier {
    /// Opens the ends of the load: `ports` sockets at each address, or connections.
    pub(super) fn ends(
        &self,
        from: &[SocketAddr],
        ports: u16,
        to: SocketAddr,
        connections: u32,
    ) -> Result<Ends, Refusal> {
        if !self.transport.is_stream() {
            return Ok(Ends::Sockets(sockets::bind(from, ports)?));
        }
        let connections = self.connections.unwrap_or(connections) as usize;
        allow_descriptors(connections as u64)?;
        let to = To {
            transport: self.transport,
            address: to,
            name: self
                .server_name
                .clone()
                .unwrap_or_else(|| to.ip().to_string()),
            client: self
                .transport
                .is_secure()
                .then(|| self.client())
                .transpose()?,
        };
        let from: Vec<_> = from.iter().copied().cycle().take(connections).collect();
        let streams = Streams::new(&from, to);
        let streams = streams
            .map_err(|error| Refusal::Arguments(format!("{connections} connections: {error}")))?;
        Ok(Ends::Streams(Box::new(streams)))
    }

    /// What is lost is sent again, unless nothing gets lost.
    pub(super) fn retransmission(&self, wanted: Retransmission) -> Retransmission {
        match wanted {
            Retransmission::Rfc3261 if self.transport.is_stream() => Retransmission::Never,
            wanted => wanted,
        }
    }

    fn client(&self) -> Result<Client, Refusal> {
        let refuse = |error: tls::Error| Refusal::Arguments(error.to_string());
        let trust = match &self.authorities {
            Some(file) => Trust::of_file(file),
            None => Trust::of_system(),
        };
        let trust = trust.map_err(refuse)?;
        Client::new(&trust, Naming::Web, None, Arc::new(socket::wall)).map_err(refuse)
    }
}

impl Ends {
    pub(super) fn addresses(&self) -> Vec<SocketAddr> {
        match self {
            Self::Sockets(sockets) => sockets.iter().map(Socket::local_addr).collect(),
            Self::Streams(streams) => streams.addresses(),
        }
    }

    pub(super) fn endpoint<A: traffic::Agent>(self, agent: A) -> Endpoint<A> {
        match self {
            Self::Sockets(sockets) => Endpoint::new(agent, sockets),
            Self::Streams(streams) => Endpoint::on_streams(agent, *streams),
        }
    }
}

impl From<Vec<Socket>> for Ends {
    fn from(sockets: Vec<Socket>) -> Self {
        Self::Sockets(sockets)
    }
}

/// Lets the process have descriptors for so many connections.
fn allow_descriptors(connections: u64) -> Result<(), Refusal> {
    let needed = connections + DESCRIPTORS_BESIDES;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if maximum.is_some_and(|maximum| maximum < needed) {
        return Err(Refusal::Arguments(format!(
            "{connections} connections need {needed} descriptors, and the system allows {}: raise `ulimit -n`",
            maximum.unwrap_or(0)
        )));
    }
    let raised = Rlimit {
        current: Some(needed),
        maximum,
    };
    setrlimit(Resource::Nofile, raised).map_err(|error| Refusal::System(error.into()))
}

/// Lets the process have as many descriptors as it may.
fn allow_most_descriptors() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    // With fewer, peers wait.
    let _ = setrlimit(Resource::Nofile, raised);
}

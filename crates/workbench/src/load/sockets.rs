//! Opens the sockets for calls, registrations and servers.

use std::net::{SocketAddr, UdpSocket};

use socket::udp::Socket;

use super::Refusal;

/// Opens `ports` sockets at each of these addresses: at consecutive ports, or at free ones if the
/// address has no port.
pub(super) fn bind(addresses: &[SocketAddr], ports: u16) -> Result<Vec<Socket>, Refusal> {
    let mut sockets = Vec::new();
    for &address in addresses {
        for address in consecutive(address, ports)? {
            let socket = traffic::bind(address)
                .map_err(|error| Refusal::Arguments(format!("{address}: {error}")))?;
            sockets.push(socket);
        }
    }
    Ok(sockets)
}

/// So many addresses at consecutive ports from one on, or without ports if it has none.
pub(super) fn consecutive(first: SocketAddr, ports: u16) -> Result<Vec<SocketAddr>, Refusal> {
    let at = |place: u16| {
        let port = match first.port() {
            0 => Some(0),
            port => port.checked_add(place),
        };
        let port = port.ok_or_else(|| {
            Refusal::Arguments(format!(
                "{first}: there are fewer than {ports} ports from this one on: choose a lower port"
            ))
        })?;
        Ok(SocketAddr::new(first.ip(), port))
    };
    (0..ports).map(at).collect()
}

/// The address of this machine that reaches `to`, without a port.
pub(super) fn local(to: SocketAddr) -> Result<SocketAddr, Refusal> {
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let route = || {
        let socket = UdpSocket::bind(any)?;
        socket.connect(to)?;
        socket.local_addr()
    };
    let local = route().map_err(|error| Refusal::Arguments(format!("{to}: {error}")))?;
    Ok(SocketAddr::new(local.ip(), 0))
}

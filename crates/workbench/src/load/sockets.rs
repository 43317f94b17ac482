//! Opens the sockets for calls, registrations and servers.

use std::net::{SocketAddr, UdpSocket};

use socket::udp::Socket;

use super::Refusal;

/// Opens `ports` sockets at each of these addresses: at consecutive ports, or at free ones if the
/// address has no port.
pub(super) fn bind(addresses: &[SocketAddr], ports: u16) -> Result<Vec<Socket>, Refusal> {
    let mut sockets = Vec::new();
    for address in addresses {
        for place in 0..ports {
            let port = match address.port() {
                0 => Some(0),
                port => port.checked_add(place),
            };
            let port = port.ok_or_else(|| {
                Refusal::Arguments(format!(
                    "{address}: there are fewer than {ports} ports from this one on: choose a \
                     lower port"
                ))
            })?;
            let address = SocketAddr::new(address.ip(), port);
            let socket = traffic::bind(address)
                .map_err(|error| Refusal::Arguments(format!("{address}: {error}")))?;
            sockets.push(socket);
        }
    }
    Ok(sockets)
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

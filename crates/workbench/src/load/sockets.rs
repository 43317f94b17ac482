//! The sockets to call, register or serve from.

use std::net::{SocketAddr, UdpSocket};

use socket::udp::Socket;

use super::Refusal;

/// Sockets at each of these addresses, `ports` each: at consecutive ports, or at free ones where
/// the address has none.
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
                    "{address}: there are no {ports} ports from there on"
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

/// The address of this machine from which `to` is reached, without a port.
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

//! Binds the listeners of a node.

use std::{net::SocketAddr, os::fd::OwnedFd};

use node::{Transport, config::Listener};
use socket::{tcp, udp::Socket};

use crate::{options::udp_options, workers::StartError};

/// What all workers are bound to.
#[derive(Default)]
pub(crate) struct Sockets {
    /// Of each worker: its UDP sockets, and the listeners that they are of.
    pub(crate) seats: Vec<(Vec<u8>, Vec<Socket>)>,
    /// Of each worker: its listeners of streams, with their numbers.
    pub(crate) listeners: Vec<Vec<(u8, tcp::Listener)>>,
    /// The addresses, by listener.
    pub(crate) addresses: Vec<SocketAddr>,
}

/// Binds each listener once for each worker, or takes over UDP sockets that another process left.
///
/// # Errors
/// All listeners that can't be bound.
pub(crate) fn sockets(
    listeners: &[Listener],
    workers: usize,
    mut inherited: Vec<(SocketAddr, OwnedFd)>,
) -> Result<Sockets, StartError> {
    let mut sockets = Sockets::default();
    sockets.seats.resize_with(workers, Default::default);
    sockets.listeners.resize_with(workers, Vec::new);
    let mut errors = Vec::new();
    for (index, listener) in listeners.iter().enumerate() {
        let bound = match listener.transport {
            Transport::Udp => {
                let left = inherited.extract_if(.., |(address, _)| *address == listener.address);
                let left = left.map(|(_, fd)| fd).collect();
                sockets.bind_udp(index as u8, listener.address, left)
            }
            _ => sockets.bind_stream(index as u8, listener.address),
        };
        match bound {
            Ok(address) => sockets.addresses.push(address),
            Err(error) => errors.push((index, error)),
        }
    }
    if errors.is_empty() {
        Ok(sockets)
    } else {
        Err(StartError::Listeners(errors))
    }
}

impl Sockets {
    fn bind_udp(
        &mut self,
        index: u8,
        address: SocketAddr,
        left: Vec<OwnedFd>,
    ) -> std::io::Result<SocketAddr> {
        let options = udp_options();
        let group = match left.is_empty() {
            true => Socket::bind_group(address, self.seats.len(), options)?,
            false => Socket::adopt_group(left, self.seats.len(), options)?,
        };
        let address = group[0].local_addr();
        for ((listeners, own), socket) in self.seats.iter_mut().zip(group) {
            listeners.push(index);
            own.push(socket);
        }
        Ok(address)
    }

    fn bind_stream(&mut self, index: u8, address: SocketAddr) -> std::io::Result<SocketAddr> {
        let group = tcp::Listener::bind_group(address, self.listeners.len())?;
        let address = group[0].local_addr();
        for (own, listener) in self.listeners.iter_mut().zip(group) {
            own.push((index, listener));
        }
        Ok(address)
    }
}

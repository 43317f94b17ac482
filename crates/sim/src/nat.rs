//! A NAT between a party and the rest.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use fastrand::Rng;

/// Gives each socket of a party a port of its own at one public address, the same towards everybody
/// (RFC 4787 §4.1, REQ-1).
#[derive(Clone, Debug)]
pub struct Nat {
    ip: IpAddr,
    /// A mapping on which nothing was sent for so long is dropped.
    idle_max: Duration,
    rng: Rng,
    next_port: u16,
    /// By socket.
    mappings: Vec<Option<Mapping>>,
}

#[derive(Clone, Copy, Debug)]
struct Mapping {
    port: u16,
    /// When something was sent on it last: what comes in keeps nothing alive (RFC 4787 §4.3).
    sent: Duration,
}

impl Nat {
    /// A NAT without mappings at a public address; `rng` draws the ports.
    #[must_use]
    pub fn new(ip: IpAddr, idle_max: Duration, rng: Rng) -> Self {
        Self {
            ip,
            idle_max,
            rng,
            next_port: 20_000,
            mappings: Vec::new(),
        }
    }

    /// Its public address.
    #[must_use]
    pub fn ip(&self) -> IpAddr {
        self.ip
    }

    /// Forgets all mappings, as after a restart: what is sent next gets other ports.
    pub fn rebind(&mut self) {
        self.mappings.clear();
    }

    /// The source of what a socket sends, as others see it.
    pub(crate) fn outwards(&mut self, now: Duration, socket: usize) -> SocketAddr {
        if self.mappings.len() <= socket {
            self.mappings.resize(socket + 1, None);
        }
        let known = self.mappings[socket].filter(|mapping| self.is_alive(now, mapping));
        let port = known.map_or_else(|| self.draw_port(), |mapping| mapping.port);
        self.mappings[socket] = Some(Mapping { port, sent: now });
        SocketAddr::new(self.ip, port)
    }

    /// The socket that gets what is sent to a public port.
    pub(crate) fn inwards(&self, now: Duration, to: SocketAddr) -> Option<usize> {
        let leads_here = |mapping: &Option<Mapping>| {
            mapping.is_some_and(|it| it.port == to.port() && self.is_alive(now, &it))
        };
        (to.ip() == self.ip).then(|| self.mappings.iter().position(leads_here))?
    }

    fn is_alive(&self, now: Duration, mapping: &Mapping) -> bool {
        now < mapping.sent + self.idle_max
    }

    /// No port comes again soon.
    fn draw_port(&mut self) -> u16 {
        let port = self.next_port;
        let next = port.wrapping_add(self.rng.u16(1..40));
        self.next_port = if next < port { 20_000 } else { next };
        port
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_lasts_until_it_is_silent_or_forgotten() {
        let s = Duration::from_secs;
        let ip = IpAddr::from([203, 0, 113, 1]);
        let mut nat = Nat::new(ip, s(30), Rng::with_seed(1));
        let first = nat.outwards(s(0), 3);
        assert_eq!(nat.outwards(s(20), 3), first);
        assert_eq!(nat.inwards(s(49), first), Some(3));
        assert_eq!(nat.inwards(s(50), first), None);
        let second = nat.outwards(s(60), 3);
        assert_ne!(second, first);
        nat.rebind();
        assert_eq!(nat.inwards(s(60), second), None);
        assert_ne!(nat.outwards(s(60), 3), second);
    }
}

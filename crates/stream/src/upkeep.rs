//! Connections that are open to some peers before there is anything to send.

use std::{collections::BTreeMap, hash::BuildHasher, net::SocketAddr, time::Duration};

use transaction::{Flow, Transport};

use crate::{Layer, index::Keyed};

/// The time between the first two attempts to open one; it doubles with each that fails.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// The longest time between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Of a pause, up to this part is left out by chance: so not all nodes come back to a server at once.
const JITTER_PART: u64 = 4;

type Key = (SocketAddr, Transport, u8);

/// The peers to which connections are kept open, and when each is tried next.
#[derive(Debug)]
pub struct Upkeep {
    peers: BTreeMap<Key, Peer>,
    keyed: Keyed,
}

#[derive(Clone, Copy, Debug)]
struct Peer {
    flow: Flow,
    /// Attempts since one ended well.
    attempts: u32,
    next: Duration,
}

impl Upkeep {
    /// No peer yet. The seed decides the pauses.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            peers: BTreeMap::new(),
            keyed: Keyed::new(seed),
        }
    }

    /// From now on these are the peers; returns those that are none any more.
    pub fn set_peers(&mut self, flows: impl Iterator<Item = Flow>) -> Vec<Flow> {
        let mut before = std::mem::take(&mut self.peers);
        for flow in flows {
            let new = Peer {
                flow,
                attempts: 0,
                next: Duration::ZERO,
            };
            let known = before.remove(&key(flow));
            let entry = self.peers.entry(key(flow));
            entry.or_insert_with(|| known.unwrap_or(new));
        }
        before.into_values().map(|peer| peer.flow).collect()
    }

    /// The connections that should be opened now, if each peer shall have so many; they count as attempts.
    /// After a failure there is one at a time.
    pub fn due<L: Layer>(
        &mut self,
        now: Duration,
        connections: &crate::Connections<L>,
        wanted: usize,
    ) -> Vec<Flow> {
        let mut flows = Vec::new();
        for peer in self.peers.values_mut().filter(|peer| peer.next <= now) {
            let missing = wanted.saturating_sub(connections.ours_to(peer.flow).count());
            if missing == 0 {
                continue;
            }
            let number = if peer.attempts == 0 { missing } else { 1 };
            flows.extend(std::iter::repeat_n(peer.flow, number));
            peer.next = now + pause(self.keyed, peer);
            peer.attempts = peer.attempts.saturating_add(1);
        }
        flows
    }

    /// A connection to this peer is open: the next may follow at once.
    pub fn opened(&mut self, flow: Flow) {
        if let Some(peer) = self.peers.get_mut(&key(flow)) {
            peer.attempts = 0;
        }
    }
}

fn key(flow: Flow) -> Key {
    (flow.remote, flow.transport, flow.listener)
}

fn pause(keyed: Keyed, peer: &Peer) -> Duration {
    let factor = 1_u32.checked_shl(peer.attempts).unwrap_or(u32::MAX);
    let pause = PAUSE_MIN.saturating_mul(factor).min(PAUSE_MAX);
    let chance = keyed.hash_one((key(peer.flow), peer.attempts)) % 1_000;
    pause - pause.mul_f64(chance as f64 / (1_000 * JITTER_PART) as f64)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sip::FrameLimits;
    use transaction::NextHop;

    use super::*;
    use crate::{Connections, Limits, Plain, Why};

    fn connections() -> Connections<Plain> {
        let s = Duration::from_secs;
        let limits = Limits {
            total: 100,
            per_source: 100,
            connecting: 100,
            handshaking: 100,
            handshake: s(5),
            idle: s(600),
            message: s(10),
            stall: s(30),
            linger: s(5),
            queue_bytes: 1 << 20,
            total_bytes: 1 << 20,
            frame: FrameLimits {
                head_bytes: 4_096,
                message_bytes: 4_096,
            },
        };
        Connections::new(0, 7, limits, Duration::ZERO)
    }

    fn flow(port: u16) -> Flow {
        let address = ([192, 0, 2, 1], port).into();
        let transport = Transport::Tcp;
        Flow::to(0, NextHop { transport, address })
    }

    #[test]
    fn each_peer_gets_its_connections_and_loses_them_with_its_place() {
        let (mut upkeep, mut connections) = (Upkeep::new(7), connections());
        let now = Duration::from_secs(1);
        let peers = [flow(1), flow(2), flow(1)];
        assert!(upkeep.set_peers(peers.into_iter()).is_empty());
        let due = upkeep.due(now, &connections, 2);
        assert_eq!(due, [flow(1), flow(1), flow(2), flow(2)]);
        for flow in due {
            let id = connections.open(now, flow, Plain).unwrap();
            connections.connected(now, id);
            upkeep.opened(flow);
        }
        assert!(upkeep.due(now + PAUSE_MAX, &connections, 2).is_empty());
        let gone = upkeep.set_peers([flow(2)].into_iter());
        assert_eq!(gone, [flow(1)]);
        let ours: Vec<_> = connections.ours_to(flow(1)).collect();
        assert_eq!(ours.len(), 2);
        connections.closed(now, ours[0], Why::Peer);
        assert_eq!(connections.ours_to(flow(1)).count(), 1);
    }

    #[test]
    fn a_peer_that_refuses_is_tried_less_and_less_but_never_given_up() {
        let (mut upkeep, connections) = (Upkeep::new(7), connections());
        upkeep.set_peers([flow(1)].into_iter());
        let (mut now, mut times) = (Duration::ZERO, Vec::new());
        while now < Duration::from_secs(3_600) {
            let due = upkeep.due(now, &connections, 4);
            if !due.is_empty() {
                assert_eq!(due.len(), if times.is_empty() { 4 } else { 1 });
                times.push(now);
            }
            now += Duration::from_millis(100);
        }
        let pauses: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let is_bounded = |(attempt, &pause): (usize, &Duration)| {
            let most = PAUSE_MIN.saturating_mul(1 << attempt.min(6)).min(PAUSE_MAX);
            let slack = Duration::from_millis(100);
            pause <= most + slack && pause + slack >= most * 3 / 4
        };
        assert!(pauses.iter().enumerate().all(is_bounded), "{pauses:?}");
        assert!((60..90).contains(&times.len()), "{}", times.len());
        upkeep.opened(flow(1));
        assert_eq!(upkeep.due(now + PAUSE_MAX, &connections, 4).len(), 4);
    }
}

//! What an edge knows of its peers: the latest that each one has reported.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use balance::Elsewhere;

use super::report::{Entry, Header};
use crate::{
    stats::Dropped,
    wire::keys::{EdgeTag, edge_of},
};

/// Edges before the same servers, at most.
const PEERS_MAX: usize = 64;

/// A peer, for whoever watches the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerView {
    /// Its name.
    pub name: String,
    /// Where its latest report came from.
    pub address: SocketAddr,
    /// When that was.
    pub heard_at: Duration,
    /// Whether what it reported counts; what a silent peer reported does not.
    pub is_heard: bool,
    /// Arrivals per second that it places.
    pub rate: u32,
    /// Calls that it has open.
    pub calls: u64,
    /// Reports of it that were taken.
    pub reports: u64,
}

/// All peers that have been heard of.
#[derive(Debug, Default)]
pub(crate) struct Peers(BTreeMap<u64, Peer>);

#[derive(Debug)]
struct Peer {
    incarnation: u64,
    sequence: u64,
    name: String,
    address: SocketAddr,
    rate: u32,
    heard_at: Duration,
    reports: u64,
    shares: BTreeMap<SocketAddr, (Duration, Elsewhere)>,
}

impl Peers {
    /// Takes a report of a peer that is no older than what is known of it.
    ///
    /// # Errors
    /// Why the report is to be dropped.
    pub(crate) fn take(
        &mut self,
        now: Duration,
        silence: Duration,
        from: SocketAddr,
        header: &Header<'_>,
        entries: &[Entry],
    ) -> Result<(), Dropped> {
        if !self.0.contains_key(&header.owner) {
            self.make_room(now, silence)?;
        }
        let peer = self
            .0
            .entry(header.owner)
            .or_insert_with(|| Peer::new(from));
        if (header.incarnation, header.sequence) <= (peer.incarnation, peer.sequence) {
            return Err(Dropped::ReportStale);
        }
        if header.incarnation > peer.incarnation {
            peer.shares.clear();
        }
        (peer.incarnation, peer.sequence) = (header.incarnation, header.sequence);
        (peer.address, peer.rate, peer.heard_at) = (from, header.rate, now);
        if peer.name.as_bytes() != header.name {
            peer.name = String::from_utf8_lossy(header.name).into_owned();
        }
        peer.reports += 1;
        peer.shares
            .retain(|_, (told_at, _)| *told_at + silence > now);
        let shares = entries
            .iter()
            .map(|entry| (entry.address, (now, entry.open)));
        peer.shares.extend(shares);
        Ok(())
    }

    /// A peer that speaks is not forgotten for another.
    fn make_room(&mut self, now: Duration, silence: Duration) -> Result<(), Dropped> {
        if self.0.len() < PEERS_MAX {
            return Ok(());
        }
        let quietest = self.0.iter().min_by_key(|(_, peer)| peer.heard_at);
        let (&owner, _) = quietest
            .filter(|(_, peer)| !peer.is_heard(now, silence))
            .ok_or(Dropped::ReportNoRoom)?;
        self.0.remove(&owner);
        Ok(())
    }

    /// What all peers have open on a server.
    pub(crate) fn open_on(&self, now: Duration, silence: Duration, at: SocketAddr) -> Elsewhere {
        let shares = self.0.values().filter_map(|peer| peer.shares.get(&at));
        let fresh = shares.filter(|(told_at, _)| *told_at + silence > now);
        fresh.fold(Elsewhere::default(), |sum, (_, share)| Elsewhere {
            calls: sum.calls + share.calls,
            transactions: sum.transactions + share.transactions,
            work_thousandths: sum.work_thousandths + share.work_thousandths,
        })
    }

    /// The owners that are heard, in their order, and the arrivals per second that each places.
    pub(crate) fn rates(
        &self,
        now: Duration,
        silence: Duration,
    ) -> impl Iterator<Item = (u64, f64)> {
        let heard = self
            .0
            .iter()
            .filter(move |(_, peer)| peer.is_heard(now, silence));
        heard.map(|(owner, peer)| (*owner, f64::from(peer.rate)))
    }

    /// The tags of those that are heard, and where they listen.
    pub(crate) fn edges(&self, now: Duration, silence: Duration) -> Vec<(EdgeTag, SocketAddr)> {
        let peers = self.0.iter();
        let heard = peers.filter(|(_, peer)| peer.is_heard(now, silence));
        heard
            .map(|(&owner, peer)| (edge_of(owner), peer.address))
            .collect()
    }

    /// All of them.
    pub(crate) fn views(&self, now: Duration, silence: Duration) -> Vec<PeerView> {
        let view = |peer: &Peer| PeerView {
            name: peer.name.clone(),
            address: peer.address,
            heard_at: peer.heard_at,
            is_heard: peer.is_heard(now, silence),
            rate: peer.rate,
            calls: peer.shares.values().map(|(_, share)| share.calls).sum(),
            reports: peer.reports,
        };
        self.0.values().map(view).collect()
    }
}

impl Peer {
    fn new(address: SocketAddr) -> Self {
        Self {
            incarnation: 0,
            sequence: 0,
            name: String::new(),
            address,
            rate: 0,
            heard_at: Duration::ZERO,
            reports: 0,
            shares: BTreeMap::new(),
        }
    }

    fn is_heard(&self, now: Duration, silence: Duration) -> bool {
        self.heard_at + silence > now
    }
}

//! The announcements of nodes in a store, and how long each of them is valid.

use std::{collections::BTreeMap, fmt::Write, net::SocketAddr, str, time::Duration};

use node::{Transport, config::PoolServer};

/// How long a pool's record keeps the last announcement of a dead node, so that others see that it
/// is old. It is longer than any lease.
const KEPT: Duration = Duration::from_secs(120);

/// A node's announcement that it is a server.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Announcement {
    pub(super) server: PoolServer,
    /// How long the announcement is valid after a node first hears it, by the hearer's own clock.
    /// Zero means that the node leaves.
    pub(super) lease: Duration,
    /// Differs in each announcement of the node.
    pub(super) stamp: u64,
}

/// Writes all announcements of a pool as text, one line each: address, capacity, lease in
/// milliseconds, stamp.
pub(super) fn write(all: &[Announcement]) -> String {
    let mut text = String::new();
    for said in all {
        let PoolServer {
            transport: _,
            address,
            host: _,
            capacity,
            ..
        } = said.server;
        let (lease_ms, stamp) = (said.lease.as_millis(), said.stamp);
        writeln!(text, "{address} {capacity} {lease_ms} {stamp}").expect("a text has room");
    }
    text
}

/// Reads what [`write()`] wrote; none if the text is anything else.
pub(super) fn read(record: &[u8]) -> Option<Vec<Announcement>> {
    str::from_utf8(record).ok()?.lines().map(line).collect()
}

fn line(line: &str) -> Option<Announcement> {
    let mut words = line.split(' ');
    let address = words.next()?.parse().ok()?;
    let capacity = words.next()?.parse().ok()?;
    let lease_ms = words.next()?.parse().ok()?;
    let stamp = words.next()?.parse().ok()?;
    let is_whole = words.next().is_none() && balance::CAPACITY.contains(&capacity);
    is_whole.then_some(Announcement {
        server: PoolServer {
            transport: Transport::Udp,
            address,
            host: None,
            capacity,
            cluster: None,
            priority: 0,
        },
        lease: Duration::from_millis(lease_ms),
        stamp,
    })
}

/// The last announcement heard from each node. The hearer measures its age, so clocks need not
/// agree.
#[derive(Debug, Default)]
pub(super) struct Leases(BTreeMap<SocketAddr, Heard>);

#[derive(Debug)]
struct Heard {
    said: Announcement,
    at: Duration,
}

impl Heard {
    fn is_live(&self, now: Duration) -> bool {
        now.saturating_sub(self.at) < self.said.lease
    }
}

impl Leases {
    /// Takes a pool's announcements. A node that is missing from them stays until its lease ends,
    /// because a store may have lost its announcement.
    pub(super) fn hear(&mut self, all: Vec<Announcement>, now: Duration) {
        let listed = |address: &SocketAddr| all.iter().any(|it| it.server.address == *address);
        self.0
            .retain(|address, heard| heard.is_live(now) || listed(address));
        for said in all {
            let address = said.server.address;
            let known = self.0.get(&address);
            if known.is_none_or(|heard| heard.said.stamp != said.stamp) {
                self.0.insert(address, Heard { said, at: now });
            }
        }
    }

    /// Extends all leases, because no announcement can be heard at the moment.
    pub(super) fn extend(&mut self, now: Duration) {
        for heard in self.0.values_mut().filter(|heard| heard.is_live(now)) {
            heard.at = now;
        }
    }

    /// The servers whose leases are valid, in the order of their addresses.
    pub(super) fn servers(&self, now: Duration) -> Vec<PoolServer> {
        let live = self.0.values().filter(|heard| heard.is_live(now));
        live.map(|heard| heard.said.server.clone()).collect()
    }

    /// Takes a pool's announcements and returns them with this node's own added. Announcements that
    /// are not in the record stay out, so a dead node that a store lost does not come back.
    pub(super) fn renew(
        &mut self,
        mut all: Vec<Announcement>,
        own: Announcement,
        now: Duration,
    ) -> Vec<Announcement> {
        self.hear(all.clone(), now);
        all.retain(|it| {
            let heard = self.0.get(&it.server.address);
            let is_kept = heard.is_some_and(|heard| now.saturating_sub(heard.at) < KEPT);
            is_kept && it.server.address != own.server.address
        });
        all.push(own);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(port: u16, lease_s: u64, stamp: u64) -> Announcement {
        Announcement {
            server: PoolServer {
                transport: Transport::Udp,
                address: SocketAddr::from(([10, 0, 0, 1], port)),
                host: None,
                capacity: 2.5,
                cluster: None,
                priority: 0,
            },
            lease: s(lease_s),
            stamp,
        }
    }

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn ports(leases: &Leases, now: Duration) -> Vec<u16> {
        let servers = leases.servers(now);
        servers.iter().map(|it| it.address.port()).collect()
    }

    #[test]
    fn what_is_written_is_read() {
        let all = vec![said(1, 3, 7), said(2, 0, u64::MAX)];
        assert_eq!(write(&all).lines().next(), Some("10.0.0.1:1 2.5 3000 7"));
        assert_eq!(read(write(&all).as_bytes()), Some(all));
        assert_eq!(read(b""), Some(Vec::new()));
        for foreign in [
            "a",
            "10.0.0.1:1 1 3000",
            "10.0.0.1:1 1 3000 7 8",
            "10.0.0.1:1 -1 3000 7",
            "10.0.0.1:1 NaN 3000 7",
            "10.0.0.1 1 3000 7",
            "\n",
            "\u{fffd}",
        ] {
            assert_eq!(read(foreign.as_bytes()), None, "{foreign}");
        }
        assert_eq!(read(b"\xff"), None);
    }

    #[test]
    fn a_node_that_says_nothing_new_leaves_when_its_lease_ends() {
        let mut leases = Leases::default();
        leases.hear(vec![said(1, 3, 1), said(2, 3, 1)], s(0));
        leases.hear(vec![said(1, 3, 2), said(2, 3, 1)], s(2));
        assert_eq!(ports(&leases, s(2)), [1, 2]);
        assert_eq!(ports(&leases, s(3)), [1]);
        // Its last word stays its last word.
        leases.hear(vec![said(1, 3, 3), said(2, 3, 1)], s(4));
        assert_eq!(ports(&leases, s(4)), [1]);
        leases.hear(vec![said(1, 3, 4), said(2, 3, 2)], s(5));
        assert_eq!(ports(&leases, s(5)), [1, 2]);
    }

    #[test]
    fn a_node_that_leaves_is_gone_at_once() {
        let mut leases = Leases::default();
        leases.hear(vec![said(1, 3, 1), said(2, 3, 1)], s(0));
        leases.hear(vec![said(1, 0, 2), said(2, 3, 1)], s(1));
        assert_eq!(ports(&leases, s(1)), [2]);
    }

    #[test]
    fn no_lease_ends_while_nobody_is_heard_or_the_store_lost_all() {
        let mut leases = Leases::default();
        leases.hear(vec![said(1, 3, 1), said(2, 0, 1)], s(0));
        leases.extend(s(2));
        assert_eq!(ports(&leases, s(4)), [1]);
        leases.hear(Vec::new(), s(4));
        assert_eq!(ports(&leases, s(4)), [1]);
        assert_eq!(ports(&leases, s(5)), [0; 0]);
    }

    #[test]
    fn others_hear_of_the_dead_for_two_minutes() {
        let mut leases = Leases::default();
        let (own, dead) = (said(1, 3, 2), said(2, 3, 1));
        let mut after = |all: &[Announcement], now| leases.renew(all.to_vec(), own.clone(), now);
        let both = [dead, own.clone()];
        assert_eq!(after(&[said(1, 3, 1), said(2, 3, 1)], s(0)), both);
        assert_eq!(after(&both, s(119)), both);
        assert_eq!(after(&both, s(120)), both[1..]);
    }

    #[test]
    fn a_dead_node_that_a_store_lost_stays_dead() {
        let mut leases = Leases::default();
        let (own, dead) = (said(1, 3, 1), said(2, 3, 1));
        leases.renew(vec![dead], own.clone(), s(0));
        assert_eq!(leases.renew(Vec::new(), own.clone(), s(1)), [own]);
    }
}

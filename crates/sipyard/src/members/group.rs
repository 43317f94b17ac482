//! Groups the servers of a name by the order in which a pool uses them.

use std::net::{IpAddr, SocketAddr};

use ::names::Target;
use node::config::{Listener, PoolServer};

use crate::config::Source;

/// Servers of one priority.
pub(super) type Group = Vec<PoolServer>;

/// The address families to which the listeners can send requests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Families {
    v4: bool,
    v6: bool,
}

impl Families {
    pub(super) fn of(listeners: &[Listener]) -> Self {
        Self {
            v4: listeners.iter().any(|it| it.address.is_ipv4()),
            v6: listeners.iter().any(|it| it.address.is_ipv6()),
        }
    }

    fn reach(self, ip: IpAddr) -> bool {
        if ip.is_ipv4() { self.v4 } else { self.v6 }
    }

    /// The addresses of a host in one family: a host that has both families is one server.
    fn reachable(self, target: &Target) -> impl Iterator<Item = IpAddr> {
        let has_v4 = self.v4 && target.addresses.iter().any(IpAddr::is_ipv4);
        let fits = move |ip: &&IpAddr| ip.is_ipv4() == has_v4 && (has_v4 || self.v6);
        target.addresses.iter().filter(fits).copied()
    }
}

/// The servers of an answer in groups, the first priority first. The order within a group does not
/// depend on the order of the answer. Weights become capacities; if none has a weight, all have
/// capacity 1.
pub(super) fn groups(targets: &[Target], source: &Source, families: Families) -> Vec<Group> {
    let mut priorities: Vec<u16> = targets.iter().map(|target| target.priority).collect();
    priorities.sort_unstable();
    priorities.dedup();
    let group = |priority| {
        let equals = || targets.iter().filter(move |it| it.priority == priority);
        let is_weighted = equals().any(|target| target.weight > 0);
        let servers = equals().flat_map(|target| {
            let weight = if is_weighted {
                f64::from(target.weight)
            } else {
                1.0
            };
            families.reachable(target).map(move |ip| PoolServer {
                transport: source.transport,
                address: SocketAddr::new(ip, target.port),
                host: source.host.clone(),
                capacity: product(weight, source.capacity),
                cluster: None,
                priority: 0,
            })
        });
        let mut servers: Group = servers.collect();
        servers.sort_by_key(|server| server.address);
        servers.dedup_by_key(|server| server.address);
        servers
    };
    let groups = priorities.into_iter().map(group);
    groups.filter(|group| !group.is_empty()).collect()
}

/// The servers that announced themselves and that the listeners can reach.
pub(super) fn announced(servers: &[PoolServer], capacity: f64, families: Families) -> Group {
    let reached = servers.iter().filter(|it| families.reach(it.address.ip()));
    let server = |server: &PoolServer| PoolServer {
        transport: server.transport,
        address: server.address,
        host: server.host.clone(),
        capacity: product(server.capacity, capacity),
        cluster: None,
        priority: 0,
    };
    reached.map(server).collect()
}

fn product(left: f64, right: f64) -> f64 {
    let (low, high) = (*balance::CAPACITY.start(), *balance::CAPACITY.end());
    (left * right).clamp(low, high)
}

/// All servers. Those of the first group, and of each next group while none of the earlier servers is
/// live, are in use: their priority is 0. The others are the reserve.
pub(super) fn ranked(groups: Vec<Group>, is_live: &dyn Fn(SocketAddr) -> bool) -> Group {
    let mut servers = Group::new();
    let mut priority = 0;
    for group in groups {
        let has_live = group.iter().any(|server| is_live(server.address));
        let ranked = |server| PoolServer { priority, ..server };
        servers.extend(group.into_iter().map(ranked));
        priority += u16::from(has_live || priority > 0);
    }
    servers
}

/// Whether a server is in use.
pub(super) fn is_in_use(server: &PoolServer) -> bool {
    server.priority == 0
}

#[cfg(test)]
mod tests {
    use node::Transport;

    use super::*;
    use crate::config::servers::Origin;

    fn source(capacity: f64) -> Source {
        Source {
            origin: Origin::Service("_sip._udp.test".to_owned()),
            transport: Transport::Udp,
            host: None,
            capacity,
            cluster: None,
            priority: 0,
        }
    }

    fn target(priority: u16, weight: u16, addresses: &[&str]) -> Target {
        Target {
            name: "a.test.".into(),
            transport: None,
            priority,
            weight,
            port: 5060,
            addresses: addresses.iter().map(|ip| ip.parse().unwrap()).collect(),
        }
    }

    const BOTH: Families = Families { v4: true, v6: true };

    fn shown(groups: &[Group]) -> Vec<String> {
        let server = |server: &PoolServer| format!("{} x{}", server.address.ip(), server.capacity);
        let group = |group: &Group| group.iter().map(server).collect::<Vec<_>>().join(", ");
        groups.iter().map(group).collect()
    }

    #[test]
    fn weights_are_capacities() {
        let targets = [
            target(2, 0, &["10.0.0.5"]),
            target(1, 30, &["10.0.0.2"]),
            target(1, 0, &["10.0.0.3"]),
            target(1, 10, &["10.0.0.1", "10.0.0.4"]),
        ];
        assert_eq!(
            shown(&groups(&targets, &source(0.5), BOTH)),
            [
                "10.0.0.1 x5, 10.0.0.2 x15, 10.0.0.3 x0.001, 10.0.0.4 x5",
                "10.0.0.5 x0.5"
            ]
        );
    }

    #[test]
    fn a_host_with_addresses_of_both_kinds_is_one_server() {
        let targets = [
            target(0, 0, &["10.0.0.1", "2001:db8::1"]),
            target(0, 0, &["2001:db8::2"]),
        ];
        let only = |v4, v6| shown(&groups(&targets, &source(1.0), Families { v4, v6 }));
        assert_eq!(only(true, true), ["10.0.0.1 x1, 2001:db8::2 x1"]);
        assert_eq!(only(true, false), ["10.0.0.1 x1"]);
        assert_eq!(only(false, true), ["2001:db8::1 x1, 2001:db8::2 x1"]);
        assert!(only(false, false).is_empty());
    }

    #[test]
    fn a_later_group_is_used_while_none_before_it_is_live() {
        let ips = ["10.0.0.1", "10.0.0.2", "10.0.0.3"];
        let targets = [0, 1, 2].map(|place| target(place, 0, &[ips[usize::from(place)]]));
        let used = |down: &[&str]| {
            let is_live = |address: SocketAddr| !down.contains(&&*address.ip().to_string());
            let servers = ranked(groups(&targets, &source(1.0), BOTH), &is_live);
            assert_eq!(servers.len(), 3, "all are known");
            assert!(servers.is_sorted_by_key(|server| server.priority));
            servers.iter().filter(|server| is_in_use(server)).count()
        };
        assert_eq!(used(&[]), 1);
        assert_eq!(used(&ips[..1]), 2);
        assert_eq!(used(&ips[..2]), 3);
        assert_eq!(used(&ips), 3);
        assert_eq!(used(&ips[1..]), 1);
    }
}

//! The servers that the DNS names, and the order in which to try them.

use std::net::{IpAddr, SocketAddr};

use crate::transport::Transport;

/// A server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its name, in lower case.
    pub name: Box<str>,
    /// What carries messages there, if the question was of a domain.
    pub transport: Option<Transport>,
    /// The priority: servers with a lower number come first.
    pub priority: u16,
    /// Its share of the requests, relative to servers of the same priority.
    pub weight: u16,
    /// Its port.
    pub port: u16,
    /// Its addresses, at least one. They are equivalent.
    pub addresses: Vec<IpAddr>,
}

impl Target {
    fn sockets(&self) -> impl Iterator<Item = SocketAddr> {
        let port = self.port;
        self.addresses
            .iter()
            .map(move |ip| SocketAddr::new(*ip, port))
    }
}

/// The addresses in the order in which to try them: by priority, and within a priority drawn by
/// weight (RFC 2782). Targets of another transport come behind all of those before. The same targets and generator state give the same order.
#[must_use]
pub fn order(targets: &[Target], rng: &mut fastrand::Rng) -> Vec<(Option<Transport>, SocketAddr)> {
    let parts = targets.chunk_by(|one, other| one.transport == other.transport);
    let parts = parts.map(|part| (part[0].transport, part_in_order(part, rng)));
    let sockets = parts.flat_map(|(transport, sockets)| {
        sockets.into_iter().map(move |socket| (transport, socket))
    });
    sockets.collect()
}

fn part_in_order(targets: &[Target], rng: &mut fastrand::Rng) -> Vec<SocketAddr> {
    let mut left: Vec<&Target> = targets.iter().collect();
    // Those without a weight come first among equals, where a draw of 0 alone finds them.
    left.sort_by_key(|target| (target.priority, target.weight > 0));
    let mut addresses = Vec::new();
    while let Some(first) = left.first() {
        let equals = left
            .iter()
            .take_while(|target| target.priority == first.priority);
        let sums = equals.scan(0, |sum, target| {
            *sum += u32::from(target.weight);
            Some(*sum)
        });
        let sums: Vec<u32> = sums.collect();
        let draw = rng.u32(0..=*sums.last().expect("the first is one of them"));
        let drawn = left.remove(sums.partition_point(|sum| *sum < draw));
        addresses.extend(drawn.sockets());
    }
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(list: &[(u16, u16)]) -> Vec<Target> {
        let target = |(index, &(priority, weight)): (usize, &(u16, u16))| Target {
            name: format!("s{index}").into(),
            transport: None,
            priority,
            weight,
            port: 5060 + index as u16,
            addresses: vec![IpAddr::from([192, 0, 2, 1])],
        };
        list.iter().enumerate().map(target).collect()
    }

    fn drawn(targets: &[Target], rng: &mut fastrand::Rng) -> Vec<u16> {
        let addresses = order(targets, rng);
        addresses
            .iter()
            .map(|(_, address)| address.port() - 5060)
            .collect()
    }

    #[test]
    fn each_comes_once_and_by_priority() {
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..1_000 {
            let list: Vec<_> = (0..rng.usize(0..20))
                .map(|_| (rng.u16(0..4), [0, 1, rng.u16(..)][rng.usize(0..3)]))
                .collect();
            let order = drawn(&targets(&list), &mut rng);
            let priorities = order.iter().map(|index| list[usize::from(*index)].0);
            assert!(priorities.is_sorted(), "{list:?}: {order:?}");
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..list.len() as u16), "{order:?}");
        }
    }

    #[test]
    fn the_first_is_drawn_by_weight() {
        let targets = targets(&[(0, 10), (0, 60), (0, 30), (0, 0), (1, 1)]);
        let mut rng = fastrand::Rng::with_seed(7);
        let mut firsts = [0; 5];
        for _ in 0..100_000 {
            firsts[usize::from(drawn(&targets, &mut rng)[0])] += 1;
        }
        // Draws are from 0 to 100, both included: the weightless one has 1 of 101.
        for (count, of_101) in firsts.iter().zip([10.0, 60.0, 30.0, 1.0, 0.0]) {
            let expected = of_101 / 101.0 * 1e5;
            let deviation: f64 = f64::from(*count) - expected;
            assert!(deviation.abs() <= 5.0 * expected.sqrt(), "{firsts:?}");
        }
    }

    #[test]
    fn without_weights_the_records_order_stays() {
        let mut rng = fastrand::Rng::with_seed(3);
        let equal = targets(&[(0, 0), (0, 0)]);
        assert_eq!(drawn(&equal, &mut rng), [0, 1]);
        assert_eq!(drawn(&targets(&[]), &mut rng), [] as [u16; 0]);
    }

    #[test]
    fn all_addresses_of_a_target_follow_each_other() {
        let mut both = targets(&[(0, 1), (5, 1)]);
        both[0].addresses.push("2001:db8::1".parse().unwrap());
        let order = order(&both, &mut fastrand::Rng::with_seed(1));
        let shown: Vec<String> = order.iter().map(|(_, at)| at.to_string()).collect();
        assert_eq!(
            shown,
            ["192.0.2.1:5060", "[2001:db8::1]:5060", "192.0.2.1:5061"]
        );
    }
}

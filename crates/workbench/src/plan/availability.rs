//! Calculates how many nodes keep a two-stage cluster available.
//!
//! The formula is from Singh and Schulzrinne, "Failover and Load Sharing in SIP Telephony" (2005),
//! section 4.4. S first-stage nodes share the load. Behind them are P clusters of B nodes; one node
//! of a cluster carries the cluster's load. If one first-stage node can carry the whole load, all
//! is available for (1 - (1 - Rs)^S) * (1 - (1 - Rp)^B)^P of the time. If the load needs K of them,
//! the first factor is the probability that at least K of S are up.

use serde::Serialize;

/// The known properties of the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Nodes {
    /// The share of time that a first-stage node is up.
    pub(crate) first: f64,
    /// The share of time that a second-stage node is up.
    pub(crate) second: f64,
    /// First-stage nodes that the load needs.
    pub(crate) first_needed: u32,
    /// Clusters that the load needs.
    pub(crate) clusters: u32,
    /// The price of a first-stage node.
    pub(crate) first_price: f64,
    /// The price of a second-stage node.
    pub(crate) second_price: f64,
}

/// The size of a two-stage cluster.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Plan {
    /// First-stage nodes: S.
    pub(crate) first: u32,
    /// Nodes of each cluster: B.
    pub(crate) backups: u32,
    /// Clusters: P.
    pub(crate) clusters: u32,
    /// The share of time that it carries its full load.
    pub(crate) availability: f64,
    /// The same share by the paper's formula, in which any one first-stage node carries the load.
    pub(crate) with_any_first: f64,
    pub(crate) price: f64,
}

/// The most spare nodes: more of them improve availability too little to measure.
const SPARES_MAX: u32 = 12;
const SECONDS_A_YEAR: f64 = 365.25 * 86_400.0;

impl Nodes {
    /// Calculates the availability of a size.
    pub(crate) fn plan(&self, first: u32, backups: u32) -> Plan {
        let second = at_least(1, backups, self.second).powf(self.clusters.into());
        let nodes = |price: f64, count: u32| price * f64::from(count);
        Plan {
            first,
            backups,
            clusters: self.clusters,
            availability: at_least(self.first_needed, first, self.first) * second,
            with_any_first: at_least(1, first, self.first) * second,
            price: nodes(self.first_price, first)
                + nodes(self.second_price, self.clusters * backups),
        }
    }

    /// The cheapest plan that reaches the target; of two as cheap, the better one. None if no plan
    /// does.
    pub(crate) fn cheapest(&self, target: f64) -> Option<Plan> {
        let sizes = (0..=SPARES_MAX)
            .flat_map(|spare| (1..=1 + SPARES_MAX).map(move |backups| (spare, backups)));
        let plans = sizes.map(|(spare, backups)| self.plan(self.first_needed + spare, backups));
        let good = plans.filter(|plan| plan.availability >= target);
        good.min_by(|one, other| {
            let by_price = one.price.total_cmp(&other.price);
            by_price.then(other.availability.total_cmp(&one.availability))
        })
    }
}

impl Plan {
    /// Time without the full load, in seconds a year.
    pub(crate) fn outage_s(&self) -> f64 {
        (1.0 - self.availability) * SECONDS_A_YEAR
    }
}

/// The probability that at least `needed` of `all` nodes are up.
fn at_least(needed: u32, all: u32, up: f64) -> f64 {
    let mut chance = 0.0;
    let mut ways = 1.0;
    // Of the fewer that are down, each way of having them down.
    for down in 0..=all {
        if all - down < needed {
            break;
        }
        chance += ways * up.powf((all - down).into()) * (1.0 - up).powf(down.into());
        ways *= f64::from(all - down) / f64::from(down + 1);
    }
    chance
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAPER: Nodes = Nodes {
        first: 0.99,
        second: 0.99,
        first_needed: 1,
        clusters: 3,
        first_price: 1.0,
        second_price: 1.0,
    };

    #[test]
    fn three_by_three_of_99_percent_are_five_nines() {
        let plan = PAPER.plan(3, 3);
        assert!((plan.availability - 0.999_996).abs() < 1e-9, "{plan:?}");
        assert_eq!(plan.availability, plan.with_any_first);
        assert!((plan.outage_s() - 126.2).abs() < 0.1);
    }

    #[test]
    fn the_cheapest_plan_is_the_cheapest() {
        let plan = PAPER.cheapest(0.99999).unwrap();
        assert_eq!((plan.first, plan.backups, plan.price), (3, 3, 12.0));
        for first in 1..8 {
            for backups in 1..8 {
                let other = PAPER.plan(first, backups);
                assert!(
                    other.price >= plan.price || other.availability < 0.99999,
                    "{other:?}"
                );
            }
        }
    }

    #[test]
    fn a_load_that_needs_all_needs_more() {
        let nodes = Nodes {
            first_needed: 2,
            ..PAPER
        };
        let plan = nodes.plan(2, 3);
        assert!(
            (plan.availability / nodes.plan(2, 3).with_any_first - 0.9801 / 0.9999).abs() < 1e-9
        );
        assert_eq!(nodes.cheapest(0.99999).unwrap().first, 4);
    }

    #[test]
    fn chances_add_up() {
        assert!((at_least(0, 5, 0.3) - 1.0).abs() < 1e-12);
        assert!((at_least(2, 3, 0.9) - 0.972).abs() < 1e-12);
        assert_eq!(at_least(4, 3, 0.9), 0.0);
    }

    #[test]
    fn what_cannot_be_reached_is_no_plan() {
        assert_eq!(
            Nodes {
                second: 0.2,
                ..PAPER
            }
            .cheapest(0.99999),
            None
        );
    }
}

//! Max-min fairness: nobody gets more while somebody who wants more has less.

/// What one of those that share something wants, and its weight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    /// Infinite: all that it can get.
    pub(crate) wants: f64,
    pub(crate) weight: f64,
}

impl Demand {
    fn per_weight(&self) -> f64 {
        self.wants / self.weight
    }
}

/// The level up to which everybody's wish is granted, for each unit of weight, so that all together
/// get `total`. Where all wishes fit, what is left is granted on top. Sorts the demands.
pub(crate) fn level(demands: &mut [Demand], total: f64) -> f64 {
    demands.sort_unstable_by(|one, other| one.per_weight().total_cmp(&other.per_weight()));
    let mut left = total;
    let all: f64 = demands.iter().map(|demand| demand.weight).sum();
    let mut weight = all;
    for demand in demands.iter() {
        if demand.per_weight() * weight > left {
            return left / weight;
        }
        left -= demand.wants;
        weight -= demand.weight;
    }
    demands
        .last()
        .map_or(total, |most| most.per_weight() + left / all)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn demands(wants: &[f64]) -> Vec<Demand> {
        let demand = |&wants: &f64| Demand { wants, weight: 1.0 };
        wants.iter().map(demand).collect()
    }

    #[test]
    fn levels() {
        let inf = f64::INFINITY;
        for (wants, total, expected) in [
            (&[][..], 9.0, 9.0),
            (&[30.0, 20.0, 10.0], 30.0, 10.0),
            (&[30.0, 20.0, 5.0], 30.0, 12.5),
            (&[inf, inf, 4.0], 30.0, 13.0),
            (&[4.0, 2.0], 10.0, 6.0),
            (&[0.0], 10.0, 10.0),
        ] {
            assert_eq!(level(&mut demands(wants), total), expected, "{wants:?}");
        }
    }

    proptest! {
        /// What is granted is all there is, or all that is wanted, and nobody gets more than wanted or than
        /// its share while another lacks something.
        #[test]
        fn all_is_granted_and_fairly(
            wants in prop::collection::vec((0.0..1e4, 0.1..10.0), 1..100),
            total in 1.0..1e5,
        ) {
            let mut demands: Vec<_> =
                wants.iter().map(|&(wants, weight)| Demand { wants, weight }).collect();
            let level = level(&mut demands, total);
            let granted = |demand: &Demand| demand.wants.min(level * demand.weight);
            let sum: f64 = demands.iter().map(granted).sum();
            let wanted: f64 = demands.iter().map(|demand| demand.wants).sum();
            prop_assert!((sum - total.min(wanted)).abs() < 1e-6 * total.max(1.0), "{sum} of {total}");
            let lacks = demands.iter().any(|demand| granted(demand) < demand.wants - 1e-9);
            prop_assert!(!lacks || wanted > total - 1e-6);
        }
    }
}

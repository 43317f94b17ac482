//! The cost of a transaction at its server.

/// The cost of a transaction, in thousandths of the cost of a BYE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cost(u32);

impl Cost {
    /// The cost of a BYE, and of every method without a cost of its own.
    pub const ONE: Self = Self(1_000);
    /// The cost of an INVITE: the ratio with the best results in the published measurements.
    pub const INVITE: Self = Self(1_750);

    /// The highest cost.
    pub const MAX: Self = Self(1_000_000);

    /// The cost relative to a BYE, rounded to thousandths; `None` unless it is within 0..=1000.
    pub fn new(relative: f64) -> Option<Self> {
        (0.0..=1_000.0)
            .contains(&relative)
            .then(|| Self((relative * 1_000.0).round() as u32))
    }

    /// The cost relative to a BYE.
    pub fn relative(self) -> f64 {
        f64::from(self.0) / 1_000.0
    }

    pub(crate) const fn thousandths(self) -> u64 {
        self.0 as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_thousandths_of_a_bye() {
        fn check(relative: f64, expected: Option<u32>) {
            assert_eq!(Cost::new(relative), expected.map(Cost), "{relative}");
        }
        check(0.0, Some(0));
        check(1.0, Some(1_000));
        check(1.75, Some(1_750));
        check(0.0004, Some(0));
        check(0.0006, Some(1));
        check(1_000.0, Some(1_000_000));
        assert_eq!(Cost::new(1_000.0), Some(Cost::MAX));
        check(1_000.1, None);
        check(-0.1, None);
        check(f64::NAN, None);
        check(f64::INFINITY, None);
        assert_eq!(Cost::new(1.0), Some(Cost::ONE));
        assert_eq!(Cost::INVITE.relative(), 1.75);
    }
}

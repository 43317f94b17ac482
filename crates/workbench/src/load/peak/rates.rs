//! Decides which rates a search tries.

/// The bisection ends when the ratio of the rates above and below the peak is this small.
const CLOSE: f64 = 1.02;

/// Decides which rate comes next.
pub(super) enum Rates {
    /// While `growth` is set, the rate rises. It then approaches the peak from both sides.
    Bisection {
        rate: f64,
        growth: Option<f64>,
        carried: Option<f64>,
        not_carried: Option<f64>,
    },
    /// RFC 7502 §4.10. `repeated` counts the successes that were not a new maximum.
    Rfc7502 {
        rate: f64,
        highest: f64,
        repeated: u32,
    },
}

impl Rates {
    /// Rates that rise from the first, each by the same factor.
    pub(super) fn bisection(first: f64, growth: f64) -> Self {
        Self::Bisection {
            rate: first,
            growth: Some(growth),
            carried: None,
            not_carried: None,
        }
    }

    pub(super) fn rfc_7502(first: f64) -> Self {
        Self::Rfc7502 {
            rate: first,
            highest: 0.0,
            repeated: 0,
        }
    }

    /// None: the search has found the peak.
    pub(super) fn next_rate(&self) -> Option<f64> {
        const REPEATED_MAX: u32 = 10;
        match *self {
            Self::Bisection {
                rate,
                growth: None,
                carried: Some(carried),
                not_carried: Some(not_carried),
            } => (not_carried / carried > CLOSE).then_some(rate),
            Self::Bisection { rate, .. } => (rate >= 1.0).then_some(rate),
            Self::Rfc7502 { rate, repeated, .. } => {
                (repeated < REPEATED_MAX && rate >= 1.0).then_some(rate)
            }
        }
    }

    /// Records if the system carried the rate, and if a higher rate is of no interest.
    pub(super) fn tell(&mut self, is_carried: bool, is_enough: bool) {
        match self {
            Self::Bisection {
                rate,
                growth,
                carried,
                not_carried,
            } => {
                if is_carried {
                    *carried = Some(rate.max(carried.unwrap_or(0.0)));
                    // A failure at a lower rate was chance.
                    *not_carried = not_carried.filter(|high| *high > *rate);
                } else {
                    *not_carried = Some(rate.min(not_carried.unwrap_or(f64::MAX)));
                }
                *growth = growth.filter(|_| !is_enough);
                *rate = match *growth {
                    Some(growth) => *rate * growth,
                    None => (carried.unwrap_or(0.0) + not_carried.unwrap_or(*rate)) / 2.0,
                };
            }
            Self::Rfc7502 {
                rate,
                highest,
                repeated,
            } => {
                if !is_carried {
                    *rate = (*rate * 0.9).floor();
                    return;
                }
                if *rate > *highest {
                    *highest = *rate;
                } else {
                    *repeated += 1;
                }
                *rate = (*rate * 1.1).floor();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rates that are tried when the system carries `capacity` and no more. No rate above
    /// `enough` is of interest.
    fn tried(mut rates: Rates, capacity: f64, enough: f64) -> Vec<f64> {
        let mut tried = Vec::new();
        while let Some(rate) = rates.next_rate() {
            tried.push(rate);
            rates.tell(rate <= capacity, rate > enough);
        }
        tried
    }

    fn highest(tried: &[f64], capacity: f64) -> f64 {
        let carried = tried.iter().copied().filter(|rate| *rate <= capacity);
        carried.fold(0.0, f64::max)
    }

    #[test]
    fn bisection_comes_close_from_either_side() {
        for first in [100.0, 10_000.0] {
            let tried = tried(Rates::bisection(first, 2.0), 2_345.0, 2_345.0);
            assert!(highest(&tried, 2_345.0) > 2_345.0 / CLOSE, "{tried:?}");
            assert!(tried.len() < 16, "{tried:?}");
        }
        assert!(tried(Rates::bisection(100.0, 2.0), 0.0, 0.0).len() < 10);
    }

    #[test]
    fn rates_may_rise_beyond_the_peak() {
        let tried = tried(Rates::bisection(100.0, 1.25), 345.0, 690.0);
        let top = tried.iter().position(|rate| *rate > 690.0).unwrap();
        assert_eq!(&tried[..3], [100.0, 125.0, 156.25]);
        let (rising, closing) = tried.split_at(top + 1);
        assert!(rising.is_sorted(), "{tried:?}");
        assert!(closing.iter().all(|rate| *rate < 400.0), "{tried:?}");
        assert!(highest(&tried, 345.0) > 345.0 / CLOSE, "{tried:?}");
        assert!(tried.len() < 20, "{tried:?}");
    }

    /// A random failure below rates that are carried does not end the search.
    #[test]
    fn the_highest_rate_that_is_carried_counts() {
        let mut rates = Rates::bisection(100.0, 2.0);
        for (rate, is_carried, is_enough) in [
            (100.0, true, false),
            (200.0, false, false),
            (400.0, true, false),
            (800.0, false, false),
            (1_600.0, false, true),
            (600.0, true, false),
            (700.0, false, false),
        ] {
            assert_eq!(rates.next_rate(), Some(rate));
            rates.tell(is_carried, is_enough);
        }
        assert_eq!(rates.next_rate(), Some(650.0));
    }

    #[test]
    fn rfc_7502_rises_and_falls_by_a_tenth() {
        let tried = tried(Rates::rfc_7502(100.0), 345.0, 345.0);
        assert_eq!(&tried[..4], [100.0, 110.0, 121.0, 133.0]);
        assert!(highest(&tried, 345.0) > 300.0, "{tried:?}");
        assert!(tried.len() < 60, "{tried:?}");
    }
}

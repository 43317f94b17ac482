//! A weighted draw over candidates seen one at a time.

/// Draws one of the offered candidates with a chance in proportion to its weight.
///
/// This is reservoir sampling with a reservoir of one: nothing is stored but the winner so far.
pub(crate) struct Lottery<T> {
    total: f64,
    pub(crate) winner: Option<T>,
}

impl<T> Lottery<T> {
    pub(crate) fn new() -> Self {
        Self {
            total: 0.0,
            winner: None,
        }
    }

    /// A lottery with a first candidate, who needs no luck.
    pub(crate) fn of(candidate: T, weight: f64) -> Self {
        Self {
            total: weight,
            winner: Some(candidate),
        }
    }

    pub(crate) fn offer(&mut self, candidate: T, weight: f64, rng: &mut fastrand::Rng) {
        self.total += weight;
        if self.winner.is_none() || rng.f64() * self.total < weight {
            self.winner = Some(candidate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_follow_the_weights() {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut wins = [0_u32; 3];
        for _ in 0..60_000 {
            let mut lottery = Lottery::new();
            for (candidate, weight) in [(0_usize, 1.0), (1, 2.0), (2, 3.0)] {
                lottery.offer(candidate, weight, &mut rng);
            }
            wins[lottery.winner.unwrap()] += 1;
        }
        for (won, expected) in wins.into_iter().zip([10_000.0, 20_000.0, 30_000.0]) {
            assert!((f64::from(won) / expected - 1.0).abs() < 0.03, "{wins:?}");
        }
    }
}

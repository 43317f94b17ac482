//! A weighted draw over candidates seen one at a time.

use std::hint::select_unpredictable;

/// A server that may be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// Its place in the pool.
    pub(crate) index: usize,
    /// The count that made its score, for the claim to find unchanged.
    pub(crate) observed: u64,
}

/// Draws one of the lowest-scored candidates with a chance in proportion to its weight.
///
/// This is reservoir sampling with a reservoir of one: nothing is stored but the winner so far.
/// Who wins can't be predicted, so the winner is replaced without a branch.
pub(crate) struct Lottery {
    best: f64,
    total: f64,
    winner: Candidate,
}

impl Lottery {
    pub(crate) fn new() -> Self {
        let nobody = Candidate {
            index: usize::MAX,
            observed: 0,
        };
        Self {
            best: f64::INFINITY,
            total: 0.0,
            winner: nobody,
        }
    }

    /// Scores are finite and weights positive.
    #[inline]
    pub(crate) fn offer(
        &mut self,
        candidate: Candidate,
        score: f64,
        weight: f64,
        rng: &mut fastrand::Rng,
    ) {
        let (better, tied) = (score < self.best, score == self.best);
        let total = weight + if better { 0.0 } else { self.total };
        let wins = better | (tied & (rng.f64() * total < weight));
        self.total = if better | tied { total } else { self.total };
        self.best = if better { score } else { self.best };
        let Candidate { index, observed } = self.winner;
        self.winner = Candidate {
            index: select_unpredictable(wins, candidate.index, index),
            observed: select_unpredictable(wins, candidate.observed, observed),
        };
    }

    pub(crate) fn winner(self) -> Option<Candidate> {
        self.best.is_finite().then_some(self.winner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_of_the_lowest_follow_the_weights() {
        const OFFERS: [(usize, f64, f64); 6] = [
            (3, 6.0, 1.0),
            (0, 5.0, 1.0),
            (4, 7.0, 9.0),
            (1, 5.0, 2.0),
            (2, 5.0, 3.0),
            (5, 5.5, 9.0),
        ];
        let mut rng = fastrand::Rng::with_seed(1);
        let mut wins = [0_u32; 6];
        for _ in 0..60_000 {
            let mut lottery = Lottery::new();
            for (index, score, weight) in OFFERS {
                let observed = index as u64 * 10;
                lottery.offer(Candidate { index, observed }, score, weight, &mut rng);
            }
            let winner = lottery.winner().unwrap();
            assert_eq!(winner.observed, winner.index as u64 * 10);
            wins[winner.index] += 1;
        }
        for (won, expected) in wins.into_iter().zip([10_000.0, 20_000.0, 30_000.0]) {
            assert!((f64::from(won) / expected - 1.0).abs() < 0.03, "{wins:?}");
        }
        assert_eq!(wins[3..], [0, 0, 0]);
        assert_eq!(Lottery::new().winner(), None);
    }
}

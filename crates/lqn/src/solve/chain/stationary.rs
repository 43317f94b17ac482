//! The stationary distribution of a chain, by Gauss and Seidel, sped up by reduced rank extrapolation
//! (Eddy 1979): of some iterates that follow each other the mixture that moves least is the next.

mod extrapolation;

use extrapolation::Iterates;

/// Sweeps at most.
const SWEEPS_MAX: u32 = 5_000;

/// A sweep that moves less chance than this is the last.
const SETTLED: f64 = 1e-10;

/// Rates between states.
#[derive(Default)]
pub(super) struct Rates {
    from: Vec<u32>,
    to: Vec<u32>,
    rate: Vec<f64>,
    states: u32,
}

/// How likely each state is.
pub(super) struct Stationary {
    pub(super) chances: Vec<f64>,
    pub(super) sweeps: u32,
    pub(super) is_settled: bool,
}

/// What comes into each state, one state after the other.
struct Incoming {
    /// Where each state's begins.
    starts: Vec<usize>,
    from: Vec<u32>,
    rate: Vec<f64>,
    /// Rates out of each state.
    out: Vec<f64>,
}

impl Rates {
    /// States are numbered from 0 and all are added as a source.
    pub(super) fn add(&mut self, from: u32, to: u32, rate: f64) {
        self.states = self.states.max(from + 1);
        if from != to {
            self.from.push(from);
            self.to.push(to);
            self.rate.push(rate);
        }
    }

    pub(super) fn solve(&self) -> Stationary {
        let incoming = self.incoming();
        let states = self.states as usize;
        let mut chances = vec![1.0 / states as f64; states];
        let mut last = Iterates::begin(&chances);
        for sweeps in 1..=SWEEPS_MAX {
            let moved = incoming.sweep(&mut chances);
            if moved < SETTLED {
                return Stationary {
                    chances,
                    sweeps,
                    is_settled: true,
                };
            }
            last.add(&mut chances, moved);
        }
        Stationary {
            chances,
            sweeps: SWEEPS_MAX,
            is_settled: false,
        }
    }

    fn incoming(&self) -> Incoming {
        let states = self.states as usize;
        let mut starts = vec![0; states + 1];
        let mut out = vec![0.0; states];
        for ((&from, &to), rate) in self.from.iter().zip(&self.to).zip(&self.rate) {
            starts[to as usize + 1] += 1;
            out[from as usize] += rate;
        }
        (0..states).for_each(|state| starts[state + 1] += starts[state]);
        let mut next = starts.clone();
        let mut incoming = Incoming {
            from: vec![0; self.from.len()],
            rate: vec![0.0; self.from.len()],
            starts,
            out,
        };
        for ((&from, &to), &rate) in self.from.iter().zip(&self.to).zip(&self.rate) {
            let place = &mut next[to as usize];
            incoming.from[*place] = from;
            incoming.rate[*place] = rate;
            *place += 1;
        }
        incoming
    }
}

impl Incoming {
    /// Balances all states, forth and back, and says how much chance moved.
    fn sweep(&self, chances: &mut [f64]) -> f64 {
        let mut moved = 0.0;
        (0..chances.len()).for_each(|state| moved += self.relax(state, chances));
        (0..chances.len())
            .rev()
            .for_each(|state| moved += self.relax(state, chances));
        let sum: f64 = chances.iter().sum();
        chances.iter_mut().for_each(|chance| *chance /= sum);
        moved / sum
    }

    /// Balances one state, and says by how much it changed.
    fn relax(&self, state: usize, chances: &mut [f64]) -> f64 {
        if self.out[state] == 0.0 {
            return 0.0;
        }
        let range = self.starts[state]..self.starts[state + 1];
        let flows = self.from[range.clone()].iter().zip(&self.rate[range]);
        let inflow: f64 = flows
            .map(|(&from, rate)| chances[from as usize] * rate)
            .sum();
        let chance = inflow / self.out[state];
        let moved = (chance - chances[state]).abs();
        chances[state] = chance;
        moved
    }
}

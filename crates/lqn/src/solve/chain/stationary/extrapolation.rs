//! Reduced rank extrapolation.

/// Steps from which the next iterate is extrapolated.
const STEPS: usize = 12;

/// Iterates that follow each other.
pub(super) struct Iterates {
    /// Since the last extrapolation.
    iterates: Vec<Vec<f64>>,
    /// What the last one began with, and how much chance had moved: to go back to.
    safe: Option<(Vec<f64>, f64)>,
    /// How much chance had moved when there were enough iterates the last time.
    before: f64,
    /// Iterates to let go by: the more, the less extrapolation gains, which can go round in circles.
    pause: usize,
    left: usize,
}

impl Iterates {
    pub(super) fn begin(chances: &[f64]) -> Self {
        Self {
            iterates: vec![chances.to_vec()],
            safe: None,
            before: f64::INFINITY,
            pause: 0,
            left: 0,
        }
    }

    /// Takes the next iterate, and goes on from a better one where there are enough.
    pub(super) fn add(&mut self, chances: &mut Vec<f64>, moved: f64) {
        if let Some((safe, before)) = self.safe.take()
            && moved > before
        {
            *chances = safe;
            self.iterates = vec![chances.clone()];
            return;
        }
        if self.left > 0 {
            self.left -= 1;
            self.iterates = vec![chances.clone()];
            return;
        }
        self.iterates.push(chances.clone());
        if self.iterates.len() <= STEPS {
            return;
        }
        if let Some(better) = self.extrapolate() {
            self.safe = Some((std::mem::replace(chances, better), moved));
        }
        self.pause = match moved < 0.5 * self.before {
            true => self.pause / 2,
            false => 2 * self.pause + STEPS,
        };
        self.left = self.pause;
        self.before = moved;
        self.iterates = vec![chances.clone()];
    }

    /// The mixture of the iterates whose own steps cancel as far as they can. Some chances may be below zero
    /// on the way.
    fn extrapolate(&self) -> Option<Vec<f64>> {
        let steps: Vec<Vec<f64>> = self
            .iterates
            .windows(2)
            .map(|pair| {
                pair[1]
                    .iter()
                    .zip(&pair[0])
                    .map(|(new, old)| new - old)
                    .collect()
            })
            .collect();
        let products = steps
            .iter()
            .map(|one| steps.iter().map(|other| product(one, other)).collect())
            .collect();
        let weights = solve(products, vec![1.0; steps.len()])?;
        let all: f64 = weights.iter().sum();
        let mut mixture = vec![0.0; self.iterates[0].len()];
        for (iterate, weight) in self.iterates[1..].iter().zip(&weights) {
            for (chance, &part) in mixture.iter_mut().zip(iterate) {
                *chance += part * weight / all;
            }
        }
        mixture
            .iter()
            .all(|chance| chance.is_finite())
            .then_some(mixture)
    }
}

fn product(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}

/// Solves linear equations of full rank by Gauss's elimination.
fn solve(mut rows: Vec<Vec<f64>>, mut right: Vec<f64>) -> Option<Vec<f64>> {
    let count = rows.len();
    for at in 0..count {
        let pivot = (at..count).max_by(|&a, &b| rows[a][at].abs().total_cmp(&rows[b][at].abs()))?;
        rows.swap(at, pivot);
        right.swap(at, pivot);
        let row = rows[at].clone();
        if row[at] == 0.0 {
            return None;
        }
        for below in at + 1..count {
            let factor = rows[below][at] / row[at];
            for (value, &above) in rows[below].iter_mut().zip(&row).skip(at) {
                *value -= factor * above;
            }
            right[below] -= factor * right[at];
        }
    }
    for at in (0..count).rev() {
        let known: f64 = (at + 1..count)
            .map(|place| rows[at][place] * right[place])
            .sum();
        right[at] = (right[at] - known) / rows[at][at];
    }
    Some(right)
}

use std::{f64::consts::TAU, time::Duration};

use fastrand::Rng;

/// The distribution of a random time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// Always the same.
    Constant(Duration),
    /// Memoryless, with this mean.
    Exponential(Duration),
    /// Normal, cut off at zero.
    Normal {
        /// The mean before the cut.
        mean: Duration,
        /// The standard deviation before the cut.
        deviation: Duration,
    },
    /// Log-normal: most are short, a few are very long.
    LogNormal {
        /// The mean.
        mean: Duration,
        /// The standard deviation.
        deviation: Duration,
    },
}

impl Law {
    /// No time at all.
    pub const ZERO: Self = Self::Constant(Duration::ZERO);

    /// Never: a time that no clock reaches.
    pub const NEVER: Self = Self::Constant(Duration::MAX);

    /// The mean of this distribution; the cut of a normal distribution is ignored.
    #[must_use]
    pub fn mean(&self) -> Duration {
        match *self {
            Self::Constant(mean)
            | Self::Exponential(mean)
            | Self::Normal { mean, .. }
            | Self::LogNormal { mean, .. } => mean,
        }
    }

    /// Draws one time.
    pub fn sample(&self, rng: &mut Rng) -> Duration {
        match *self {
            Self::Constant(time) => time,
            Self::Exponential(mean) => mean.mul_f64(exponential(rng)),
            Self::Normal { mean, deviation } => {
                let seconds = mean.as_secs_f64() + normal(rng) * deviation.as_secs_f64();
                Duration::from_secs_f64(seconds.max(0.0))
            }
            Self::LogNormal { mean, deviation } => mean.mul_f64(log_normal(mean, deviation, rng)),
        }
    }
}

/// Exponential with mean 1.
pub(crate) fn exponential(rng: &mut Rng) -> f64 {
    -positive(rng).ln()
}

/// Normal with mean 0 and deviation 1 (Box and Muller).
fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * positive(rng).ln()).sqrt() * (TAU * rng.f64()).cos()
}

/// Log-normal with mean 1, and with the relative deviation of a law with this mean and deviation.
fn log_normal(mean: Duration, deviation: Duration, rng: &mut Rng) -> f64 {
    if mean.is_zero() {
        return 0.0;
    }
    let variation = deviation.as_secs_f64() / mean.as_secs_f64();
    let variance = (variation * variation).ln_1p();
    (normal(rng) * variance.sqrt() - variance / 2.0).exp()
}

/// Uniform on (0, 1], so that its logarithm is finite.
fn positive(rng: &mut Rng) -> f64 {
    1.0 - rng.f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laws_have_their_mean_and_deviation() {
        let ms = Duration::from_millis;
        check(Law::Constant(ms(20)), 20.0, 0.0);
        check(Law::Exponential(ms(20)), 20.0, 20.0);
        let normal = Law::Normal {
            mean: ms(20),
            deviation: ms(3),
        };
        check(normal, 20.0, 3.0);
        let log_normal = Law::LogNormal {
            mean: ms(20),
            deviation: ms(10),
        };
        check(log_normal, 20.0, 10.0);
    }

    fn check(law: Law, mean_ms: f64, deviation_ms: f64) {
        let mut rng = Rng::with_seed(7);
        let samples: Vec<f64> = (0..200_000)
            .map(|_| law.sample(&mut rng).as_secs_f64() * 1e3)
            .collect();
        let mean = samples.iter().sum::<f64>() / samples.len() as f64;
        let variance =
            samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / samples.len() as f64;
        assert!((mean - mean_ms).abs() < 0.2, "{law:?}: mean {mean}");
        assert!(
            (variance.sqrt() - deviation_ms).abs() < 0.2,
            "{law:?}: deviation {}",
            variance.sqrt()
        );
    }
}

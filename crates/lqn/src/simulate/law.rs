//! Random times with a given mean and squared coefficient of variation.

/// A distribution of times.
#[derive(Clone, Copy, Debug)]
pub(super) enum Law {
    Constant(f64),
    Exponential(f64),
    /// Shape above 1, and scale.
    Gamma {
        shape: f64,
        scale: f64,
    },
    /// Two exponentials with balanced means.
    Hyperexponential {
        first: f64,
        means: [f64; 2],
    },
}

impl Law {
    pub(super) fn new(mean: f64, cvsq: f64) -> Self {
        if mean == 0.0 || cvsq < 1e-6 {
            Self::Constant(mean)
        } else if cvsq < 1.0 {
            Self::Gamma {
                shape: 1.0 / cvsq,
                scale: mean * cvsq,
            }
        } else if cvsq == 1.0 {
            Self::Exponential(mean)
        } else {
            let first = 0.5 * (1.0 + ((cvsq - 1.0) / (cvsq + 1.0)).sqrt());
            let means = [mean / (2.0 * first), mean / (2.0 * (1.0 - first))];
            Self::Hyperexponential { first, means }
        }
    }

    pub(super) fn sample(&self, rng: &mut fastrand::Rng) -> f64 {
        match *self {
            Self::Constant(value) => value,
            Self::Exponential(mean) => exponential(mean, rng),
            Self::Gamma { shape, scale } => scale * gamma(shape, rng),
            Self::Hyperexponential { first, means } => {
                exponential(means[usize::from(rng.f64() >= first)], rng)
            }
        }
    }
}

pub(super) fn exponential(mean: f64, rng: &mut fastrand::Rng) -> f64 {
    -mean * (1.0 - rng.f64()).ln()
}

/// Marsaglia and Tsang 2000, for shapes of at least 1.
fn gamma(shape: f64, rng: &mut fastrand::Rng) -> f64 {
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(rng);
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && (1.0 - rng.f64()).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

/// Box and Muller.
fn normal(rng: &mut fastrand::Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.f64()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_variations_are_as_asked() {
        let mut rng = fastrand::Rng::with_seed(1);
        for cvsq in [0.0, 0.1, 0.5, 0.9, 1.0, 2.0, 5.0] {
            let law = Law::new(3.0, cvsq);
            let samples: Vec<_> = (0..200_000).map(|_| law.sample(&mut rng)).collect();
            let count = samples.len() as f64;
            let mean = samples.iter().sum::<f64>() / count;
            let variance = samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
            assert!((mean / 3.0 - 1.0).abs() < 0.02, "{cvsq}: mean {mean}");
            assert!(
                (variance / 9.0 - cvsq).abs() < 0.05 * (cvsq + 0.01),
                "{cvsq}: {variance}"
            );
        }
    }
}

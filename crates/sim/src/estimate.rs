//! Means and their confidence intervals.

/// A mean over independent runs, and the half-width of its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// The mean is at most this far from the true value, with 95 % confidence; none for a single
    /// run, which gives no interval.
    pub half: Option<f64>,
}

/// The 97.5 % quantiles of Student's t for 1 to 30 degrees of freedom.
const STUDENT: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// The same for more: the normal law's.
const NORMAL: f64 = 1.96;

impl Estimate {
    /// Of samples that are independent and nearly normal; without samples, not a number.
    #[must_use]
    pub fn of(samples: &[f64]) -> Self {
        let count = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / count;
        let half = (samples.len() > 1).then(|| {
            let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
            let deviation = (squares / (count - 1.0)).sqrt();
            let quantile = STUDENT.get(samples.len() - 2).unwrap_or(&NORMAL);
            quantile * deviation / count.sqrt()
        });
        Self { mean, half }
    }

    /// The mean of the samples, and the half-width of the interval that contains one more sample
    /// with 95 % confidence.
    #[must_use]
    pub fn of_one_more(self, samples: usize) -> Self {
        let wider = (samples as f64 + 1.0).sqrt();
        Self {
            half: self.half.map(|half| half * wider),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_students() {
        let five = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(five.mean, 3.0);
        let half = five.half.unwrap();
        assert!(
            (half - 2.776 * (2.5_f64 / 5.0).sqrt()).abs() < 1e-9,
            "{half}"
        );
        assert_eq!(
            Estimate::of(&[7.0]),
            Estimate {
                mean: 7.0,
                half: None
            }
        );
        assert_eq!(Estimate::of(&[7.0; 100]).half, Some(0.0));
        let more = five.of_one_more(5).half.unwrap();
        assert!(
            (more - 2.776 * (2.5_f64 * 1.2).sqrt()).abs() < 1e-9,
            "{more}"
        );
    }
}

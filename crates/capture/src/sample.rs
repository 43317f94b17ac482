//! Means with their confidence intervals.

/// Times of one kind, in milliseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    count: u64,
    mean: f64,
    /// The sum of the squared distances from the mean (Welford 1962).
    squares: f64,
    least: f64,
    greatest: f64,
}

impl Sample {
    /// Adds a value.
    pub fn add(&mut self, value: f64) {
        if self.count == 0 {
            (self.least, self.greatest) = (value, value);
        }
        self.count += 1;
        let distance = value - self.mean;
        self.mean += distance / self.count as f64;
        self.squares += distance * (value - self.mean);
        self.least = self.least.min(value);
        self.greatest = self.greatest.max(value);
    }

    /// The number of values.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The mean; 0 without values.
    #[must_use]
    pub const fn mean(&self) -> f64 {
        self.mean
    }

    /// The least value; 0 without values.
    #[must_use]
    pub const fn least(&self) -> f64 {
        self.least
    }

    /// The greatest value; 0 without values.
    #[must_use]
    pub const fn greatest(&self) -> f64 {
        self.greatest
    }

    /// Half the width of the mean's 95 % confidence interval (Student's t); none for fewer than two
    /// values.
    #[must_use]
    pub fn ci95(&self) -> Option<f64> {
        let freedom = self.count.checked_sub(1).filter(|&freedom| freedom > 0)?;
        let deviation = (self.squares / freedom as f64).sqrt();
        let t = distrs::StudentsT::ppf(0.975, freedom as f64);
        Some(t * deviation / (self.count as f64).sqrt())
    }
}

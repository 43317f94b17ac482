//! What the rounds of a measurement amount to.

/// A figure over the rounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Range {
    /// None over no values.
    pub(crate) fn over(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let middle = values.len() / 2;
        let lower = if values.len().is_multiple_of(2) {
            values[middle - 1]
        } else {
            values[middle]
        };
        Some(Self {
            median: (lower + values[middle]) / 2.0,
            min,
            max,
        })
    }

    pub(crate) fn text(&self) -> String {
        format!("{:.1} ({:.1}-{:.1})", self.median, self.min, self.max)
    }
}

/// The median of values; of none, no number.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    Range::over(values).map_or(f64::NAN, |range| range.median)
}

/// Whether a bar is.
pub(crate) fn verdict(holds: bool) -> &'static str {
    if holds { "held" } else { "missed" }
}

use crate::Point;

/// The label and the scale of an axis.
#[derive(Clone, Debug)]
pub struct Axis {
    pub(crate) label: String,
    pub(crate) log: bool,
}

impl Axis {
    /// An axis with equal steps; the label names the unit.
    #[must_use]
    pub fn linear(label: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            log: false,
        }
    }

    /// An axis with equal ratios.
    #[must_use]
    pub fn log(label: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            log: true,
        }
    }

    pub(crate) fn shows(&self, value: f64) -> bool {
        value.is_finite() && (!self.log || value > 0.0)
    }

    pub(crate) fn shows_interval(&self, point: &Point) -> bool {
        let ends = point.interval;
        ends.is_some_and(|(low, high)| self.shows(low) && self.shows(high))
    }

    /// The range from the least to the greatest value. It starts at zero if the values stay
    /// readable.
    pub(crate) fn range(&self, values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
        let extremes = values.fold(None, |extremes: Option<(f64, f64)>, value| {
            let (low, high) = extremes.unwrap_or((value, value));
            Some((low.min(value), high.max(value)))
        });
        let (low, high) = extremes.unwrap_or((1.0, 2.0));
        let low = if !self.log && low > 0.0 && low < 0.5 * high {
            0.0
        } else {
            low
        };
        if low < high {
            low..high
        } else if self.log {
            low / 2.0..low * 2.0
        } else if low == 0.0 {
            0.0..1.0
        } else {
            low - 1.0..low + 1.0
        }
    }
}

/// Writes a number at an axis, with no more digits than it needs.
pub(crate) fn tick(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-3..1e6).contains(&size) {
        format!("{value:e}")
    } else {
        // Steps like 0.1 gather errors in the last binary digits.
        let rounded = format!("{value:.4}");
        rounded
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_short() {
        let ticks = [0.1 + 0.2, 200.0, 0.0, 1e-9, 2.5e7, 1e-3].map(tick);
        assert_eq!(ticks, ["0.3", "200", "0", "1e-9", "2.5e7", "0.001"]);
    }
}

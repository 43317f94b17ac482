//! The results of all runs of a scenario.

use sim::{Estimate, Outcome};

use super::{
    metrics::{METRICS, OCCUPANCY_METRICS, PEAK, occupancy_curve},
    scenario::{Axis, AxisName, Bar, Bound, Offered, Place, Scenario, Selection},
};

/// All points of a scenario.
pub(crate) struct Results {
    pub(crate) axes: [Axis; AxisName::ALL.len()],
    /// The names of the metrics.
    pub(crate) metrics: Vec<&'static str>,
    pub(crate) points: Vec<Point>,
}

/// One experiment, run with several seeds.
pub(crate) struct Point {
    pub(crate) place: Place,
    pub(crate) runs: Vec<Measures>,
}

/// The measurements of one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measures {
    /// In the order of [`Results::metrics`].
    values: Vec<f64>,
    /// In the order of [`OCCUPANCY_METRICS`]; empty unless the run recorded the occupancy.
    curves: Vec<Vec<f64>>,
}

/// Whether a bar holds.
pub(crate) struct Verdict {
    pub(crate) value: Estimate,
    /// The mean keeps the bound.
    pub(crate) holds: bool,
    /// The bound lies within the interval of the mean, so other seeds may say otherwise.
    pub(crate) is_open: bool,
}

impl Measures {
    pub(crate) fn of(outcome: &Outcome, watches_occupancy: bool) -> Self {
        let curve = |(name, _): &(&str, &str)| occupancy_curve(name, outcome);
        let curves = OCCUPANCY_METRICS.iter().filter(|_| watches_occupancy);
        Self {
            values: METRICS.iter().map(|metric| (metric.of)(outcome)).collect(),
            curves: curves.map(curve).collect(),
        }
    }

    pub(crate) fn peak(per_s: f64) -> Self {
        Self {
            values: vec![per_s],
            curves: Vec::new(),
        }
    }
}

impl Results {
    pub(crate) fn new(scenario: &Scenario, points: Vec<Point>) -> Self {
        let metrics = match scenario.offered {
            Offered::Peak(_) => vec![PEAK],
            Offered::Rate(_) | Offered::Load(_) => {
                METRICS.iter().map(|metric| metric.name).collect()
            }
        };
        Self {
            axes: scenario.axes(),
            metrics,
            points,
        }
    }

    /// The axes with more than one value.
    pub(crate) fn varied(&self) -> impl Iterator<Item = &Axis> {
        self.axes.iter().filter(|axis| axis.values.len() > 1)
    }

    /// A point's value on an axis.
    pub(crate) fn label(&self, point: &Point, axis: AxisName) -> &str {
        let axis = axis as usize;
        &self.axes[axis].values[point.place[axis]]
    }

    /// The points that a selection leaves.
    pub(crate) fn select<'a>(&'a self, only: &'a Selection) -> impl Iterator<Item = &'a Point> {
        self.points.iter().filter(|point| {
            let is_in = |(axis, labels): &(AxisName, Vec<String>)| {
                labels.iter().any(|label| label == self.label(point, *axis))
            };
            only.iter().all(is_in)
        })
    }

    /// A metric's values at a point, by seed.
    fn values(&self, point: &Point, metric: &str) -> Vec<f64> {
        let Some(place) = self.metrics.iter().position(|name| *name == metric) else {
            return Vec::new();
        };
        point.runs.iter().map(|run| run.values[place]).collect()
    }

    pub(crate) fn estimate(&self, point: &Point, metric: &str) -> Estimate {
        Estimate::of(&self.values(point, metric))
    }

    /// A curve over the occupancy: at each place, the mean of the seeds.
    pub(crate) fn curve(&self, point: &Point, metric: &str) -> Vec<Estimate> {
        let place = OCCUPANCY_METRICS
            .iter()
            .position(|(name, _)| *name == metric);
        let curves = point.runs.iter().filter_map(|run| run.curves.get(place?));
        let curves: Vec<&Vec<f64>> = curves.collect();
        let len = curves.iter().map(|curve| curve.len()).max().unwrap_or(0);
        let past_end = |curve: &[f64]| match metric {
            // A sum stays what it is; beyond the last, nothing is added and none find more.
            "occupancy_cdf" | "response_cumulative_ms" => curve.last().copied().unwrap_or(0.0),
            _ => 0.0,
        };
        let at = |found: usize| {
            let value =
                |curve: &&Vec<f64>| curve.get(found).copied().unwrap_or_else(|| past_end(curve));
            Estimate::of(&curves.iter().map(value).collect::<Vec<_>>())
        };
        (0..len).map(at).collect()
    }

    /// The ratio by seed, because the seeds of both are the same.
    pub(crate) fn judge(&self, bar: &Bar) -> Option<Verdict> {
        let values = |selection| {
            let point = self.select(selection).next()?;
            Some(self.values(point, &bar.metric))
        };
        let mut of = values(&bar.of)?;
        if let Some(over) = &bar.over {
            let over = values(over)?;
            of.iter_mut().zip(over).for_each(|(of, over)| *of /= over);
        }
        let value = Estimate::of(&of);
        let (bound, holds) = match bar.bound {
            Bound::Least(least) => (least, value.mean >= least),
            Bound::Most(most) => (most, value.mean <= most),
        };
        let half = value.half.unwrap_or_default();
        Some(Verdict {
            value,
            holds,
            is_open: (value.mean - bound).abs() < half,
        })
    }
}

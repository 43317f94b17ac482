use plotters::{
    coord::ranged1d::{AsRangedCoord, ValueFormatter},
    prelude::*,
};

const SIZE: (u32, u32) = (760, 420);
const FONT: &str = "sans-serif";

/// Colours that stay apart on white, also for most who see fewer of them.
const COLOURS: [RGBColor; 12] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(96, 96, 96),
    RGBColor(120, 60, 160),
    RGBColor(150, 75, 20),
    RGBColor(170, 170, 0),
    RGBColor(200, 20, 60),
    RGBColor(20, 60, 90),
];

/// Curves over two axes.
#[derive(Clone, Debug)]
pub struct Plot {
    title: String,
    x: Axis,
    y: Axis,
    series: Vec<Series>,
}

/// What an axis shows.
#[derive(Clone, Debug)]
pub struct Axis {
    label: String,
    log: bool,
}

/// Points that belong together.
#[derive(Clone, Debug)]
pub struct Series {
    name: String,
    joined: bool,
    points: Vec<Point>,
}

/// A point, perhaps with the interval that its true height lies in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Where it stands.
    pub x: f64,
    /// Its height.
    pub y: f64,
    /// The lower and the upper end of its interval.
    pub interval: Option<(f64, f64)>,
}

impl Plot {
    /// A plot without curves.
    #[must_use]
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self {
            title: title.into(),
            x,
            y,
            series: Vec::new(),
        }
    }

    /// The plot with one series more; each has a colour of its own.
    #[must_use]
    pub fn with(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    /// The plot as an SVG element. Points that an axis can't show (not finite, or not above zero
    /// on a logarithmic one) are left out.
    #[must_use]
    pub fn svg(&self) -> String {
        let mut svg = String::new();
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let (x, y) = (self.x_range(), self.y_range());
        let drawn = match (self.x.log, self.y.log) {
            (false, false) => self.draw(&root, x, y),
            (false, true) => self.draw(&root, x, (y.start..y.end).log_scale()),
            (true, false) => self.draw(&root, (x.start..x.end).log_scale(), y),
            (true, true) => {
                let x = (x.start..x.end).log_scale();
                self.draw(&root, x, (y.start..y.end).log_scale())
            }
        };
        drawn.expect("writing to a string does not fail");
        drop(root);
        svg
    }

    fn draw<X, Y>(
        &self,
        root: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
        x: X,
        y: Y,
    ) -> Result<(), DrawingAreaErrorKind<std::io::Error>>
    where
        X: AsRangedCoord<Value = f64>,
        Y: AsRangedCoord<Value = f64>,
        X::CoordDescType: ValueFormatter<f64>,
        Y::CoordDescType: ValueFormatter<f64>,
    {
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(root)
            .caption(&self.title, (FONT, 18))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .x_desc(&self.x.label)
            .y_desc(&self.y.label)
            .x_label_formatter(&|value| tick(*value))
            .y_label_formatter(&|value| tick(*value))
            .axis_desc_style((FONT, 14))
            .label_style((FONT, 12))
            .light_line_style(WHITE)
            .draw()?;
        for (series, colour) in self.series.iter().zip(COLOURS.iter().cycle()) {
            self.draw_series(&mut chart, series, *colour)?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .label_font((FONT, 12))
            .draw()
    }

    fn draw_series<X, Y>(
        &self,
        chart: &mut ChartContext<'_, SVGBackend<'_>, Cartesian2d<X, Y>>,
        series: &Series,
        colour: RGBColor,
    ) -> Result<(), DrawingAreaErrorKind<std::io::Error>>
    where
        X: Ranged<ValueType = f64>,
        Y: Ranged<ValueType = f64>,
    {
        let points: Vec<Point> = self.shown(series).collect();
        if series.joined {
            let line = points.iter().map(|point| (point.x, point.y));
            chart.draw_series(LineSeries::new(line, colour.stroke_width(2)))?;
        }
        let bars = points.iter().filter_map(|point| {
            let (low, high) = point.interval.filter(|_| self.y.shows_interval(point))?;
            Some(PathElement::new(
                vec![(point.x, low), (point.x, high)],
                colour,
            ))
        });
        chart.draw_series(bars)?;
        let at = points.iter().map(|point| (point.x, point.y));
        if series.joined {
            let dots = at.map(|at| Circle::new(at, 2, colour.filled()));
            chart
                .draw_series(dots)?
                .label(&series.name)
                .legend(move |(x, y)| {
                    PathElement::new(vec![(x, y), (x + 16, y)], colour.stroke_width(2))
                });
        } else {
            let crosses = at.map(|at| Cross::new(at, 4, colour.stroke_width(2)));
            chart
                .draw_series(crosses)?
                .label(&series.name)
                .legend(move |(x, y)| Cross::new((x + 8, y), 4, colour.stroke_width(2)));
        }
        Ok(())
    }

    fn shown<'a>(&'a self, series: &'a Series) -> impl Iterator<Item = Point> + 'a {
        let points = series.points.iter().copied();
        points.filter(|point| self.x.shows(point.x) && self.y.shows(point.y))
    }

    fn x_range(&self) -> std::ops::Range<f64> {
        let points = self.series.iter().flat_map(|series| self.shown(series));
        self.x.range(points.map(|point| point.x))
    }

    fn y_range(&self) -> std::ops::Range<f64> {
        let points = self.series.iter().flat_map(|series| self.shown(series));
        let heights = points.flat_map(|point| {
            let ends = point.interval.filter(|_| self.y.shows_interval(&point));
            let (low, high) = ends.unwrap_or((point.y, point.y));
            [low, point.y, high]
        });
        let range = self.y.range(heights);
        if self.y.log {
            range.start / 1.3..range.end * 1.3
        } else {
            range.start..range.end + 0.08 * (range.end - range.start)
        }
    }
}

impl Axis {
    /// An axis of equal steps; the label names the unit.
    #[must_use]
    pub fn linear(label: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            log: false,
        }
    }

    /// An axis of equal ratios.
    #[must_use]
    pub fn log(label: impl Into<String>) -> Self {
        Self {
            label: label.into(),
            log: true,
        }
    }

    fn shows(&self, value: f64) -> bool {
        value.is_finite() && (!self.log || value > 0.0)
    }

    fn shows_interval(&self, point: &Point) -> bool {
        let ends = point.interval;
        ends.is_some_and(|(low, high)| self.shows(low) && self.shows(high))
    }

    /// From the least to the greatest value; from zero where that hides nothing.
    fn range(&self, values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
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
        } else {
            low - 1.0..low + 1.0
        }
    }
}

impl Series {
    /// Points joined by a line, in their order.
    #[must_use]
    pub fn line<P: Into<Point>>(
        name: impl Into<String>,
        points: impl IntoIterator<Item = P>,
    ) -> Self {
        Self {
            name: name.into(),
            joined: true,
            points: points.into_iter().map(Into::into).collect(),
        }
    }

    /// Points that stand alone: a reference, or single measurements.
    #[must_use]
    pub fn marks<P: Into<Point>>(
        name: impl Into<String>,
        points: impl IntoIterator<Item = P>,
    ) -> Self {
        Self {
            joined: false,
            ..Self::line(name, points)
        }
    }
}

impl From<(f64, f64)> for Point {
    fn from((x, y): (f64, f64)) -> Self {
        Self {
            x,
            y,
            interval: None,
        }
    }
}

/// A number at an axis, with no more digits than it needs.
fn tick(value: f64) -> String {
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

    fn plot(x: Axis, y: Axis, points: &[(f64, f64)]) -> String {
        let points = points.iter().copied();
        Plot::new("A <title>", x, y)
            .with(Series::line("curve", points.clone()))
            .with(Series::marks("paper", points))
            .svg()
    }

    #[test]
    fn every_kind_of_axis_draws() {
        let points = [(1.0, 0.5), (10.0, 400.0)];
        for x in [Axis::linear("x"), Axis::log("x")] {
            for y in [Axis::linear("y"), Axis::log("y")] {
                let svg = plot(x.clone(), y, &points);
                assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
                assert!(
                    svg.contains("A &lt;title&gt;") && svg.contains("paper"),
                    "{svg}"
                );
            }
        }
    }

    #[test]
    fn what_an_axis_cannot_show_is_left_out() {
        let y = Axis::log("y");
        let nothing = plot(Axis::linear("x"), y.clone(), &[]);
        let bad = [
            (1.0, 0.0),
            (2.0, -1.0),
            (f64::NAN, 1.0),
            (3.0, f64::INFINITY),
        ];
        assert_eq!(plot(Axis::linear("x"), y, &bad), nothing);
    }

    #[test]
    fn one_point_is_a_plot() {
        let svg = plot(Axis::log("x"), Axis::linear("y"), &[(5.0, 5.0)]);
        assert!(svg.contains("circle"));
    }

    #[test]
    fn ticks_are_short() {
        let ticks = [0.1 + 0.2, 200.0, 0.0, 1e-9, 2.5e7, 1e-3].map(tick);
        assert_eq!(ticks, ["0.3", "200", "0", "1e-9", "2.5e7", "0.001"]);
    }
}

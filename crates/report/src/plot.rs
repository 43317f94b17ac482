use plotters::{
    coord::{
        Shift,
        ranged1d::{AsRangedCoord, ValueFormatter},
    },
    prelude::*,
};

use crate::{Axis, axis::tick};

const SIZE: (u32, u32) = (900, 420);
/// The width of the names beside the curves.
const LEGEND: u32 = 180;
pub(crate) const FONT: &str = "sans-serif";

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(crate) type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// Colors that differ clearly on white, also for most people with color blindness.
pub(crate) const COLOURS: [RGBColor; 12] = [
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

/// Points of one curve, or of one set of marks.
#[derive(Clone, Debug)]
pub struct Series {
    name: String,
    joined: bool,
    points: Vec<Point>,
}

/// A point, and the interval of its true height if that is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The position on the x axis.
    pub x: f64,
    /// The position on the y axis.
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

    /// Adds a series. Each has a color of its own.
    #[must_use]
    pub fn with(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    /// Draws the plot as an SVG element. It leaves out points that an axis can't show: those that
    /// are not finite, or not above zero on a logarithmic axis.
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

    fn draw<X, Y>(&self, root: &Area<'_>, x: X, y: Y) -> Drawn
    where
        X: AsRangedCoord<Value = f64>,
        Y: AsRangedCoord<Value = f64>,
        X::CoordDescType: ValueFormatter<f64>,
        Y::CoordDescType: ValueFormatter<f64>,
    {
        root.fill(&WHITE)?;
        let (curves, names) = root.split_horizontally(SIZE.0 - LEGEND);
        let mut chart = ChartBuilder::on(&curves)
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
        self.draw_legend(&names)
    }

    fn draw_legend(&self, names: &Area<'_>) -> Drawn {
        let rows = (48..).step_by(20);
        for ((series, colour), y) in self.series.iter().zip(COLOURS.iter().cycle()).zip(rows) {
            if series.joined {
                let line = vec![(0, y), (18, y)];
                names.draw(&PathElement::new(line, colour.stroke_width(2)))?;
            } else {
                names.draw(&Cross::new((9, y), 4, colour.stroke_width(2)))?;
            }
            names.draw(&Text::new(series.name.as_str(), (26, y - 6), (FONT, 12)))?;
        }
        Ok(())
    }

    fn draw_series<X, Y>(
        &self,
        chart: &mut ChartContext<'_, SVGBackend<'_>, Cartesian2d<X, Y>>,
        series: &Series,
        colour: RGBColor,
    ) -> Drawn
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
            chart.draw_series(at.map(|at| Circle::new(at, 2, colour.filled())))?;
        } else {
            chart.draw_series(at.map(|at| Cross::new(at, 4, colour.stroke_width(2))))?;
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

    /// Points without a line: a reference, or single measurements.
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
}

use plotters::{
    coord::{
        Shift,
        ranged1d::{AsRangedCoord, ValueFormatter},
    },
    element::DashedPathElement,
    prelude::*,
};

use crate::{
    Axis,
    axis::tick,
    theme::{OF_FAILURES, colour, themed},
};

/// So narrow that its labels can be read on a phone.
const WIDTH: u32 = 560;
const HEIGHT: u32 = 350;
/// A row of names below the curves, and how wide a letter of them is, with some to spare.
const NAMES: u32 = 24;
const LETTER: usize = 8;
/// What stands before a name.
const SAMPLE: usize = 44;
/// Points of a curve that are marked. More would hide it.
const MARKED: usize = 40;
pub(crate) const FONT: &str = "sans-serif";

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(crate) type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

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
    of_failures: bool,
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

    /// Adds a series. Each has a colour, a dash and a mark of its own.
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
        let root = SVGBackend::with_string(&mut svg, self.size()).into_drawing_area();
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
        themed(&svg, &self.title)
    }

    fn size(&self) -> (u32, u32) {
        let rows = self.series.len().div_ceil(self.columns()) as u32;
        (WIDTH, HEIGHT + rows * NAMES)
    }

    /// How many names stand beside each other below the curves.
    fn columns(&self) -> usize {
        let letters = self.series.iter().map(|series| series.name.chars().count());
        let widest = SAMPLE + LETTER * letters.max().unwrap_or(0);
        (WIDTH as usize / widest).clamp(1, self.series.len().max(1))
    }

    fn draw<X, Y>(&self, root: &Area<'_>, x: X, y: Y) -> Drawn
    where
        X: AsRangedCoord<Value = f64>,
        Y: AsRangedCoord<Value = f64>,
        X::CoordDescType: ValueFormatter<f64>,
        Y::CoordDescType: ValueFormatter<f64>,
    {
        root.fill(&WHITE)?;
        let (curves, names) = root.split_vertically(HEIGHT);
        let mut chart = ChartBuilder::on(&curves)
            .caption(&self.title, (FONT, 17))
            .margin(8)
            .margin_right(16)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .x_desc(&self.x.label)
            .y_desc(&self.y.label)
            .x_label_formatter(&|value| tick(*value))
            .y_label_formatter(&|value| tick(*value))
            .x_labels(7)
            .y_labels(8)
            .axis_desc_style((FONT, 15))
            .label_style((FONT, 14))
            .light_line_style(TRANSPARENT)
            .draw()?;
        for place in 0..self.series.len() {
            self.draw_series(&mut chart, place)?;
        }
        self.draw_names(&names)
    }

    fn draw_names(&self, names: &Area<'_>) -> Drawn {
        let columns = self.columns();
        let column = WIDTH as usize / columns;
        for (place, series) in self.series.iter().enumerate() {
            let (x, y) = ((place % columns * column + 10) as i32, place / columns);
            let (y, colour) = ((y as u32 * NAMES + 10) as i32, series.colour(place));
            if series.joined {
                names.draw(&curve(place, vec![(x, y), (x + 26, y)], colour))?;
            }
            names.draw(&mark(place, series.joined, (x + 13, y), colour))?;
            names.draw(&Text::new(
                series.name.as_str(),
                (x + 34, y - 7),
                (FONT, 14),
            ))?;
        }
        Ok(())
    }

    fn draw_series<X, Y>(
        &self,
        chart: &mut ChartContext<'_, SVGBackend<'_>, Cartesian2d<X, Y>>,
        place: usize,
    ) -> Drawn
    where
        X: Ranged<ValueType = f64>,
        Y: Ranged<ValueType = f64>,
    {
        let series = &self.series[place];
        let colour = series.colour(place);
        let points: Vec<Point> = self.shown(series).collect();
        let at = points.iter().map(|point| (point.x, point.y));
        if series.joined {
            chart.draw_series([curve(place, at.clone().collect(), colour)])?;
        }
        let bars = points.iter().filter_map(|point| {
            let (low, high) = point.interval.filter(|_| self.y.shows_interval(point))?;
            Some(PathElement::new(
                vec![(point.x, low), (point.x, high)],
                colour,
            ))
        });
        chart.draw_series(bars)?;
        if !series.joined || points.len() <= MARKED {
            chart.draw_series(at.map(|at| mark(place, series.joined, at, colour)))?;
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
            of_failures: false,
            points: points.into_iter().map(Into::into).collect(),
        }
    }

    /// The same in the colour of failures.
    #[must_use]
    pub fn of_failures(self) -> Self {
        Self {
            of_failures: true,
            ..self
        }
    }

    fn colour(&self, place: usize) -> RGBColor {
        match self.of_failures {
            true => OF_FAILURES,
            false => colour(place),
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

/// The line of a curve. Each second and third is dashed, so that one that lies on another hides it no more.
fn curve<'a, At>(
    place: usize,
    points: Vec<At>,
    colour: RGBColor,
) -> DynElement<'static, SVGBackend<'a>, At>
where
    At: Clone + 'static,
{
    let style = colour.stroke_width(2);
    match place % 3 {
        0 => PathElement::new(points, style).into_dyn(),
        1 => DashedPathElement::new(points, 9, 5, style).into_dyn(),
        _ => DashedPathElement::new(points, 3, 4, style).into_dyn(),
    }
}

/// The mark of a point: of a curve by its place, or a cross.
fn mark<'a, At>(
    place: usize,
    joined: bool,
    at: At,
    colour: RGBColor,
) -> DynElement<'static, SVGBackend<'a>, At>
where
    At: Clone + 'static,
{
    match place % 3 {
        _ if !joined => Cross::new(at, 5, colour.stroke_width(2)).into_dyn(),
        0 => Circle::new(at, 3, colour.filled()).into_dyn(),
        1 => TriangleMarker::new(at, 5, colour.filled()).into_dyn(),
        _ => Circle::new(at, 4, colour.stroke_width(1)).into_dyn(),
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
